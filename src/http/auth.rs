//! Who is calling, and may they: judged before anything else of a request.

use http::{HeaderMap, header};
use jiff::Timestamp;

use super::{App, error::ApiError, keys::Keys, operation::Operation, rate::Limited, trail::Trail};
use crate::key::{KeyHash, Scopes};

/// A client with a valid key.
pub struct Caller<'a> {
    keys: &'a Keys,
    trail: &'a mut Trail,
    hash: KeyHash,
    key_id: i64,
    scopes: Scopes,
    now: Timestamp,
}

impl<'a> Caller<'a> {
    /// Says who the client is, if it has a valid key and is within its limit.
    ///
    /// A valid key is never refused for what others do from the same address:
    /// many may share it.
    pub async fn of(
        headers: &HeaderMap,
        app: &'a App,
        trail: &'a mut Trail,
    ) -> Result<Self, ApiError> {
        let (client, at, now) = (trail.client, trail.began, app.clock.now());
        let refuse = |refused| app.strangers.refuse(client, at, refused);
        let hash = presented(headers).map_err(refuse)?;
        let may_look = || app.strangers.may_err(client, at);
        let found = app.keys.find(&hash, now, at, may_look).await?;
        let valid = found.ok_or_else(|| refuse(REFUSED))?;
        trail.key_id = Some(valid.id);
        trail.quota = valid.quota;
        if let Some(quota) = valid.quota {
            quota.check(Limited::Key)?;
        }
        Ok(Self {
            keys: &app.keys,
            trail,
            hash,
            key_id: valid.id,
            scopes: valid.scopes,
            now,
        })
    }

    /// Gives what a handler cannot be called without, if the key has the scope
    /// for the operation.
    pub fn may(self, operation: Operation) -> Result<Permit, ApiError> {
        self.trail.operation = Some(operation);
        if !self.scopes.has(operation.scope()) {
            return Err(ApiError::InsufficientScope(operation.scope()));
        }
        if operation.is_deprecated() {
            self.keys.count_deprecated(&self.hash, self.now);
        }
        Ok(Permit {
            now: self.now,
            key_id: self.key_id,
        })
    }
}

/// The leave to carry out an operation.
pub struct Permit {
    /// When the request came. The clock is read once a request, so a key
    /// cannot expire halfway through.
    pub now: Timestamp,
    pub key_id: i64,
}

const REFUSED: ApiError =
    ApiError::InvalidApiKey("Authorization: the API key is unknown, revoked or expired");

/// The hash of the one key that a request presents.
fn presented(headers: &HeaderMap) -> Result<KeyHash, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(ApiError::MissingApiKey)?;
    if values.next().is_some() {
        return Err(ApiError::InvalidApiKey(
            "Authorization: must be given only once",
        ));
    }
    let Ok(value) = value.to_str() else {
        return Err(ApiError::InvalidApiKey(
            "Authorization: must be plain ASCII",
        ));
    };
    match value.trim().split_once(' ') {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => KeyHash::of_presented(
            key.trim_start(),
        )
        .ok_or(ApiError::InvalidApiKey(
            "Authorization: the API key is malformed; one has 42 characters and starts with psk_",
        )),
        _ => Err(ApiError::MissingApiKey),
    }
}
