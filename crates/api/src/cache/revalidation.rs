//! Revalidation of cached responses on a database that other replicas write to: selects the
//! responses to cache, and checks their version.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::timeout;

use single_flight::SingleFlight;
use store::{Store, Version};

/// The maximum duration of a check. After that, responses are read instead.
const VERSION_TIMEOUT: Duration = Duration::from_secs(1);
/// At least one in this many reads is cached.
const MAX_READS: u32 = 16;
/// The approximate number of keys that are remembered.
const DOORKEEPER_SLOTS: usize = 1 << 16;

/// Asks for the version once for all requests that wait at the time.
pub struct VersionChecks {
    store: Arc<Store>,
    checks: SingleFlight<Option<Version>>,
    /// True while a check that took too long is still running.
    is_overdue: Arc<AtomicBool>,
}

impl VersionChecks {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            checks: SingleFlight::default(),
            is_overdue: Arc::default(),
        }
    }

    /// Returns the version at a time after this call, or `None` if the check failed.
    pub async fn current_version(&self) -> Option<Version> {
        if self.is_overdue.load(Relaxed) {
            return None;
        }
        let check = || check(self.store.clone(), self.is_overdue.clone());
        self.checks.spawn(check).await.ok()?
    }
}

/// Asks for the version, but not while an earlier check is overdue.
async fn check(store: Arc<Store>, is_overdue: Arc<AtomicBool>) -> Option<Version> {
    if is_overdue.load(Relaxed) {
        return None;
    }
    let mut check = Box::pin(async move { store.current_version().await });
    if let Ok(version) = timeout(VERSION_TIMEOUT, &mut check).await {
        return version.ok();
    }
    is_overdue.store(true, Relaxed);
    // The check continues: the store's timeouts replace a connection that hangs.
    let overdue = tokio::spawn(check);
    tokio::spawn(async move {
        let _ended = overdue.await;
        is_overdue.store(false, Relaxed);
    });
    None
}

/// Decides when to cache a response again after it was outdated.
///
/// If something is written between any two requests for it, caching it is pointless, and asking
/// for the version only delays the read. So each time that it is outdated, fewer reads of it
/// are cached: the next, every second, fourth, eighth, sixteenth. Shared reads count once.
#[derive(Debug)]
pub struct Backoff {
    /// The number of reads until one is cached.
    remaining: AtomicU32,
    /// The value of `remaining` after the response is outdated the next time.
    next: AtomicU32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            remaining: AtomicU32::new(1),
            next: AtomicU32::new(1),
        }
    }
}

impl Backoff {
    /// Returns the number of reads until one is cached, including that one.
    pub fn remaining(&self) -> u32 {
        self.remaining.load(Relaxed)
    }

    /// Counts a read. Returns true if its response is to be cached.
    pub fn count_read(&self) -> bool {
        let decrement = |remaining: u32| remaining.checked_sub(1);
        let before = self.remaining.fetch_update(Relaxed, Relaxed, decrement);
        before.is_ok_and(|remaining| remaining == 1)
    }

    /// Records that the response was outdated. Counts once for all requests that notice it at the
    /// same time.
    pub fn record_outdated(&self) {
        let reads = self.next.load(Relaxed);
        let started = self.remaining.compare_exchange(0, reads, Relaxed, Relaxed);
        if started.is_ok() {
            let next = (2 * reads).min(MAX_READS);
            self.next.store(next, Relaxed);
        }
    }

    /// Records that the response was valid.
    pub fn record_valid(&self) {
        self.next.store(1, Relaxed);
    }
}

/// Admits keys that are requested repeatedly, so that a response that is requested once takes no
/// room: a table of the hashes that were seen last.
pub struct Doorkeeper {
    hasher: RandomState,
    slots: Box<[AtomicU32]>,
}

impl Default for Doorkeeper {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            slots: (0..DOORKEEPER_SLOTS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Doorkeeper {
    /// Returns true if the key was seen before.
    pub fn admits(&self, key: &impl Hash) -> bool {
        let hash = self.hasher.hash_one(key);
        let slot = hash as usize % self.slots.len();
        let rest = (hash >> 32) as u32;
        self.slots[slot].swap(rest, Relaxed) == rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_always_outdated_is_rarely_cached() {
        let backoff = Backoff::default();
        let reads = || 1 + (0..).take_while(|_| !backoff.count_read()).count();
        for expected in [1, 1, 2, 4, 8, 16, 16] {
            assert_eq!(reads(), expected);
            assert_eq!(backoff.remaining(), 0);
            backoff.record_outdated();
            backoff.record_outdated();
        }
        assert_eq!(reads(), 16);
        backoff.record_valid();
        backoff.record_outdated();
        assert_eq!(reads(), 1);
    }

    #[test]
    fn what_is_requested_again_is_admitted() {
        let doorkeeper = Doorkeeper::default();
        assert!(!doorkeeper.admits(&"Rex"));
        assert!(doorkeeper.admits(&"Rex"));
        assert!(!doorkeeper.admits(&"Max"));
    }
}
