//! API keys on SQLite.

use std::collections::HashSet;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
    },
    Sqlite, list, read_row,
    writer::Effect,
};
use crate::{
    api_key::{ApiKey, ApiKeyFilter, ApiKeyLabel, ApiKeyUsage, KeyHash, NewApiKey},
    page::{ListQuery, Page, Position},
};

const GET: &str = concat!(
    "SELECT ",
    api_key_columns!(),
    " FROM api_keys WHERE id = ?1"
);

const LIST: &str = concat!("SELECT ", api_key_columns!(), " FROM api_keys ORDER BY id");

const INSERT: &str = concat!(
    "INSERT INTO api_keys (",
    new_api_key_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5)"
);

const REVOKE: &str = "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";

// An earlier expiry stays. SQLite's min() is null if an argument is.
const SHORTEN: &str = "UPDATE api_keys SET expires_at = min(?2, coalesce(expires_at, ?2))
     WHERE id = ?1 AND revoked_at IS NULL";

// SQLite's max() is null if an argument is.
const RECORD_USAGE: &str = "UPDATE api_keys
     SET last_used_at = max(?2, coalesce(last_used_at, ?2)),
         deprecated_calls = deprecated_calls + ?3,
         last_deprecated_call_at =
             coalesce(max(?4, last_deprecated_call_at), ?4, last_deprecated_call_at)
     WHERE id = ?1";

impl Sqlite {
    pub(in super::super) async fn api_key_create(
        &self,
        new: NewApiKey,
        hash: KeyHash,
    ) -> Result<ApiKey, Error> {
        self.writer
            .run(|_| Effect::None, move |db| insert(db, &new, &hash))
            .await
    }

    pub(in super::super) async fn api_key_rotate(
        &self,
        id: i64,
        expires_at: Timestamp,
        successor: NewApiKey,
        hash: KeyHash,
    ) -> Result<Option<ApiKey>, Error> {
        self.writer
            .run(
                |_| Effect::None,
                move |db| match db.execute(SHORTEN, params![id, expires_at.as_microsecond()])? {
                    0 => Ok(None),
                    _ => insert(db, &successor, &hash).map(Some),
                },
            )
            .await
    }

    pub(in super::super) async fn api_key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        self.readers
            .run(|db| db.prepare_cached(LIST)?.query_map([], read_row)?.collect())
            .await
    }

    pub(in super::super) async fn api_key_labels(
        &self,
        query: ListQuery<ApiKeyFilter>,
    ) -> Result<Page<ApiKeyLabel>, Error> {
        let read = move |db: &Connection| {
            let select = Select::api_key_labels(&query, Dialect::Sqlite);
            let position = |key: &ApiKeyLabel| Position::of_id(key.id);
            list(db, &select, &query, |_| true, position)
        };
        self.readers.run(read).await
    }

    pub(in super::super) async fn api_key_revoke(
        &self,
        id: i64,
        now: Timestamp,
    ) -> Result<Option<ApiKey>, Error> {
        self.writer
            .run(
                |_| Effect::None,
                move |db| {
                    let Some(before) = get(db, id).optional()? else {
                        return Ok(None);
                    };
                    db.execute(REVOKE, params![id, now.as_microsecond()])?;
                    Ok(Some(before))
                },
            )
            .await
    }

    pub(in super::super) async fn api_key_record_usage(
        &self,
        usage: Vec<ApiKeyUsage>,
    ) -> Result<HashSet<i64>, Error> {
        self.writer
            .run(
                |_| Effect::None,
                move |db| {
                    let mut update = db.prepare_cached(RECORD_USAGE)?;
                    for key in &usage {
                        let last_call = key.last_deprecated_call_at;
                        update.execute(params![
                            key.id,
                            key.last_used_at.as_microsecond(),
                            key.deprecated_calls,
                            last_call.map(Timestamp::as_microsecond)
                        ])?;
                    }
                    Ok(usage.iter().map(|key| key.id).collect())
                },
            )
            .await
    }
}

fn insert(db: &Connection, new: &NewApiKey, hash: &KeyHash) -> rusqlite::Result<ApiKey> {
    db.execute(
        INSERT,
        params![
            hash.as_bytes(),
            new.name.as_str(),
            new.scopes.to_string(),
            new.created_at.as_microsecond(),
            new.expires_at.map(Timestamp::as_microsecond)
        ],
    )?;
    get(db, db.last_insert_rowid())
}

fn get(db: &Connection, id: i64) -> rusqlite::Result<ApiKey> {
    let (_, key) = db.query_row(GET, [id], read_row::<(KeyHash, ApiKey)>)?;
    Ok(key)
}
