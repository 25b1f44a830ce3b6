//! Delivery of events to webhooks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use domain::{
    api_key::Scopes,
    clock::Clock,
    event::{EventId, EventRetention, EventType},
    idempotency::Idempotent,
    members::Patch,
    page::ListQuery,
    webhook::{
        DisabledReason, NewWebhook, WebhookChange, WebhookId, WebhookState,
        delivery::{AttemptError, Delivery, DeliveryState, StoredWebhook},
        secret::WebhookSecret,
        url::{UrlPolicy, WebhookUrl},
    },
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store::{Options, Role, Store};
use support::{Backend, Receiver, Reply, eventually};

use crate::harness::{Server, database_url};

support::cases! {
    DATABASES: [
        events_are_delivered_in_order_and_signed,
        only_the_types_of_a_webhook_are_delivered,
        a_failed_delivery_is_retried,
        an_endpoint_that_fails_backs_off_without_failed_deliveries,
        a_410_disables_a_webhook_and_enabling_it_continues,
        retry_after_pauses_an_endpoint,
        deleting_or_disabling_a_webhook_ends_its_requests,
        a_replay_delivers_again,
        a_webhook_that_fell_out_of_the_log_is_disabled,
        a_webhook_continues_after_a_quiet_time,
        a_type_that_is_no_longer_asked_for_is_not_retried,
        a_rotation_interrupts_no_request,
        a_webhook_at_the_service_itself_makes_no_loop,
        a_shutdown_saves_what_was_delivered,
        a_stalled_receiver_delays_no_other,
        a_webhook_skips_a_long_log_in_turns,
    ],
}

/// A service that delivers to this host, with a store beside it to change webhooks, and a
/// clock that the test advances.
struct Setup {
    server: Server,
    store: Store,
    receiver: Receiver,
    seconds: Arc<AtomicI64>,
}

const CHANGE: WebhookChange = WebhookChange {
    url: None,
    types: Patch::Keep,
    description: Patch::Keep,
    is_enabled: None,
};

impl Setup {
    async fn start(backend: Backend) -> Self {
        let seconds = Arc::new(AtomicI64::new(0));
        let advance = seconds.clone();
        let server = Server::start_with(backend, |config| {
            let api = &mut config.service.api;
            api.clock = Clock::new(move || {
                Timestamp::now() + SignedDuration::from_secs(advance.load(SeqCst))
            });
            api.webhooks.urls = UrlPolicy {
                allow_http: true,
                networks: ["127.0.0.1/32".parse().unwrap()].into_iter().collect(),
            };
            // No request times out because the machine is slow.
            let limits = &mut api.webhooks.limits;
            limits.attempt_timeout = Duration::from_secs(600);
            limits.connect_timeout = Duration::from_secs(600);
        })
        .await;
        let options = Options::new(Role::Cli);
        let store = Store::open(&database_url(&server.database), &options).await;
        Self {
            server,
            store: store.unwrap(),
            receiver: Receiver::start().await,
            seconds,
        }
    }

    /// Creates a webhook that delivers from the start of the log. Returns its id and secret.
    async fn create(&self, url: &str, types: Option<&[EventType]>) -> (WebhookId, String) {
        self.create_at(url, types, EventId::START).await
    }

    async fn create_at(
        &self,
        url: &str,
        types: Option<&[EventType]>,
        position: EventId,
    ) -> (WebhookId, String) {
        let new = NewWebhook {
            url: WebhookUrl::parse(url).unwrap(),
            types: types.map(|types| types.iter().copied().collect()),
            description: None,
        };
        let secret = WebhookSecret::generate();
        let text = secret.reveal();
        let created = self
            .store
            .webhook_create(1, Scopes::all(), new, secret, position, None);
        match created.await.unwrap() {
            Idempotent::Executed(Ok(created)) => (created.webhook.id, text),
            _ => panic!("not created"),
        }
    }

    async fn webhook(&self, id: WebhookId) -> StoredWebhook {
        self.store.webhook_get(id).await.unwrap().unwrap()
    }

    async fn deliveries(&self, id: WebhookId) -> Vec<Delivery> {
        let query = ListQuery::parse("limit=100").unwrap();
        self.store.delivery_list(id, query).await.unwrap().items
    }

    async fn enable(&self, id: WebhookId, is_enabled: bool) {
        let change = WebhookChange {
            is_enabled: Some(is_enabled),
            ..CHANGE
        };
        let changed = self
            .store
            .webhook_update(id, change, Scopes::all(), EventId::START);
        changed.await.unwrap().unwrap();
    }

    fn advance(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, SeqCst);
    }

    /// The events of the log as the feed shows them.
    async fn events(&self) -> Vec<Value> {
        let feed = self.server.get("/v1/events?limit=100").await;
        feed.json().as_array().unwrap().clone()
    }

    async fn wait_for(&self, count: usize) {
        let received = async || self.receiver.count() >= count;
        eventually("requests were received", received).await;
    }

    /// Waits until the position is saved after the last event.
    async fn wait_for_position(&self, id: WebhookId) {
        let events = self.events().await;
        let last = event_id(events.last().unwrap());
        let is_saved = async || self.webhook(id).await.position == last;
        eventually("the position is saved", is_saved).await;
    }

    async fn wait_for_state(&self, id: WebhookId, state: WebhookState) {
        let has_state = async || self.webhook(id).await.webhook.state == state;
        eventually("the state changed", has_state).await;
    }

    async fn metric(&self, name: &str, outcome: &str) -> f64 {
        let name = format!("petstore_webhook_{name}_total{{outcome=\"{outcome}\"}}");
        self.server.metric(&name).await
    }
}

fn event_id(event: &Value) -> EventId {
    EventId::parse(event["id"].as_str().unwrap()).unwrap()
}

async fn events_are_delivered_in_order_and_signed(backend: Backend) {
    let setup = Setup::start(backend).await;
    let (id, secret) = setup.create(&setup.receiver.url(), None).await;
    for count in 1..=3 {
        setup.server.create_pets(1).await;
        setup.wait_for(count).await;
    }
    let received = setup.receiver.received();
    let events = setup.events().await;
    assert_eq!(received.len(), events.len());
    for (request, event) in received.iter().zip(&events) {
        request.assert_signed_by(&secret);
        assert_eq!(request.event(), *event);
        assert_eq!(request.header("webhook-id"), event["id"]);
        assert_eq!(
            request.header("content-type"),
            "application/cloudevents+json"
        );
    }
    setup.wait_for_position(id).await;
    assert_eq!(setup.metric("attempts", "delivered").await, 3.0);
    assert_eq!(setup.metric("deliveries", "delivered").await, 3.0);
    assert_eq!(setup.server.metric("petstore_webhooks_leased").await, 1.0);
    let lag = format!("petstore_webhook_lag_seconds{{webhook=\"{}\"}}", id.get());
    assert_eq!(setup.server.metric(&lag).await, 0.0);
}

async fn only_the_types_of_a_webhook_are_delivered(backend: Backend) {
    let setup = Setup::start(backend).await;
    let types = [EventType::OrderPlaced, EventType::PetDeleted];
    let (id, _) = setup.create(&setup.receiver.url(), Some(&types)).await;
    let pet = json!({"name": "Biscuit", "categoryId": 1, "status": "available"});
    setup.server.create(pet.clone()).await;
    setup.server.create(pet).await;
    setup.server.place_order(1).await;
    setup.server.delete("/v1/pets/2").await;
    setup.wait_for(2).await;
    let received = setup.receiver.received();
    let mut types: Vec<_> = received
        .iter()
        .map(|it| it.event()["type"].clone())
        .collect();
    types.sort_by_key(|it| it.to_string());
    assert_eq!(types, ["order.placed", "pet.deleted"]);
    setup.wait_for_position(id).await;
}

async fn a_failed_delivery_is_retried(backend: Backend) {
    let setup = Setup::start(backend).await;
    let types = [EventType::PetCreated];
    let (id, _) = setup.create(&setup.receiver.url(), Some(&types)).await;
    setup.receiver.respond(|received| {
        let is_first = received.event()["data"]["id"] == 1;
        Reply::Status(if is_first && !received.is_repeated {
            500
        } else {
            200
        })
    });
    setup.server.create_pets(1).await;
    let has_failed = async || setup.deliveries(id).await.len() == 1;
    eventually("a delivery has failed", has_failed).await;
    let failed = &setup.deliveries(id).await[0];
    assert_eq!((failed.attempts, failed.status), (1, Some(500)));
    assert_eq!(failed.state, DeliveryState::Retrying);
    assert_eq!(failed.error, AttemptError::UnsuccessfulStatus);
    // The others do not wait for it.
    setup.server.create_pets(2).await;
    setup.wait_for(3).await;
    setup.advance(10);
    setup.wait_for(4).await;
    let is_done = async || setup.deliveries(id).await.is_empty();
    eventually("the delivery succeeded", is_done).await;
    let mut counts: Vec<_> = setup.receiver.ids().into_values().collect();
    counts.sort();
    assert_eq!(counts, [1, 1, 2]);
    assert_eq!(setup.metric("deliveries", "retrying").await, 1.0);
    assert_eq!(setup.metric("deliveries", "delivered").await, 3.0);
    assert_eq!(setup.metric("attempts", "failed").await, 1.0);
}

async fn an_endpoint_that_fails_backs_off_without_failed_deliveries(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Status(500));
    setup.server.create_pets(10).await;
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    let backs_off = async || setup.webhook(id).await.health.consecutive_failures == 5;
    eventually("the endpoint backs off", backs_off).await;
    let stored = setup.webhook(id).await;
    assert!(stored.paused_until.is_some());
    let rows = setup.deliveries(id).await;
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert_eq!(rows.last().unwrap().event_id, stored.position);
    assert_eq!(setup.receiver.count(), 5);
    // One probe, and no further delivery.
    setup.advance(10);
    setup.wait_for(6).await;
    let failed_again = async || setup.webhook(id).await.health.consecutive_failures == 6;
    eventually("the probe has failed", failed_again).await;
    assert_eq!(setup.deliveries(id).await.len(), 4);
    setup.receiver.respond(|_| Reply::Status(200));
    setup.advance(60);
    setup.wait_for_position(id).await;
    let is_done = async || setup.deliveries(id).await.is_empty();
    eventually("the retries succeeded", is_done).await;
    assert_eq!(setup.receiver.ids().len(), 10);
    assert_eq!(setup.webhook(id).await.health.consecutive_failures, 0);
    assert_eq!(setup.metric("deliveries", "delivered").await, 10.0);
}

async fn a_410_disables_a_webhook_and_enabling_it_continues(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Status(410));
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    let gone = WebhookState::Disabled(DisabledReason::ReceiverGone);
    setup.wait_for_state(id, gone).await;
    assert_eq!(setup.metric("attempts", "gone").await, 1.0);
    let is_released = async || setup.server.metric("petstore_webhooks_leased").await == 0.0;
    eventually("it is not leased", is_released).await;
    setup.server.create_pets(2).await;
    setup.receiver.respond(|_| Reply::Status(200));
    setup.enable(id, true).await;
    // The first event a second time, too.
    eventually("nothing was missed", async || setup.receiver.count() == 4).await;
    assert_eq!(setup.receiver.ids().len(), 3);
}

async fn retry_after_pauses_an_endpoint(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Busy(3600));
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    let is_paused = async || setup.webhook(id).await.paused_until.is_some();
    eventually("the endpoint is paused", is_paused).await;
    let in_an_hour = Timestamp::now() + SignedDuration::from_mins(50);
    assert!(setup.webhook(id).await.paused_until.unwrap() > in_an_hour);
    assert!(setup.deliveries(id).await[0].next_attempt_at.unwrap() > in_an_hour);
    // Another webhook shows that time has passed.
    let other = Receiver::start().await;
    setup.create(&other.url(), None).await;
    setup.server.create_pets(1).await;
    let received = async || other.count() == 2;
    eventually("the other webhook got both events", received).await;
    assert_eq!(setup.receiver.count(), 1);
    setup.receiver.respond(|_| Reply::Status(200));
    setup.advance(3600);
    let all_received = async || setup.receiver.ids().len() == 2;
    eventually("the events arrive after the pause", all_received).await;
    eventually("the retry succeeded", async || {
        setup.deliveries(id).await.is_empty()
    })
    .await;
}

async fn deleting_or_disabling_a_webhook_ends_its_requests(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Never);
    setup.server.create_pets(6).await;
    let in_flight = async |expected| {
        let reached = async || setup.receiver.in_flight() == expected;
        eventually("requests are in flight", reached).await;
    };
    let (disabled, _) = setup.create(&setup.receiver.url(), None).await;
    in_flight(4).await;
    setup.enable(disabled, false).await;
    in_flight(0).await;
    let (deleted, _) = setup.create(&setup.receiver.url(), None).await;
    in_flight(4).await;
    assert!(setup.store.webhook_delete(deleted).await.unwrap());
    in_flight(0).await;
    // A request that was cut off has not failed.
    let stored = setup.webhook(disabled).await;
    assert_eq!(stored.health.consecutive_failures, 0);
    assert_eq!(setup.receiver.count(), 8);
    setup.receiver.respond(|_| Reply::Status(200));
    setup.enable(disabled, true).await;
    setup.wait_for_position(disabled).await;
    assert_eq!(setup.receiver.count(), 14);
}

async fn a_replay_delivers_again(backend: Backend) {
    let setup = Setup::start(backend).await;
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(3).await;
    setup.wait_for_position(id).await;
    let first = event_id(&setup.events().await[0]);
    let replayed = setup.store.webhook_replay(id, first, Scopes::all()).await;
    replayed.unwrap().unwrap();
    setup.wait_for_position(id).await;
    let mut counts: Vec<_> = setup.receiver.ids().into_values().collect();
    counts.sort();
    assert_eq!(counts, [1, 2, 2]);
}

async fn a_webhook_that_fell_out_of_the_log_is_disabled(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.server.create_pets(1).await;
    let unknown = EventId::parse("evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5").unwrap();
    let (id, _) = setup.create_at(&setup.receiver.url(), None, unknown).await;
    let expired = WebhookState::Disabled(DisabledReason::EventsExpired);
    setup.wait_for_state(id, expired).await;
    assert!(setup.receiver.received().is_empty());
}

/// Nothing had happened for longer than events are kept, so the next event has the last one
/// purged, which the webhook is at.
async fn a_webhook_continues_after_a_quiet_time(backend: Backend) {
    let setup = Setup::start(backend).await;
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    setup.wait_for_position(id).await;
    let position = setup.webhook(id).await.position;
    setup.enable(id, false).await;
    setup.server.create_pets(1).await;
    let keep_one = EventRetention {
        count: 1,
        ..EventRetention::default()
    };
    eventually("the delivered event is purged", async || {
        setup.store.event_sync().await.unwrap();
        setup.store.event_purge(keep_one).await.unwrap();
        setup.store.event_purged_through().await.unwrap() == position.sequence
    })
    .await;
    setup.enable(id, true).await;
    setup.wait_for(2).await;
    setup.wait_for_position(id).await;

    // One more, and there is an event that it has missed, unless the service still has it in
    // memory.
    let expired = WebhookState::Disabled(DisabledReason::EventsExpired);
    let is_expired = async || setup.webhook(id).await.webhook.state == expired;
    for _ in 0..20 {
        setup.enable(id, false).await;
        setup.server.create_pets(2).await;
        eventually("an event is purged that was not delivered", async || {
            setup.store.event_sync().await.unwrap();
            setup.store.event_purge(keep_one).await.unwrap();
            let purged_through = setup.store.event_purged_through().await.unwrap();
            purged_through > setup.webhook(id).await.position.sequence
        })
        .await;
        setup.enable(id, true).await;
        let last = event_id(setup.events().await.last().unwrap());
        eventually("the webhook is disabled or has delivered all", async || {
            is_expired().await || setup.webhook(id).await.position == last
        })
        .await;
        if is_expired().await {
            return;
        }
    }
    panic!("every event was delivered from memory");
}

/// Otherwise a key could have events sent to itself that it cannot read.
async fn a_type_that_is_no_longer_asked_for_is_not_retried(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Status(500));
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    eventually("the delivery has failed", async || {
        setup.deliveries(id).await.len() == 1
    })
    .await;
    let change = WebhookChange {
        types: Patch::Set([EventType::OrderPlaced].into_iter().collect()),
        ..CHANGE
    };
    let update = setup
        .store
        .webhook_update(id, change, Scopes::all(), EventId::START);
    update.await.unwrap().unwrap();
    let failed = setup.deliveries(id).await[0].event_id;
    let retry = setup.store.delivery_retry(id, failed, Timestamp::now());
    retry.await.unwrap().unwrap();
    eventually("it is dropped", async || {
        setup.deliveries(id).await.is_empty()
    })
    .await;
    assert_eq!(setup.receiver.count(), 1);
}

/// A request in flight need not be sent again because the secret changes.
async fn a_rotation_interrupts_no_request(backend: Backend) {
    let setup = Setup::start(backend).await;
    setup.receiver.respond(|_| Reply::Never);
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    setup.wait_for(1).await;
    setup.receiver.respond(|_| Reply::Status(200));
    let new = WebhookSecret::generate();
    let text = new.reveal();
    let rotate = setup
        .store
        .webhook_rotate_secret(id, new, Scopes::all(), None);
    rotate.await.unwrap();
    eventually("the next event is signed with the new secret", async || {
        setup.server.create_pets(1).await;
        let received = setup.receiver.received();
        received.last().unwrap().is_signed_by(&text)
    })
    .await;
    assert_eq!(setup.receiver.in_flight(), 1);
    assert!(setup.receiver.ids().values().all(|count| *count == 1));
}

/// Its requests have no API key.
async fn a_webhook_at_the_service_itself_makes_no_loop(backend: Backend) {
    let setup = Setup::start(backend).await;
    let (id, _) = setup.create(&setup.server.url("/v1/pets"), None).await;
    setup.server.create_pets(1).await;
    eventually("it is rejected", async || {
        setup.deliveries(id).await.len() == 1
    })
    .await;
    let failed = &setup.deliveries(id).await[0];
    let expected = (Some(401), AttemptError::UnsuccessfulStatus);
    assert_eq!((failed.status, failed.error), expected);
    assert_eq!(setup.events().await.len(), 1);
    assert_eq!(setup.server.count_pets().await, 1);
}

async fn a_shutdown_saves_what_was_delivered(backend: Backend) {
    let mut setup = Setup::start(backend).await;
    let (id, _) = setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(1).await;
    setup.wait_for(1).await;
    let event = setup.receiver.received()[0].event();
    setup.server.shut_down().await;
    let stored = setup.webhook(id).await;
    assert_eq!(stored.position, event_id(&event));
    // Another replica need not wait for the lease to expire.
    let leased = setup.store.webhook_lease("another").await.unwrap();
    let leased: Vec<_> = leased.iter().map(|it| (it.id, it.revision)).collect();
    assert_eq!(leased, [(id, stored.revision)]);
}

/// A receiver that never responds does not affect the deliveries to others.
async fn a_stalled_receiver_delays_no_other(backend: Backend) {
    let setup = Setup::start(backend).await;
    let stalled = Receiver::start().await;
    stalled.respond(|_| Reply::Never);
    setup.create(&stalled.url(), None).await;
    setup.create(&setup.receiver.url(), None).await;
    setup.server.create_pets(20).await;
    let all_received = async || setup.receiver.ids().len() == 20;
    eventually("the other receiver has all events", all_received).await;
    // The last responses may still be on their way.
    let only_stalled = async || {
        let in_flight = setup.server.metric("petstore_webhook_attempts_in_flight");
        stalled.in_flight() == 4 && in_flight.await == 4.0
    };
    eventually(
        "only requests to the stalled one are in flight",
        only_stalled,
    )
    .await;
    assert_eq!(stalled.count(), 4);
    assert_eq!(setup.receiver.count(), 20);
}

/// A shutdown does not wait until a webhook has read the whole log, and saves what it has
/// skipped.
async fn a_webhook_skips_a_long_log_in_turns(backend: Backend) {
    const COUNT: i64 = 100_000;
    // The whole log may have been read before the shutdown.
    for _ in 0..20 {
        let mut setup = Setup::start(backend).await;
        setup.server.create_pets(1).await;
        setup.server.database.execute(&format!(
            "INSERT INTO events (at, type, resource_id, data)
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {COUNT})
             SELECT at, 'category.updated', 2, '{{\"id\":2,\"name\":\"Cats\"}}' FROM n, events WHERE sequence = 1"
        ));
        let types = Some(&[EventType::OrderPlaced][..]);
        let (id, _) = setup.create(&setup.receiver.url(), types).await;
        let skips = async || {
            let skipped = setup.server.metric("petstore_skipped_events_total").await;
            skipped > 0.0
        };
        eventually("the webhook skips events", skips).await;
        setup.server.shut_down().await;
        let position = setup.webhook(id).await.position.sequence;
        assert!(position > 0, "nothing was saved");
        if position < COUNT {
            return;
        }
    }
    panic!("every shutdown waited for the end of the log");
}
