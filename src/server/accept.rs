//! The accept loop, with a connection limit, and graceful shutdown.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    Rejection, Server, Service, connection, shutdown::ShutdownSignal, stream, tls::HandshakeError,
};

/// How many connections over the limit are being sent a 503 at a time. Further ones
/// are closed without a response.
const MAX_REJECTIONS: usize = 64;

/// How long to wait after `accept` failed.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl<S: Service> Server<S> {
    /// Accepts connections until `shutdown` completes, then drains them: requests in
    /// flight are finished, and after the drain timeout the rest is abandoned.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let server = Arc::new(self);
        let connection_limit = Arc::new(Semaphore::new(server.limits.max_connections));
        let rejection_limit = Arc::new(Semaphore::new(MAX_REJECTIONS));
        let connections = TaskTracker::new();
        let signal = Arc::new(ShutdownSignal::default());
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, client)) => match connection_limit.clone().try_acquire_owned() {
                    Ok(permit) => {
                        let (server, signal) = (server.clone(), signal.clone());
                        let client = client.ip().to_canonical();
                        connections.spawn(async move {
                            let _open = server.metrics.open_connections.track();
                            connection::serve(&server, stream, client, &signal).await;
                            drop(permit);
                        });
                    }
                    Err(_) => {
                        server.metrics.rejected_connections.increment();
                        if let Ok(permit) = rejection_limit.clone().try_acquire_owned() {
                            connections.spawn(reject(server.clone(), stream, permit));
                        }
                    }
                },
                Err(error) => {
                    // Most likely out of file descriptors.
                    let retry_in = ACCEPT_RETRY_INTERVAL;
                    tracing::warn!(%error, ?retry_in, "accept failed");
                    tokio::time::sleep(retry_in).await;
                }
            }
        }
        drop(listener);
        signal.start();
        connections.close();
        if timeout(server.limits.drain_timeout, connections.wait())
            .await
            .is_err()
        {
            let connections = connections.len();
            tracing::warn!(connections, "drain timed out; connections abandoned");
        }
    }
}

/// Responds to a connection over the limit and closes it.
async fn reject<S: Service>(
    server: Arc<Server<S>>,
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
) {
    let rejection = server.service.reject(Rejection::TooManyConnections);
    let limits = &server.limits;
    let Some(tls) = &server.tls else {
        return stream::reject(stream, limits, rejection).await;
    };
    match timeout(limits.head_timeout, tls.accept_http1(stream)).await {
        Ok(Ok(stream)) => stream::reject(stream, limits, rejection).await,
        Ok(Err(HandshakeError::PlainHttp(stream))) => {
            stream::reject(stream, limits, rejection).await;
        }
        Ok(Err(HandshakeError::Failed)) | Err(_) => {}
    }
}
