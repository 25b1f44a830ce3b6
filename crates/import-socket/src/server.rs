//! The server side of the import socket.

use std::{
    fs, future, io,
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use rustix::fs::{Mode, fchmod};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixSocket, UnixStream},
    select,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    IDLE_TIMEOUT, MAX_CONNECTIONS, Reply, Request, ServiceError, address, line, socket_path,
};
use domain::import::{ImportChunk, MAX_CHUNK_BYTES, RejectedRecord, StoppedImport, WrittenChunk};
use store::{Error, Store};

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// The delay before another attempt to write a chunk, after the queue was full.
const OVERLOAD_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Accepts imports of animals.
pub struct ImportServer {
    store: Arc<Store>,
    /// The URL of the service.
    url: Arc<str>,
    stop: CancellationToken,
    stopped: CancellationToken,
}

impl ImportServer {
    pub fn new(store: Arc<Store>, url: &str) -> Self {
        Self {
            store,
            url: url.into(),
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Accepts imports, until [`shutdown`](Self::shutdown). Never returns.
    pub fn run(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match self.listen() {
                Some(listener) => self.accept(listener).await,
                None => self.stop.cancelled().await,
            }
            self.stopped.cancel();
            future::pending().await
        })
    }

    /// Finishes the chunks that are being written, and replies. Waits until [`run`](Self::run)
    /// has finished this.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }

    /// Returns `None` on a database server, to which any process can write.
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
                    let _ = stream.write_all(&line(&ServiceError::Busy)).await;
                }
                Ok((stream, _)) => {
                    let connection = Connection {
                        stream: BufReader::new(stream),
                        store: self.store.clone(),
                        url: self.url.clone(),
                        stop: self.stop.clone(),
                        pets: 0,
                        changed: 0,
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
struct Connection {
    stream: BufReader<UnixStream>,
    store: Arc<Store>,
    url: Arc<str>,
    stop: CancellationToken,
    /// The number of pets that were added.
    pets: usize,
    /// The number of pets that were changed.
    changed: usize,
}

impl Connection {
    async fn serve(mut self) {
        let _ = self.serve_requests().await;
        if self.pets + self.changed > 0 {
            tracing::info!(pets = self.pets, changed = self.changed, "pets imported");
        }
    }

    /// Serves one request after another.
    async fn serve_requests(&mut self) -> io::Result<()> {
        loop {
            let result = select! {
                request = read_request(&mut self.stream, IDLE_TIMEOUT) => match request? {
                    end if end.is_empty() => return Ok(()),
                    request => self.execute(&request).await,
                },
                () = self.stop.cancelled() => Err(ServiceError::Stopping),
            };
            let reply = result.unwrap_or_else(Reply::Error);
            timeout(IDLE_TIMEOUT, self.stream.write_all(&line(&reply))).await??;
            match reply {
                Reply::Error(ServiceError::Refused(reason)) => {
                    tracing::warn!(reason, "import refused");
                    return Ok(());
                }
                Reply::Error(ServiceError::Stopping) => return Ok(()),
                _ => {}
            }
        }
    }

    async fn execute(&mut self, request: &[u8]) -> Result<Reply, ServiceError> {
        let request: Request<&RawValue> = serde_json::from_slice(request)
            .map_err(|error| ServiceError::Refused(error.to_string()))?;
        let result = match request {
            Request::Import(chunk) => {
                let chunk = ImportChunk::parse(chunk.get()).map_err(ServiceError::Refused)?;
                let written = self.import(chunk).await;
                written.map(|written| written.map_or_else(Reply::Stopped, Reply::Imported))
            }
            Request::Forget(id, run) => {
                let result = self.store.import_forget(id, &run).await;
                result.map(|()| Reply::Forgotten)
            }
            Request::Undo(batch, below) => {
                let undo = || self.store.undo_part(&batch, below);
                let undone = when_accepted(&self.stop, undo).await;
                undone.map(Reply::Undone)
            }
            Request::Url => Ok(Reply::Url(self.url.to_string())),
        };
        result.map_err(|error| match error {
            Error::Overloaded if self.stop.is_cancelled() => ServiceError::Stopping,
            Error::OutcomeUnknown(_) => ServiceError::Unknown(error.to_string()),
            _ => ServiceError::Failed(error.to_string()),
        })
    }

    async fn import(
        &mut self,
        chunk: ImportChunk,
    ) -> Result<Result<WrittenChunk, StoppedImport>, Error> {
        let write = || self.store.pet_import(chunk.clone());
        let result = when_accepted(&self.stop, write).await?;
        if let Ok(written) = &result {
            let is_add = |it: &&RejectedRecord| matches!(it, RejectedRecord::Add { .. });
            let not_added = written.rejected.iter().filter(is_add).count();
            let not_changed = written.rejected.len() - not_added;
            self.pets += chunk.pets.len().saturating_sub(not_added);
            self.changed += chunk.updates.len().saturating_sub(not_changed);
        }
        Ok(result)
    }
}

/// Writes. Waits while the queue is full: requests of clients are shed then, but an import has
/// time.
async fn when_accepted<T, F: Future<Output = Result<T, Error>>>(
    stop: &CancellationToken,
    write: impl Fn() -> F,
) -> Result<T, Error> {
    loop {
        match write().await {
            Err(Error::Overloaded) if !stop.is_cancelled() => sleep(OVERLOAD_RETRY_INTERVAL).await,
            result => return result,
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
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_write_waits_while_the_queue_is_full() {
        let stop = CancellationToken::new();
        let attempts = Cell::new(0);
        let write = || {
            attempts.set(attempts.get() + 1);
            let is_full = attempts.get() < 3;
            future::ready((!is_full).then_some(()).ok_or(Error::Overloaded))
        };
        assert!(when_accepted(&stop, write).await.is_ok());
        assert_eq!(attempts.get(), 3);
        stop.cancel();
        let write = || future::ready(Err::<(), _>(Error::Overloaded));
        assert!(when_accepted(&stop, write).await.is_err());
    }

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
