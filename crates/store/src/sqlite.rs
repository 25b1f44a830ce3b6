//! The store on an SQLite file: one writer thread with group commit, and a few
//! reader threads.

mod checkpoint;
mod clock;
mod commit_group;
mod connect;
mod events;
mod files;
mod health;
mod migrate;
mod open;
mod orders;
mod pets;
mod probe;
mod purge;
mod readers;
mod recovery;
mod regular_file;
mod replace;
mod table_sql;
mod version;
mod writable_file;
mod writer;

use std::{
    error,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{
    Connection, ErrorCode, params_from_iter,
    types::{Type, ValueRef},
};

use super::{
    Options, Role, Version,
    command::PendingCommand,
    error::{Cause, Error, OpenError},
    list::{MAX_EXAMINED, Select},
    metrics::{EventMetrics, QueueMetrics, StoreMetrics},
    sql::Sql,
    statements::{NamedSql, table_statements},
    table::{CorruptValue, Kind, Record, Row, Value},
};
use clock::StoreClock;
use domain::{
    clock::Clock,
    page::{Filter, ListQuery, Page},
};
use health::Health;
use probe::Scan;
use readers::Readers;
use table_sql::TableSql;
use telemetry::warn_if_public;
use writer::Writer;

pub(super) use commit_group::{MICROCHIP_HOLDER, run};
pub(super) use connect::{FLAGS, connect_read_only, distrust_schema};
#[cfg(test)]
pub(super) use migrate::in_memory;
pub(super) use migrate::{added_objects, expected_schema, schema};
pub(super) use open::{
    ExclusiveFile, ReadOnly, canonical_path, open_current, open_exclusive_read_only,
    open_if_created, open_read_only,
};
pub(super) use recovery::{is_open, wal_path};
pub(super) use replace::{ClosedStore, is_damage};

statements! {
    /// The source of events; the last time that the store is known to have been open, as
    /// recorded by a service, or else the time of the newest event; and the last order.
    LAST_OPEN() = "SELECT source, coalesce(last_open_at, (
             SELECT at FROM events ORDER BY sequence DESC LIMIT 1)),
             (SELECT coalesce(max(id), 0) FROM orders)
         FROM event_log";
    NOTE_OPEN(Int) = "UPDATE event_log SET last_open_at = $1";
}

/// An open SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    writer: Writer,
    readers: Readers,
    health: Arc<Health>,
    scan: Arc<Scan>,
    clock: StoreClock,
    event_source: String,
    /// The service lock. Declared last, so that it is released after everything else is closed.
    _lock: Option<open::ServiceLock>,
}

impl Sqlite {
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let (path, opened, lock) = open::open(path, options)?;
        let failed = OpenError::database(&path);
        if options.role == Role::Service {
            warn_if_public(&path);
            let added = added_objects(&opened.db).map_err(failed)?;
            if !added.is_empty() {
                let objects = added.join(", ");
                tracing::warn!(objects, "database has objects of another program");
            }
        }
        let last_open = opened.db.query_row(LAST_OPEN.text(), [], read_row);
        let (event_source, last_open, last_order) = last_open.map_err(failed)?;
        let clock = StoreClock::new(
            Clock::steady(),
            last_open,
            options.trust_clock_after,
            last_order,
        );
        let health = Arc::default();
        let readers = Readers::start(&path, reader_count(options.role), &health).map_err(failed)?;
        let writer_clock = clock.clone();
        let times = move || writer_clock.times();
        let writer = Writer::start(opened, &path, readers.clone(), &health, options, times)
            .map_err(failed)?;
        Ok(Self {
            path,
            writer,
            readers,
            health,
            scan: Arc::default(),
            clock,
            event_source,
            _lock: lock,
        })
    }

    /// Returns the canonical path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the readers first, so that the writer can copy the whole WAL into the
    /// database file.
    pub(super) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.health.failure()
    }

    pub(super) fn version(&self) -> Version {
        self.writer.version()
    }

    pub fn metrics(&self) -> StoreMetrics<'_> {
        let queue = |name, depth| QueueMetrics { name, depth };
        StoreMetrics {
            queues: vec![
                queue("read", self.readers.queue_depth()),
                queue("write", self.writer.queue_depth()),
            ],
            pools: Vec::new(),
            commits: &self.writer.shared.commits,
            wal: Some(&self.writer.shared.wal),
            events: EventMetrics {
                head: *self.event_head().borrow(),
                lag: Duration::ZERO,
            },
        }
    }

    pub(super) fn trusted_time(&self) -> Timestamp {
        self.clock.trusted_time()
    }

    /// Returns the time before which rows may be purged.
    fn retained_since(&self, retention: SignedDuration) -> Timestamp {
        let now = self.trusted_time();
        now.checked_sub(retention).unwrap_or(Timestamp::MIN)
    }

    pub(super) async fn record_open_time(&self) -> Result<(), Error> {
        let now = Value::Int(self.trusted_time().as_microsecond());
        self.write(&NOTE_OPEN, vec![now]).await.map(drop)
    }

    /// Queues a command. Returns the maximum time to wait for it.
    pub(super) fn enqueue(&self, command: Box<dyn PendingCommand>) -> Result<Duration, Error> {
        self.writer.enqueue(command)
    }

    pub(super) async fn query<T: Record + Send + 'static>(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, Error> {
        let read = move |db: &Connection| query(db, sql, parameters);
        self.readers.run(read).await
    }

    pub(super) async fn write(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<u64, Error> {
        let write = move |db: &Connection| {
            let mut statement = db.prepare_cached(sql.text())?;
            Ok(statement.execute(params_from_iter(&parameters))? as u64)
        };
        self.writer.run(write).await
    }

    pub(super) async fn list<F: Filter<Item: Record + Send>>(
        &self,
        select: Select,
        query: ListQuery<F>,
    ) -> Result<Page<F::Item>, Error> {
        let read = move |db: &Connection| list(db, &select, &query);
        self.readers.run(read).await
    }
}

/// Reads a page.
fn list<F: Filter<Item: Record>>(
    db: &Connection,
    select: &Select,
    query: &ListQuery<F>,
) -> rusqlite::Result<Page<F::Item>> {
    let mut statement = db.prepare_cached(&select.sql)?;
    let matches = select.examines.then(|| statement.column_index("matches"));
    let matches = matches.transpose()?;
    let mut rows = statement.query(params_from_iter(&select.parameters))?;
    let mut items = Vec::with_capacity(usize::from(query.limit.get()) + 1);
    let mut examined = 0;
    while items.len() <= usize::from(query.limit.get())
        && let Some(row) = rows.next()?
    {
        examined += 1;
        let is_match = matches.map_or(Ok(true), |column| row.get(column))?;
        let is_last = examined == MAX_EXAMINED;
        if !is_match && !is_last {
            continue;
        }
        let item = read_row(row)?;
        let position = is_last.then(|| query.filter.position(&item));
        if is_match {
            items.push(item);
        }
        if position.is_some() {
            return Ok(query.page(items, position));
        }
    }
    Ok(query.page(items, None))
}

/// Reads the rows of a statement.
pub(super) fn query<'a, T: Record>(
    db: &Connection,
    sql: &Sql,
    parameters: impl IntoIterator<Item = Value<'a>>,
) -> rusqlite::Result<Vec<T>> {
    let mut select = db.prepare_cached(sql.text())?;
    let rows = select.query_map(params_from_iter(parameters), read_row)?;
    rows.collect()
}

/// Reads a record from the first columns of a row.
pub(super) fn read_row<T: Record>(row: &rusqlite::Row) -> rusqlite::Result<T> {
    T::from_row(row)
}

impl Row for rusqlite::Row<'_> {
    type Error = rusqlite::Error;

    #[inline]
    fn value(&self, column: usize, kind: Kind) -> rusqlite::Result<Value<'_>> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(int) if kind == Kind::Bool => Value::Bool(int != 0),
            ValueRef::Integer(int) => Value::Int(int),
            text @ ValueRef::Text(_) => Value::text(text.as_str()?),
            ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
            ValueRef::Real(_) => return Err(Self::corrupt(column, CorruptValue)),
        })
    }

    fn corrupt(column: usize, cause: impl error::Error + Send + Sync + 'static) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(cause))
    }
}

/// Returns every statement that only SQLite executes.
pub(super) fn statements() -> impl Iterator<Item = NamedSql> {
    let fixed = [
        ALL,
        commit_group::ALL,
        events::ALL,
        orders::ALL,
        pets::ALL,
        purge::ALL,
    ];
    let fixed = fixed.into_iter().flatten().map(|sql| NamedSql::of(sql));
    fixed.chain(table_statements::<TableSql>())
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let locked = mutex.lock();
    locked.expect("no thread panics while holding the lock")
}

/// Returns the error code of SQLite, if that is what failed.
fn error_code(cause: &Cause) -> Option<ErrorCode> {
    cause.downcast_ref::<rusqlite::Error>()?.sqlite_error_code()
}

/// Records that the file is damaged, if that is why a call failed.
fn report_damage(health: &Health, error: &Error) {
    if let Error::Unavailable(cause) | Error::OutcomeUnknown(cause) = error
        && cause.downcast_ref().is_some_and(is_damage)
    {
        health.damaged(cause);
    }
}

fn reader_count(role: Role) -> usize {
    match role {
        Role::Cli => 1,
        Role::Service => std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
    }
}
