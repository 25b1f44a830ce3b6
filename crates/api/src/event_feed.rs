//! The event log for its readers: limits streams and long polls, and ends them at shutdown.

mod slots;

use std::{io::Write, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{error::ApiError, request::ApiRequest};
use domain::{
    event::{EventId, Gone, VisibleEvents},
    page::Sort,
};
pub use slots::Slot;
use slots::Slots;
use store::{
    Store,
    event_tail::{EventTail, Framing, Page, ReadFrom},
    scan_queue::ScanQueue,
};
use telemetry::metrics::{Counter, Gauge};

/// Limits of event streams.
#[derive(Debug, Clone)]
pub struct StreamLimits {
    /// The maximum number of open streams and long polls. An API key may have a quarter of them,
    /// an address three quarters.
    pub max_open: usize,
    /// The approximate time after which a stream ends. Its client then continues, perhaps at
    /// another replica.
    pub max_age: Duration,
    /// The maximum time between two messages on a stream, so that neither side nor a proxy takes
    /// the connection for dead.
    pub heartbeat_interval: Duration,
}

impl Default for StreamLimits {
    fn default() -> Self {
        Self {
            max_open: 1024,
            max_age: Duration::from_secs(3600),
            heartbeat_interval: Duration::from_secs(15),
        }
    }
}

/// Makes Server-Sent Events of the events that streams share. A client resumes at the id of the
/// last one.
pub const SSE_FRAMING: Framing = Framing {
    write_head: |out, id, kind| {
        let head = write!(out, "id: {id}\nevent: {}\ndata: ", kind.as_str());
        head.expect("writing to memory does not fail");
    },
    tail: b"\n\n",
};

/// The state that all readers of the log share.
pub struct EventFeed {
    pub store: Arc<Store>,
    pub tail: Arc<EventTail>,
    pub slots: Arc<Slots>,
    pub limits: StreamLimits,
    /// Ends all streams and long polls.
    pub stop: CancellationToken,
    pub metrics: Metrics,
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub streams: Gauge,
    pub long_polls: Gauge,
    pub purged: Counter,
}

impl EventFeed {
    /// Creates a feed whose streams and long polls end when `stop` is cancelled. Their clients
    /// continue at another replica.
    pub fn new(
        store: Arc<Store>,
        tail: Arc<EventTail>,
        limits: StreamLimits,
        stop: CancellationToken,
    ) -> Self {
        Self {
            store,
            tail,
            slots: Arc::new(Slots::new(limits.max_open)),
            limits,
            stop,
            metrics: Metrics::default(),
        }
    }

    /// Admits a stream or a long poll.
    pub fn admit(&self, request: &ApiRequest) -> Result<Slot, ApiError> {
        if self.stop.is_cancelled() {
            return Err(SHUTTING_DOWN);
        }
        self.slots.admit(request.api_key_id(), request.client)
    }

    /// Returns the position of the newest event.
    pub async fn newest(&self) -> Result<EventId, ApiError> {
        let newest = self.store.event_newest().await?;
        Ok(newest.map_or(EventId::START, |event| event.id()))
    }

    /// Reads up to `limit` events after a position, or from the first event without one.
    pub async fn read(
        &self,
        from: ReadFrom,
        after: Option<EventId>,
        visible: &VisibleEvents,
        limit: usize,
        queue: &ScanQueue,
    ) -> Result<Page, ApiError> {
        let page = self.tail.find(from, after, visible, limit, queue).await?;
        page.map_err(ApiError::PositionGone)
    }

    /// Returns true if the log may have visible events before a position.
    pub async fn has_older(
        &self,
        position: EventId,
        visible: &VisibleEvents,
    ) -> Result<bool, ApiError> {
        let part = visible.part();
        let older = self
            .store
            .event_read_part(part, Some(position), Sort::Desc, 1);
        Ok(match older.await? {
            Ok(read) => !read.events.is_empty(),
            // The position was purged after the page was read, and so was everything before it.
            Err(Gone::Expired) => false,
            // The next page reports the error.
            Err(Gone::Unknown) => true,
        })
    }
}

pub const SHUTTING_DOWN: ApiError =
    ApiError::ShuttingDown("the service is shutting down; continue later or at another replica");
