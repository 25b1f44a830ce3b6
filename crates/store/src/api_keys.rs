//! API keys: the commands that change them, and reads.

use std::{collections::HashSet, convert::Infallible};

use jiff::Timestamp;

use super::{
    Error, Store,
    command::{Command, Draft, Lane, NotFound},
    rows::Stored,
    table::columns,
    tables::{ApiKeyRow, Keys, Sequence},
};
use domain::{
    api_key::{ApiKey, ApiKeyFilter, ApiKeyLabel, ApiKeyUsage, KeyHash, NewApiKey},
    page::{ListQuery, Page},
};

statements! {
    LIST() = format!("SELECT {} FROM api_keys ORDER BY id", columns::<ApiKeyRow>());
}

struct CreateKey {
    new: NewApiKey,
    hash: KeyHash,
}

impl CreateKey {
    fn create(&self, draft: &mut Draft<'_>) -> ApiKey {
        let key = self.new.clone().with_id(draft.new_id(Sequence::ApiKeys));
        draft.put(ApiKeyRow {
            key: key.clone(),
            hash: self.hash,
        });
        key
    }
}

impl Command for CreateKey {
    type Output = ApiKey;
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<ApiKey, Infallible> {
        Ok(self.create(draft))
    }
}

struct RotateKey {
    id: i64,
    expires_at: Timestamp,
    successor: CreateKey,
}

impl Command for RotateKey {
    type Output = ApiKey;
    type Rejection = NotFound;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.id);
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<ApiKey, NotFound> {
        let before = draft
            .tables
            .api_keys
            .get(&self.id)
            .filter(|row| row.key.revoked_at.is_none())
            .ok_or(NotFound)?;
        let mut expiring = before.clone();
        // An earlier expiry stays.
        let expires_at = before.key.expires_at.unwrap_or(Timestamp::MAX);
        expiring.key.expires_at = Some(expires_at.min(self.expires_at));
        draft.put(expiring);
        Ok(self.successor.create(draft))
    }
}

struct RevokeKey {
    id: i64,
    now: Timestamp,
}

impl Command for RevokeKey {
    /// The key as it was before.
    type Output = ApiKey;
    type Rejection = NotFound;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<ApiKey, NotFound> {
        let before = draft.tables.api_keys.get(&self.id).ok_or(NotFound)?.clone();
        let mut revoked = before.clone();
        revoked.key.revoked_at = before.key.revoked_at.or(Some(self.now));
        draft.put(revoked);
        Ok(before.key)
    }
}

struct RecordUsage(ApiKeyUsage);

impl Command for RecordUsage {
    const LANE: Lane = Lane::Bulk;

    type Output = i64;
    type Rejection = NotFound;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.0.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<i64, NotFound> {
        let Self(usage) = self;
        let before = draft.tables.api_keys.get(&usage.id).ok_or(NotFound)?;
        let mut used = before.clone();
        let key = &mut used.key;
        key.last_used_at = key.last_used_at.max(Some(usage.last_used_at));
        key.deprecated_calls += usage.deprecated_calls;
        let last_call = usage.last_deprecated_call_at;
        key.last_deprecated_call_at = key.last_deprecated_call_at.max(last_call);
        draft.put(used);
        Ok(usage.id)
    }
}

impl Stored for ApiKeyRow {}

impl Store {
    /// Creates an API key and returns it with its new id.
    pub async fn api_key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        let created = self.execute_once(None, CreateKey { new, hash }).await?;
        Ok(created.unwrap_or_else(|never| match never {}))
    }

    /// Lists every API key by ascending id, including revoked and expired ones.
    pub async fn api_key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        let rows: Vec<ApiKeyRow> = self.query(&LIST, Vec::new()).await?;
        Ok(rows.into_iter().map(|row| (row.hash, row.key)).collect())
    }

    /// Lists the names of API keys, including revoked and expired ones.
    pub async fn api_key_labels(
        &self,
        query: ListQuery<ApiKeyFilter>,
    ) -> Result<Page<ApiKeyLabel>, Error> {
        self.list_all(query).await
    }

    /// Revokes an API key and returns it as it was before; `None` if there is no
    /// such key. Revoking again keeps the time of the first revocation.
    pub async fn api_key_revoke(&self, id: i64, now: Timestamp) -> Result<Option<ApiKey>, Error> {
        Ok(self.execute_once(None, RevokeKey { id, now }).await?.ok())
    }

    /// Creates the successor of a key, which itself expires at `expires_at`, unless it does
    /// so earlier. `None` if there is no such key, or it is revoked.
    pub async fn api_key_rotate(
        &self,
        id: i64,
        expires_at: Timestamp,
        successor: NewApiKey,
        hash: KeyHash,
    ) -> Result<Option<ApiKey>, Error> {
        let rotate = RotateKey {
            id,
            expires_at,
            successor: CreateKey {
                new: successor,
                hash,
            },
        };
        Ok(self.execute_once(None, rotate).await?.ok())
    }

    /// Records the usage of API keys. Returns the ids of the keys that were updated: those
    /// that another transaction has locked are left out.
    pub async fn api_key_record_usage(
        &self,
        usage: Vec<ApiKeyUsage>,
    ) -> Result<HashSet<i64>, Error> {
        let recorded = self.execute_all(usage.into_iter().map(RecordUsage)).await?;
        Ok(recorded.into_iter().collect())
    }
}
