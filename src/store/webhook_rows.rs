//! Row mapping of webhooks and their deliveries.

use jiff::Timestamp;

use super::rows::{Columns, Entity, Row};
use crate::{
    event::{EventId, EventTypes},
    webhook::{
        Description, DisabledReason, Webhook, WebhookId, WebhookState,
        delivery::{AttemptError, ClientChange, Delivery, DeliveryState, Retries, StoredWebhook},
        schedule::EndpointHealth,
        secret::{SigningSecrets, WebhookSecret},
        url::WebhookUrl,
    },
};

/// `webhook_columns!()`
impl Entity for StoredWebhook {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let webhook = Webhook {
            id: WebhookId::from_store(columns.int()?),
            url: parsed(columns, |url| WebhookUrl::parse(url).ok())?,
            types: EventTypes::from_store(columns.text()?),
            description: columns.optional_text()?.map(Description::from_store),
            state: match columns.text()? {
                "enabled" => {
                    columns.advance();
                    WebhookState::Enabled
                }
                _ => WebhookState::Disabled(parsed(columns, DisabledReason::from_store)?),
            },
            api_key_id: columns.int()?,
            created_at: columns.timestamp()?,
            updated_at: columns.timestamp()?,
        };
        let current = parsed(columns, WebhookSecret::parse)?;
        let previous = optional_parsed(columns, WebhookSecret::parse)?;
        Ok(Self {
            webhook,
            secrets: SigningSecrets {
                current,
                previous: previous.zip(columns.optional_timestamp()?),
                request: columns.optional_text()?.map(String::from),
            },
            position: parsed(columns, EventId::parse)?,
            health: EndpointHealth {
                consecutive_failures: columns.int()?.try_into().unwrap_or(u32::MAX),
                failing_since: columns.optional_timestamp()?,
            },
            paused_until: columns.optional_timestamp()?,
            revision: columns.int()?,
            epoch: columns.int()?,
        })
    }
}

/// `delivery_columns!()`
impl Entity for Delivery {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self {
            event_id: parsed(columns, EventId::parse)?,
            state: parsed(columns, DeliveryState::from_store)?,
            attempts: columns.int()?.try_into().unwrap_or(u32::MAX),
            last_attempt_at: columns.timestamp()?,
            status: columns.optional_int()?.map(|status| status as u16),
            error: parsed(columns, AttemptError::from_store)?,
            next_attempt_at: columns.optional_timestamp()?,
        })
    }
}

/// Reads the number of all deliveries to be retried, and when the next one is due.
pub(super) fn read_retries<R: Row>(
    columns: &mut Columns<'_, R>,
    due: Vec<Delivery>,
) -> Result<Retries, R::Error> {
    Ok(Retries {
        due,
        count: columns.int()? as u64,
        next_at: columns.optional_timestamp()?,
    })
}

/// The values that a client's change sets. `position` is null if it stays.
pub(super) struct ChangedValues<'a> {
    pub(super) url: &'a str,
    pub(super) types: String,
    pub(super) description: Option<&'a str>,
    pub(super) state: &'static str,
    pub(super) disabled_reason: Option<&'static str>,
    pub(super) updated_at: i64,
    pub(super) secret: String,
    pub(super) previous_secret: Option<String>,
    pub(super) previous_secret_expires_at: Option<i64>,
    pub(super) secret_request: Option<&'a str>,
    pub(super) position: Option<String>,
    pub(super) resets_health: bool,
    pub(super) starts_epoch: bool,
}

impl<'a> From<&'a ClientChange> for ChangedValues<'a> {
    fn from(change: &'a ClientChange) -> Self {
        let ClientChange {
            webhook,
            secrets,
            position,
            resets_health,
            starts_epoch,
        } = change;
        let previous = secrets.previous.as_ref();
        let (state, disabled_reason) = match webhook.state {
            WebhookState::Enabled => ("enabled", None),
            WebhookState::Disabled(reason) => ("disabled", Some(reason.as_str())),
        };
        Self {
            url: webhook.url.as_str(),
            types: webhook.types.to_store(),
            description: webhook.description.as_ref().map(Description::as_str),
            state,
            disabled_reason,
            updated_at: webhook.updated_at.as_microsecond(),
            secret: secrets.current.reveal(),
            previous_secret: previous.map(|(secret, _)| secret.reveal()),
            previous_secret_expires_at: previous.map(|(_, until)| until.as_microsecond()),
            secret_request: secrets.request.as_deref(),
            position: position.map(|position| position.to_string()),
            resets_health: *resets_health,
            starts_epoch: *starts_epoch,
        }
    }
}

/// Microseconds since the Unix epoch, as both databases store them.
pub(super) fn microseconds(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::as_microsecond)
}

fn parsed<T, R: Row>(
    columns: &mut Columns<'_, R>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, R::Error> {
    let column = columns.next_column();
    parse(columns.text()?).ok_or_else(|| R::corrupt(column, Malformed))
}

fn optional_parsed<T, R: Row>(
    columns: &mut Columns<'_, R>,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, R::Error> {
    let column = columns.next_column();
    let parsed = columns.optional_text()?.map(parse);
    let parsed = parsed.map(|value| value.ok_or_else(|| R::corrupt(column, Malformed)));
    parsed.transpose()
}

/// Does not show the value: it may be a secret.
#[derive(Debug, thiserror::Error)]
#[error("a stored webhook or delivery has a value that this version does not understand")]
struct Malformed;
