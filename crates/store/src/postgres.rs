//! The store on a PostgreSQL server, shared by any number of replicas: pipelined
//! connections, and commands that share transactions.

mod clock;
mod commit_group;
mod connect;
mod deliveries;
mod engine;
pub(super) mod error;
mod event_head;
mod events;
mod load;
mod migrate;
mod orders;
mod pets;
mod pool;
mod purge;
mod session;
mod snapshot;
mod table_sql;
mod url;
mod watermark;
mod writer;

use std::{
    error as std_error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{sync::Notify, time::timeout};
use tokio_postgres::{
    Client, Transaction,
    types::{FromSql, ToSql},
};

use super::{
    Options, Role, Version,
    command::{Lane, PendingCommand},
    error::{Error, MissingRow, OpenError},
    list::Select,
    metrics::{CommitMetrics, PoolMetrics, QueueMetrics, StoreMetrics},
    sql::Sql,
    statements::{NamedSql, table_statements},
    table::{Kind, Record, Row, Value},
};
use connect::Connector;
use domain::{
    clock::ClockTrust,
    page::{Filter, ListQuery, Page},
};
use event_head::EventLog;
use migrate::SCHEMA;
use pool::{Pool, STATEMENT_TIMEOUT};
use snapshot::SnapshotNumber;
use writer::{LOCK_QUEUE_CAPACITY, WRITE_TIMEOUT, Writer};

pub(super) use clock::ServerClock;
pub use error::PostgresError;
pub(super) use load::MICROCHIP_HOLDERS;
pub(super) use migrate::created;
pub(super) use pool::{COMMIT_GROUP_SETTINGS, type_of};
pub use url::PostgresUrl;

/// The maximum duration of a migration, including the wait for a replica that is migrating.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Connections for reads, per replica.
const READ_CONNECTIONS: usize = 4;

/// Connections for each lane of commands, per replica.
const CREATE_CONNECTIONS: usize = 2;
const CHANGE_CONNECTIONS: usize = 2;
const BULK_CONNECTIONS: usize = 1;

/// Connections to a PostgreSQL server. Reads, each lane of commands, deliveries and background
/// work have their own, so that a statement that waits for a standby delays only its own
/// kind.
#[derive(Debug)]
pub struct Postgres {
    reads: Pool,
    snapshot: SnapshotNumber,
    /// Connections for background tasks.
    background: Pool,
    creates: Writer,
    changes: Writer,
    bulk: Writer,
    /// Waits for the rows of commands that starve.
    /// The lock-queue writer: see [`Writer::start`].
    lock_queue: Writer,
    events: EventLog,
    commits: Arc<CommitMetrics>,
    clock: ServerClock,
    clock_trust: ClockTrust,
}

/// Opens one connection to a database whose schema is up to date, with a counter
/// of the server's warnings. Creates the tables in an empty database.
pub(super) async fn open_connection(
    url: &PostgresUrl,
) -> Result<(Client, Arc<AtomicU64>), OpenError> {
    let (_, client, warnings) = prepare(url, true).await?;
    Ok((client, warnings))
}

/// Opens one connection and changes nothing: fails if the schema is not up to date.
pub(super) async fn open_connection_to_current(url: &PostgresUrl) -> Result<Client, OpenError> {
    let client = connect(url).await?.1;
    let shown = url.to_string();
    match SCHEMA.outdated_version(&client, &shown).await? {
        None => Ok(client),
        Some(0) => Err(OpenError::Empty(shown)),
        Some(found) => Err(OpenError::Older {
            database: shown,
            found,
            supported: SCHEMA.version(),
        }),
    }
}

/// Commits a transaction. Returns whether the commit is confirmed: a server with
/// synchronous replication warns when it stops waiting for its standbys.
pub(super) async fn commit_confirmed(transaction: Transaction<'_>, warnings: &AtomicU64) -> bool {
    let before = warnings.load(Ordering::Acquire);
    transaction.commit().await.is_ok() && warnings.load(Ordering::Acquire) == before
}

type NewConnection = (Connector, Client, Arc<AtomicU64>);

/// Connects to a server that can have a store.
async fn connect(url: &PostgresUrl) -> Result<NewConnection, OpenError> {
    let server = url.to_string();
    let connector = match Connector::new(url) {
        Ok(connector) => connector,
        Err(cause) => return Err(OpenError::Tls { server, cause }),
    };
    let connected = connector.connect().await;
    let (client, warnings, _) = connected.map_err(OpenError::postgres(&server))?;
    let checked = timeout(STATEMENT_TIMEOUT, engine::check(&client, &server)).await;
    checked.map_err(OpenError::postgres(&server))??;
    Ok((connector, client, warnings))
}

async fn prepare(url: &PostgresUrl, create: bool) -> Result<NewConnection, OpenError> {
    let shown = url.to_string();
    let (connector, mut client, warnings) = connect(url).await?;
    let migration = SCHEMA.migrate(&mut client, &shown, create);
    let migrated = timeout(MIGRATION_TIMEOUT, migration).await;
    migrated.map_err(OpenError::postgres(&shown))??;
    Ok((connector, client, warnings))
}

impl Postgres {
    pub(super) async fn open(url: &PostgresUrl, options: &Options) -> Result<Self, OpenError> {
        let (connector, client, _) = prepare(url, options.create).await?;
        let sent = Timestamp::now();
        let rows = client
            .query_typed(IDENTITY.text(), &[])
            .await
            .map_err(OpenError::postgres(&url.to_string()))?;
        let mut source = String::new();
        let clock = ServerClock::default();
        if let Some(row) = rows.first() {
            source = row.get(0);
            clock.observe(sent, row.get(1), Timestamp::now());
        }
        let read_connections = match options.role {
            Role::Service => READ_CONNECTIONS,
            Role::Cli => 1,
        };
        let commits = Arc::default();
        let committed = Arc::new(Notify::new());
        let writer = |connections: usize, lock_queue: Option<&Writer>| {
            let pools = (0..connections).map(|_| Pool::for_groups(&connector));
            Writer::start(
                pools.collect(),
                lock_queue.map_or(LOCK_QUEUE_CAPACITY, |_| options.write_queue_capacity),
                &commits,
                &committed,
                lock_queue,
                options.fault,
            )
        };
        let lock_queue = writer(1, None);
        Ok(Self {
            reads: Pool::new(&connector, read_connections),
            snapshot: SnapshotNumber::new(&connector),
            creates: writer(CREATE_CONNECTIONS, Some(&lock_queue)),
            changes: writer(CHANGE_CONNECTIONS, Some(&lock_queue)),
            bulk: writer(BULK_CONNECTIONS, Some(&lock_queue)),
            lock_queue,
            background: Pool::new(&connector, 1),
            events: EventLog::new(&connector, source, committed.clone()),
            commits,
            clock,
            clock_trust: ClockTrust::start(Timestamp::now(), options.trust_clock_after),
        })
    }

    /// Returns the age beyond which rows are purged, in microseconds of the server's clock. At
    /// first everything is kept: the server may have started together with this process, with
    /// a fast clock.
    fn max_age(&self, retention: SignedDuration) -> i64 {
        if self.clock_trust.is_established() {
            i64::try_from(retention.as_micros()).unwrap_or(i64::MAX)
        } else {
            i64::MAX
        }
    }

    /// Returns how far the server's clock is ahead of the system clock.
    pub(super) fn clock_offset(&self) -> SignedDuration {
        self.clock.offset()
    }

    pub(super) async fn close(&self) {
        tokio::join!(
            self.creates.close(),
            self.changes.close(),
            self.bulk.close(),
            // It ends when the others have ended.
            self.lock_queue.close()
        );
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        let rows = self.reads.read(&READ_ONLY, &[]).await?;
        if read_first(&rows)? {
            return Err(Error::Unavailable(Arc::new(ReadOnly)));
        }
        Ok(())
    }

    pub(super) fn last_known_version(&self) -> Version {
        self.snapshot.last_known()
    }

    pub(super) async fn current_version(&self) -> Result<Version, Error> {
        self.snapshot.current().await
    }

    pub fn metrics(&self) -> StoreMetrics<'_> {
        let writers = [
            ("create", &self.creates),
            ("change", &self.changes),
            ("bulk", &self.bulk),
            ("lock", &self.lock_queue),
        ];
        let own_pools = [
            ("read", vec![&self.reads]),
            ("version", vec![&self.snapshot.pool]),
            ("background", vec![&self.background]),
            ("event", vec![&self.events.pool]),
        ];
        let writer_pools = writers.map(|(name, writer)| (name, writer.pools().collect()));
        let all_pools = own_pools.into_iter().chain(writer_pools);
        let pools = all_pools.map(|(name, pools)| PoolMetrics {
            name,
            connections: pools.iter().map(|pool| pool.connections()).sum(),
            statements_in_flight: pools.iter().map(|pool| pool.statements_in_flight()).sum(),
        });
        let queues = writers.map(|(name, writer)| QueueMetrics {
            name,
            depth: writer.queue_depth(),
        });
        StoreMetrics {
            queues: queues.into(),
            pools: pools.collect(),
            commits: &self.commits,
            wal: None,
            events: self.events.metrics(),
        }
    }

    /// Queues a command. Returns the maximum time to wait for it.
    pub(super) fn enqueue(
        &self,
        command: Box<dyn PendingCommand>,
        lane: Lane,
    ) -> Result<Duration, Error> {
        let writer = match lane {
            Lane::Create => &self.creates,
            Lane::Change => &self.changes,
            Lane::Bulk => &self.bulk,
        };
        writer.enqueue(command)?;
        Ok(WRITE_TIMEOUT)
    }

    pub(super) async fn query<T: Record>(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, Error> {
        let rows = self.reads.read(sql, &as_sql(&parameters)).await?;
        rows.iter().map(T::from_row).collect()
    }

    pub(super) async fn write(
        &self,
        sql: &'static Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<u64, Error> {
        let rows = self.background.write(sql, &as_sql(&parameters)).await?;
        Ok(rows.len() as u64)
    }

    /// Reads a page. The server examines rows, so that all but the last of them match.
    pub(super) async fn list<F: Filter<Item: Record>>(
        &self,
        select: Select,
        query: ListQuery<F>,
    ) -> Result<Page<F::Item>, Error> {
        let kinds: Vec<_> = select.parameters.iter().map(Value::kind).collect();
        let sql = Sql::interned(&select.sql, &kinds);
        let rows = self.reads.read(sql, &as_sql(&select.parameters)).await?;
        if !select.examines {
            let items = rows.iter().map(Record::from_row);
            return Ok(query.page(items.collect::<Result<_, _>>()?, None));
        }
        let mut items = Vec::new();
        let mut last = None;
        for row in &rows {
            let (item, is_match, is_last) = <(F::Item, _, _)>::from_row(row)?;
            if is_last {
                last = Some(query.filter.position(&item));
            }
            if is_match {
                items.push(item);
            }
        }
        Ok(query.page(items, last))
    }
}

fn as_sql<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|it| it as &(dyn ToSql + Sync)).collect()
}

/// Returns the time of the transaction, in microseconds since the Unix epoch. It is the
/// server's: the clocks of the replicas may differ.
fn now_micros() -> &'static str {
    "(extract(epoch FROM now()) * 1000000)::bigint"
}

statements! {
    IDENTITY() = format!("SELECT source, {} FROM event_log", now_micros());
    /// A server in recovery is a standby: it cannot be written to. Neither can one that an
    /// operator, or a service that watches its disk, has set to read-only.
    READ_ONLY() =
        "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";
}

#[derive(Debug, thiserror::Error)]
#[error("the server is read-only: it is a standby in recovery, or was set to read-only")]
struct ReadOnly;

impl Row for tokio_postgres::Row {
    type Error = Error;

    fn value(&self, column: usize, kind: Kind) -> Result<Value<'_>, Error> {
        let value = match kind {
            Kind::Int => get(self, column, Value::Int),
            Kind::Bool => get(self, column, Value::Bool),
            Kind::Text => get(self, column, |text: &str| Value::text(text)),
            _ => get(self, column, |bytes: &[u8]| Value::Bytes(bytes.into())),
        };
        value.map_err(|error| Self::corrupt(column, error))
    }

    fn corrupt(_: usize, cause: impl std_error::Error + Send + Sync + 'static) -> Error {
        Error::Internal(Arc::new(cause))
    }
}

fn get<'a, T: FromSql<'a>>(
    row: &'a tokio_postgres::Row,
    column: usize,
    to_value: fn(T) -> Value<'a>,
) -> Result<Value<'a>, tokio_postgres::Error> {
    let value: Option<T> = row.try_get(column)?;
    Ok(value.map_or(Value::Null, to_value))
}

/// Returns every statement that only PostgreSQL executes.
pub(super) fn statements() -> impl Iterator<Item = NamedSql> {
    let fixed = [
        ALL,
        deliveries::ALL,
        event_head::ALL,
        events::ALL,
        load::ALL,
        orders::ALL,
        pets::ALL,
        purge::ALL,
        snapshot::ALL,
    ]
    .into_iter()
    .flatten()
    .map(|sql| NamedSql::of(sql));
    fixed
        .chain([NamedSql::of(&commit_group::CREATE_PETS)])
        .chain(table_statements::<table_sql::TableSql>())
}

/// Reads the first row, which a statement always returns.
fn read_first<T: Record>(rows: &[tokio_postgres::Row]) -> Result<T, Error> {
    T::from_row(rows.first().ok_or(MissingRow)?)
}
