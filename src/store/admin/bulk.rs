//! Many animals at once: all of them or none into a store, and all of them out.

use std::pin::pin;

use futures_util::TryStreamExt;
use rusqlite::TransactionBehavior;
use tokio_postgres::{
    binary_copy::BinaryCopyInWriter,
    types::{ToSql, Type},
};

use super::super::{DatabaseUrl, OpenError, PostgresError, postgres, sqlite};
use crate::{
    page::Filter,
    pet::{NewPet, Pet, PetStatus},
};

/// Why animals were not taken in or given out.
#[derive(Debug, thiserror::Error)]
pub enum BulkError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot use the file: {0}")]
    File(#[from] rusqlite::Error),
    #[error("cannot use the server: {0}")]
    Server(PostgresError),
    /// Whoever gives or takes the animals has given up. Nothing was changed.
    #[error("{0}")]
    GivenUp(String),
    #[error(
        "the server did not confirm the import; see whether the animals are there before you try \
         again"
    )]
    Unconfirmed,
}

impl From<tokio_postgres::Error> for BulkError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

/// Stores all animals that `next` gives until it gives none, in one
/// transaction; none of them if it fails. Gives how many there were.
///
/// A file must not be served meanwhile: the service would not know of them.
pub async fn import(
    url: &DatabaseUrl,
    mut next: impl FnMut() -> Result<Option<NewPet>, String>,
) -> Result<u64, BulkError> {
    let mut count = 0;
    match url {
        DatabaseUrl::Sqlite(path) => {
            let (mut db, _lock) = sqlite::open_alone(path)?;
            let step = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            while let Some(new) = next().map_err(BulkError::GivenUp)? {
                sqlite::pet_create(&step, new)?;
                count += 1;
            }
            step.commit()?;
        }
        DatabaseUrl::Postgres(url) => {
            let (mut client, warnings) = postgres::open_alone(url).await?;
            let step = client.transaction().await?;
            let copy = "COPY pets (name, category_id, status) FROM STDIN BINARY";
            let sink = step.copy_in(copy).await?;
            let types = [Type::TEXT, Type::INT8, Type::TEXT];
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            while let Some(new) = next().map_err(BulkError::GivenUp)? {
                let (name, status) = (new.name.as_str(), new.status.map(PetStatus::as_str));
                let row: [&(dyn ToSql + Sync); 3] = [&name, &new.category_id, &status];
                writer.as_mut().write(&row).await?;
                count += 1;
            }
            writer.as_mut().finish().await?;
            if !postgres::is_confirmed(step, &warnings).await {
                return Err(BulkError::Unconfirmed);
            }
        }
    }
    Ok(count)
}

/// Gives every animal, by ascending id, as the store was at one moment.
pub async fn export(
    url: &DatabaseUrl,
    mut take: impl FnMut(Pet) -> Result<(), String>,
) -> Result<u64, BulkError> {
    let mut count = 0;
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            let mut select = db.prepare(sqlite::ALL_PETS)?;
            for pet in select.query_map([], sqlite::pet)? {
                take(pet?).map_err(BulkError::GivenUp)?;
                count += 1;
            }
        }
        DatabaseUrl::Postgres(url) => {
            let (client, _) = postgres::open_alone(url).await?;
            let none: [&str; 0] = [];
            let mut rows = pin!(client.query_raw(postgres::ALL_PETS, none).await?);
            while let Some(row) = rows.try_next().await? {
                let pet =
                    postgres::pet(&row).map_err(|error| BulkError::GivenUp(error.to_string()))?;
                take(pet).map_err(BulkError::GivenUp)?;
                count += 1;
            }
        }
    }
    Ok(count)
}
