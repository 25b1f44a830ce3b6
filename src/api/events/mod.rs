//! Events: the feed and the live stream over one log.

mod query;
mod reader;
mod stream;
mod tail;

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{error::ApiError, request::ApiRequest, response, state::Api};
use crate::{
    event::{After, EventId, VisibleEvents},
    server::Response,
    store::Store,
    telemetry::metrics::{Counter, Gauge},
};
use query::{EventQuery, last_event_id};
use reader::{Next, Reader};
use tail::{EventTail, Events, MAX_READ, Source};

/// Reads of a filtered page. A page without a match may therefore not be the last.
const MAX_READS: usize = 10;

/// Limits of event streams.
#[derive(Debug, Clone)]
pub struct StreamLimits {
    /// Streams and long polls that may be open.
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
    store: Arc<Store>,
    tail: EventTail,
    /// Streams and long polls that may still be opened.
    permits: Arc<Semaphore>,
    limits: StreamLimits,
    /// Ends all streams and long polls.
    stop: CancellationToken,
    pub metrics: Metrics,
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub streams: Gauge,
    pub long_polls: Gauge,
    pub purged: Counter,
}

/// A part of the log.
struct Page {
    events: Events,
    /// Where it ends: behind the events that the filter left out.
    end: EventId,
    /// Whether the end of the log was reached.
    is_complete: bool,
}

impl EventFeed {
    pub fn new(store: Arc<Store>, limits: StreamLimits) -> Self {
        Self {
            tail: EventTail::new(store.clone()),
            store,
            permits: Arc::new(Semaphore::new(limits.max_open)),
            limits,
            stop: CancellationToken::new(),
            metrics: Metrics::default(),
        }
    }

    /// Keeps the newest events in memory while somebody follows them. Never returns.
    pub async fn follow(&self) {
        self.tail.follow().await;
    }

    /// Ends all streams and long polls. Their clients continue at another replica.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Admits a stream or a long poll.
    fn admit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = self.permits.clone().try_acquire_owned();
        permit.map_err(|_| ApiError::TooManyStreams)
    }

    /// The position of the newest event.
    async fn newest(&self) -> Result<EventId, ApiError> {
        let newest = self.store.event_newest().await?;
        Ok(newest.map_or(EventId::START, |event| event.id()))
    }

    /// Reads up to `limit` events after a position; without one, from the oldest.
    async fn read(
        &self,
        source: Source,
        mut after: Option<EventId>,
        visible: &VisibleEvents,
        limit: usize,
    ) -> Result<Page, ApiError> {
        let mut page = Page {
            events: Events::new(),
            end: after.unwrap_or(EventId::START),
            is_complete: false,
        };
        let mut size = limit;
        for _ in 0..MAX_READS {
            let read = self.tail.read(source, after, size).await?;
            let events = read.map_err(ApiError::EventsGone)?;
            page.is_complete = events.len() < size;
            for event in events {
                page.end = event.id;
                if visible.include(event.kind, event.subject) {
                    page.events.push(event);
                }
                if page.events.len() == limit {
                    return Ok(page);
                }
            }
            if page.is_complete {
                break;
            }
            (after, size) = (Some(page.end), MAX_READ);
        }
        Ok(page)
    }
}

/// A page of the log; with `wait`, as soon as there is something on it.
pub async fn list_events(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = EventQuery::parse(request.head.uri.query().unwrap_or(""))?;
    let visible = request.visible_events(query.filter)?;
    let (feed, limit) = (&api.events, query.limit.get());
    feed.store.event_sync().await?;
    let mut page = match query.after {
        None => feed.read(Source::Store, None, &visible, limit).await?,
        Some(After::Id(id)) => feed.read(Source::Store, Some(id), &visible, limit).await?,
        Some(After::Now) => Page {
            events: Events::new(),
            end: feed.newest().await?,
            is_complete: true,
        },
    };
    if page.events.is_empty() && page.is_complete && !query.wait.is_zero() {
        let permit = feed.admit()?;
        let mut reader = Reader::new(api, &request, visible, page.end, permit);
        let _open = feed.metrics.long_polls.track();
        let next = request.wait(reader.next(limit, query.wait)).await?;
        page = match next {
            Next::Page(next) => next,
            Next::Timeout(end) | Next::Stopped(end) => Page { end, ..page },
            Next::Unauthorized(failure) => return Err(failure.into()),
        };
    }
    let mut body = vec![b'['];
    for event in &page.events {
        body.extend(event.json());
        body.push(b',');
    }
    if body.len() > 1 {
        body.pop();
    }
    body.push(b']');
    let link = api.links.events(&query.next(page.end));
    Ok(response::events(body.into(), link))
}

/// The log as it grows, in Server-Sent Events.
pub async fn stream_events(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = EventQuery::parse(request.head.uri.query().unwrap_or(""))?;
    let after = last_event_id(&request.head.headers)?.or(query.after);
    let visible = request.visible_events(query.filter)?;
    let feed = &api.events;
    feed.store.event_sync().await?;
    let position = match after {
        None | Some(After::Now) => feed.newest().await?,
        Some(After::Id(id)) => {
            // Says before the stream starts whether it can.
            feed.read(Source::Store, Some(id), &visible, 1).await?;
            id
        }
    };
    let permit = feed.admit()?;
    request.release();
    let reader = Reader::new(api, &request, visible, position, permit);
    let mut response = Response::new(stream::body(api, &request, reader));
    let headers = response.headers_mut();
    let event_stream = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, event_stream);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would hold events back until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
