//! Bulk import and export of pets.

use std::pin::pin;

use futures_util::TryStreamExt;
use rusqlite::{Connection, TransactionBehavior};
use tokio_postgres::{Transaction, binary_copy::BinaryCopyInWriter, types::ToSql};

use super::super::{
    error::OpenError,
    postgres::{self, PostgresError},
    rows::{Entity, PetValues},
    sqlite,
    url::DatabaseUrl,
};
use crate::{
    category::{Category, CategoryNames},
    clock::Clock,
    pet::{NewPet, Pet},
};

/// Why an import or export failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot use the database file: {0}")]
    File(#[from] rusqlite::Error),
    #[error("cannot use the database server: {0}")]
    Server(PostgresError),
    /// The caller's callback failed. Nothing was changed.
    #[error("{0}")]
    Aborted(String),
    #[error(
        "the server did not confirm the import; check whether the animals were imported before \
         you try again"
    )]
    Unconfirmed,
}

impl From<tokio_postgres::Error> for BulkError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

/// Every pet, by ascending id.
const ALL_PETS: &str = concat!("SELECT ", pet_columns!(), " FROM pets ORDER BY id");

const ALL_CATEGORIES: &str = concat!("SELECT ", category_columns!(), " FROM categories");

const COPY_PETS: &str = concat!("COPY pets (", new_pet_columns!(), ") FROM STDIN BINARY");

/// Creates the pets that `next` returns until `None`, all in one transaction.
/// Returns their number. `next` gets the names of the categories.
///
/// Fails if an SQLite file is being served: the service would not notice the new pets
/// and keep serving cached responses.
pub(crate) async fn import(
    url: &DatabaseUrl,
    mut next: impl FnMut(&CategoryNames) -> Result<Option<NewPet>, String>,
) -> Result<u64, BulkError> {
    let mut count = 0;
    match url {
        DatabaseUrl::Sqlite(path) => {
            let (mut file, _lock) = sqlite::open_exclusive(path)?;
            let transaction = file
                .db
                .transaction_with_behavior(TransactionBehavior::Immediate)?;
            let names = read_names(&transaction)?;
            let origin = sqlite::Origin {
                api_key_id: None,
                at: Clock::system().now(),
            };
            while let Some(new) = next(&names).map_err(BulkError::Aborted)? {
                sqlite::insert_pet(&transaction, origin, new)?;
                count += 1;
            }
            transaction.commit()?;
            file.checkpoint_and_close();
        }
        DatabaseUrl::Postgres(url) => {
            let (mut client, warnings) = postgres::open_connection(url).await?;
            let transaction = client.transaction().await?;
            let names = load_names(&transaction).await?;
            let sink = transaction.copy_in(COPY_PETS).await?;
            let types = new_pet_columns!(types);
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            while let Some(new) = next(&names).map_err(BulkError::Aborted)? {
                let PetValues {
                    name,
                    search_name,
                    category_id,
                    status,
                } = PetValues::from(&new);
                let search_name = search_name.as_str();
                let row: [&(dyn ToSql + Sync); 4] = [&name, &search_name, &category_id, &status];
                writer.as_mut().write(&row).await?;
                count += 1;
            }
            writer.as_mut().finish().await?;
            if !postgres::commit_confirmed(transaction, &warnings).await {
                return Err(BulkError::Unconfirmed);
            }
        }
    }
    Ok(count)
}

/// Calls `take` with every pet by ascending id, from one snapshot, and with the names of
/// the categories. Returns the number of pets.
pub(crate) async fn export(
    url: &DatabaseUrl,
    mut take: impl FnMut(Pet, &CategoryNames) -> Result<(), String>,
) -> Result<u64, BulkError> {
    let mut count = 0;
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            db.execute_batch("BEGIN")?;
            let names = read_names(&db)?;
            let mut select = db.prepare(ALL_PETS)?;
            for pet in select.query_map([], sqlite::read_row)? {
                take(pet?, &names).map_err(BulkError::Aborted)?;
                count += 1;
            }
        }
        DatabaseUrl::Postgres(url) => {
            let mut client = postgres::open_existing(url).await?;
            let snapshot = postgres::start_snapshot(&mut client).await?;
            let names = load_names(&snapshot).await?;
            let parameters: [&str; 0] = [];
            let mut rows = pin!(snapshot.query_raw(ALL_PETS, parameters).await?);
            while let Some(row) = rows.try_next().await? {
                let pet =
                    Pet::from_row(&row).map_err(|error| BulkError::Aborted(error.to_string()))?;
                take(pet, &names).map_err(BulkError::Aborted)?;
                count += 1;
            }
        }
    }
    Ok(count)
}

fn read_names(db: &Connection) -> rusqlite::Result<CategoryNames> {
    let mut select = db.prepare(ALL_CATEGORIES)?;
    let categories = select.query_map([], sqlite::read_row::<Category>)?;
    categories.collect()
}

async fn load_names(db: &Transaction<'_>) -> Result<CategoryNames, BulkError> {
    let rows = db.query(ALL_CATEGORIES, &[]).await?;
    let categories = rows.iter().map(Category::from_row);
    let names = categories.collect::<Result<_, _>>();
    names.map_err(|error| BulkError::Aborted(error.to_string()))
}
