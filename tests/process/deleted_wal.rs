//! `rm petstore.db-wal` under a running service: what is in the deleted file would be
//! lost with the process.

use std::{fs, os::unix::fs::MetadataExt};

use rusqlite::{Connection, OpenFlags};
use support::eventually;

use crate::{
    client::{Client, WriteResults},
    harness::{Home, Service},
};

/// Creates a pet and expects this status.
async fn create(client: &Client, results: &mut WriteResults, name: &str, status: u16) {
    let response = client.create(name).await.unwrap();
    assert_eq!(response.status, status, "{response:?}");
    match status {
        201 => {
            let id = response.json()["id"].as_i64().unwrap();
            results.acknowledged.insert(name.into(), id);
        }
        _ => assert!(response.is_rejected(), "{response:?}"),
    }
}

/// Kills the service. Everything that was acknowledged is there after a restart.
async fn assert_durable_after_kill(home: &Home, service: Service, key: &str, of: &WriteResults) {
    service.kill();
    let service = home.serve();
    of.assert_durable(&Client::new(&service, key).pets().await);
}

/// Another process with a read transaction.
fn open_for_reading(home: &Home) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let db = Connection::open_with_flags(home.database(), flags).unwrap();
    db.execute_batch("BEGIN; SELECT count(*) FROM pets")
        .unwrap();
    db
}

async fn until_accepted(client: &Client, results: &mut WriteResults) {
    eventually("writes to be accepted", async || {
        client.create("probe").await.unwrap().status == 201
    })
    .await;
    results.unknown.insert("probe".into());
}

async fn start() -> (Home, Service, String, Client, WriteResults) {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let mut results = WriteResults::default();
    create(&client, &mut results, "before", 201).await;
    (home, service, key, client, results)
}

#[tokio::test]
async fn it_is_saved_while_there_is_nothing_to_do() {
    let (home, service, key, _, results) = start().await;
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    service.event("deleted write-ahead log saved and replaced");
    assert_durable_after_kill(&home, service, &key, &results).await;
}

/// Another process keeps the index of the deleted WAL alive. Nothing is acknowledged
/// until it is gone.
#[tokio::test]
async fn it_is_saved_once_other_processes_have_closed_the_file() {
    let (home, service, key, client, mut results) = start().await;
    let other = open_for_reading(&home);
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    create(&client, &mut results, "meanwhile", 503).await;
    drop(other);
    until_accepted(&client, &mut results).await;
    create(&client, &mut results, "after", 201).await;
    assert_durable_after_kill(&home, service, &key, &results).await;
}

/// The service uses the WAL index that it found, even after the process that built it is gone.
#[tokio::test]
async fn it_is_saved_although_another_process_built_the_index() {
    let home = Home::new();
    let key = home.new_key();
    let other = open_for_reading(&home);
    let service = home.serve();
    let client = Client::new(&service, &key);
    let mut results = WriteResults::default();
    create(&client, &mut results, "beside the other", 201).await;
    drop(other);
    create(&client, &mut results, "alone", 201).await;
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    create(&client, &mut results, "after", 201).await;
    assert_durable_after_kill(&home, service, &key, &results).await;
}

/// The same, but the other process is still there when the WAL is deleted.
#[tokio::test]
async fn it_is_saved_once_the_process_that_built_the_index_is_gone() {
    let home = Home::new();
    let key = home.new_key();
    let other = open_for_reading(&home);
    let service = home.serve();
    let client = Client::new(&service, &key);
    let mut results = WriteResults::default();
    create(&client, &mut results, "before", 201).await;
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    create(&client, &mut results, "meanwhile", 503).await;
    drop(other);
    until_accepted(&client, &mut results).await;
    create(&client, &mut results, "after", 201).await;
    assert_durable_after_kill(&home, service, &key, &results).await;
}

/// The new WAL is as private as the database.
#[tokio::test]
async fn it_keeps_its_permissions() {
    let (home, service, ..) = start().await;
    let mode = |name| fs::metadata(home.path(name)).unwrap().mode();
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    service.event("deleted write-ahead log saved and replaced");
    assert_eq!(mode("petstore.db-wal"), mode("petstore.db"));
}

/// A process that opens the database creates an empty WAL in its place.
#[tokio::test]
async fn it_is_saved_although_a_command_creates_another() {
    let (home, service, key, client, mut results) = start().await;
    fs::remove_file(home.path("petstore.db-wal")).unwrap();
    let keys = home.keys(&["list"]);
    // Unless the service has noticed and has another WAL already.
    let _ = fs::File::create_new(home.path("petstore.db-wal"));
    create(&client, &mut results, "after", 201).await;
    assert!(keys.code.is_some(), "{keys:?}");
    assert_durable_after_kill(&home, service, &key, &results).await;
}
