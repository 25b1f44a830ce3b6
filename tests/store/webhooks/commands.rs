//! Commands on a store with webhooks.

use std::{os::unix::fs::PermissionsExt, sync::Arc};

use domain::event::EventId;
use store::Role;
use support::{Backend, CommandResult, Database};

use super::{first, progress, retrying};
use crate::fixture::{TestStore, open, petstore};

support::cases! {
    DATABASES: [check_finds_damaged_webhooks],
    SQLITE: [
        check_finds_deliveries_without_a_webhook,
        a_backup_contains_webhooks_and_only_its_owner_can_read_it,
    ],
    POSTGRES: [a_copy_has_the_webhooks_at_their_positions],
}

/// A webhook with a position and a delivery.
async fn fill(db: &TestStore) {
    let id = db.created().await.webhook.id;
    let event = db.events(1).await[0];
    let mut saved = progress(event);
    saved.failures = vec![retrying(event, 1)];
    db.save(id, saved).await;
}

fn check(db: &TestStore) -> CommandResult {
    petstore(&["check", "--database", &db.database.url()])
}

async fn check_finds_damaged_webhooks(backend: Backend) {
    let db = &TestStore::open(backend).await;
    fill(db).await;
    check(db).success();
    for (damage, problem) in [
        (
            "webhooks SET position = 'evt_7'",
            "webhooks with a malformed position: 1",
        ),
        (
            "webhooks SET url = 'ftp://a'",
            "webhooks with a malformed URL: 1",
        ),
        (
            "webhooks SET secret = 'whsec_'",
            "webhooks with a malformed secret: 1",
        ),
        (
            "webhooks SET previous_secret = 'a'",
            "webhooks with a malformed secret: 1",
        ),
        (
            "webhooks SET disabled_reason = 'requested'",
            "webhooks whose state contradicts",
        ),
        (
            "webhook_deliveries SET next_attempt_at = NULL",
            "deliveries whose state contradicts",
        ),
        (
            "webhook_deliveries SET sequence = 7",
            "deliveries with another sequence number",
        ),
    ] {
        db.database.execute(&format!("UPDATE {damage}"));
        let found = check(db);
        assert_eq!(found.code, Some(1), "{found:?}");
        assert!(found.stdout.starts_with(problem), "{found:?}");
        db.database.execute("DELETE FROM webhook_deliveries");
        db.database.execute("DELETE FROM webhooks");
        fill(db).await;
    }
}

/// Only SQLite lets another program delete them.
async fn check_finds_deliveries_without_a_webhook(backend: Backend) {
    let db = &TestStore::open(backend).await;
    fill(db).await;
    db.database
        .execute("PRAGMA foreign_keys = OFF; DELETE FROM webhooks");
    let found = check(db);
    let problem = "deliveries without a webhook: 1";
    assert!(found.stdout.starts_with(problem), "{found:?}");
}

async fn a_backup_contains_webhooks_and_only_its_owner_can_read_it(backend: Backend) {
    let db = TestStore::open(backend).await;
    fill(&db).await;
    let secret = db.get(first()).await.secrets.current.reveal();
    let dir = tempfile::tempdir().unwrap();
    let backup = dir.path().join("backup.db");
    let to = backup.to_str().unwrap();
    petstore(&["backup", "--database", &db.database.url(), to]).success();
    let mode = backup.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let restored = open(&format!("sqlite:{to}"), Role::Cli).await;
    let stored = restored.webhook_get(first()).await.unwrap().unwrap();
    assert_eq!(stored.secrets.current.reveal(), secret);
    assert_ne!(stored.position, EventId::START);
}

async fn a_copy_has_the_webhooks_at_their_positions(backend: Backend) {
    let db = TestStore::open(Backend::Sqlite).await;
    fill(&db).await;
    let deleted = db.created().await.webhook.id;
    assert!(db.store.webhook_delete(deleted).await.unwrap());
    let before = db.get(first()).await;
    let deliveries = db.deliveries(first()).await;
    assert_eq!(deliveries.len(), 1);
    db.store.close().await;
    let there = Database::new(backend);
    let from = db.database.url();
    let to = there.url();
    let copied = petstore(&["copy", "--from", &from, "--to", &to]).success();
    assert!(copied.stderr.contains(" 1 webhook and "), "{copied:?}");
    let copy = TestStore {
        store: Arc::new(open(&to, Role::Cli).await),
        database: there,
    };
    let stored = copy.get(first()).await;
    assert_eq!(stored.webhook, before.webhook);
    let secret = stored.secrets.current.reveal();
    assert_eq!(secret, before.secrets.current.reveal());
    assert_eq!(stored.position, before.position);
    assert_eq!(copy.deliveries(first()).await, deliveries);
    // Ids continue.
    assert_eq!(copy.created().await.webhook.id.get(), deleted.get() + 1);
}
