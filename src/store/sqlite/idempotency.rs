//! Idempotency keys on SQLite. The record is written in the same savepoint as the
//! change, so both commit or neither does.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        replay,
        rows::{Columns, Row},
    },
    Sqlite,
    writer::Effect,
};
use crate::idempotency::{Idempotent, IdempotentRequest, RecordedRejection};

/// Keys deleted in one transaction. Other writes wait for it.
const PURGE_BATCH_SIZE: u32 = 500;

const FIND: &str = "SELECT fingerprint, outcome, resource_id FROM idempotency_keys
     WHERE api_key_id = ?1 AND key = ?2";

const RECORD: &str = concat!(
    "INSERT INTO idempotency_keys (",
    idempotency_key_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
);

const ANY_BEFORE: &str = "SELECT EXISTS (SELECT 1 FROM idempotency_keys WHERE created_at < ?1)";

const PURGE: &str = "DELETE FROM idempotency_keys WHERE (api_key_id, key) IN (
         SELECT api_key_id, key FROM idempotency_keys
         WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)";

impl Sqlite {
    pub(in super::super) async fn idempotency_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        if !self.exists(ANY_BEFORE, before).await? {
            return Ok(0);
        }
        self.writer
            .run(
                |_| Effect::None,
                move |db| {
                    let purged = db
                        .prepare_cached(PURGE)?
                        .execute(params![before, PURGE_BATCH_SIZE])?;
                    Ok(purged as u64)
                },
            )
            .await
    }
}

/// Executes a change, unless its idempotency key was used before. `at` is the time and
/// `id` the resource id to record, and `replay` restores the result from that id.
pub(super) fn execute_once<T, R: RecordedRejection>(
    db: &Connection,
    request: Option<&IdempotentRequest>,
    at: Timestamp,
    execute: impl FnOnce(&Connection) -> rusqlite::Result<Result<T, R>>,
    id: impl FnOnce(&T) -> i64,
    replay: impl FnOnce(&Connection, i64) -> rusqlite::Result<Result<T, R>>,
) -> rusqlite::Result<Idempotent<Result<T, R>>> {
    let Some(request) = request else {
        return execute(db).map(Idempotent::Executed);
    };
    let record = db
        .prepare_cached(FIND)?
        .query_row(params![request.api_key_id, request.key.as_str()], |row| {
            let mut columns = Columns::of(row);
            // Another operation's outcome may be one that this one does not know.
            if columns.hash()? != request.fingerprint {
                return Ok(None);
            }
            let (outcome, resource_id) = (columns.text()?, columns.optional_int()?);
            let outcome = replay::from_columns(outcome, resource_id)
                .map_err(|e| <rusqlite::Row as Row>::corrupt(1, e))?;
            Ok(Some(outcome))
        })
        .optional()?;
    match record {
        Some(None) => Ok(Idempotent::KeyReused),
        Some(Some(Ok(id))) => Ok(Idempotent::Replayed(replay(db, id)?)),
        Some(Some(Err(rejection))) => Ok(Idempotent::Replayed(Err(rejection))),
        None => {
            let result = execute(db)?;
            if matches!(&result, Err(rejection) if !rejection.is_recorded()) {
                return Ok(Idempotent::Executed(result));
            }
            let recorded = result.as_ref().map(id).map_err(|rejection| *rejection);
            let (outcome, resource_id) = replay::to_columns(recorded);
            db.prepare_cached(RECORD)?.execute(params![
                request.api_key_id,
                request.key.as_str(),
                request.fingerprint,
                outcome,
                resource_id,
                at.as_microsecond()
            ])?;
            Ok(Idempotent::Executed(result))
        }
    }
}

#[cfg(test)]
mod tests {
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
        db.clock = Clock::new(move || Timestamp::now() + days(2));
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 0);
        // Recorded by a clock that is still behind.
        db.clock = Clock::new(move || Timestamp::now() - days(2));
        record(db.clock.now()).unwrap();
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 0);
        record(db.clock.now() - days(2)).unwrap();
        assert_eq!(db.idempotency_purge(RETENTION).await.unwrap(), 1);
    }
}
