//! Replicas that share the webhooks of one database.

use std::collections::HashSet;

use domain::{
    api_key::Scopes,
    event::EventId,
    members::Patch,
    webhook::{
        Description, DisabledReason, WebhookChange, WebhookId,
        delivery::{Progress, StoredWebhook},
        secret::WebhookSecret,
        url::WebhookUrl,
    },
};
use futures_util::future::{join, join_all};
use store::Store;
use support::Backend;

use super::{executed, first, new, progress, retrying};
use crate::fixture::{TestStore, connect};

support::cases! {
    POSTGRES: [
        an_expired_lease_moves_to_another_replica,
        a_lease_is_renewed_before_it_expires,
        only_enabled_webhooks_are_leased,
        two_replicas_never_have_the_same_webhook,
        concurrent_changes_of_a_webhook_are_all_made,
        the_limit_holds_for_all_replicas_together,
        a_locked_webhook_delays_no_other,
    ],
}
async fn lease(store: &Store, owner: &str) -> Vec<i64> {
    let leased = store.webhook_lease(owner).await.unwrap();
    leased.iter().map(|leased| leased.id.get()).collect()
}

async fn save(store: &Store, owner: &str, epoch: i64, position: EventId) -> bool {
    let progress = Progress {
        failures: vec![retrying(position, 1)],
        ..progress(position)
    };
    let saved = store.webhook_save(first(), owner, epoch, progress);
    saved.await.unwrap()
}

const UNCHANGED: WebhookChange = WebhookChange {
    url: None,
    types: Patch::Keep,
    description: Patch::Keep,
    is_enabled: None,
};

async fn update(store: &Store, id: WebhookId, change: WebhookChange) -> StoredWebhook {
    let updated = store.webhook_update(id, change, Scopes::all(), EventId::START);
    updated.await.unwrap().unwrap_or_else(|e| panic!("{e:?}"))
}

async fn describe(store: &Store, id: WebhookId, text: &str, is_enabled: Option<bool>) {
    let change = WebhookChange {
        description: Patch::Set(Description::parse(text).unwrap()),
        is_enabled,
        ..UNCHANGED
    };
    update(store, id, change).await;
}

/// Lets all leases expire in this number of seconds.
fn expire_in(db: &TestStore, seconds: i64) {
    db.database.execute(&format!(
        "UPDATE webhooks SET lease_expires_at =
             (extract(epoch FROM now()) * 1000000)::bigint + {seconds} * 1000000
         WHERE lease_owner IS NOT NULL"
    ));
}

async fn an_expired_lease_moves_to_another_replica(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let one = &db.store;
    let other = &db.open_again().await;
    db.created().await;
    let events = db.events(2).await;
    assert_eq!(lease(one, "one").await, [1]);
    assert!(lease(other, "other").await.is_empty());
    assert!(save(one, "one", 1, events[0]).await);
    assert!(!save(other, "other", 1, events[1]).await);
    // Still its own, as no other replica has it.
    expire_in(db, -1);
    assert!(save(one, "one", 1, events[0]).await);
    assert_eq!(lease(other, "other").await, [1]);
    assert!(lease(one, "one").await.is_empty());
    assert!(!save(one, "one", 1, events[1]).await);
    assert_eq!(db.get(first()).await.position, events[0]);
    assert_eq!(db.deliveries(first()).await, [retrying(events[0], 1)]);
    assert!(save(other, "other", 1, events[1]).await);
    one.webhook_release("one").await.unwrap();
    assert!(lease(one, "one").await.is_empty());
    other.webhook_release("other").await.unwrap();
    assert_eq!(lease(one, "one").await, [1]);
}

async fn a_lease_is_renewed_before_it_expires(backend: Backend) {
    let db = &TestStore::open(backend).await;
    db.created().await;
    let expires_at = "SELECT lease_expires_at FROM webhooks";
    lease(&db.store, "one").await;
    for (seconds, is_renewed) in [(100, false), (25, false), (14, true), (1, true), (-1, true)] {
        expire_in(db, seconds);
        let before = db.database.query(expires_at);
        assert_eq!(lease(&db.store, "one").await, [1]);
        assert_eq!(
            db.database.query(expires_at) != before,
            is_renewed,
            "{seconds}"
        );
    }
    let left = "SELECT round((lease_expires_at / 1000000.0 - extract(epoch FROM now())) / 20)
                FROM webhooks";
    assert_eq!(db.database.query(left), "1");
}

async fn only_enabled_webhooks_are_leased(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let one = &db.store;
    let other = &db.open_again().await;
    let id = db.created().await.webhook.id;
    let owner = "SELECT coalesce(lease_owner, 'none') || lease_expires_at IS NULL FROM webhooks";
    lease(one, "one").await;
    describe(one, id, "on", None).await;
    assert_eq!(db.database.query(owner), "f");
    describe(one, id, "off", Some(false)).await;
    assert!(lease(one, "one").await.is_empty());
    describe(one, id, "on", Some(true)).await;
    assert_eq!(lease(one, "one").await, [1]);
    one.webhook_release("one").await.unwrap();
    assert_eq!(lease(other, "other").await, [1]);
    let disabled = Progress {
        disabled: Some(DisabledReason::ReceiverGone),
        ..progress(EventId::START)
    };
    let saved = other.webhook_save(id, "other", 3, disabled);
    assert!(saved.await.unwrap());
    assert_eq!(db.database.query(owner), "t");
    assert!(lease(other, "other").await.is_empty());
}

async fn two_replicas_never_have_the_same_webhook(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let stores = [
        &db.open_again().await,
        &db.open_again().await,
        &db.open_again().await,
    ];
    let create = |_| db.created();
    join_all((0..50).map(create)).await;
    for round in 0..20 {
        let owners = (0..).zip(stores);
        let leased = owners.map(async |(n, store)| lease(store, &format!("{round} {n}")).await);
        let leased = join_all(leased).await.concat();
        let distinct: HashSet<_> = leased.iter().collect();
        assert_eq!(distinct.len(), leased.len(), "{leased:?}");
        // What one has skipped because another was about to lease it, that one has.
        assert_eq!(distinct.len(), 50);
        expire_in(db, -1);
    }
}

async fn concurrent_changes_of_a_webhook_are_all_made(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let stores = [&db.open_again().await, &db.open_again().await];
    let id = db.created().await.webhook.id;
    let events = db.events(20).await;
    lease(&db.store, "one").await;
    let url = |n| format!("https://{n}.example");
    let change = async |n: usize| {
        let mut change = UNCHANGED;
        if n % 4 < 2 {
            change.description = Patch::Set(Description::parse(&n.to_string()).unwrap());
        } else {
            change.url = WebhookUrl::parse(&url(n)).ok();
        }
        (n, update(stores[n % 2], id, change).await)
    };
    let changes = join_all((0..20).map(change));
    // A replica that delivers at the same time saves only what belongs to the current epoch.
    let saves = async {
        let mut saved = EventId::START;
        for event in events {
            let epoch = db.get(id).await.epoch;
            if db
                .store
                .webhook_save(id, "one", epoch, progress(event))
                .await
                .unwrap()
            {
                saved = event;
            }
        }
        saved
    };
    let (mut changes, saved) = join(changes, saves).await;
    changes.sort_by_key(|(_, stored)| stored.revision);
    // Each has changed one member of what the one before has left.
    let mut expected = (new().url.as_str().to_string(), None);
    for (n, changed) in changes {
        if n % 4 < 2 {
            expected.1 = Some(n.to_string());
        } else {
            expected.0 = url(n);
        }
        let description = changed.webhook.description;
        let description = description.map(|text| text.as_str().to_string());
        assert_eq!((changed.webhook.url.as_str().into(), description), expected);
    }
    let stored = db.get(id).await;
    assert_eq!((stored.revision, stored.position), (21, saved));
}

async fn the_limit_holds_for_all_replicas_together(backend: Backend) {
    let db = &TestStore::open(backend).await;
    db.fill_up_to(999).await;
    // All of them count before one of them commits.
    db.database.execute(
        "CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$;
         CREATE TRIGGER pause BEFORE INSERT ON webhooks
         FOR EACH ROW EXECUTE FUNCTION pause()",
    );
    let stores = join_all((0..4).map(|_| db.open_again())).await;
    let create = async |store: &Store| {
        let secret = WebhookSecret::generate();
        let created = store.webhook_create(1, Scopes::all(), new(), secret, EventId::START, None);
        executed(created.await.unwrap()).is_ok()
    };
    let created = join_all(stores.iter().map(create)).await;
    let created = created.iter().filter(|is_created| **is_created);
    assert_eq!(created.count(), 1);
}

async fn a_locked_webhook_delays_no_other(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let locked = db.created().await.webhook.id;
    let free = db.created().await.webhook.id;
    let event = db.events(1).await[0];
    let failures = vec![retrying(event, 1)];
    db.save(
        locked,
        Progress {
            failures,
            ..progress(event)
        },
    )
    .await;
    let session = connect(&db.database.url()).await;
    session
        .batch_execute("BEGIN; SELECT FROM webhooks WHERE id = 1 FOR UPDATE")
        .await
        .unwrap();
    assert_eq!(lease(&db.store, "owner").await, [1, 2]);
    let store = &db.store;
    let changes = async {
        tokio::join!(
            async {
                store
                    .delivery_retry(locked, event, jiff::Timestamp::UNIX_EPOCH)
                    .await
                    .unwrap()
            },
            describe(store, locked, "locked", None),
        )
    };
    let unlock = async {
        describe(store, free, "free", None).await;
        assert!(store.webhook_delete(free).await.unwrap());
        session.batch_execute("COMMIT").await.unwrap();
    };
    let ((retried, ()), ()) = join(changes, unlock).await;
    assert!(retried.is_some());
    let stored = db.get(locked).await;
    assert_eq!(
        (
            stored.revision,
            stored.webhook.description.unwrap().as_str()
        ),
        (3, "locked")
    );
}
