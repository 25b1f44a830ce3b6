//! Failed deliveries, and the progress of a webhook.

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{
    DisabledReason, NewWebhook, Webhook, WebhookChange, WebhookId, WebhookRejection, WebhookState,
    schedule::EndpointHealth,
    secret::{SigningSecrets, WebhookSecret},
};
use crate::{
    api_key::{Scope, Scopes},
    clock::truncate_to_microseconds,
    event::{After, EventId, EventTypes},
    invalid::{Invalid, quoted},
    json::{FromObject, KnownMember, Object},
    page::{Filter, ListKind, Parameters, Position, set_once},
};

/// The maximum time for which a delivery that was given up is kept.
pub const MAX_RETENTION: SignedDuration = SignedDuration::from_hours(30 * 24);

/// A delivery that has failed at least once. Other deliveries are not recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub event_id: EventId,
    pub state: DeliveryState,
    /// The number of attempts.
    pub attempts: u32,
    pub last_attempt_at: Timestamp,
    /// The status of the last response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason why the last attempt failed.
    pub error: AttemptError,
    /// The time of the next attempt; `None` if there will be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    Retrying,
    /// Given up: only a client can request another attempt.
    Failed,
}

impl DeliveryState {
    pub const ALL: [Self; 2] = [Self::Retrying, Self::Failed];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retrying => "retrying",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Result<Self, Invalid> {
        Self::from_store(text).ok_or_else(|| {
            let reason = format!("must be one of retrying, failed, got {}", quoted(text));
            Invalid::new("state", reason)
        })
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn from_store(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// The reason why an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptError {
    /// The receiver responded with a status other than 2xx.
    UnsuccessfulStatus,
    /// The operator no longer allows the URL.
    UrlNotAllowed,
    /// An address of the host may not be connected to.
    AddressNotAllowed,
    NameNotResolved,
    ConnectionFailed,
    TlsFailed,
    /// The connection failed after the request was sent.
    ConnectionLost,
    TimedOut,
    /// The event was purged from the log before it was delivered.
    EventExpired,
}

impl AttemptError {
    pub const ALL: [Self; 9] = [
        Self::UnsuccessfulStatus,
        Self::UrlNotAllowed,
        Self::AddressNotAllowed,
        Self::NameNotResolved,
        Self::ConnectionFailed,
        Self::TlsFailed,
        Self::ConnectionLost,
        Self::TimedOut,
        Self::EventExpired,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnsuccessfulStatus => "unsuccessful_status",
            Self::UrlNotAllowed => "url_not_allowed",
            Self::AddressNotAllowed => "address_not_allowed",
            Self::NameNotResolved => "name_not_resolved",
            Self::ConnectionFailed => "connection_failed",
            Self::TlsFailed => "tls_failed",
            Self::ConnectionLost => "connection_lost",
            Self::TimedOut => "timed_out",
            Self::EventExpired => "event_expired",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn from_store(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|error| error.as_str() == text)
    }
}

/// The filter of a list of deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DeliveryFilter {
    pub state: Option<DeliveryState>,
}

impl Filter for DeliveryFilter {
    const LIST: ListKind = ListKind::Deliveries;
    const SORTABLE: bool = false;

    type Item = Delivery;

    fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "state" => set_once("state", &mut self.state, DeliveryState::parse(value)?),
            _ => Ok(()),
        }
    }

    fn parameters(&self) -> Parameters<'_> {
        let state = self.state.map(|state| ("state", state.as_str().into()));
        state.into_iter().collect()
    }

    fn position(&self, delivery: &Delivery) -> Position {
        Position::of_id(delivery.event_id.sequence)
    }
}

/// The body of a request to deliver the events after another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayRequest {
    pub after: After,
}

impl FromObject for ReplayRequest {
    const MEMBERS: &[KnownMember] = &[KnownMember::scalar("after")];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let invalid = |reason: String| vec![Invalid::new("after", reason)];
        let Some(value) = object.get("after") else {
            let reason = "required; must be the id of an event, or now";
            return Err(invalid(reason.into()));
        };
        let text = value.as_string().ok_or_else(|| {
            let got = value.describe();
            invalid(format!("must be the id of an event, or now, got {got}"))
        })?;
        let after = After::parse("after", &text).map_err(|invalid| vec![invalid])?;
        Ok(Self { after })
    }
}

/// A webhook with the state that is needed to deliver events to it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredWebhook {
    pub webhook: Webhook,
    pub secrets: SigningSecrets,
    /// Every event up to this one was delivered, has a [`Delivery`], or is of a type that
    /// the webhook does not deliver.
    pub position: EventId,
    pub health: EndpointHealth,
    /// The time before which no attempt is made.
    pub paused_until: Option<Timestamp>,
    /// Increases with every change by a client, and when the webhook is disabled.
    pub revision: i64,
    /// Increases when a client changes the URL, the types, the state or the position. Progress
    /// that a replica made before that is not saved.
    pub epoch: i64,
    /// The replica that delivers to the webhook, and the end of its lease, on PostgreSQL.
    pub lease: Option<(String, Timestamp)>,
}

impl StoredWebhook {
    /// Returns the webhook as the response to its creation showed it, for a retry of that
    /// request: later changes are only for API keys that may read webhooks. Only the position is
    /// the current one.
    pub fn as_created(self, new: NewWebhook, scopes: Scopes) -> Result<Self, WebhookRejection> {
        let Webhook {
            id,
            api_key_id,
            created_at,
            ..
        } = self.webhook;
        let created = new.create(id, api_key_id, scopes, created_at);
        Ok(Self {
            webhook: created.map_err(WebhookRejection::MissingScope)?,
            health: EndpointHealth::default(),
            paused_until: None,
            ..self
        })
    }

    /// Applies a merge patch; returns `None` if it changes nothing. If the events that a webhook
    /// had still to deliver were purged, it continues after `newest`.
    pub fn update(
        &self,
        change: &WebhookChange,
        scopes: Scopes,
        newest: EventId,
        now: Timestamp,
    ) -> Result<Option<Self>, Scope> {
        let before = &self.webhook;
        let Some(webhook) = change.decide(before, scopes, now)? else {
            return Ok(None);
        };
        let is_enabled_again =
            webhook.state == WebhookState::Enabled && before.state != webhook.state;
        let has_expired = before.state == WebhookState::Disabled(DisabledReason::EventsExpired);
        let starts_epoch = (&webhook.url, webhook.types, webhook.state)
            != (&before.url, before.types, before.state);
        let mut after = Self {
            revision: self.revision + 1,
            epoch: self.epoch + i64::from(starts_epoch),
            ..self.clone()
        };
        if is_enabled_again && has_expired {
            after.position = newest;
        }
        if webhook.state != WebhookState::Enabled {
            after.lease = None;
        }
        if is_enabled_again || webhook.url != before.url {
            after.health = EndpointHealth::default();
            after.paused_until = None;
        }
        Ok(Some(Self { webhook, ..after }))
    }

    /// See [`SigningSecrets::rotate`].
    pub fn rotate_secret(
        &self,
        new: &WebhookSecret,
        request: Option<String>,
        scopes: Scopes,
        now: Timestamp,
    ) -> Result<Self, Scope> {
        let now = truncate_to_microseconds(now);
        Ok(Self {
            webhook: self.changed_at(now, scopes)?,
            secrets: SigningSecrets {
                request,
                ..self.secrets.clone().rotate(new.clone(), now)
            },
            revision: self.revision + 1,
            ..self.clone()
        })
    }

    pub fn replay(&self, position: EventId, scopes: Scopes, now: Timestamp) -> Result<Self, Scope> {
        let mut webhook = self.changed_at(now, scopes)?;
        // Otherwise, enabling the webhook would move it to the newest event.
        if webhook.state == WebhookState::Disabled(DisabledReason::EventsExpired) {
            webhook.state = WebhookState::Disabled(DisabledReason::Requested);
        }
        Ok(Self {
            webhook,
            position,
            revision: self.revision + 1,
            epoch: self.epoch + 1,
            ..self.clone()
        })
    }

    /// Returns the webhook as changed by an API key with these scopes, which must be able to read
    /// every event that the webhook delivers.
    fn changed_at(&self, now: Timestamp, scopes: Scopes) -> Result<Webhook, Scope> {
        let webhook = self.webhook.clone();
        EventTypes::visible_to(Some(webhook.types), scopes)?;
        Ok(Webhook {
            updated_at: webhook.updated_at.max(truncate_to_microseconds(now)),
            ..webhook
        })
    }
}

impl StoredWebhook {
    /// Returns the webhook with the progress of its replica.
    pub fn advance(self, progress: &Progress, now: Timestamp) -> Self {
        let advanced = Self {
            position: progress.position,
            health: progress.health,
            paused_until: progress.paused_until,
            ..self
        };
        let Some(reason) = progress.disabled else {
            return advanced;
        };
        let now = truncate_to_microseconds(now);
        Self {
            webhook: Webhook {
                state: WebhookState::Disabled(reason),
                updated_at: advanced.webhook.updated_at.max(now),
                ..advanced.webhook
            },
            revision: advanced.revision + 1,
            lease: None,
            ..advanced
        }
    }
}

/// The progress of a replica since its last save.
#[derive(Debug, Clone)]
pub struct Progress {
    pub position: EventId,
    pub health: EndpointHealth,
    pub paused_until: Option<Timestamp>,
    /// Deliveries that have failed, for the first time or again. If there are several of one
    /// event, the last one is saved.
    pub failures: Vec<Delivery>,
    /// Deliveries that had failed and have now succeeded.
    pub delivered: Vec<EventId>,
    /// Disables the webhook.
    pub disabled: Option<DisabledReason>,
}

/// A webhook that a replica has leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasedWebhook {
    pub id: WebhookId,
    /// Raised by every change.
    pub revision: i64,
    /// Raised by a change that cancels the worker.
    pub epoch: i64,
}

/// The deliveries of a webhook that are to be retried.
#[derive(Debug, Clone, Default)]
pub struct Retries {
    /// The deliveries that are due, the longest overdue first.
    pub due: Vec<Delivery>,
    /// The time at which the next delivery is due, after those in `due`.
    pub next_at: Option<Timestamp>,
    /// The number of all deliveries to retry.
    pub count: u64,
}
