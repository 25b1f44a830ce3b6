//! API keys on SQLite.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{super::Error, Sqlite, optional_time, time, writer::Effect};
use crate::api_key::{ApiKey, ApiKeyUsage, KeyHash, KeyName, NewApiKey, Scopes};

impl Sqlite {
    pub async fn key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    db.execute(
                        "INSERT INTO api_keys (hash, name, scopes, created_at, expires_at)
                     VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![
                            hash.as_bytes(),
                            new.name.as_str(),
                            new.scopes.to_string(),
                            new.created_at.as_microsecond(),
                            new.expires_at.map(Timestamp::as_microsecond)
                        ],
                    )?;
                    key_by_id(db, db.last_insert_rowid())
                },
            )
            .await
    }

    pub async fn key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        self.readers
            .run(|db| {
                db.prepare_cached(&format!("SELECT {KEY}, hash FROM api_keys ORDER BY id"))?
                    .query_map([], |row| Ok((KeyHash::from_store(row.get(9)?), key(row)?)))?
                    .collect()
            })
            .await
    }

    pub async fn key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<ApiKey>, Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    let Some(key) = key_by_id(db, id).optional()? else {
                        return Ok(None);
                    };
                    db.execute(
                        "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                        params![id, now.as_microsecond()],
                    )?;
                    Ok(Some(key))
                },
            )
            .await
    }

    pub async fn key_used(&self, used: Vec<ApiKeyUsage>) -> Result<(), Error> {
        self.writer
            .run(
                |_| Effect::Unseen,
                move |db| {
                    let mut update = db.prepare_cached(
                        "UPDATE api_keys
                     SET last_used_at = max(?2, coalesce(last_used_at, ?2)),
                         deprecated_calls = deprecated_calls + ?3,
                         deprecated_at = coalesce(max(?4, deprecated_at), ?4, deprecated_at)
                     WHERE id = ?1",
                    )?;
                    for key in used {
                        update.execute(params![
                            key.id,
                            key.last_used_at.as_microsecond(),
                            key.deprecated_calls,
                            key.deprecated_at.map(Timestamp::as_microsecond)
                        ])?;
                    }
                    Ok(())
                },
            )
            .await
    }
}

const KEY: &str = "id, name, scopes, created_at, last_used_at, expires_at, revoked_at,
     deprecated_calls, deprecated_at";

fn key(row: &Row) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey {
        id: row.get(0)?,
        name: KeyName::from_store(row.get(1)?),
        scopes: Scopes::from_store(row.get_ref(2)?.as_str()?),
        created_at: time(row, 3)?,
        last_used_at: optional_time(row, 4)?,
        expires_at: optional_time(row, 5)?,
        revoked_at: optional_time(row, 6)?,
        deprecated_calls: row.get(7)?,
        deprecated_at: optional_time(row, 8)?,
    })
}

fn key_by_id(db: &Connection, id: i64) -> rusqlite::Result<ApiKey> {
    db.query_row(
        &format!("SELECT {KEY} FROM api_keys WHERE id = ?1"),
        [id],
        key,
    )
}
