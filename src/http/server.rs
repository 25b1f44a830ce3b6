//! The accept loop: as many connections as there is room for, each with its
//! limits, and an orderly end.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
};
use tokio_util::task::TaskTracker;

use super::{
    App,
    error::ApiError,
    exchange,
    limits::{Limits, MAX_BODY, MAX_HEAD},
    socket::{Phase, Socket},
};

/// How many connections beyond the limit are told so at a time; those beyond
/// that are just closed.
const TURNED_AWAY: usize = 64;

/// Tells every connection that the service is closing.
#[derive(Default)]
struct Closing {
    begun: AtomicBool,
    all: Notify,
}

impl Closing {
    fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.all.notify_waiters();
    }

    /// Is ready when the service is closing.
    ///
    /// A task's waker stays the same, so it is left with the others once: to
    /// leave it again at every turn would make all connections share a lock.
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

/// Serves connections until `shutdown` is ready, then finishes what runs.
pub async fn run(
    listener: TcpListener,
    app: Arc<App>,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let door = Arc::new(Semaphore::new(TURNED_AWAY));
    let connections = TaskTracker::new();
    let closing = Arc::new(Closing::default());
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match room.clone().try_acquire_owned() {
                Ok(place) => {
                    let (app, limits) = (app.clone(), limits.clone());
                    let closing = closing.clone();
                    connections.spawn(async move {
                        serve(stream, &app, limits, &closing).await;
                        drop(place);
                    });
                }
                Err(_) => {
                    if let Ok(place) = door.clone().try_acquire_owned() {
                        connections.spawn(turn_away(stream, limits.clone(), place));
                    }
                }
            },
            Err(error) => {
                // Out of file descriptors, most likely: let some be closed.
                tracing::warn!(%error, "connections are not accepted for a second");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    drop(listener);
    closing.begin();
    connections.close();
    let drained = tokio::time::timeout(limits.drain, connections.wait()).await;
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut off");
    }
}

async fn serve(stream: TcpStream, app: &App, limits: Limits, closing: &Closing) {
    // Answers are small and written whole, so nothing is gained by waiting.
    let _ = stream.set_nodelay(true);
    let phase = Arc::new(Phase::default());
    let socket = Socket::new(stream, phase.clone(), limits);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        phase.begin();
        let phase = &phase;
        async move {
            let answer = exchange::answer(app, request).await;
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
    let mut ear = pin!(closing.listen());
    // A connection that breaks is the client's business: there is nobody left
    // to tell.
    let ended = poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => ear.as_mut().poll(cx).map(|()| false),
    });
    if !ended.await {
        connection.as_mut().graceful_shutdown();
        // hyper would wait for a first request.
        if !phase.is_untouched() {
            let _ = connection.await;
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("all connections are taken")]
struct Full;

/// Answers a connection that there is no room for.
async fn turn_away(stream: TcpStream, limits: Limits, _place: OwnedSemaphorePermit) {
    let error = ApiError::Unavailable(
        "the service has no room for another connection; try again later",
        Arc::new(Full),
    );
    Socket::new(stream, Arc::default(), limits)
        .dismiss(&error)
        .await;
}
