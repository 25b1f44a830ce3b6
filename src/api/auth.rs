//! Authentication and authorization, before the query and the body are read.

use std::sync::Arc;

use http::{HeaderMap, header};
use jiff::Timestamp;

use super::{
    context::RequestContext,
    error::{ApiError, AuthFailure},
    key_cache::{KeyCache, Lookup},
    operations::Operation,
    rate_limit::{FailedAuthLimiter, LimitKind, Quota},
};
use crate::{
    api_key::{KeyHash, Scopes},
    clock::Clock,
};

pub struct Authenticator {
    keys: Arc<KeyCache>,
    failed_auth: FailedAuthLimiter,
    clock: Clock,
}

/// A client with a valid API key, within its rate limit.
pub struct Caller {
    hash: KeyHash,
    api_key_id: i64,
    scopes: Scopes,
    now: Timestamp,
}

/// Proof that the caller may perform the operation. No handler can be called
/// without one.
pub struct Authorized {
    pub hash: KeyHash,
    pub api_key_id: i64,
    pub scopes: Scopes,
    /// When the request arrived. The clock is read once per request, so a key
    /// cannot expire halfway through.
    pub now: Timestamp,
}

impl Authenticator {
    pub fn new(keys: Arc<KeyCache>, failed_auth: FailedAuthLimiter, clock: Clock) -> Self {
        Self {
            keys,
            failed_auth,
            clock,
        }
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub fn keys(&self) -> &Arc<KeyCache> {
        &self.keys
    }

    /// Identifies the caller by its API key, and charges the request to the
    /// key's rate limit.
    ///
    /// Failures are charged to the client's address. They never cause a valid key to be
    /// rejected: many clients may share an address.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        context: &mut RequestContext,
    ) -> Result<Caller, ApiError> {
        let (client, at, now) = (context.client, context.started, self.clock.now());
        let fail =
            |error| match ensure_granted(self.failed_auth.charge(client, at), LimitKind::Address) {
                Ok(()) => error,
                Err(rate_limited) => rate_limited,
            };
        let hash = presented_key(headers).map_err(|failure| fail(failure.into()))?;
        let may_refresh = || self.failed_auth.has_budget(client, at);
        let found = self.keys.find_and_charge(&hash, now, at, may_refresh).await;
        let key = match found.map_err(|error| fail(error.into()))? {
            Lookup::Valid(key) => key,
            Lookup::Unknown => return Err(fail(AuthFailure::Unknown.into())),
            Lookup::Revoked => return Err(fail(AuthFailure::Revoked.into())),
            Lookup::Expired => return Err(fail(AuthFailure::Expired.into())),
        };
        context.api_key_id = Some(key.id);
        context.quota = key.quota;
        if let Some(quota) = key.quota {
            ensure_granted(quota, LimitKind::ApiKey)?;
        }
        Ok(Caller {
            hash,
            api_key_id: key.id,
            scopes: key.scopes,
            now,
        })
    }

    /// Checks that the caller's key has a scope of the operation, if it needs one.
    pub fn authorize(&self, caller: Caller, operation: Operation) -> Result<Authorized, ApiError> {
        let scopes = operation.scopes();
        if !scopes.is_empty() && !scopes.iter().any(|scope| caller.scopes.has(*scope)) {
            return Err(ApiError::InsufficientScope(scopes));
        }
        if operation.is_deprecated() {
            self.keys.count_deprecated_call(&caller.hash, caller.now);
        }
        Ok(Authorized {
            hash: caller.hash,
            api_key_id: caller.api_key_id,
            scopes: caller.scopes,
            now: caller.now,
        })
    }
}

fn ensure_granted(quota: Quota, kind: LimitKind) -> Result<(), ApiError> {
    match quota.granted {
        true => Ok(()),
        false => Err(ApiError::RateLimited { kind, quota }),
    }
}

/// The hash of the one API key that a request presents (RFC 6750, section 2.1).
fn presented_key(headers: &HeaderMap) -> Result<KeyHash, AuthFailure> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(AuthFailure::Missing)?;
    if values.next().is_some() {
        return Err(AuthFailure::Repeated);
    }
    let value = value.to_str().map_err(|_| AuthFailure::Malformed)?;
    match value.trim().split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => {
            KeyHash::of_presented(key.trim_start()).ok_or(AuthFailure::Malformed)
        }
        _ => Err(AuthFailure::Missing),
    }
}
