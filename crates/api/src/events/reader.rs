//! A reader that waits for events: a stream, or a long poll.

use std::{sync::Arc, time::Duration};

use futures_util::future::OptionFuture;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::super::{
    error::{ApiError, AuthFailure},
    event_feed::{EventFeed, Slot},
    key_cache::KeyCache,
    request::ApiRequest,
    state::Api,
};
use domain::{
    api_key::KeyHash,
    event::{EventId, VisibleEvents},
};
use store::{
    event_tail::{Page, ReadFrom},
    scan_queue::ScanQueue,
};

pub struct Reader {
    feed: Arc<EventFeed>,
    visible: VisibleEvents,
    position: EventId,
    /// True if the last read ended before it had found enough events or reached the end of the
    /// log. The next read is then charged to the rate limit of the key, as following the link of
    /// such a page would be.
    pub is_scanning: bool,
    /// The read in progress, which may have to wait for many turns to scan. It continues while
    /// a stream sends heartbeats. It is a task, because a connection whose client does not read
    /// is not polled, and must not hold its turn for that long.
    reading: Option<AbortOnDropHandle<Result<Page, ApiError>>>,
    queue: Arc<ScanQueue>,
    changes: watch::Receiver<()>,
    keys: Arc<KeyCache>,
    key: KeyHash,
    revocations: watch::Receiver<()>,
    _slot: Slot,
}

/// The result of waiting for events.
pub enum Next {
    Page(Page),
    /// No event arrived in time. Carries the position that was reached.
    Timeout(EventId),
    /// The service shuts down.
    Stopped,
    /// The API key is no longer valid.
    Unauthorized(AuthFailure),
}

impl Reader {
    pub fn new(
        api: &Api,
        request: &ApiRequest,
        visible: VisibleEvents,
        position: EventId,
        slot: Slot,
    ) -> Self {
        Self {
            feed: api.event_feed.clone(),
            visible,
            position,
            is_scanning: false,
            reading: None,
            queue: api.keys().scan_queue(&request.key_hash()),
            changes: api.event_feed.tail.subscribe(),
            keys: api.keys().clone(),
            key: request.key_hash(),
            revocations: api.keys().revocations(),
            _slot: slot,
        }
    }

    pub fn position(&self) -> EventId {
        self.position
    }

    /// Waits for this duration, or until the service shuts down.
    pub async fn pause(&self, duration: Duration) {
        let _ = timeout(duration, self.feed.stop.cancelled()).await;
    }

    /// Waits for a page with at least one event.
    pub async fn next(&mut self, limit: usize, wait: Duration) -> Result<Next, ApiError> {
        let deadline = Instant::now() + wait;
        let mut is_at_end = false;
        loop {
            self.revocations.mark_unchanged();
            let valid = self.keys.validity(&self.key);
            let expires_in = match valid {
                Ok(expires_in) => expires_in,
                Err(failure) => return Ok(Next::Unauthorized(failure)),
            };
            if self.feed.stop.is_cancelled() {
                return Ok(Next::Stopped);
            }
            let may_start = !is_at_end && self.reading.is_none();
            let over_quota = if may_start && self.is_scanning {
                self.keys.charge_scan(&self.key)
            } else {
                None
            };
            if may_start && over_quota.is_none() {
                match self.start_read(limit) {
                    Some(page) if !page.events.is_empty() => return Ok(Next::Page(page)),
                    Some(_) => is_at_end = true,
                    None => {}
                }
            }
            let now = Instant::now();
            let sooner = [expires_in, over_quota].into_iter().flatten().min();
            let wake_at = sooner.map_or(deadline, |sooner| deadline.min(now + sooner));
            tokio::select! {
                Some(read) = OptionFuture::from(self.reading.as_mut()) => {
                    self.reading = None;
                    let page = read.map_err(|panic| store::Error::Internal(Arc::new(panic)))??;
                    self.advance(&page, limit);
                    if !page.events.is_empty() {
                        return Ok(Next::Page(page));
                    }
                    is_at_end = !self.is_scanning;
                }
                _ = self.changes.changed(), if is_at_end => is_at_end = false,
                _ = self.revocations.changed() => {}
                () = self.feed.stop.cancelled() => {}
                () = sleep_until(wake_at) => {
                    if wake_at == deadline {
                        return Ok(Next::Timeout(self.position));
                    }
                }
            }
        }
    }

    /// Returns a page from memory, if it is complete there. Otherwise starts to read.
    fn start_read(&mut self, limit: usize) -> Option<Page> {
        // Marked before the read: a later change is signalled again.
        self.changes.mark_unchanged();
        let tail = &self.feed.tail;
        let cached = tail.cached(self.position, &self.visible, limit, limit);
        if let Some(page) = cached
            && (page.is_complete || page.events.len() == limit)
        {
            self.advance(&page, limit);
            return Some(page);
        }
        let feed = self.feed.clone();
        let position = Some(self.position);
        let visible = self.visible.clone();
        let queue = self.queue.clone();
        let read = async move {
            feed.read(ReadFrom::Memory, position, &visible, limit, &queue)
                .await
        };
        self.reading = Some(AbortOnDropHandle::new(tokio::spawn(read)));
        None
    }

    fn advance(&mut self, page: &Page, limit: usize) {
        self.position = page.end;
        self.is_scanning = !page.is_complete && page.events.len() < limit;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use jiff::Timestamp;
    use tokio_util::sync::CancellationToken;

    use super::{super::super::StreamLimits, *};
    use domain::{
        api_key::{ApiKey, ApiKeySecret, NewApiKey},
        clock::Clock,
        event::EventType,
    };
    use store::{
        DatabaseUrl, Options, Role, Store,
        event_tail::{EventTail, Framing},
    };

    const LIMIT: usize = 250;

    /// Opens a reader that looks for the last of 3001 events. Returns it with its API key.
    async fn open(dir: &std::path::Path) -> (Reader, ApiKey, Arc<Store>) {
        let file = dir.join("petstore.db");
        let url = DatabaseUrl::Sqlite(file.clone());
        let opened = Store::open(&url, &Options::new(Role::Service)).await;
        let store = Arc::new(opened.unwrap());
        let db = rusqlite::Connection::open(file).unwrap();
        db.execute_batch(
            "INSERT INTO events (at, type, resource_id, data)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3001)
             SELECT 1, iif(i = 3001, 'category.deleted', 'category.updated'), i, '{{}}' FROM n",
        )
        .unwrap();
        let hash = ApiKeySecret::generate().hash();
        let new = NewApiKey::new("test".parse().unwrap(), Timestamp::now());
        let key = store.api_key_create(new, hash).await.unwrap();
        let keys = Arc::new(KeyCache::new(store.clone(), None, Clock::system()));
        keys.refresh().await.unwrap();
        let tail = Arc::new(EventTail::new(store.clone(), Framing::default()));
        let feed = Arc::new(EventFeed::new(
            store.clone(),
            tail,
            StreamLimits::default(),
            CancellationToken::new(),
        ));
        let wanted = [EventType::CategoryDeleted].into_iter().collect();
        let reader = Reader {
            visible: VisibleEvents::of_types(wanted),
            position: EventId::START,
            is_scanning: false,
            reading: None,
            queue: keys.scan_queue(&hash),
            changes: feed.tail.subscribe(),
            revocations: keys.revocations(),
            keys,
            key: hash,
            _slot: feed
                .slots
                .admit(key.id, Ipv4Addr::LOCALHOST.into())
                .unwrap(),
            feed,
        };
        (reader, key, store)
    }

    async fn next(reader: &mut Reader, wait: Duration) -> Next {
        timeout(Duration::from_secs(60), reader.next(LIMIT, wait))
            .await
            .expect("the reader does not wait for its turn")
            .unwrap_or_else(|_| panic!("the log cannot be read"))
    }

    /// A heartbeat is due while a reader waits for its turn. The reader skips nothing then.
    #[tokio::test]
    async fn a_reader_that_waits_for_its_turn_has_a_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, ..) = open(dir.path()).await;
        let feed = reader.feed.clone();
        let other = ScanQueue::default();
        let turn = feed.tail.turn(&other).await;
        for _ in 0..2 {
            let timeout = next(&mut reader, Duration::from_millis(50)).await;
            assert!(matches!(timeout, Next::Timeout(EventId::START)));
        }
        drop(turn);
        let Next::Page(page) = next(&mut reader, Duration::from_secs(3600)).await else {
            panic!("no page");
        };
        let found = page.events.iter().map(|event| event.id.sequence);
        assert_eq!(found.collect::<Vec<_>>(), [3001]);
    }

    /// A client that does not read its stream does not keep the others from scanning.
    #[tokio::test]
    async fn a_reader_that_is_not_polled_ends_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, ..) = open(dir.path()).await;
        let feed = reader.feed.clone();
        let other = ScanQueue::default();
        let turn = feed.tail.turn(&other).await;
        let mut unpolled = Box::pin(reader.next(LIMIT, Duration::from_secs(3600)));
        let polled = timeout(Duration::from_millis(50), &mut unpolled).await;
        assert!(polled.is_err());
        drop(turn);
        let next_turn = async {
            while feed.tail.skipped.get() < 3000 {
                let _turn = feed.tail.turn(&other).await;
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), next_turn)
            .await
            .expect("the scan continues, and the others take turns");
    }

    #[tokio::test]
    async fn a_reader_that_waits_for_its_turn_notices_a_revocation() {
        let dir = tempfile::tempdir().unwrap();
        let (mut reader, key, store) = open(dir.path()).await;
        let feed = reader.feed.clone();
        let keys = reader.keys.clone();
        let other = ScanQueue::default();
        let _turn = feed.tail.turn(&other).await;
        let revoke = async {
            while feed.tail.skipped.get() < LIMIT as u64 {
                tokio::task::yield_now().await;
            }
            store.api_key_revoke(key.id, None).await.unwrap().unwrap();
            keys.refresh().await.unwrap();
        };
        let wait = Duration::from_secs(3600);
        let (next, ()) = tokio::join!(next(&mut reader, wait), revoke);
        assert!(matches!(next, Next::Unauthorized(AuthFailure::Revoked)));
    }
}
