//! The store on a PostgreSQL server, shared by any number of replicas: pipelined
//! connections, and batched statements for each kind of change.

#[macro_use]
mod idempotency;

mod api_keys;
mod categories;
mod clock;
mod connect;
mod deliveries;
mod error;
mod events;
mod fence;
mod imports;
mod lock_wait;
mod migrate;
mod orders;
mod pets;
mod pool;
mod snapshot;
mod url;
mod webhooks;
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
    Client, IsolationLevel, Transaction,
    types::{ToSql, Type},
};

use super::{
    Options, Role, Version,
    error::{Error, OpenError},
    list::{Select, Value},
    metrics::{CommitMetrics, PoolMetrics, QueueMetrics, StoreMetrics},
    rows::{Columns, Counts, Entity, Row},
};
use crate::{
    clock::Settling,
    page::{Page, PageLimit, Position},
};
use clock::ServerClock;
use connect::Connector;
use error::MissingRow;
use events::EventLog;
use idempotency::microseconds;
use orders::{PlaceOrder, TransitionOrder};
use pets::CreatePet;
use pool::{Pool, Sql};
use snapshot::SnapshotNumber;
use writer::{BatchedWrite, Writer};

pub use error::PostgresError;
pub use url::PostgresUrl;

/// How long migrating may take, including the wait for a replica that is
/// migrating.
const MIGRATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Connections for reads, per replica.
const READ_CONNECTIONS: usize = 4;

/// Connections to a PostgreSQL server. Reads, updates, categories, webhooks, background work and
/// each kind of batched change have their own, so that a statement that waits for a
/// standby delays only its own kind.
#[derive(Debug)]
pub struct Postgres {
    reads: Pool,
    snapshot: SnapshotNumber,
    updates: Pool,
    categories: Pool,
    webhooks: Pool,
    /// For background tasks and API keys.
    background: Pool,
    creates: Writer<CreatePet>,
    placements: Writer<PlaceOrder>,
    transitions: Writer<TransitionOrder>,
    events: EventLog,
    commits: Arc<CommitMetrics>,
    clock: ServerClock,
    settling: Settling,
}

/// Opens one connection to a database whose schema is up to date, with a counter
/// of the server's warnings. Creates the tables in an empty database.
pub(super) async fn open_connection(
    url: &PostgresUrl,
) -> Result<(Client, Arc<AtomicU64>), OpenError> {
    let (_, client, warnings) = prepare(url, true).await?;
    Ok((client, warnings))
}

/// Like [`open_connection`], but an empty database is an error.
pub(super) async fn open_existing(url: &PostgresUrl) -> Result<Client, OpenError> {
    let (_, client, _) = prepare(url, false).await?;
    Ok(client)
}

/// Opens one connection and changes nothing: fails if the schema is not up to date.
pub(super) async fn open_connection_to_current(url: &PostgresUrl) -> Result<Client, OpenError> {
    let (client, shown) = (connect(url).await?.1, url.to_string());
    match migrate::outdated_version(&client, &shown).await? {
        None => Ok(client),
        Some(0) => Err(OpenError::Empty(shown)),
        Some(found) => Err(OpenError::Older {
            database: shown,
            found: i64::from(found),
            supported: migrate::VERSION,
        }),
    }
}

/// Starts a read-only transaction that sees one snapshot.
pub(super) async fn start_snapshot(
    client: &mut Client,
) -> Result<Transaction<'_>, tokio_postgres::Error> {
    client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await
}

/// Commits a transaction. Returns whether the commit is confirmed: a server with
/// synchronous replication warns when it stops waiting for its standbys.
pub(super) async fn commit_confirmed(transaction: Transaction<'_>, warnings: &AtomicU64) -> bool {
    let before = warnings.load(Ordering::Acquire);
    transaction.commit().await.is_ok() && warnings.load(Ordering::Acquire) == before
}

type Connected = (Connector, Client, Arc<AtomicU64>);

async fn connect(url: &PostgresUrl) -> Result<Connected, OpenError> {
    let connector = Connector::new(url).map_err(|cause| OpenError::Tls {
        server: url.to_string(),
        cause,
    })?;
    let connected = connector.connect().await;
    let (client, warnings) = connected.map_err(|cause| OpenError::Postgres {
        server: url.to_string(),
        cause: Arc::new(cause),
    })?;
    Ok((connector, client, warnings))
}

async fn prepare(url: &PostgresUrl, create: bool) -> Result<Connected, OpenError> {
    let shown = url.to_string();
    let (connector, mut client, warnings) = connect(url).await?;
    let failed = |cause: PostgresError| OpenError::Postgres {
        server: shown.clone(),
        cause: Arc::new(cause),
    };
    let migration = timeout(
        MIGRATION_TIMEOUT,
        migrate::migrate(&mut client, &shown, create),
    );
    let migrated = migration.await;
    migrated.map_err(|elapsed| failed(elapsed.into()))??;
    Ok((connector, client, warnings))
}

impl Postgres {
    pub(super) async fn open(url: &PostgresUrl, options: &Options) -> Result<Self, OpenError> {
        let (connector, client, _) = prepare(url, options.create).await?;
        let sent = Timestamp::now();
        let read = concat!("SELECT source, ", now_micros!(), " FROM event_log");
        let rows = client.query_typed(read, &[]).await;
        let rows = rows.map_err(|error| OpenError::Postgres {
            server: url.to_string(),
            cause: Arc::new(PostgresError::from(error)),
        })?;
        let (mut source, clock) = (String::new(), ServerClock::default());
        if let Some(row) = rows.first() {
            source = row.get(0);
            clock.observe(sent, row.get(1), Timestamp::now());
        }
        let read_connections = match options.role {
            Role::Service => READ_CONNECTIONS,
            Role::Command => 1,
        };
        let (queue, commits) = (options.write_queue_capacity, Arc::default());
        let committed = Arc::new(Notify::new());
        let writes = || Pool::new(&connector, 1).notifying(&committed);
        Ok(Self {
            reads: Pool::new(&connector, read_connections),
            snapshot: SnapshotNumber::new(&connector),
            updates: writes(),
            categories: writes(),
            webhooks: Pool::new(&connector, 1),
            background: Pool::new(&connector, 1),
            creates: Writer::start(writes, queue, &commits),
            placements: Writer::start(writes, queue, &commits),
            transitions: Writer::start(writes, queue, &commits),
            events: EventLog::new(&connector, source, committed.clone()),
            commits,
            clock,
            settling: Settling::start(Timestamp::now(), options.settling),
        })
    }

    /// The age beyond which something is purged, in microseconds of the server's clock. At
    /// first everything is kept: the server may have started together with this process, with a fast clock.
    fn max_age(&self, retention: SignedDuration) -> i64 {
        if self.settling.is_over() {
            microseconds(retention)
        } else {
            i64::MAX
        }
    }

    /// How far the server's clock is ahead of the system clock.
    pub(super) fn clock_offset(&self) -> SignedDuration {
        self.clock.offset()
    }

    pub(super) async fn close(&self) {
        tokio::join!(
            self.creates.close(),
            self.placements.close(),
            self.transitions.close()
        );
    }

    pub(super) async fn ping(&self) -> Result<(), Error> {
        let rows = self.reads.read(&READ_ONLY, &[]).await?;
        let is_read_only = Columns::of(rows.first().ok_or(MissingRow)?).boolean()?;
        if is_read_only {
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

    pub(super) fn metrics(&self) -> StoreMetrics<'_> {
        fn of_writer<C: BatchedWrite>(
            name: &'static str,
            writer: &Writer<C>,
        ) -> (QueueMetrics, PoolMetrics) {
            let depth = writer.queue_depth();
            let queue = QueueMetrics { name, depth };
            (queue, of_pools(name, writer.pools()))
        }
        fn of_pools<'a>(
            name: &'static str,
            pools: impl IntoIterator<Item = &'a Pool>,
        ) -> PoolMetrics {
            let none = PoolMetrics {
                name,
                connections: 0,
                statements_in_flight: 0,
            };
            pools.into_iter().fold(none, |sum, pool| PoolMetrics {
                connections: sum.connections + pool.connections(),
                statements_in_flight: sum.statements_in_flight + pool.statements_in_flight(),
                ..sum
            })
        }
        let (queues, writer_pools): (Vec<_>, Vec<_>) = [
            of_writer("create", &self.creates),
            of_writer("place", &self.placements),
            of_writer("transition", &self.transitions),
        ]
        .into_iter()
        .unzip();
        let mut pools = vec![
            of_pools("read", [&self.reads]),
            of_pools("version", [self.snapshot.pool()]),
            of_pools("update", [&self.updates]),
            of_pools("category", [&self.categories]),
            of_pools("webhook", [&self.webhooks]),
            of_pools("background", [&self.background]),
            of_pools("event", [self.events.pool()]),
        ];
        pools.extend(writer_pools);
        StoreMetrics {
            queues,
            pools,
            commits: &self.commits,
            wal: None,
            events: self.events.metrics(),
        }
    }

    pub(super) async fn counts(&self) -> Result<Counts, Error> {
        let rows = self.reads.read(&COUNTS, &[]).await?;
        Counts::from_row(rows.first().ok_or(MissingRow)?)
    }

    /// Reads a page.
    async fn list<T: Entity>(
        &self,
        select: Select,
        limit: PageLimit,
        position: impl Fn(&T) -> Position,
    ) -> Result<Page<T>, Error> {
        let Select {
            sql,
            parameters,
            examines,
        } = select;
        let types = parameters.iter().map(|value| match value {
            Value::Int(_) => Type::INT8,
            Value::Text(_) => Type::TEXT,
        });
        let sql = Sql::interned(sql, types);
        let parameters: Vec<_> = parameters
            .iter()
            .map(|value| match value {
                Value::Int(number) => number as &(dyn ToSql + Sync),
                Value::Text(text) => text as _,
            })
            .collect();
        let rows = self.reads.read(sql, &parameters).await?;
        if !examines {
            let items = rows.iter().map(T::from_row).collect::<Result<_, _>>()?;
            return Ok(Page::from_lookahead(items, limit, position));
        }
        let (mut items, mut last) = (Vec::new(), None);
        for row in &rows {
            let mut columns = Columns::of(row);
            let item = T::read(&mut columns)?;
            let (is_match, is_last) = (columns.boolean()?, columns.boolean()?);
            if is_last {
                last = Some(position(&item));
            }
            items.extend(is_match.then_some(item));
        }
        let mut page = Page::from_lookahead(items, limit, position);
        page.next = page.next.or(last);
        Ok(page)
    }
}

/// The columns of `count_columns!()`, summed over the shards.
static COUNTS: Sql = Sql {
    text: "SELECT sum(pets)::bigint, sum(pets_available)::bigint, sum(pets_pending)::bigint,
                  sum(pets_sold)::bigint, sum(orders_placed)::bigint,
                  sum(orders_completed)::bigint, sum(orders_cancelled)::bigint,
                  sum(orders_returned)::bigint
           FROM counts",
    types: &[],
};

/// A server in recovery is a standby: it cannot be written to. Neither can one that an operator,
/// or a service that watches its disk, has set to read-only.
static READ_ONLY: Sql = Sql {
    text: "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean",
    types: &[],
};

#[derive(Debug, thiserror::Error)]
#[error("the server is read-only: a standby in recovery, or set so")]
struct ReadOnly;

impl Row for tokio_postgres::Row {
    type Error = Error;

    fn int(&self, column: usize) -> Result<i64, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn optional_int(&self, column: usize) -> Result<Option<i64>, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn boolean(&self, column: usize) -> Result<bool, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn text(&self, column: usize) -> Result<&str, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn optional_text(&self, column: usize) -> Result<Option<&str>, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn bytes(&self, column: usize) -> Result<&[u8], Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<&[u8]>, Error> {
        self.try_get(column).map_err(|e| Self::corrupt(column, e))
    }

    fn corrupt(_: usize, cause: impl std_error::Error + Send + Sync + 'static) -> Error {
        Error::Internal(Arc::new(cause))
    }
}

/// The only column of the only row.
fn read_count(rows: &[tokio_postgres::Row]) -> Result<u64, Error> {
    let row = rows.first().ok_or(MissingRow)?;
    Ok(Columns::of(row).int()? as u64)
}
