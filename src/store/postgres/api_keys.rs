//! API keys on PostgreSQL.

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::Error,
    NoRow, Postgres, optional_time,
    pool::{Parameters, Sql},
    time, unreadable,
};
use crate::api_key::{ApiKey, ApiKeyUsage, KeyHash, KeyName, NewApiKey, Scopes};

impl Postgres {
    pub async fn key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        let (created, expires) = (
            new.created_at.as_microsecond(),
            new.expires_at.map(Timestamp::as_microsecond),
        );
        let (hash, name) = (hash.as_bytes().as_slice(), new.name.as_str());
        let scopes = new.scopes.to_string();
        let rows = self
            .chores
            .write(&KEY_CREATE, &[&hash, &name, &scopes, &created, &expires])
            .await?;
        rows.first().map_or(Err(unreadable(NoRow)), key)
    }

    pub async fn key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        let rows = self.pool.read(&KEYS, &[]).await?;
        rows.iter()
            .map(|row| {
                let hash: &[u8] = row.get(9);
                let hash = hash.try_into().map_err(unreadable)?;
                Ok((KeyHash::from_store(hash), key(row)?))
            })
            .collect()
    }

    pub async fn key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<ApiKey>, Error> {
        let rows = self
            .chores
            .write(&KEY_REVOKE, &[&id, &now.as_microsecond()])
            .await?;
        rows.first().map(key).transpose()
    }

    pub async fn key_used(&self, used: Vec<ApiKeyUsage>) -> Result<(), Error> {
        let column =
            |of: fn(&ApiKeyUsage) -> Option<i64>| -> Vec<_> { used.iter().map(of).collect() };
        let ids = column(|key| Some(key.id));
        let times = column(|key| Some(key.last_used_at.as_microsecond()));
        let calls = column(|key| Some(key.deprecated_calls));
        let called = column(|key| key.deprecated_at.map(Timestamp::as_microsecond));
        let columns: Parameters = &[&ids, &times, &calls, &called];
        self.chores.write(&KEY_USED, columns).await.map(drop)
    }
}

static KEYS: Sql = Sql {
    text: "SELECT id, name, scopes, created_at, last_used_at, expires_at, revoked_at,
                  deprecated_calls, deprecated_at, hash
           FROM api_keys ORDER BY id",
    types: &[],
};

static KEY_CREATE: Sql = Sql {
    text: "INSERT INTO api_keys (hash, name, scopes, created_at, expires_at)
           VALUES ($1, $2, $3, $4, $5)
           RETURNING id, name, scopes, created_at, last_used_at, expires_at, revoked_at,
                     deprecated_calls, deprecated_at",
    types: &[Type::BYTEA, Type::TEXT, Type::TEXT, Type::INT8, Type::INT8],
};

/// Gives the key as it was before.
static KEY_REVOKE: Sql = Sql {
    text: "WITH before AS (SELECT * FROM api_keys WHERE id = $1 FOR UPDATE)
           UPDATE api_keys SET revoked_at = coalesce(api_keys.revoked_at, $2)
           FROM before WHERE api_keys.id = before.id
           RETURNING before.id, before.name, before.scopes, before.created_at,
                     before.last_used_at, before.expires_at, before.revoked_at,
                     before.deprecated_calls, before.deprecated_at",
    types: &[Type::INT8, Type::INT8],
};

static KEY_USED: Sql = Sql {
    text: "UPDATE api_keys
           SET last_used_at = greatest(last_used_at, used.time),
               deprecated_calls = deprecated_calls + used.calls,
               deprecated_at = greatest(deprecated_at, used.called)
           FROM unnest($1, $2, $3, $4) AS used (id, time, calls, called)
           WHERE api_keys.id = used.id",
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

fn key(row: &Row) -> Result<ApiKey, Error> {
    Ok(ApiKey {
        id: row.get(0),
        name: KeyName::from_store(row.get(1)),
        scopes: Scopes::from_store(row.get(2)),
        created_at: time(row.get(3))?,
        last_used_at: optional_time(row.get(4))?,
        expires_at: optional_time(row.get(5))?,
        revoked_at: optional_time(row.get(6))?,
        deprecated_calls: row.get(7),
        deprecated_at: optional_time(row.get(8))?,
    })
}
