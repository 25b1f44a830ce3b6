//! API keys on PostgreSQL.

use std::collections::HashSet;

use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::{Entity, Row},
    },
    Postgres,
    error::MissingRow,
    pool::{Parameters, Sql},
};
use crate::{
    api_key::{ApiKey, ApiKeyFilter, ApiKeyLabel, ApiKeyUsage, KeyHash, NewApiKey},
    page::{ListQuery, Page, Position},
};

impl Postgres {
    pub(in super::super) async fn api_key_create(
        &self,
        new: NewApiKey,
        hash: KeyHash,
    ) -> Result<ApiKey, Error> {
        let (created, expires) = (
            new.created_at.as_microsecond(),
            new.expires_at.map(Timestamp::as_microsecond),
        );
        let (hash, name) = (hash.as_bytes().as_slice(), new.name.as_str());
        let scopes = new.scopes.to_string();
        let columns: Parameters = &[&hash, &name, &scopes, &created, &expires];
        let rows = self.background.write(&CREATE, columns).await?;
        let (_, key) = <(KeyHash, ApiKey)>::from_row(rows.first().ok_or(MissingRow)?)?;
        Ok(key)
    }

    pub(in super::super) async fn api_key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        let rows = self.reads.read(&LIST, &[]).await?;
        rows.iter().map(Entity::from_row).collect()
    }

    pub(in super::super) async fn api_key_labels(
        &self,
        query: ListQuery<ApiKeyFilter>,
    ) -> Result<Page<ApiKeyLabel>, Error> {
        let select = Select::api_key_labels(&query, Dialect::Postgres);
        let position = |key: &ApiKeyLabel| Position::of_id(key.id);
        self.list(select, query.limit, position).await
    }

    pub(in super::super) async fn api_key_revoke(
        &self,
        id: i64,
        now: Timestamp,
    ) -> Result<Option<ApiKey>, Error> {
        let parameters: Parameters = &[&id, &now.as_microsecond()];
        let rows = self.background.write(&REVOKE, parameters).await?;
        let before = rows
            .first()
            .map(<(KeyHash, ApiKey)>::from_row)
            .transpose()?;
        Ok(before.map(|(_, key)| key))
    }

    pub(in super::super) async fn api_key_rotate(
        &self,
        id: i64,
        expires_at: Timestamp,
        successor: NewApiKey,
        hash: KeyHash,
    ) -> Result<Option<ApiKey>, Error> {
        let (created, expires) = (
            successor.created_at.as_microsecond(),
            successor.expires_at.map(Timestamp::as_microsecond),
        );
        let (hash, name) = (hash.as_bytes().as_slice(), successor.name.as_str());
        let (scopes, end) = (successor.scopes.to_string(), expires_at.as_microsecond());
        let parameters: Parameters = &[&hash, &name, &scopes, &created, &expires, &id, &end];
        let rows = self.background.write(&ROTATE, parameters).await?;
        let created = rows
            .first()
            .map(<(KeyHash, ApiKey)>::from_row)
            .transpose()?;
        Ok(created.map(|(_, key)| key))
    }

    pub(in super::super) async fn api_key_record_usage(
        &self,
        usage: Vec<ApiKeyUsage>,
    ) -> Result<HashSet<i64>, Error> {
        let column =
            |of: fn(&ApiKeyUsage) -> Option<i64>| -> Vec<_> { usage.iter().map(of).collect() };
        let ids = column(|key| Some(key.id));
        let last_used = column(|key| Some(key.last_used_at.as_microsecond()));
        let calls = column(|key| Some(key.deprecated_calls));
        let last_calls = column(|key| key.last_deprecated_call_at.map(Timestamp::as_microsecond));
        let columns: Parameters = &[&ids, &last_used, &calls, &last_calls];
        let recorded = self.background.write(&RECORD_USAGE, columns).await?;
        recorded.iter().map(|row| row.int(0)).collect()
    }
}

static LIST: Sql = Sql {
    text: concat!("SELECT ", api_key_columns!(), " FROM api_keys ORDER BY id"),
    types: &[],
};

static CREATE: Sql = Sql {
    text: concat!(
        "INSERT INTO api_keys (",
        new_api_key_columns!(),
        ") VALUES ($1, $2, $3, $4, $5) RETURNING ",
        api_key_columns!()
    ),
    types: new_api_key_columns!(types),
};

/// An earlier expiry stays: `least` ignores nulls.
static ROTATE: Sql = Sql {
    text: concat!(
        "WITH rotated AS (
             UPDATE api_keys SET expires_at = least(expires_at, $7)
             WHERE id = $6 AND revoked_at IS NULL RETURNING id
         )
         INSERT INTO api_keys (",
        new_api_key_columns!(),
        ") SELECT $1, $2, $3, $4, $5 FROM rotated RETURNING ",
        api_key_columns!()
    ),
    types: &[
        Type::BYTEA,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::INT8,
    ],
};

/// Returns the key as it was before.
static REVOKE: Sql = Sql {
    text: concat!(
        "WITH before AS (SELECT * FROM api_keys WHERE id = $1 FOR UPDATE)
         UPDATE api_keys SET revoked_at = coalesce(api_keys.revoked_at, $2)
         FROM before WHERE api_keys.id = before.id
         RETURNING ",
        api_key_columns!("before")
    ),
    types: &[Type::INT8, Type::INT8],
};

/// Skips keys that another transaction has locked, so that orders still expire on this
/// connection. Returns the others.
static RECORD_USAGE: Sql = Sql {
    text: "WITH usage AS MATERIALIZED (
               SELECT * FROM unnest($1, $2, $3, $4)
               AS usage (id, last_used_at, calls, last_call_at)
           ), unlocked AS MATERIALIZED (
               SELECT id FROM api_keys WHERE id IN (SELECT id FROM usage)
               FOR NO KEY UPDATE SKIP LOCKED
           )
           UPDATE api_keys
           SET last_used_at = greatest(api_keys.last_used_at, usage.last_used_at),
               deprecated_calls = api_keys.deprecated_calls + usage.calls,
               last_deprecated_call_at = greatest(last_deprecated_call_at, usage.last_call_at)
           FROM usage JOIN unlocked USING (id)
           WHERE api_keys.id = usage.id
           RETURNING api_keys.id",
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};
