//! The event log as its readers share it: streams and long polls are limited, and end at
//! shutdown.

mod slots;

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{error::ApiError, request::ApiRequest};
use crate::{
    event::{EventId, Gone, VisibleEvents},
    event_tail::{EventTail, Page, ReadFrom, ScanQueue},
    page::Sort,
    store::Store,
    telemetry::metrics::{Counter, Gauge},
};
pub use slots::Slot;
use slots::Slots;

/// Limits of event streams.
#[derive(Debug, Clone)]
pub struct StreamLimits {
    /// Streams and long polls that may be open. An API key may have a quarter of them, an
    /// address three quarters.
    pub max_open: usize,
    /// After about this time a stream ends and its client continues, perhaps at another
    /// replica.
    pub max_age: Duration,
    /// How often something is sent at least, so that neither side nor a proxy takes the
    /// connection for dead.
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

/// Everything that readers of the log share.
pub struct EventFeed {
    pub(super) store: Arc<Store>,
    pub(super) tail: Arc<EventTail>,
    pub(super) slots: Arc<Slots>,
    pub(super) limits: StreamLimits,
    /// Ends all streams and long polls.
    pub(super) stop: CancellationToken,
    pub metrics: Metrics,
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub streams: Gauge,
    pub long_polls: Gauge,
    pub purged: Counter,
}

impl EventFeed {
    /// Streams and long polls end when `stop` is cancelled. Their clients continue at
    /// another replica.
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
    pub(super) fn admit(&self, request: &ApiRequest) -> Result<Slot, ApiError> {
        if self.stop.is_cancelled() {
            return Err(SHUTTING_DOWN);
        }
        self.slots.admit(request.api_key_id(), request.client)
    }

    /// The position of the newest event.
    pub(super) async fn newest(&self) -> Result<EventId, ApiError> {
        let newest = self.store.event_newest().await?;
        Ok(newest.map_or(EventId::START, |event| event.id()))
    }

    /// Reads up to `limit` events after a position; without one, from the first.
    pub(super) async fn read(
        &self,
        from: ReadFrom,
        after: Option<EventId>,
        visible: &VisibleEvents,
        limit: usize,
        queue: &ScanQueue,
    ) -> Result<Page, ApiError> {
        let page = self.tail.find(from, after, visible, limit, queue).await?;
        page.map_err(ApiError::EventsGone)
    }

    /// Whether events are kept that are older than a position.
    pub(super) async fn has_older(&self, position: EventId) -> Result<bool, ApiError> {
        let older = self.store.event_read(Some(position), Sort::Desc, 1);
        Ok(match older.await? {
            Ok(events) => !events.is_empty(),
            // Purged meanwhile, and everything before it too.
            Err(Gone::Expired) => false,
            // The next page says so.
            Err(Gone::Unknown) => true,
        })
    }
}

pub(super) const SHUTTING_DOWN: ApiError =
    ApiError::ShuttingDown("the service is shutting down; continue later or at another replica");
