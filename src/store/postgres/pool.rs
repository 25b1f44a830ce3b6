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
use tokio::sync::Mutex;
use tokio_postgres::{
    AsyncMessage, Client, Row, Statement,
    error::{Severity, SqlState},
    types::{ToSql, Type},
};

use super::{
    super::{Cause, Error},
    url::Server,
};

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
    places: Vec<Mutex<Option<Arc<Connection>>>>,
    next: AtomicUsize,
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
        }
    }

    /// Runs a statement that changes nothing.
    pub async fn read(
        &self,
        sql: &'static Sql,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let (place, connection) = self.connection().await?;
        let rows = tokio::time::timeout(STATEMENT, connection.run(sql, parameters)).await;
        match rows {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                self.drop_broken(place, &connection, &error).await;
                Err(failure(error, Error::Unavailable))
            }
            Err(late) => {
                self.give_up(place, &connection).await;
                Err(Error::Unavailable(Arc::new(late)))
            }
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
        let (place, connection) = self.connection().await?;
        let before = connection.warnings.load(Ordering::Acquire);
        let rows = tokio::time::timeout(STATEMENT, connection.run(sql, parameters)).await;
        match rows {
            Ok(Ok(_)) if connection.warnings.load(Ordering::Acquire) != before => {
                Err(Error::OutcomeUnknown(Arc::new(Warned)))
            }
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => {
                self.drop_broken(place, &connection, &error).await;
                let refused = error
                    .as_db_error()
                    .is_some_and(|e| e.parsed_severity() == Some(Severity::Error));
                Err(match refused {
                    true => failure(error, Error::Unavailable),
                    false => Error::OutcomeUnknown(Arc::new(error)),
                })
            }
            Err(late) => {
                self.give_up(place, &connection).await;
                Err(Error::OutcomeUnknown(Arc::new(late)))
            }
        }
    }

    /// The next connection, made if it is not there.
    async fn connection(&self) -> Result<(usize, Arc<Connection>), Error> {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let mut kept = self.places[place].lock().await;
        match &*kept {
            Some(connection) if !connection.client.is_closed() => Ok((place, connection.clone())),
            _ => {
                let connecting = Connection::open(&self.server);
                let connection = match tokio::time::timeout(CONNECT, connecting).await {
                    Ok(made) => made.map_err(|e| Error::Unavailable(Arc::new(e)))?,
                    Err(late) => return Err(Error::Unavailable(Arc::new(late))),
                };
                Ok((place, kept.insert(Arc::new(connection)).clone()))
            }
        }
    }

    /// Gives up a connection that no longer leads to a server that writes.
    async fn drop_broken(
        &self,
        place: usize,
        connection: &Arc<Connection>,
        error: &tokio_postgres::Error,
    ) {
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
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
            let _ = tokio::time::timeout(CONNECT, server.cancel(token)).await;
        });
    }

    async fn drop(&self, place: usize, connection: &Arc<Connection>) {
        let mut kept = self.places[place].lock().await;
        if kept
            .as_ref()
            .is_some_and(|kept| Arc::ptr_eq(kept, connection))
        {
            *kept = None;
        }
    }
}

impl Connection {
    async fn open(server: &Server) -> Result<Self, tokio_postgres::Error> {
        let (client, warnings) = connect(server).await?;
        let prepares = server.prepares();
        if prepares {
            client.batch_execute(SESSION).await?;
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
/// ends soon after.
const SESSION: &str = "SET statement_timeout = '15s';
     SET idle_in_transaction_session_timeout = '15s'";

/// Opens one connection and drives it in the background. Gives it with the
/// count of the server's warnings.
pub async fn connect(server: &Server) -> Result<(Client, Arc<AtomicU64>), tokio_postgres::Error> {
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
                tracing::warn!(message = notice.message(), "PostgreSQL warns");
            }
        }
    });
    Ok((client, warnings))
}

/// Sorts a failure: is the server away or out of something, or is a statement
/// of this program at fault?
pub fn failure(error: tokio_postgres::Error, away: fn(Cause) -> Error) -> Error {
    // The first two characters are the class.
    let ours = error.code().map(|state| &state.code()[..2]);
    match ours {
        Some("0A" | "22" | "23" | "26" | "42") => Error::Internal(Arc::new(error)),
        _ => away(Arc::new(error)),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("PostgreSQL warned while it committed")]
struct Warned;
