//! Requests that their client has named, so that one that is sent again is not
//! carried out again.

use jiff::Timestamp;

use crate::invalid::Invalid;

/// A client's name for a request: 1 to 255 visible characters of ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestName(String);

impl RequestName {
    pub const HEADER: &str = "Idempotency-Key";
    pub const MAX_CHARS: usize = 255;

    pub fn parse(name: &[u8]) -> Result<Self, Invalid> {
        let fits = (1..=Self::MAX_CHARS).contains(&name.len());
        match str::from_utf8(name) {
            Ok(text) if fits && name.iter().all(u8::is_ascii_graphic) => Ok(Self(text.into())),
            _ => {
                let max = Self::MAX_CHARS;
                let reason = format!("must have 1 to {max} visible ASCII characters and no spaces");
                Err(Invalid::new(Self::HEADER, reason))
            }
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request with a name. Names are each API key's own.
#[derive(Debug, Clone)]
pub struct Named {
    pub api_key_id: i64,
    pub name: RequestName,
    /// The hash of what was asked for: another request cannot have this name.
    pub request: [u8; 32],
    pub at: Timestamp,
}

/// What became of a request that may have been sent before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Once<T> {
    /// It was carried out now.
    Now(T),
    /// It was carried out before, and this was its outcome.
    Before(T),
    /// The name belongs to another request. Nothing was changed.
    OtherRequest,
}

impl<T> Once<T> {
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Once<U>, E> {
        Ok(match self {
            Self::Now(value) => Once::Now(change(value)?),
            Self::Before(value) => Once::Before(change(value)?),
            Self::OtherRequest => Once::OtherRequest,
        })
    }
}
