//! A pool of pipelined PostgreSQL connections: opened on demand, shared by
//! concurrent requests, and replaced when they break.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_postgres::{
    Client, Row, Statement,
    error::SqlState,
    types::{ToSql, Type},
};

use super::{
    super::{error::Error, sql::Sql, table::Kind},
    connect::{ConnectionEnd, Connector, SchemaTooNew},
    error::PostgresError,
};
use single_flight::SingleFlight;
use telemetry::metrics::Gauge;

/// The maximum duration of setting up a session.
const SESSION_SETUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum duration of a request to cancel a statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum duration of a statement, including the network round trip.
pub(super) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A fixed number of connections, used round robin. Statements are pipelined:
/// they are sent without waiting for the results of earlier ones.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    slots: Vec<Slot>,
    next: AtomicUsize,
    in_flight: Gauge,
    /// True if its connections run commit groups.
    runs_groups: bool,
}

/// Room for one connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Mutex<Option<Arc<Connection>>>,
    attempts: SingleFlight<Result<Arc<Connection>, Error>>,
}

impl Slot {
    fn open_connection(&self) -> Option<Arc<Connection>> {
        let connection = self.connection.lock().expect(LOCK);
        connection
            .as_ref()
            .filter(|connection| !connection.client.is_closed())
            .cloned()
    }
}

/// The result of a statement.
struct StatementResult {
    rows: Vec<Row>,
    /// True if the server sent a warning while it ran.
    warned: bool,
}

pub(super) const LOCK: &str = "no thread panics while holding the lock";

#[derive(Debug)]
pub(super) struct Connection {
    client: Client,
    /// Prepared statements by their text; `None` if they must not be used.
    prepared: Option<RwLock<HashMap<&'static str, Statement>>>,
    /// The number of warnings received from the server.
    pub(super) warnings: Arc<AtomicU64>,
    /// The number of groups that were started.
    groups: AtomicU64,
    end: ConnectionEnd,
}

impl Pool {
    pub(super) fn new(connector: &Connector, size: usize) -> Self {
        Self {
            connector: connector.clone(),
            slots: (0..size).map(|_| Slot::default()).collect(),
            next: AtomicUsize::new(0),
            in_flight: Gauge::default(),
            runs_groups: false,
        }
    }

    /// Creates a pool of one connection, for commit groups.
    pub(super) fn for_groups(connector: &Connector) -> Self {
        Self {
            runs_groups: true,
            ..Self::new(connector, 1)
        }
    }

    pub(super) fn track(&self) -> impl Drop {
        self.in_flight.track()
    }

    /// Returns the number of statements in flight or waiting for a connection.
    pub fn statements_in_flight(&self) -> i64 {
        self.in_flight.get()
    }

    /// Returns the number of open connections, without those being opened.
    pub fn connections(&self) -> i64 {
        let open = self.slots.iter().filter_map(Slot::open_connection);
        open.count() as i64
    }

    /// Runs a read-only statement.
    pub(super) async fn read(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        match self.run(sql, parameters).await? {
            Ok(completed) => Ok(completed.rows),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs a statement as its own transaction and returns once it is committed.
    ///
    /// The outcome is unknown if the connection broke before the response, if
    /// the response timed out, or if the server sent a warning: with synchronous
    /// replication, it warns when it has committed locally but stopped waiting
    /// for its standbys.
    pub(super) async fn write(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        match self.run(sql, parameters).await? {
            Ok(completed) if completed.warned => {
                Err(Error::OutcomeUnknown(Arc::new(CommitWarning)))
            }
            Ok(completed) => Ok(completed.rows),
            Err(error) if error.is_rolled_back() => Err(error.into()),
            Err(error) => Err(Error::OutcomeUnknown(Arc::new(error))),
        }
    }

    /// Runs a statement. The outer error means that there is no connection: nothing was sent.
    ///
    /// Boxed, so that this future does not enlarge that of every request, including those that are
    /// served from memory.
    fn run<'a>(
        &'a self,
        sql: &'static Sql,
        parameters: Parameters<'a>,
    ) -> BoxFuture<'a, Result<Result<StatementResult, PostgresError>, Error>> {
        Box::pin(async move {
            let _in_flight = self.in_flight.track();
            let (slot, connection) = self.connection().await?;
            let before = connection.warnings.load(Ordering::Acquire);
            let statement = connection.run(sql, parameters);
            Ok(match timeout(STATEMENT_TIMEOUT, statement).await {
                Ok(Ok(rows)) => {
                    let warned = connection.warnings.load(Ordering::Acquire) != before;
                    Ok(StatementResult { rows, warned })
                }
                Ok(Err(error)) => {
                    self.discard_if_unusable(slot, &connection, &error);
                    Err(error.into())
                }
                Err(elapsed) => {
                    self.abandon(slot, &connection);
                    Err(elapsed.into())
                }
            })
        })
    }

    /// Refuses every further statement of this replica, in this and all other pools.
    pub(super) fn refuse_all(&self, reason: SchemaTooNew) {
        self.connector.refuse(reason);
    }

    /// Returns the next connection, opening it if necessary. Requests that waited
    /// for a failed attempt share its error.
    pub(super) async fn connection(&self) -> Result<(usize, Arc<Connection>), Error> {
        self.connector
            .check_schema()
            .map_err(|error| Error::Unavailable(Arc::new(error)))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let slot = &self.slots[number];
        let connection = match slot.open_connection() {
            Some(connection) => connection,
            None => Box::pin(slot.attempts.run(self.connect(slot))).await?,
        };
        Ok((number, connection))
    }

    async fn connect(&self, slot: &Slot) -> Result<Arc<Connection>, Error> {
        // The attempt that this one has waited for may have succeeded.
        if let Some(connection) = slot.open_connection() {
            return Ok(connection);
        }
        let opened = Arc::new(
            Connection::open(&self.connector, self.runs_groups)
                .await
                .map_err(|error| Error::Unavailable(Arc::new(error)))?,
        );
        *slot.connection.lock().expect(LOCK) = Some(opened.clone());
        Ok(opened)
    }

    /// Discards a connection to a server that became read-only (after a
    /// failover), or whose prepared statements are no longer valid.
    pub(super) fn discard_if_unusable(
        &self,
        slot: usize,
        connection: &Arc<Connection>,
        error: &tokio_postgres::Error,
    ) {
        let unusable = [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::FEATURE_NOT_SUPPORTED,
            SqlState::INVALID_SQL_STATEMENT_NAME,
            SqlState::DUPLICATE_PSTATEMENT,
        ];
        if error.code().is_some_and(|code| unusable.contains(code)) {
            self.discard(slot, connection);
        }
    }

    /// Discards all connections.
    pub(super) fn discard_all(&self) {
        for slot in &self.slots {
            *slot.connection.lock().expect(LOCK) = None;
        }
    }

    /// Discards a connection whose statement timed out, and asks the server to
    /// cancel the statement, so that it releases its locks.
    pub(super) fn abandon(&self, slot: usize, connection: &Arc<Connection>) {
        self.discard(slot, connection);
        let connector = self.connector.clone();
        let token = connection.client.cancel_token();
        tokio::spawn(async move {
            // If this fails too, statement_timeout ends the statement.
            let _ = timeout(CANCEL_TIMEOUT, connector.cancel(token)).await;
        });
    }

    fn discard(&self, slot: usize, connection: &Arc<Connection>) {
        let mut current = self.slots[slot].connection.lock().expect(LOCK);
        current.take_if(|current| Arc::ptr_eq(current, connection));
    }
}

impl Connection {
    async fn open(connector: &Connector, runs_groups: bool) -> Result<Self, PostgresError> {
        let (client, warnings, end) = connector.connect().await?;
        let prepares = connector.prepares_statements();
        if prepares {
            let group_settings = if runs_groups {
                COMMIT_GROUP_SETTINGS
            } else {
                &[]
            };
            let settings: Vec<_> = SESSION_SETTINGS
                .iter()
                .chain(group_settings)
                .map(|setting| format!("SET {setting}"))
                .collect();
            let setup = settings.join("; ");
            timeout(SESSION_SETUP_TIMEOUT, client.batch_execute(&setup)).await??;
        } else {
            timeout(SESSION_SETUP_TIMEOUT, require_warnings(&client)).await??;
        }
        Ok(Self {
            client,
            groups: AtomicU64::new(0),
            prepared: prepares.then(RwLock::default),
            warnings,
            end,
        })
    }

    /// Returns true if the server ended a closed connection because its transaction was idle
    /// for too long, and so was rolled back.
    pub(super) async fn was_idle_in_transaction(&self) -> bool {
        let code = timeout(STATEMENT_TIMEOUT, self.end.code()).await;
        code == Ok(Some(SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT))
    }

    pub(super) async fn run(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        match self.prepare(sql).await? {
            Some(statement) => self.client.query(&statement, parameters).await,
            None if sql.text() == "BEGIN" => {
                let settings = COMMIT_GROUP_SETTINGS
                    .iter()
                    .map(|it| format!("; SET LOCAL {it}"))
                    .collect::<String>();
                let begin = format!("BEGIN ISOLATION LEVEL READ COMMITTED{settings}");
                self.client.batch_execute(&begin).await?;
                Ok(Vec::new())
            }
            None => {
                let types = sql.kinds.iter().copied().map(type_of);
                let typed: Vec<_> = parameters.iter().copied().zip(types).collect();
                self.client.query_typed(sql.text(), &typed).await
            }
        }
    }

    /// Returns true if the next group should discard the plans of the session. A plan that was
    /// made for an empty table scans it, and is kept until the table is analyzed, however large
    /// it has become. So statements are planned again whenever the number of groups has doubled.
    pub(super) fn should_replan(&self) -> bool {
        let groups = self.groups.fetch_add(1, Ordering::Relaxed) + 1;
        self.prepared.is_some() && (groups.is_power_of_two() || groups.is_multiple_of(4096))
    }

    /// Prepares a statement, unless that was done before. Returns `None` if none must be prepared.
    pub(super) async fn prepare(
        &self,
        sql: &'static Sql,
    ) -> Result<Option<Statement>, tokio_postgres::Error> {
        let Some(prepared) = &self.prepared else {
            return Ok(None);
        };
        let known = prepared.read().expect(LOCK).get(sql.text()).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let types: Vec<_> = sql.kinds.iter().copied().map(type_of).collect();
        let statement = self.client.prepare_typed(sql.text(), &types).await?;
        let mut prepared = prepared.write().expect(LOCK);
        prepared.insert(sql.text(), statement.clone());
        Ok(Some(statement))
    }
}

pub(crate) fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::Int => Type::INT8,
        Kind::Bool => Type::BOOL,
        Kind::Text => Type::TEXT,
        Kind::Bytes => Type::BYTEA,
        Kind::Ints => Type::INT8_ARRAY,
        Kind::Bools => Type::BOOL_ARRAY,
        Kind::Texts => Type::TEXT_ARRAY,
        Kind::ByteStrings => Type::BYTEA_ARRAY,
    }
}

/// `lock_timeout` rolls back a statement that waits for a lock too long, before
/// its client gives up, so that the client learns that nothing was changed.
/// `statement_timeout` ends a statement after its client has given up.
const SESSION_SETTINGS: &[&str] = &[
    "client_min_messages = 'warning'",
    "default_transaction_isolation = 'read committed'",
    "lock_timeout = '2s'",
    "statement_timeout = '15s'",
    "idle_in_transaction_session_timeout = '15s'",
];

/// The settings of transactions that run commands.
///
/// These transactions log their changes themselves. A replica that is stopped in the middle of
/// one keeps its rows locked for less time than others wait for them. Rows are found by their
/// keys, regardless of statistics: a plan that was made for an empty table would scan a large one.
pub(crate) const COMMIT_GROUP_SETTINGS: &[&str] = &[
    "petstore.logs = 'on'",
    "idle_in_transaction_session_timeout = '750ms'",
    "enable_seqscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    "jit = off",
    "plan_cache_mode = force_generic_plan",
];

/// Fails if the role suppresses warnings. Behind a pooler in transaction mode, session
/// settings do not persist, so the role itself must not suppress them.
async fn require_warnings(client: &Client) -> Result<(), PostgresError> {
    let level = client.query_typed("SHOW client_min_messages", &[]).await?;
    match level[0].get(0) {
        "error" => Err(PostgresError::WarningsSuppressed),
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL warned during the commit; a standby may not have confirmed it")]
pub(super) struct CommitWarning;
