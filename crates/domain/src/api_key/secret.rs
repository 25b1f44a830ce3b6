//! The secrets of API keys: generation, hashing, and the format in which clients present them.

use std::hash::{Hash, Hasher};

use rand::{RngExt, distr::Alphanumeric, rngs::SysRng};
use sha2::{Digest, Sha256};

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
        let checksum = checksum(random.as_bytes()).map(char::from);
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
    bytes: &'a [u8],
    random: &'a [u8],
    checksum: &'a [u8],
}

impl<'a> PresentedKey<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(ApiKeySecret::PREFIX.as_bytes())?;
        let (random, checksum) = rest.split_at_checked(RANDOM_CHARS)?;
        (checksum.len() == CHECKSUM_CHARS).then_some(Self {
            bytes,
            random,
            checksum,
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
    }

    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.bytes).into())
    }

    /// Returns true if the checksum is valid, as that of every generated key is.
    pub fn has_valid_checksum(&self) -> bool {
        self.checksum == checksum(self.random)
    }
}

fn checksum(random: &[u8]) -> [u8; CHECKSUM_CHARS] {
    const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = crc32fast::hash(random);
    let mut digits = [0; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}
