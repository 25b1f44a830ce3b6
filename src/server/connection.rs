//! One connection, from its first byte until it closes. HTTP/2 continues in `http2.rs`.

use std::{
    convert::Infallible,
    future::{pending, poll_fn, ready},
    pin::{Pin, pin},
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt, future::Either};
use http::{HeaderValue, header};
use hyper::{
    Request,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    Client, Limits, Metrics, Rejection, Response, ResponseBody, Server, Service,
    activity::{Eviction, Held},
    connections::{Slot, Stop},
    head_scanner::{Findings, HeadScanner},
    http2,
    limits::{MAX_BODY_BYTES, MAX_HEAD_BYTES},
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

/// A request body up to this size is not charged to the connection.
const SMALL_BODY_BYTES: usize = 4 << 10;

const LOCK: &str = "no task panics while holding the lock";

/// Serves a connection until it ends, or until it is to close and the requests in
/// flight are finished.
///
/// I/O errors are ignored: they mean that the client is gone.
pub async fn serve<S: Service>(server: &Arc<Server<S>>, mut stream: TcpStream, slot: &Slot) {
    // Responses are small and written at once: Nagle's algorithm only delays them.
    let _ = stream.set_nodelay(true);
    let mut limits = server.limits.clone();
    if slot.health_only {
        limits.head_timeout = limits.head_timeout.min(limits.reserved_head_timeout);
    }
    if let Some(tls) = &server.tls {
        // Boxed, so that plain connections do not pay for its size.
        return Box::pin(serve_tls(server, tls, stream, slot, limits)).await;
    }
    let mut read_ahead = ReadAhead::default();
    let detect = timeout(limits.head_timeout, read_ahead.detect(&mut stream));
    let detected = match until_stopped(slot, detect).await {
        Ok(detected) => detected,
        Err(stop) => return reject_evicted(server, stream, slot, stop).await,
    };
    match detected {
        Ok(Ok(Protocol::Http1)) => {
            serve_http1(server, stream, read_ahead, slot, limits).await;
        }
        Ok(Ok(Protocol::Http2)) => {
            http2::serve(server, stream, read_ahead, slot, limits).await;
        }
        Err(_) if read_ahead.first_byte_at().is_some() => {
            let rejection = server.service.reject(Rejection::HeadTimeout);
            stream::reject(stream, &slot.activity, &limits, rejection).await;
        }
        // The client disconnected, or has not sent a byte.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_tls<S: Service>(
    server: &Arc<Server<S>>,
    tls: &Tls,
    stream: TcpStream,
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
                serve_http1(server, stream, ReadAhead::default(), slot, limits).await;
            }
            Protocol::Http2 => {
                http2::serve(server, stream, ReadAhead::default(), slot, limits).await;
            }
        },
        Ok(Err(HandshakeError::PlainHttp(stream))) => {
            let rejection = server.service.reject(Rejection::PlainHttpOnTlsPort);
            stream::reject(stream, &slot.activity, &limits, rejection).await;
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
    slot: &Slot,
    stop: Stop,
) {
    let Stop::Evicted(eviction) = stop else {
        return;
    };
    let rejection = server.service.reject(Rejection::TooManyConnections);
    let rejected = stream::reject(stream, &slot.activity, &server.limits, rejection);
    match eviction {
        Eviction::Close => drop(timeout(CLOSE_TIMEOUT, rejected).await),
        Eviction::Abort | Eviction::Reset => drop(rejected.now_or_never()),
    }
}

/// The response to a request that is not served because the connection is over the limit.
pub(super) fn reject_over_limit<S: Service>(
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

/// The most memory that the body of a request can take.
pub(super) fn max_body_bytes(body: &Incoming) -> usize {
    match body.size_hint().upper() {
        Some(length) => length.min(MAX_BODY_BYTES as u64) as usize,
        None => MAX_BODY_BYTES,
    }
}

/// Waits until a connection that is to close has closed, as long as a request is in
/// flight, and no longer than that for a client that keeps it open.
pub(super) async fn close<F: Future>(
    mut connection: Pin<&mut F>,
    mut is_active: impl FnMut() -> bool,
) {
    while timeout(CLOSE_TIMEOUT, &mut connection).await.is_err() && is_active() {}
}

async fn serve_http1<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
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
        let body_bytes = max_body_bytes(request.body());
        let held = (body_bytes > SMALL_BODY_BYTES).then(|| Held::new(activity, body_bytes));
        let (service, metrics) = (&*server.service, &server.metrics);
        let response = match reject_over_limit(service, metrics, slot.health_only, &request) {
            Some(rejection) => Either::Left(ready(rejection)),
            None => Either::Right(service.call(Client(activity), request)),
        };
        // An async block would copy the service's future once more.
        response.then(move |mut response| {
            drop(held);
            let response_bytes = response.body().size_hint().lower();
            activity.set_response_bytes(response_bytes as usize);
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
            tokio::select! {
                _ = &mut connection => {}
                () = slot.reset() => return,
            }
            close_after_upgrade(connection.into_parts().io.into_inner()).await;
        }
        Stop::Evicted(Eviction::Reset) => {}
        Stop::Evicted(_) if activity.request.is_unanswered() => {
            let stream = connection.into_parts().io.into_inner();
            reject_evicted(server, stream, slot, stop).await;
        }
        Stop::Evicted(_) if activity.depends_on_client() => {}
        Stop::Evicted(eviction) => {
            Pin::new(&mut connection).graceful_shutdown();
            if eviction == Eviction::Close || activity.is_serving() {
                let closed = close(Pin::new(&mut connection), || activity.is_serving());
                tokio::select! {
                    () = closed => {}
                    () = slot.reset() => {}
                }
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

#[cfg(test)]
mod tests;
