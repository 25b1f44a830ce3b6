//! The socket beside a served SQLite file, over which `petstore import` and `petstore seed`
//! hand their animals to the service, and `petstore keys create` asks for its URL.
//!
//! A client sends a request as a line of JSON and waits for the reply, which is also a line.
//! There is no API key: the socket is for the owner of the file, who can write the file as well.

mod server;

use std::{
    fs::{self, File},
    io,
    os::{fd::AsRawFd, unix::fs::FileTypeExt},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::{sleep, timeout},
};

use domain::{
    import::{ImportChunk, ImportId, MAX_CHUNK_BYTES, StoppedImport, WrittenChunk},
    pet::batch::BatchId,
    undo::UndoOutcome,
};
use system::atomic_file::side_file;

pub use server::ImportServer;

/// The maximum number of clients. Further ones are told to try again later.
const MAX_CONNECTIONS: usize = 8;

/// The maximum time that the service waits for a client, which may have been suspended, and that
/// the client waits for the service.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum size of a reply, which names at most the animals of one chunk. The socket may be
/// that of another program.
const MAX_REPLY_BYTES: u64 = MAX_CHUNK_BYTES as u64;

/// The maximum length of a socket address. Linux allows 108 bytes for the path, including a NUL.
const MAX_ADDRESS_BYTES: usize = 107;

/// A request. The chunk is `&ImportChunk` to send it, and `&RawValue` to parse it later.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Request<C> {
    Import(C),
    /// The import, and its run.
    Forget(ImportId, BatchId),
    /// The batch, and the sequence number below which to continue.
    Undo(BatchId, Option<i64>),
    /// Asks for the URL of the service.
    Url,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reply {
    Imported(WrittenChunk),
    Stopped(StoppedImport),
    Forgotten,
    /// `None` if the log has no changes of the batch.
    Undone(Option<UndoOutcome>),
    Url(String),
    #[serde(untagged)]
    Error(ServiceError),
}

/// An error from a request to the service.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum ServiceError {
    #[error("the service ended without a reply")]
    #[serde(skip)]
    Disconnected(#[from] io::Error),
    #[error(
        "the service did not reply for {} seconds; see its log, and try again",
        IDLE_TIMEOUT.as_secs()
    )]
    #[serde(skip)]
    NoReply,
    /// Nothing was changed.
    #[error("the service failed: {0}")]
    Failed(String),
    #[error("the service failed: {0}")]
    Unknown(String),
    /// The request was not executed, and the connection is closed.
    #[error("the service was stopped")]
    Stopping,
    /// The request is invalid, and the connection is closed.
    #[error("the service refused the animals: {0}; is it of the same version as this command?")]
    Refused(String),
    /// The connection is closed.
    #[error(
        "the service is busy with {MAX_CONNECTIONS} other imports; try again when one of them has \
         ended"
    )]
    Busy,
}

impl ServiceError {
    /// Returns true if the animals may have been written nevertheless.
    pub fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::Disconnected(_) | Self::Unknown(_) | Self::NoReply
        )
    }
}

/// The state of the socket beside a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketState {
    Listening {
        /// The process of the service, if it is visible here.
        pid: Option<i32>,
    },
    /// No process listens: its service was killed.
    Stale,
    Missing,
    /// The state cannot be determined, for example because this user may not connect.
    Unknown,
}

impl SocketState {
    /// Connects to the socket beside the file at this canonical path. If a process has the file
    /// open, it may be a service that is just starting, which gets a second to listen.
    pub async fn find(database: &Path, is_open: bool) -> Self {
        let mut retries = if is_open { 20 } else { 0 };
        loop {
            let found = match ImportConnection::open(database).await.map_err(|e| e.kind()) {
                Ok(service) => return Self::Listening { pid: service.pid() },
                Err(io::ErrorKind::ConnectionRefused) => Self::Stale,
                Err(io::ErrorKind::NotFound) => Self::Missing,
                Err(_) => return Self::Unknown,
            };
            if retries == 0 {
                return found;
            }
            retries -= 1;
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A connection from a command to the service.
pub struct ImportConnection(BufReader<UnixStream>);

impl ImportConnection {
    /// Connects to the service of the file at this canonical path.
    pub async fn open(database: &Path) -> io::Result<Self> {
        let path = socket_path(database);
        // A link might lead to the socket of another kind of service.
        if !fs::symlink_metadata(&path)?.file_type().is_socket() {
            return Err(io::Error::other(format!(
                "{} is not a socket",
                path.display()
            )));
        }
        let (address, _folder) = address(&path)?;
        let stream = UnixStream::connect(address).await?;
        Ok(Self(BufReader::new(stream)))
    }

    fn pid(&self) -> Option<i32> {
        let peer = self.0.get_ref().peer_cred().ok()?;
        peer.pid().filter(|pid| *pid > 0)
    }

    /// Returns true if the process of the service has ended, so that it writes nothing more.
    pub fn has_ended(&self) -> bool {
        let Some(pid) = self.pid() else {
            return false;
        };
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            // The process is a zombie.
            Ok(stat) => (stat.rsplit_once(") ")).is_some_and(|(_, state)| state.starts_with('Z')),
            Err(_) => Path::new("/proc/self").exists(),
        }
    }

    /// Writes a chunk.
    pub async fn write(
        &mut self,
        chunk: &ImportChunk,
    ) -> Result<Result<WrittenChunk, StoppedImport>, ServiceError> {
        match self.send(Request::Import(chunk)).await? {
            Reply::Imported(written) => Ok(Ok(written)),
            Reply::Stopped(stopped) => Ok(Err(stopped)),
            Reply::Error(error) => Err(error),
            _ => Err(unexpected()),
        }
    }

    /// Undoes a part of a batch. Returns `None` if the log has no changes of it.
    pub async fn undo(
        &mut self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoOutcome>, ServiceError> {
        match self.send(Request::Undo(batch.clone(), below)).await? {
            Reply::Undone(outcome) => Ok(outcome),
            Reply::Error(error) => Err(error),
            _ => Err(unexpected()),
        }
    }

    /// Deletes the record of a run.
    pub async fn forget(&mut self, id: ImportId, run: &BatchId) -> Result<(), ServiceError> {
        match self.send(Request::Forget(id, run.clone())).await? {
            Reply::Error(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns the URL of the service for clients.
    pub async fn url(&mut self) -> Result<String, ServiceError> {
        match self.send(Request::Url).await? {
            Reply::Url(url) => Ok(url),
            Reply::Error(error) => Err(error),
            _ => Err(unexpected()),
        }
    }

    async fn send(&mut self, request: Request<&ImportChunk>) -> Result<Reply, ServiceError> {
        let reply = timeout(IDLE_TIMEOUT, self.exchange(&line(&request))).await;
        Ok(reply.map_err(|_| ServiceError::NoReply)??)
    }

    async fn exchange(&mut self, request: &[u8]) -> io::Result<Reply> {
        let sent = self.0.write_all(request).await;
        // A busy service replies, and closes the connection, without reading the request.
        let mut reply = Vec::new();
        let mut limited = (&mut self.0).take(MAX_REPLY_BYTES);
        let read = limited.read_until(b'\n', &mut reply).await;
        if reply.is_empty() {
            sent.and(read)?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&reply)?)
    }
}

fn unexpected() -> ServiceError {
    ServiceError::Refused("unexpected reply".into())
}

fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("a message can be serialized");
    line.push(b'\n');
    line
}

fn socket_path(database: &Path) -> PathBuf {
    side_file(database, "-socket")
}

/// Returns the path as an address. A path that is too long is replaced by one through its folder,
/// which must stay open while the address is in use.
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
