//! What a connection is doing: written by its own task without a lock, read by
//! [`Connections`](super::connections::Connections) to choose which one to evict.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::request_state::RequestState;

pub struct Activity {
    /// The current request, on HTTP/1.1.
    pub request: RequestState,
    /// What is awaited from the client, in the lowest bits, and since when.
    awaited: AtomicU64,
    /// Since when a response has not been written completely because the client does
    /// not read; 0 if it has.
    blocked_since: AtomicU64,
    /// The requests of an HTTP/2 connection: started, being served, and those whose
    /// response is not sent yet.
    started: AtomicU64,
    active: AtomicUsize,
    /// The HTTP/2 responses that are streams.
    streams: AtomicUsize,
    unsent: AtomicUsize,
    /// Whether an HTTP/1.1 request waits for something that may take long, so that its
    /// client may give up.
    waiting: AtomicBool,
    /// Bytes written to the client.
    written: AtomicU64,
    evicted: AtomicU8,
    waker: AtomicWaker,
    /// Times are milliseconds since then.
    epoch: Instant,
}

/// Nothing: the service has the request.
const NOTHING: u64 = 0;
/// The next request, of which no byte has arrived.
const REQUEST: u64 = 1;
/// The rest of a request.
const REST: u64 = 2;
/// The first request, or the TLS handshake before it.
const FIRST_REQUEST: u64 = 3;
const AWAITED: u64 = 3;

/// Why a connection may be evicted. The greater one goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evictable {
    /// It sends its request, or reads its response, too slowly.
    Slow,
    /// No request is in flight.
    Idle,
}

/// How an evicted connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Gracefully: a request that has arrived meanwhile is served.
    Close = 1,
    /// At once unless a request is in flight, with a GOAWAY if it can be written,
    /// because too many are being closed already.
    Abort = 2,
}

impl Activity {
    /// Of a connection that was just accepted.
    pub fn new(epoch: Instant, now: Instant) -> Self {
        let activity = Self {
            request: RequestState::default(),
            awaited: AtomicU64::default(),
            blocked_since: AtomicU64::default(),
            started: AtomicU64::default(),
            active: AtomicUsize::default(),
            streams: AtomicUsize::default(),
            waiting: AtomicBool::default(),
            unsent: AtomicUsize::default(),
            written: AtomicU64::default(),
            evicted: AtomicU8::default(),
            waker: AtomicWaker::new(),
            epoch,
        };
        activity.store_awaited(FIRST_REQUEST, now);
        activity
    }

    fn millis(&self, at: Instant) -> u64 {
        (at.saturating_duration_since(self.epoch)).as_millis() as u64
    }

    fn store_awaited(&self, awaited: u64, since: Instant) {
        self.awaited
            .store(self.millis(since) << 2 | awaited, Relaxed);
    }

    /// The connection is idle, unless it waits for its first request: then it was
    /// waiting since it was accepted.
    pub fn await_request(&self, since: Instant) {
        if !self.request.is_untouched() {
            self.store_awaited(REQUEST, since);
        }
    }

    /// A part of a request has arrived.
    pub fn await_rest(&self, since: Instant) {
        self.store_awaited(REST, since);
    }

    /// The service has a request, on HTTP/1.1.
    pub fn begin(&self) {
        self.request.begin();
        self.await_nothing();
    }

    /// Nothing more is needed from the client.
    pub fn await_nothing(&self) {
        self.awaited.store(NOTHING, Relaxed);
    }

    /// A response cannot be written because the client does not read.
    pub fn block(&self, now: Instant) {
        if self.blocked_since.load(Relaxed) == 0 {
            self.blocked_since.store(self.millis(now).max(1), Relaxed);
        }
    }

    /// Everything was written.
    pub fn unblock(&self) {
        if self.blocked_since.load(Relaxed) != 0 {
            self.blocked_since.store(0, Relaxed);
        }
    }

    /// Whether the connection may be evicted, and how long it has been waiting for its
    /// client. A client that takes longer than `slow_after` to send a request or to
    /// read a response is slow. A new connection has that long, too: under a burst of
    /// connections its request is on its way.
    pub fn evictable(&self, now: Instant, slow_after: Duration) -> Option<(Evictable, Duration)> {
        let waited = |since| Duration::from_millis(self.millis(now).saturating_sub(since));
        if self.is_busy() {
            return None;
        }
        let blocked_since = self.blocked_since.load(Relaxed);
        if blocked_since != 0 {
            let waited = waited(blocked_since);
            return (waited >= slow_after).then_some((Evictable::Slow, waited));
        }
        let awaited = self.awaited.load(Relaxed);
        let waited = waited(awaited >> 2);
        match awaited & AWAITED {
            REQUEST => Some((Evictable::Idle, waited)),
            FIRST_REQUEST if waited >= slow_after => Some((Evictable::Idle, waited)),
            REST if waited >= slow_after => Some((Evictable::Slow, waited)),
            _ => None,
        }
    }

    /// Whether a response cannot be written because the client does not read.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since.load(Relaxed) != 0
    }

    /// Whether the client is sending a request or does not read its response.
    pub fn depends_on_client(&self) -> bool {
        self.is_blocked() || self.awaited.load(Relaxed) & AWAITED == REST
    }

    /// Whether the service has an HTTP/1.1 request, or its response is being written.
    pub fn is_serving(&self) -> bool {
        self.request.expects_write() || self.is_blocked()
    }

    pub fn evict(&self, how: Eviction) {
        self.evicted.store(how as u8, Relaxed);
        self.waker.wake();
    }

    pub fn evicted(&self) -> Option<Eviction> {
        match self.evicted.load(Relaxed) {
            0 => None,
            1 => Some(Eviction::Close),
            _ => Some(Eviction::Abort),
        }
    }

    /// Wakes the connection's task when it is to close.
    pub fn waker(&self) -> &AtomicWaker {
        &self.waker
    }

    /// HTTP/2 requests that were ever started.
    pub fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Whether the service has an HTTP/2 request.
    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed) > 0
    }

    /// Whether the service has an HTTP/2 request, or a response is a stream.
    pub fn is_busy(&self) -> bool {
        self.is_active() || self.streams.load(Relaxed) > 0
    }

    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(waiting, Relaxed);
    }

    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Relaxed)
    }

    /// Whether an HTTP/2 response is not sent completely.
    pub fn has_unsent(&self) -> bool {
        self.unsent.load(Relaxed) > 0
    }

    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    pub fn wrote(&self, bytes: usize) {
        // Only the connection's own task writes.
        self.written.store(self.written() + bytes as u64, Relaxed);
    }
}

/// An HTTP/2 response, until it is sent or reset by the client.
pub struct UnsentResponse(Arc<Activity>);

/// An HTTP/2 request that the service has.
pub struct ActiveRequest(Arc<Activity>);

impl ActiveRequest {
    pub fn begin(activity: &Arc<Activity>) -> Self {
        activity.await_request(Instant::now());
        activity.started.fetch_add(1, Relaxed);
        activity.active.fetch_add(1, Relaxed);
        Self(activity.clone())
    }

    /// The service has responded.
    pub fn end(self) -> UnsentResponse {
        UnsentResponse::new(&self.0)
    }

    /// The service has responded with a stream.
    pub fn stream(self) -> OpenStream {
        self.0.streams.fetch_add(1, Relaxed);
        OpenStream(self.0.clone())
    }
}

/// An HTTP/2 response that is a stream, until it ends.
pub struct OpenStream(Arc<Activity>);

impl OpenStream {
    /// The service has a chunk.
    pub fn respond(&self) -> UnsentResponse {
        UnsentResponse::new(&self.0)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}

impl UnsentResponse {
    fn new(activity: &Arc<Activity>) -> Self {
        activity.unsent.fetch_add(1, Relaxed);
        Self(activity.clone())
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Relaxed);
    }
}

impl Drop for UnsentResponse {
    fn drop(&mut self) {
        self.0.unsent.fetch_sub(1, Relaxed);
    }
}
