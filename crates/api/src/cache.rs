//! The response cache, and single-flight reads.
//!
//! A response is valid until the store's version changes in a way that affects it
//! ([`Invalidation`]). On SQLite only this process writes what is cached, and knows the version.
//! On PostgreSQL other replicas write too, and the database is asked for it: once for all
//! requests that wait at the time.

mod revalidation;

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use quick_cache::{Weighter, sync::Cache};
use tokio::time::{Instant, error::Elapsed, timeout};

use super::{
    cached_response::{CachedResponse, Invalidation},
    error::ApiError,
};
use domain::{
    category::CategoryFilter,
    order::{OrderFilter, OrderId},
    page::ListQuery,
    pet::{PetFilter, PetId},
    photo::PhotoId,
};
use revalidation::{Backoff, Doorkeeper, VersionChecks};
use single_flight::{SingleFlight, Turn};
use store::{Store, Version};
use telemetry::metrics::Counter;

/// The size of the cache in bytes.
const CAPACITY: u64 = 32 << 20;
/// The size of an entry besides its body: mostly headers.
const ENTRY_OVERHEAD: u64 = 1536;
/// The number of distinct reads that are coalesced at a time.
const MAX_SHARED_READS: usize = 256;
/// The maximum time that a request waits for the read of another one.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CacheKey {
    Pets(ListQuery<PetFilter>),
    Pet(PetId),
    Thumbnail(PetId, PhotoId),
    Categories(ListQuery<CategoryFilter>),
    Orders(ListQuery<OrderFilter>),
    Order(OrderId),
    /// The counts of all pets, or of those that match a filter.
    Inventory(Option<PetFilter>),
}

impl CacheKey {
    /// The size of the key on the heap: a list of ids, and a search.
    fn heap_size(&self) -> u64 {
        match self {
            Self::Pets(query) => query.filter.heap_size() as u64,
            Self::Inventory(Some(filter)) => filter.heap_size() as u64,
            _ => 0,
        }
    }
}

/// Counts responses by their source.
#[derive(Debug, Default)]
pub struct Metrics {
    pub hits: Counter,
    pub misses: Counter,
    /// Responses from a read that another request had started.
    pub coalesced: Counter,
}

pub struct ResponseCache {
    store: Arc<Store>,
    entries: Cache<CacheKey, Entry, Weight>,
    reads: Cache<CacheKey, SingleFlight<ReadResult>>,
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
            reads: Cache::new(MAX_SHARED_READS),
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
        if let Some(response) = self.find_valid(&key, version) {
            self.metrics.hits.increment();
            return CachedRead::Ready(response);
        }
        CachedRead::Pending(Box::pin(self.read_shared(
            key,
            Instant::now(),
            None,
            read(),
        )))
    }

    /// Asks the database whether a cached response is still valid, or reads it.
    async fn check_or_read(
        &self,
        key: CacheKey,
        read: impl Future<Output = Result<CachedResponse, ApiError>>,
    ) -> ReadResult {
        let arrived = Instant::now();
        let cached = self.entries.get(&key);
        let with_backoff = cached.and_then(|mut entry| Some((entry.backoff.take()?, entry)));
        let Some((backoff, entry)) = with_backoff else {
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
                        backoff.record_valid();
                        self.metrics.hits.increment();
                        return Ok(entry.response);
                    }
                    backoff.record_outdated();
                }
            }
            0 => backoff.record_outdated(),
            // Asks for the version, so that the response to this read is cached under it.
            1 => drop(self.version_checks.current_version().await),
            _ => {}
        }
        self.read_shared(key, arrived, Some(backoff), read).await
    }

    /// Reads once for all concurrent requests, and caches the response: always on SQLite; on
    /// PostgreSQL, if `backoff` says so. Requests that arrive during a read share the next one:
    /// it starts after they arrived, so it reflects every write they may expect to see.
    async fn read_shared(
        &self,
        key: CacheKey,
        arrived: Instant,
        backoff: Option<Arc<Backoff>>,
        read: impl Future<Output = Result<CachedResponse, ApiError>>,
    ) -> ReadResult {
        let new = || Ok::<_, Infallible>(SingleFlight::default());
        let Ok(reads) = self.reads.get_or_insert_with(&key, new);
        let turn = timeout(READ_TIMEOUT, reads.join(arrived)).await;
        let leader = match turn.map_err(timed_out)? {
            Turn::Leader(leader) => leader,
            Turn::Follower(result) => {
                self.metrics.coalesced.increment();
                return result;
            }
        };
        let is_only_writer = self.store.version().is_some();
        let version = self.store.last_known_version();
        // The read that this one waited for may have cached the response.
        if is_only_writer && let Some(response) = self.find_valid(&key, version) {
            self.metrics.coalesced.increment();
            return leader.finish(Ok(response));
        }
        self.metrics.misses.increment();
        let result = read.await.map(Arc::new);
        let is_cached = || match &backoff {
            Some(backoff) => backoff.count_read(),
            None => is_only_writer,
        };
        if let Ok(response) = &result
            && is_cached()
        {
            let entry = Entry {
                response: response.clone(),
                version,
                backoff,
            };
            self.entries.insert(key, entry);
        }
        leader.finish(result)
    }

    fn find_valid(&self, key: &CacheKey, version: Version) -> Option<Arc<CachedResponse>> {
        let entry = self.entries.get(key)?;
        entry.is_valid_at(version).then_some(entry.response)
    }
}

fn timed_out(elapsed: Elapsed) -> ApiError {
    let message = "the database did not respond in time; nothing was changed, retry later";
    ApiError::Unavailable(message, Arc::new(elapsed))
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::response;
    use domain::pet::{NewPet, PetName};
    use store::{DatabaseUrl, Options, Role};

    /// Reads that end when they are allowed to.
    struct Reads {
        cache: ResponseCache,
        may_end: Semaphore,
        fails: bool,
    }

    impl Reads {
        async fn new(dir: &tempfile::TempDir) -> Self {
            let url = DatabaseUrl::Sqlite(dir.path().join("petstore.db"));
            let store = Store::open(&url, &Options::new(Role::Service)).await;
            Self {
                cache: ResponseCache::new(Arc::new(store.unwrap())),
                may_end: Semaphore::new(0),
                fails: false,
            }
        }

        /// Sends a request whose response is not cached.
        fn request(&self) -> BoxFuture<'_, ReadResult> {
            let read = || async {
                self.may_end.acquire().await.unwrap().forget();
                if self.fails {
                    return Err(ApiError::ShuttingDown("expected"));
                }
                Ok(CachedResponse::new(
                    response::no_content(),
                    Invalidation::OnAnyWrite,
                ))
            };
            match self.cache.get_or_read(CacheKey::Inventory(None), read) {
                CachedRead::Pending(mut pending) => {
                    assert!((&mut pending).now_or_never().is_none());
                    pending
                }
                CachedRead::Ready(_) => panic!("it is cached"),
            }
        }

        fn counts(&self) -> [u64; 3] {
            let Metrics {
                hits,
                misses,
                coalesced,
            } = self.cache.metrics();
            [hits, misses, coalesced].map(Counter::get)
        }
    }

    #[tokio::test]
    async fn requests_that_wait_for_a_read_use_its_response() {
        let dir = tempfile::tempdir().unwrap();
        let reads = Reads::new(&dir).await;
        let requests: Vec<_> = (0..20).map(|_| reads.request()).collect();
        reads.may_end.add_permits(1);
        for response in join_all(requests).await {
            response.unwrap();
        }
        assert_eq!(reads.counts(), [0, 1, 19]);
    }

    #[tokio::test]
    async fn requests_that_wait_for_an_outdated_read_share_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let reads = Reads::new(&dir).await;
        let requests: Vec<_> = (0..20).map(|_| reads.request()).collect();
        let new = NewPet::new(PetName::parse("Rex").unwrap(), 1);
        reads.cache.store.pet_create(1, new, None).await.unwrap();
        reads.may_end.add_permits(2);
        for response in join_all(requests).await {
            response.unwrap();
        }
        assert_eq!(reads.counts(), [0, 2, 18]);
    }

    #[tokio::test]
    async fn requests_share_a_failure_and_the_next_one_reads_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut reads = Reads::new(&dir).await;
        reads.fails = true;
        let requests: Vec<_> = (0..20).map(|_| reads.request()).collect();
        reads.may_end.add_permits(2);
        for response in join_all(requests).await {
            response.unwrap_err();
        }
        assert_eq!(reads.counts(), [0, 2, 18]);
        drop(reads.request());
        assert_eq!(reads.counts(), [0, 3, 18]);
    }
}
