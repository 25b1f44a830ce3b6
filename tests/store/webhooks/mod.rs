//! Webhooks and their deliveries in the store.

pub mod changes;
pub mod commands;
pub mod deliveries;
pub mod leases;

use crate::fixture::{API_KEY, TestStore};
use domain::{
    api_key::Scopes,
    event::EventId,
    idempotency::{IdempotencyKey, Idempotent, IdempotentRequest},
    page::{ListQuery, Sort},
    pet::{NewPet, PetName},
    webhook::{
        NewWebhook, WebhookId, WebhookRejection,
        delivery::{
            AttemptError, Delivery, DeliveryFilter, DeliveryState, Progress, StoredWebhook,
        },
        schedule::EndpointHealth,
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};
use jiff::Timestamp;

type WebhookResult = Result<StoredWebhook, WebhookRejection>;

impl TestStore {
    async fn create(&self, idempotency: Option<IdempotentRequest>) -> Idempotent<WebhookResult> {
        let new = new();
        let secret = WebhookSecret::generate();
        let created = self.store.webhook_create(
            API_KEY,
            Scopes::all(),
            new,
            secret,
            EventId::START,
            idempotency,
        );
        created.await.unwrap()
    }

    /// Creates a webhook at the start of the log.
    async fn created(&self) -> StoredWebhook {
        executed(self.create(None).await).unwrap()
    }

    /// Creates `count` webhooks.
    async fn fill_up_to(&self, count: usize) {
        self.created().await;
        self.database.execute(&format!(
            "WITH RECURSIVE numbers AS (
                 SELECT 2 AS number UNION ALL SELECT number + 1 FROM numbers WHERE number < {count})
             INSERT INTO webhooks (url, types, state, api_key_id, created_at, updated_at, secret,
                                   position)
             SELECT url, types, state, api_key_id, created_at, updated_at, secret, position
             FROM webhooks, numbers WHERE id = 1"
        ));
    }

    async fn get(&self, id: WebhookId) -> StoredWebhook {
        self.store.webhook_get(id).await.unwrap().unwrap()
    }

    /// Logs `count` events. Returns the ids of all events in the log.
    async fn events(&self, count: usize) -> Vec<EventId> {
        for _ in 0..count {
            let pet = NewPet::new(PetName::parse("Rex").unwrap(), 1);
            self.store.pet_create(API_KEY, pet, None).await.unwrap();
        }
        self.store.event_sync().await.unwrap();
        let events = self
            .store
            .event_read(None, Sort::Asc, 1000)
            .await
            .unwrap()
            .unwrap();
        events.iter().map(|event| event.id()).collect()
    }

    /// Saves for the only owner.
    async fn save(&self, id: WebhookId, progress: Progress) {
        let leased = self.store.webhook_lease("owner").await.unwrap();
        let leased = leased.into_iter().find(|leased| leased.id == id);
        let epoch = leased.unwrap().epoch;
        let saved = self.store.webhook_save(id, "owner", epoch, progress);
        assert!(saved.await.unwrap());
    }

    async fn deliveries(&self, id: WebhookId) -> Vec<Delivery> {
        let all = ListQuery::<DeliveryFilter>::parse("limit=100").unwrap();
        let page = self.store.delivery_list(id, all).await.unwrap();
        assert_eq!(page.next, None);
        page.items
    }
}

/// The id of the first webhook.
fn first() -> WebhookId {
    WebhookId::parse("1").unwrap()
}

fn new() -> NewWebhook {
    NewWebhook {
        url: WebhookUrl::parse("https://example.com/hook?a=b").unwrap(),
        types: None,
        description: None,
    }
}

fn executed<T>(result: Idempotent<T>) -> T {
    match result {
        Idempotent::Executed(result) => result,
        Idempotent::Replayed(_) => panic!("replayed"),
        Idempotent::KeyReused => panic!("the key was reused"),
    }
}

fn replayed<T>(result: Idempotent<T>) -> T {
    match result {
        Idempotent::Replayed(result) => result,
        Idempotent::Executed(_) => panic!("executed"),
        Idempotent::KeyReused => panic!("the key was reused"),
    }
}

fn request(key: &str, fingerprint: u8) -> Option<IdempotentRequest> {
    Some(IdempotentRequest {
        api_key_id: API_KEY,
        key: IdempotencyKey::parse(key.as_bytes()).unwrap(),
        fingerprint: [fingerprint; 32],
    })
}

fn second(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn progress(position: EventId) -> Progress {
    Progress {
        position,
        health: EndpointHealth::default(),
        paused_until: None,
        failures: Vec::new(),
        delivered: Vec::new(),
        disabled: None,
    }
}

/// A delivery that has failed once and is due at a second.
fn retrying(event_id: EventId, due: i64) -> Delivery {
    Delivery {
        event_id,
        state: DeliveryState::Retrying,
        attempts: 1,
        last_attempt_at: second(100),
        status: Some(500),
        error: AttemptError::UnsuccessfulStatus,
        next_attempt_at: Some(second(due)),
    }
}

/// A delivery that was given up at a second.
fn failed(event_id: EventId, at: i64) -> Delivery {
    Delivery {
        state: DeliveryState::Failed,
        attempts: 10,
        last_attempt_at: second(at),
        status: None,
        error: AttemptError::TimedOut,
        next_attempt_at: None,
        ..retrying(event_id, 0)
    }
}
