//! The store: pets, categories, orders, webhooks, API keys and idempotency keys on SQLite
//! or PostgreSQL.
//!
//! Both databases keep the same promises:
//!
//! - A write that returned `Ok` is durable: it survives a power cut.
//! - A read sees every write that was acknowledged before the read began.
//! - Ids are positive, ascending and never reused.
//! - A write that is queued or in flight is executed even if its caller
//!   disconnects.
//! - A pet has at most one active order, placed or completed. While it has one, only
//!   that order changes its status.
//! - A request with an idempotency key is executed once. Its record commits in
//!   the same transaction.
//! - Orders and idempotency keys follow one clock, even if system clocks are set: that of the
//!   database server, or a steady one of the only process that writes.
//! - A service that starts with a fast clock purges nothing too early, and on SQLite expires no
//!   order too early, if the clock is set within an hour.

#[macro_use]
mod sql;
#[macro_use]
mod table;

/// Evaluates an expression on the database that the store is on.
macro_rules! on_database {
    ($store:expr, $db:ident => $call:expr) => {
        match $store {
            $crate::Store::Sqlite($db) => $call,
            $crate::Store::Postgres($db) => $call,
        }
    };
}

mod admin;
mod api_keys;
mod categories;
mod command;
mod deliveries;
mod draft;
mod error;
pub mod event_tail;
mod fields;
mod imports;
mod list;
mod lock_holder;
mod metrics;
mod orders;
mod pet_batches;
mod pets;
mod postgres;
mod purge;
mod queue;
mod root_user;
mod rows;
mod search;
mod sqlite;
mod statements;
mod tables;
mod undo;
mod url;
mod webhooks;
mod working_set;

use std::{path::Path, pin::pin};

use futures_util::{StreamExt, future::BoxFuture, stream};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use command::{Command, CommandResult, QueuedCommand};
use domain::{
    api_key::ApiKeyFilter,
    category::CategoryFilter,
    clock::Settling,
    event::{Event, EventId, EventRetention, Gone},
    idempotency::IdempotentRequest,
    page::{Filter, ListQuery, Page, Sort},
    webhook::{WebhookFilter, WebhookId},
};
use error::MissingRow;
use list::{Dialect, Select};
use postgres::Postgres;
use queue::wait;
use sql::Sql;
use sqlite::Sqlite;
use statements::NamedSql;
use table::{ColumnGroup, Record, Table, Value};

pub use admin::{
    DatabaseDetails, ExportContext, FileImport, FileImportError, Inspection, KnownPet, KnownPets,
    ReadError, RestoreSummary, backup, backup_to_stream, category_names, check, copy,
    explain_statements, export_orders, export_pets, find_import, find_microchips, has_batch,
    inspect, list_keys, restore,
};

pub use api_keys::GrantKind;
pub use error::{Error, OpenError, explain};
pub use lock_holder::holder_and_advice;
pub use metrics::StoreMetrics;
pub use postgres::PostgresUrl;
pub use root_user::give_up_root;
pub use tables::Counts;
pub use url::{DatabaseUrl, redact_password};

statements! {
    PURGED_THROUGH() = "SELECT purged_through FROM event_log WHERE id = 1";
    /// PostgreSQL has many rows of counters, to avoid contention.
    COUNTS() = {
        let counters = Counts::columns("").into_iter();
        let sums = counters.map(|counter| format!("CAST(sum({}) AS bigint)", counter.name));
        format!("SELECT {} FROM counts", sums.collect::<Vec<_>>().join(", "))
    };
}

/// Returns the statements that both databases execute, and the lists of one.
fn shared_statements(dialect: Dialect) -> Vec<NamedSql> {
    let resources = [
        pets::ALL,
        search::ALL,
        orders::ALL,
        categories::ALL,
        imports::ALL,
        api_keys::ALL,
        webhooks::ALL,
        deliveries::ALL,
        undo::ALL,
    ];
    let pets = [
        "",
        "status=sold",
        "status=sold,pending",
        "categoryId=1",
        "categoryId=1&status=sold",
        "categoryId=1&status=sold,pending",
        "name=re",
        "name=re&status=sold",
        "q=re",
        "q=re&categoryId=1",
        "sort=desc",
    ];
    let orders = ["", "status=placed", "petId=1", "petId=1&status=placed"];
    let lists = [
        list::examples("pets", &pets, |it| Select::pets(it, dialect, false)),
        list::examples("orders", &orders, |it| Select::orders(it, dialect)),
        list::examples::<CategoryFilter>("categories", &[""], |it| Select::all(it, dialect)),
        list::examples::<WebhookFilter>("webhooks", &[""], |it| Select::all(it, dialect)),
        list::examples::<ApiKeyFilter>("keys", &[""], |it| Select::all(it, dialect)),
        list::examples("deliveries", &["", "state=failed"], |it| {
            Select::deliveries(WebhookId::UNASSIGNED, it, dialect)
        }),
    ];
    let fixed = [ALL].into_iter().chain(resources).chain(admin::STATEMENTS);
    let named = fixed.flatten().map(|sql| NamedSql::of(sql));
    named.chain(lists.into_iter().flatten()).collect()
}

/// The purpose for which a process opens the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves requests. An SQLite file has at most one such process.
    Service,
    /// Runs one command, possibly beside a running service.
    Cli,
}

/// Options for opening a store.
#[derive(Debug, Clone)]
pub struct Options {
    pub role: Role,
    /// True to create the store if it does not exist: for a service, and for `import` and
    /// `seed`. Other commands fail: in the wrong folder they would create a second store.
    pub create: bool,
    /// The capacity of each write queue. Writes beyond it are rejected.
    pub write_queue_capacity: usize,
    /// The time after opening the store in which the clock is not trusted: see [`Settling`].
    pub settling: SignedDuration,
    /// A defect to inject into batches on PostgreSQL, for the negative controls of tests.
    pub fault: Option<Fault>,
}

/// A way to break the isolation or the fairness of batches on PostgreSQL, which the checks of
/// the stress test must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Rows are read without being locked.
    UnlockedRows,
    /// The orders that claim pets are read before the pets are locked.
    EarlyClaims,
    /// No command waits for a row in the queue of the server.
    Impatience,
}

impl Options {
    pub fn new(role: Role) -> Self {
        Self {
            role,
            create: role == Role::Service,
            write_queue_capacity: 4096,
            settling: match role {
                Role::Service => Settling::DURATION,
                Role::Cli => SignedDuration::ZERO,
            },
            fault: None,
        }
    }
}

/// Version of the store, for cache validation.
///
/// It advances before a write is acknowledged. A read that starts after the version was
/// taken therefore sees every write that the version counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Version {
    /// Changes with every commit that inserts a row. An inserted row has the highest id.
    pub inserts: u64,
    /// Changes with every commit that changes an existing row.
    pub updates: u64,
}

/// The maximum number of commands of the service that are queued at a time.
const MAX_QUEUED_SERVICE_COMMANDS: usize = 64;

/// The time for which a replica may deliver to a webhook after it has leased it or renewed the
/// lease.
pub const WEBHOOK_LEASE: SignedDuration = SignedDuration::from_secs(20);
/// A lease is renewed when less than this is left of it.
pub const RENEW_BEFORE: SignedDuration = SignedDuration::from_secs(15);

/// An open store on one of the databases.
#[derive(Debug)]
pub enum Store {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Store {
    pub fn open<'a>(
        url: &'a DatabaseUrl,
        options: &'a Options,
    ) -> BoxFuture<'a, Result<Self, OpenError>> {
        Box::pin(async {
            match url {
                DatabaseUrl::Sqlite(path) => Sqlite::open(path, options).map(Self::Sqlite),
                DatabaseUrl::Postgres(url) => {
                    let opened = Postgres::open(url, options).await?;
                    Ok(Self::Postgres(Box::new(opened)))
                }
            }
        })
    }

    /// Returns the canonical path of an SQLite file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(db) => Some(db.path()),
            Self::Postgres(_) => None,
        }
    }

    /// Drains the write queues, then closes the database.
    pub async fn close(&self) {
        on_database!(self, db => db.close().await)
    }

    /// Records that the store is open now, for the next process: see [`Settling`]. On
    /// PostgreSQL the clock of the server decides.
    pub async fn record_open_time(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.record_open_time().await,
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Clamps a time of the clock of deliveries to one that has passed even if that clock is fast.
    pub fn limit_to_certain(&self, time: Timestamp) -> Timestamp {
        match self {
            Self::Sqlite(db) => time.min(db.certain_time()),
            Self::Postgres(_) => time,
        }
    }

    /// Health check: fails unless the store can be read and written now.
    pub async fn ping(&self) -> Result<(), Error> {
        on_database!(self, db => db.ping().await)
    }

    /// Returns the last failure of a client's call that made the store unusable. A successful
    /// [`ping`](Self::ping) clears it, unless the file is damaged. `None` on PostgreSQL, where
    /// `ping` asks the server.
    pub fn failure(&self) -> Option<Error> {
        match self {
            Self::Sqlite(db) => db.failure(),
            Self::Postgres(_) => None,
        }
    }

    /// Returns the current version, if this process is the only writer.
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Sqlite(db) => Some(db.version()),
            Self::Postgres(_) => None,
        }
    }

    /// Returns the version that is known without asking the database.
    pub fn last_known_version(&self) -> Version {
        match self {
            Self::Sqlite(db) => db.version(),
            Self::Postgres(db) => db.last_known_version(),
        }
    }

    /// Returns the current version, as the database knows it.
    pub async fn current_version(&self) -> Result<Version, Error> {
        match self {
            Self::Sqlite(db) => Ok(db.version()),
            Self::Postgres(db) => db.current_version().await,
        }
    }

    pub fn metrics(&self) -> StoreMetrics<'_> {
        on_database!(self, db => db.metrics())
    }

    /// Executes a command, and returns once it is committed. Its event names the API key, if there
    /// is one. It is not cancelled if the caller disconnects.
    async fn execute<C: Command>(
        &self,
        api_key_id: Option<i64>,
        command: C,
        request: Option<IdempotentRequest>,
    ) -> CommandResult<C> {
        let lane = command.lane();
        let (queued, result) = QueuedCommand::queue(command, api_key_id, request);
        let limit = match self {
            Self::Sqlite(db) => db.enqueue(queued)?,
            Self::Postgres(db) => db.enqueue(queued, lane)?,
        };
        wait(result, limit, Error::OutcomeUnknown, Error::OutcomeUnknown).await
    }

    /// Executes a command without an idempotency key.
    async fn execute_once<C: Command>(
        &self,
        api_key_id: Option<i64>,
        command: C,
    ) -> Result<Result<C::Output, C::Rejection>, Error> {
        let reply = self.execute(api_key_id, command, None).await?;
        Ok(reply.executed())
    }

    /// Executes commands of the service itself, a few at a time: other writes wait in the same
    /// queues. Returns the results of those that were not rejected. Skips a command whose row
    /// another transaction has locked; its caller runs again later. Fails only if no command was
    /// executed, because a caller repeats all commands after an error.
    async fn execute_all<C: Command>(
        &self,
        commands: impl Iterator<Item = C>,
    ) -> Result<Vec<C::Output>, Error> {
        let executions = commands.map(|command| self.execute_once(None, command));
        let mut replies =
            pin!(stream::iter(executions).buffer_unordered(MAX_QUEUED_SERVICE_COMMANDS));
        let mut executed = Vec::new();
        let mut failed = None;
        while let Some(reply) = replies.next().await {
            match reply {
                Ok(output) => executed.extend(output.ok()),
                Err(error) if error.is_locked() => {}
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if executed.is_empty() => Err(error),
            _ => Ok(executed),
        }
    }

    /// Reads rows.
    async fn query<T: Record + Send + 'static>(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, Error> {
        on_database!(self, db => db.query(sql, parameters).await)
    }

    /// Reads the only row, if there is one.
    async fn find<T: Record + Send + 'static>(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Option<T>, Error> {
        Ok(self.query(sql, parameters).await?.pop())
    }

    /// Changes rows that no cached read depends on. Returns the number of rows that the
    /// database reports: on PostgreSQL, of those that the statement returns.
    async fn write(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<u64, Error> {
        on_database!(self, db => db.write(sql, parameters).await)
    }

    /// Reads a page.
    async fn list<F: Filter<Item: Record + Send>>(
        &self,
        select: Select,
        query: ListQuery<F>,
    ) -> Result<Page<F::Item>, Error> {
        on_database!(self, db => db.list(select, query).await)
    }

    /// Reads a page of a table, without a filter.
    async fn list_all<F: Filter<Item: Table + Send>>(
        &self,
        query: ListQuery<F>,
    ) -> Result<Page<F::Item>, Error> {
        self.list(Select::all(&query, self.dialect()), query).await
    }

    fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Counts pets and orders by status. The cost is independent of their number.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let counts = self.find(&COUNTS, Vec::new()).await?;
        Ok(counts.ok_or(MissingRow)?)
    }

    /// Returns the source of all events: a URN with a random UUID of this store.
    pub fn event_source(&self) -> &str {
        on_database!(self, db => db.event_source())
    }

    /// Returns a receiver of the head of the event log: the last sequence number up to which
    /// the order of events is final. No event appears at or before it later. On PostgreSQL it
    /// moves while it has receivers ([`poll_event_head`](Self::poll_event_head)), or by
    /// [`event_sync`](Self::event_sync). It restarts from 0 on another server, after a
    /// failover: only reading tells whether a position is still valid.
    pub fn event_head(&self) -> watch::Receiver<i64> {
        on_database!(self, db => db.event_head())
    }

    /// Moves the head past every change that was acknowledged before the call, unless a
    /// transaction that was left open holds it back.
    pub async fn event_sync(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(db) => db.event_sync().await,
        }
    }

    /// Returns the newest event up to the head.
    pub async fn event_newest(&self) -> Result<Option<Event>, Error> {
        on_database!(self, db => db.event_newest().await)
    }

    /// Reads up to `limit` events after a position, up to the head; without a position, from
    /// the oldest event that is kept. In descending order, reads those before the position;
    /// without one, from the head.
    pub async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        on_database!(self, db => db.event_read(after, sort, limit).await)
    }

    /// Deletes a batch of the oldest events that need not be kept. Returns the number deleted;
    /// 0 if none are left.
    pub async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        on_database!(self, db => db.event_purge(retention).await)
    }

    /// Returns the sequence number of the last event that was purged; 0 if none was.
    pub async fn event_purged_through(&self) -> Result<i64, Error> {
        let through = self.find(&PURGED_THROUGH, Vec::new()).await?;
        Ok(through.ok_or(MissingRow)?)
    }

    /// Polls the server and advances the head while it has receivers. On SQLite the writer does
    /// that. Never returns.
    pub async fn poll_event_head(&self) {
        match self {
            Self::Sqlite(_) => std::future::pending().await,
            Self::Postgres(db) => db.poll_event_head().await,
        }
    }

    /// Returns the event with this id; `None` if the log does not have it.
    pub async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        on_database!(self, db => db.event_get(id).await)
    }

    /// Returns how far the clock of deliveries is ahead of the system clock. On PostgreSQL it
    /// is the server's, so that replicas agree on when an attempt is due.
    pub fn clock_offset(&self) -> SignedDuration {
        match self {
            Self::Sqlite(_) => SignedDuration::ZERO,
            Self::Postgres(db) => db.clock_offset(),
        }
    }
}
