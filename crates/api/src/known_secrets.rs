//! The SHA-256 of secrets that were valid before.
//!
//! On processors without SHA extensions, hashing a secret costs more than looking up a cached
//! page. A keyed hash costs a tenth. It decides nothing but which SHA-256 is meant: whether that
//! key is valid is looked up for each request, so a revoked or expired key is rejected as soon as
//! before.

use domain::api_key::{KeyHash, PresentedKey};
use quick_cache::sync::Cache;
use siphasher::sip128::SipHasher13;

/// As many keys as are in use at a time in a large installation. An entry has 48 bytes.
const CAPACITY: usize = 4096;

pub struct KnownSecrets {
    /// With a key that is random in each process.
    hasher: SipHasher13,
    hashes: Cache<Fingerprint, KeyHash>,
}

/// A keyed hash of a secret, of 128 bits: a client that does not know the key finds no two secrets
/// with the same one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u128);

impl KnownSecrets {
    pub fn new() -> Self {
        Self {
            hasher: SipHasher13::new_with_key(&rand::random()),
            hashes: Cache::new(CAPACITY),
        }
    }

    pub fn fingerprint(&self, presented: &PresentedKey) -> Fingerprint {
        Fingerprint(self.hasher.hash(presented.as_bytes()).as_u128())
    }

    pub fn get(&self, fingerprint: Fingerprint) -> Option<KeyHash> {
        self.hashes.get(&fingerprint)
    }

    /// Remembers the hash of a valid key. Others are not remembered: a flood of invalid keys
    /// evicts nothing.
    pub fn insert(&self, fingerprint: Fingerprint, hash: KeyHash) {
        self.hashes.insert(fingerprint, hash);
    }
}
