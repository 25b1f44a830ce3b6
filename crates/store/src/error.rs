//! Errors from opening a store and from calls to it.

use std::{
    env, error, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::{ErrorCode, ffi};

use super::{lock_holder::holder_and_advice, postgres::error::PostgresError};
use system::privileges::successor_of_root;

pub(super) type Cause = Arc<dyn error::Error + Send + Sync>;

/// The reason why a store cannot be opened. Nothing was changed in it.
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
        "{} is in use by another petstore process{}",
        .0.display(),
        holder_and_advice(.0)
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
    #[error(
        "other users can change the folder {0}, so root opens no database below it; run this as \
         the owner of the database, or move it to a folder that only root can write to"
    )]
    SharedFolder(PathBuf),
    #[error(
        "{path} is a store of user {owner}, and this process cannot give up root for that user: \
         {cause}; run this as that user"
    )]
    Root {
        path: PathBuf,
        owner: u32,
        cause: io::Error,
    },
    #[error("cannot open {path}: {}", explain(path, cause))]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot open {path}: {}", sqlite_reason(cause))]
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
    #[error(
        "cannot use {server}: it is {engine}, which spreads a database over several nodes, and the \
         order of events depends on the locks (pg_locks) of one primary; use a PostgreSQL server"
    )]
    Distributed {
        server: String,
        engine: &'static str,
    },
    #[error(
        "cannot use {server}: Citus distributes the table {table}, and the order of events depends \
         on the locks (pg_locks) of one primary; take all tables of petstore back to the \
         coordinator with undistribute_table, or use another database"
    )]
    DistributedTable { server: String, table: String },
    #[error(
        "cannot use {server}: it is {version}; upgrade the server to PostgreSQL {oldest} or later"
    )]
    OldServer {
        server: String,
        version: String,
        oldest: u32,
    },
    #[error("cannot set up TLS for {server}: {cause}")]
    Tls { server: String, cause: io::Error },
}

impl OpenError {
    /// Converts the error of a file, for `map_err`.
    pub(super) fn file(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        |cause| Self::File {
            path: path.into(),
            cause,
        }
    }

    /// Converts the error of SQLite on a file, for `map_err`.
    pub(super) fn database(path: &Path) -> impl Fn(rusqlite::Error) -> Self + Copy {
        |cause| Self::Database {
            path: path.into(),
            cause,
        }
    }

    /// Converts the error of a PostgreSQL server, for `map_err`.
    pub(super) fn postgres<E: Into<PostgresError>>(server: &str) -> impl Fn(E) -> Self + Copy {
        |cause| Self::Postgres {
            server: server.into(),
            cause: Arc::new(cause.into()),
        }
    }
}

/// Explains why a file cannot be used, and what to do about it, if that depends on its folder.
/// The command line explains other errors.
pub fn explain(path: &Path, cause: &io::Error) -> String {
    let current = env::current_dir().unwrap_or(".".into());
    let folder = path
        .parent()
        .filter(|folder| *folder != Path::new(""))
        .unwrap_or(&current);
    let shown = folder.display();
    match cause.kind() {
        io::ErrorKind::NotFound if !folder.exists() => {
            format!("the folder {shown} does not exist; create it, or specify another one")
        }
        io::ErrorKind::PermissionDenied if let Some(user) = successor_of_root() => {
            let what = if path.exists() {
                "this file".into()
            } else {
                format!("the folder {shown}")
            };
            format!(
                "root was given up for user {user}, the owner of the store, who may not use \
                 {what}; use - as the file and redirect standard input or output, or use a folder \
                 of that user"
            )
        }
        io::ErrorKind::PermissionDenied if path.exists() => {
            "permission denied; run this as the user that owns the file, or with sudo".into()
        }
        io::ErrorKind::PermissionDenied => format!(
            "this user may not use the folder {shown}; specify another one, or run this as another \
             user"
        ),
        _ => cause.to_string(),
    }
}

/// Explains why SQLite failed, and what to do about it.
pub(super) fn sqlite_reason(cause: &rusqlite::Error) -> String {
    use ErrorCode::*;
    const FULL: &str = "the disk is full; free some space and try again";
    let extended = cause.sqlite_error().map(|error| error.extended_code);
    let words = match cause.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => {
            "the file is damaged; see how with `petstore check --database PATH`, then stop the \
             service and put a backup in place with `petstore restore BACKUP --database PATH`"
        }
        Some(CannotOpen) if extended == Some(ffi::SQLITE_CANTOPEN_SYMLINK) => {
            "it is a symbolic link, which is not followed; specify the file that it leads to"
        }
        Some(DiskFull) => FULL,
        // The disk has no room for the index of the WAL.
        Some(SystemIoFailure) if extended == Some(ffi::SQLITE_IOERR_SHMSIZE) => FULL,
        Some(ReadOnly | CannotOpen | PermissionDenied) => {
            "SQLite has to write to the file and to its folder, and cannot; run this as a user \
             who may do that, and see whether the disk is read-only"
        }
        Some(DatabaseBusy | DatabaseLocked) => {
            "another program keeps the file locked; try again when that has finished"
        }
        Some(SystemIoFailure) => {
            return format!("the disk failed ({cause}); see the log of the operating system");
        }
        _ => return cause.to_string(),
    };
    words.into()
}

/// Explains why a call failed.
fn reason(cause: &Cause) -> String {
    match cause.downcast_ref() {
        Some(cause) => sqlite_reason(cause),
        None => cause.to_string(),
    }
}

/// The reason why a call to the store failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The queue is full (backpressure). Nothing was changed.
    #[error("the store is overloaded: its queue is full")]
    Overloaded,
    /// The database cannot serve the call now. Nothing was changed.
    #[error("the database is unavailable: {}", reason(.0))]
    Unavailable(Cause),
    /// The write may or may not be durable.
    #[error("the outcome of the write is unknown: {}", reason(.0))]
    OutcomeUnknown(Cause),
    /// A bug, or data that this program did not write. Nothing was changed.
    #[error("internal error in the store: {}", reason(.0))]
    Internal(Cause),
}

impl From<PostgresError> for Error {
    /// Converts an error after which nothing was changed.
    fn from(error: PostgresError) -> Self {
        if error.is_bug() {
            Self::Internal(Arc::new(error))
        } else {
            Self::Unavailable(Arc::new(error))
        }
    }
}

impl Error {
    /// Returns true if another transaction kept a row locked for too long.
    pub(super) fn is_locked(&self) -> bool {
        matches!(self, Self::Unavailable(cause) if cause.is::<RowLocked>())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the row stayed locked by another transaction for too long")]
pub(super) struct RowLocked;

/// A row that a statement always returns is missing.
#[derive(Debug, thiserror::Error)]
#[error("a statement returned no row; was a trigger or rule added to the table?")]
pub(super) struct MissingRow;

impl From<MissingRow> for Error {
    fn from(missing: MissingRow) -> Self {
        Self::Internal(Arc::new(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// There is no owner of a file that does not exist.
    #[test]
    fn what_to_do_depends_on_what_is_there() {
        let denied = io::ErrorKind::PermissionDenied.into();
        let explain = |path| explain(Path::new(path), &denied);
        assert!(explain("/dev/null").contains("as the user that owns the file"));
        assert!(explain("/nowhere/x.db").contains("may not use the folder /nowhere;"));
        let current = env::current_dir().unwrap();
        let expected = format!("the folder {};", current.display());
        assert!(explain("nothing.db").contains(&expected));
    }
}
