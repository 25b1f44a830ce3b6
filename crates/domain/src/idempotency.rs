//! Idempotency keys: a request that is retried under the same key takes effect
//! once.

use std::convert::Infallible;

use jiff::SignedDuration;

/// The time for which a key is remembered by the clock of the store: at least 24 hours, even if
/// that clock runs a tenth fast to catch up with the system clock.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(27);

/// A client's idempotency key: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    pub const MAX_CHARS: usize = 255;

    /// Parses a key. Returns `None` if it is empty, too long, or has other characters.
    pub fn parse(key: &[u8]) -> Option<Self> {
        let valid =
            (1..=Self::MAX_CHARS).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        let text = str::from_utf8(key).ok()?;
        valid.then(|| Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request with an idempotency key. Keys are scoped to the API key.
#[derive(Debug, Clone)]
pub struct IdempotentRequest {
    pub api_key_id: i64,
    pub key: IdempotencyKey,
    /// SHA-256 of the method, the path and the body without personal data
    /// ([`FromObject::PERSONAL`](crate::json::FromObject::PERSONAL)). A key cannot be reused for
    /// a request with another fingerprint.
    pub fingerprint: [u8; 32],
}

impl IdempotentRequest {
    /// Returns an id of the idempotency key that is unique across API keys.
    pub fn id(&self) -> String {
        format!("{} {}", self.api_key_id, self.key.as_str())
    }
}

/// The result of a request that may be a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// The request was executed now.
    Executed(T),
    /// A retry: the recorded result of the first request.
    Replayed(T),
    /// The key belongs to a different request. Nothing was changed.
    KeyReused,
}

impl<T> Idempotent<T> {
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Idempotent<U> {
        match self {
            Self::Executed(result) => Idempotent::Executed(map(result)),
            Self::Replayed(result) => Idempotent::Replayed(map(result)),
            Self::KeyReused => Idempotent::KeyReused,
        }
    }
}

/// A reason to reject a request that can be recorded under its idempotency key
/// and replayed to a retry. By default it is never recorded.
pub trait RecordedRejection: Send + Sync + 'static {
    /// Returns the code that is stored, or `None` if the rejection is not recorded: a retry is
    /// then decided again. A code must never change, as records outlive the program version that
    /// wrote them.
    fn code(&self) -> Option<&'static str> {
        None
    }

    /// The inverse of [`code`](Self::code).
    fn from_code(_code: &str) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// Declares the codes of rejections.
macro_rules! recorded_rejection {
    (
        $type:ident { $($rejection:ident = $code:literal,)+ }
        $(not recorded { $($unrecorded:ident,)+ })?
    ) => {
        impl $crate::idempotency::RecordedRejection for $type {
            fn code(&self) -> Option<&'static str> {
                match self {
                    $(Self::$rejection => Some($code),)+
                    $($(Self::$unrecorded(_) => None,)+)?
                }
            }

            fn from_code(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$rejection),)+
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use recorded_rejection;

/// For requests that are never rejected once they are valid.
impl RecordedRejection for Infallible {}
