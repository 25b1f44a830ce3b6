//! IdempotentRequest requests on SQLite: the record is written in the savepoint of what it
//! records.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        Error,
        replay::{self, Outcome},
    },
    Sqlite, unreadable,
    writer::Effect,
};
use crate::idempotency::{Idempotent, IdempotentRequest};

/// How many names are forgotten in one go, which writers wait for.
const BATCH: u32 = 500;

impl Sqlite {
    pub async fn named_forget(&self, before: Timestamp) -> Result<u64, Error> {
        let before = before.as_microsecond();
        let there = "SELECT EXISTS (SELECT 1 FROM named_requests WHERE created_at < ?1)";
        if !self.is_there(there, before).await? {
            return Ok(0);
        }
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    let forgotten = db
                        .prepare_cached(
                            "DELETE FROM named_requests WHERE (api_key_id, name) IN (
                             SELECT api_key_id, name FROM named_requests
                             WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
                        )?
                        .execute(params![before, BATCH])?;
                    Ok(forgotten as u64)
                },
            )
            .await
    }
}

/// Carries out a request, unless one of its name was carried out before.
/// `outcome` says what to write down, `recall` makes an answer of that again.
pub fn once<T>(
    db: &Connection,
    named: Option<&IdempotentRequest>,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    outcome: impl FnOnce(&T) -> Outcome,
    recall: impl FnOnce(&Connection, Outcome) -> rusqlite::Result<T>,
) -> rusqlite::Result<Idempotent<T>> {
    let Some(named) = named else {
        return work(db).map(Idempotent::Executed);
    };
    let found = db
        .prepare_cached(
            "SELECT request, outcome, item FROM named_requests
             WHERE api_key_id = ?1 AND name = ?2",
        )?
        .query_row(params![named.api_key_id, named.key.as_str()], |row| {
            let name = row.get_ref(1)?.as_str()?;
            let outcome = replay::outcome(name, row.get(2)?).map_err(|e| unreadable(1, e))?;
            Ok((row.get::<_, [u8; 32]>(0)?, outcome))
        })
        .optional()?;
    match found {
        Some((request, _)) if request != named.fingerprint => Ok(Idempotent::KeyReused),
        Some((_, outcome)) => recall(db, outcome).map(Idempotent::Replayed),
        None => {
            let done = work(db)?;
            let (name, item) = replay::columns(outcome(&done));
            db.prepare_cached("INSERT INTO named_requests VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute(params![
                    named.api_key_id,
                    named.key.as_str(),
                    named.fingerprint,
                    name,
                    item,
                    named.received_at.as_microsecond()
                ])?;
            Ok(Idempotent::Executed(done))
        }
    }
}
