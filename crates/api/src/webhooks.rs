//! Handlers of the operations on webhooks.
//!
//! No cache stores their responses: a URL may contain credentials, two of the responses show a
//! secret, and positions change with every delivery.

use http::StatusCode;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    error::{ApiError, NO_SUCH_DELIVERY, NO_SUCH_WEBHOOK},
    path::PathId,
    preconditions::unless_missing,
    request::ApiRequest,
    response::{self, to_json},
    state::Api,
};
use dispatcher::Attempt;
use domain::{
    event::{After, EventId, Gone},
    idempotency::{Idempotent, IdempotentRequest},
    page::Sort,
    webhook::{
        NewWebhook, Webhook, WebhookChange, WebhookFilter, WebhookId, WebhookRejection,
        WebhookState,
        delivery::{AttemptError, DeliveryFilter, ReplayRequest, StoredWebhook},
        schedule::Outcome,
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};
use server::Response;

/// A webhook as clients see it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WebhookView<'a> {
    #[serde(flatten)]
    webhook: &'a Webhook,
    position: EventId,
    #[serde(skip_serializing_if = "Option::is_none")]
    failing_since: Option<Timestamp>,
    /// Present while nothing is sent, because the receiver fails or asked for a pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_attempt_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
}

impl<'a> WebhookView<'a> {
    fn new(stored: &'a StoredWebhook, now: Timestamp) -> Self {
        let is_enabled = stored.webhook.state == WebhookState::Enabled;
        let is_ahead = |at: &Timestamp| is_enabled && *at > now;
        Self {
            webhook: &stored.webhook,
            position: stored.position,
            failing_since: stored.health.failing_since,
            next_attempt_at: stored.paused_until.filter(is_ahead),
            secret: None,
        }
    }

    fn with_secret(stored: &'a StoredWebhook, now: Timestamp) -> Self {
        Self {
            secret: Some(stored.secrets.current.reveal()),
            ..Self::new(stored, now)
        }
    }
}

/// The message that `testWebhook` sends: a CloudEvent that is not in the log.
#[derive(Serialize)]
struct TestEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'static str,
    subject: String,
    time: Timestamp,
    data: WebhookView<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TestResult {
    delivered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<AttemptError>,
    duration_ms: u64,
}

impl From<Attempt> for TestResult {
    fn from(attempt: Attempt) -> Self {
        Self {
            delivered: attempt.outcome == Outcome::Delivered,
            status: attempt.status,
            error: attempt.error,
            duration_ms: attempt.duration.as_millis() as u64,
        }
    }
}

pub async fn create_webhook(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let (new, idempotency) = request.json_with_idempotency_key::<NewWebhook>().await?;
    check_url(api, &new.url)?;
    request.preconditions().evaluate_post(true)?;
    let position = newest(api).await?;
    let secret = WebhookSecret::generate();
    let scopes = request.scopes();
    let request_id = idempotency.as_ref().map(IdempotentRequest::id);
    let created = api
        .store
        .webhook_create(
            request.api_key_id(),
            scopes,
            new.clone(),
            secret,
            position,
            idempotency,
        )
        .await?;
    api.dispatcher.notify_changed();
    ensure_own_secret(&created, request_id)?;
    let shown = match created {
        Idempotent::Replayed(Ok(stored)) => Idempotent::Replayed(stored.as_created(new, scopes)),
        other => other,
    };
    response::idempotent(shown, |created| match created {
        Ok(stored) => {
            let view = WebhookView::with_secret(&stored, api.clock.now());
            let id = stored.webhook.id.get();
            response::no_store(api.links.created("webhooks", id, &view))
        }
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

pub async fn list_webhooks(api: &Api, request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = request.list_query::<WebhookFilter>()?;
    let page = api.store.webhook_list(query.clone()).await?;
    let now = api.clock.now();
    let webhooks: Vec<_> = page
        .items
        .iter()
        .map(|stored| WebhookView::new(stored, now))
        .collect();
    let link = api.links.next_page("webhooks", &query, page.next.as_ref());
    Ok(response::no_store_page(
        to_json(&webhooks),
        link,
        request.headers(),
    ))
}

pub async fn get_webhook(
    api: &Api,
    _request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let stored = find(api, id?).await?;
    Ok(respond(api, &stored))
}

pub async fn update_webhook(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let change = request.merge_patch::<WebhookChange>().await?;
    let id = id?;
    if let Some(url) = &change.url {
        check_url(api, url)?;
    }
    let met = request.preconditions().evaluate_untagged();
    unless_missing(met, find(api, id)).await?;
    let newest = newest(api).await?;
    let updated = api
        .store
        .webhook_update(id, change, request.scopes(), newest)
        .await?;
    let stored = updated?;
    api.dispatcher.notify_changed();
    Ok(respond(api, &stored))
}

pub async fn delete_webhook(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let met = request.preconditions().evaluate_untagged();
    unless_missing(met, find(api, id)).await?;
    let existed = api.store.webhook_delete(id).await?;
    api.dispatcher.notify_changed();
    if existed {
        Ok(response::no_content())
    } else {
        Err(ApiError::NotFound(NO_SUCH_WEBHOOK))
    }
}

pub async fn rotate_webhook_secret(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let idempotency = request.idempotency_key().await?;
    let id = id?;
    let met = request.preconditions().evaluate_post(false);
    unless_missing(met, find(api, id)).await?;
    let request_id = idempotency.as_ref().map(IdempotentRequest::id);
    let rotated = api
        .store
        .webhook_rotate_secret(id, WebhookSecret::generate(), request.scopes(), idempotency)
        .await?;
    api.dispatcher.notify_changed();
    ensure_own_secret(&rotated, request_id)?;
    // The types may have changed since the first request.
    if let Idempotent::Replayed(Ok(stored)) = &rotated {
        request.ensure_readable(stored.webhook.types)?;
    }
    response::idempotent(rotated, |rotated| match rotated {
        Ok(stored) => {
            let view = WebhookView::with_secret(&stored, api.clock.now());
            response::no_store(response::json(&view))
        }
        Err(rejection) => ApiError::from(rejection).response(),
    })
}

/// Checks that a retry is shown the secret that was generated for it, and no later one.
fn ensure_own_secret(
    result: &Idempotent<Result<StoredWebhook, WebhookRejection>>,
    request_id: Option<String>,
) -> Result<(), ApiError> {
    match result {
        Idempotent::Replayed(Ok(stored)) if stored.secrets.request != request_id => {
            Err(ApiError::NotFound(SECRET_REPLACED))
        }
        _ => Ok(()),
    }
}

const SECRET_REPLACED: &str = "the secret in the first response to this request has been replaced; rotate it with another \
     idempotency key to get a new one";

/// Sends a test message to the receiver immediately and responds with the outcome. It has no
/// effect on the webhook.
pub async fn test_webhook(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let stored = find(api, id).await?;
    request.ensure_readable(stored.webhook.types)?;
    request.preconditions().evaluate_post(false)?;
    let permit = api.webhook_tests.try_acquire();
    let _permit = permit.map_err(|_| ApiError::TOO_MANY_TESTS)?;
    let message_id = format!("test_{:032x}", rand::random::<u128>());
    let now = api.clock.now();
    let event = TestEvent {
        specversion: "1.0",
        id: &message_id,
        source: api.store.event_source(),
        r#type: "webhook.test",
        subject: format!("webhooks/{}", id.get()),
        time: now,
        data: WebhookView::new(&stored, now),
    };
    let body = to_json(&event);
    let attempt = api
        .dispatcher
        .attempt(&stored.webhook.url, &stored.secrets, &message_id, body);
    let result = TestResult::from(request.wait(attempt).await);
    Ok(response::no_store(response::json(&result)))
}

/// Moves a webhook to continue after another event, or with the next one that happens.
pub async fn replay_webhook(
    api: &Api,
    mut request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let ReplayRequest { after } = request.json().await?;
    let id = id?;
    find(api, id).await?;
    request.preconditions().evaluate_post(false)?;
    let position = match after {
        After::Now => newest(api).await?,
        After::Id(event) => {
            verify(api, event, ApiError::PositionGone).await?;
            event
        }
    };
    let replayed = api.store.webhook_replay(id, position, request.scopes());
    let stored = replayed.await??;
    api.dispatcher.notify_changed();
    Ok(accepted(respond(api, &stored)))
}

pub async fn list_deliveries(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<WebhookId>,
) -> Result<Response, ApiError> {
    let query = request.list_query::<DeliveryFilter>()?;
    let id = id?;
    find(api, id).await?;
    let page = api.store.delivery_list(id, query.clone()).await?;
    let path = format!("webhooks/{}/deliveries", id.get());
    let link = api.links.next_page(&path, &query, page.next.as_ref());
    Ok(response::no_store_page(
        to_json(&page.items),
        link,
        request.headers(),
    ))
}

pub async fn retry_delivery(
    api: &Api,
    request: ApiRequest<'_>,
    id: PathId<WebhookId>,
    event: PathId<EventId>,
) -> Result<Response, ApiError> {
    let id = id?;
    let stored = find(api, id).await?;
    request.ensure_readable(stored.webhook.types)?;
    let event = event?;
    request.preconditions().evaluate_post(false)?;
    if stored.webhook.state != WebhookState::Enabled {
        return Err(ApiError::WebhookDisabled);
    }
    verify(api, event, ApiError::DeliveryEventGone).await?;
    let now = api.clock.now() + api.store.clock_offset();
    let retried = api.store.delivery_retry(id, event, now).await?;
    let delivery = retried.ok_or(ApiError::NotFound(NO_SUCH_DELIVERY))?;
    api.dispatcher.notify_changed();
    Ok(accepted(response::no_store(response::json(&delivery))))
}

/// Checks that the operator allows a URL. Every delivery repeats the check, including the
/// addresses of its host.
fn check_url(api: &Api, url: &WebhookUrl) -> Result<(), ApiError> {
    let checked = api.dispatcher.url_policy().check(url);
    checked.map_err(|invalid| ApiError::InvalidBody(invalid.to_string()))
}

async fn find(api: &Api, id: WebhookId) -> Result<StoredWebhook, ApiError> {
    let stored = api.store.webhook_get(id).await?;
    stored.ok_or(ApiError::NotFound(NO_SUCH_WEBHOOK))
}

/// Returns the position after every acknowledged change.
async fn newest(api: &Api) -> Result<EventId, ApiError> {
    api.store.event_sync().await?;
    api.event_feed.newest().await
}

/// Verifies that the log still has an event.
async fn verify(api: &Api, event: EventId, error: fn(Gone) -> ApiError) -> Result<(), ApiError> {
    api.store.event_sync().await?;
    let read = api.store.event_read(Some(event), Sort::Asc, 1).await?;
    read.map(drop).map_err(error)
}

fn respond(api: &Api, stored: &StoredWebhook) -> Response {
    let view = WebhookView::new(stored, api.clock.now());
    response::no_store(response::json(&view))
}

fn accepted(mut response: Response) -> Response {
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}
