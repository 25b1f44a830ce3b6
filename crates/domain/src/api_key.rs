//! API keys: names, validity and metadata, and invitations, which turn into keys.

mod grant;
mod scope;
mod secret;

use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    clock::truncate_to_microseconds,
    invalid::Invalid,
    json::Value,
    members,
    page::{Filter, ListKind, Position},
};

pub use grant::{Invitation, KeyGrant, KeyRejection, NewInvitation, Rotation};
pub use scope::{Scope, Scopes};
pub use secret::{ApiKeySecret, KeyHash, PresentedKey};

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    pub id: i64,
    pub name: KeyName,
    pub scopes: Scopes,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The key that has replaced this one, if it was rotated.
    #[serde(skip)]
    pub successor: Option<i64>,
    /// Present if the key is an invitation, which turns into another key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invitation: Option<Invitation>,
    /// The number of calls of deprecated operations.
    #[serde(skip)]
    pub deprecated_calls: i64,
    #[serde(skip)]
    pub last_deprecated_call_at: Option<Timestamp>,
}

/// The maximum number of valid keys that clients can create: every service keeps all in memory.
/// Commands are not limited.
pub const MAX_KEYS: usize = 1000;

/// The usage of a key since it was last recorded.
#[derive(Debug, Clone)]
pub struct ApiKeyUsage {
    pub id: i64,
    pub last_used_at: Timestamp,
    /// The number of calls of deprecated operations since then.
    pub deprecated_calls: i64,
    pub last_deprecated_call_at: Option<Timestamp>,
}

/// The name of an API key, valid or not, for clients that see its id in the history.
#[derive(Debug, Serialize)]
pub struct ApiKeyLabel<'a> {
    id: i64,
    name: &'a KeyName,
}

/// The filter of the list of API keys, which has no parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ApiKeyFilter;

impl Filter for ApiKeyFilter {
    const LIST: ListKind = ListKind::ApiKeys;
    const SORTABLE: bool = false;

    type Item = ApiKey;

    fn position(&self, key: &ApiKey) -> Position {
        Position::of_id(key.id)
    }
}

impl ApiKey {
    pub fn label(&self) -> ApiKeyLabel<'_> {
        ApiKeyLabel {
            id: self.id,
            name: &self.name,
        }
    }

    /// Revokes the key. One that was revoked before keeps that time.
    pub fn revoke(&mut self, now: Timestamp) {
        self.revoked_at = self.revoked_at.or(Some(truncate_to_microseconds(now)));
    }

    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|expiry| now < expiry)
    }
}

/// An API key that has not been stored yet.
#[derive(Debug, Clone)]
pub struct NewApiKey {
    pub name: KeyName,
    pub scopes: Scopes,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub invitation: Option<Invitation>,
}

impl NewApiKey {
    pub fn with_id(self, id: i64) -> ApiKey {
        ApiKey {
            id,
            name: self.name,
            scopes: self.scopes,
            created_at: truncate_to_microseconds(self.created_at),
            last_used_at: None,
            expires_at: self.expires_at.map(truncate_to_microseconds),
            revoked_at: None,
            successor: None,
            invitation: self.invitation,
            deprecated_calls: 0,
            last_deprecated_call_at: None,
        }
    }

    /// Creates a key with all scopes that never expires.
    pub fn new(name: KeyName, created_at: Timestamp) -> Self {
        Self {
            name,
            scopes: Scopes::all(),
            created_at,
            expires_at: None,
            invitation: None,
        }
    }
}

/// The display name of a key: 1 to 100 characters, not only whitespace, no control characters, and
/// no number, which commands would take for an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct KeyName(String);

impl KeyName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn from_store(name: &str) -> Self {
        Self(name.into())
    }

    fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let name = value.map_or_else(|| Err("required; must be a string".into()), members::string);
        name.map_err(|reason| Invalid::new("name", reason))?.parse()
    }
}

impl FromStr for KeyName {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let invalid = |reason| Err(Invalid::new("name", reason));
        let fits = (1..=100).contains(&name.chars().count());
        if !fits || name.chars().any(char::is_control) || name.trim().is_empty() {
            return invalid(
                "must be 1 to 100 characters long, without control characters and not only \
                 whitespace",
            );
        }
        if name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
            return invalid(
                "must not be a number, which would be taken for the id of a key; add a word to it",
            );
        }
        Ok(Self(name.into()))
    }
}
