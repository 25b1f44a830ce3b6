//! The state of a connection. Its own tasks write it without a lock, and
//! [`Connections`](super::connections::Connections) reads it to choose which one to evict.

mod requests;

use std::{
    net::IpAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicI64, AtomicU8, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::Duration,
};

use futures_util::task::AtomicWaker;
use tokio::{sync::Notify, time::Instant};

use super::memory::MemoryBudget;
pub use requests::{ActiveRequest, HeldMemory, OpenStream, QueuedRequest, UnsentResponse};

/// The maximum number of requests that are open on an HTTP/2 connection before the service has
/// authenticated the client. Further ones wait.
const MAX_ANONYMOUS_REQUESTS: usize = 8;

/// The number of unsent response bytes of an HTTP/2 connection from which its next request waits
/// until some are sent.
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// The buffers of a connection whose client does not read.
const BUFFER_BYTES: usize = 64 << 10;

/// The activity of a connection, and the memory that it holds. Times are milliseconds since
/// `epoch`.
pub struct Activity {
    client: IpAddr,
    /// The principal that the service authenticated last; 0 if there was none.
    principal: AtomicI64,
    /// The stage of the connection, in the two lowest bits: [`SERVING`], [`IDLE`], [`RECEIVING`] or
    /// [`NEW`]. The other bits are the time at which the server started to wait for the client.
    stage: AtomicU64,
    /// The time since which a response cannot be written completely because the client does
    /// not read; 0 if none is blocked.
    blocked_since: AtomicU64,
    /// The number of HTTP/2 requests ever started.
    started: AtomicU64,
    /// The number of HTTP/2 requests that are being served.
    active: AtomicUsize,
    /// The number of HTTP/2 responses, or chunks of streams, that are not sent yet.
    unsent: AtomicUsize,
    /// The memory of these responses and chunks.
    unsent_bytes: AtomicUsize,
    /// The number of HTTP/2 responses that are streams.
    streams: AtomicUsize,
    /// The number of HTTP/2 requests that have arrived, and are not being served yet.
    queued: AtomicUsize,
    /// Wakes the queued requests.
    room: Notify,
    /// The parts of [`SendProgress`].
    sent_bytes: AtomicU64,
    sent_chunks: AtomicU64,
    /// The bytes that the connection's requests and responses hold in memory.
    held: AtomicUsize,
    /// The part of `held` that is held because the client blocks a write.
    held_by_write: AtomicUsize,
    /// The size of the current HTTP/1.1 response.
    response_bytes: AtomicUsize,
    /// The budget that `held` is charged to.
    budget: Arc<MemoryBudget>,
    /// The [`Eviction`] as a number; 0 if the connection is not evicted.
    evicted: AtomicU8,
    /// Wakes the connection's task, which then looks at `evicted` and the phase of the server.
    waker: AtomicWaker,
    epoch: Instant,
}

/// The service has the request, and the server does not wait for the client.
const SERVING: u64 = 0;
/// The server waits for the next request, of which no byte has arrived.
const IDLE: u64 = 1;
/// The server waits for the rest of a request.
const RECEIVING: u64 = 2;
/// The server waits for the first request, or the TLS handshake before it.
const NEW: u64 = 3;
/// The bits of `stage` with one of these values.
const STAGE: u64 = 3;

/// The amount of HTTP/2 response bodies that was sent. Pings and other frames do not count.
#[derive(Debug, Clone, Copy)]
pub struct SendProgress {
    pub bytes: u64,
    /// The number of pieces in which the bytes were sent, at most one per frame and write.
    pub chunks: u64,
}

/// The reason why a connection may be evicted. Idle connections are evicted before slow ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionReason {
    /// Its client sends a request, or reads a response, too slowly.
    Slow,
    /// No request is in flight.
    Idle,
}

/// The way in which an evicted connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Gracefully: a request that has just arrived is served.
    Close = 1,
    /// Immediately unless a request is in flight, with a GOAWAY if it can be written, because
    /// too many connections are closing already.
    Abort = 2,
    /// Immediately, whatever is in flight: the connection holds too much memory.
    Reset = 3,
}

impl Activity {
    /// Starts to track a connection that was just accepted.
    pub fn new(client: IpAddr, budget: Arc<MemoryBudget>, epoch: Instant, now: Instant) -> Self {
        let activity = Self {
            client,
            principal: AtomicI64::default(),
            stage: AtomicU64::default(),
            blocked_since: AtomicU64::default(),
            started: AtomicU64::default(),
            active: AtomicUsize::default(),
            unsent: AtomicUsize::default(),
            unsent_bytes: AtomicUsize::default(),
            streams: AtomicUsize::default(),
            queued: AtomicUsize::default(),
            room: Notify::new(),
            sent_bytes: AtomicU64::default(),
            sent_chunks: AtomicU64::default(),
            held: AtomicUsize::default(),
            held_by_write: AtomicUsize::default(),
            response_bytes: AtomicUsize::default(),
            budget,
            evicted: AtomicU8::default(),
            waker: AtomicWaker::new(),
            epoch,
        };
        activity.store_stage(NEW, now);
        activity
    }

    pub fn client(&self) -> IpAddr {
        self.client
    }

    /// Returns the principal that the service authenticated last.
    pub fn principal(&self) -> Option<i64> {
        match self.principal.load(Relaxed) {
            0 => None,
            id => Some(id),
        }
    }

    pub fn set_principal(&self, id: i64) {
        if self.principal.load(Relaxed) != id {
            self.principal.store(id, SeqCst);
            self.wake_queued();
        }
    }

    /// Returns the bytes that the connection's requests and responses hold in memory.
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn hold(&self, bytes: usize) {
        let before = self.held.fetch_add(bytes, Relaxed);
        self.budget.change(before, before + bytes);
    }

    fn release(&self, bytes: usize) {
        let before = self.held.fetch_sub(bytes, Relaxed);
        self.budget.change(before, before - bytes);
    }

    /// Returns true while the service must not accept more requests, because those in flight hold
    /// too much memory.
    pub fn is_memory_short(&self) -> bool {
        self.budget.is_far_exceeded()
    }

    fn millis(&self, at: Instant) -> u64 {
        (at.saturating_duration_since(self.epoch)).as_millis() as u64
    }

    fn store_stage(&self, stage: u64, since: Instant) {
        self.stage.store(self.millis(since) << 2 | stage, Relaxed);
    }

    /// Records that the server waits for the next request.
    pub fn mark_idle(&self, since: Instant) {
        self.store_stage(IDLE, since);
    }

    /// Records that a part of a request has arrived.
    pub fn mark_receiving(&self, since: Instant) {
        self.store_stage(RECEIVING, since);
    }

    /// Records that the service has a request, and the server awaits nothing from the client.
    pub fn mark_serving(&self) {
        self.stage.store(SERVING, Relaxed);
    }

    /// Records that a response cannot be written because the client does not read.
    pub fn block(&self, now: Instant) {
        if self.blocked_since.load(Relaxed) == 0 {
            self.blocked_since.store(self.millis(now).max(1), Relaxed);
            let bytes = BUFFER_BYTES + self.response_bytes.load(Relaxed);
            self.held_by_write.store(bytes, Relaxed);
            self.hold(bytes);
        }
    }

    /// Records that everything was written.
    pub fn unblock(&self) {
        if self.blocked_since.load(Relaxed) != 0 {
            self.blocked_since.store(0, Relaxed);
            self.release(self.held_by_write.swap(0, Relaxed));
        }
    }

    /// Sets the size of the HTTP/1.1 response that is written next. The response counts as held
    /// only while the client blocks the write, so most responses are never charged.
    pub fn set_response_bytes(&self, bytes: usize) {
        self.response_bytes.store(bytes, Relaxed);
        // A pipelined response, behind the one that is blocked.
        if self.is_blocked() {
            self.held_by_write.fetch_add(bytes, Relaxed);
            self.hold(bytes);
        }
    }

    /// Returns the reason why the connection may be evicted, if there is one, and the time for
    /// which it has been waiting for its client. A client is slow if it takes longer than
    /// `slow_after` to send a request or to read a response. A new connection counts as idle only
    /// after the same time, because in a burst of connections its request is still on its way.
    pub fn evictable(
        &self,
        now: Instant,
        slow_after: Duration,
    ) -> Option<(EvictionReason, Duration)> {
        let waited = |since| Duration::from_millis(self.millis(now).saturating_sub(since));
        if self.is_busy() {
            return None;
        }
        let blocked_since = self.blocked_since.load(Relaxed);
        if blocked_since != 0 {
            let waited = waited(blocked_since);
            return (waited >= slow_after).then_some((EvictionReason::Slow, waited));
        }
        let stage = self.stage.load(Relaxed);
        let waited = waited(stage >> 2);
        match stage & STAGE {
            IDLE => Some((EvictionReason::Idle, waited)),
            NEW if waited >= slow_after => Some((EvictionReason::Idle, waited)),
            RECEIVING if waited >= slow_after => Some((EvictionReason::Slow, waited)),
            _ => None,
        }
    }

    /// Returns true if a response cannot be written because the client does not read.
    pub fn is_blocked(&self) -> bool {
        self.blocked_since.load(Relaxed) != 0
    }

    /// Returns true if the client is sending a request or does not read its response.
    pub fn depends_on_client(&self) -> bool {
        self.is_blocked() || self.stage.load(Relaxed) & STAGE == RECEIVING
    }

    pub fn evict(&self, how: Eviction) {
        self.evicted.store(how as u8, Relaxed);
        self.waker.wake();
    }

    pub fn evicted(&self) -> Option<Eviction> {
        match self.evicted.load(Relaxed) {
            0 => None,
            1 => Some(Eviction::Close),
            2 => Some(Eviction::Abort),
            _ => Some(Eviction::Reset),
        }
    }

    /// Returns the waker of the connection's task.
    pub fn waker(&self) -> &AtomicWaker {
        &self.waker
    }

    /// Returns the number of HTTP/2 requests ever started.
    pub fn started(&self) -> u64 {
        self.started.load(Relaxed)
    }

    /// Returns true if an HTTP/2 request has arrived, and has no response yet.
    pub fn is_active(&self) -> bool {
        self.queued.load(Relaxed) + self.active.load(Relaxed) > 0
    }

    /// Returns true if an HTTP/2 request has no response yet, or if a response is a stream.
    pub fn is_busy(&self) -> bool {
        self.is_active() || self.streams.load(Relaxed) > 0
    }

    /// Returns true if an HTTP/2 response is not sent completely.
    pub fn has_unsent(&self) -> bool {
        self.unsent.load(Relaxed) > 0
    }

    pub fn sent(&self) -> SendProgress {
        SendProgress {
            bytes: self.sent_bytes.load(Relaxed),
            chunks: self.sent_chunks.load(Relaxed),
        }
    }

    /// Starts another HTTP/2 request if the connection has room for it. There is always room for
    /// one, so a request that waits is woken by the end of another.
    fn try_start(&self) -> bool {
        let started = self.active.fetch_update(SeqCst, SeqCst, |active| {
            let open = active + self.unsent.load(SeqCst);
            let has_room = if self.principal.load(SeqCst) == 0 {
                open < MAX_ANONYMOUS_REQUESTS
            } else {
                open == 0 || self.unsent_bytes.load(SeqCst) < MAX_UNSENT_BYTES
            };
            has_room.then_some(active + 1)
        });
        started.is_ok()
    }

    fn wake_queued(&self) {
        if self.queued.load(SeqCst) > 0 {
            self.room.notify_waiters();
        }
    }

    /// Waits until another HTTP/2 request may start, and starts it.
    async fn start(&self) {
        if self.try_start() {
            return;
        }
        loop {
            let mut woken = pin!(self.room.notified());
            woken.as_mut().enable();
            if self.try_start() {
                return;
            }
            woken.await;
        }
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        self.release(self.held());
    }
}
