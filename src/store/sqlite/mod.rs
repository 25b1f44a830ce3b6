//! The store on an SQLite file: one writer thread with group commit, and a few
//! reader threads.

mod api_keys;
mod checkpoint;
mod connect;
mod files;
mod idempotency;
mod migrate;
mod open;
mod orders;
mod pets;
mod readers;
mod recovery;
mod version;
mod writable_file;
mod writer;

use std::{error, fs::File, path::Path, sync::Arc};

use rusqlite::{Connection, types::Type};

use super::{
    Options, Role, Version,
    error::{Error, OpenError},
    metrics::{QueueMetrics, StoreMetrics},
    rows::{Entity, Row},
};
use crate::{
    clock::Clock,
    page::{ListQuery, Page, Status},
    telemetry::warn_if_public,
};
use readers::Readers;
use writer::Writer;

pub(super) use migrate::{in_memory, schema};
pub(super) use open::{open_current, open_exclusive, open_exclusive_read_only, open_read_only};
pub(super) use pets::insert as insert_pet;

/// An open SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    /// The clock of orders and idempotency keys.
    clock: Clock,
    /// The service lock. Declared last, so that it is released
    /// after everything else is closed.
    _lock: Option<File>,
}

impl Sqlite {
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let (path, opened, lock) = open::open(path, options)?;
        if options.role == Role::Service {
            warn_if_public(&path);
        }
        let failed = |cause| OpenError::Database {
            path: path.clone(),
            cause,
        };
        let readers = Readers::start(&path, reader_count(options.role)).map_err(failed)?;
        let writer = Writer::start(opened, &path, readers.clone(), options).map_err(failed)?;
        Ok(Self {
            writer,
            readers,
            clock: Clock::steady(),
            _lock: lock,
        })
    }

    /// Closes the readers first, so that the writer can copy the whole WAL into the
    /// database file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        let read = "SELECT EXISTS (SELECT 1 FROM pets WHERE id = ?1)";
        self.exists(read, 1).await?;
        // Writes, so that a full disk is detected.
        self.writer.ping().await
    }

    pub(super) fn version(&self) -> Version {
        self.writer.version()
    }

    pub(super) fn metrics(&self) -> StoreMetrics<'_> {
        let queue = |name, depth| QueueMetrics { name, depth };
        StoreMetrics {
            queues: vec![
                queue("read", self.readers.queue_depth()),
                queue("write", self.writer.queue_depth()),
            ],
            pools: Vec::new(),
            commits: self.writer.commits(),
            wal: Some(self.writer.wal()),
        }
    }

    /// Runs a `SELECT EXISTS` with one parameter.
    async fn exists(&self, sql: &'static str, parameter: i64) -> Result<bool, Error> {
        self.readers
            .run(move |db| {
                db.prepare_cached(sql)?
                    .query_row([parameter], |row| row.get(0))
            })
            .await
    }
}

/// The statements of a list with keyset pagination: parameters are the cursor,
/// the limit and, if filtered, the status.
struct ListSql {
    all: &'static str,
    by_status: &'static str,
}

/// Reads one page by ascending id, plus one row to detect a next page.
fn list<S: Status, T: Entity>(
    db: &Connection,
    sql: &ListSql,
    query: ListQuery<S>,
    id: fn(&T) -> i64,
) -> rusqlite::Result<Page<T>> {
    let mut statement = db.prepare_cached(match query.status {
        None => sql.all,
        Some(_) => sql.by_status,
    })?;
    statement.raw_bind_parameter(1, query.after.id())?;
    statement.raw_bind_parameter(2, u16::from(query.limit.get()) + 1)?;
    if let Some(status) = query.status {
        statement.raw_bind_parameter(3, status.as_str())?;
    }
    let items = statement
        .raw_query()
        .mapped(read_row::<T>)
        .collect::<Result<_, _>>()?;
    Ok(Page::from_lookahead(items, query.limit, id))
}

/// Reads an entity whose columns come first in the row.
pub(super) fn read_row<T: Entity>(row: &rusqlite::Row) -> rusqlite::Result<T> {
    T::from_row(row)
}

impl Row for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    fn int(&self, column: usize) -> rusqlite::Result<i64> {
        self.get(column)
    }

    fn optional_int(&self, column: usize) -> rusqlite::Result<Option<i64>> {
        self.get(column)
    }

    fn boolean(&self, column: usize) -> rusqlite::Result<bool> {
        self.get(column)
    }

    fn text(&self, column: usize) -> rusqlite::Result<&str> {
        Ok(self.get_ref(column)?.as_str()?)
    }

    fn optional_text(&self, column: usize) -> rusqlite::Result<Option<&str>> {
        Ok(self.get_ref(column)?.as_str_or_null()?)
    }

    fn bytes(&self, column: usize) -> rusqlite::Result<&[u8]> {
        Ok(self.get_ref(column)?.as_blob()?)
    }

    fn optional_bytes(&self, column: usize) -> rusqlite::Result<Option<&[u8]>> {
        Ok(self.get_ref(column)?.as_blob_or_null()?)
    }

    fn corrupt(column: usize, cause: impl error::Error + Send + Sync + 'static) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(cause))
    }
}

/// Classifies a failure: the environment (disk, file, memory, locks), or a bug.
fn classify(cause: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode::*;
    match cause.sqlite_error_code() {
        Some(
            DatabaseBusy
            | DatabaseLocked
            | OutOfMemory
            | ReadOnly
            | SystemIoFailure
            | DatabaseCorrupt
            | DiskFull
            | CannotOpen
            | FileLockingProtocolFailed
            | NotADatabase,
        ) => Error::Unavailable(Arc::new(cause)),
        _ => Error::Internal(Arc::new(cause)),
    }
}

fn reader_count(role: Role) -> usize {
    match role {
        Role::Command => 1,
        Role::Service => std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
    }
}
