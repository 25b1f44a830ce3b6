//! Commands on a store with webhooks.

use std::os::unix::fs::PermissionsExt;

use petstore::event::EventId;
use rusqlite::Connection;

use super::{Database, first, open, progress, retrying};
use crate::{harness::Home, postgres::Cluster};

/// A webhook with a position and a delivery.
async fn fill(db: &Database<'_>) {
    let id = db.created().await.webhook.id;
    let event = db.events(1).await[0];
    let mut saved = progress(event);
    saved.failures = vec![retrying(event, 1)];
    db.save(id, saved).await;
}

async fn check_finds_what_is_wrong(db: &Database<'_>) {
    fill(db).await;
    let url = db.home.url();
    let check = || db.home.petstore(&["check", "--database", &url]);
    check().success();
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
        db.sql(&format!("UPDATE {damage}"));
        let found = check();
        assert_eq!(found.code, Some(1), "{found:?}");
        assert!(found.stdout.starts_with(problem), "{found:?}");
        db.sql("DELETE FROM webhook_deliveries");
        db.sql("DELETE FROM webhooks");
        fill(db).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn check_finds_damaged_webhooks_on_sqlite() {
    let db = Database::sqlite().await;
    check_finds_what_is_wrong(&db).await;
    // Only SQLite lets another program do this.
    let other = Connection::open(db.home.database()).unwrap();
    other.pragma_update(None, "foreign_keys", false).unwrap();
    other.execute("DELETE FROM webhooks", []).unwrap();
    let found = db.home.petstore(&["check", "--database", &db.home.url()]);
    let problem = "deliveries without a webhook: 1";
    assert!(found.stdout.starts_with(problem), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn check_finds_damaged_webhooks_on_postgres() {
    let cluster = Cluster::start_without_sync();
    check_finds_what_is_wrong(&Database::postgres(&cluster).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_contains_webhooks_and_only_its_owner_can_read_it() {
    let db = Database::sqlite().await;
    fill(&db).await;
    let secret = db.get(first()).await.secrets.current.reveal();
    let backup = db.home.path("backup.db");
    let to = backup.to_str().unwrap();
    let url = db.home.url();
    db.home
        .petstore(&["backup", "--database", &url, to])
        .success();
    let mode = backup.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    let restored = Home::with_database(crate::harness::url(&backup));
    let stored = open(&restored).await.webhook_get(first()).await;
    let stored = stored.unwrap().unwrap();
    assert_eq!(stored.secrets.current.reveal(), secret);
    assert_ne!(stored.position, EventId::START);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_copy_has_the_webhooks_at_the_start_of_the_new_log() {
    let cluster = Cluster::start_without_sync();
    let database = cluster.create_database();
    let there = Home::with_database(cluster.url(&database));
    let db = Database::sqlite().await;
    fill(&db).await;
    let deleted = db.created().await.webhook.id;
    assert!(db.store.webhook_delete(deleted).await.unwrap());
    let before = db.get(first()).await;
    db.store.close().await;
    let (from, to) = (db.home.url(), there.url());
    let copied = db.home.petstore(&["copy", "--from", &from, "--to", &to]);
    let copied = copied.success();
    assert!(copied.stderr.contains(" and 1 webhook."), "{copied:?}");
    let copy = Database {
        store: open(&there).await,
        home: there,
        server: Some((&cluster, database)),
    };
    let stored = copy.get(first()).await;
    assert_eq!(stored.webhook, before.webhook);
    let secret = stored.secrets.current.reveal();
    assert_eq!(secret, before.secrets.current.reveal());
    assert_eq!(stored.position, EventId::START);
    assert_eq!(copy.deliveries(first()).await, []);
    // Ids continue.
    assert_eq!(copy.created().await.webhook.id.get(), deleted.get() + 1);
}
