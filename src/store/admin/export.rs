//! Export of all pets or orders, and the names of categories.

use std::{fs, pin::pin};

use futures_util::TryStreamExt;
use rusqlite::{Connection, ErrorCode};
use tokio_postgres::{Client, GenericClient, types::ToSql};

use super::super::{
    error::{OpenError, sqlite_reason},
    postgres::{self, PostgresError},
    sql::Sql,
    sqlite,
    table::{Record, Table, columns},
    url::DatabaseUrl,
};
use crate::{
    category::{Category, CategoryNames},
    order::Order,
    pet::Pet,
};

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExportError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the database file: {}", sqlite_reason(.0))]
    File(#[from] rusqlite::Error),
    #[error("cannot read from the database server: {0}")]
    Server(PostgresError),
    /// A row cannot be read, or the caller's callback failed.
    #[error("{0}")]
    Aborted(String),
}

impl From<tokio_postgres::Error> for ExportError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

statements! {
    COUNT_PETS() = "SELECT CAST(sum(pets) AS bigint) FROM counts";
    COUNT_ORDERS() = "SELECT CAST(sum(orders_placed + orders_completed + orders_cancelled
                                     + orders_returned) AS bigint) FROM counts";
    ALL_CATEGORIES() = format!("SELECT {} FROM categories", columns::<Category>());
}

/// Calls `start` with the number of pets, and `take` with every pet by ascending id and the
/// names of the categories, all from one snapshot. Returns the number of pets.
pub(crate) async fn export_pets(
    url: &DatabaseUrl,
    start: impl FnMut(u64),
    take: impl FnMut(Pet, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ExportError> {
    export(url, &COUNT_PETS, start, take).await
}

/// Like [`export_pets`], for orders.
pub(crate) async fn export_orders(
    url: &DatabaseUrl,
    start: impl FnMut(u64),
    take: impl FnMut(Order, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ExportError> {
    export(url, &COUNT_ORDERS, start, take).await
}

/// `total` counts the rows.
async fn export<T: Table>(
    url: &DatabaseUrl,
    total: &Sql,
    mut start: impl FnMut(u64),
    mut take: impl FnMut(T, &CategoryNames) -> Result<(), String>,
) -> Result<u64, ExportError> {
    let mut count = 0;
    let rows = format!("SELECT {} FROM {} ORDER BY id", columns::<T>(), T::NAME);
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            db.execute_batch("BEGIN")?;
            let names = read_names(&db)?;
            start(db.query_row(total.text(), [], |row| row.get::<_, i64>(0))? as u64);
            let mut select = db.prepare(&rows)?;
            for row in select.query_map([], sqlite::read_row)? {
                take(row?, &names).map_err(ExportError::Aborted)?;
                count += 1;
            }
        }
        DatabaseUrl::Postgres(url) => {
            let mut client = postgres::open_existing(url).await?;
            let snapshot = postgres::start_snapshot(&mut client).await?;
            let names = load_names(&snapshot).await?;
            let total = snapshot.query_one(total.text(), &[]).await?;
            start(total.get::<_, i64>(0) as u64);
            let parameters: [&(dyn ToSql + Sync); 0] = [];
            let mut rows = pin!(snapshot.query_raw(&rows, parameters).await?);
            while let Some(row) = rows.try_next().await? {
                let row =
                    T::from_row(&row).map_err(|error| ExportError::Aborted(error.to_string()))?;
                take(row, &names).map_err(ExportError::Aborted)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

/// The names of all categories; none if there is no database yet. Changes nothing.
pub(crate) async fn category_names(url: &DatabaseUrl) -> Result<CategoryNames, ExportError> {
    match Existing::open(url).await? {
        Some(Existing::File(db)) => Ok(read_names(&db)?),
        Some(Existing::Server(client)) => load_names(&client).await,
        None => Ok(CategoryNames::default()),
    }
}

/// A store that exists, opened for reading.
pub(super) enum Existing {
    File(sqlite::ReadOnly),
    Server(Client),
}

impl Existing {
    /// Changes nothing; `None` if there is no database yet.
    pub(super) async fn open(url: &DatabaseUrl) -> Result<Option<Self>, OpenError> {
        match url {
            DatabaseUrl::Sqlite(path) => {
                // `petstore serve` would create a database there.
                if fs::symlink_metadata(path).map_or(true, |file| file.is_file() && file.len() == 0)
                {
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
            DatabaseUrl::Postgres(url) => match postgres::open_connection_to_current(url).await {
                Err(OpenError::Empty(_)) => Ok(None),
                opened => Ok(Some(Self::Server(opened?))),
            },
        }
    }
}

fn read_names(db: &Connection) -> rusqlite::Result<CategoryNames> {
    let mut select = db.prepare(ALL_CATEGORIES.text())?;
    let categories = select.query_map([], sqlite::read_row::<Category>)?;
    categories.collect()
}

async fn load_names(db: &impl GenericClient) -> Result<CategoryNames, ExportError> {
    let rows = db.query(ALL_CATEGORIES.text(), &[]).await?;
    let categories = rows.iter().map(Category::from_row);
    let names = categories.collect::<Result<_, _>>();
    names.map_err(|error| ExportError::Aborted(error.to_string()))
}
