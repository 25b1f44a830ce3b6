//! The accept loop: as many connections as there is room for, each with its
//! limits, and an orderly end.

use std::{pin::pin, sync::Arc, time::Duration};

use axum::Router;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use super::{
    error::ApiError,
    limits::{Limits, MAX_BODY, MAX_HEAD},
    socket::{Phase, Socket},
};

/// How many connections beyond the limit are told so at a time; those beyond
/// that are just closed.
const TURNED_AWAY: usize = 64;

/// Serves connections until `shutdown` is ready, then finishes what runs.
pub async fn run(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let door = Arc::new(Semaphore::new(TURNED_AWAY));
    let connections = TaskTracker::new();
    let closing = CancellationToken::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => match room.clone().try_acquire_owned() {
                Ok(place) => {
                    let (router, limits) = (router.clone(), limits.clone());
                    let closing = closing.clone();
                    connections.spawn(async move {
                        serve(stream, router, limits, closing).await;
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
    closing.cancel();
    connections.close();
    let drained = tokio::time::timeout(limits.drain, connections.wait()).await;
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut off");
    }
}

async fn serve(stream: TcpStream, router: Router, limits: Limits, closing: CancellationToken) {
    // Answers are small and written whole, so nothing is gained by waiting.
    let _ = stream.set_nodelay(true);
    let phase = Arc::new(Phase::default());
    let socket = Socket::new(stream, phase.clone(), limits);
    let in_service = phase.clone();
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        in_service.begin();
        let (mut router, phase) = (router.clone(), in_service.clone());
        async move {
            let response = router.call(request).await;
            phase.end(matches!(&response, Ok(answer) if answer.status().as_u16() >= 400));
            response
        }
    });
    let connection = http1::Builder::new()
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BODY)
        // Who has said all may close that side and still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    // A connection that breaks is the client's business: there is nobody left
    // to tell.
    tokio::select! {
        biased;
        _ = connection.as_mut() => {}
        () = closing.cancelled() => {
            connection.as_mut().graceful_shutdown();
            // hyper would wait for a first request.
            if !phase.is_untouched() {
                let _ = connection.await;
            }
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
