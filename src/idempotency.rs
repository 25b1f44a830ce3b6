//! Idempotency keys: a request that is retried under the same key takes effect
//! once.

use jiff::Timestamp;

/// A client's idempotency key: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    pub const MAX_CHARS: usize = 255;

    /// `None` if the key is empty, too long, or has other characters.
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
    /// SHA-256 of the method, path and body. A key cannot be reused for a
    /// request with another fingerprint.
    pub fingerprint: [u8; 32],
    pub received_at: Timestamp,
}

/// The result of a request that may be a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idempotent<T> {
    /// The request took effect now.
    Executed(T),
    /// A retry: the recorded result of the first request.
    Replayed(T),
    /// The key belongs to a different request. Nothing was changed.
    KeyReused,
}

impl<T> Idempotent<T> {
    pub fn try_map<U, E>(self, f: impl FnOnce(T) -> Result<U, E>) -> Result<Idempotent<U>, E> {
        Ok(match self {
            Self::Executed(value) => Idempotent::Executed(f(value)?),
            Self::Replayed(value) => Idempotent::Replayed(f(value)?),
            Self::KeyReused => Idempotent::KeyReused,
        })
    }
}
