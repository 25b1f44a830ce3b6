//! The body of a stream: Server-Sent Events.

use std::{
    ops::Range,
    sync::Arc,
    time::{self, Duration},
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use rand::RngExt;
use tokio::time::Instant;

use super::{
    super::{error::ApiError, event_feed::EventFeed, request::ApiRequest, state::Api},
    Next, Reader,
};
use domain::event::EventId;
use server::ResponseBody;
use telemetry::access_log::{AccessLog, StreamEnd, StreamEntry};

/// The pause after the log could not be read, varied so that not all streams retry at the same
/// time.
const RETRY_DELAY: Range<Duration> = Duration::from_millis(500)..Duration::from_millis(1500);
const COMMENT: &[u8] = b":\n\n";
/// The maximum number of events in a chunk.
const CHUNK_SIZE: usize = 250;

struct EventStream {
    reader: Reader,
    /// The first chunk, until it is sent.
    start: Option<Bytes>,
    /// The last id that was sent.
    sent: EventId,
    ends_at: Instant,
    heartbeat_interval: Duration,
    log: StreamLog,
}

/// Returns a body that streams the events from the position of its reader.
pub fn body(api: &Api, request: &ApiRequest, reader: Reader) -> ResponseBody {
    let mut random = rand::rng();
    let retry = random.random_range(2000..5000);
    let sent = reader.position();
    let limits = &api.event_feed.limits;
    let stream = EventStream {
        // The chunk has the position, so that a client that is cut off before the first event
        // resumes there.
        start: Some(format!("retry: {retry}\nid: {sent}\n\n").into()),
        sent,
        ends_at: Instant::now() + limits.max_age.mul_f64(random.random_range(0.9..1.1)),
        heartbeat_interval: limits.heartbeat_interval,
        reader,
        log: StreamLog::new(api, request),
    };
    ResponseBody::stream(stream::unfold(stream, EventStream::next))
}

impl EventStream {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        if let Some(start) = self.start.take() {
            return Some((start, self));
        }
        let now = Instant::now();
        if now >= self.ends_at {
            return self.end(StreamEnd::MaxAge);
        }
        let wait = self.heartbeat_interval.min(self.ends_at - now);
        match self.reader.next(CHUNK_SIZE, wait).await {
            Ok(Next::Page(page)) => {
                self.sent = page.events.last().map_or(self.sent, |event| event.id);
                self.log.events += page.events.len() as u64;
                let chunk = match page.events.as_slice() {
                    [event] => event.framed.clone(),
                    events => {
                        let mut blocks = BytesMut::new();
                        for event in events {
                            blocks.extend_from_slice(&event.framed);
                        }
                        blocks.freeze()
                    }
                };
                Some((chunk, self))
            }
            Ok(Next::Timeout(position)) => Some((self.heartbeat(position), self)),
            Ok(Next::Stopped) => self.end(StreamEnd::Shutdown),
            Ok(Next::Unauthorized(_)) => self.end(StreamEnd::ApiKeyInvalid),
            // The client resumes, and is told to start over.
            Err(ApiError::PositionGone(_)) => self.end(StreamEnd::PositionGone),
            Err(_) => {
                self.reader.pause(rand::random_range(RETRY_DELAY)).await;
                Some((Bytes::from_static(COMMENT), self))
            }
        }
    }

    /// Returns a comment, or the position if the reader has passed events that the filter leaves
    /// out.
    fn heartbeat(&mut self, position: EventId) -> Bytes {
        if position == self.sent {
            return Bytes::from_static(COMMENT);
        }
        self.sent = position;
        format!("id: {position}\n\n").into()
    }

    fn end(mut self, reason: StreamEnd) -> Option<(Bytes, Self)> {
        self.log.end = reason;
        None
    }
}

/// Counts a stream while it is open, and logs its end.
struct StreamLog {
    feed: Arc<EventFeed>,
    access_log: AccessLog,
    request_id: String,
    api_key_id: i64,
    started: time::Instant,
    events: u64,
    end: StreamEnd,
}

impl StreamLog {
    fn new(api: &Api, request: &ApiRequest) -> Self {
        api.event_feed.metrics.streams.add(1);
        Self {
            feed: api.event_feed.clone(),
            access_log: api.access_log,
            request_id: request.request_id.to_str().unwrap_or_default().into(),
            api_key_id: request.api_key_id(),
            started: time::Instant::now(),
            events: 0,
            end: StreamEnd::Disconnect,
        }
    }
}

impl Drop for StreamLog {
    fn drop(&mut self) {
        self.feed.metrics.streams.add(-1);
        self.access_log.log_stream(&StreamEntry {
            request_id: &self.request_id,
            api_key_id: self.api_key_id,
            duration: self.started.elapsed(),
            events: self.events,
            end: self.end,
        });
    }
}
