//! The accept loop: as many connections as there is room for, each with its
//! limits, and an orderly end.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    App,
    connection::{self, Closing},
    error::ApiError,
    socket,
    tls::NoTls,
};

/// How many connections beyond the limit are told so at a time; those beyond
/// that are just closed.
const TURNED_AWAY: usize = 64;

/// Serves connections until `shutdown` is ready, then finishes what runs.
pub async fn run(listener: TcpListener, app: &Arc<App>, shutdown: impl Future<Output = ()>) {
    let limits = &app.limits;
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
            Ok((stream, client)) => match room.clone().try_acquire_owned() {
                Ok(place) => {
                    let (app, closing) = (app.clone(), closing.clone());
                    let client = client.ip().to_canonical();
                    connections.spawn(async move {
                        let _open = app.metrics.connections.enter();
                        connection::serve(stream, client, app.clone(), &closing).await;
                        drop(place);
                    });
                }
                Err(_) => {
                    app.metrics.turned_away.increment();
                    if let Ok(place) = door.clone().try_acquire_owned() {
                        connections.spawn(turn_away(stream, app.clone(), place));
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
    let drained = timeout(limits.drain, connections.wait()).await;
    if drained.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut off");
    }
}

#[derive(Debug, thiserror::Error)]
#[error("all connections are taken")]
struct Full;

/// Answers a connection that there is no room for.
async fn turn_away(stream: TcpStream, app: Arc<App>, _place: OwnedSemaphorePermit) {
    let error = ApiError::Unavailable(
        "the service has no room for another connection; try again later",
        Arc::new(Full),
    );
    let limits = app.limits.clone();
    let Some(tls) = &app.tls else {
        return socket::dismiss(stream, limits, &error).await;
    };
    match timeout(limits.head, tls.accept_http1(stream)).await {
        Ok(Ok(stream)) => socket::dismiss(stream, limits, &error).await,
        Ok(Err(NoTls::Plain(stream))) => socket::dismiss(stream, limits, &error).await,
        Ok(Err(NoTls::Failed)) | Err(_) => {}
    }
}
