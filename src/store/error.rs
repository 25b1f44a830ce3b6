//! Errors from opening a store and from calls to it.

use std::{
    error, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub(super) type Cause = Arc<dyn error::Error + Send + Sync>;

/// Why a store cannot be opened. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "there is no database at {0}; name another one with --database, or start \
         `petstore serve` first, which creates it"
    )]
    Missing(PathBuf),
    #[error(
        "{0} has no tables of petstore yet; name another database with --database, or start \
         `petstore serve` on this one first, which creates them"
    )]
    Empty(String),
    #[error("{0} is not a petstore database; specify another file, or move this one away")]
    NotAPetstore(PathBuf),
    #[error(
        "{database} was written by a newer petstore (schema {found}, this version supports \
         {supported}); run that version or a newer one"
    )]
    Newer {
        database: String,
        found: i64,
        supported: i64,
    },
    #[error(
        "{database} is from an older petstore (schema {found}, this version needs {supported}); \
         run `petstore serve` to upgrade it"
    )]
    Older {
        database: String,
        found: i64,
        supported: i64,
    },
    #[error(
        "{0} is in use by another petstore process; stop that process first, or specify another \
         file"
    )]
    InUse(PathBuf),
    #[error(
        "{0} was deleted while another process has the database open; stop that process with \
         SIGTERM, so that it saves its changes"
    )]
    WalDeleted(PathBuf),
    #[error(
        "{path} is missing or empty, but its write-ahead log {wal} is not: it has changes that \
         are nowhere else; put the database file back, or move the log away to create a new store"
    )]
    OrphanedWal { path: PathBuf, wal: PathBuf },
    #[error("cannot open {path}: {}", explain(path, cause))]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot open {path}: {cause}")]
    Database {
        path: PathBuf,
        cause: rusqlite::Error,
    },
    #[error("cannot use {server}: {cause}")]
    Postgres { server: String, cause: Cause },
    #[error(
        "cannot use {server}: the database must be encoded in UTF8, but is in {encoding}; create \
         one with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
    )]
    Encoding { server: String, encoding: String },
    #[error("cannot set up TLS for {server}: {cause}")]
    Tls { server: String, cause: io::Error },
}

/// Says what is in the way of opening a file, and what to do about it.
fn explain(path: &Path, cause: &io::Error) -> String {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let missing = folder.filter(|folder| !folder.exists()).map(Path::display);
    match cause.kind() {
        io::ErrorKind::NotFound if let Some(folder) = missing => {
            format!("the folder {folder} does not exist; create it, or specify another file")
        }
        io::ErrorKind::NotADirectory => "part of the path is a file, not a folder".into(),
        io::ErrorKind::IsADirectory => "it is a folder; specify a file in it".into(),
        io::ErrorKind::PermissionDenied => {
            "permission denied; run this as the user that owns the file, or with sudo".into()
        }
        _ => cause.to_string(),
    }
}

/// Why a call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The queue is full (backpressure). Nothing was changed.
    #[error("the store is overloaded: its queue is full")]
    Overloaded,
    /// The database cannot serve the call now. Nothing was changed.
    #[error("the database is unavailable: {0}")]
    Unavailable(Cause),
    /// The write may or may not be durable.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(Cause),
    /// A bug, or data that this program did not write. Nothing was changed.
    #[error("internal error in the store: {0}")]
    Internal(Cause),
}
