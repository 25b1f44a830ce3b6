//! The stored progress and deliveries of webhooks.

use domain::{
    api_key::Scopes,
    event::{EventId, EventRetention},
    page::ListQuery,
    webhook::{
        DisabledReason, WebhookId, WebhookState,
        delivery::{Delivery, DeliveryFilter, DeliveryState, Progress},
        schedule::EndpointHealth,
        secret::WebhookSecret,
    },
};
use jiff::Timestamp;
use support::Backend;

use super::{failed, progress, retrying, second};
use crate::fixture::{TestStore, connect};

support::cases! {
    DATABASES: [
        all_of_the_progress_is_saved,
        nothing_is_saved_for_another_epoch,
        progress_is_saved_after_changes_that_do_not_concern_it,
        disabling_ends_the_delivery,
        an_event_that_failed_and_was_delivered_is_delivered,
        retries_are_ordered_by_the_time_they_are_due,
        deliveries_are_listed_by_event,
        a_delivery_is_retried_on_request,
        only_old_failed_deliveries_are_purged,
        a_webhook_is_deleted_with_its_deliveries,
        an_event_is_found_by_its_id,
        the_same_progress_is_saved_again,
    ],
    POSTGRES: [
        a_delivery_that_is_purged_is_not_retried,
    ],
}
async fn all_of_the_progress_is_saved(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let other = db.created().await.webhook.id;
    let events = db.events(4).await;
    let health = EndpointHealth {
        consecutive_failures: 3,
        failing_since: Some(second(100)),
    };
    let failures = vec![
        retrying(events[0], 200),
        failed(events[1], 100),
        retrying(events[2], 300),
    ];
    let saved = Progress {
        health,
        paused_until: Some(second(150)),
        failures: failures.clone(),
        ..progress(events[2])
    };
    db.save(id, saved).await;
    let stored = db.get(id).await;
    assert_eq!((stored.position, stored.revision), (events[2], 1));
    assert_eq!(
        (stored.health, stored.paused_until),
        (health, Some(second(150)))
    );
    assert_eq!(db.deliveries(id).await, failures);
    let again = Delivery {
        attempts: 2,
        ..failed(events[0], 200)
    };
    let saved = Progress {
        failures: vec![again.clone(), retrying(events[3], 1)],
        delivered: vec![events[2], events[1]],
        ..progress(events[3])
    };
    db.save(id, saved).await;
    let stored = db.get(id).await;
    assert_eq!(
        (stored.health, stored.paused_until),
        (EndpointHealth::default(), None)
    );
    assert_eq!(db.deliveries(id).await, [again, retrying(events[3], 1)]);
    assert_eq!(db.deliveries(other).await, []);
    assert_eq!(db.get(other).await.position, EventId::START);
}

async fn nothing_is_saved_for_another_epoch(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(2).await;
    db.save(
        id,
        Progress {
            failures: vec![retrying(events[0], 1)],
            ..progress(events[0])
        },
    )
    .await;
    let replayed = db.store.webhook_replay(id, EventId::START, Scopes::all());
    assert_eq!(replayed.await.unwrap().unwrap().epoch, 2);
    let saved = Progress {
        failures: vec![retrying(events[1], 1)],
        delivered: vec![events[0]],
        disabled: Some(DisabledReason::ReceiverGone),
        ..progress(events[1])
    };
    for (id, epoch) in [(id, 1), (id, 3), (WebhookId::parse("99").unwrap(), 1)] {
        let saved = db.store.webhook_save(id, "owner", epoch, saved.clone());
        assert!(!saved.await.unwrap());
    }
    let stored = db.get(id).await;
    assert_eq!(stored.webhook.state, WebhookState::Enabled);
    assert_eq!(stored.position, EventId::START);
    assert_eq!(db.deliveries(id).await, [retrying(events[0], 1)]);
}

async fn progress_is_saved_after_changes_that_do_not_concern_it(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(1).await;
    let new = WebhookSecret::generate();
    let all = Scopes::all();
    let rotated = db.store.webhook_rotate_secret(id, new, all, None);
    rotated.await.unwrap();
    db.store.webhook_lease("owner").await.unwrap();
    let saved = db
        .store
        .webhook_save(id, "owner", 1, progress(events[0]))
        .await;
    assert!(saved.unwrap());
    assert_eq!(db.get(id).await.position, events[0]);
}

/// Nanoseconds are not stored: the second time, nothing changes.
async fn the_same_progress_is_saved_again(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    db.store.webhook_lease("owner").await.unwrap();
    let paused = Progress {
        paused_until: Some(Timestamp::new(1_000_000, 123_456_789).unwrap()),
        ..progress(EventId::START)
    };
    for _ in 0..2 {
        let saved = db.store.webhook_save(id, "owner", 1, paused.clone());
        assert!(saved.await.unwrap());
    }
}

async fn disabling_ends_the_delivery(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let other = db.created().await.webhook.id;
    let position = db.events(1).await[0];
    let disabled = Progress {
        disabled: Some(DisabledReason::ReceiverGone),
        ..progress(position)
    };
    db.save(id, disabled.clone()).await;
    let stored = db.get(id).await;
    let expected = WebhookState::Disabled(DisabledReason::ReceiverGone);
    assert_eq!((stored.webhook.state, stored.revision), (expected, 2));
    assert!(stored.webhook.updated_at > stored.webhook.created_at);
    let leased = db.store.webhook_lease("owner").await.unwrap();
    let leased: Vec<_> = leased.iter().map(|it| (it.id, it.revision)).collect();
    assert_eq!(leased, [(other, 1)]);
    let saved = db.store.webhook_save(id, "owner", 2, disabled);
    assert!(!saved.await.unwrap());
}

async fn an_event_that_failed_and_was_delivered_is_delivered(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(2).await;
    let twice = Progress {
        failures: vec![
            retrying(events[0], 1),
            retrying(events[1], 1),
            retrying(events[1], 2),
        ],
        delivered: vec![events[0]],
        ..progress(events[1])
    };
    for _ in 0..2 {
        db.save(id, twice.clone()).await;
        assert_eq!(db.deliveries(id).await, [retrying(events[1], 2)]);
    }
}

async fn retries_are_ordered_by_the_time_they_are_due(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let other = db.created().await.webhook.id;
    let none = db
        .store
        .delivery_retries(id, second(1000), 10)
        .await
        .unwrap();
    assert_eq!((none.due, none.next_at, none.count), (vec![], None, 0));
    let events = db.events(6).await;
    let due = [300, 100, 200, 500, 400].map(second);
    let mut failures: Vec<_> = events
        .iter()
        .zip(due)
        .map(|(event, due)| retrying(*event, due.as_second()))
        .collect();
    failures.push(failed(events[5], 50));
    let saved = |failures| Progress {
        failures,
        ..progress(events[5])
    };
    db.save(id, saved(failures.clone())).await;
    db.save(other, saved(vec![retrying(events[0], 1)])).await;
    for (now, limit, expected, next_at) in [
        (99, 10, &[][..], Some(100)),
        (100, 10, &[1], Some(200)),
        (300, 10, &[1, 2, 0], Some(400)),
        (300, 2, &[1, 2], Some(400)),
        (1000, 10, &[1, 2, 0, 4, 3], None),
        // No retry is scheduled for more than 29 hours later: the clock was fast.
        (-29 * 3600 + 300, 10, &[4, 3], Some(100)),
    ] {
        let retries = db
            .store
            .delivery_retries(id, second(now), limit)
            .await
            .unwrap();
        let expected: Vec<_> = expected
            .iter()
            .map(|n: &usize| failures[*n].clone())
            .collect();
        assert_eq!((retries.due, retries.count), (expected, 5), "{now}");
        assert_eq!(retries.next_at, next_at.map(second), "{now}");
    }
}

async fn deliveries_are_listed_by_event(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(5).await;
    let is_failed = [true, false, true, true, false];
    let failures: Vec<_> = events
        .iter()
        .zip(is_failed)
        .map(|(event, is_failed)| {
            if is_failed {
                failed(*event, 1)
            } else {
                retrying(*event, 1)
            }
        })
        .collect();
    // In another order.
    let reversed = failures.iter().rev().cloned().collect();
    db.save(
        id,
        Progress {
            failures: reversed,
            ..progress(events[4])
        },
    )
    .await;
    for (query, expected) in [
        ("limit=2", vec![vec![0, 1], vec![2, 3], vec![4]]),
        ("limit=2&state=failed", vec![vec![0, 2], vec![3]]),
        ("limit=2&state=retrying", vec![vec![1, 4]]),
    ] {
        let mut query = ListQuery::<DeliveryFilter>::parse(query).unwrap();
        for page in &expected {
            let listed = db.store.delivery_list(id, query.clone()).await.unwrap();
            let page: Vec<_> = page.iter().map(|n: &usize| failures[*n].clone()).collect();
            assert_eq!(listed.items, page);
            query.after = listed.next;
        }
        assert_eq!(query.after, None, "{expected:?}");
    }
}

async fn a_delivery_is_retried_on_request(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(3).await;
    let failures = vec![failed(events[0], 100), retrying(events[1], 900)];
    db.save(
        id,
        Progress {
            failures,
            ..progress(events[2])
        },
    )
    .await;
    let versions = async || {
        let leased = db.store.webhook_lease("owner").await.unwrap();
        (leased[0].revision, leased[0].epoch)
    };
    for (event, revision) in [(events[0], 2), (events[1], 3)] {
        let retried = db.store.delivery_retry(id, event, second(500));
        let retried = retried.await.unwrap().unwrap();
        assert_eq!(retried.state, DeliveryState::Retrying);
        assert_eq!(retried.next_attempt_at, Some(second(500)));
        // The replica that delivers need not start over.
        assert_eq!(versions().await, (revision, 1));
    }
    assert_eq!(db.deliveries(id).await[0].attempts, 10);
    let due = db
        .store
        .delivery_retries(id, second(500), 10)
        .await
        .unwrap()
        .due;
    assert_eq!(due.len(), 2);
    let missing = WebhookId::parse("99").unwrap();
    // Of another log: same sequence number, another event.
    db.database.execute(&format!(
        "UPDATE webhook_deliveries SET event_id = '{}' WHERE sequence = {}",
        events[2], events[1].sequence
    ));
    for (id, event) in [
        (id, events[2]),
        (id, events[1]),
        (id, EventId::START),
        (missing, events[0]),
    ] {
        let retried = db.store.delivery_retry(id, event, second(500)).await;
        assert_eq!(retried.unwrap(), None);
    }
    assert_eq!(versions().await, (3, 1));
}

/// It is deleted while the retry, which has read it, waits to write it.
async fn a_delivery_that_is_purged_is_not_retried(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(1).await;
    let failures = vec![failed(events[0], 100)];
    db.save(
        id,
        Progress {
            failures,
            ..progress(events[0])
        },
    )
    .await;
    let session = connect(&db.database.url()).await;
    let delete = "BEGIN; DELETE FROM webhook_deliveries";
    session.batch_execute(delete).await.unwrap();
    // In one round trip: the retry gives up each wait after 100 ms, and reads again.
    let commit_when_awaited = "SET LOCAL statement_timeout = '300s';
        DO $$ BEGIN
            WHILE NOT EXISTS (SELECT FROM pg_locks
                              WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))
            LOOP PERFORM pg_sleep(0.001); END LOOP;
        END $$;
        COMMIT";
    let retry = db.store.delivery_retry(id, events[0], second(500));
    let (retried, committed) = tokio::join!(retry, session.batch_execute(commit_when_awaited));
    committed.unwrap();
    assert_eq!(retried.unwrap(), None);
    assert_eq!(db.deliveries(id).await, []);
}

async fn only_old_failed_deliveries_are_purged(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let events = db.events(4).await;
    let kept = [failed(events[1], 1_000_000), retrying(events[3], 1)];
    let mut failures = vec![failed(events[0], 199), failed(events[2], 100)];
    failures.extend(kept.clone());
    db.save(
        id,
        Progress {
            failures,
            ..progress(events[3])
        },
    )
    .await;
    let retention = Timestamp::now().duration_since(second(200));
    assert_eq!(db.store.delivery_purge(retention).await.unwrap(), 2);
    assert_eq!(db.store.delivery_purge(retention).await.unwrap(), 0);
    assert_eq!(db.deliveries(id).await, kept);
}

async fn a_webhook_is_deleted_with_its_deliveries(backend: Backend) {
    let db = &TestStore::open(backend).await;
    let id = db.created().await.webhook.id;
    let other = db.created().await.webhook.id;
    let event = db.events(1).await[0];
    for id in [id, other] {
        let failures = vec![retrying(event, 1), failed(event, 1)];
        db.save(
            id,
            Progress {
                failures,
                ..progress(event)
            },
        )
        .await;
    }
    assert!(db.store.webhook_delete(id).await.unwrap());
    let webhooks = db
        .database
        .query("SELECT max(webhook_id) FROM webhook_deliveries");
    assert_eq!(webhooks, other.get().to_string());
    assert_eq!(
        db.database.query("SELECT count(*) FROM webhook_deliveries"),
        "1"
    );
    assert_eq!(db.deliveries(id).await, []);
    let saved = db.store.webhook_save(id, "owner", 1, progress(event));
    assert!(!saved.await.unwrap());
}

async fn an_event_is_found_by_its_id(backend: Backend) {
    let db = &TestStore::open(backend).await;
    assert_eq!(db.store.event_get(EventId::START).await.unwrap(), None);
    let events = db.events(2).await;
    for id in &events {
        let found = db.store.event_get(*id).await.unwrap().unwrap();
        assert_eq!(found.id(), *id);
    }
    // Another event has taken its number.
    let sequence = events[1].sequence;
    db.database.execute(&format!(
        "UPDATE events SET data = '{{}}' WHERE sequence = {sequence}"
    ));
    assert_eq!(db.store.event_get(events[1]).await.unwrap(), None);
    let none = EventRetention {
        age: jiff::SignedDuration::ZERO,
        count: 1,
    };
    assert_eq!(db.store.event_purge(none).await.unwrap(), 1);
    assert_eq!(db.store.event_get(events[0]).await.unwrap(), None);
}
