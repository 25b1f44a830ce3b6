//! API keys in memory: a snapshot of the database's table that is replaced as a whole.

mod usage;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{self, Duration},
};

use arc_swap::ArcSwap;
use quick_cache::sync::Cache;
use tokio::sync::watch;

use super::{
    error::AuthFailure,
    rate_limit::{Limiter, Quota, RateLimit},
};
use domain::{
    api_key::{ApiKey, KeyHash, Scopes},
    clock::Clock,
};
use single_flight::SingleFlight;
use store::{Store, scan_queue::ScanQueue};
use telemetry::audit_log;
use usage::Usage;

/// The minimum time between two refreshes, however many unknown keys are presented.
const MIN_REFRESH_INTERVAL: Duration = Duration::from_millis(20);

/// The maximum time that a response waits until the service has read the keys that it changed.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

pub struct KeyCache {
    store: Arc<Store>,
    clock: Clock,
    keys: ArcSwap<HashMap<KeyHash, CachedKey>>,
    /// Negative cache: well-formed keys that a refresh did not find. Keys are
    /// random, so an unknown one will not be created later; if it is restored
    /// from a backup, the next periodic refresh finds it.
    unknown: Cache<KeyHash, ()>,
    limiter: Option<Limiter>,
    refresh: SingleFlight<RefreshResult>,
    /// True once the table was read. From then on, differences from the snapshot are changes.
    loaded: AtomicBool,
    /// Signals that keys were revoked or removed, or that their expiry has changed.
    revocations: watch::Sender<()>,
}

type RefreshResult = Result<(), store::Error>;

/// The state of a cached key.
pub enum Lookup {
    Valid(ValidKey),
    Revoked,
    Expired,
}

pub struct ValidKey {
    pub id: i64,
    pub scopes: Scopes,
    /// The quota of its rate limit, if it has one.
    pub quota: Option<Quota>,
}

struct CachedKey {
    key: ApiKey,
    /// Survives a refresh.
    usage: Arc<Usage>,
}

impl KeyCache {
    pub fn new(store: Arc<Store>, limit: Option<RateLimit>, clock: Clock) -> Self {
        Self {
            store,
            clock,
            keys: ArcSwap::default(),
            unknown: Cache::new(4096),
            limiter: limit.map(Limiter::new),
            refresh: SingleFlight::spaced(MIN_REFRESH_INTERVAL),
            loaded: AtomicBool::new(false),
            revocations: watch::Sender::new(()),
        }
    }

    /// Returns a receiver that is notified when keys were revoked or removed, or when their
    /// expiry has changed.
    pub fn revocations(&self) -> watch::Receiver<()> {
        self.revocations.subscribe()
    }

    /// Returns the remaining lifetime of a key, or `None` if it never expires. Fails if the key
    /// is not valid.
    pub fn validity(&self, hash: &KeyHash) -> Result<Option<Duration>, AuthFailure> {
        let now = self.clock.now();
        let keys = self.keys.load();
        let CachedKey { key, .. } = keys.get(hash).ok_or(AuthFailure::Unknown)?;
        match key.expires_at {
            _ if key.revoked_at.is_some() => Err(AuthFailure::Revoked),
            Some(expiry) if now >= expiry => Err(AuthFailure::Expired),
            Some(expiry) => Ok(Some(expiry.duration_since(now).unsigned_abs())),
            None => Ok(None),
        }
    }

    pub fn get(&self, hash: &KeyHash) -> Option<ApiKey> {
        let keys = self.keys.load();
        Some(keys.get(hash)?.key.clone())
    }

    /// Returns the number of valid keys.
    pub fn count_valid(&self) -> usize {
        let now = self.clock.now();
        let keys = self.keys.load();
        keys.values()
            .filter(|cached| cached.key.is_valid_at(now))
            .count()
    }

    /// Returns true if a refresh did not find the key.
    pub fn was_not_found(&self, hash: &KeyHash) -> bool {
        self.unknown.get(hash).is_some()
    }

    /// Reads all keys, because one that is not cached may be new.
    pub async fn refresh_for(self: &Arc<Self>, hash: &KeyHash) -> RefreshResult {
        self.refresh().await?;
        if !self.keys.load().contains_key(hash) {
            self.unknown.insert(*hash, ());
        }
        Ok(())
    }

    /// Reads all keys, because this service has changed some. If that takes long or fails, the
    /// periodic refresh reads them: the response with a secret must not wait for it.
    pub async fn notice_change(self: &Arc<Self>) {
        let _ = tokio::time::timeout(NOTICE_TIMEOUT, self.refresh()).await;
    }

    /// Finds a key and, if it is valid, charges the request to its rate limit. `None` if it
    /// is not cached.
    pub fn find_and_charge(&self, hash: &KeyHash, instant: time::Instant) -> Option<Lookup> {
        let keys = self.keys.load();
        let CachedKey { key, usage } = keys.get(hash)?;
        if key.revoked_at.is_some() {
            return Some(Lookup::Revoked);
        }
        if key
            .expires_at
            .is_some_and(|expiry| self.clock.now() >= expiry)
        {
            return Some(Lookup::Expired);
        }
        usage.record_use();
        let limiter = self.limiter.as_ref();
        Some(Lookup::Valid(ValidKey {
            id: key.id,
            scopes: key.scopes,
            quota: limiter.map(|limiter| limiter.charge(&usage.rate_limit, instant)),
        }))
    }

    /// Charges a request of a key once more, because it counts as `count` others, too. Returns
    /// `None` if the key has no rate limit.
    pub fn charge_more(&self, hash: &KeyHash, at: time::Instant, count: u32) -> Option<Quota> {
        let limiter = self.limiter.as_ref()?;
        let keys = self.keys.load();
        let CachedKey { usage, .. } = keys.get(hash)?;
        Some(limiter.charge_more(&usage.rate_limit, at, count))
    }

    /// Charges a turn of a scan to the rate limit of a key. If the key is over its quota, returns
    /// the time to wait first.
    pub fn charge_scan(&self, hash: &KeyHash) -> Option<Duration> {
        let limiter = self.limiter.as_ref()?;
        let keys = self.keys.load();
        let CachedKey { usage, .. } = keys.get(hash)?;
        let charged = limiter.charge_extra(&usage.rate_limit, time::Instant::now());
        charged.err()
    }

    /// Returns the queue in which readers with this key wait to scan the event log.
    pub fn scan_queue(&self, hash: &KeyHash) -> Arc<ScanQueue> {
        let keys = self.keys.load();
        keys.get(hash)
            .map_or_else(Arc::default, |key| key.usage.scans.clone())
    }

    /// Counts a call of a deprecated operation.
    pub fn count_deprecated_call(&self, hash: &KeyHash) {
        if let Some(CachedKey { usage, .. }) = self.keys.load().get(hash) {
            usage.count_deprecated_call();
        }
    }

    /// Returns the number of calls of deprecated operations while this process runs, by API key
    /// id.
    pub fn deprecated_calls(&self) -> Vec<(i64, i64)> {
        let keys = self.keys.load();
        let mut calls: Vec<_> = keys
            .values()
            .map(|CachedKey { key, usage }| (key.id, usage.deprecated_calls()))
            .filter(|(_, calls)| *calls > 0)
            .collect();
        calls.sort_unstable();
        calls
    }

    /// Reads all keys from the database. Concurrent callers are single-flight:
    /// they share one read and its result, as long as it started after they called.
    pub async fn refresh(self: &Arc<Self>) -> RefreshResult {
        let keys = self.clone();
        let load = || async move { keys.load().await };
        let refreshed = self.refresh.spawn(load).await;
        refreshed.unwrap_or_else(|panic| Err(store::Error::Internal(Arc::new(panic))))
    }

    async fn load(&self) -> RefreshResult {
        let stored = self.store.api_key_list().await?;
        let cached = self.keys.load();
        let with_usage = stored.into_iter().map(|(hash, key)| {
            let usage = cached
                .get(&hash)
                .map_or_else(Arc::default, |old| old.usage.clone());
            usage.merge_last_used(&key);
            (hash, CachedKey { key, usage })
        });
        let fresh: HashMap<_, _> = with_usage.collect();
        let any_changed = cached.iter().any(|(hash, CachedKey { key: old, .. })| {
            let new = fresh.get(hash).map(|new| &new.key);
            let validity = |key: &ApiKey| (key.revoked_at.is_some(), key.expires_at);
            new.map(validity) != Some(validity(old))
        });
        if self.loaded.swap(true, Ordering::Relaxed) {
            audit(&cached, &fresh);
        }
        self.keys.store(Arc::new(fresh));
        if any_changed {
            self.revocations.send_replace(());
        }
        Ok(())
    }

    /// Writes the usage of keys to the database.
    pub async fn flush_usage(&self) -> Result<(), store::Error> {
        let now = self.clock.now();
        let keys = self.keys.load_full();
        let unflushed: Vec<_> = keys
            .values()
            .filter_map(|CachedKey { key, usage }| Some((usage, usage.flush(key, now)?)))
            .collect();
        if unflushed.is_empty() {
            return Ok(());
        }
        let updates = unflushed.iter().map(|(_, update)| update.clone()).collect();
        let result = self.store.api_key_record_usage(updates).await;
        for (usage, update) in unflushed {
            if !result
                .as_ref()
                .is_ok_and(|recorded| recorded.contains(&update.id))
            {
                usage.undo_flush(&update);
            }
        }
        result.map(drop)
    }
}

/// Logs the changes between two snapshots.
fn audit(before: &HashMap<KeyHash, CachedKey>, after: &HashMap<KeyHash, CachedKey>) {
    for (hash, CachedKey { key, .. }) in after {
        let old = before.get(hash).map(|old| &old.key);
        if old.is_none() {
            audit_log::api_key_created(key);
        }
        if key.revoked_at.is_some() && old.is_none_or(|old| old.revoked_at.is_none()) {
            audit_log::api_key_revoked(key);
        }
        if old.is_some_and(|old| old.successor != key.successor) {
            audit_log::api_key_rotated(key);
        }
    }
    for (_, CachedKey { key, .. }) in before.iter().filter(|(hash, _)| !after.contains_key(*hash)) {
        audit_log::api_key_removed(key);
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, path::Path, sync::atomic::AtomicI64};

    use futures_util::{FutureExt, future::join_all};
    use jiff::Timestamp;
    use tokio::time::timeout;

    use super::*;
    use domain::api_key::{ApiKeySecret, NewApiKey};
    use store::{DatabaseUrl, Options, Role};

    const FILE: &str = "petstore.db";

    async fn open(dir: &Path) -> Arc<KeyCache> {
        let url = DatabaseUrl::Sqlite(dir.join(FILE));
        let store = Store::open(&url, &Options::new(Role::Service)).await;
        Arc::new(KeyCache::new(
            Arc::new(store.unwrap()),
            None,
            Clock::system(),
        ))
    }

    /// Uses are dated when they are flushed, at most once per minute.
    #[tokio::test]
    async fn uses_are_dated_by_the_flush() {
        let dir = tempfile::tempdir().unwrap();
        let mut keys = Arc::into_inner(open(dir.path()).await).unwrap();
        let seconds = Arc::new(AtomicI64::new(1_000_000_000));
        let time = seconds.clone();
        let now = move || Timestamp::from_second(time.load(Ordering::Relaxed)).unwrap();
        keys.clock = Clock::new(now.clone());
        let keys = Arc::new(keys);
        let secret = ApiKeySecret::generate();
        let new = NewApiKey::new("test".parse().unwrap(), now());
        let hash = secret.hash();
        keys.store.api_key_create(new, hash).await.unwrap();
        let recorded = async || {
            keys.flush_usage().await.unwrap();
            keys.refresh().await.unwrap();
            let listed = keys.store.api_key_list().await.unwrap();
            let (_, key) = listed.into_iter().find(|(of, _)| *of == hash).unwrap();
            key.last_used_at.map(Timestamp::as_second)
        };
        keys.refresh().await.unwrap();
        assert_eq!(recorded().await, None);
        for (at, expected) in [
            (1_000_000_010, 1_000_000_010),
            (1_000_000_060, 1_000_000_010),
            (1_000_000_070, 1_000_000_070),
        ] {
            seconds.store(at, Ordering::Relaxed);
            assert!(keys.find_and_charge(&hash, time::Instant::now()).is_some());
            assert_eq!(recorded().await, Some(expected));
        }
        seconds.store(2_000_000_000, Ordering::Relaxed);
        assert_eq!(recorded().await, Some(1_000_000_070), "it was not used");
    }

    #[tokio::test]
    async fn a_caller_that_disconnects_does_not_cancel_the_read() {
        let dir = tempfile::tempdir().unwrap();
        let keys = open(dir.path()).await;
        assert!(keys.refresh().now_or_never().is_none());
        let finished = async {
            while !keys.loaded.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(20), finished)
            .await
            .expect("the read is finished");
    }

    /// While the table cannot be read, requests with unknown keys must not queue up
    /// for one failing read each.
    #[tokio::test]
    async fn concurrent_refreshes_share_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let keys = open(dir.path()).await;
        let db = rusqlite::Connection::open(dir.path().join(FILE)).unwrap();
        db.execute_batch("DROP TABLE api_keys").unwrap();
        let failures = join_all((0..20).map(|_| keys.refresh())).await;
        let causes: HashSet<_> = failures
            .iter()
            .map(|failure| match failure {
                Err(store::Error::Internal(cause) | store::Error::Unavailable(cause)) => {
                    Arc::as_ptr(cause).cast::<()>()
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(causes.len() <= 2, "{} reads", causes.len());
    }
}
