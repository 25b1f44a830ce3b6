//! Purges rows by age, in small batches, because other writes wait for each batch.

use jiff::SignedDuration;

use super::{Error, Store};
use domain::import::MAX_REMEMBERED;

/// Rows that are deleted when they are old.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purge {
    IdempotencyKeys,
    /// Deliveries that were given up.
    FailedDeliveries,
    /// Pets that were deleted, in the register.
    DeletedPets,
    /// Photos that no pet shows, with their parts.
    Photos,
    /// Imports. The oldest are deleted earlier if there are more than the number that is kept.
    Imports,
}

impl Purge {
    /// Returns the table, its key, and the column with the time of a row.
    fn table(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::IdempotencyKeys => ("idempotency_keys", "api_key_id, key", "created_at"),
            Self::FailedDeliveries => (
                "webhook_deliveries",
                "webhook_id, sequence",
                "last_attempt_at",
            ),
            Self::DeletedPets => ("deleted_pets", "id", "deleted_at"),
            Self::Photos => ("photos", "id", "removed_at"),
            Self::Imports => ("imports", "digest", "updated_at"),
        }
    }

    /// The number of rows that are deleted at a time, given that of small rows.
    pub(super) fn batch_size(self, of_small_rows: u32) -> u32 {
        match self {
            // Each has up to a few megabytes.
            Self::Photos => 16,
            _ => of_small_rows,
        }
    }

    /// Selects the keys of the oldest rows with a time before `before`.
    pub(super) fn select(self, before: &str, limit: u32) -> String {
        let (table, key, time) = self.table();
        let is_old = match self {
            Self::IdempotencyKeys | Self::DeletedPets | Self::Photos => {
                format!("{time} < {before}")
            }
            Self::FailedDeliveries => format!("state = 'failed' AND {time} < {before}"),
            Self::Imports => format!(
                "{time} < {before} OR {key} NOT IN (
                     SELECT {key} FROM {table} ORDER BY {time} DESC LIMIT {MAX_REMEMBERED})"
            ),
        };
        format!("SELECT {key} FROM {table} WHERE {is_old} ORDER BY {time} LIMIT {limit}")
    }

    /// Deletes the rows whose keys are selected.
    pub(super) fn delete(self, selected: &str) -> String {
        let (table, key, _) = self.table();
        format!("DELETE FROM {table} WHERE ({key}) IN ({selected})")
    }
}

/// Each purge deletes a batch of rows that are older than `retention`, and returns the number
/// deleted; 0 if none are left.
impl Store {
    pub async fn idempotency_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        on_database!(self, db => db.purge(Purge::IdempotencyKeys, retention).await)
    }

    /// Deletes deliveries that were given up.
    pub async fn delivery_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        on_database!(self, db => db.purge(Purge::FailedDeliveries, retention).await)
    }

    /// Removes deleted pets from the register.
    pub async fn deleted_pet_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        on_database!(self, db => db.purge(Purge::DeletedPets, retention).await)
    }

    /// Deletes photos that no pet shows.
    pub async fn photo_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        on_database!(self, db => db.purge(Purge::Photos, retention).await)
    }

    /// Deletes records of imports, and the oldest ones if there are too many.
    pub async fn import_purge(&self, retention: SignedDuration) -> Result<u64, Error> {
        on_database!(self, db => db.purge(Purge::Imports, retention).await)
    }
}
