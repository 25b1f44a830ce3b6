//! The commands that change API keys.

use std::convert::Infallible;

use jiff::SignedDuration;

use crate::{
    command::{Command, Lane, NotFound, RecordedResult},
    draft::Draft,
    row_keys::{Keys, Sequence},
    tables::ApiKeyRow,
};
use domain::api_key::{
    ApiKey, ApiKeyUsage, Invitation, KeyGrant, KeyHash, KeyRejection, MAX_KEYS, NewApiKey,
};

type KeyResult = Result<ApiKey, KeyRejection>;

/// Creates a key for the operator, who may grant everything.
pub struct CreateKey {
    pub new: NewApiKey,
    pub hash: KeyHash,
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
pub struct GrantKey {
    pub caller: i64,
    pub grant: KeyGrant,
    pub kind: GrantKind,
    pub hash: KeyHash,
    /// The number of valid keys that the service knows of.
    pub valid_keys: usize,
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

    fn recorded(key: &ApiKey) -> RecordedResult {
        RecordedResult::of_id(key.id)
    }
}

/// Turns an invitation into a key, and revokes it.
pub struct ClaimKey {
    pub id: i64,
    pub invitation: Invitation,
    pub hash: KeyHash,
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

pub struct RotateKey {
    /// The key of the caller, if it is not the operator.
    pub caller: Option<i64>,
    pub id: i64,
    pub grace: SignedDuration,
    pub hash: KeyHash,
    /// The number of valid keys that the service knows of; 0 if the operator rotates.
    pub valid_keys: usize,
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

    fn recorded(key: &ApiKey) -> RecordedResult {
        RecordedResult::of_id(key.id)
    }
}

pub struct RevokeKey {
    pub caller: Option<Revoker>,
    pub id: i64,
}

/// The holder of a key who revokes one.
pub struct Revoker {
    pub id: i64,
    /// The other keys that can manage keys: one of them must remain.
    pub owners: Vec<i64>,
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

pub struct RecordUsage(pub ApiKeyUsage);

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
