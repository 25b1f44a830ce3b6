//! Which responses to cache where others write too, and when to ask whether they are valid.

use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::{sync, time::timeout};

use crate::store::{Store, Version};

/// How long to wait for a check, before responses are read instead.
const VERSION_TIMEOUT: Duration = Duration::from_secs(1);
/// At least one of so many reads is cached.
const MAX_READS: u32 = 16;
/// How many keys are remembered, about.
const DOORKEEPER_SLOTS: usize = 1 << 16;

/// Asks for the version once for all who wait at the time.
pub struct VersionChecks {
    store: Arc<Store>,
    running: Arc<sync::Mutex<()>>,
    /// The check that starts when the running one ends.
    next: Arc<Mutex<Option<Check>>>,
    /// Whether a check took too long, and may still be running.
    is_overdue: Arc<AtomicBool>,
}

type Check = Shared<BoxFuture<'static, Option<Version>>>;

const LOCK: &str = "no thread panics while holding the lock";

impl VersionChecks {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            running: Arc::default(),
            next: Arc::default(),
            is_overdue: Arc::default(),
        }
    }

    /// The version at a time after this call, or `None` if the check failed.
    pub async fn current_version(&self) -> Option<Version> {
        if self.is_overdue.load(Ordering::Relaxed) {
            // Until it ends.
            drop(self.running.try_lock().ok()?);
            self.is_overdue.store(false, Ordering::Relaxed);
        }
        let check = {
            let mut next = self.next.lock().expect(LOCK);
            next.get_or_insert_with(|| self.check()).clone()
        };
        check.await
    }

    fn check(&self) -> Check {
        let (store, running, next) = (self.store.clone(), self.running.clone(), self.next.clone());
        let is_overdue = self.is_overdue.clone();
        let check = async move {
            let running = timeout(VERSION_TIMEOUT, running.lock_owned()).await;
            // Later callers need a later version.
            let _started = next.lock().expect(LOCK).take();
            let running = running.ok()?;
            // A task of its own: the store's timeouts replace a connection that hangs.
            let asked = tokio::spawn(async move {
                let _running = running;
                store.current_version().await
            });
            match timeout(VERSION_TIMEOUT, asked).await {
                Ok(version) => version.ok()?.ok(),
                Err(_elapsed) => {
                    is_overdue.store(true, Ordering::Relaxed);
                    None
                }
            }
        };
        check.boxed().shared()
    }
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
