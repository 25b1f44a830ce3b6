//! Authentication and authorization, before the query and the body are read.

use std::sync::Arc;

use http::{HeaderMap, header};

use super::{
    context::RequestContext,
    error::{ApiError, AuthFailure},
    key_cache::{KeyCache, Lookup},
    known_secrets::KnownSecrets,
    operation::Operation,
    rate_limit::{FailedAuthLimiter, LimitKind},
};
use domain::api_key::{KeyHash, PresentedKey, Scopes};
use server::header_values;

/// The scheme in front of an API key.
const BEARER: &[u8] = b"bearer ";

pub struct Authenticator {
    keys: Arc<KeyCache>,
    known: KnownSecrets,
    failed_auth: FailedAuthLimiter,
}

/// A client with a valid API key, within its rate limit.
pub struct Caller {
    pub hash: KeyHash,
    pub api_key_id: i64,
    pub scopes: Scopes,
}

pub enum Authentication {
    Caller(Caller),
    /// The key is well-formed, and may be new.
    NotCached(KeyHash),
}

/// Proof that the caller may perform the operation. No handler can be called
/// without one.
pub struct Authorization(Caller);

impl Authorization {
    pub fn caller(&self) -> &Caller {
        &self.0
    }
}

impl Authenticator {
    pub fn new(keys: Arc<KeyCache>, failed_auth: FailedAuthLimiter) -> Self {
        Self {
            keys,
            known: KnownSecrets::new(),
            failed_auth,
        }
    }

    pub fn keys(&self) -> &Arc<KeyCache> {
        &self.keys
    }

    /// Identifies the caller by its API key, and charges the request to the
    /// key's rate limit.
    ///
    /// Failures are charged to the client's address. They never cause a valid key to be
    /// rejected: many clients may share an address.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        context: &mut RequestContext,
    ) -> Result<Authentication, ApiError> {
        let presented = presented_key(headers).map_err(|failure| self.fail(failure, context))?;
        let fingerprint = self.known.fingerprint(&presented);
        let known = self.known.get(fingerprint);
        if known.is_none() && !presented.has_valid_checksum() {
            return Err(self.fail(AuthFailure::Malformed, context));
        }
        let hash = known.unwrap_or_else(|| presented.hash());
        if let Some(caller) = self.find(hash, context)? {
            if known.is_none() {
                self.known.insert(fingerprint, hash);
            }
            return Ok(Authentication::Caller(caller));
        }
        let has_budget = self.failed_auth.has_budget(context.client, context.started);
        if !has_budget || self.keys.was_not_found(&hash) {
            return Err(self.fail(AuthFailure::Unknown, context));
        }
        Ok(Authentication::NotCached(hash))
    }

    /// Like `authenticate`, after reading the keys from the database.
    pub async fn authenticate_new(
        &self,
        hash: KeyHash,
        context: &mut RequestContext,
    ) -> Result<Caller, ApiError> {
        let refreshed = self.keys.refresh_for(&hash).await;
        refreshed.map_err(|error| self.fail(error, context))?;
        let found = self.find(hash, context)?;
        found.ok_or_else(|| self.fail(AuthFailure::Unknown, context))
    }

    /// Returns `None` if the key is not cached.
    fn find(
        &self,
        hash: KeyHash,
        context: &mut RequestContext,
    ) -> Result<Option<Caller>, ApiError> {
        let key = match self.keys.find_and_charge(&hash, context.started) {
            Some(Lookup::Valid(key)) => key,
            Some(Lookup::Revoked) => return Err(self.fail(AuthFailure::Revoked, context)),
            Some(Lookup::Expired) => return Err(self.fail(AuthFailure::Expired, context)),
            None => return Ok(None),
        };
        context.api_key_id = Some(key.id);
        context.quota = key.quota;
        if let Some(quota) = key.quota {
            ApiError::ensure_granted(quota, LimitKind::ApiKey)?;
        }
        Ok(Some(Caller {
            hash,
            api_key_id: key.id,
            scopes: key.scopes,
        }))
    }

    /// Charges a failure to the client's address.
    fn fail(&self, error: impl Into<ApiError>, context: &RequestContext) -> ApiError {
        let quota = self.failed_auth.charge(context.client, context.started);
        match ApiError::ensure_granted(quota, LimitKind::Address) {
            Ok(()) => error.into(),
            Err(rate_limited) => rate_limited,
        }
    }

    /// Checks that the caller's key has the scopes of the operation.
    pub fn authorize(
        &self,
        caller: Caller,
        operation: &Operation,
    ) -> Result<Authorization, ApiError> {
        for scopes in operation.scopes {
            if !scopes.iter().any(|scope| caller.scopes.has(*scope)) {
                return Err(ApiError::InsufficientScope(scopes));
            }
        }
        if operation.is_deprecated() {
            self.keys.count_deprecated_call(&caller.hash);
        }
        Ok(Authorization(caller))
    }
}

/// The one API key that a request presents (RFC 6750, section 2.1).
fn presented_key(headers: &HeaderMap) -> Result<PresentedKey<'_>, AuthFailure> {
    let mut values = header_values(headers, header::AUTHORIZATION);
    let first = values.next().ok_or(AuthFailure::Missing)?;
    if values.next().is_some() {
        return Err(AuthFailure::Repeated);
    }
    match first.as_bytes().trim_ascii().split_at_checked(BEARER.len()) {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case(BEARER) => {
            PresentedKey::parse(key.trim_ascii_start()).ok_or(AuthFailure::Malformed)
        }
        _ => Err(AuthFailure::Missing),
    }
}
