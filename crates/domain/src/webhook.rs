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
    const LIST: ListKind = ListKind(b'w');
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
mod tests {
    use super::*;
    use crate::invalid::join_messages;

    const NOW: Timestamp = Timestamp::constant(100, 1_999);

    fn parse<T: FromObject>(body: &str) -> Result<T, String> {
        let object = Object::parse(body.as_bytes()).unwrap();
        T::from_object(&object).map_err(|invalid| join_messages(&invalid))
    }

    fn new(body: &str) -> NewWebhook {
        parse(body).unwrap()
    }

    fn change(body: &str) -> WebhookChange {
        parse(body).unwrap()
    }

    fn scopes(scopes: &[Scope]) -> Scopes {
        scopes.iter().copied().collect()
    }

    fn webhook(body: &str) -> Webhook {
        new(body)
            .create(WebhookId(7), 3, Scopes::all(), NOW)
            .unwrap()
    }

    #[test]
    fn a_webhook_is_shown_as_json() {
        let mut webhook = webhook(
            r#"{"url":"https://example.com/?a=b","types":["pet.updated","order.placed"],
                "description":"Stock ✓","secret":"whsec_"}"#,
        );
        let json = |webhook: &Webhook| serde_json::to_string(webhook).unwrap();
        assert_eq!(
            json(&webhook),
            r#"{"id":7,"url":"https://example.com/?a=b","types":["pet.updated","order.placed"],"description":"Stock ✓","state":"enabled","keyId":3,"createdAt":"1970-01-01T00:01:40.000001Z","updatedAt":"1970-01-01T00:01:40.000001Z"}"#
        );
        webhook.description = None;
        for reason in DisabledReason::ALL {
            webhook.state = WebhookState::Disabled(reason);
            let json = json(&webhook);
            let state = format!(
                r#""state":"disabled","disabledReason":"{}""#,
                reason.as_str()
            );
            assert!(json.contains(&state), "{json}");
            assert!(!json.contains("description"), "{json}");
            assert_eq!(DisabledReason::from_store(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn a_new_webhook_reports_every_error() {
        let url = r#""url":"https://example.com""#;
        let types = "types: must be an array of one or more of pet.created, pet.updated, \
                     pet.deleted, order.placed, order.updated, order.completed, order.cancelled, \
                     order.returned, category.updated, category.deleted, key.created, key.rotated, \
                     key.revoked, got";
        for (body, expected) in [
            ("{}".into(), "url: required; must be a URL".into()),
            (
                r#"{"url":null}"#.into(),
                "url: must be a string with a URL, got null".into(),
            ),
            (
                format!(r#"{{{url},"types":null}}"#),
                format!("{types} null"),
            ),
            (
                format!(r#"{{{url},"types":"pet.created"}}"#),
                format!("{types} a string"),
            ),
            (
                format!(r#"{{{url},"types":{{}}}}"#),
                format!("{types} an object"),
            ),
            (
                format!(r#"{{{url},"types":[]}}"#),
                format!("{types} an empty array"),
            ),
            (
                format!(r#"{{{url},"types":[7]}}"#),
                format!("{types} an array with 7"),
            ),
            (
                format!(r#"{{{url},"types":["pet"]}}"#),
                format!("{types} \"pet\""),
            ),
            (
                format!(r#"{{{url},"types":["pet.created","pet.created"]}}"#),
                "types: must not contain pet.created more than once".into(),
            ),
            (
                format!(r#"{{{url},"description":7}}"#),
                "description: must be a string or null, got 7".into(),
            ),
            (
                format!(r#"{{{url},"description":"a\u0085"}}"#),
                "description: must not contain control characters, got U+0085".into(),
            ),
            (
                format!(r#"{{{url},"description":"{}"}}"#, "é".repeat(201)),
                "description: must be at most 200 characters long, got 201".into(),
            ),
            (
                r#"{"url":"https://","types":[],"description":{}}"#.into(),
                format!(
                    "url: must contain a host; {types} an empty array; description: must be a \
                     string or null, got an object"
                ),
            ),
        ] {
            assert_eq!(parse::<NewWebhook>(&body), Err(expected), "{body}");
        }
        let longest = format!(r#"{{{url},"description":"{}"}}"#, "é".repeat(200));
        assert!(new(&longest).description.is_some());
        let none = new(&format!(r#"{{{url},"description":null}}"#));
        assert_eq!((none.types, none.description), (None, None));
    }

    #[test]
    fn a_change_reports_every_error() {
        let expected = "url: must be a string with a URL, got null; description: must be a string \
                        or null, got a boolean; state: must be one of enabled, disabled, got \"on\"";
        let body = r#"{"url":null,"description":true,"state":"on"}"#;
        assert_eq!(parse::<WebhookChange>(body), Err(expected.into()));
        let state = "state: must be one of enabled, disabled, got null";
        assert_eq!(
            parse::<WebhookChange>(r#"{"state":null}"#),
            Err(state.into())
        );
        assert!(parse::<WebhookChange>(r#"{"types":[]}"#).is_err());
    }

    #[test]
    fn a_webhook_delivers_only_what_the_key_can_read() {
        use Scope::*;
        let all = r#"{"url":"https://example.com"}"#;
        let orders = r#"{"url":"https://example.com","types":["order.placed","pet.created"]}"#;
        for (body, granted, expected) in [
            (all, &[PetsRead, OrdersRead][..], Ok(10)),
            (all, &[PetsRead, OrdersWrite], Ok(5)),
            (all, &[OrdersRead], Ok(5)),
            (all, &[PetsWrite, OrdersWrite], Err(PetsRead)),
            (orders, &[PetsRead, OrdersRead], Ok(2)),
            (orders, &[PetsRead], Err(OrdersRead)),
            (orders, &[OrdersRead], Err(PetsRead)),
        ] {
            let created = new(body).create(WebhookId(1), 3, scopes(granted), NOW);
            let visible = created.map(|webhook| {
                let mut types = webhook.types.iter();
                assert!(types.all(|kind| scopes(granted).has(kind.scope())));
                webhook.types.iter().count()
            });
            assert_eq!(visible, expected, "{body} {granted:?}");
        }
    }

    #[test]
    fn a_change_changes_what_it_names() {
        let before =
            webhook(r#"{"url":"https://a.example","types":["pet.created"],"description":"a"}"#);
        let later = Timestamp::constant(200, 0);
        let changed = |body, at| change(body).decide(&before, Scopes::all(), at).unwrap();
        let with = |change: fn(&mut Webhook)| {
            let mut after = before.clone();
            after.updated_at = later;
            change(&mut after);
            Some(after)
        };
        for (body, expected) in [
            ("{}", None),
            (
                r#"{"url":"https://a.example","types":["pet.created"],"description":"a","state":"enabled"}"#,
                None,
            ),
            (
                r#"{"url":"https://b.example"}"#,
                with(|w| w.url = WebhookUrl::parse("https://b.example").unwrap()),
            ),
            (
                r#"{"types":["order.placed"]}"#,
                with(|w| w.types = [EventType::OrderPlaced].into_iter().collect()),
            ),
            // All but those about keys.
            (
                r#"{"types":null}"#,
                with(|w| w.types = EventTypes::visible_to(None, Scopes::all_but_keys()).unwrap()),
            ),
            (r#"{"description":null}"#, with(|w| w.description = None)),
            (
                r#"{"description":"b"}"#,
                with(|w| w.description = Some(Description("b".into()))),
            ),
            (
                r#"{"state":"disabled"}"#,
                with(|w| w.state = WebhookState::Disabled(DisabledReason::Requested)),
            ),
        ] {
            assert_eq!(changed(body, later), expected, "{body}");
        }
        // The clock of another replica may be behind.
        let earlier = changed(r#"{"description":null}"#, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(earlier.updated_at, before.updated_at);
    }

    #[test]
    fn disabling_again_keeps_the_reason_and_enabling_clears_it() {
        let gone = Webhook {
            state: WebhookState::Disabled(DisabledReason::ReceiverGone),
            ..webhook(r#"{"url":"https://a.example"}"#)
        };
        let decide = |body| change(body).decide(&gone, Scopes::all(), NOW).unwrap();
        assert_eq!(decide(r#"{"state":"disabled"}"#), None);
        let enabled = decide(r#"{"state":"enabled"}"#).unwrap();
        assert_eq!(enabled.state, WebhookState::Enabled);
        let renamed = decide(r#"{"description":"b"}"#).unwrap();
        assert_eq!(renamed.state, gone.state);
    }

    /// A key must not have events sent to itself that it cannot read.
    #[test]
    fn a_key_cannot_redirect_events_that_it_cannot_read() {
        let before = webhook(r#"{"url":"https://a.example","types":["order.placed"]}"#);
        let pets = scopes(&[Scope::PetsRead]);
        let decide = |body| change(body).decide(&before, pets, NOW);
        for body in [
            r#"{"url":"https://b.example"}"#,
            r#"{"state":"disabled"}"#,
            // The webhook may still have deliveries to retry.
            r#"{"url":"https://b.example","types":null}"#,
        ] {
            assert_eq!(decide(body), Err(Scope::OrdersRead), "{body}");
        }
    }
}
