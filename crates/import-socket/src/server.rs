//! The server side of the import socket.

use std::{
    fs, future, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustix::fs::{Mode, fchmod};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixSocket, UnixStream},
    select,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{IDLE_TIMEOUT, MAX_CONNECTIONS, RawRequest, Reply, address, line, socket_path};
use domain::import::{ImportChunk, ImportId, MAX_CHUNK_BYTES};

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The delay before another attempt to write a chunk, after the queue was full.
const OVERLOAD_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// The store that a service has open.
pub trait ImportTarget: Send + Sync + 'static {
    /// The canonical path of its SQLite file. Without one there is no socket: any process can
    /// write to a database server.
    fn file(&self) -> Option<&Path>;

    /// Writes a chunk, all or nothing. Returns the sequence number of the newest event before it,
    /// or `None` if the chunk does not start where the import has stopped.
    fn import(
        &self,
        chunk: ImportChunk,
    ) -> impl Future<Output = Result<Option<i64>, ImportFailure>> + Send;

    /// Deletes the record of an import.
    fn forget(&self, id: ImportId) -> impl Future<Output = Result<(), ImportFailure>> + Send;
}

/// The reason why a store did not write, as a message.
#[derive(Debug)]
pub enum ImportFailure {
    /// The queue of the store is full. Nothing was changed.
    Overloaded(String),
    /// The outcome of the write is unknown.
    Unknown(String),
    /// Nothing was changed.
    Failed(String),
}

/// Accepts imports of animals.
pub struct ImportServer<T> {
    store: Arc<T>,
    stop: CancellationToken,
    stopped: CancellationToken,
}

impl<T: ImportTarget> ImportServer<T> {
    pub fn new(store: Arc<T>) -> Self {
        Self {
            store,
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Accepts imports, until [`shutdown`](Self::shutdown). Never returns.
    pub async fn run(&self) {
        match self.listen() {
            Some(listener) => self.accept(listener).await,
            None => self.stop.cancelled().await,
        }
        self.stopped.cancel();
        future::pending().await
    }

    /// Finishes the chunks that are being written, and replies. Waits until [`run`](Self::run)
    /// has finished this.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }

    fn listen(&self) -> Option<Listener> {
        let path = socket_path(self.store.file()?);
        let listener = Listener::bind(&path).inspect_err(|error| {
            let path = path.display();
            tracing::warn!(%error, %path, "import socket not created; stop the service to import");
        });
        listener.ok()
    }

    async fn accept(&self, listener: Listener) {
        let connections = TaskTracker::new();
        loop {
            let accepted = select! {
                accepted = listener.socket.accept() => accepted,
                () = self.stop.cancelled() => break,
            };
            match accepted {
                Ok((mut stream, _)) if connections.len() >= MAX_CONNECTIONS => {
                    // The reply fits into the buffer of a new connection.
                    let _ = stream.write_all(&line(&Reply::Busy)).await;
                }
                Ok((stream, _)) => {
                    let connection = Connection {
                        stream: BufReader::new(stream),
                        store: self.store.clone(),
                        stop: self.stop.clone(),
                        pets: 0,
                    };
                    connections.spawn(connection.serve());
                }
                Err(error) => {
                    tracing::warn!(%error, "import connection not accepted");
                    sleep(ACCEPT_RETRY_INTERVAL).await;
                }
            }
        }
        drop(listener);
        connections.close();
        connections.wait().await;
    }
}

/// A connection from a command.
struct Connection<T> {
    stream: BufReader<UnixStream>,
    store: Arc<T>,
    stop: CancellationToken,
    /// The number of pets that were written.
    pets: usize,
}

impl<T: ImportTarget> Connection<T> {
    async fn serve(mut self) {
        let _ = self.serve_requests().await;
        if self.pets > 0 {
            tracing::info!(pets = self.pets, "pets imported");
        }
    }

    /// Serves one request after another.
    async fn serve_requests(&mut self) -> io::Result<()> {
        loop {
            let reply = select! {
                request = read_request(&mut self.stream, IDLE_TIMEOUT) => match request? {
                    end if end.is_empty() => return Ok(()),
                    request => respond(&*self.store, &request, &self.stop, &mut self.pets).await,
                },
                () = self.stop.cancelled() => Reply::Stopping,
            };
            let sent = line(&reply);
            timeout(IDLE_TIMEOUT, self.stream.write_all(&sent)).await??;
            match reply {
                Reply::Refused(reason) => {
                    tracing::warn!(reason, "import refused");
                    return Ok(());
                }
                Reply::Stopping => return Ok(()),
                _ => {}
            }
        }
    }
}

/// Reads a request. Returns an empty one at the end of the stream.
async fn read_request(
    stream: &mut BufReader<UnixStream>,
    idle_timeout: Duration,
) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut limited = stream.take(MAX_CHUNK_BYTES as u64);
    timeout(idle_timeout, limited.read_until(b'\n', &mut request)).await??;
    Ok(request)
}

async fn respond(
    store: &impl ImportTarget,
    request: &[u8],
    stop: &CancellationToken,
    pets: &mut usize,
) -> Reply {
    let written = match serde_json::from_slice(request) {
        Ok(RawRequest::Import(chunk)) => match ImportChunk::parse(chunk.get()) {
            Ok(chunk) => import(store, &chunk, stop).await.map(|last_event| {
                *pets += last_event.map_or(0, |_| chunk.pets.len());
                Reply::Imported(last_event)
            }),
            Err(reason) => return Reply::Refused(reason),
        },
        Ok(RawRequest::Forget(id)) => store.forget(id).await.map(|()| Reply::Forgotten),
        Err(error) => return Reply::Refused(error.to_string()),
    };
    written.unwrap_or_else(|failure| match failure {
        ImportFailure::Overloaded(_) if stop.is_cancelled() => Reply::Stopping,
        ImportFailure::Unknown(reason) => Reply::Unknown(reason),
        ImportFailure::Overloaded(reason) | ImportFailure::Failed(reason) => Reply::Failed(reason),
    })
}

/// Writes a chunk. Waits while the queue is full: requests of clients are shed then, but an
/// import has time.
async fn import(
    store: &impl ImportTarget,
    chunk: &ImportChunk,
    stop: &CancellationToken,
) -> Result<Option<i64>, ImportFailure> {
    loop {
        match store.import(chunk.clone()).await {
            Err(ImportFailure::Overloaded(_)) if !stop.is_cancelled() => {
                sleep(OVERLOAD_RETRY_INTERVAL).await;
            }
            written => return written,
        }
    }
}

/// A socket that commands can connect to. Dropping it deletes its file.
struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Binds the socket. Replaces that of a service that was killed: the caller has the service
    /// lock.
    fn bind(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let (address, _folder) = address(path)?;
        let socket = UnixSocket::new_stream()?;
        // Linux creates the file with the mode of the socket.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        socket.bind(address)?;
        Ok(Self {
            socket: socket.listen(MAX_CONNECTIONS as u32)?,
            path: path.into(),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise, a few suspended commands would keep all others out.
    #[tokio::test]
    async fn an_idle_client_is_disconnected() {
        let (mut client, service) = UnixStream::pair().unwrap();
        let mut service = BufReader::new(service);
        client.write_all(b"{\"import\":").await.unwrap();
        let read = read_request(&mut service, Duration::from_millis(10)).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
