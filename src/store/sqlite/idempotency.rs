//! Idempotency keys on SQLite.

use jiff::SignedDuration;
use rusqlite::params;

use super::{super::error::Error, Sqlite};

/// Keys deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: u32 = 500;

statements! {
    ANY_BEFORE(Int) = "SELECT EXISTS (SELECT 1 FROM idempotency_keys WHERE created_at < $1)";
    PURGE(Int, Int) = "DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (
         SELECT api_key_id, key FROM idempotency_keys
         WHERE created_at < $1 ORDER BY created_at LIMIT $2)";
}

impl Sqlite {
    pub(in super::super) async fn idempotency_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        if !self.exists(&ANY_BEFORE, before).await? {
            return Ok(0);
        }
        self.writer
            .run(move |db| {
                let mut purge = db.prepare_cached(PURGE.text())?;
                let purged = purge.execute(params![before, PURGE_BATCH_SIZE])?;
                Ok(purged as u64)
            })
            .await
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rusqlite::Connection;

    use super::*;
    use crate::{
        clock::Clock,
        idempotency::RETENTION,
        store::{Options, Role},
    };

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
                       VALUES (1, ?1, zeroblob(32), 'succeeded', 1, ?2)";
            other.execute(sql, params![key, at.as_microsecond()])
        };
        let days = |days: i64| SignedDuration::from_hours(24 * days);
        // Recorded before the restart, with the right time.
        record(Timestamp::now()).unwrap();
        db.clock.clock = Clock::new(move || Timestamp::now() + days(2));
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 0);
        // Recorded by a clock that is still behind.
        db.clock.clock = Clock::new(move || Timestamp::now() - days(2));
        record(db.clock.clock.now()).unwrap();
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 0);
        record(db.clock.clock.now() - days(2)).unwrap();
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 1);
    }
}
