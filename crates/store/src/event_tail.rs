//! The newest events, serialized once and shared by all readers.
//!
//! Readers pull: each has a position in the log and asks for the events after it, so a slow
//! reader delays no other, and no reader misses an event. Events after a position that is no longer
//! in memory are read from the store.
//!
//! A filter may leave out most of a long log. Reading further for the next match is a scan. A scan
//! consists of short reads, one at a time in the whole process, and all readers that scan take
//! turns (see [`ScanQueue`]). The read of another client is therefore never queued behind more than
//! one read of a scan.

mod newest;
mod serialized;

use std::{
    sync::{Arc, RwLock},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::{
    Error, EventPage, Store,
    scan_queue::{ScanQueue, Scans, Turn},
};
use domain::{
    event::{Event, EventId, Gone, VisibleEvents},
    page::Sort,
};
use newest::Newest;
pub use serialized::{Framing, SerializedEvent};
use telemetry::{error_latch::ErrorLatch, metrics::Counter};

/// The maximum number of events that are read from the store at a time.
pub const MAX_READ: usize = 1000;
/// The maximum number of reads for a filtered page. A page without a match may therefore not be
/// the last.
const MAX_READS: usize = 10;
/// The pause after the store could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub type Events = Vec<Arc<SerializedEvent>>;

/// The result of a read: the events that match a filter in a part of the log.
pub struct Page {
    pub events: Events,
    /// The last position that was examined. Events that do not match may precede it, after the
    /// last one that matches.
    pub end: EventId,
    /// True if the end of the log was reached.
    pub is_complete: bool,
}

/// The source of the events of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// The store, with every event that was acknowledged before the read.
    Store,
    /// The store, in descending order: the read continues with the events before a position.
    StoreDesc,
    /// Memory, if it has the position, or else the store. Memory may lag behind the store, so this
    /// is only for subscribers, which are notified when there is more.
    Memory,
}

/// The event log, with its newest events in memory.
pub struct EventTail {
    store: Arc<Store>,
    framing: Framing,
    /// The newest events, or `None` while there are no subscribers, and nothing keeps them up to
    /// date.
    newest: RwLock<Option<Newest>>,
    /// Notifies subscribers that there may be something to read.
    changes: watch::Sender<()>,
    /// Notified by a new subscriber, so that [`follow`](Self::follow) starts to read.
    subscribed: Notify,
    scans: Arc<Scans>,
    /// The number of events that were read and left out by a filter.
    pub skipped: Counter,
}

impl EventTail {
    pub fn new(store: Arc<Store>, framing: Framing) -> Self {
        Self {
            store,
            framing,
            newest: RwLock::default(),
            changes: watch::Sender::new(()),
            subscribed: Notify::new(),
            scans: Arc::default(),
            skipped: Counter::default(),
        }
    }

    /// Returns a receiver that is notified when there may be something to read. Mark the value as
    /// seen before reading.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        let changes = self.changes.subscribe();
        self.subscribed.notify_one();
        changes
    }

    /// Reads up to `limit` wanted events after a position, or from the first event without one.
    /// Examines at most about 10,000 events.
    pub async fn find(
        &self,
        from: ReadFrom,
        after: Option<EventId>,
        wanted: &VisibleEvents,
        limit: usize,
        queue: &ScanQueue,
    ) -> Result<Result<Page, Gone>, Error> {
        let mut page = match self.examine(from, after, wanted, limit, limit).await? {
            Ok(page) => page,
            Err(gone) => return Ok(Err(gone)),
        };
        for _ in 1..MAX_READS {
            let missing = limit - page.events.len();
            if page.is_complete || missing == 0 {
                break;
            }
            let _turn = self.turn(queue).await;
            let more = self.examine(from, Some(page.end), wanted, MAX_READ, missing);
            // If the position was purged since, the next page reports that.
            let Ok(more) = more.await? else {
                break;
            };
            page.events.extend(more.events);
            page.end = more.end;
            page.is_complete = more.is_complete;
        }
        Ok(Ok(page))
    }

    /// Waits for a turn to read further, after a read without enough matches.
    pub async fn turn<'a>(&'a self, queue: &'a ScanQueue) -> Turn<'a> {
        self.scans.turn(queue).await
    }

    /// Returns the scans of the process, of which those of the log are a part.
    pub fn scans(&self) -> &Arc<Scans> {
        &self.scans
    }

    /// Reads up to `size` events after a position, and returns up to `limit` of them that are
    /// wanted.
    pub async fn examine(
        &self,
        from: ReadFrom,
        after: Option<EventId>,
        wanted: &VisibleEvents,
        size: usize,
        limit: usize,
    ) -> Result<Result<Page, Gone>, Error> {
        if let (ReadFrom::Memory, Some(position)) = (from, after)
            && let Some(page) = self.cached(position, wanted, size, limit)
        {
            return Ok(Ok(page));
        }
        let sort = match from {
            ReadFrom::StoreDesc => Sort::Desc,
            ReadFrom::Store | ReadFrom::Memory => Sort::Asc,
        };
        let size = size.min(MAX_READ);
        let read = self.store.event_read_part(wanted.part(), after, sort, size);
        let EventPage { events, newest } = match read.await? {
            Ok(read) => read,
            Err(gone) => return Ok(Err(gone)),
        };
        // Only wanted events are serialized.
        let select = |event: &Event| {
            wanted
                .include(event.kind, event.subject(), event.batch_id.as_ref())
                .then(|| self.serialize(event))
        };
        let start = after.unwrap_or(EventId::START);
        let mut page = self.page(events.iter(), size, limit, start, Event::id, select);
        if page.is_complete
            && let Some(newest) = newest
            // On PostgreSQL, the position may come from a replica that knows a later head.
            && newest.sequence > page.end.sequence
        {
            page.end = newest;
        }
        Ok(Ok(page))
    }

    /// Works like [`examine`](Self::examine), but returns `None` if the position is not in
    /// memory. For subscribers.
    pub fn cached(
        &self,
        after: EventId,
        wanted: &VisibleEvents,
        size: usize,
        limit: usize,
    ) -> Option<Page> {
        let newest = self.newest.read().expect(LOCK);
        let events = newest.as_ref()?.after(after)?.take(size);
        let select = |event: &Arc<SerializedEvent>| {
            wanted
                .include(event.kind, event.subject, event.batch_id.as_ref())
                .then(|| event.clone())
        };
        Some(self.page(events, size, limit, after, |event| event.id, select))
    }

    /// Selects up to `limit` of the events after `start`. `size` is the number of events that
    /// were requested.
    fn page<'a, E: 'a>(
        &self,
        read: impl ExactSizeIterator<Item = &'a E>,
        size: usize,
        limit: usize,
        start: EventId,
        id: fn(&E) -> EventId,
        select: impl Fn(&E) -> Option<Arc<SerializedEvent>>,
    ) -> Page {
        let mut is_complete = read.len() < size;
        let mut events = Events::new();
        let mut last = None;
        let mut skipped = 0;
        for event in read {
            if events.len() == limit {
                is_complete = false;
                break;
            }
            match select(event) {
                Some(wanted) => events.push(wanted),
                None => skipped += 1,
            }
            last = Some(event);
        }
        if skipped > 0 {
            self.skipped.add(skipped);
        }
        Page {
            events,
            end: last.map_or(start, id),
            is_complete,
        }
    }

    fn serialize(&self, event: &Event) -> Arc<SerializedEvent> {
        let source = self.store.event_source();
        Arc::new(SerializedEvent::new(event, source, self.framing))
    }

    /// Keeps the newest events in memory while there are subscribers. Never returns.
    pub async fn follow(&self) {
        let mut latch = ErrorLatch::new("event log");
        loop {
            self.subscribed.notified().await;
            let mut head = self.store.event_head();
            head.mark_changed();
            loop {
                tokio::select! {
                    _ = head.changed() => {
                        let result = self.catch_up().await;
                        let failed = result.is_err();
                        latch.observe(result);
                        if failed {
                            sleep(RETRY_DELAY).await;
                            head.mark_changed();
                        }
                    }
                    () = self.changes.closed() => break,
                }
            }
            *self.newest.write().expect(LOCK) = None;
        }
    }

    /// Reads new events into memory and notifies the subscribers.
    async fn catch_up(&self) -> Result<(), Error> {
        loop {
            let end = self.newest.read().expect(LOCK).as_ref().map(Newest::end);
            let Some(end) = end else {
                return self.start_over().await;
            };
            let read = self.store.event_read(Some(end), Sort::Asc, MAX_READ);
            let events: Events = match read.await? {
                Ok(events) if events.is_empty() => return Ok(()),
                Ok(events) => events.iter().map(|event| self.serialize(event)).collect(),
                Err(_) => return self.start_over().await,
            };
            if let Some(newest) = &mut *self.newest.write().expect(LOCK) {
                events.into_iter().for_each(|event| newest.push(event));
            }
            self.changes.send_replace(());
        }
    }

    /// Empties the memory, and starts after the newest event. Subscribers read earlier events from
    /// the store.
    async fn start_over(&self) -> Result<(), Error> {
        let newest = self.store.event_newest().await?;
        let start = newest.map_or(EventId::START, |event| event.id());
        *self.newest.write().expect(LOCK) = Some(Newest::after_position(start));
        self.changes.send_replace(());
        Ok(())
    }
}

const LOCK: &str = "no task panics while holding the lock";

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        pin::pin,
        sync::{
            Mutex as SyncMutex,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use futures_util::{FutureExt, future::join_all};
    use tokio::time::timeout;

    use super::*;
    use crate::{DatabaseUrl, Options, Role};
    use domain::event::EventTypes;

    /// Creates a log of this many events about a category.
    async fn open(dir: &Path, events: usize) -> EventTail {
        let file = dir.join("petstore.db");
        let url = DatabaseUrl::Sqlite(file.clone());
        let store = Store::open(&url, &Options::new(Role::Service)).await;
        let db = rusqlite::Connection::open(file).unwrap();
        db.execute_batch(&format!(
            "INSERT INTO events (at, type, resource_id, data)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {events})
             SELECT 1, 'category.updated', i, '{{}}' FROM n"
        ))
        .unwrap();
        EventTail::new(Arc::new(store.unwrap()), Framing::default())
    }

    fn nothing_else() -> VisibleEvents {
        let types = EventTypes::from_store("order.placed");
        VisibleEvents::of_types(types)
    }

    /// However many readers wait with one key, a reader with another key is next.
    #[tokio::test]
    async fn keys_take_turns_to_scan() {
        let dir = tempfile::tempdir().unwrap();
        let tail = open(dir.path(), 1).await;
        let [busy, other] = [(); 2].map(|()| ScanQueue::default());
        let order = SyncMutex::new(Vec::new());
        let current = tail.turn(&busy).await;
        let wait = async |name: &'static str, queue| {
            let _turn = tail.turn(queue).await;
            order.lock().unwrap().push(name);
        };
        let readers = [("busy", &busy); 3].into_iter().chain([("other", &other)]);
        let mut waiting = pin!(join_all(readers.map(|(name, queue)| wait(name, queue))));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(current);
        waiting.await;
        assert_eq!(*order.lock().unwrap(), ["other", "busy", "busy", "busy"]);
    }

    /// However many pages are requested with one key, two are read at a time, and the pages of
    /// another key do not wait for them.
    #[tokio::test]
    async fn pages_of_a_key_are_read_two_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let tail = open(dir.path(), 3000).await;
        let [busy, other] = [(); 2].map(|()| ScanQueue::default());
        let started = AtomicUsize::new(0);
        let wanted = nothing_else();
        let read = async |queue: &ScanQueue| {
            let _reading = queue.read_page().await;
            started.fetch_add(1, Relaxed);
            let found = tail.find(ReadFrom::Store, None, &wanted, 10, queue).await;
            let page = found.unwrap().unwrap();
            assert_eq!((page.end.sequence, page.is_complete), (3000, true));
        };
        let current = busy.turn.lock().await;
        let mut waiting = pin!(join_all([&busy; 5].map(&read)));
        assert!(waiting.as_mut().now_or_never().is_none());
        let page = timeout(Duration::from_secs(60), read(&other)).await;
        page.expect("the page of the other key is read");
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(started.load(Relaxed), 3);
        drop(current);
        waiting.await;
        assert_eq!(started.load(Relaxed), 6);
    }
}
