//! API keys: the commands that change them, and reads.

mod commands;

use std::collections::HashSet;

use jiff::SignedDuration;

use super::{
    Error, Store,
    command::Reply,
    rows::{LoggedChange, Stored},
    table::{Value, columns},
    tables::ApiKeyRow,
};
pub use commands::GrantKind;
use commands::{ClaimKey, CreateKey, GrantKey, RecordUsage, RevokeKey, Revoker, RotateKey};
use domain::{
    api_key::{
        ApiKey, ApiKeyFilter, ApiKeyUsage, Invitation, KeyGrant, KeyHash, KeyRejection, NewApiKey,
        Scope,
    },
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
};

type KeyResult = Result<ApiKey, KeyRejection>;

statements! {
    LIST() = format!("SELECT {} FROM api_keys ORDER BY id", columns::<ApiKeyRow>());
    GET(Int) = format!("SELECT {} FROM api_keys WHERE id = $1", columns::<ApiKey>());
}

impl Stored for ApiKeyRow {
    /// Uses of a key are not events.
    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let after = &after?.key;
        let kind = match before.map(|before| &before.key) {
            None => EventType::KeyCreated,
            Some(before) if before.revoked_at != after.revoked_at => EventType::KeyRevoked,
            Some(before) if before.successor != after.successor => EventType::KeyRotated,
            Some(_) => return None,
        };
        let without_use = ApiKey {
            last_used_at: None,
            ..after.clone()
        };
        Some(LoggedChange::new(kind, after.id, &without_use))
    }
}

impl Store {
    /// Creates an API key and returns it with its new id.
    pub async fn api_key_create(&self, new: NewApiKey, hash: KeyHash) -> Result<ApiKey, Error> {
        let created = self.execute_once(None, CreateKey { new, hash }).await?;
        Ok(created.unwrap_or_else(|never| match never {}))
    }

    /// Creates a key or an invitation for the holder of another key. A retry gets its current
    /// state.
    pub async fn api_key_grant(
        &self,
        caller: i64,
        grant: KeyGrant,
        kind: GrantKind,
        hash: KeyHash,
        valid_keys: usize,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<KeyResult>, Error> {
        let grant = GrantKey {
            caller,
            grant,
            kind,
            hash,
            valid_keys,
        };
        let reply = self.execute(Some(caller), grant, request).await?;
        self.api_key_result(reply).await
    }

    /// Turns an invitation into a key, and revokes the invitation and the key that it replaces.
    pub async fn api_key_claim(
        &self,
        id: i64,
        invitation: Invitation,
        hash: KeyHash,
    ) -> Result<KeyResult, Error> {
        let claim = ClaimKey {
            id,
            invitation,
            hash,
        };
        self.execute_once(Some(id), claim).await
    }

    /// Lists every API key by ascending id, including revoked and expired ones.
    pub async fn api_key_list(&self) -> Result<Vec<(KeyHash, ApiKey)>, Error> {
        let rows: Vec<ApiKeyRow> = self.query(&LIST, Vec::new()).await?;
        Ok(rows.into_iter().map(|row| (row.hash, row.key)).collect())
    }

    /// Lists API keys by pages, including revoked and expired ones.
    pub async fn api_key_page(
        &self,
        query: ListQuery<ApiKeyFilter>,
    ) -> Result<Page<ApiKey>, Error> {
        self.list_all(query).await
    }

    pub async fn api_key_get(&self, id: i64) -> Result<Option<ApiKey>, Error> {
        self.find(&GET, vec![Value::Int(id)]).await
    }

    /// Revokes an API key and returns it as it was before. Revoking again keeps the time of the
    /// first revocation. `caller` is the key that revokes it, unless the operator does.
    pub async fn api_key_revoke(&self, id: i64, caller: Option<i64>) -> Result<KeyResult, Error> {
        let revoker = match caller {
            Some(caller) => {
                let keys = self.api_key_list().await?.into_iter().map(|(_, key)| key);
                let owners = keys.filter(|key| {
                    key.scopes.has(Scope::KeysWrite) && key.revoked_at.is_none() && key.id != id
                });
                Some(Revoker {
                    id: caller,
                    owners: owners.map(|key| key.id).collect(),
                })
            }
            None => None,
        };
        let revoke = RevokeKey {
            caller: revoker,
            id,
        };
        self.execute_once(caller, revoke).await
    }

    /// Creates the successor of a key, which itself expires after a grace period, unless it does so
    /// earlier. `caller` is the key that rotates it, unless the operator does.
    pub async fn api_key_rotate(
        &self,
        id: i64,
        caller: Option<i64>,
        grace: SignedDuration,
        hash: KeyHash,
        valid_keys: usize,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<KeyResult>, Error> {
        let rotate = RotateKey {
            caller,
            id,
            grace,
            hash,
            valid_keys,
        };
        let reply = self.execute(caller, rotate, request).await?;
        self.api_key_result(reply).await
    }

    async fn api_key_result(
        &self,
        reply: Reply<ApiKey, KeyRejection>,
    ) -> Result<Idempotent<KeyResult>, Error> {
        let read = async |id| Ok(self.api_key_get(id).await?.ok_or(KeyRejection::NoSuchKey));
        reply.or_replay(read).await
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
