//! The store on an SQLite file: one writer thread with group commit, and a few
//! reader threads.

mod api_keys;
mod categories;
mod checkpoint;
mod connect;
mod events;
mod files;
mod health;
mod idempotency;
mod imports;
mod migrate;
mod open;
mod orders;
mod pets;
mod probe;
mod readers;
mod recovery;
mod regular_file;
mod replace;
mod version;
mod webhooks;
mod writable_file;
mod writer;

use std::{
    error,
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, types::Type};

use super::{
    Options, Role, Version,
    error::{Error, OpenError},
    list::{MAX_EXAMINED, Select, Value},
    metrics::{EventMetrics, QueueMetrics, StoreMetrics},
    rows::{Counts, Entity, Row},
};
use crate::{
    clock::{Clock, Settling},
    page::{Filter, ListQuery, Page, Position},
    telemetry::warn_if_public,
};
use health::Health;
use probe::Scan;
use readers::Readers;
use writer::{Effect, Writer};

pub(super) use connect::{FLAGS, distrust_schema};
pub(super) use events::Origin;
pub(super) use imports::{forget_import, import_progress, write_chunk};
#[cfg(test)]
pub(super) use migrate::in_memory;
pub(super) use migrate::{added_objects, expected_schema, schema};
pub(super) use open::{
    Exclusive, ReadOnly, canonical_path, open_current, open_exclusive_read_only, open_if_created,
    open_read_only,
};
pub(super) use recovery::{is_open, side_file, wal_path};
pub(super) use replace::{ClosedStore, is_damage};

const COUNTS: &str = concat!("SELECT ", count_columns!(), " FROM counts");

const LAST_OPEN: &str = "SELECT coalesce(last_open_at, (
         SELECT at FROM events ORDER BY sequence DESC LIMIT 1)) FROM event_log";

/// An open SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    writer: Writer,
    readers: Readers,
    health: Arc<Health>,
    scan: Arc<Scan>,
    /// The steady clock of orders, events and idempotency keys.
    clock: Clock,
    settling: Box<Settling>,
    /// The last order that an earlier process has stored: whether its reservation has expired
    /// is judged by [`certain_time`](Self::certain_time), as its clock was another.
    last_earlier_order: i64,
    event_source: String,
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
        if options.role == Role::Service {
            let added = added_objects(&opened.db).map_err(failed)?;
            if !added.is_empty() {
                let objects = added.join(", ");
                tracing::warn!(objects, "database has objects of another program");
            }
        }
        let event_source = events::source(&opened.db).map_err(failed)?;
        let clock = Clock::steady();
        let last_open = last_open(&opened.db).map_err(failed)?;
        let settling = Settling::start(last_open.unwrap_or_else(|| clock.now()), options.settling);
        let last_earlier_order = orders::last_id(&opened.db).map_err(failed)?;
        let health = Arc::default();
        let readers = Readers::start(&path, reader_count(options.role), &health).map_err(failed)?;
        let writer = Writer::start(opened, &path, readers.clone(), &health, options);
        let writer = writer.map_err(failed)?;
        Ok(Self {
            path,
            writer,
            readers,
            health,
            scan: Arc::default(),
            settling: Box::new(settling),
            clock,
            last_earlier_order,
            event_source,
            _lock: lock,
        })
    }

    /// The canonical path of the file.
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
            events: EventMetrics {
                head: *self.event_head().borrow(),
                lag: Duration::ZERO,
            },
        }
    }

    /// A time that is certain to have come, by which what earlier processes have stored is
    /// purged and expires. If the system clock was wrong at startup and set afterwards, it and
    /// the steady clock differ for long: the one that is behind decides.
    pub(super) fn certain_time(&self) -> Timestamp {
        self.settling.limit(self.clock.now().min(Timestamp::now()))
    }

    /// The time before which rows may be purged.
    fn retained_since(&self, retention: SignedDuration) -> Timestamp {
        let now = self.certain_time();
        now.checked_sub(retention).unwrap_or(Timestamp::MIN)
    }

    pub(super) async fn note_open(&self) -> Result<(), Error> {
        let now = self.certain_time().as_microsecond();
        let note = move |db: &Connection| {
            let sql = "UPDATE event_log SET last_open_at = ?1";
            db.prepare_cached(sql)?.execute([now]).map(drop)
        };
        self.writer.run(|()| Effect::None, note).await
    }

    /// Who makes a change, now.
    fn origin(&self, api_key_id: i64) -> Origin {
        Origin {
            api_key_id: Some(api_key_id),
            at: self.clock.now(),
        }
    }

    pub(super) async fn counts(&self) -> Result<Counts, Error> {
        self.readers
            .run(|db| db.prepare_cached(COUNTS)?.query_row([], read_row))
            .await
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

/// The last time that the store is known to have been open: as a service has noted it, or
/// when something was changed.
fn last_open(db: &Connection) -> rusqlite::Result<Option<Timestamp>> {
    let at: Option<i64> = db.query_row(LAST_OPEN, [], |row| row.get(0))?;
    Ok(at.and_then(|at| Timestamp::from_microsecond(at).ok()))
}

/// Reads a page. The items that a row is examined for must match.
fn list<F: Filter, T: Entity>(
    db: &Connection,
    select: &Select,
    query: &ListQuery<F>,
    matches: impl Fn(&T) -> bool,
    position: impl Fn(&T) -> Position,
) -> rusqlite::Result<Page<T>> {
    let mut statement = db.prepare_cached(&select.sql)?;
    for (index, value) in (1..).zip(&select.parameters) {
        match value {
            Value::Int(number) => statement.raw_bind_parameter(index, number)?,
            Value::Text(text) => statement.raw_bind_parameter(index, text)?,
        }
    }
    let mut rows = statement.raw_query();
    let (mut items, mut examined) = (Vec::new(), 0);
    while items.len() <= usize::from(query.limit.get())
        && let Some(row) = rows.next()?
    {
        let item: T = read_row(row)?;
        examined += 1;
        match (matches(&item), examined == MAX_EXAMINED) {
            (true, false) => items.push(item),
            (false, false) => {}
            (is_match, true) => {
                let next = Some(position(&item));
                items.extend(is_match.then_some(item));
                let mut page = Page::from_lookahead(items, query.limit, position);
                page.next = page.next.or(next);
                return Ok(page);
            }
        }
    }
    Ok(Page::from_lookahead(items, query.limit, position))
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
        Role::Command => 1,
        Role::Service => std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 8)),
    }
}
