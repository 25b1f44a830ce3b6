//! Changes that clients make to webhooks.

use domain::{
    api_key::{Scope, Scopes},
    event::{EventId, EventType, EventTypes},
    idempotency::Idempotent,
    members::Patch,
    page::ListQuery,
    webhook::{
        Description, DisabledReason, NewWebhook, WebhookChange, WebhookFilter, WebhookId,
        WebhookRejection, WebhookState,
        delivery::{Progress, StoredWebhook},
        schedule::EndpointHealth,
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};
use futures_util::future::join_all;
use store::Store;
use support::Backend;

use super::{executed, first, new, progress, replayed, request, second};
use crate::fixture::TestStore;

support::cases! {
    DATABASES: [
        webhooks_are_created_and_listed_in_order,
        ids_are_never_reused,
        the_number_of_webhooks_is_limited,
        a_change_changes_what_it_names,
        a_key_must_be_able_to_read_what_a_webhook_delivers,
        enabling_again_forgets_failures,
        a_new_url_forgets_failures,
        enabling_after_events_expired_continues_with_the_newest,
        replaying_moves_the_position,
        rotating_keeps_only_the_previous_secret,
        a_retried_create_is_replayed,
        a_retried_rotation_is_replayed,
        concurrent_retries_are_executed_once,
    ],
}

const UNCHANGED: WebhookChange = WebhookChange {
    url: None,
    types: Patch::Keep,
    description: Patch::Keep,
    is_enabled: None,
};

async fn update(
    db: &TestStore,
    id: WebhookId,
    change: WebhookChange,
) -> Result<StoredWebhook, WebhookRejection> {
    let newest = EventId::START;
    let updated = db.store.webhook_update(id, change, Scopes::all(), newest);
    updated.await.unwrap()
}

async fn set_enabled(db: &TestStore, id: WebhookId, newest: EventId, enabled: bool) {
    let change = WebhookChange {
        is_enabled: Some(enabled),
        ..UNCHANGED
    };
    let updated = db.store.webhook_update(id, change, Scopes::all(), newest);
    let state = updated.await.unwrap().unwrap().webhook.state;
    assert_eq!(state == WebhookState::Enabled, enabled);
}

/// Progress with an endpoint that fails.
fn failing(position: EventId) -> Progress {
    Progress {
        health: EndpointHealth {
            consecutive_failures: 7,
            failing_since: Some(second(100)),
        },
        paused_until: Some(second(200)),
        ..progress(position)
    }
}

fn secrets(stored: &StoredWebhook) -> (String, Option<String>) {
    let previous = stored.secrets.previous.as_ref();
    let previous = previous.map(|(secret, _)| secret.reveal());
    (stored.secrets.current.reveal(), previous)
}

async fn webhooks_are_created_and_listed_in_order(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let position = db.events(1).await[0];
    let full = NewWebhook {
        url: WebhookUrl::parse("https://example.com:8443/%C3%A5?a=b&c").unwrap(),
        types: Some(
            [EventType::PetCreated, EventType::OrderPlaced]
                .into_iter()
                .collect(),
        ),
        description: Some(Description::parse("Bestand ✓ 'quoted' \\").unwrap()),
    };
    let secret = WebhookSecret::generate();
    let revealed = secret.reveal();
    let created = db
        .store
        .webhook_create(1, Scopes::all(), full.clone(), secret, position, None);
    let created = executed(created.await.unwrap()).unwrap();
    for stored in [&created, &db.get(created.webhook.id).await] {
        let webhook = &stored.webhook;
        assert_eq!((webhook.id.get(), webhook.api_key_id), (1, 1));
        assert_eq!((&webhook.url, Some(webhook.types)), (&full.url, full.types));
        assert_eq!(webhook.description, full.description);
        assert_eq!(webhook.state, WebhookState::Enabled);
        assert_eq!(webhook.created_at, webhook.updated_at);
        assert_eq!(webhook.created_at, created.webhook.created_at);
        assert_eq!(secrets(stored), (revealed.clone(), None));
        assert_eq!((stored.position, stored.revision), (position, 1));
        assert_eq!(stored.health, EndpointHealth::default());
        assert_eq!(stored.paused_until, None);
    }
    for _ in 0..3 {
        db.created().await;
    }
    let mut query = ListQuery::<WebhookFilter>::parse("limit=3").unwrap();
    let first = db.store.webhook_list(query.clone()).await.unwrap();
    let ids = |items: &[StoredWebhook]| -> Vec<_> {
        items.iter().map(|stored| stored.webhook.id.get()).collect()
    };
    assert_eq!(ids(&first.items), [1, 2, 3]);
    assert_eq!(secrets(&first.items[0]).0, revealed);
    query.after = first.next;
    let second = db.store.webhook_list(query).await.unwrap();
    assert_eq!((ids(&second.items), second.next), (vec![4], None));
}

async fn ids_are_never_reused(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    assert!(db.store.webhook_delete(id).await.unwrap());
    assert!(!db.store.webhook_delete(id).await.unwrap());
    assert!(db.store.webhook_get(id).await.unwrap().is_none());
    assert_eq!(db.created().await.webhook.id.get(), id.get() + 1);
    let rejected = update(db, id, UNCHANGED).await.err();
    assert_eq!(rejected, Some(WebhookRejection::NoSuchWebhook));
}

async fn the_number_of_webhooks_is_limited(backend: Backend) {
    let db = &TestStore::open(backend).await;
    db.fill_up_to(998).await;
    let other = db.open_again().await;
    let create = async |store: &Store| {
        let new = new();
        let secret = WebhookSecret::generate();
        let created = store.webhook_create(1, Scopes::all(), new, secret, EventId::START, None);
        executed(created.await.unwrap()).err()
    };
    let stores = [&db.store, &other].into_iter().cycle().take(8);
    let mut rejections = join_all(stores.map(create)).await;
    rejections.retain(Option::is_some);
    assert_eq!(rejections, [Some(WebhookRejection::TooMany); 6]);
    assert_eq!(db.database.query("SELECT count(*) FROM webhooks"), "1000");
    let rejected = executed(db.create(request("full", 1)).await);
    assert_eq!(rejected.err(), Some(WebhookRejection::TooMany));
    assert!(db.store.webhook_delete(first()).await.unwrap());
    let rejected = replayed(db.create(request("full", 1)).await);
    assert_eq!(rejected.err(), Some(WebhookRejection::TooMany));
    db.created().await;
}

async fn a_change_changes_what_it_names(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let before = db.created().await;
    let id = before.webhook.id;
    let unchanged = update(db, id, UNCHANGED).await.unwrap();
    assert_eq!(
        (&unchanged.webhook, unchanged.revision),
        (&before.webhook, 1)
    );
    let types: EventTypes = [EventType::PetDeleted].into_iter().collect();
    let change = WebhookChange {
        types: Patch::Set(types),
        description: Patch::Set(Description::parse("b").unwrap()),
        ..UNCHANGED
    };
    let position = db.events(1).await[0];
    db.save(id, failing(position)).await;
    let changed = update(db, id, change).await.unwrap();
    for stored in [&changed, &db.get(id).await] {
        assert_eq!(stored.webhook.types, types);
        assert_eq!(stored.webhook.description.as_ref().unwrap().as_str(), "b");
        assert_eq!(stored.webhook.url, before.webhook.url);
        assert!(stored.webhook.updated_at >= before.webhook.updated_at);
        assert_eq!(secrets(stored), secrets(&before));
        assert_eq!((stored.position, stored.revision), (position, 2));
        assert_eq!(stored.health.consecutive_failures, 7);
        assert_eq!(stored.paused_until, Some(second(200)));
    }
    let removed = WebhookChange {
        description: Patch::Remove,
        ..UNCHANGED
    };
    let removed = update(db, id, removed).await.unwrap();
    assert_eq!((removed.webhook.description, removed.revision), (None, 3));
}

async fn a_key_must_be_able_to_read_what_a_webhook_delivers(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let pets: Scopes = [Scope::PetsRead].into_iter().collect();
    let id = db.created().await.webhook.id;
    let missing = Some(WebhookRejection::MissingScope(Scope::OrdersRead));
    let change = WebhookChange {
        is_enabled: Some(false),
        ..UNCHANGED
    };
    let updated = db.store.webhook_update(id, change, pets, EventId::START);
    assert_eq!(updated.await.unwrap().err(), missing);
    let replayed = db.store.webhook_replay(id, EventId::START, pets);
    assert_eq!(replayed.await.unwrap().err(), missing);
    // It is not recorded: with more scopes, the key can be used.
    for (scopes, expected) in [(pets, missing), (pets, missing), (Scopes::all(), None)] {
        let secret = WebhookSecret::generate();
        let rotated = db
            .store
            .webhook_rotate_secret(id, secret, scopes, request("scope", 1));
        assert_eq!(executed(rotated.await.unwrap()).err(), expected);
    }
    let orders = NewWebhook {
        types: Some([EventType::OrderPlaced].into_iter().collect()),
        ..new()
    };
    let secret = WebhookSecret::generate();
    let created =
        db.store
            .webhook_create(1, pets, orders, secret, EventId::START, request("new", 1));
    assert_eq!(executed(created.await.unwrap()).err(), missing);
    assert_eq!(db.database.query("SELECT count(*) FROM webhooks"), "1");
    assert_eq!(
        db.database.query("SELECT count(*) FROM idempotency_keys"),
        "1"
    );
}

async fn enabling_again_forgets_failures(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let [position, newest] = db.events(2).await[..] else {
        panic!("there are two events")
    };
    for reason in [
        DisabledReason::ReceiverGone,
        DisabledReason::ReceiverFailing,
    ] {
        let disabled = Progress {
            disabled: Some(reason),
            ..failing(position)
        };
        db.save(id, disabled).await;
        let stored = db.get(id).await;
        assert_eq!(stored.webhook.state, WebhookState::Disabled(reason));
        assert_eq!(stored.health.consecutive_failures, 7);
        set_enabled(db, id, newest, false).await;
        assert_eq!(
            db.get(id).await.webhook.state,
            WebhookState::Disabled(reason)
        );
        set_enabled(db, id, newest, true).await;
        let stored = db.get(id).await;
        assert_eq!(stored.health, EndpointHealth::default());
        assert_eq!((stored.paused_until, stored.position), (None, position));
    }
}

async fn a_new_url_forgets_failures(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let position = db.events(1).await[0];
    db.save(id, failing(position)).await;
    let moved = WebhookChange {
        url: WebhookUrl::parse("https://b.example").ok(),
        ..UNCHANGED
    };
    let moved = update(db, id, moved).await.unwrap();
    assert_eq!(moved.webhook.url.as_str(), "https://b.example");
    assert_eq!(moved.health, EndpointHealth::default());
    assert_eq!((moved.paused_until, moved.position), (None, position));
}

async fn enabling_after_events_expired_continues_with_the_newest(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let newest = *db.events(2).await.last().unwrap();
    let expired = Progress {
        disabled: Some(DisabledReason::EventsExpired),
        ..progress(EventId::START)
    };
    db.save(id, expired.clone()).await;
    set_enabled(db, id, newest, true).await;
    assert_eq!(db.get(id).await.position, newest);
    // Unless a client has chosen another position in between.
    db.save(id, expired).await;
    let chosen = db.events(0).await[0];
    let replayed = db.store.webhook_replay(id, chosen, Scopes::all());
    assert_ne!(
        replayed.await.unwrap().unwrap().webhook.state,
        WebhookState::Enabled
    );
    set_enabled(db, id, newest, true).await;
    assert_eq!(db.get(id).await.position, chosen);
}

async fn replaying_moves_the_position(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let before = db.created().await;
    let id = before.webhook.id;
    let [first, last] = db.events(2).await[..] else {
        panic!("there are two events")
    };
    db.save(id, failing(last)).await;
    for position in [first, first, EventId::START, last] {
        let before = db.get(id).await;
        let replayed = db.store.webhook_replay(id, position, Scopes::all());
        let replayed = replayed.await.unwrap().unwrap();
        assert_eq!(replayed.position, position);
        assert_eq!(replayed.revision, before.revision + 1);
        assert_eq!(replayed.health, before.health);
        assert_eq!(secrets(&replayed), secrets(&before));
    }
    let id = WebhookId::parse("99").unwrap();
    let missing = db.store.webhook_replay(id, first, Scopes::all());
    let rejected = missing.await.unwrap().err();
    assert_eq!(rejected, Some(WebhookRejection::NoSuchWebhook));
}

async fn rotating_keeps_only_the_previous_secret(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let before = db.created().await;
    let id = before.webhook.id;
    let mut previous = secrets(&before).0;
    for revision in [2, 3] {
        let new = WebhookSecret::generate();
        let revealed = new.reveal();
        let rotated = db.store.webhook_rotate_secret(id, new, Scopes::all(), None);
        let rotated = executed(rotated.await.unwrap()).unwrap();
        let expected = (revealed.clone(), Some(previous));
        for stored in [&rotated, &db.get(id).await] {
            assert_eq!(secrets(stored), expected);
            assert_eq!(stored.revision, revision);
            let expires_at = stored.secrets.previous.as_ref().unwrap().1;
            let overlap = expires_at.duration_since(stored.webhook.updated_at);
            assert_eq!(overlap, jiff::SignedDuration::from_hours(24));
        }
        previous = revealed;
    }
}

async fn a_retried_create_is_replayed(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let created = executed(db.create(request("till-1", 1)).await).unwrap();
    let again = replayed(db.create(request("till-1", 1)).await).unwrap();
    assert_eq!(again.webhook, created.webhook);
    assert_eq!(secrets(&again), secrets(&created));
    let reused = db.create(request("till-1", 2)).await;
    assert!(matches!(reused, Idempotent::KeyReused));
    assert_eq!(db.database.query("SELECT count(*) FROM webhooks"), "1");
    assert!(db.store.webhook_delete(created.webhook.id).await.unwrap());
    let deleted = replayed(db.create(request("till-1", 1)).await);
    assert_eq!(deleted.err(), Some(WebhookRejection::NoSuchWebhook));
}

async fn a_retried_rotation_is_replayed(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let rotate = async |id, key, fingerprint| {
        let new = WebhookSecret::generate();
        let scopes = Scopes::all();
        let request = request(key, fingerprint);
        let rotated = db.store.webhook_rotate_secret(id, new, scopes, request);
        rotated.await.unwrap()
    };
    let missing = WebhookId::parse("1").unwrap();
    let rejected = executed(rotate(missing, "early", 1).await).err();
    assert_eq!(rejected, Some(WebhookRejection::NoSuchWebhook));
    let id = db.created().await.webhook.id;
    assert_eq!(id, missing);
    let rejected = replayed(rotate(missing, "early", 1).await).err();
    assert_eq!(rejected, Some(WebhookRejection::NoSuchWebhook));
    let rotated = executed(rotate(id, "late", 1).await).unwrap();
    let again = replayed(rotate(id, "late", 1).await).unwrap();
    assert_eq!(secrets(&again), secrets(&rotated));
    assert_eq!(db.get(id).await.revision, 2);
    assert!(matches!(rotate(id, "late", 2).await, Idempotent::KeyReused));
}

async fn concurrent_retries_are_executed_once(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let created = join_all((0..8).map(|_| db.create(request("create", 1)))).await;
    let is_executed = |result: &&Idempotent<_>| matches!(result, Idempotent::Executed(_));
    assert_eq!(created.iter().filter(is_executed).count(), 1);
    assert_eq!(db.database.query("SELECT count(*) FROM webhooks"), "1");
    // One that was not executed may have taken the first id.
    let id = db.database.query("SELECT id FROM webhooks");
    let id = WebhookId::parse(&id).unwrap();
    let rotate = |_| async {
        let new = WebhookSecret::generate();
        let scopes = Scopes::all();
        let request = request("rotate", 1);
        let rotated = db.store.webhook_rotate_secret(id, new, scopes, request);
        rotated.await.unwrap()
    };
    let rotated = join_all((0..8).map(rotate)).await;
    assert_eq!(rotated.iter().filter(is_executed).count(), 1);
    assert_eq!(db.get(id).await.revision, 2);
}
