//! A pool of pipelined PostgreSQL connections: opened on demand, shared by
//! concurrent requests, and replaced when they break.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, timeout},
};
use tokio_postgres::{
    Client, Row, Statement,
    error::SqlState,
    types::{ToSql, Type},
};

use super::{super::error::Error, connect::Connector, error::PostgresError};
use crate::telemetry::metrics::Gauge;

/// How long setting up a session may take.
const SESSION_SETUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request to cancel a statement may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a statement may take, including the network round trip.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A statement and the types of its parameters.
pub(super) struct Sql {
    pub(super) text: &'static str,
    pub(super) types: &'static [Type],
}

impl Sql {
    /// A statement whose text was assembled at run time. It is kept for good: there must
    /// be few of them.
    pub(super) fn interned(text: String, types: impl Iterator<Item = Type>) -> &'static Self {
        static INTERNED: RwLock<BTreeMap<String, &'static Sql>> = RwLock::new(BTreeMap::new());
        const LOCK: &str = "no thread panics while holding the lock";
        if let Some(sql) = INTERNED.read().expect(LOCK).get(&text) {
            return sql;
        }
        let mut interned = INTERNED.write().expect(LOCK);
        interned.entry(text).or_insert_with_key(|text| {
            Box::leak(Box::new(Self {
                text: text.clone().leak(),
                types: types.collect::<Vec<_>>().leak(),
            }))
        })
    }
}

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A fixed number of connections, used round robin. Statements are pipelined:
/// they are sent without waiting for the results of earlier ones.
#[derive(Debug)]
pub(super) struct Pool {
    connector: Connector,
    slots: Vec<Mutex<Slot>>,
    next: AtomicUsize,
    in_flight: Gauge,
    /// Notified after a successful write.
    committed: Option<Arc<Notify>>,
}

/// Room for one connection.
#[derive(Debug, Default)]
struct Slot {
    connection: Option<Arc<Connection>>,
    /// When the last failed attempt to connect started, and its error.
    failed: Option<(Instant, Error)>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// Prepared statements by their text; `None` if they must not be used.
    prepared: Option<RwLock<HashMap<&'static str, Statement>>>,
    /// The number of warnings received from the server.
    warnings: Arc<AtomicU64>,
}

impl Pool {
    pub(super) fn new(connector: &Connector, size: usize) -> Self {
        Self {
            connector: connector.clone(),
            slots: (0..size).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            in_flight: Gauge::default(),
            committed: None,
        }
    }

    /// Notifies `committed` after every successful write.
    pub(super) fn notifying(self, committed: &Arc<Notify>) -> Self {
        Self {
            committed: Some(committed.clone()),
            ..self
        }
    }

    /// The number of statements in flight or waiting for a connection.
    pub(super) fn statements_in_flight(&self) -> i64 {
        self.in_flight.get()
    }

    /// The number of open connections, without those being opened.
    pub(super) fn connections(&self) -> i64 {
        let is_open = |slot: &&Mutex<Slot>| {
            let slot = slot.try_lock();
            slot.is_ok_and(|slot| {
                slot.connection
                    .as_ref()
                    .is_some_and(|c| !c.client.is_closed())
            })
        };
        self.slots.iter().filter(is_open).count() as i64
    }

    /// Runs a read-only statement.
    pub(super) async fn read(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        match self.run(sql, parameters).await? {
            Ok((rows, _)) => Ok(rows),
            Err(error) => Err(error.classify()),
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
        let written = self.try_write(sql, parameters).await?;
        written.map_err(PostgresError::classify)
    }

    /// Like [`write`](Self::write), but returns `None` if the statement was rolled
    /// back because it violated `constraint`: a concurrent transaction inserted
    /// the same key first.
    pub(super) async fn write_unless_conflict(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
        constraint: &str,
    ) -> Result<Option<Vec<Row>>, Error> {
        match self.try_write(sql, parameters).await? {
            Ok(rows) => Ok(Some(rows)),
            Err(error) if error.constraint() == Some(constraint) => Ok(None),
            Err(error) => Err(error.classify()),
        }
    }

    /// The inner error means that the server rolled the statement back.
    async fn try_write(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Result<Vec<Row>, PostgresError>, Error> {
        match self.run(sql, parameters).await? {
            Ok((_, true)) => Err(Error::OutcomeUnknown(Arc::new(CommitWarning))),
            Ok((rows, false)) => {
                if let Some(committed) = &self.committed {
                    committed.notify_one();
                }
                Ok(Ok(rows))
            }
            Err(error) if error.is_rolled_back() => Ok(Err(error)),
            Err(error) => Err(Error::OutcomeUnknown(Arc::new(error))),
        }
    }

    /// Runs a statement. Returns its rows and whether the server warned
    /// meanwhile. The outer error means that there is no connection: nothing was
    /// sent.
    async fn run(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Result<(Vec<Row>, bool), PostgresError>, Error> {
        let _in_flight = self.in_flight.track();
        let (slot, connection) = self.connection().await?;
        let before = connection.warnings.load(Ordering::Acquire);
        // Boxed, so that this future does not enlarge that of every request, including
        // those that are served from memory.
        let statement = Box::pin(connection.run(sql, parameters));
        Ok(match timeout(STATEMENT_TIMEOUT, statement).await {
            Ok(Ok(rows)) => {
                let warned = connection.warnings.load(Ordering::Acquire) != before;
                Ok((rows, warned))
            }
            Ok(Err(error)) => {
                self.discard_if_unusable(slot, &connection, &error).await;
                Err(error.into())
            }
            Err(elapsed) => {
                self.abandon(slot, &connection).await;
                Err(elapsed.into())
            }
        })
    }

    /// Returns the next connection, opening it if necessary. Requests that waited
    /// for a failed attempt share its error.
    async fn connection(&self) -> Result<(usize, Arc<Connection>), Error> {
        let requested = Instant::now();
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.slots.len();
        let mut slot = self.slots[number].lock().await;
        match (&slot.connection, &slot.failed) {
            (Some(connection), _) if !connection.client.is_closed() => {
                return Ok((number, connection.clone()));
            }
            (_, Some((started, error))) if *started >= requested => return Err(error.clone()),
            _ => {}
        }
        let started = Instant::now();
        match Box::pin(Connection::open(&self.connector)).await {
            Ok(opened) => {
                let opened = slot.connection.insert(Arc::new(opened)).clone();
                Ok((number, opened))
            }
            Err(error) => {
                let error = Error::Unavailable(Arc::new(error));
                slot.failed = Some((started, error.clone()));
                Err(error)
            }
        }
    }

    /// Discards a connection to a server that became read-only (after a
    /// failover), or whose prepared statements are no longer valid.
    async fn discard_if_unusable(
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
            self.discard(slot, connection).await;
        }
    }

    /// Discards a connection whose statement timed out, and asks the server to
    /// cancel the statement, so that it releases its locks.
    async fn abandon(&self, slot: usize, connection: &Arc<Connection>) {
        self.discard(slot, connection).await;
        let (connector, token) = (self.connector.clone(), connection.client.cancel_token());
        tokio::spawn(async move {
            // If this fails too, statement_timeout ends the statement.
            let _ = timeout(CANCEL_TIMEOUT, connector.cancel(token)).await;
        });
    }

    async fn discard(&self, slot: usize, connection: &Arc<Connection>) {
        let current = &mut self.slots[slot].lock().await.connection;
        if current
            .as_ref()
            .is_some_and(|current| Arc::ptr_eq(current, connection))
        {
            *current = None;
        }
    }
}

impl Connection {
    async fn open(connector: &Connector) -> Result<Self, PostgresError> {
        let (client, warnings) = connector.connect().await?;
        let prepares = connector.prepares_statements();
        if prepares {
            timeout(
                SESSION_SETUP_TIMEOUT,
                client.batch_execute(SESSION_SETTINGS),
            )
            .await??;
        } else {
            timeout(SESSION_SETUP_TIMEOUT, require_warnings(&client)).await??;
        }
        Ok(Self {
            client,
            prepared: prepares.then(RwLock::default),
            warnings,
        })
    }

    async fn run(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let Some(prepared) = &self.prepared else {
            let types = sql.types.iter().cloned();
            let typed: Vec<_> = parameters.iter().copied().zip(types).collect();
            return self.client.query_typed(sql.text, &typed).await;
        };
        let known = prepared
            .read()
            .expect("no task panics while holding the lock")
            .get(sql.text)
            .cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare_typed(sql.text, sql.types).await?;
                let mut prepared = prepared
                    .write()
                    .expect("no task panics while holding the lock");
                prepared.insert(sql.text, statement.clone());
                statement
            }
        };
        self.client.query(&statement, parameters).await
    }
}

/// `lock_timeout` rolls back a statement that waits for a lock too long, before
/// its client gives up: the client learns for certain that nothing was changed.
/// `statement_timeout` ends a statement after its client has given up.
const SESSION_SETTINGS: &str = "SET client_min_messages = 'warning';
     SET default_transaction_isolation = 'read committed';
     SET lock_timeout = '2s';
     SET statement_timeout = '15s';
     SET idle_in_transaction_session_timeout = '15s'";

/// Behind a pooler in transaction mode, session settings do not persist, so the role
/// itself must not suppress warnings.
async fn require_warnings(client: &Client) -> Result<(), PostgresError> {
    let level = client.query_typed("SHOW client_min_messages", &[]).await?;
    match level[0].get(0) {
        "error" => Err(PostgresError::WarningsSuppressed),
        _ => Ok(()),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL warned during the commit; a standby may not have confirmed it")]
struct CommitWarning;
