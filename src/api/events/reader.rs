//! A reader that waits for events: a stream, or a long poll.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    super::{
        error::{ApiError, AuthFailure},
        key_cache::KeyCache,
        request::ApiRequest,
        state::Api,
    },
    EventFeed, Page,
};
use crate::{
    api_key::KeyHash,
    event::{EventId, VisibleEvents},
    event_tail::ReadFrom,
};

pub struct Reader {
    feed: Arc<EventFeed>,
    visible: VisibleEvents,
    position: EventId,
    changes: watch::Receiver<()>,
    keys: Arc<KeyCache>,
    key: KeyHash,
    revocations: watch::Receiver<()>,
    _permit: OwnedSemaphorePermit,
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
        permit: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            feed: api.events.clone(),
            visible,
            position,
            changes: api.events.tail.subscribe(),
            keys: api.keys().clone(),
            key: request.key_hash(),
            revocations: api.keys().revocations(),
            _permit: permit,
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
            let position = Some(self.position);
            let read = self
                .feed
                .read(ReadFrom::Memory, position, &self.visible, limit);
            let page = read.await?;
            self.position = page.end;
            if !page.events.is_empty() {
                return Ok(Next::Page(page));
            }
            if !page.is_complete {
                // The filter leaves out a lot.
                if Instant::now() >= deadline {
                    return Ok(Next::Timeout(self.position));
                }
                continue;
            }
            let expiry = expires_in.map(|expires_in| Instant::now() + expires_in);
            let wake_at = expiry.map_or(deadline, |expiry| expiry.min(deadline));
            tokio::select! {
                _ = self.changes.changed() => {}
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
