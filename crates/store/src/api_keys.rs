//! API keys: the commands that change them, and reads.

use std::{collections::HashSet, convert::Infallible};

use jiff::SignedDuration;

use super::{
    Error, Store,
    command::{Command, Lane, NotFound, Recorded, Reply},
    draft::Draft,
    rows::{LoggedChange, Stored},
    table::{Value, columns},
    tables::{ApiKeyRow, Keys, Sequence},
};
use domain::{
    api_key::{
        ApiKey, ApiKeyFilter, ApiKeyUsage, Invitation, KeyGrant, KeyHash, KeyRejection, MAX_KEYS,
        NewApiKey, Scope,
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

/// Creates a key for the operator, who may grant everything.
struct CreateKey {
    new: NewApiKey,
    hash: KeyHash,
}

impl Command for CreateKey {
    type Output = ApiKey;
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<ApiKey, Infallible> {
        Ok(create(draft, self.new.clone(), self.hash))
    }
}

/// A key or an invitation that the holder of another key creates.
struct GrantKey {
    caller: i64,
    grant: KeyGrant,
    kind: GrantKind,
    hash: KeyHash,
    /// The number of valid keys that the service knows of.
    valid_keys: usize,
}

#[derive(Debug, Clone, Copy)]
pub enum GrantKind {
    Key,
    Invitation { replaces: Option<i64> },
}

impl Command for GrantKey {
    type Output = ApiKey;
    type Rejection = KeyRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.caller);
        if let GrantKind::Invitation { replaces } = self.kind {
            keys.api_keys.extend(replaces);
        }
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> KeyResult {
        let now = draft.times.now;
        let caller = valid(draft, self.caller)?;
        ensure_room(self.valid_keys)?;
        let new = match self.kind {
            GrantKind::Key => caller.grant(&self.grant, now)?,
            GrantKind::Invitation { replaces } => {
                let replaced =
                    replaces.map(|id| find(draft, id).ok_or(KeyRejection::NothingToReplace));
                caller.invite(&self.grant, replaced.transpose()?, now)?
            }
        };
        Ok(create(draft, new, self.hash))
    }

    fn recorded(key: &ApiKey) -> Recorded {
        Recorded::of_id(key.id)
    }
}

/// Turns an invitation into a key, and revokes it.
struct ClaimKey {
    id: i64,
    invitation: Invitation,
    hash: KeyHash,
}

impl Command for ClaimKey {
    type Output = ApiKey;
    type Rejection = KeyRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.id);
        keys.api_keys.push(self.invitation.invited_by);
        keys.api_keys.extend(self.invitation.replaces);
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> KeyResult {
        let new = valid(draft, self.id)?.claim(draft.times.now)?;
        valid(draft, self.invitation.invited_by)?;
        for id in [self.id].into_iter().chain(self.invitation.replaces) {
            revoke(draft, id);
        }
        Ok(create(draft, new, self.hash))
    }
}

struct RotateKey {
    /// The key of the caller, if it is not the operator.
    caller: Option<i64>,
    id: i64,
    grace: SignedDuration,
    hash: KeyHash,
    /// The number of valid keys that the service knows of; 0 if the operator rotates.
    valid_keys: usize,
}

impl Command for RotateKey {
    type Output = ApiKey;
    type Rejection = KeyRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.id);
        keys.api_keys.extend(self.caller);
        keys.draw(Sequence::ApiKeys, 1);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> KeyResult {
        let now = draft.times.now;
        let caller = self.caller.map(|id| valid(draft, id)).transpose()?;
        let row = draft.tables.api_keys.get(&self.id);
        let row = row.ok_or(KeyRejection::NoSuchKey)?;
        let successor = row.key.successor(caller, now)?;
        ensure_room(self.valid_keys)?;
        let mut expiring = row.clone();
        let successor = successor.with_id(draft.new_id(Sequence::ApiKeys));
        // An earlier expiry stays.
        let end = successor.created_at + self.grace;
        let expiry = expiring.key.expires_at;
        expiring.key.expires_at = expiry.into_iter().chain([end]).min();
        expiring.key.successor = Some(successor.id);
        draft.put(expiring);
        Ok(insert(draft, successor, self.hash))
    }

    fn recorded(key: &ApiKey) -> Recorded {
        Recorded::of_id(key.id)
    }
}

struct RevokeKey {
    caller: Option<Revoker>,
    id: i64,
}

/// The holder of a key who revokes one.
struct Revoker {
    id: i64,
    /// The other keys that can manage keys: one of them must remain.
    owners: Vec<i64>,
}

impl Command for RevokeKey {
    /// The key as it was before.
    type Output = ApiKey;
    type Rejection = KeyRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.api_keys.push(self.id);
        if let Some(caller) = &self.caller {
            keys.api_keys.push(caller.id);
            keys.api_keys.extend(&caller.owners);
        }
    }

    fn decide(&self, draft: &mut Draft<'_>) -> KeyResult {
        let now = draft.times.now;
        let before = find(draft, self.id).ok_or(KeyRejection::NoSuchKey)?.clone();
        if let Some(caller) = &self.caller {
            valid(draft, caller.id)?.ensure_may_revoke(&before)?;
            let remains = |id: &i64| {
                let other = find(draft, *id).filter(|other| other.is_owner_at(now));
                other.is_some_and(|other| other.can_replace(&before))
            };
            if before.is_owner_at(now) && !caller.owners.iter().any(remains) {
                return Err(KeyRejection::LastOwner);
            }
        }
        revoke(draft, self.id);
        Ok(before)
    }
}

fn find<'a>(draft: &'a Draft<'_>, id: i64) -> Option<&'a ApiKey> {
    draft.tables.api_keys.get(&id).map(|row| &row.key)
}

/// Returns the key of a caller. It may have ended since the service authenticated it.
fn valid<'a>(draft: &'a Draft<'_>, id: i64) -> Result<&'a ApiKey, KeyRejection> {
    let key = find(draft, id).filter(|key| key.is_valid_at(draft.times.now));
    key.ok_or(KeyRejection::CallerEnded)
}

/// Checks that the maximum number of keys is not reached. Services count the keys that they know,
/// so a few more may be created at the same time.
fn ensure_room(valid_keys: usize) -> Result<(), KeyRejection> {
    if valid_keys < MAX_KEYS {
        Ok(())
    } else {
        Err(KeyRejection::TooMany)
    }
}

fn create(draft: &mut Draft<'_>, new: NewApiKey, hash: KeyHash) -> ApiKey {
    let key = new.with_id(draft.new_id(Sequence::ApiKeys));
    insert(draft, key, hash)
}

fn insert(draft: &mut Draft<'_>, key: ApiKey, hash: KeyHash) -> ApiKey {
    let inserted = key.clone();
    draft.put(ApiKeyRow { key, hash });
    inserted
}

fn revoke(draft: &mut Draft<'_>, id: i64) {
    if let Some(row) = draft.tables.api_keys.get(&id) {
        let mut revoked = row.clone();
        revoked.key.revoke(draft.times.now);
        draft.put(revoked);
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
