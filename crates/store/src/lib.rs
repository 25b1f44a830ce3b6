//! The store: everything that petstore keeps, on SQLite or PostgreSQL.
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
mod event_row;
pub mod event_tail;
mod events;
mod fields;
mod imports;
mod list;
mod lock_holder;
mod metrics;
mod options;
mod orders;
mod pet_batches;
mod pets;
mod photos;
mod postgres;
mod purge;
mod queue;
mod register;
mod root_user;
mod row_keys;
mod rows;
pub mod sales;
pub mod scan_queue;
mod search;
mod settings;
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

use command::{Command, CommandResult, QueuedCommand};
use domain::{
    api_key::ApiKeyFilter,
    category::CategoryFilter,
    idempotency::IdempotentRequest,
    page::{Filter, ListQuery, Page},
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
    BackupCopy, BackupError, BackupSource, DatabaseDetails, ExportContext, FileImport,
    FileImportError, Inspection, KnownPet, KnownPets, PhotoReader, ReadError, RegisterSummary,
    RestoreSummary, backup, backup_to_stream, category_names, check, copy, event_source,
    explain_statements, export_orders, export_pets, export_register, find_import, find_microchips,
    has_changes, inspect, is_same_disk, list_keys, require_closed, restore, shop_currency,
    used_categories,
};

pub use api_keys::GrantKind;
pub use error::{Error, OpenError, explain};
pub use events::EventPage;
pub use lock_holder::holder_and_advice;
pub use metrics::StoreMetrics;
pub use options::{Fault, Options, Role, Version};
pub use photos::NewPhoto;
pub use postgres::PostgresUrl;
pub use root_user::give_up_root;
pub use tables::{Counts, StoredPhoto};
pub use url::{DatabaseUrl, redact_password};

statements! {
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
        photos::ALL,
        search::ALL,
        orders::ALL,
        categories::ALL,
        settings::ALL,
        imports::ALL,
        api_keys::ALL,
        webhooks::ALL,
        deliveries::ALL,
        events::ALL,
        undo::ALL,
        register::ALL,
        sales::ALL,
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

    /// Returns the source of backups, unless the database has tools of its own for them.
    pub fn backup_source(&self) -> Option<BackupSource> {
        let path = self.file()?;
        Some(BackupSource::new(path, self.event_source()))
    }

    /// Drains the write queues, then closes the database.
    pub async fn close(&self) {
        on_database!(self, db => db.close().await)
    }

    /// Records that the store is open now, for the next process: see
    /// [`domain::clock::ClockTrust`]. On PostgreSQL the clock of the server decides.
    pub async fn record_open_time(&self) -> Result<(), Error> {
        match self {
            Self::Sqlite(db) => db.record_open_time().await,
            Self::Postgres(_) => Ok(()),
        }
    }

    /// Limits a time of the clock of deliveries to the trusted time: see
    /// [`domain::clock::ClockTrust`].
    pub fn limit_to_trusted(&self, time: Timestamp) -> Timestamp {
        match self {
            Self::Sqlite(db) => time.min(db.trusted_time()),
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
        let (queued, result) = QueuedCommand::with_receiver(command, api_key_id, request);
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

    /// Returns how far the clock of deliveries is ahead of the system clock. On PostgreSQL it
    /// is the server's, so that replicas agree on when an attempt is due.
    pub fn clock_offset(&self) -> SignedDuration {
        match self {
            Self::Sqlite(_) => SignedDuration::ZERO,
            Self::Postgres(db) => db.clock_offset(),
        }
    }
}
