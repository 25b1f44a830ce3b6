//! One connection, from its first byte until it closes: HTTP/1.1 or HTTP/2.

use std::{
    convert::Infallible,
    future::{pending, poll_fn, ready},
    net::IpAddr,
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::Either};
use http::{HeaderValue, header};
use hyper::{
    Request,
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::coop::unconstrained,
    time::{sleep, timeout},
};

use super::{
    Limits, Metrics, Rejection, Response, ResponseBody, Server, Service,
    activity::{ActiveRequest, Activity, Eviction, OpenStream, UnsentResponse},
    connections::{Slot, Stop},
    head_scanner::{Findings, HeadScanner},
    limits::{MAX_BODY_BYTES, MAX_CONCURRENT_STREAMS, MAX_HEAD_BYTES},
    protocol::{Protocol, ReadAhead},
    stream::{self, ClientStream},
    streamed_response,
    tls::{self, HandshakeError, Tls},
};

/// How long a client may take to close a connection that is to close, when no request
/// is in flight.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a connection without a request is kept open at shutdown: the request may
/// be on its way.
const FIRST_REQUEST_GRACE: Duration = Duration::from_millis(500);

/// The head timeout of a connection over the limit.
const RESERVED_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

const LOCK: &str = "no task panics while holding the lock";

/// Serves a connection until it ends, or until it is to close and the requests in
/// flight are finished.
///
/// I/O errors are ignored: they mean that the client is gone.
pub async fn serve<S: Service>(
    server: &Arc<Server<S>>,
    mut stream: TcpStream,
    client: IpAddr,
    slot: &Slot,
) {
    // Responses are small and written at once: Nagle's algorithm only delays them.
    let _ = stream.set_nodelay(true);
    let mut limits = server.limits.clone();
    if slot.health_only {
        limits.head_timeout = limits.head_timeout.min(RESERVED_HEAD_TIMEOUT);
    }
    if let Some(tls) = &server.tls {
        // Boxed, so that plain connections do not pay for its size.
        return Box::pin(serve_tls(server, tls, stream, client, slot, limits)).await;
    }
    let mut read_ahead = ReadAhead::default();
    let detect = timeout(limits.head_timeout, read_ahead.detect(&mut stream));
    let detected = match until_stopped(slot, detect).await {
        Ok(detected) => detected,
        Err(stop) => return reject_evicted(server, stream, stop).await,
    };
    match detected {
        Ok(Ok(Protocol::Http1)) => {
            serve_http1(server, stream, read_ahead, client, slot, limits).await;
        }
        Ok(Ok(Protocol::Http2)) => {
            serve_http2(server, stream, read_ahead, client, slot, limits).await;
        }
        Err(_) if read_ahead.first_byte_at().is_some() => {
            let rejection = server.service.reject(Rejection::HeadTimeout);
            stream::reject(stream, &limits, rejection).await;
        }
        // The client disconnected, or has not sent a byte.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_tls<S: Service>(
    server: &Arc<Server<S>>,
    tls: &Tls,
    stream: TcpStream,
    client: IpAddr,
    slot: &Slot,
    limits: Limits,
) {
    let accept = timeout(limits.head_timeout, tls.accept(stream));
    let Ok(accepted) = until_stopped(slot, accept).await else {
        return;
    };
    match accepted {
        Ok(Ok(stream)) => match tls::negotiated_protocol(&stream) {
            Protocol::Http1 => {
                serve_http1(server, stream, ReadAhead::default(), client, slot, limits).await;
            }
            Protocol::Http2 => {
                serve_http2(server, stream, ReadAhead::default(), client, slot, limits).await;
            }
        },
        Ok(Err(HandshakeError::PlainHttp(stream))) => {
            let rejection = server.service.reject(Rejection::PlainHttpOnTlsPort);
            stream::reject(stream, &limits, rejection).await;
        }
        Ok(Err(HandshakeError::Failed)) | Err(_) => {}
    }
}

/// Waits for the start of the first request, unless the connection is to close.
async fn until_stopped<T>(slot: &Slot, start: impl Future<Output = T>) -> Result<T, Stop> {
    let mut start = pin!(start);
    let stop = tokio::select! {
        biased;
        started = &mut start => return Ok(started),
        stop = slot.stopped() => stop,
    };
    match stop {
        Stop::Shutdown => timeout(FIRST_REQUEST_GRACE, start).await.or(Err(stop)),
        Stop::Evicted(_) => Err(stop),
    }
}

/// Tells a client whose connection was evicted that its request is not served.
async fn reject_evicted<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    stop: Stop,
) {
    let Stop::Evicted(eviction) = stop else {
        return;
    };
    let rejection = server.service.reject(Rejection::TooManyConnections);
    let rejected = stream::reject(stream, &server.limits, rejection);
    match eviction {
        Eviction::Close => drop(timeout(CLOSE_TIMEOUT, rejected).await),
        Eviction::Abort => drop(rejected.now_or_never()),
    }
}

/// The response to a request that is not served because the connection is over the limit.
fn reject_over_limit<S: Service>(
    service: &S,
    metrics: &Metrics,
    health_only: bool,
    request: &Request<Incoming>,
) -> Option<Response> {
    if !health_only || service.is_health_check(request) {
        return None;
    }
    metrics.rejected_connections.increment();
    Some(service.reject(Rejection::TooManyConnections))
}

/// Waits until a connection that is to close has closed, as long as a request is in
/// flight, and no longer than that for a client that keeps it open.
async fn close<F: Future>(mut connection: Pin<&mut F>, mut is_active: impl FnMut() -> bool) {
    while timeout(CLOSE_TIMEOUT, &mut connection).await.is_err() && is_active() {}
}

async fn serve_http1<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
    client: IpAddr,
    slot: &Slot,
    limits: Limits,
) {
    let activity = &slot.activity;
    let findings = Arc::new(Findings::default());
    let reject = |rejection| server.service.reject(findings.explain(rejection));
    let stream = ClientStream::new(stream, read_ahead, activity.clone(), limits, reject)
        .with_scanner(HeadScanner::new(findings.clone()));
    // A response that is a stream, and the version of its request.
    let streamed = Mutex::new(None);
    let service = service_fn(|mut request: Request<Incoming>| {
        activity.begin();
        activity.set_waiting(server.service.may_wait(&request));
        let (version, streamed) = (request.version(), &streamed);
        if let Some(rejection) = findings.next_request() {
            request.extensions_mut().insert(rejection);
        }
        let (service, metrics) = (&*server.service, &server.metrics);
        let response = match reject_over_limit(service, metrics, slot.health_only, &request) {
            Some(rejection) => Either::Left(ready(rejection)),
            None => Either::Right(service.call(client, request)),
        };
        // An async block would copy the service's future once more.
        response.then(move |mut response| {
            if slot.closes_after_response() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            activity.set_waiting(false);
            let is_stream = matches!(response.body(), ResponseBody::Stream(_));
            // On a connection that is closing, the stream ends at once: hyper can send it.
            if is_stream && !slot.closes_after_response() && activity.evicted().is_none() {
                *streamed.lock().expect(LOCK) = Some((version, response));
                return Either::Left(pending());
            }
            activity.request.end(response.status());
            Either::Right(ready(Ok::<_, Infallible>(response)))
        })
    });
    let mut connection = http1::Builder::new()
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BODY_BYTES)
        // A client may shut down its sending side and wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    // Until the connection ends, or a response is a stream.
    let served = poll_fn(|cx| match connection.poll_unpin(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        // Not before hyper has written what comes first.
        Poll::Pending if activity.request.is_busy() && !activity.is_blocked() => {
            match streamed.lock().expect(LOCK).take() {
                Some(response) => Poll::Ready(Some(response)),
                None => Poll::Pending,
            }
        }
        Poll::Pending => Poll::Pending,
    });
    let stop = tokio::select! {
        biased;
        served = served => match served {
            None => return close_after_upgrade(connection.into_parts().io.into_inner()).await,
            Some((version, response)) => {
                let stream = connection.into_parts().io.into_inner();
                return streamed_response::send(stream, version, response, slot).await;
            }
        },
        stop = slot.stopped() => stop,
    };
    match stop {
        Stop::Shutdown => {
            // On a connection without a request, hyper would wait for one.
            if activity.request.is_untouched() {
                let served = timeout(FIRST_REQUEST_GRACE, &mut connection).await;
                if served.is_ok() || activity.request.is_untouched() {
                    return;
                }
            }
            Pin::new(&mut connection).graceful_shutdown();
            drop((&mut connection).await);
            close_after_upgrade(connection.into_parts().io.into_inner()).await;
        }
        Stop::Evicted(_) if activity.request.is_unanswered() => {
            let stream = connection.into_parts().io.into_inner();
            reject_evicted(server, stream, stop).await;
        }
        Stop::Evicted(_) if activity.depends_on_client() => {}
        Stop::Evicted(eviction) => {
            Pin::new(&mut connection).graceful_shutdown();
            if eviction == Eviction::Close || activity.is_serving() {
                close(Pin::new(&mut connection), || activity.is_serving()).await;
            } else {
                drop(connection.now_or_never());
            }
        }
    }
}

/// Closes a connection that hyper has not closed: after a request with `Upgrade`, it leaves
/// that to the service, which never upgrades.
async fn close_after_upgrade(mut stream: impl AsyncWrite + Unpin) {
    let _ = stream.shutdown().await;
}

async fn serve_http2<S: Service>(
    server: &Arc<Server<S>>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
    client: IpAddr,
    slot: &Slot,
    limits: Limits,
) {
    let (head_timeout, idle_timeout) = (limits.head_timeout, limits.idle_timeout);
    let min_read_rate = u64::from(limits.min_read_rate);
    let min_written = min_read_rate * idle_timeout.as_secs();
    // HTTP/2 multiplexes requests, so `ClientStream` cannot tell them apart: it only
    // enforces the minimum read rate. hyper's keep-alive pings and the idle
    // check below do the rest.
    let activity = &slot.activity;
    activity.request.set_multiplexed();
    let reject = |rejection| server.service.reject(rejection);
    let stream = ClientStream::new(stream, read_ahead, activity.clone(), limits, reject);
    let service = service_fn({
        // A count of its own: one that all connections share would be contended.
        let server = Arc::new(server.clone());
        let (activity, health_only) = (activity.clone(), slot.health_only);
        move |request: Request<Incoming>| {
            let (server, active) = (server.clone(), ActiveRequest::begin(&activity));
            async move {
                let (service, metrics) = (&*server.service, &server.metrics);
                let rejection = reject_over_limit(service, metrics, health_only, &request);
                let response = match rejection {
                    Some(rejection) => rejection,
                    None => service.call(client, request).await,
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
        .initial_connection_window_size(4 * MAX_BODY_BYTES as u32)
        .max_send_buf_size(MAX_BODY_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // After the first request; before it, the client would have to connect again.
    let closes = || slot.closes_after_response() && activity.started() > 0;
    let mut last = Check::new(activity);
    let mut check_in = head_timeout;
    loop {
        tokio::select! {
            biased;
            _ = &mut connection => return,
            stop = slot.stopped() => {
                let in_flight = activity.is_busy() || activity.has_unsent();
                if stop == Stop::Evicted(Eviction::Abort) && !in_flight {
                    connection.as_mut().graceful_shutdown();
                    return drop(connection.now_or_never());
                }
                break;
            }
            () = poll_fn(|_| if closes() { Poll::Ready(()) } else { Poll::Pending }) => break,
            // Unconstrained: under a flood the connection uses up the task's
            // cooperative budget, and a timer without budget never fires.
            () = unconstrained(sleep(check_in)) => {
                let now = Check::new(activity);
                let idle = now.started == last.started && !activity.is_busy();
                // Flow control can block responses without blocking writes.
                let stalled = last.has_unsent && now.has_unsent
                    && now.written - last.written < min_written;
                if idle || stalled {
                    break;
                }
                (last, check_in) = (now, idle_timeout);
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Let requests in flight finish. Do not wait for a client that ignores GOAWAY or
    // does not read its last responses, nor for streams: at shutdown the service has ended
    // them.
    let mut written = activity.written();
    close(connection, || {
        let before = std::mem::replace(&mut written, activity.written());
        // Pings do not count.
        let is_reading = written - before >= min_read_rate * CLOSE_TIMEOUT.as_secs();
        activity.is_active() || activity.has_unsent() && is_reading
    })
    .await;
}

/// What the periodic check of an HTTP/2 connection has seen.
struct Check {
    started: u64,
    has_unsent: bool,
    written: u64,
}

impl Check {
    fn new(activity: &Activity) -> Self {
        Self {
            started: activity.started(),
            has_unsent: activity.has_unsent(),
            written: activity.written(),
        }
    }
}

/// A response body that counts as unsent until its bytes are written. A stream counts so
/// from each chunk until hyper asks for the next one, which it does when the client has
/// room for it.
struct TrackedBody {
    body: ResponseBody,
    stream: Option<OpenStream>,
    unsent: Option<UnsentResponse>,
}

impl TrackedBody {
    fn new(body: ResponseBody, active: ActiveRequest) -> Self {
        let (stream, unsent) = match &body {
            ResponseBody::Complete(_) => (None, active.end()),
            ResponseBody::Stream(_) => {
                let stream = active.stream();
                let unsent = stream.respond();
                (Some(stream), unsent)
            }
        };
        Self {
            body,
            stream,
            unsent: Some(unsent),
        }
    }
}

/// h2 queues the bytes of a body and drops them when the last one is written.
struct TrackedBytes {
    bytes: Bytes,
    _unsent: Option<UnsentResponse>,
}

impl AsRef<[u8]> for TrackedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if let Some(stream) = &this.stream {
            this.unsent = None;
            let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
            this.unsent = Some(stream.respond());
            return Poll::Ready(frame);
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        let _unsent = this.unsent.take();
        let track = |bytes| Bytes::from_owner(TrackedBytes { bytes, _unsent });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(track))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
