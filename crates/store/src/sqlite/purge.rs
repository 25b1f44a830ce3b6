//! Purges rows by age on SQLite.

use jiff::SignedDuration;

use super::{
    super::{error::Error, purge::Purge, table::Value},
    Sqlite,
};

const BATCH_SIZE: u32 = 500;

statements! {
    ANY_KEY(Int) = Purge::IdempotencyKeys.select("$1", 1);
    ANY_DELIVERY(Int) = Purge::FailedDeliveries.select("$1", 1);
    ANY_DELETED_PET(Int) = Purge::DeletedPets.select("$1", 1);
    ANY_PHOTO(Int) = Purge::Photos.select("$1", 1);
    ANY_IMPORT(Int) = Purge::Imports.select("$1", 1);
    KEYS(Int) = delete(Purge::IdempotencyKeys);
    DELIVERIES(Int) = delete(Purge::FailedDeliveries);
    DELETED_PETS(Int) = delete(Purge::DeletedPets);
    PHOTOS(Int) = delete(Purge::Photos);
    IMPORTS(Int) = delete(Purge::Imports);
}

fn delete(purge: Purge) -> String {
    purge.delete(&purge.select("$1", purge.batch_size(BATCH_SIZE)))
}

impl Sqlite {
    pub(crate) async fn purge(
        &self,
        purge: Purge,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let (any, delete) = match purge {
            Purge::IdempotencyKeys => (&ANY_KEY, &KEYS),
            Purge::FailedDeliveries => (&ANY_DELIVERY, &DELIVERIES),
            Purge::DeletedPets => (&ANY_DELETED_PET, &DELETED_PETS),
            Purge::Photos => (&ANY_PHOTO, &PHOTOS),
            Purge::Imports => (&ANY_IMPORT, &IMPORTS),
        };
        let before = Value::Int(self.retained_since(retention).as_microsecond());
        // Usually there are no such rows, and the writer need not wait for the lock of the file.
        if self
            .query::<()>(any, vec![before.clone()])
            .await?
            .is_empty()
        {
            return Ok(0);
        }
        self.write(delete, vec![before]).await
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rusqlite::{Connection, params};

    use super::*;
    use crate::{Options, Role};
    use domain::{clock::Clock, idempotency::RETENTION};

    /// A clock that was wrong at startup and is set afterwards does not make a key look old.
    #[tokio::test]
    async fn the_clock_that_is_behind_decides_what_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options::new(Role::Service);
        let path = folder.path().join("petstore.db");
        let mut db = Sqlite::open(&path, &options).unwrap();
        let other = Connection::open(&path).unwrap();
        other.pragma_update(None, "foreign_keys", false).unwrap();
        let record = |at: Timestamp| {
            let key = at.to_string();
            let sql = "INSERT INTO idempotency_keys
                       VALUES (1, ?1, zeroblob(32), 'succeeded', 1, ?2, NULL)";
            other.execute(sql, params![key, at.as_microsecond()])
        };
        let purged = async |db: &Sqlite| db.purge(Purge::IdempotencyKeys, RETENTION).await;
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        // Recorded before the restart, with the right time.
        record(Timestamp::now()).unwrap();
        db.clock.clock = Clock::new(move || Timestamp::now() + days(2));
        assert_eq!(purged(&db).await.unwrap(), 0);
        // Recorded by a clock that is still behind.
        db.clock.clock = Clock::new(move || Timestamp::now() - days(2));
        record(db.clock.clock.now()).unwrap();
        assert_eq!(purged(&db).await.unwrap(), 0);
        record(db.clock.clock.now() - days(2)).unwrap();
        assert_eq!(purged(&db).await.unwrap(), 1);
    }
}
