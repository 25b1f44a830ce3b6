//! Which responses to cache where others write too, and when to ask whether they are valid.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::timeout;

use crate::{
    single_flight::SingleFlight,
    store::{Store, Version},
};

/// How long to wait for a check, before responses are read instead.
const VERSION_TIMEOUT: Duration = Duration::from_secs(1);
/// At least one of so many reads is cached.
const MAX_READS: u32 = 16;
/// How many keys are remembered, about.
const DOORKEEPER_SLOTS: usize = 1 << 16;

/// Asks for the version once for all requests that wait at the time.
pub struct VersionChecks {
    store: Arc<Store>,
    checks: SingleFlight<Option<Version>>,
    /// A check took too long, and is still running.
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

    /// The version at a time after this call, or `None` if the check failed.
    pub async fn current_version(&self) -> Option<Version> {
        if self.is_overdue.load(Ordering::Relaxed) {
            return None;
        }
        let check = || check(self.store.clone(), self.is_overdue.clone());
        self.checks.spawn(check).await.ok()?
    }
}

/// Asks for the version, but not while an earlier check is overdue.
async fn check(store: Arc<Store>, is_overdue: Arc<AtomicBool>) -> Option<Version> {
    if is_overdue.load(Ordering::Relaxed) {
        return None;
    }
    let mut check = Box::pin(async move { store.current_version().await });
    if let Ok(version) = timeout(VERSION_TIMEOUT, &mut check).await {
        return version.ok();
    }
    is_overdue.store(true, Ordering::Relaxed);
    // It continues: the store's timeouts replace a connection that hangs.
    let check = tokio::spawn(check);
    tokio::spawn(async move {
        let _ended = check.await;
        is_overdue.store(false, Ordering::Relaxed);
    });
    None
}

/// When to cache a response again that was outdated.
///
/// If something is written between any two requests for it, caching it is pointless, and asking
/// for the version only delays the read. So each time that it is outdated, fewer reads of it
/// are cached: the next, every second, fourth, eighth, sixteenth. Shared reads count once.
#[derive(Debug)]
pub struct Backoff {
    /// Reads until one is cached.
    remaining: AtomicU32,
    /// The same, when it is outdated the next time.
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
    /// How many reads there are until one is cached, including that one.
    pub fn remaining(&self) -> u32 {
        self.remaining.load(Ordering::Relaxed)
    }

    /// Returns whether to cache what was read.
    pub fn count_read(&self) -> bool {
        let decrement = |remaining: u32| remaining.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let before = self.remaining.fetch_update(set, fetch, decrement);
        before.is_ok_and(|remaining| remaining == 1)
    }

    /// The response was outdated. Counts once for all who find out at the same time.
    pub fn start(&self) {
        let reads = self.next.load(Ordering::Relaxed);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let started = self.remaining.compare_exchange(0, reads, set, fetch);
        if started.is_ok() {
            let next = (2 * reads).min(MAX_READS);
            self.next.store(next, Ordering::Relaxed);
        }
    }

    /// The response was valid.
    pub fn reset(&self) {
        self.next.store(1, Ordering::Relaxed);
    }
}

/// Admits what is requested again, so that what is requested once takes no room: a table of
/// the hashes that were seen last.
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
    /// Whether the key was seen before.
    pub fn admits(&self, key: &impl Hash) -> bool {
        let hash = self.hasher.hash_one(key);
        let (slot, rest) = (hash as usize % self.slots.len(), (hash >> 32) as u32);
        self.slots[slot].swap(rest, Ordering::Relaxed) == rest
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
            backoff.start();
            backoff.start();
        }
        assert_eq!(reads(), 16);
        backoff.reset();
        backoff.start();
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
