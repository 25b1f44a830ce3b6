//! One message to a webhook: an attempt to send it, with the event that a retry needs.

use std::sync::Arc;

use super::super::{
    Attempt, StoreFailure, WorkerContext,
    client::{Connections, Message},
    tracker::Job,
};
use domain::webhook::delivery::{Delivery, StoredWebhook};
use store::event_tail::{Framing, SerializedEvent};

/// The outcome of a job.
pub enum JobOutcome {
    Event(Arc<SerializedEvent>, Attempt),
    Retry(Delivery, Attempt),
    /// The event of a retry is no longer in the log.
    Expired(Delivery),
    /// The event of a retry has a type that the webhook no longer delivers.
    Unwanted(Delivery),
    StoreFailed(Delivery),
}

pub async fn run(
    job: Job,
    shared: &WorkerContext,
    stored: &StoredWebhook,
    connections: &Connections,
) -> JobOutcome {
    match job {
        Job::Event(event) => {
            let attempt = attempt(shared, stored, connections, &event).await;
            JobOutcome::Event(event, attempt)
        }
        Job::Retry(delivery) => retry(shared, stored, connections, delivery).await,
    }
}

async fn attempt(
    shared: &WorkerContext,
    stored: &StoredWebhook,
    connections: &Connections,
    event: &SerializedEvent,
) -> Attempt {
    let _permit = shared.attempts.acquire().await;
    let message = Message {
        url: &stored.webhook.url,
        secrets: &stored.secrets,
        id: &event.id.to_string(),
        body: event.json.clone(),
    };
    shared.client.attempt(&message, connections).await
}

async fn retry(
    shared: &WorkerContext,
    stored: &StoredWebhook,
    connections: &Connections,
    delivery: Delivery,
) -> JobOutcome {
    let id = delivery.event_id;
    let event = shared.store(|store| async move { store.event_get(id).await });
    match event.await {
        Err(StoreFailure) => JobOutcome::StoreFailed(delivery),
        Ok(None) => JobOutcome::Expired(delivery),
        Ok(Some(event)) if !stored.webhook.types.has(event.kind) => JobOutcome::Unwanted(delivery),
        Ok(Some(event)) => {
            let event =
                SerializedEvent::new(&event, shared.store.event_source(), Framing::default());
            let attempt = attempt(shared, stored, connections, &event).await;
            JobOutcome::Retry(delivery, attempt)
        }
    }
}
