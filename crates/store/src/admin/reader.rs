//! A store that is open for reading, whether or not it is being served. Nothing is changed.

use std::{fs, pin::pin};

use futures_util::TryStreamExt;
use rusqlite::{ErrorCode, params_from_iter};
use tokio_postgres::{Client, types::Type};

use super::super::{
    error::{Error, MissingRow, OpenError, sqlite_reason},
    postgres::{self, PostgresError},
    sql::Sql,
    sqlite,
    table::{Record, Value},
    url::DatabaseUrl,
};

/// The reason why a store could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the database file: {}", sqlite_reason(.0))]
    File(#[from] rusqlite::Error),
    #[error("cannot read from the database server: {0}")]
    Server(PostgresError),
    /// A row is not valid.
    #[error(transparent)]
    Row(#[from] Error),
    /// The caller's callback failed.
    #[error("{0}")]
    Aborted(String),
}

impl From<tokio_postgres::Error> for ReadError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

pub(super) enum Reader {
    File(sqlite::ReadOnly),
    Server(Client),
}

impl Reader {
    /// Opens a store whose schema is current.
    pub(super) async fn open(url: &DatabaseUrl) -> Result<Self, OpenError> {
        Ok(match url {
            DatabaseUrl::Sqlite(path) => Self::File(sqlite::open_current(path)?),
            DatabaseUrl::Postgres(url) => {
                Self::Server(postgres::open_connection_to_current(url).await?)
            }
        })
    }

    /// Opens a store. Returns `None` if it has not been created yet.
    pub(super) async fn open_if_created(url: &DatabaseUrl) -> Result<Option<Self>, OpenError> {
        let DatabaseUrl::Sqlite(path) = url else {
            return match Self::open(url).await {
                Err(OpenError::Empty(_)) => Ok(None),
                opened => opened.map(Some),
            };
        };
        // `petstore serve` would create a database there.
        if fs::symlink_metadata(path).map_or(true, |file| file.is_file() && file.len() == 0) {
            return Ok(None);
        }
        match sqlite::open_if_created(path) {
            // Its creation was interrupted; the import rolls it back.
            Err(OpenError::Database { cause, .. })
                if cause.sqlite_error_code() == Some(ErrorCode::ReadOnly) =>
            {
                Ok(None)
            }
            opened => Ok(opened?.map(Self::File)),
        }
    }

    /// Starts a snapshot, from which everything is read from now on.
    pub(super) async fn start_snapshot(&self) -> Result<(), ReadError> {
        match self {
            Self::File(db) => db.execute_batch("BEGIN")?,
            Self::Server(client) => {
                let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                client.batch_execute(begin).await?;
            }
        }
        Ok(())
    }

    /// Calls `take` with every row.
    pub(super) async fn each<T: Record>(
        &self,
        sql: &str,
        take: impl FnMut(T) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        self.each_of(sql, Vec::new(), take).await
    }

    /// Reads the rows of a statement with parameters.
    pub(super) async fn query<T: Record>(
        &self,
        sql: &Sql,
        parameters: Vec<Value<'static>>,
    ) -> Result<Vec<T>, ReadError> {
        let types = sql.kinds.iter().map(|kind| postgres::type_of(*kind));
        let parameters = parameters.into_iter().zip(types).collect();
        let mut all = Vec::new();
        let push = |row| {
            all.push(row);
            Ok(())
        };
        self.each_of(sql.text(), parameters, push).await?;
        Ok(all)
    }

    async fn each_of<T: Record>(
        &self,
        sql: &str,
        parameters: Vec<(Value<'static>, Type)>,
        mut take: impl FnMut(T) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        match self {
            Self::File(db) => {
                let mut select = db.prepare(sql)?;
                let values = parameters.into_iter().map(|(value, _)| value);
                for row in select.query_map(params_from_iter(values), sqlite::read_row)? {
                    take(row?)?;
                }
            }
            Self::Server(client) => {
                let mut rows = pin!(client.query_typed_raw(sql, parameters).await?);
                while let Some(row) = rows.try_next().await? {
                    take(T::from_row(&row)?)?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn all<T: Record>(&self, sql: &str) -> Result<Vec<T>, ReadError> {
        let mut all = Vec::new();
        let push = |row| {
            all.push(row);
            Ok(())
        };
        self.each(sql, push).await?;
        Ok(all)
    }

    /// Reads the only row.
    pub(super) async fn one<T: Record>(&self, sql: &str) -> Result<T, ReadError> {
        let row = self.all(sql).await?.pop();
        Ok(row.ok_or(MissingRow).map_err(Error::from)?)
    }
}
