//! Connections to PostgreSQL: made when they are needed, shared by many
//! requests at once, replaced when they break.

use std::{
    collections::HashMap,
    sync::{
        Arc, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use tokio_postgres::{
    AsyncMessage, Client, Row, Statement,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};

use super::{
    super::Error,
    url::{PostgresError, Server},
};
use crate::telemetry::metrics::Gauge;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a statement may take, with its way there and back.
const STATEMENT: Duration = Duration::from_secs(10);

/// A statement and the types of its parameters.
pub struct Sql {
    pub text: &'static str,
    pub types: &'static [Type],
}

pub type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A fixed number of connections. Requests go over them in turn and do not
/// wait for each other's answers: the server works through what is sent.
#[derive(Debug)]
pub struct Pool {
    server: Server,
    places: Vec<Mutex<Place>>,
    next: AtomicUsize,
    /// Statements that are on their way.
    running: Gauge,
}

#[derive(Debug, Default)]
struct Place {
    connection: Option<Arc<Connection>>,
    /// When the last attempt that failed began.
    failed: Option<(Instant, Error)>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// The statements that were run before, unless none are to be prepared.
    prepared: Option<RwLock<HashMap<&'static str, Statement>>>,
    /// How many warnings the server has sent.
    warnings: Arc<AtomicU64>,
}

impl Pool {
    pub fn new(server: &Server, size: usize) -> Self {
        Self {
            server: server.clone(),
            places: (0..size).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(0),
            running: Gauge::default(),
        }
    }

    /// How many statements are on their way, or wait for a connection.
    pub fn running(&self) -> i64 {
        self.running.get()
    }

    /// How many connections are there. One that is being made is not.
    pub fn connections(&self) -> i64 {
        let is_open = |place: &&Mutex<Place>| {
            let place = place.try_lock();
            place.is_ok_and(|place| {
                place
                    .connection
                    .as_ref()
                    .is_some_and(|c| !c.client.is_closed())
            })
        };
        self.places.iter().filter(is_open).count() as i64
    }

    /// Runs a statement that changes nothing.
    pub async fn read(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        match self.run(sql, parameters).await? {
            Ok((rows, _)) => Ok(rows),
            Err(trouble) => Err(failure(trouble)),
        }
    }

    /// Runs a statement that is a transaction of its own, and returns once it
    /// is committed.
    ///
    /// Whatever leaves a doubt is an unknown outcome: the connection broke
    /// before the answer, the answer is late, or the server warned. It warns
    /// when it has committed but stopped waiting for its standbys.
    pub async fn write(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let written = self.try_write(sql, parameters).await?;
        written.map_err(failure)
    }

    /// The same. `None` says that it was undone, because another transaction
    /// has first written what `constraint` lets be there only once.
    pub async fn write_unless_there(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
        constraint: &str,
    ) -> Result<Option<Vec<Row>>, Error> {
        match self.try_write(sql, parameters).await? {
            Ok(rows) => Ok(Some(rows)),
            Err(trouble) if trouble.constraint() == Some(constraint) => Ok(None),
            Err(trouble) => Err(failure(trouble)),
        }
    }

    /// The inner error is that the server has undone the statement.
    async fn try_write(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Result<Vec<Row>, PostgresError>, Error> {
        match self.run(sql, parameters).await? {
            Ok((_, true)) => Err(Error::OutcomeUnknown(Arc::new(Warned))),
            Ok((rows, false)) => Ok(Ok(rows)),
            Err(trouble) if is_rolled_back(&trouble) => Ok(Err(trouble)),
            Err(trouble) => Err(Error::OutcomeUnknown(Arc::new(trouble))),
        }
    }

    /// Runs a statement and says whether the server warned meanwhile. The outer
    /// error is that there is no connection: nothing was sent.
    async fn run(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Result<(Vec<Row>, bool), PostgresError>, Error> {
        let _running = self.running.track();
        let (place, connection) = self.connection().await?;
        let before = connection.warnings.load(Ordering::Acquire);
        // In a box: every request has room for all that it may have to wait for,
        // also one that needs no statement, and that room has to be moved.
        let statement = Box::pin(connection.run(sql, parameters));
        Ok(match timeout(STATEMENT, statement).await {
            Ok(Ok(rows)) => {
                let warned = connection.warnings.load(Ordering::Acquire) != before;
                Ok((rows, warned))
            }
            Ok(Err(error)) => {
                self.drop_broken(place, &connection, &error).await;
                Err(error.into())
            }
            Err(late) => {
                self.give_up(place, &connection).await;
                Err(late.into())
            }
        })
    }

    /// The next connection, made if it is not there. Those who wait while it
    /// cannot be made share the failure.
    async fn connection(&self) -> Result<(usize, Arc<Connection>), Error> {
        let asked = Instant::now();
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let mut place = self.places[number].lock().await;
        match (&place.connection, &place.failed) {
            (Some(connection), _) if !connection.client.is_closed() => {
                return Ok((number, connection.clone()));
            }
            (_, Some((began, error))) if *began >= asked => return Err(error.clone()),
            _ => {}
        }
        let began = Instant::now();
        match Box::pin(Connection::open(&self.server)).await {
            Ok(made) => {
                let made = place.connection.insert(Arc::new(made)).clone();
                Ok((number, made))
            }
            Err(trouble) => {
                let error = Error::Unavailable(Arc::new(trouble));
                place.failed = Some((began, error.clone()));
                Err(error)
            }
        }
    }

    /// Gives up a connection that no longer leads to a server that writes, or
    /// whose statements have to be prepared anew.
    async fn drop_broken(
        &self,
        place: usize,
        connection: &Arc<Connection>,
        error: &tokio_postgres::Error,
    ) {
        let spoilt = [
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::FEATURE_NOT_SUPPORTED,
            SqlState::INVALID_SQL_STATEMENT_NAME,
            SqlState::DUPLICATE_PSTATEMENT,
        ];
        if error.code().is_some_and(|code| spoilt.contains(code)) {
            self.drop(place, connection).await;
        }
    }

    /// Leaves a connection whose answer is late, and asks the server to end
    /// the statement rather than to hold its locks for nobody.
    async fn give_up(&self, place: usize, connection: &Arc<Connection>) {
        self.drop(place, connection).await;
        let (server, token) = (self.server.clone(), connection.client.cancel_token());
        tokio::spawn(async move {
            // If it cannot be reached either, its own limit ends the statement.
            let _ = timeout(CONNECT, server.cancel(token)).await;
        });
    }

    async fn drop(&self, place: usize, connection: &Arc<Connection>) {
        let kept = &mut self.places[place].lock().await.connection;
        if kept
            .as_ref()
            .is_some_and(|kept| Arc::ptr_eq(kept, connection))
        {
            *kept = None;
        }
    }
}

impl Connection {
    async fn open(server: &Server) -> Result<Self, PostgresError> {
        let (client, warnings) = connect(server).await?;
        let prepares = server.prepares();
        if prepares {
            timeout(CONNECT, client.batch_execute(SESSION)).await??;
        } else {
            timeout(CONNECT, refuse_muted(&client)).await??;
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
            .expect("nobody panics with the lock")
            .get(sql.text)
            .cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare_typed(sql.text, sql.types).await?;
                let mut prepared = prepared.write().expect("nobody panics with the lock");
                prepared.insert(sql.text, statement.clone());
                statement
            }
        };
        self.client.query(&statement, parameters).await
    }
}

/// What a session of ours is set to. A statement whose client has given up
/// ends soon after. One that waits for a lock that somebody keeps is undone, so
/// that its client is told for certain, and others get their turn.
const SESSION: &str = "SET client_min_messages = 'warning';
     SET default_transaction_isolation = 'read committed';
     SET lock_timeout = '2s';
     SET statement_timeout = '15s';
     SET idle_in_transaction_session_timeout = '15s'";

/// A pooler gives out other sessions than the one that would be set, so there
/// the role must be set so that warnings come.
async fn refuse_muted(client: &Client) -> Result<(), PostgresError> {
    let level = client.query_typed("SHOW client_min_messages", &[]).await?;
    match level[0].get(0) {
        "error" => Err(PostgresError::Muted),
        _ => Ok(()),
    }
}

/// Opens one connection and drives it in the background. Gives it with the
/// count of the server's warnings.
pub async fn connect(server: &Server) -> Result<(Client, Arc<AtomicU64>), PostgresError> {
    let warnings = Arc::new(AtomicU64::new(0));
    let counter = warnings.clone();
    let (client, mut connection) = server.connect().await?;
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        // An error ends the stream; whoever waits for an answer is told too.
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                counter.fetch_add(1, Ordering::Release);
                tracing::warn!(warning = notice.message(), "PostgreSQL warns");
            }
        }
    });
    Ok((client, warnings))
}

/// Sorts a failure after which nothing is changed: is the server away or out of
/// something, or is a statement of this program at fault?
fn failure(trouble: PostgresError) -> Error {
    match trouble.state().map(class) {
        Some("22" | "23" | "42") => Error::Internal(Arc::new(trouble)),
        _ => Error::Unavailable(Arc::new(trouble)),
    }
}

/// Whether the server said that it undid a statement, and that without a doubt.
fn is_rolled_back(trouble: &PostgresError) -> bool {
    let PostgresError::Server { error } = trouble else {
        return false;
    };
    error.as_db_error().is_some_and(|e| {
        let doubtful = e.code().code() == "40003" || class(e.code()) == "08";
        e.parsed_severity() == Some(Severity::Error) && !doubtful
    })
}

/// The first two characters of a state.
fn class(state: &SqlState) -> &str {
    &state.code()[..2]
}

#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL warned while it committed")]
struct Warned;
