//! One HTTP/2 connection, from its preface until it closes.

use std::{
    convert::Infallible,
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http2,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::coop::unconstrained,
    time::{Instant, sleep},
};

use super::{
    BodyError, Client, Limits, ResponseBody, Server, Service,
    activity::{ActiveRequest, Activity, Eviction, OpenStream, QueuedRequest, UnsentResponse},
    closing::{CLOSE_TIMEOUT, close},
    connections::{Slot, Stop},
    limits::{MAX_BODY_BYTES, MAX_CONCURRENT_STREAMS, MAX_HEAD_BYTES, head_bytes, max_body_bytes},
    metered_stream::MeteredStream,
    protocol::ReadAhead,
    request_body::RequestBody,
    stream::ClientStream,
};

/// A connection is checked this many times within its shortest timeout.
const CHECKS_PER_TIMEOUT: u32 = 6;

/// Serves a connection until it ends, or until it must close and the requests in flight are
/// finished.
pub async fn serve<S: Service>(
    server: &Arc<Server<S>>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
    slot: &Slot,
    limits: &Limits,
) {
    let idle_timeout = limits.idle_timeout;
    let shortest_timeout = limits
        .head_timeout
        .min(idle_timeout)
        .min(limits.write_timeout);
    let check_interval = shortest_timeout / CHECKS_PER_TIMEOUT;
    // The stream enforces the minimum read rate of what is written, and counts frames. hyper's
    // keep-alive pings and the checks below do the rest.
    let activity = &slot.activity;
    let mut progress = Progress::new(activity, limits);
    let stream = ClientStream::new(stream, activity.clone(), limits);
    let stream = MeteredStream::new(stream, read_ahead.into_bytes(), activity.clone());
    let service = service_fn({
        // Each connection has its own reference count: one that all share would be contended.
        let server = Arc::new(server.clone());
        let activity = activity.clone();
        let health_only = slot.health_only;
        move |request: Request<Incoming>| {
            let server = server.clone();
            let bytes = head_bytes(request.uri(), request.headers())
                + max_body_bytes(&request.body().size_hint());
            let queued = QueuedRequest::new(&activity, bytes);
            async move {
                let active = queued.start().await;
                let response = match server.reject_over_limit(health_only, request.uri().path()) {
                    Some(rejection) => rejection,
                    None => {
                        let request = request.map(RequestBody::http2);
                        let client = Client(active.activity());
                        server.service.call(client, request).await
                    }
                };
                Ok::<_, Infallible>(response.map(|body| TrackedBody::new(body, active)))
            }
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(idle_timeout / 2)
        .keep_alive_timeout(idle_timeout / 2)
        .max_concurrent_streams(MAX_CONCURRENT_STREAMS)
        // Rapid reset (CVE-2023-44487): a client may reset one window of streams
        // that were not accepted yet; beyond that it is a flood.
        .max_pending_accept_reset_streams(MAX_CONCURRENT_STREAMS as usize)
        // Stream errors that we answer with a reset (CVE-2025-8671). Some are
        // legitimate: streams over the limit before the client knew of it.
        .max_local_error_reset_streams(4 * MAX_CONCURRENT_STREAMS as usize)
        // Above our own limit, so that a head slightly over it gets an Error
        // body instead of hyper's bare 431.
        .max_header_list_size(4 * MAX_HEAD_BYTES as u32)
        .initial_stream_window_size(MAX_BODY_BYTES as u32)
        .initial_connection_window_size(2 * MAX_BODY_BYTES as u32)
        .max_send_buf_size(MAX_BODY_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // Closes after the first request: before it, the client would have to connect again.
    let closes = || slot.closes_after_response() && activity.started() > 0;
    loop {
        tokio::select! {
            biased;
            _ = &mut connection => return,
            stop = slot.stopped() => {
                let in_flight = activity.is_busy() || activity.has_unsent();
                match stop {
                    Stop::Evicted(Eviction::Reset) => return,
                    Stop::Evicted(Eviction::Abort) if !in_flight => {
                        connection.as_mut().graceful_shutdown();
                        return drop(connection.now_or_never());
                    }
                    _ => break,
                }
            }
            () = poll_fn(|_| if closes() { Poll::Ready(()) } else { Poll::Pending }) => break,
            // Unconstrained: under a flood the connection uses up the task's
            // cooperative budget, and a timer without budget never fires.
            () = unconstrained(sleep(check_interval)) => {
                let now = Instant::now();
                if progress.is_idle(now) || progress.is_stalled(now) {
                    break;
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Let requests in flight finish. Do not wait for a client that ignores GOAWAY or
    // does not read its last responses, nor for streams: at shutdown the service has ended
    // them. After a response, the client has until the next check to start reading it.
    let mut was_active = activity.is_active();
    let closed = close(connection, || {
        let is_reading = progress.is_reading();
        let had_request = mem::replace(&mut was_active, activity.is_active());
        had_request || was_active || activity.has_unsent() && is_reading
    });
    tokio::select! {
        () = closed => {}
        () = slot.reset() => {}
    }
}

/// The progress of an HTTP/2 connection, from one check to the next. Only requests and
/// the bodies of responses count: pings and their acknowledgements do not.
struct Progress {
    activity: Arc<Activity>,
    idle_timeout: Duration,
    write_timeout: Duration,
    min_read_rate: f64,
    /// The number of requests at the last check that found a new one, the time of that check,
    /// and the time that the connection may be idle from then on.
    started: u64,
    started_at: Instant,
    max_idle: Duration,
    /// The bytes sent when the client's rate was last judged, and the time of that.
    sent: u64,
    sent_at: Instant,
    /// The bytes sent at the last check, and the time since which no more were sent.
    last_sent: u64,
    last_sent_at: Instant,
}

impl Progress {
    fn new(activity: &Arc<Activity>, limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            activity: activity.clone(),
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            min_read_rate: f64::from(limits.min_read_rate),
            started: 0,
            started_at: now,
            max_idle: limits.head_timeout,
            sent: 0,
            sent_at: now,
            last_sent: 0,
            last_sent_at: now,
        }
    }

    /// Returns true if no request has arrived for too long, and none is being served.
    fn is_idle(&mut self, now: Instant) -> bool {
        let started = self.activity.started();
        if started != self.started || self.activity.is_busy() {
            self.started = started;
            self.started_at = now;
            self.max_idle = self.idle_timeout;
        }
        now - self.started_at >= self.max_idle
    }

    /// Returns true if the client has stopped reading its responses, or reads them at less
    /// than the minimum rate. Flow control can block them without blocking a write.
    fn is_stalled(&mut self, now: Instant) -> bool {
        let total = self.activity.sent().bytes;
        let has_unsent = self.activity.has_unsent();
        if !has_unsent || total != self.last_sent {
            self.last_sent = total;
            self.last_sent_at = now;
        }
        if now - self.last_sent_at >= self.write_timeout {
            return true;
        }
        let elapsed = now - self.sent_at;
        if has_unsent && elapsed < self.write_timeout {
            return false;
        }
        let sent = total - self.sent;
        self.sent = total;
        self.sent_at = now;
        has_unsent && (sent as f64) < self.min_read_rate * elapsed.as_secs_f64()
    }

    /// Returns true if the client has read at the minimum rate since the last call, a second
    /// ago.
    fn is_reading(&mut self) -> bool {
        let sent = self.activity.sent().bytes - self.sent;
        self.sent += sent;
        sent as f64 >= self.min_read_rate * CLOSE_TIMEOUT.as_secs_f64()
    }
}

/// A response body that counts as unsent until its bytes are written. Each chunk of a
/// stream counts by itself.
struct TrackedBody {
    body: ResponseBody,
    response: TrackedResponse,
}

enum TrackedResponse {
    /// Counts as unsent until the last part is taken; each part then counts by itself.
    Parts(UnsentResponse),
    /// Counts as unsent until the chunk with all bytes takes over.
    Complete(Option<UnsentResponse>),
    Stream(OpenStream),
}

impl TrackedBody {
    fn new(body: ResponseBody, active: ActiveRequest) -> Self {
        let response = match &body {
            ResponseBody::Complete(bytes) => {
                TrackedResponse::Complete(Some(active.end(bytes.len())))
            }
            ResponseBody::Parts(_) => TrackedResponse::Parts(active.end(0)),
            ResponseBody::Stream(_) => TrackedResponse::Stream(active.stream()),
        };
        Self { body, response }
    }
}

/// Bytes that h2 queues, takes from the front as it sends them, and drops after the last.
struct TrackedBytes {
    bytes: Bytes,
    unsent: Option<UnsentResponse>,
}

impl Buf for TrackedBytes {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(unsent) = &self.unsent {
            unsent.sent(count);
        }
    }
}

impl Body for TrackedBody {
    type Data = TrackedBytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<TrackedBytes>, BodyError>>> {
        let this = &mut *self;
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let response = &mut this.response;
        let track = |bytes: Bytes| TrackedBytes {
            unsent: match response {
                TrackedResponse::Complete(unsent) => unsent.take(),
                TrackedResponse::Parts(response) => Some(response.part(bytes.len())),
                TrackedResponse::Stream(stream) => Some(stream.respond(bytes.len())),
            },
            bytes,
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(track))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
