//! The memory, the requests and the responses of a connection, counted until they are dropped.

use std::sync::{
    Arc,
    atomic::Ordering::{Relaxed, SeqCst},
};

use tokio::time::Instant;

use super::Activity;

/// The memory of an HTTP/2 request besides its head and bodies: its task, its stream, and
/// the head of its response.
const REQUEST_OVERHEAD: usize = 4 << 10;

/// The additional memory of a request that is being served: handlers are large futures.
const HANDLER_OVERHEAD: usize = 8 << 10;

/// Memory that is charged to a connection until this is dropped.
pub struct HeldMemory {
    activity: Arc<Activity>,
    bytes: usize,
}

impl HeldMemory {
    pub fn new(activity: &Arc<Activity>, bytes: usize) -> Self {
        activity.hold(bytes);
        Self {
            activity: activity.clone(),
            bytes,
        }
    }

    fn grow(&mut self, bytes: usize) {
        self.activity.hold(bytes);
        self.bytes += bytes;
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.activity.release(self.bytes);
        self.activity.wake_queued();
    }
}

/// An HTTP/2 request that has arrived, and is not being served yet.
pub struct QueuedRequest {
    held: HeldMemory,
    place: QueuePlace,
}

/// Counts a request as queued until it is dropped.
struct QueuePlace(Arc<Activity>);

/// An HTTP/2 request that is being served.
pub struct ActiveRequest(HeldMemory);

/// A part of an HTTP/2 response, until it is sent or reset by the client.
pub struct UnsentResponse(HeldMemory);

/// An HTTP/2 response that is a stream, until it ends.
pub struct OpenStream(HeldMemory);

impl QueuedRequest {
    /// Tracks a request whose head and body take up to this many bytes.
    pub fn new(activity: &Arc<Activity>, bytes: usize) -> Self {
        activity.mark_idle(Instant::now());
        activity.started.fetch_add(1, Relaxed);
        activity.queued.fetch_add(1, SeqCst);
        Self {
            held: HeldMemory::new(activity, REQUEST_OVERHEAD + bytes),
            place: QueuePlace(activity.clone()),
        }
    }

    /// Waits until the connection has room for the request: backpressure on a client that does
    /// not read, or that is not authenticated.
    pub async fn start(self) -> ActiveRequest {
        let Self { mut held, place } = self;
        held.activity.start().await;
        drop(place);
        held.grow(HANDLER_OVERHEAD);
        ActiveRequest(held)
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.queued.fetch_sub(1, SeqCst);
    }
}

impl ActiveRequest {
    pub fn activity(&self) -> &Arc<Activity> {
        &self.0.activity
    }

    /// Records that the service has responded with a body of this size.
    pub fn end(self, bytes: usize) -> UnsentResponse {
        UnsentResponse::new(self.activity(), REQUEST_OVERHEAD + bytes)
    }

    /// Records that the service has responded with a stream.
    pub fn stream(self) -> OpenStream {
        self.activity().streams.fetch_add(1, Relaxed);
        OpenStream(HeldMemory::new(self.activity(), REQUEST_OVERHEAD))
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.activity().active.fetch_sub(1, SeqCst);
    }
}

impl OpenStream {
    /// Records that the service has produced a chunk of this size.
    pub fn respond(&self, bytes: usize) -> UnsentResponse {
        UnsentResponse::new(&self.0.activity, bytes)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.activity.streams.fetch_sub(1, Relaxed);
    }
}

impl UnsentResponse {
    fn new(activity: &Arc<Activity>, bytes: usize) -> Self {
        activity.unsent.fetch_add(1, SeqCst);
        activity.unsent_bytes.fetch_add(bytes, SeqCst);
        Self(HeldMemory::new(activity, bytes))
    }

    /// Records that a part of this size was produced, which counts until it is sent.
    pub fn part(&self, bytes: usize) -> Self {
        Self::new(&self.0.activity, bytes)
    }

    /// Records that a part of the response was sent.
    pub fn sent(&self, bytes: usize) {
        let activity = &self.0.activity;
        activity.sent_bytes.fetch_add(bytes as u64, Relaxed);
        activity.sent_chunks.fetch_add(1, Relaxed);
    }
}

impl Drop for UnsentResponse {
    fn drop(&mut self) {
        let HeldMemory { activity, bytes } = &self.0;
        activity.unsent_bytes.fetch_sub(*bytes, SeqCst);
        activity.unsent.fetch_sub(1, SeqCst);
    }
}
