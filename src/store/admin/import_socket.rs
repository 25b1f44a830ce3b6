//! The socket beside a served SQLite file, over which `petstore import` and `petstore seed`
//! hand their animals to the service.
//!
//! A client sends a request on a line of JSON and waits for the reply, on a line too. There
//! is no API key: the socket is for the owner of the file, who can write the file as well.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    future, io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixSocket, UnixStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::super::{Store, error::Error};
use crate::import::{ImportChunk, ImportId, MAX_CHUNK_BYTES};

/// Further clients are told to try again later.
const MAX_CONNECTIONS: usize = 8;

/// How long the service waits for a client, which may have been suspended, and the client for
/// the service.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// How long to wait before a chunk for which there was no room in the queue is tried again.
const OVERLOAD_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Linux allows 108 bytes for the path of a socket, including a NUL.
const MAX_ADDRESS_BYTES: usize = 107;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Request<'a> {
    Import(&'a ImportChunk),
    Forget(ImportId),
}

/// A request whose chunk is not parsed yet.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum RawRequest<'a> {
    #[serde(borrow)]
    Import(&'a RawValue),
    Forget(ImportId),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply {
    /// See [`Store::pet_import`].
    Imported(Option<i64>),
    Forgotten,
    /// The store failed.
    Failed(String),
    /// The request is invalid. The connection is closed.
    Refused(String),
    /// There are too many connections. This one is closed.
    Busy,
}

/// Why the service did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("the service ended the connection: {0}")]
    Disconnected(#[from] io::Error),
    #[error("the service failed: {0}")]
    Failed(String),
    #[error("the service refused the animals: {0}; is it of the same version as this command?")]
    Refused(String),
    #[error(
        "the service is busy with {MAX_CONNECTIONS} other imports; try again when one of them has \
         ended"
    )]
    Busy,
    #[error(
        "the service did not reply for {} seconds; see its log, and try again",
        IDLE_TIMEOUT.as_secs()
    )]
    NoReply,
}

/// A connection of a command to the service.
pub(crate) struct ImportConnection(BufReader<UnixStream>);

impl ImportConnection {
    /// Connects to the service of the file at this canonical path.
    pub(super) async fn open(database: &Path) -> io::Result<Self> {
        let (address, _folder) = address(&socket_path(database))?;
        let stream = UnixStream::connect(address).await?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) async fn write(&mut self, chunk: &ImportChunk) -> Result<Option<i64>, ServiceError> {
        match self.send(Request::Import(chunk)).await? {
            Reply::Imported(last_event) => Ok(last_event),
            reply => Err(reply.into()),
        }
    }

    pub(super) async fn forget(&mut self, id: ImportId) -> Result<(), ServiceError> {
        match self.send(Request::Forget(id)).await? {
            Reply::Forgotten => Ok(()),
            reply => Err(reply.into()),
        }
    }

    async fn send(&mut self, request: Request<'_>) -> Result<Reply, ServiceError> {
        let request = line(&request);
        let exchange = timeout(IDLE_TIMEOUT, self.exchange(&request)).await;
        Ok(exchange.map_err(|_| ServiceError::NoReply)??)
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let sent = self.0.write_all(request).await;
        // A busy service replies, and closes the connection, without reading the request.
        let mut reply = Vec::new();
        let read = self.0.read_until(b'\n', &mut reply).await;
        if reply.is_empty() {
            sent.and(read)?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&reply)?)
    }
}

impl From<Reply> for ServiceError {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Failed(reason) => Self::Failed(reason),
            Reply::Refused(reason) => Self::Refused(reason),
            Reply::Busy => Self::Busy,
            Reply::Imported(_) | Reply::Forgotten => Self::Refused("unexpected reply".into()),
        }
    }
}

/// Accepts imports of animals until it is aborted. Only a served SQLite file needs that:
/// anybody can write to a server.
pub(crate) async fn accept_imports(store: Arc<Store>) {
    let Store::Sqlite(db) = &*store else {
        return future::pending().await;
    };
    let path = socket_path(db.path());
    let listener = match Listener::bind(&path) {
        Ok(listener) => listener,
        Err(error) => {
            let path = path.display();
            tracing::warn!(%error, %path, "import socket not created; stop the service to import");
            return future::pending().await;
        }
    };
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.socket.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((mut stream, _)) if connections.len() >= MAX_CONNECTIONS => {
                // There is room for it in the buffer of a new connection.
                let _ = stream.write_all(&line(&Reply::Busy)).await;
            }
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, store.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "import connection not accepted");
                sleep(ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

async fn serve_connection(stream: UnixStream, store: Arc<Store>) {
    let mut pets = 0;
    let _ = serve_requests(stream, &store, &mut pets).await;
    if pets > 0 {
        tracing::info!(pets, "pets imported");
    }
}

/// Serves one request after the other, and counts the pets that were written.
async fn serve_requests(stream: UnixStream, store: &Store, pets: &mut usize) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read_request(&mut stream, IDLE_TIMEOUT).await?;
        if request.is_empty() {
            return Ok(());
        }
        let reply = respond(store, &request, pets).await;
        timeout(IDLE_TIMEOUT, stream.write_all(&line(&reply))).await??;
        if let Reply::Refused(reason) = reply {
            tracing::warn!(reason, "import refused");
            return Ok(());
        }
    }
}

/// Returns an empty one at the end.
async fn read_request(
    stream: &mut BufReader<UnixStream>,
    idle_timeout: Duration,
) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut limited = stream.take(MAX_CHUNK_BYTES as u64);
    timeout(idle_timeout, limited.read_until(b'\n', &mut request)).await??;
    Ok(request)
}

async fn respond(store: &Store, request: &[u8], pets: &mut usize) -> Reply {
    let written = match serde_json::from_slice(request) {
        Ok(RawRequest::Import(chunk)) => match ImportChunk::parse(chunk.get()) {
            Ok(chunk) => import(store, &chunk).await.map(|last_event| {
                *pets += last_event.map_or(0, |_| chunk.pets.len());
                Reply::Imported(last_event)
            }),
            Err(reason) => return Reply::Refused(reason),
        },
        Ok(RawRequest::Forget(id)) => store.import_forget(id).await.map(|()| Reply::Forgotten),
        Err(error) => return Reply::Refused(error.to_string()),
    };
    written.unwrap_or_else(|error| Reply::Failed(error.to_string()))
}

/// Waits while the queue is full: requests of clients are shed then, an import has time.
async fn import(store: &Store, chunk: &ImportChunk) -> Result<Option<i64>, Error> {
    loop {
        match store.pet_import(chunk.clone()).await {
            Err(Error::Overloaded) => sleep(OVERLOAD_RETRY_INTERVAL).await,
            written => return written,
        }
    }
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("a message can be serialized");
    line.push(b'\n');
    line
}

/// A socket that others can connect to. Its file is deleted on drop.
struct Listener {
    socket: UnixListener,
    path: PathBuf,
}

impl Listener {
    /// Replaces the socket of a service that was killed: the caller has the service lock.
    fn bind(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
            fs::remove_file(path)?;
        }
        let (address, _folder) = address(path)?;
        let socket = UnixSocket::new_stream()?;
        socket.bind(address)?;
        // Before anybody can connect.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
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

fn socket_path(database: &Path) -> PathBuf {
    let mut path = OsString::from(database);
    path.push("-socket");
    path.into()
}

/// The path as an address. One that is too long is reached through its folder, which must
/// stay open meanwhile.
fn address(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if path.as_os_str().len() > MAX_ADDRESS_BYTES => {
            let folder = File::open(folder)?;
            let short = format!("/proc/self/fd/{}", folder.as_raw_fd());
            Ok((Path::new(&short).join(name), Some(folder)))
        }
        _ => Ok((path.into(), None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a few suspended commands would keep all others out.
    #[tokio::test]
    async fn an_idle_client_is_disconnected() {
        let (mut client, service) = UnixStream::pair().unwrap();
        let mut service = BufReader::new(service);
        client.write_all(b"{\"import\":").await.unwrap();
        let read = read_request(&mut service, Duration::from_millis(10)).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
