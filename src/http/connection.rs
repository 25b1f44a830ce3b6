//! One connection: which protocol it speaks, and its end.

use std::{
    convert::Infallible,
    future::poll_fn,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
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
    sync::Notify,
    task::coop::unconstrained,
    time::{sleep, timeout},
};

use super::{
    App, Response,
    error::ApiError,
    exchange,
    limits::{Limits, MAX_BODY, MAX_HEAD, MAX_STREAMS},
    socket::{self, Phase, Socket},
    tls::{self, NoTls, Tls},
};

/// How long a client has to take the last answers.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, or until the service is closing and what
/// runs is finished.
///
/// One that breaks is the client's business: there is nobody left to tell.
pub async fn serve(stream: TcpStream, client: IpAddr, app: Arc<App>, closing: &Closing) {
    // Answers are small and written whole, so nothing is gained by waiting.
    let _ = stream.set_nodelay(true);
    let mut ear = pin!(closing.listen());
    if let Some(tls) = app.tls.clone() {
        // In a box, as connections without TLS would be as large as this.
        return Box::pin(serve_tls(stream, client, app, &tls, ear)).await;
    }
    let known = tokio::select! {
        biased;
        known = timeout(app.limits.head, speaks_http2(&stream)) => known,
        () = &mut ear => return,
    };
    match known {
        Ok(true) => serve_http2(stream, client, app, ear).await,
        Ok(false) => {
            let answer = |request| exchange::answer(&app, client, request);
            serve_http1(stream, &app.limits, ear, answer).await;
        }
        // It has not said a word.
        Err(_) => {}
    }
}

async fn serve_tls(
    stream: TcpStream,
    client: IpAddr,
    app: Arc<App>,
    tls: &Tls,
    mut closing: Pin<&mut impl Future<Output = ()>>,
) {
    let accepted = tokio::select! {
        biased;
        accepted = timeout(app.limits.head, tls.accept(stream)) => accepted,
        () = &mut closing => return,
    };
    match accepted {
        Ok(Ok(stream)) if tls::speaks_http2(&stream) => {
            serve_http2(stream, client, app, closing).await
        }
        Ok(Ok(stream)) => {
            let answer = |request| exchange::answer(&app, client, request);
            serve_http1(stream, &app.limits, closing, answer).await;
        }
        Ok(Err(NoTls::Plain(stream))) => {
            let error = ApiError::InvalidRequest("this port speaks TLS; use https://");
            socket::dismiss(stream, app.limits.clone(), &error).await;
        }
        Ok(Err(NoTls::Failed)) | Err(_) => {}
    }
}

/// Looks at the first bytes, and leaves them: does the client begin with the
/// preface of HTTP/2, without asking first?
async fn speaks_http2(stream: &TcpStream) -> bool {
    const PREFACE: &[u8; 4] = b"PRI ";
    let mut start = [0; PREFACE.len()];
    // The rest of a preface follows soon.
    for _ in 0..1000 {
        match stream.peek(&mut start).await {
            Ok(4) => return start == *PREFACE,
            Ok(seen) if seen > 0 && PREFACE.starts_with(&start[..seen]) => {
                sleep(Duration::from_millis(1)).await;
            }
            _ => return false,
        }
    }
    false
}

/// Serves a connection of HTTP/1.1, whatever answers.
pub async fn serve_http1<F: Future<Output = Response>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    limits: &Limits,
    mut closing: Pin<&mut impl Future<Output = ()>>,
    answer: impl Fn(Request<Incoming>) -> F,
) {
    let phase = Arc::new(Phase::default());
    let socket = Socket::new(stream, phase.clone(), limits.clone());
    let service = service_fn(|request| {
        phase.begin();
        let (phase, answer) = (&phase, &answer);
        async move {
            let answer = answer(request).await;
            phase.end(answer.status().as_u16() >= 400);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http1::Builder::new()
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BODY)
        // Who has said all may close that side and still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    tokio::select! {
        biased;
        _ = &mut connection => {}
        () = &mut closing => {
            connection.as_mut().graceful_shutdown();
            // hyper would wait for a first request.
            if !phase.is_untouched() {
                let _ = connection.await;
            }
        }
    }
}

async fn serve_http2(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    client: IpAddr,
    app: Arc<App>,
    mut closing: Pin<&mut impl Future<Output = ()>>,
) {
    let (head, idle) = (app.limits.head, app.limits.idle);
    // Requests come side by side here, so the socket cannot tell whose turn it
    // is. It only sees to it that the client reads.
    let socket = Socket::new(stream, Arc::new(Phase::busy()), app.limits.clone());
    // How many requests have begun. Each that runs holds a reference.
    let begun = Arc::new(AtomicU64::new(0));
    let counted = begun.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (app, running) = (app.clone(), counted.clone());
        running.fetch_add(1, Ordering::Relaxed);
        async move {
            let answer = exchange::answer(&app, client, request).await;
            drop(running);
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(idle / 2)
        .keep_alive_timeout(idle / 2)
        .max_concurrent_streams(MAX_STREAMS)
        // A client may think better of all that it has asked for at once, but
        // not go on asking and taking back.
        .max_pending_accept_reset_streams(MAX_STREAMS as usize)
        // So many requests may be broken before the connection is ended. Some
        // come by right: more streams than allowed, before that was known.
        .max_local_error_reset_streams(4 * MAX_STREAMS as usize)
        // What is somewhat too large gets our answer, not a bare 431.
        .max_header_list_size(4 * MAX_HEAD as u32)
        .initial_stream_window_size(MAX_BODY as u32)
        .initial_connection_window_size(4 * MAX_BODY as u32)
        .max_send_buf_size(MAX_BODY)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let runs = || Arc::strong_count(&begun) > 2;
    let (mut seen, mut silence) = (0, head);
    loop {
        tokio::select! {
            biased;
            _ = &mut connection => return,
            () = &mut closing => break,
            // A flood leaves the task no budget, without which a timer is silent.
            () = unconstrained(sleep(silence)) => {
                let now = begun.load(Ordering::Relaxed);
                if now == seen && !runs() {
                    break;
                }
                (seen, silence) = (now, idle);
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    // Answers that are on their way may arrive. A client that does not take
    // them, or leaves the goodbye unanswered, is not waited for.
    loop {
        match timeout(GOODBYE, &mut connection).await {
            Err(_) if runs() => {}
            _ => return,
        }
    }
}

/// Tells every connection that the service is closing.
#[derive(Debug, Default)]
pub struct Closing {
    begun: AtomicBool,
    all: Notify,
}

impl Closing {
    pub fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.all.notify_waiters();
    }

    /// Is ready when the service is closing.
    ///
    /// It must be awaited by one task only, and not through anything that has
    /// wakers of its own. A task's waker stays the same, so it is left with
    /// the others once: to leave it again at every turn would make all
    /// connections share a lock.
    async fn listen(&self) {
        let mut all = pin!(self.all.notified());
        let mut left = false;
        poll_fn(|cx| {
            if !left {
                left = all.as_mut().poll(cx).is_pending();
            }
            if self.begun.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
