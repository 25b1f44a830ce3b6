//! Granting access: the rules by which the holder of an API key lets others in, and takes access
//! away.
//!
//! A key grants only scopes that it has, for no longer than it lasts itself.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{ApiKey, KeyName, NewApiKey, Scope, Scopes};
use crate::{
    clock::truncate_to_microseconds,
    idempotency::RecordedRejection,
    invalid::{Invalid, quoted},
    json::{FromObject, KnownMember, Object, Value},
    members::all_valid,
};

/// The key that an invitation turns into. It has the name of the invitation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Invitation {
    pub scopes: Scopes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The key that made the invitation, which ends with it.
    pub invited_by: i64,
    /// A key that is revoked when the invitation is claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i64>,
}

impl Invitation {
    /// The time within which an invitation has to be claimed.
    const LIFETIME: SignedDuration = SignedDuration::from_hours(24);
}

/// The access that a client asks for: the body of a request to create a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGrant {
    pub name: KeyName,
    pub scopes: Scopes,
    /// `None` stands for as long as possible.
    pub expires_at: Option<Timestamp>,
}

impl FromObject for KeyGrant {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("name"),
        KnownMember::scalar("scopes"),
        KnownMember::scalar("expiresAt"),
    ];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let expiry = object.get("expiresAt").filter(|value| !value.is_null());
        all_valid! { Self;
            name: KeyName::from_json(object.get("name")),
            scopes: Scopes::from_json(object.get("scopes")),
            expires_at: expiry.map(expiry_from_json).transpose(),
        }
    }
}

/// The body of a request to create an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvitation {
    pub grant: KeyGrant,
    pub replaces: Option<i64>,
}

impl FromObject for NewInvitation {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("name"),
        KnownMember::scalar("scopes"),
        KnownMember::scalar("expiresAt"),
        KnownMember::scalar("replaces"),
    ];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let replaces = object.get("replaces").filter(|value| !value.is_null());
        let replaces = replaces.map(|value| {
            let id = value.as_int64().filter(|id| *id > 0);
            id.ok_or_else(|| {
                let reason = format!("must be the id of a key, got {}", value.describe());
                vec![Invalid::new("replaces", reason)]
            })
        });
        match (KeyGrant::from_object(object), replaces.transpose()) {
            (Ok(grant), Ok(replaces)) => Ok(Self { grant, replaces }),
            (grant, replaces) => {
                let invalid = grant.err().into_iter().chain(replaces.err());
                Err(invalid.flatten().collect())
            }
        }
    }
}

/// The body of a request to rotate a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The time for which the old key stays valid.
    pub grace: SignedDuration,
}

impl Rotation {
    pub const MAX_GRACE: SignedDuration = SignedDuration::from_hours(366 * 24);
    pub const DEFAULT_GRACE: SignedDuration = SignedDuration::from_hours(24);
}

impl FromObject for Rotation {
    const MEMBERS: &[KnownMember] = &[KnownMember::scalar("graceSeconds")];
    const IS_OPTIONAL: bool = true;

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let Some(value) = object.get("graceSeconds") else {
            let grace = Self::DEFAULT_GRACE;
            return Ok(Self { grace });
        };
        let max = Self::MAX_GRACE.as_secs();
        let seconds = value
            .as_int64()
            .filter(|seconds| (0..=max).contains(seconds));
        let grace = seconds.map(SignedDuration::from_secs).ok_or_else(|| {
            let got = value.describe();
            let reason = format!("must be an integer from 0 to {max}, got {got}");
            vec![Invalid::new("graceSeconds", reason)]
        })?;
        Ok(Self { grace })
    }
}

fn expiry_from_json(value: Value) -> Result<Timestamp, Invalid> {
    let text = value.as_string();
    let expiry = text.as_deref().and_then(parse_rfc3339);
    let expiry = expiry.filter(|expiry| *expiry > Timestamp::now());
    expiry.map(truncate_to_microseconds).ok_or_else(|| {
        let got = text.map_or_else(|| value.describe(), |text| quoted(&text));
        let reason =
            format!("must be a time in the future, such as 2030-01-31T18:00:00Z, got {got}");
        Invalid::new("expiresAt", reason)
    })
}

/// Parses a time in the format of RFC 3339. The parser also accepts other forms.
fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let (date_and_time, rest) = text.split_at_checked("2030-01-31T18:00:00".len())?;
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|c: char| c.is_ascii_digit()),
        None => rest,
    };
    let has_offset = offset == "Z" || (offset.len() == "+01:00".len() && offset.contains(':'));
    let is_rfc3339 = has_offset && date_and_time.as_bytes()[10] == b'T';
    text.parse().ok().filter(|_| is_rfc3339)
}

/// The reason why access was not granted or taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRejection {
    /// The key of the caller is no longer valid.
    CallerEnded,
    NoSuchKey,
    /// The key is no longer valid, or an invitation.
    NotRotatable,
    /// It was rotated before, and this key has replaced it.
    Rotated(i64),
    /// The caller lacks a scope that it would grant, or that the other key has.
    MissingScope(Scope),
    /// The caller expires earlier, at this time.
    OutlastsCaller(Timestamp),
    /// No other key could take its place.
    LastOwner,
    /// The maximum number of keys is reached.
    TooMany,
    /// The key that an invitation replaces does not exist.
    NothingToReplace,
    /// The key that an invitation replaces can manage keys, and the new one could not take its
    /// place.
    WeakerThanReplaced,
}

/// None is recorded: a retry is decided again.
impl RecordedRejection for KeyRejection {}

impl ApiKey {
    fn end(&self) -> Timestamp {
        self.expires_at.unwrap_or(Timestamp::MAX)
    }

    /// Returns the scopes of the key, or of the one that it turns into.
    pub fn reach(&self) -> Scopes {
        let invitation = self.invitation.as_ref();
        invitation.map_or(self.scopes, |invitation| invitation.scopes)
    }

    pub fn is_owner_at(&self, now: Timestamp) -> bool {
        self.scopes.has(Scope::KeysWrite) && self.is_valid_at(now)
    }

    /// Returns true if the key can do everything that another one can, for at least as long.
    pub fn can_replace(&self, other: &Self) -> bool {
        self.ensure_scopes(other.scopes).is_ok() && self.end() >= other.end()
    }

    fn ensure_scopes(&self, others: Scopes) -> Result<(), KeyRejection> {
        let missing = others.without(self.scopes).iter().next();
        missing.map_or(Ok(()), |scope| Err(KeyRejection::MissingScope(scope)))
    }

    /// Returns the key that this one creates.
    pub fn grant(&self, grant: &KeyGrant, now: Timestamp) -> Result<NewApiKey, KeyRejection> {
        self.ensure_scopes(grant.scopes)?;
        if grant.expires_at.is_some_and(|expiry| expiry > self.end()) {
            return Err(KeyRejection::OutlastsCaller(self.end()));
        }
        Ok(NewApiKey {
            name: grant.name.clone(),
            scopes: grant.scopes,
            created_at: now,
            expires_at: grant.expires_at.or(self.expires_at),
            invitation: None,
        })
    }

    /// Returns the invitation that this key creates. `replaced` is the key that it replaces.
    pub fn invite(
        &self,
        grant: &KeyGrant,
        replaced: Option<&Self>,
        now: Timestamp,
    ) -> Result<NewApiKey, KeyRejection> {
        let granted = self.grant(grant, now)?;
        if let Some(replaced) = replaced {
            self.ensure_scopes(replaced.reach())?;
            let can_replace = granted.clone().with_id(0).can_replace(replaced);
            if replaced.is_owner_at(now) && !can_replace {
                return Err(KeyRejection::WeakerThanReplaced);
            }
        }
        let claimed_by = granted.created_at + Invitation::LIFETIME;
        let end = granted.expires_at.unwrap_or(claimed_by);
        Ok(NewApiKey {
            scopes: Scopes::CLAIM,
            expires_at: Some(end.min(claimed_by)),
            invitation: Some(Invitation {
                scopes: granted.scopes,
                expires_at: granted.expires_at,
                invited_by: self.id,
                replaces: replaced.map(|key| key.id),
            }),
            ..granted
        })
    }

    /// Returns the key that this invitation turns into.
    pub fn claim(&self, now: Timestamp) -> Result<NewApiKey, KeyRejection> {
        match &self.invitation {
            Some(invitation) if self.is_valid_at(now) => Ok(NewApiKey {
                name: self.name.clone(),
                scopes: invitation.scopes,
                created_at: now,
                expires_at: invitation.expires_at,
                invitation: None,
            }),
            _ => Err(KeyRejection::CallerEnded),
        }
    }

    /// Returns the successor of this key, with the same name, scopes and lifetime. `caller` is the
    /// key that rotates it, unless a command does.
    pub fn successor(
        &self,
        caller: Option<&Self>,
        now: Timestamp,
    ) -> Result<NewApiKey, KeyRejection> {
        if let Some(successor) = self.successor {
            return Err(KeyRejection::Rotated(successor));
        }
        if !self.is_valid_at(now) || self.invitation.is_some() {
            return Err(KeyRejection::NotRotatable);
        }
        if let Some(caller) = caller {
            caller.ensure_scopes(self.scopes)?;
            if self.end() > caller.end() {
                return Err(KeyRejection::OutlastsCaller(caller.end()));
            }
        }
        let lifetime = self.expires_at.map(|at| at.duration_since(self.created_at));
        let expiry = lifetime.and_then(|lifetime| now.checked_add(lifetime).ok());
        let latest = caller.and_then(|caller| caller.expires_at);
        Ok(NewApiKey {
            name: self.name.clone(),
            scopes: self.scopes,
            created_at: now,
            expires_at: expiry.into_iter().chain(latest).min(),
            invitation: None,
        })
    }

    /// Checks that this key may revoke another one, or itself.
    pub fn ensure_may_revoke(&self, other: &Self) -> Result<(), KeyRejection> {
        if self.id == other.id {
            return Ok(());
        }
        self.ensure_scopes(other.reach())
    }
}

#[cfg(test)]
mod tests;
