//! The accept loop and graceful shutdown.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use socket2::SockRef;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, timeout},
};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::{Server, Service, connection, connections::Connections};

/// The maximum number of unsent bytes in the kernel's send buffer. By default the buffer takes
/// megabytes for a client that does not read, and the kernel reports that a socket is writable only
/// when a third of them is free, so a slow client looks like one that has stopped.
const KERNEL_UNSENT_BYTES: u32 = 64 << 10;

/// The time for which the kernel tries to deliver bytes to a client that has vanished. The
/// default is a quarter of an hour.
const UNACKNOWLEDGED_TIMEOUT: Duration = Duration::from_secs(60);

/// The delay before the next `accept` after one that failed.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

impl<S: Service> Server<S> {
    /// Accepts connections until `shutdown` completes, then drains them: during the drain
    /// delay, connections are still accepted, and each is closed after its next response. Then
    /// idle connections are closed, requests in flight are finished, and after the drain
    /// timeout the remaining ones are abandoned.
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let server = Arc::new(self);
        // Accepted connections inherit these options.
        let socket = SockRef::from(&listener);
        let _ = socket.set_tcp_notsent_lowat(KERNEL_UNSENT_BYTES);
        let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_TIMEOUT));
        let connections = Arc::new(Connections::new(&server.limits, server.metrics.clone()));
        let _budget = AbortOnDropHandle::new(tokio::spawn({
            let connections = connections.clone();
            async move { connections.keep_within_budget().await }
        }));
        let tasks = TaskTracker::new();
        let mut shutdown = pin!(async {
            shutdown.await;
            connections.drain();
            sleep(server.limits.drain_delay).await;
        });
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, client)) => serve(&server, &connections, &tasks, stream, client),
                Err(error) => {
                    // Most likely out of file descriptors.
                    let retry_in = ACCEPT_RETRY_INTERVAL;
                    tracing::warn!(%error, ?retry_in, "accept failed");
                    sleep(retry_in).await;
                }
            }
        }
        // Closing the listener resets the connections in its backlog.
        if let Ok(listener) = listener.into_std() {
            let backlog = listener.incoming().map_while(Result::ok);
            for stream in backlog.take(server.limits.max_connections) {
                let stream = stream.set_nonblocking(true).map(|()| stream);
                let Ok(stream) = stream.and_then(TcpStream::from_std) else {
                    continue;
                };
                if let Ok(client) = stream.peer_addr() {
                    serve(&server, &connections, &tasks, stream, client);
                }
            }
        }
        connections.stop();
        tasks.close();
        if timeout(server.limits.drain_timeout, tasks.wait())
            .await
            .is_err()
        {
            let connections = tasks.len();
            tracing::warn!(connections, "drain timed out; connections abandoned");
        }
    }
}

/// Serves a connection in a task of its own, or drops it if there are far too many.
fn serve<S: Service>(
    server: &Arc<Server<S>>,
    connections: &Arc<Connections>,
    tasks: &TaskTracker,
    stream: TcpStream,
    client: SocketAddr,
) {
    let client = client.ip().to_canonical();
    let Some(slot) = connections.admit(client, Instant::now()) else {
        return server.metrics.rejected_connections.increment();
    };
    let server = server.clone();
    tasks.spawn(async move {
        let _open = server.metrics.open_connections.track();
        connection::serve(&server, stream, &slot).await;
    });
}
