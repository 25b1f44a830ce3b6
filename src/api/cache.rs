//! The response cache, and single-flight reads.
//!
//! A response is valid until the store's version changes. On SQLite only this process writes
//! what is cached, and knows the version. On PostgreSQL other replicas write too, and the
//! database is asked for it: once for all requests that wait at the time.

mod revalidation;

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use quick_cache::{
    Weighter,
    sync::{Cache, EntryAction, EntryResult},
};
use tokio::{
    sync::Mutex,
    time::{Instant, error::Elapsed, timeout},
};

use super::{
    error::ApiError,
    response::{CachedResponse, Invalidation},
};
use crate::{
    category::CategoryFilter,
    order::{OrderFilter, OrderId},
    page::ListQuery,
    pet::{PetFilter, PetId},
    store::{Store, Version},
    telemetry::metrics::Counter,
};
use revalidation::{Backoff, Doorkeeper, VersionChecks};

/// The size of the cache in bytes.
const CAPACITY: u64 = 32 << 20;
/// What an entry takes besides its body: mostly headers.
const ENTRY_OVERHEAD: u64 = 1536;
/// How many distinct reads are coalesced at a time on PostgreSQL.
const MAX_SHARED_READS: usize = 256;
/// How long a request waits for another one's read.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CacheKey {
    Pets(ListQuery<PetFilter>),
    Pet(PetId),
    Categories(ListQuery<CategoryFilter>),
    Orders(ListQuery<OrderFilter>),
    Order(OrderId),
    Inventory,
}

impl CacheKey {
    /// What it takes beside its own size: a list of ids.
    fn heap_size(&self) -> u64 {
        match self {
            Self::Pets(query) => {
                let ids = query.filter.ids.as_ref();
                ids.map_or(0, |ids| size_of_val(ids.as_slice()) as u64)
            }
            _ => 0,
        }
    }
}

/// Where responses came from.
#[derive(Debug, Default)]
pub struct Metrics {
    pub hits: Counter,
    pub misses: Counter,
    /// Shared with a read that another request had started.
    pub coalesced: Counter,
}

pub struct ResponseCache {
    store: Arc<Store>,
    entries: Cache<CacheKey, Entry, Weight>,
    shared_reads: Cache<CacheKey, Arc<SharedRead>>,
    version_checks: VersionChecks,
    doorkeeper: Doorkeeper,
    metrics: Metrics,
}

#[derive(Clone)]
struct Entry {
    response: Arc<CachedResponse>,
    /// The version of the store before the read: the response may be newer,
    /// never older.
    version: Version,
    /// On PostgreSQL only.
    backoff: Option<Arc<Backoff>>,
}

impl Entry {
    fn is_valid_at(&self, version: Version) -> bool {
        let inserts_matter = self.response.invalidation == Invalidation::OnAnyWrite;
        self.version.updates >= version.updates
            && (!inserts_matter || self.version.inserts >= version.inserts)
    }
}

pub type ReadResult = Result<Arc<CachedResponse>, ApiError>;

/// A response that is available, or the read that will provide it.
pub enum CachedRead<'a> {
    Ready(Arc<CachedResponse>),
    Pending(BoxFuture<'a, ReadResult>),
}

/// The last read of a response: when it started, and its result.
type SharedRead = Mutex<Option<(Instant, ReadResult)>>;

#[derive(Clone)]
struct Weight;

impl Weighter<CacheKey, Entry> for Weight {
    fn weight(&self, key: &CacheKey, entry: &Entry) -> u64 {
        ENTRY_OVERHEAD + key.heap_size() + entry.response.body_size()
    }
}

impl ResponseCache {
    pub fn new(store: Arc<Store>) -> Self {
        let version_checks = VersionChecks::new(store.clone());
        Self {
            store,
            entries: Cache::with_weighter(1024, CAPACITY, Weight),
            shared_reads: Cache::new(MAX_SHARED_READS),
            version_checks,
            doorkeeper: Doorkeeper::default(),
            metrics: Metrics::default(),
        }
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns a response that reflects every acknowledged write, cached or read.
    pub fn get_or_read<'a, F>(&'a self, key: CacheKey, read: impl FnOnce() -> F) -> CachedRead<'a>
    where
        F: Future<Output = Result<CachedResponse, ApiError>> + Send + 'a,
    {
        let Some(version) = self.store.version() else {
            return CachedRead::Pending(Box::pin(self.check_or_read(key, read())));
        };
        let entry = self.entries.get(&key);
        if let Some(entry) = entry.filter(|entry| entry.is_valid_at(version)) {
            self.metrics.hits.increment();
            return CachedRead::Ready(entry.response);
        }
        CachedRead::Pending(Box::pin(self.read_and_cache(key, version, read())))
    }

    /// Reads once for all concurrent requests and caches the response.
    async fn read_and_cache(
        &self,
        key: CacheKey,
        version: Version,
        read: impl Future<Output = Result<CachedResponse, ApiError>>,
    ) -> ReadResult {
        let revalidate = |_: &CacheKey, entry: &mut Entry| match entry.is_valid_at(version) {
            true => EntryAction::Retain(entry.response.clone()),
            false => EntryAction::ReplaceWithGuard,
        };
        // If a read fails, the next request in line tries: hence the timeout
        // over all of them.
        let entry = self.entries.entry_async(&key, revalidate);
        let guard = match timeout(READ_TIMEOUT, entry).await {
            Ok(EntryResult::Retained(response)) => {
                self.metrics.coalesced.increment();
                return Ok(response);
            }
            Ok(EntryResult::Vacant(guard) | EntryResult::Replaced(guard, _)) => guard,
            Ok(EntryResult::Removed(..) | EntryResult::Timeout) => {
                unreachable!("neither is requested")
            }
            Err(elapsed) => return Err(timed_out(elapsed)),
        };
        self.metrics.misses.increment();
        let version = self.store.version().unwrap_or(version);
        let response = Arc::new(read.await?);
        let _ = guard.insert(Entry {
            response: response.clone(),
            version,
            backoff: None,
        });
        Ok(response)
    }

    /// Asks the database whether a cached response is still valid, or reads it.
    async fn check_or_read(
        &self,
        key: CacheKey,
        read: impl Future<Output = Result<CachedResponse, ApiError>>,
    ) -> ReadResult {
        let arrived = Instant::now();
        let entry = self.entries.get(&key);
        let entry = entry.and_then(|mut entry| Some((entry.backoff.take()?, entry)));
        let Some((backoff, entry)) = entry else {
            let backoff = self.doorkeeper.admits(&key).then(Arc::default);
            return self.read_shared(key, arrived, backoff, read).await;
        };
        let known = self.store.last_known_version();
        match backoff.remaining() {
            0 if entry.is_valid_at(known) => {
                if let Some(version) = self.version_checks.current_version().await {
                    let is_valid = |entry: &Entry| entry.is_valid_at(version);
                    // Another request may have refreshed it.
                    let refreshed = || self.entries.get(&key).filter(is_valid);
                    if let Some(entry) = Some(entry).filter(is_valid).or_else(refreshed) {
                        backoff.reset();
                        self.metrics.hits.increment();
                        return Ok(entry.response);
                    }
                    backoff.start();
                }
            }
            0 => backoff.start(),
            // What is read now will be cached, with the version that is known.
            1 => drop(self.version_checks.current_version().await),
            _ => {}
        }
        self.read_shared(key, arrived, Some(backoff), read).await
    }

    /// Requests that arrive during a read share the next one: it starts after they
    /// arrived, so it reflects all they may expect.
    async fn read_shared(
        &self,
        key: CacheKey,
        arrived: Instant,
        backoff: Option<Arc<Backoff>>,
        read: impl Future<Output = Result<CachedResponse, ApiError>>,
    ) -> ReadResult {
        let new = || Ok::<_, Infallible>(Arc::new(SharedRead::default()));
        let Ok(shared) = self.shared_reads.get_or_insert_with(&key, new);
        let mut last = timeout(READ_TIMEOUT, shared.lock())
            .await
            .map_err(timed_out)?;
        if let Some((started, result)) = &*last
            && *started >= arrived
        {
            self.metrics.coalesced.increment();
            return result.clone();
        }
        self.metrics.misses.increment();
        let (started, version) = (Instant::now(), self.store.last_known_version());
        let result = read.await.map(Arc::new);
        *last = Some((started, result.clone()));
        if let (Ok(response), Some(backoff)) = (&result, backoff)
            && backoff.count_read()
        {
            let entry = Entry {
                response: response.clone(),
                version,
                backoff: Some(backoff),
            };
            self.entries.insert(key, entry);
        }
        result
    }
}

fn timed_out(elapsed: Elapsed) -> ApiError {
    let message = "the database did not respond in time; nothing was changed, retry later";
    ApiError::Unavailable(message, Arc::new(elapsed))
}
