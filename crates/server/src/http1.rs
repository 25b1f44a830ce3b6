//! HTTP/1.1 on one connection.

use std::{
    convert::Infallible,
    future::{pending, poll_fn, ready},
    pin::Pin,
    sync::{Arc, Mutex},
    task::Poll,
};

use futures_util::{FutureExt, future::Either};
use http::{HeaderValue, Method, Version, header};
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use super::{
    Client, Limits, Response, ResponseBody, Server, Service,
    activity::{Eviction, HeldMemory},
    closing::{FIRST_REQUEST_GRACE, close, reject_evicted},
    connections::{Slot, Stop},
    head_scanner::{Findings, HeadScanner},
    limits::{MAX_BODY_BYTES, MAX_HEAD_BYTES, max_body_bytes},
    protocol::ReadAhead,
    stream::ClientStream,
    streamed_response,
};

/// A request body up to this size is not charged to the connection.
const SMALL_BODY_BYTES: usize = 4 << 10;

/// The reason why hyper is done with a connection.
enum ServeEnd {
    Ended,
    CutOff,
    /// The next response is a stream, for a request of this version.
    Stream(Version, Response),
}

const LOCK: &str = "no task panics while holding the lock";

/// Serves HTTP/1.1 on a connection until it ends.
pub(super) async fn serve<S: Service>(
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
        let version = request.version();
        // hyper hands the connection over after it, as after `Upgrade`.
        let is_last = request.method() == Method::CONNECT;
        let streamed = &streamed;
        if let Some(rejection) = findings.next_request() {
            request.extensions_mut().insert(rejection);
        }
        let body_bytes = max_body_bytes(request.body());
        let held = (body_bytes > SMALL_BODY_BYTES).then(|| HeldMemory::new(activity, body_bytes));
        let response = match server.reject_over_limit(slot.health_only, &request) {
            Some(rejection) => Either::Left(ready(rejection)),
            None => Either::Right(server.service.call(Client(activity), request)),
        };
        // An async block would copy the service's future once more.
        response.then(move |mut response| {
            drop(held);
            activity.set_response_bytes(response.body().bytes_in_memory());
            if is_last || slot.closes_after_response() {
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
    // Completes when the connection ends, or when a response is a stream.
    let served = poll_fn(|cx| match connection.poll_unpin(cx) {
        // The rest of a response cannot be read. The client must notice, so nothing is closed
        // gracefully.
        Poll::Ready(Err(error)) if error.is_user() => Poll::Ready(ServeEnd::CutOff),
        Poll::Ready(_) => Poll::Ready(ServeEnd::Ended),
        // Waits until hyper has written what comes first.
        Poll::Pending if activity.request.is_busy() && !activity.is_blocked() => {
            match streamed.lock().expect(LOCK).take() {
                Some((version, response)) => Poll::Ready(ServeEnd::Stream(version, response)),
                None => Poll::Pending,
            }
        }
        Poll::Pending => Poll::Pending,
    });
    let stop = tokio::select! {
        biased;
        served = served => match served {
            ServeEnd::CutOff => return,
            ServeEnd::Ended => {
                return close_after_connect(connection.into_parts().io.into_inner()).await;
            }
            ServeEnd::Stream(version, response) => {
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
                ended = &mut connection => {
                    if ended.is_err_and(|error| error.is_user()) {
                        return;
                    }
                }
                () = slot.reset() => return,
            }
            close_after_connect(connection.into_parts().io.into_inner()).await;
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

/// Closes a connection that hyper has not closed: after CONNECT, it leaves that to the service,
/// which never connects to anything.
async fn close_after_connect(mut stream: impl AsyncWrite + Unpin) {
    let _ = stream.shutdown().await;
}
