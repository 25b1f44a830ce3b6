//! Online backups (`petstore backup`) and integrity checks (`petstore check`).

use std::fs;

use rusqlite::Connection;

use crate::{
    client::{Client, LoadGenerator},
    harness::{Finished, Home},
    postgres::Cluster,
};

fn backup(home: &Home, file: &str) -> Finished {
    home.petstore(&["backup", file, "--database", &home.url()])
}

fn check(home: &Home, url: &str) -> Finished {
    home.petstore(&["check", "--database", url])
}

/// Restore drill: back up under load, lose the database file, restore the
/// backup. Every write acknowledged before the backup began is there.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_taken_under_load_can_be_restored() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let before = LoadGenerator::start(&client, 8, "before");
    before
        .until(|results| results.acknowledged.len() >= 500)
        .await;
    let mut results = before.finish().await;
    let during = LoadGenerator::start(&client, 8, "meanwhile");
    during
        .until(|results| results.acknowledged.len() >= 100)
        .await;

    backup(&home, "copy.db").success();
    check(&home, "sqlite:copy.db").success();
    check(&home, &home.url()).success();
    during.until(|results| results.unavailable == 0).await;
    let concurrent = during.finish().await;
    service.kill();
    for name in ["petstore.db", "petstore.db-wal", "petstore.db-shm"] {
        let _ = fs::remove_file(home.path(name));
    }
    fs::rename(home.path("copy.db"), home.database()).unwrap();

    let service = home.serve();
    let client = Client::new(&service, &key);
    // Concurrent writes may or may not be in the backup.
    results.unknown.extend(concurrent.unknown);
    results.unknown.extend(concurrent.acknowledged.into_keys());
    results.assert_durable(&client.pets().await);
    assert_eq!(client.create("after").await.unwrap().status, 201);
    let db = Connection::open(home.database()).unwrap();
    let mode: String = db
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    service.stop();
}

#[test]
fn a_failed_backup_overwrites_nothing_and_leaves_nothing() {
    let home = Home::new();
    home.new_key();
    let before = home.files();
    fs::write(home.path("there.db"), "mine").unwrap();
    backup(&home, "there.db").assert_fails(1, "already exists");
    assert_eq!(fs::read(home.path("there.db")).unwrap(), b"mine");
    fs::remove_file(home.path("there.db")).unwrap();
    backup(&home, "nowhere/copy.db").assert_fails(1, "No such file");
    let missing = home.petstore(&["backup", "copy.db", "--database", "sqlite:none.db"]);
    missing.assert_fails(1, "there is no database");
    let server = home.petstore(&[
        "backup",
        "copy.db",
        "--database",
        "postgres://a@127.0.0.1/b",
    ]);
    server.assert_fails(1, "back up PostgreSQL with its own tools");
    assert_eq!(home.files(), before);
    // File names are taken literally, not as SQLite URIs or options.
    for name in ["file:copy.db", "copy?mode=ro.db", "-copy\n.db"] {
        home.petstore(&["backup", "--database", &home.url(), "--", name])
            .success();
        let size = fs::metadata(home.path(name)).unwrap().len();
        assert!(size > 0, "{name}");
        fs::remove_file(home.path(name)).unwrap();
    }
    let left = home.files();
    assert!(
        left.iter().all(|file| file.starts_with("petstore.db")),
        "{left:?}"
    );
}

#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn a_backup_appears_atomically() {
    let home = Home::new();
    home.new_key();
    let mut killed = home.traced(&[
        "-e",
        "trace=renameat2",
        "-e",
        "inject=renameat2:signal=KILL",
    ]);
    let killed = Finished::of(killed.args(["backup", "copy.db", "--database", &home.url()]));
    assert_eq!(killed.code, None, "not killed: {killed:?}");
    assert!(
        !home.files().contains(&"copy.db".into()),
        "{:?}",
        home.files()
    );
    backup(&home, "copy.db").success();
}

#[test]
fn check_reports_inconsistencies() {
    let home = Home::new();
    home.new_key();
    check(&home, &home.url()).success();
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(
        "INSERT INTO pets (name, search_name, category_id, status) VALUES
             ('A', 'a', 1, 'available'), ('B', 'B', 1, 'sold'), ('C', 'c', 1, 'available');
         INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at) VALUES
             (1, 'placed', 5, 5, NULL), (2, 'cancelled', 5, 4, NULL), (3, 'completed', 5, 6, 6),
             (4, 'completed', 5, 5, 5), (5, 'completed', 5, 5, NULL);
         INSERT INTO categories VALUES (1, 'Dogs', 'Dogs');
         UPDATE counts SET pets_sold = 7;",
    )
    .unwrap();
    db.close().unwrap();
    let found = check(&home, &home.url());
    found.assert_fails(1, "7 problems found in sqlite:");
    let lines: Vec<_> = found.stdout.lines().collect();
    let expected = [
        "1 open orders whose pet is not pending",
        "1 completed orders whose pet is not sold",
        "1 orders that were updated before they were created",
        "1 orders with a wrong time of completion",
        "6 sold pets counted in excess",
        "1 pets that a search does not find by their name",
        "1 categories whose name could be used twice",
    ];
    assert_eq!(lines, expected);

    // A trigger and an index are missing.
    let home = Home::new();
    home.new_key();
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch("DROP TRIGGER count_pet_inserted; DROP INDEX orders_active_pet_id_key")
        .unwrap();
    db.close().unwrap();
    let found = check(&home, &home.url());
    let missing = "the index orders_active_pet_id_key is missing or changed\n\
                   the trigger count_pet_inserted is missing or changed\n";
    assert_eq!(found.stdout, missing);

    // An empty file is not a petstore database, and stays empty.
    fs::write(home.path("empty.db"), "").unwrap();
    check(&home, "sqlite:empty.db").assert_fails(1, "is not a petstore database");
    assert_eq!(fs::metadata(home.path("empty.db")).unwrap().len(), 0);

    // Corrupted pages.
    let mut bytes = fs::read(home.database()).unwrap();
    let end = bytes.len();
    bytes[end - 4096 * 2..].fill(0xff);
    fs::write(home.path("broken.db"), bytes).unwrap();
    let found = check(&home, "sqlite:broken.db");
    assert_eq!(found.code, Some(1), "{found:?}");
}

/// Before an upgrade, the new binary backs up an older database without
/// migrating it.
#[test]
fn backup_does_not_migrate_an_older_schema() {
    let home = Home::new();
    let db = home.older_database();
    db.execute_batch("CREATE TABLE notes (text)").unwrap();
    db.close().unwrap();
    backup(&home, "copy.db").success();
    check(&home, &home.url()).assert_fails(1, "from an older petstore (schema 0");
    for file in ["petstore.db", "copy.db"] {
        let db = Connection::open(home.path(file)).unwrap();
        let version: i64 = db
            .pragma_query_value(None, "user_version", |row| row.get(0))
            .unwrap();
        assert_eq!(version, 0, "{file}");
        db.execute("INSERT INTO notes VALUES ('kept')", []).unwrap();
    }
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn check_reports_inconsistencies_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    home.new_key();
    check(&home, &home.url()).success();
    let hurt = "INSERT INTO pets (name, search_name, category_id, status, active_order)
                VALUES ('A', 'a', 1, 'available', 'placed')";
    cluster.psql(&database, hurt);
    let found = check(&home, &home.url());
    assert_eq!(
        found.stdout,
        "1 pets whose row names another active order than they have\n"
    );
}

/// A backup is a single file, not in WAL mode.
#[test]
fn keys_can_be_created_in_a_restored_backup() {
    let home = Home::new();
    home.new_key();
    backup(&home, "copy.db").success();
    for arguments in [["create", "next"].as_slice(), &["list"]] {
        let keys = ["keys"].iter().chain(arguments);
        let keys: Vec<_> = keys
            .chain(&["--database", "sqlite:copy.db"])
            .copied()
            .collect();
        home.petstore(&keys).success();
    }
}
