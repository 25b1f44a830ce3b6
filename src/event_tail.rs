//! The newest events, serialized once and shared by all readers.
//!
//! Readers pull: each has a position in the log and asks for what comes after it, so a slow
//! one delays nobody and none misses an event. A position that is no longer in memory is
//! read from the store.

use std::{
    collections::VecDeque,
    io::Write,
    sync::{Arc, RwLock},
    time::Duration,
};

use bytes::Bytes;
use jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use crate::{
    event::{Event, EventId, EventType, Gone, Subject},
    page::Sort,
    store::{self, Store},
    telemetry::error_latch::ErrorLatch,
};

/// The size of the events in memory.
const MAX_BYTES: usize = 4 << 20;
/// Events that are read from the store at a time.
pub const MAX_READ: usize = 1000;
/// The pause after the store could not be read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// An event as clients get it.
#[derive(Debug)]
pub struct SerializedEvent {
    pub id: EventId,
    pub at: Timestamp,
    pub kind: EventType,
    pub subject: Subject,
    /// The event in the format of Server-Sent Events, which contains the JSON.
    pub block: Bytes,
    json_start: usize,
}

impl SerializedEvent {
    pub fn new(event: &Event, source: &str) -> Self {
        let id = event.id();
        let mut block = Vec::with_capacity(512);
        let start = write!(block, "id: {id}\nevent: {}\ndata: ", event.kind.as_str());
        start.expect("writing to memory does not fail");
        let json_start = block.len();
        event.write_json(&mut block, id, source);
        block.extend_from_slice(b"\n\n");
        Self {
            id,
            at: event.at,
            kind: event.kind,
            subject: event.resource.subject(),
            block: block.into(),
            json_start,
        }
    }

    pub fn json(&self) -> &[u8] {
        &self.block[self.json_start..self.block.len() - 2]
    }

    /// The JSON, without copying it.
    pub fn json_bytes(&self) -> Bytes {
        self.block.slice_ref(self.json())
    }
}

pub type Events = Vec<Arc<SerializedEvent>>;

/// Where events are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Every event that was acknowledged before the read.
    Store,
    /// The same, in descending order: after a position means before it.
    StoreDesc,
    /// What is in memory, if the position is. Only for subscribers: they are told when there
    /// is more.
    Memory,
}

pub struct EventTail {
    store: Arc<Store>,
    /// `None` if nobody keeps them up to date.
    newest: RwLock<Option<Newest>>,
    /// Changes when there may be something to read.
    changes: watch::Sender<()>,
    subscribed: Notify,
}

/// Consecutive events.
struct Newest {
    /// The position before the first of them.
    start: EventId,
    events: VecDeque<Arc<SerializedEvent>>,
    bytes: usize,
}

impl Newest {
    fn after_position(start: EventId) -> Self {
        Self {
            start,
            events: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The position after the last of them.
    fn end(&self) -> EventId {
        self.events.back().map_or(self.start, |last| last.id)
    }

    fn push(&mut self, event: Arc<SerializedEvent>) {
        self.bytes += event.block.len();
        self.events.push_back(event);
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= oldest.block.len();
            self.start = oldest.id;
        }
    }

    /// The events after a position; `None` if it is not in memory.
    fn after(&self, position: EventId, limit: usize) -> Option<Events> {
        let skip = match position == self.start {
            true => 0,
            false => {
                let is_before =
                    |event: &Arc<SerializedEvent>| event.id.sequence < position.sequence;
                let index = self.events.partition_point(is_before);
                (self.events.get(index)?.id == position).then_some(index + 1)?
            }
        };
        Some(self.events.iter().skip(skip).take(limit).cloned().collect())
    }
}

impl EventTail {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            newest: RwLock::default(),
            changes: watch::Sender::new(()),
            subscribed: Notify::new(),
        }
    }

    /// Tells when there may be something to read. Mark the value as seen before reading.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        let changes = self.changes.subscribe();
        self.subscribed.notify_one();
        changes
    }

    /// Reads up to `limit` events after a position; without one, from the first.
    pub async fn read(
        &self,
        from: ReadFrom,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Result<Events, Gone>, store::Error> {
        if let (ReadFrom::Memory, Some(position)) = (from, after)
            && let Some(events) = self.cached(position, limit)
        {
            return Ok(Ok(events));
        }
        let sort = match from {
            ReadFrom::StoreDesc => Sort::Desc,
            ReadFrom::Store | ReadFrom::Memory => Sort::Asc,
        };
        let read = self.store.event_read(after, sort, limit.min(MAX_READ));
        let events = read.await?;
        Ok(events.map(|events| self.serialize(&events)))
    }

    /// The events after a position; `None` if it is not in memory. For subscribers.
    pub fn cached(&self, after: EventId, limit: usize) -> Option<Events> {
        let newest = self.newest.read().expect(LOCK);
        newest.as_ref()?.after(after, limit)
    }

    fn serialize(&self, events: &[Event]) -> Events {
        let source = self.store.event_source();
        let serialize = |event| Arc::new(SerializedEvent::new(event, source));
        events.iter().map(serialize).collect()
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

    /// Reads what is new and tells the subscribers.
    async fn catch_up(&self) -> Result<(), store::Error> {
        loop {
            let end = self.newest.read().expect(LOCK).as_ref().map(Newest::end);
            let Some(end) = end else {
                return self.start_over().await;
            };
            let read = self.store.event_read(Some(end), Sort::Asc, MAX_READ);
            let events = match read.await? {
                Ok(events) if events.is_empty() => return Ok(()),
                Ok(events) => self.serialize(&events),
                Err(_) => return self.start_over().await,
            };
            if let Some(newest) = &mut *self.newest.write().expect(LOCK) {
                events.into_iter().for_each(|event| newest.push(event));
            }
            self.changes.send_replace(());
        }
    }

    /// Starts after the newest event. The subscribers read from the store what came before.
    async fn start_over(&self) -> Result<(), store::Error> {
        let newest = self.store.event_newest().await?;
        let start = newest.map_or(EventId::START, |event| event.id());
        *self.newest.write().expect(LOCK) = Some(Newest::after_position(start));
        self.changes.send_replace(());
        Ok(())
    }
}

const LOCK: &str = "no task panics while holding the lock";
