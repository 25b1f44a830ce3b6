//! One connection, from its first byte until it closes: HTTP/1.1 or HTTP/2.

use std::{
    convert::Infallible,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::coop::unconstrained,
    time::{sleep, timeout},
};

use super::{
    Rejection, Server, Service,
    head_scanner::{Findings, ScannedStream},
    limits::{MAX_BODY_BYTES, MAX_CONCURRENT_STREAMS, MAX_HEAD_BYTES},
    protocol::{Protocol, ReadAhead},
    request_state::RequestState,
    shutdown::ShutdownSignal,
    stream::{self, ClientStream},
    tls::{self, HandshakeError, Tls},
};

/// How long an HTTP/2 client may take to close a connection after GOAWAY when no
/// request is in flight.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, or until the server shuts down and the requests
/// in flight are finished.
///
/// I/O errors are ignored: they mean that the client is gone.
pub async fn serve<S: Service>(
    server: &Server<S>,
    mut stream: TcpStream,
    client: IpAddr,
    signal: &ShutdownSignal,
) {
    // Responses are small and written at once: Nagle's algorithm only delays them.
    let _ = stream.set_nodelay(true);
    let mut shutdown = pin!(signal.started());
    if let Some(tls) = &server.tls {
        // Boxed, so that plain connections do not pay for its size.
        return Box::pin(serve_tls(server, tls, stream, client, shutdown)).await;
    }
    let mut read_ahead = ReadAhead::default();
    let detected = tokio::select! {
        biased;
        detected = timeout(server.limits.head_timeout, read_ahead.detect(&mut stream)) => detected,
        () = &mut shutdown => return,
    };
    match detected {
        Ok(Ok(Protocol::Http1)) => {
            serve_http1(server, stream, read_ahead, client, shutdown).await;
        }
        Ok(Ok(Protocol::Http2)) => {
            serve_http2(server, stream, read_ahead, client, shutdown).await;
        }
        Err(_) if read_ahead.first_byte_at().is_some() => {
            let rejection = server.service.reject(Rejection::HeadTimeout);
            stream::reject(stream, &server.limits, rejection).await;
        }
        // The client disconnected, or has not sent a byte.
        Ok(Err(_)) | Err(_) => {}
    }
}

async fn serve_tls<S: Service>(
    server: &Server<S>,
    tls: &Tls,
    stream: TcpStream,
    client: IpAddr,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) {
    let accepted = tokio::select! {
        biased;
        accepted = timeout(server.limits.head_timeout, tls.accept(stream)) => accepted,
        () = &mut shutdown => return,
    };
    match accepted {
        Ok(Ok(stream)) => match tls::negotiated_protocol(&stream) {
            Protocol::Http1 => {
                serve_http1(server, stream, ReadAhead::default(), client, shutdown).await;
            }
            Protocol::Http2 => {
                serve_http2(server, stream, ReadAhead::default(), client, shutdown).await;
            }
        },
        Ok(Err(HandshakeError::PlainHttp(stream))) => {
            let rejection = server.service.reject(Rejection::PlainHttpOnTlsPort);
            stream::reject(stream, &server.limits, rejection).await;
        }
        Ok(Err(HandshakeError::Failed)) | Err(_) => {}
    }
}

async fn serve_http1<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
    client: IpAddr,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) {
    let state = Arc::new(RequestState::default());
    let findings = Arc::new(Findings::default());
    let reject = |rejection| server.service.reject(findings.explain(rejection));
    let stream = ClientStream::new(stream, read_ahead, state.clone(), &server.limits, reject);
    let stream = ScannedStream::new(stream, findings.clone());
    let service = service_fn(|mut request: Request<Incoming>| {
        state.begin();
        if let Some(rejection) = findings.next_request() {
            request.extensions_mut().insert(rejection);
        }
        let state = &state;
        async move {
            let response = server.service.call(client, request).await;
            state.end(response.status());
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_BODY_BYTES)
        // A client may shut down its sending side and wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ = &mut connection => {}
        () = &mut shutdown => {
            connection.as_mut().graceful_shutdown();
            // On a connection without a request, hyper would wait for one.
            if !state.is_untouched() {
                let _ = connection.await;
            }
        }
    }
}

async fn serve_http2<S: Service>(
    server: &Server<S>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    read_ahead: ReadAhead,
    client: IpAddr,
    mut shutdown: Pin<&mut impl Future<Output = ()>>,
) {
    let limits = &server.limits;
    let (head_timeout, idle_timeout) = (limits.head_timeout, limits.idle_timeout);
    // HTTP/2 multiplexes requests, so `ClientStream` cannot tell them apart: it only
    // enforces the write timeout. hyper's keep-alive pings and the idle
    // check below do the rest.
    let state = Arc::new(RequestState::multiplexed());
    let reject = |rejection| server.service.reject(rejection);
    let stream = ClientStream::new(stream, read_ahead, state, limits, reject);
    let requests = Arc::new(RequestCounter::default());
    let service = service_fn({
        let (service, requests) = (server.service.clone(), requests.clone());
        move |request: Request<Incoming>| {
            let (service, in_flight) = (service.clone(), RequestCounter::begin(&requests));
            async move {
                let response = service.call(client, request).await;
                drop(in_flight);
                Ok::<_, Infallible>(response)
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
    let (mut seen, mut check_in) = (0, head_timeout);
    loop {
        tokio::select! {
            biased;
            _ = &mut connection => return,
            () = &mut shutdown => break,
            // Unconstrained: under a flood the connection uses up the task's
            // cooperative budget, and a timer without budget never fires.
            () = unconstrained(sleep(check_in)) => {
                let started = requests.started.load(Ordering::Relaxed);
                if started == seen && !requests.is_active() {
                    break;
                }
                (seen, check_in) = (started, idle_timeout);
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Let requests in flight finish. Do not wait for a client that ignores GOAWAY or
    // does not read its last responses.
    loop {
        match timeout(GOAWAY_TIMEOUT, &mut connection).await {
            Err(_) if requests.is_active() => {}
            _ => return,
        }
    }
}

/// The requests of one HTTP/2 connection.
#[derive(Debug, Default)]
struct RequestCounter {
    started: AtomicU64,
    active: AtomicUsize,
}

impl RequestCounter {
    /// Counts a request as active until the guard is dropped: when it is
    /// finished, or reset by the client.
    fn begin(counter: &Arc<Self>) -> ActiveRequest {
        counter.started.fetch_add(1, Ordering::Relaxed);
        counter.active.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(counter.clone())
    }

    fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) > 0
    }
}

struct ActiveRequest(Arc<RequestCounter>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}
