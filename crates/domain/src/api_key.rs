//! API keys: generation, hashing, scopes and metadata.

use std::{
    fmt,
    hash::{Hash, Hasher},
    slice,
    str::FromStr,
};

use jiff::Timestamp;
use rand::{RngExt, distr::Alphanumeric, rngs::SysRng};
use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{
    invalid::{Invalid, quoted},
    page::{Filter, ListKind, Position},
};

const RANDOM_CHARS: usize = 32;
const CHECKSUM_CHARS: usize = 6;

/// The secret of an API key: `psk_`, 32 random base62 characters, and a CRC-32
/// checksum of them. The checksum detects typos, and lets secret scanners
/// recognise a leaked key, without access to the database.
///
/// It implements neither `Debug` nor `Display`, so that it cannot end up in a log.
pub struct ApiKeySecret(String);

impl ApiKeySecret {
    /// The prefix of every secret.
    pub const PREFIX: &str = "psk_";

    /// Generates a secret from the operating system's random source.
    pub fn generate() -> Self {
        let random: String = rand::rand_core::UnwrapErr(SysRng)
            .sample_iter(Alphanumeric)
            .take(RANDOM_CHARS)
            .map(char::from)
            .collect();
        let checksum = checksum(&random).map(char::from);
        Self(format!(
            "{}{random}{}",
            Self::PREFIX,
            String::from_iter(checksum)
        ))
    }

    /// Returns the secret itself, to be shown to its owner once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.0).into())
    }
}

/// The SHA-256 of a secret. The secret itself is never stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyHash([u8; 32]);

/// Hashes only the first bytes, which are enough for a table.
impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (start, _) = self.0.split_first_chunk().expect("a hash has 32 bytes");
        state.write_u64(u64::from_ne_bytes(*start));
    }
}

impl KeyHash {
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub fn from_store(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// A secret as a client presents it: its format is valid, its checksum may be wrong.
pub struct PresentedKey<'a> {
    text: &'a str,
    random: &'a str,
    checksum: &'a str,
}

impl<'a> PresentedKey<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let rest = text.strip_prefix(ApiKeySecret::PREFIX)?;
        let (random, checksum) = rest.split_at_checked(RANDOM_CHARS)?;
        (checksum.len() == CHECKSUM_CHARS).then_some(Self {
            text,
            random,
            checksum,
        })
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.text).into())
    }

    /// Returns true if the checksum is valid. Check it only for a key that was not found: every
    /// generated key has a valid one.
    pub fn has_valid_checksum(&self) -> bool {
        self.checksum.as_bytes() == checksum(self.random)
    }
}

fn checksum(random: &str) -> [u8; CHECKSUM_CHARS] {
    const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = crc32fast::hash(random.as_bytes());
    let mut digits = [0; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

/// An API key without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: i64,
    pub name: KeyName,
    pub scopes: Scopes,
    pub created_at: Timestamp,
    pub last_used_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// The number of calls of deprecated operations.
    pub deprecated_calls: i64,
    pub last_deprecated_call_at: Option<Timestamp>,
}

/// The usage of a key since it was last recorded.
#[derive(Debug, Clone)]
pub struct ApiKeyUsage {
    pub id: i64,
    pub last_used_at: Timestamp,
    /// The number of calls of deprecated operations since then.
    pub deprecated_calls: i64,
    pub last_deprecated_call_at: Option<Timestamp>,
}

/// An API key as its owner sees it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyDescription {
    id: i64,
    name: KeyName,
    scopes: Scopes,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// The name of an API key, valid or not, for clients that see its id in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiKeyLabel {
    pub id: i64,
    pub name: KeyName,
}

/// The filter of the list of API keys, which has no parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ApiKeyFilter;

impl Filter for ApiKeyFilter {
    const LIST: ListKind = ListKind(b'k');
    const SORTABLE: bool = false;

    type Item = ApiKeyLabel;

    fn position(&self, key: &ApiKeyLabel) -> Position {
        Position::of_id(key.id)
    }
}

impl ApiKey {
    pub fn describe(&self) -> ApiKeyDescription {
        ApiKeyDescription {
            id: self.id,
            name: self.name.clone(),
            scopes: self.scopes,
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
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
}

impl NewApiKey {
    pub fn with_id(self, id: i64) -> ApiKey {
        ApiKey {
            id,
            name: self.name,
            scopes: self.scopes,
            created_at: self.created_at,
            last_used_at: None,
            expires_at: self.expires_at,
            revoked_at: None,
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
        }
    }
}

/// The display name of a key: 1 to 100 characters, not only whitespace, no
/// control characters.
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
}

impl FromStr for KeyName {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let fits = (1..=100).contains(&name.chars().count());
        if fits && !name.chars().any(char::is_control) && !name.trim().is_empty() {
            return Ok(Self(name.into()));
        }
        let reason =
            "must be 1 to 100 characters long, without control characters and not only whitespace";
        Err(Invalid::new("name", reason))
    }
}

/// A permission of an API key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Scope {
    PetsRead = 1,
    PetsWrite = 2,
    OrdersRead = 4,
    OrdersWrite = 8,
    WebhooksRead = 16,
    WebhooksWrite = 32,
}

impl Scope {
    pub const ALL: [Self; 6] = [
        Self::PetsRead,
        Self::PetsWrite,
        Self::OrdersRead,
        Self::OrdersWrite,
        Self::WebhooksRead,
        Self::WebhooksWrite,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::PetsRead => "pets:read",
            Self::PetsWrite => "pets:write",
            Self::OrdersRead => "orders:read",
            Self::OrdersWrite => "orders:write",
            Self::WebhooksRead => "webhooks:read",
            Self::WebhooksWrite => "webhooks:write",
        }
    }

    /// Returns the scope as a static slice.
    pub fn as_slice(self) -> &'static [Self] {
        static ALL: [Scope; 6] = Scope::ALL;
        let found = ALL.iter().find(|scope| **scope == self);
        found.map_or(&[], slice::from_ref)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| {
                let all = Self::ALL.map(Self::as_str).join(", ");
                Invalid::new(
                    "scope",
                    format!("must be one of {all}, got {}", quoted(text)),
                )
            })
    }
}

/// A set of scopes. Displayed as space-separated names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    pub fn has(self, scope: Scope) -> bool {
        self.0 & scope as u8 != 0
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let granted = Scope::ALL.into_iter().filter(move |scope| self.has(*scope));
        granted.map(Scope::as_str)
    }

    /// Parses stored scopes. A name that this version does not know grants nothing.
    pub fn from_store(text: &str) -> Self {
        text.split(' ')
            .filter_map(|name| name.parse::<Scope>().ok())
            .collect()
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope as u8))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(" "))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.names())
    }
}
