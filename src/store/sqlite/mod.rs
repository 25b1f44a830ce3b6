//! The store on an SQLite file: one thread that writes, a few that read, and
//! the statements and rows of each kind of thing in a file of its own.

mod api_keys;
mod idempotency;
mod open;
mod orders;
mod pets;
mod readers;
mod writer;

use std::{fs::File, path::Path, sync::Arc};

use jiff::Timestamp;
use rusqlite::{Connection, Row, types::Type};

use super::{Error, OpenError, Options, Role, Version, queue};
use crate::{
    page::{Filter, ListQuery, Page},
    telemetry::prometheus::Exposition,
};
pub use open::{fresh, open_current, open_to_read, schema};
pub use pets::{ALL_PETS, pet, pet_create};
use readers::Readers;
use writer::{Effect, Writer};

/// An open SQLite file: one thread that writes, a few that read.
#[derive(Debug)]
pub struct Sqlite {
    writer: Writer,
    readers: Readers,
    /// Held by the one process that serves the file, until all else is closed.
    _lock: Option<File>,
}

/// Opens a file that nobody serves, to read all of it. The lock keeps it so.
pub fn open_to_copy(path: &Path) -> Result<(Connection, Option<File>), OpenError> {
    let options = Options {
        create: false,
        ..Options::new(Role::Service)
    };
    let (path, lock) = open::prepare(path, &options)?;
    let db = open::connect_read_only(&path);
    let db = db.map_err(|cause| OpenError::Database { path, cause })?;
    Ok((db, lock))
}

/// Opens a file that nobody serves, to write to it; makes it if it is not
/// there. The lock keeps it so.
pub fn open_alone(path: &Path) -> Result<(Connection, Option<File>), OpenError> {
    let (path, lock) = open::prepare(path, &Options::new(Role::Service))?;
    let db = open::connect(&path, Role::Service);
    let db = db.map_err(|cause| OpenError::Database { path, cause })?;
    Ok((db, lock))
}

impl Sqlite {
    pub fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let (path, lock) = open::prepare(path, options)?;
        let database = |cause| OpenError::Database {
            path: path.clone(),
            cause,
        };
        let db = open::connect(&path, options.role).map_err(database)?;
        open::refuse_newer(&db, &path)?;
        Ok(Self {
            writer: Writer::start(db, &path, options),
            readers: Readers::start(&path, reader_count(options.role)).map_err(database)?,
            _lock: lock,
        })
    }

    /// Readers go first, so that the writer's connection is the last one: it
    /// moves the log into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub async fn ping(&self) -> Result<(), Error> {
        let read = "SELECT EXISTS (SELECT 1 FROM pets WHERE id = ?1)";
        self.is_there(read, 1).await?;
        // There and back: nothing is changed, but a page is written, so that a
        // full disk shows.
        let write = "UPDATE inventory SET available = available + ?1";
        self.writer
            .run(
                |()| Effect::Unseen,
                move |db| {
                    let mut add = db.prepare_cached(write)?;
                    add.execute([1])?;
                    add.execute([-1]).map(drop)
                },
            )
            .await
    }

    pub fn version(&self) -> Version {
        self.writer.version()
    }

    pub fn expose(&self, text: &mut Exposition) {
        let depths = [
            ("read", self.readers.waiting()),
            ("write", self.writer.waiting()),
        ];
        queue::expose(text, &depths);
        self.writer.commits().expose(text);
    }

    /// What a question with one number is answered.
    async fn is_there(&self, sql: &'static str, number: i64) -> Result<bool, Error> {
        self.readers
            .run(move |db| {
                db.prepare_cached(sql)?
                    .query_row([number], |row| row.get(0))
            })
            .await
    }
}

/// Reads one page by ascending id, and one item more to see whether it goes on.
fn list<S: Filter, T>(
    db: &Connection,
    select: &str,
    query: ListQuery<S>,
    row: fn(&Row) -> rusqlite::Result<T>,
    id: fn(&T) -> i64,
) -> rusqlite::Result<Page<T>> {
    let filter = query.status.map_or("", |_| "status = ?3 AND");
    let mut statement = db.prepare_cached(&format!(
        "{select} WHERE {filter} id > ?1 ORDER BY id LIMIT ?2"
    ))?;
    statement.raw_bind_parameter(1, query.after.id())?;
    statement.raw_bind_parameter(2, u16::from(query.limit.get()) + 1)?;
    if let Some(status) = query.status {
        statement.raw_bind_parameter(3, status.as_str())?;
    }
    let items = statement
        .raw_query()
        .mapped(row)
        .collect::<Result<_, _>>()?;
    Ok(Page::from_surplus(items, query.limit, id))
}

fn time(row: &Row, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(row.get(column)?).map_err(|e| unreadable(column, e))
}

fn optional_time(row: &Row, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    match row.get_ref(column)?.as_i64_or_null()? {
        Some(_) => time(row, column).map(Some),
        None => Ok(None),
    }
}

/// A stored value that this program would not have stored.
fn unreadable(
    column: usize,
    cause: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(cause))
}

/// Sorts a failure: did the disk, the file or memory fail, or a statement of
/// this program?
fn failure(cause: rusqlite::Error) -> Error {
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
        Role::Tool => 1,
        Role::Service => std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
    }
}
