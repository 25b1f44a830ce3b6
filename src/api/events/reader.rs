//! A reader that waits for events: a stream, or a long poll.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    super::{
        error::{ApiError, AuthFailure},
        key_cache::KeyCache,
        request::ApiRequest,
        state::Api,
    },
    EventFeed, Slot,
};
use crate::{
    api_key::KeyHash,
    event::{EventId, VisibleEvents},
    event_tail::{Page, ReadFrom, ScanQueue},
};

pub struct Reader {
    feed: Arc<EventFeed>,
    visible: VisibleEvents,
    position: EventId,
    /// Whether the last read ended before it had found enough or reached the end of the
    /// log. Reading on is then charged to the rate limit of the key, as following the link
    /// of such a page would be.
    pub is_scanning: bool,
    queue: Arc<ScanQueue>,
    changes: watch::Receiver<()>,
    keys: Arc<KeyCache>,
    key: KeyHash,
    revocations: watch::Receiver<()>,
    _slot: Slot,
}

/// What a reader has waited for.
pub enum Next {
    Page(Page),
    /// Nothing happened in time. With the position that was reached.
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
            feed: api.events.clone(),
            visible,
            position,
            is_scanning: false,
            queue: api.keys().scan_queue(&request.key_hash()),
            changes: api.events.tail.subscribe(),
            keys: api.keys().clone(),
            key: request.key_hash(),
            revocations: api.keys().revocations(),
            _slot: slot,
        }
    }

    pub fn position(&self) -> EventId {
        self.position
    }

    /// Waits, unless the service shuts down.
    pub async fn pause(&self, duration: Duration) {
        let _ = timeout(duration, self.feed.stop.cancelled()).await;
    }

    /// Waits for a page with at least one event.
    pub async fn next(&mut self, limit: usize, wait: Duration) -> Result<Next, ApiError> {
        let deadline = Instant::now() + wait;
        loop {
            self.changes.mark_unchanged();
            self.revocations.mark_unchanged();
            let valid = self.keys.validity(&self.key);
            let expires_in = match valid {
                Ok(expires_in) => expires_in,
                Err(failure) => return Ok(Next::Unauthorized(failure)),
            };
            if self.feed.stop.is_cancelled() {
                return Ok(Next::Stopped);
            }
            let over_quota = if self.is_scanning {
                self.keys.charge_scan(&self.key)
            } else {
                None
            };
            if over_quota.is_none() {
                let read = self.feed.read(
                    ReadFrom::Memory,
                    Some(self.position),
                    &self.visible,
                    limit,
                    &self.queue,
                );
                let page = tokio::select! {
                    page = read => page?,
                    () = self.feed.stop.cancelled() => return Ok(Next::Stopped),
                };
                self.position = page.end;
                self.is_scanning = !page.is_complete && page.events.len() < limit;
                if !page.events.is_empty() {
                    return Ok(Next::Page(page));
                }
                if self.is_scanning {
                    if Instant::now() >= deadline {
                        return Ok(Next::Timeout(self.position));
                    }
                    continue;
                }
            }
            let now = Instant::now();
            let sooner = [expires_in, over_quota].into_iter().flatten().min();
            let wake_at = sooner.map_or(deadline, |sooner| deadline.min(now + sooner));
            tokio::select! {
                _ = self.changes.changed(), if over_quota.is_none() => {}
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
}
