//! Webhooks: receivers of events, and the rules for changing one.

pub mod address;
pub mod delivery;
pub mod schedule;
pub mod secret;
pub mod url;

use jiff::Timestamp;
use serde::Serialize;

use self::{delivery::StoredWebhook, url::WebhookUrl};
use crate::{
    api_key::{Scope, Scopes},
    clock::truncate_to_microseconds,
    event::{EventType, EventTypes},
    idempotency::recorded_rejection,
    invalid::{Invalid, quoted},
    json::{FromObject, KnownMember, Object, Value},
    members::{Patch, all_valid},
    page::{Filter, ListKind, Position, parse_positive_decimal},
    text::check_controls,
};

/// A receiver of events. Its secrets are kept separately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub id: WebhookId,
    pub url: WebhookUrl,
    /// Never empty.
    pub types: EventTypes,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
    #[serde(flatten)]
    pub state: WebhookState,
    /// The API key that created it.
    #[serde(rename = "keyId")]
    pub api_key_id: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The maximum number of webhooks.
pub const MAX_WEBHOOKS: i64 = 1000;

/// A webhook's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WebhookId(i64);

impl WebhookId {
    /// The id of a webhook that is about to be stored.
    pub const UNASSIGNED: Self = Self(0);

    /// Parses an id from a path; `None` if it is not a positive int64.
    pub fn parse(text: &str) -> Option<Self> {
        parse_positive_decimal(text).map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// The filter of the list of webhooks, which has no parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct WebhookFilter;

impl Filter for WebhookFilter {
    const LIST: ListKind = ListKind::Webhooks;
    const SORTABLE: bool = false;

    type Item = StoredWebhook;

    fn position(&self, stored: &StoredWebhook) -> Position {
        Position::of_id(stored.webhook.id.get())
    }
}

/// The reason why a webhook was not created or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookRejection {
    NoSuchWebhook,
    /// The maximum number of webhooks is reached.
    TooMany,
    /// The API key lacks a scope to read the events that the webhook delivers.
    MissingScope(Scope),
}

// A missing scope is not recorded, as in all other operations.
recorded_rejection!(WebhookRejection {
    NoSuchWebhook = "no_such_webhook",
    TooMany = "too_many_webhooks",
} not recorded {
    MissingScope,
});

/// The delivery state of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "disabledReason", rename_all = "lowercase")]
pub enum WebhookState {
    Enabled,
    Disabled(DisabledReason),
}

/// The reason why a webhook is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// A client disabled the webhook.
    Requested,
    /// The receiver responded with 410.
    ReceiverGone,
    /// No delivery has succeeded for days.
    ReceiverFailing,
    /// The next event to deliver was purged from the log.
    EventsExpired,
}

impl DisabledReason {
    pub const ALL: [Self; 4] = [
        Self::Requested,
        Self::ReceiverGone,
        Self::ReceiverFailing,
        Self::EventsExpired,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::ReceiverGone => "receiver_gone",
            Self::ReceiverFailing => "receiver_failing",
            Self::EventsExpired => "events_expired",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn from_store(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text)
    }
}

/// The owner's note about a webhook: at most 200 characters, no control characters. It is kept
/// exactly as sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Description(String);

impl Description {
    pub const MAX_CHARS: usize = 200;

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = |reason: String| Invalid::new("description", reason);
        let length = text.chars().count();
        let max = Self::MAX_CHARS;
        if length > max {
            return Err(invalid(format!(
                "must be at most {max} characters long, got {length}"
            )));
        }
        check_controls(text, char::is_control).map_err(invalid)?;
        Ok(Self(text.into()))
    }

    fn from_json(value: Value) -> Result<Self, Invalid> {
        match value.as_string() {
            Some(text) => Self::parse(&text),
            None => {
                let reason = format!("must be a string or null, got {}", value.describe());
                Err(Invalid::new("description", reason))
            }
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }
}

/// The body of a request to create a webhook. A [`UrlPolicy`](url::UrlPolicy) decides whether the
/// operator allows the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    pub url: WebhookUrl,
    /// `None` stands for every type that the API key can see.
    pub types: Option<EventTypes>,
    pub description: Option<Description>,
}

impl NewWebhook {
    /// Checks that an API key with these scopes may read the events of the webhook. Returns a scope
    /// that the key lacks.
    pub fn check_scopes(&self, scopes: Scopes) -> Result<(), Scope> {
        readable(self.types, scopes).map(drop)
    }

    /// Returns the webhook as created by an API key with these scopes, or a scope that the key
    /// lacks. The types are fixed now: types that are later added to the program, or scopes that
    /// are later added to the key, do not change them.
    pub fn create(
        self,
        id: WebhookId,
        api_key_id: i64,
        scopes: Scopes,
        now: Timestamp,
    ) -> Result<Webhook, Scope> {
        let created_at = truncate_to_microseconds(now);
        Ok(Webhook {
            id,
            url: self.url,
            types: readable(self.types, scopes)?,
            description: self.description,
            state: WebhookState::Enabled,
            api_key_id,
            created_at,
            updated_at: created_at,
        })
    }
}

impl FromObject for NewWebhook {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("url"),
        KnownMember::scalar("types"),
        KnownMember::scalar("description"),
    ];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let url = WebhookUrl::from_json(object.get("url"));
        let types = object.get("types").map(EventTypes::from_json);
        let description = object.get("description").filter(|value| !value.is_null());
        all_valid! { Self;
            url: url,
            types: types.transpose(),
            description: description.map(Description::from_json).transpose(),
        }
    }
}

/// A merge patch (RFC 7396) of a webhook. Members that are absent stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookChange {
    pub url: Option<WebhookUrl>,
    /// Removing the types stands for every type that the API key can see.
    pub types: Patch<EventTypes>,
    pub description: Patch<Description>,
    pub is_enabled: Option<bool>,
}

impl WebhookChange {
    /// Decides the effect of the change on a webhook; `None` if there is none. An API key must be
    /// able to read every event that the webhook delivers, before and after the change: otherwise
    /// it could have events sent to a URL of its own that it cannot read itself.
    pub fn decide(
        &self,
        before: &Webhook,
        scopes: Scopes,
        now: Timestamp,
    ) -> Result<Option<Webhook>, Scope> {
        EventTypes::visible_to(Some(before.types), scopes)?;
        let types = self.types.apply(Some(&before.types));
        let state = match (self.is_enabled, before.state) {
            (Some(true), _) => WebhookState::Enabled,
            (Some(false), WebhookState::Enabled) => {
                WebhookState::Disabled(DisabledReason::Requested)
            }
            // Keep the reason.
            (Some(false) | None, state) => state,
        };
        let after = Webhook {
            id: before.id,
            url: self.url.clone().unwrap_or_else(|| before.url.clone()),
            types: readable(types, scopes)?,
            description: self.description.apply(before.description.as_ref()),
            state,
            api_key_id: before.api_key_id,
            created_at: before.created_at,
            updated_at: before.updated_at,
        };
        if after == *before {
            return Ok(None);
        }
        Ok(Some(Webhook {
            updated_at: before.updated_at.max(truncate_to_microseconds(now)),
            ..after
        }))
    }
}

impl FromObject for WebhookChange {
    const MEMBERS: &[KnownMember] = &[
        KnownMember::scalar("url"),
        KnownMember::scalar("types"),
        KnownMember::scalar("description"),
        KnownMember::scalar("state"),
    ];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let url = object
            .get("url")
            .map(|value| WebhookUrl::from_json(Some(value)));
        let is_enabled = object.get("state").map(is_enabled);
        all_valid! { Self;
            url: url.transpose(),
            types: Patch::read(object.get("types"), EventTypes::from_json),
            description: Patch::read(object.get("description"), Description::from_json),
            is_enabled: is_enabled.transpose(),
        }
    }
}

fn is_enabled(value: Value) -> Result<bool, Invalid> {
    let invalid = |got: &str| {
        let reason = format!("must be one of enabled, disabled, got {got}");
        Invalid::new("state", reason)
    };
    match value.as_string().as_deref() {
        Some("enabled") => Ok(true),
        Some("disabled") => Ok(false),
        Some(other) => Err(invalid(&quoted(other))),
        None => Err(invalid(&value.describe())),
    }
}

/// Returns the types that a webhook delivers for an API key with these scopes: at least one.
fn readable(types: Option<EventTypes>, scopes: Scopes) -> Result<EventTypes, Scope> {
    let types = match types {
        Some(_) => EventTypes::visible_to(types, scopes)?,
        // Who has access is no news for a receiver that does not ask.
        None => {
            let visible = EventTypes::visible_to(None, scopes)?;
            let is_default = |kind: &EventType| kind.scope() != Scope::KeysRead;
            visible.iter().filter(is_default).collect()
        }
    };
    if types.is_empty() {
        return Err(Scope::PetsRead);
    }
    Ok(types)
}

#[cfg(test)]
mod tests;
