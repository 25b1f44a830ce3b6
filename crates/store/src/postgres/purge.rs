//! Purges rows by age on PostgreSQL.

use jiff::SignedDuration;

use super::{
    super::{error::Error, purge::Purge, table::Value},
    Postgres, now_micros,
};

const BATCH_SIZE: u32 = 1000;

statements! {
    KEYS(Int) = delete(Purge::IdempotencyKeys);
    DELIVERIES(Int) = delete(Purge::FailedDeliveries);
    DELETED_PETS(Int) = delete(Purge::DeletedPets);
    PHOTOS(Int) = delete(Purge::Photos);
    IMPORTS(Int) = delete(Purge::Imports);
}

/// Returns the statement that deletes a batch. Concurrent replicas skip each other's rows.
fn delete(purge: Purge) -> String {
    let before = format!("{} - $1", now_micros());
    let oldest = purge.select(&before, purge.batch_size(BATCH_SIZE));
    purge.delete(&format!("{oldest} FOR UPDATE SKIP LOCKED")) + " RETURNING 1"
}

impl Postgres {
    pub(crate) async fn purge(
        &self,
        purge: Purge,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let delete = match purge {
            Purge::IdempotencyKeys => &KEYS,
            Purge::FailedDeliveries => &DELIVERIES,
            Purge::DeletedPets => &DELETED_PETS,
            Purge::Photos => &PHOTOS,
            Purge::Imports => &IMPORTS,
        };
        let max_age = Value::Int(self.max_age(retention));
        self.write(delete, vec![max_age]).await
    }
}
