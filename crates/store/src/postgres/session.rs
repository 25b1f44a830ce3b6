//! A connection that is used for one transaction, with pipelined statements.

use std::{
    error,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, atomic::Ordering},
    task::Poll,
};

use bytes::BytesMut;
use futures_util::future::{FutureExt, maybe_done};
use tokio::time::timeout;
use tokio_postgres::{
    Row,
    types::{IsNull, ToSql, Type, to_sql_checked},
};

use super::{
    super::{error::Error, sql::Sql, table::Value},
    error::PostgresError,
    pool::{CommitWarning, Connection, Pool, STATEMENT_TIMEOUT},
};

pub(super) static BEGIN: Sql = Sql::new("begin", &[], || "BEGIN".into());
/// Lets a busy machine take its time to decide many changes. The pets of a replica that is stopped
/// in the middle of them stay locked for as long.
pub(super) static ALLOW_PAUSE: Sql = Sql::new("allow_pause", &[], || {
    "SELECT set_config('idle_in_transaction_session_timeout', '10s', true)".into()
});
static COMMIT: Sql = Sql::new("commit", &[], || "COMMIT".into());
/// Makes the server plan all statements of the session again.
pub(super) static DISCARD_PLANS: Sql = Sql::new("discard_plans", &[], || "DISCARD PLANS".into());
static ROLLBACK: Sql = Sql::new("rollback", &[], || "ROLLBACK".into());

/// The reason why a commit group was not committed.
pub(super) enum Failure {
    /// Nothing was changed.
    RolledBack(PostgresError),
    /// A row is not valid. Nothing was changed.
    Corrupt(Error),
    /// The group must not be run again: the outcome of COMMIT is not known, or the server is
    /// not reachable.
    Final(Error),
}

impl Failure {
    /// Returns true if one command may be at fault, so that the others are run without it.
    pub(super) fn is_rejection(&self) -> bool {
        match self {
            Self::RolledBack(error) => error.is_rejection(),
            Self::Corrupt(_) => true,
            Self::Final(_) => false,
        }
    }

    pub(super) fn classify(self) -> Error {
        match self {
            Self::RolledBack(error) => error.into(),
            Self::Corrupt(error) | Self::Final(error) => error,
        }
    }
}

/// A statement of a pipeline.
pub(super) struct Step<'a> {
    sql: &'static Sql,
    parameters: Vec<Parameter<'a>>,
}

#[derive(Debug)]
enum Parameter<'a> {
    One(Value<'a>),
    Array(Vec<Value<'a>>),
}

impl<'a> Step<'a> {
    pub(super) fn commit() -> Self {
        Self::query(&COMMIT, [])
    }

    pub(super) fn query(
        sql: &'static Sql,
        parameters: impl IntoIterator<Item = Value<'a>>,
    ) -> Self {
        Self {
            sql,
            parameters: parameters.into_iter().map(Parameter::One).collect(),
        }
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let parameters = self.parameters.iter();
        parameters.map(|it| it as &(dyn ToSql + Sync)).collect()
    }

    pub(super) fn arrays(sql: &'static Sql, parameters: Vec<Vec<Value<'a>>>) -> Self {
        Self {
            sql,
            parameters: parameters.into_iter().map(Parameter::Array).collect(),
        }
    }
}

/// A connection that no other caller uses.
pub(super) struct Session<'a> {
    pub(super) pool: &'a Pool,
    pub(super) slot: usize,
    pub(super) connection: Arc<Connection>,
}

impl<'a> Session<'a> {
    /// Takes the connection of a pool that has only one caller.
    pub(super) async fn open(pool: &'a Pool) -> Result<Self, Error> {
        let (slot, connection) = pool.connection().await?;
        Ok(Self {
            pool,
            slot,
            connection,
        })
    }

    /// Sends statements without waiting for the results of earlier ones, in order, and returns
    /// their rows. Fails with the first error.
    pub(super) async fn pipeline(
        &self,
        steps: Vec<Step<'_>>,
    ) -> Result<Vec<Vec<Row>>, PostgresError> {
        self.watch(async {
            self.prepare(&steps).await?;
            self.send(&steps).await
        })
        .await
    }

    /// Limits the time that statements take, and discards a connection that is not usable after
    /// them.
    async fn watch<T>(
        &self,
        statements: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        match timeout(STATEMENT_TIMEOUT, statements).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                self.pool
                    .discard_if_unusable(self.slot, &self.connection, &error);
                Err(error.into())
            }
            Err(elapsed) => {
                self.pool.abandon(self.slot, &self.connection);
                Err(elapsed.into())
            }
        }
    }

    /// Prepares statements. This waits for the server, so it happens before the first one is sent.
    async fn prepare(&self, steps: &[Step<'_>]) -> Result<(), tokio_postgres::Error> {
        for step in steps {
            self.connection.prepare(step.sql).await?;
        }
        Ok(())
    }

    async fn send(&self, steps: &[Step<'_>]) -> Result<Vec<Vec<Row>>, tokio_postgres::Error> {
        let parameters: Vec<Vec<_>> = steps.iter().map(Step::parameters).collect();
        let statements = steps.iter().zip(&parameters);
        let mut sent: Vec<_> = statements
            .map(|(step, parameters)| maybe_done(self.connection.run(step.sql, parameters).boxed()))
            .collect();
        // A statement is sent when it is first polled.
        poll_fn(|cx| {
            let mut is_ready = true;
            for statement in &mut sent {
                is_ready &= Pin::new(statement).poll(cx).is_ready();
            }
            if is_ready {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        let results = sent
            .iter_mut()
            .map(|statement| Pin::new(statement).take_output());
        results.map(|result| result.expect("it is ready")).collect()
    }

    /// Sends statements, the last of which commits the transaction.
    ///
    /// The outcome is unknown if the connection broke or timed out before the response, unless
    /// the server had ended the session because its transaction was idle. It is also unknown if
    /// the server sent a warning: with synchronous replication, it warns when it has committed
    /// locally but stopped waiting for its standbys.
    pub(super) async fn commit(&self, steps: Vec<Step<'_>>) -> Result<Vec<Vec<Row>>, Failure> {
        let prepared = self.watch(self.prepare(&steps)).await;
        if let Err(failure) = prepared.map_err(Failure::RolledBack) {
            // COMMIT was not sent.
            self.roll_back(&failure).await;
            return Err(failure);
        }
        let warnings = &self.connection.warnings;
        let before = warnings.load(Ordering::Acquire);
        match self.watch(self.send(&steps)).await {
            Ok(_) if warnings.load(Ordering::Acquire) != before => Err(Failure::Final(
                Error::OutcomeUnknown(Arc::new(CommitWarning)),
            )),
            Ok(rows) => Ok(rows),
            // COMMIT after an error is a rollback.
            Err(error) if error.is_rolled_back() => Err(Failure::RolledBack(error)),
            Err(error) if error.is_closed() && self.connection.was_idle_in_transaction().await => {
                Err(Failure::RolledBack(error))
            }
            Err(error) => Err(Failure::Final(Error::OutcomeUnknown(Arc::new(error)))),
        }
    }

    /// Ends a transaction that has failed without a change.
    pub(super) async fn roll_back(&self, failure: &Failure) {
        // A connection that does not respond was given up, which ends its transaction.
        if !matches!(failure, Failure::RolledBack(PostgresError::Timeout(_))) {
            let _ = self.pipeline(vec![Step::query(&ROLLBACK, [])]).await;
        }
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, ToSqlError> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(int) => int.to_sql(ty, out),
            Self::Bool(bool) => bool.to_sql(ty, out),
            Self::Text(text) => text.to_sql(ty, out),
            Self::Bytes(bytes) => bytes.as_ref().to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT8 | Type::BOOL | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, ToSqlError> {
        match self {
            Self::One(value) => value.to_sql(ty, out),
            Self::Array(values) => values.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        Value::accepts(ty) || Vec::<Value>::accepts(ty)
    }

    to_sql_checked!();
}

type ToSqlError = Box<dyn error::Error + Sync + Send>;
