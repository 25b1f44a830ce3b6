//! Upgrades from released versions: their golden stores are opened, upgraded, checked and served,
//! and the API returns what it returned then. A version that is too old refuses a store untouched,
//! and a replica of it leaves a database that was upgraded beside it.
//!
//! `make golden-stores` makes the stores of a version.

use std::{collections::BTreeSet, env, fs};

use http::Method;
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use support::{Cluster, CommandResult, Golden, Receiver, Reply, Response, eventually, noise};

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
    replicas::Deployment,
};

/// The environment variable with the version whose golden stores are made first.
const MAKE: &str = "MAKE_GOLDEN_STORES";

/// The file that was imported: the SHA-256 of its content.
const FILE: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// The operations of the contract that read, and the request that is sent to each.
const READS: [(&str, &str); 17] = [
    ("/pets", "/v1/pets?limit=100"),
    (
        "/pets/{petId}/photos/{photoId}",
        "/v1/pets/1/photos/1?size=thumb",
    ),
    (
        "/imports",
        "/v1/imports?file=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ),
    ("/categories", "/v1/categories?limit=100"),
    ("/store/inventory", "/v1/store/inventory"),
    ("/store/orders", "/v1/store/orders?limit=100"),
    ("/store/orders/{orderId}", "/v1/store/orders/1"),
    (
        "/store/sales",
        "/v1/store/sales?by=category&from=2026-01-01&to=2035-12-31",
    ),
    (
        "/store/register",
        "/v1/store/register?entry=acquired&from=2020-01-01&to=2029-12-31",
    ),
    ("/store/settings", "/v1/store/settings"),
    ("/events", "/v1/events?limit=100"),
    ("/webhooks", "/v1/webhooks?limit=100"),
    ("/webhooks/{webhookId}", "/v1/webhooks/1"),
    (
        "/webhooks/{webhookId}/deliveries",
        "/v1/webhooks/1/deliveries?limit=100",
    ),
    ("/keys", "/v1/keys?limit=100"),
    ("/keys/current", "/v1/keys/current"),
    ("/keys/{keyId}", "/v1/keys/1"),
];

/// The stream returns what `/events` returns, and `GET /pets/{petId}` ends on a day that is known.
const NOT_READ: [&str; 2] = ["/events/stream", "/pets/{petId}"];

/// Columns that no golden store has a value for: a lease is of a service that is running.
const EMPTY_COLUMNS: [&str; 2] = ["webhooks.lease_owner", "webhooks.lease_expires_at"];

async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Response {
    let sent = client.send_json(method, path, body, None).await.unwrap();
    assert!(sent.status < 300, "{path}: {sent:?}");
    sent
}

async fn post(client: &Client, path: &str, body: Value) -> Value {
    send(client, Method::POST, path, &body).await.json()
}

/// The responses to all [`READS`], by their path. Binary ones as a hash.
async fn read_all(client: &Client) -> Map<String, Value> {
    let mut responses = Map::new();
    for (_, path) in READS {
        let response = client.get(path).await;
        assert_eq!(response.status, 200, "{path}: {response:?}");
        let body = serde_json::from_slice(&response.body)
            .unwrap_or_else(|_| format!("{:x?}", Sha256::digest(&response.body)).into());
        responses.insert(path.into(), body);
    }
    responses
}

/// Fails unless `found` has everything that was recorded. Later versions may add members.
#[track_caller]
fn assert_contains(found: &Value, recorded: &Value, path: &str) {
    match (found, recorded) {
        (Value::Object(found), Value::Object(recorded)) => {
            for (name, recorded) in recorded {
                let found = found.get(name).unwrap_or(&Value::Null);
                // The test uses the key.
                if name != "lastUsedAt" {
                    assert_contains(found, recorded, &format!("{path} {name}"));
                }
            }
        }
        (Value::Array(found), Value::Array(recorded)) => {
            assert_eq!(found.len(), recorded.len(), "{path}");
            for (number, (found, recorded)) in found.iter().zip(recorded).enumerate() {
                assert_contains(found, recorded, &format!("{path} {number}"));
            }
        }
        _ => assert_eq!(found, recorded, "{path}"),
    }
}

/// Opens a golden store with every command, serves it, and compares it with its record.
async fn open_golden(home: &Home, record: &str, golden: &Golden) {
    let record: Value =
        serde_json::from_str(&fs::read_to_string(golden.path(record)).unwrap()).unwrap();
    let service = home.serve();
    let client = Client::new(&service, record["key"].as_str().unwrap());
    let found = read_all(&client).await;
    for (path, recorded) in record["responses"].as_object().unwrap() {
        assert_contains(&found[path], recorded, path);
    }
    // It can be changed, too.
    let order = post(&client, "/v1/store/orders/5/complete", Value::Null).await;
    assert_eq!(order["status"], "completed");
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    service.stop();
    home.petstore(&["check", "--database", &home.url()])
        .success();
    home.petstore(&["export", "--database", &home.url()])
        .success();
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_stores_on_sqlite_are_upgraded_and_served() {
    if let Ok(version) = env::var(MAKE) {
        let golden = Golden::of(&version);
        let home = Home::new();
        let sql = |statement: &str| {
            let db = Connection::open(home.database()).unwrap();
            db.execute_batch(statement).unwrap();
            db.close().unwrap();
        };
        let record = make_store(&home, sql).await;
        fs::write(golden.path("sqlite.json"), record).unwrap();
        golden.save_sqlite(&home.database());
    }
    for golden in Golden::all() {
        let home = Home::new();
        golden.restore_sqlite(&home.database());
        open_golden(&home, "sqlite.json", &golden).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn golden_stores_on_postgres_are_upgraded_and_served() {
    let cluster = Cluster::start_without_sync();
    if let Ok(version) = env::var(MAKE) {
        let golden = Golden::of(&version);
        let database = cluster.create_database();
        let home = Home::with_database(cluster.url(&database));
        let record = make_store(&home, |sql| drop(cluster.psql(&database, sql))).await;
        fs::write(golden.path("postgres.json"), record).unwrap();
        golden.save_postgres(&cluster, &database);
    }
    for golden in Golden::all() {
        let database = golden.restore_postgres(&cluster);
        let home = Home::with_database(cluster.url(&database));
        open_golden(&home, "postgres.json", &golden).await;
    }
}

/// Each operation that reads is compared.
#[test]
fn every_resource_is_recorded() {
    let contract = Home::new().petstore(&["openapi", "--json"]).success();
    let contract: Value = serde_json::from_str(&contract.stdout).unwrap();
    let paths = contract["paths"].as_object().unwrap();
    let read = paths.iter().filter(|(_, path)| path.get("get").is_some());
    let read: BTreeSet<_> = read.map(|(path, _)| path.as_str()).collect();
    let compared = READS.iter().map(|(path, _)| *path).chain(NOT_READ);
    assert_eq!(read, compared.collect());
}

/// A table or a column without a value would be upgraded in no test.
#[test]
fn golden_stores_have_every_kind_of_row() {
    for golden in Golden::all() {
        let home = Home::new();
        golden.restore_sqlite(&home.database());
        let db = Connection::open(home.database()).unwrap();
        let empty = empty_columns(&db);
        assert!(empty.is_empty(), "{golden:?}: {empty:?}");
    }
}

/// The columns of all tables that have a value in no row.
fn empty_columns(db: &Connection) -> Vec<String> {
    let select = "SELECT s.name, c.name FROM sqlite_schema s, pragma_table_info(s.name) c
                  WHERE s.type = 'table'";
    let mut select = db.prepare(select).unwrap();
    let columns = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let columns: Vec<(String, String)> = columns.unwrap().map(Result::unwrap).collect();
    let is_empty = |(table, column): &(String, String)| {
        let sql = format!("SELECT count({column}) FROM {table}");
        db.query_row(&sql, [], |row| row.get(0)) == Ok(0)
    };
    let empty = columns.into_iter().filter(is_empty);
    let names = empty.map(|(table, column)| format!("{table}.{column}"));
    names
        .filter(|name| !EMPTY_COLUMNS.contains(&&**name))
        .collect()
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn golden_stores_on_postgres_have_every_kind_of_row() {
    let cluster = Cluster::start_without_sync();
    for golden in Golden::all() {
        let database = golden.restore_postgres(&cluster);
        let tables = "SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public'";
        for table in cluster.psql(&database, tables).split(' ') {
            let rows = cluster.psql(&database, &format!("SELECT count(*) FROM {table}"));
            assert_ne!(rows, "0", "{golden:?}: {table}");
        }
    }
}

/// Every command refuses the file and says what to do; no byte of it changes.
#[test]
fn a_newer_file_is_refused_untouched() {
    let home = Home::new();
    Golden::all()
        .pop()
        .unwrap()
        .restore_sqlite(&home.database());
    let db = Connection::open(home.database()).unwrap();
    db.pragma_update(None, "user_version", 2).unwrap();
    db.execute_batch("ALTER TABLE pets ADD COLUMN legs INTEGER")
        .unwrap();
    db.close().unwrap();
    fs::write(home.path("pets.csv"), "name,categoryId\nRex,1\n").unwrap();
    let before = home.contents();
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["check"],
        &["export"],
        &["backup", "copy.db"],
        &["import", "pets.csv"],
        &["seed", "1"],
        &["keys", "list"],
        &["keys", "create", "till"],
    ] {
        let mut petstore = home.command(PETSTORE);
        petstore.args(command);
        let refused = CommandResult::of(petstore.args(["--database", &home.url()]));
        refused.assert_fails(
            1,
            "was written by a newer petstore (schema 2, this version supports 1); run that version",
        );
        assert!(home.contents() == before, "{command:?}: {:?}", home.files());
    }
}

/// A release adds a column and an index: replicas of this version keep serving, and can be started
/// again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn replicas_serve_a_schema_that_was_expanded_beside_them() {
    let mut deployment = Deployment::start(2);
    let client = deployment.client(0);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert_eq!(client.pets().await.len(), 1);
    deployment.sql(
        "ALTER TABLE pets ADD COLUMN legs bigint NOT NULL DEFAULT 4;
         CREATE INDEX pets_legs_idx ON pets (legs);
         UPDATE schema_version SET version = 2",
    );
    for name in ["Max", "Tom"] {
        assert_eq!(client.create(name).await.unwrap().status, 201);
    }
    let restarted = Service::start(&mut deployment.home.serve_command());
    deployment.services.remove(0).stop();
    let client = Client::new(&restarted, &deployment.key);
    let changed = json!({"name": "Minka"});
    send(&client, Method::PATCH, "/v1/pets/1", &changed).await;
    assert_eq!(deployment.client(0).pets().await.len(), 3);
    restarted.stop();
}

/// A release ends the support of this version: a replica that is still running is taken out of
/// service, says why, and changes nothing any more. It does not start again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_replica_leaves_a_schema_that_became_too_new() {
    let deployment = Deployment::start(1);
    let client = deployment.client(0);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert_eq!(client.pets().await.len(), 1);
    deployment.sql("UPDATE schema_version SET version = 3, min_compatible_version = 2");
    let service = &deployment.services[0];
    let event = service.event("replica taken out of service");
    let reason = event["error"].as_str().unwrap();
    assert!(
        reason.contains("supports schema 1, and 2 is needed"),
        "{event}"
    );
    assert!(reason.contains("replace this replica"), "{event}");
    let dump = "SELECT (SELECT count(*) FROM pets) || ' ' || (SELECT count(*) FROM events)";
    let before = deployment.sql(dump);
    for _ in 0..3 {
        let created = client.create("Max").await.unwrap();
        created.assert_error(503, "unavailable");
        let listed = client.get("/v1/pets?limit=100").await;
        listed.assert_error(503, "unavailable");
    }
    eventually("readiness", async || {
        client.get("/readyz").await.status == 503
    })
    .await;
    assert_eq!(deployment.sql(dump), before);
    let restarted = Service::try_start(&mut deployment.home.serve_command());
    let output = restarted.err().unwrap();
    assert!(
        output.contains("newer petstore (schema 3, this version supports 1)"),
        "{output}"
    );
}

/// Makes a store with every kind of row, and returns its record: the API key, and the responses.
async fn make_store(home: &Home, sql: impl Fn(&str)) -> String {
    home.create_store();
    let key = home.keys(&["create", "owner", "--role", "owner"]);
    let key = key.success().secret();
    let receiver = Receiver::start().await;
    receiver.respond(|_| Reply::Status(500));
    let options = ["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"];
    let mut serve = home.serve_command();
    let service = Service::start(serve.args(options).args(["--reserve-for", "1h"]));
    let client = Client::new(&service, &key);

    let settings = json!({"name": "Żółw & Co", "address": "Marktplatz 1\n12345 Altstadt",
                          "receiptText": "Thank you!", "currency": "EUR"});
    send(&client, Method::PATCH, "/v1/store/settings", &settings).await;
    for (id, name) in [(1, "Dogs"), (2, "Turtles"), (3, "Fish")] {
        let path = format!("/v1/categories/{id}");
        send(&client, Method::PUT, &path, &json!({"name": name})).await;
    }
    send(&client, Method::DELETE, "/v1/categories/3", &Value::Null).await;
    make_pets(&client).await;
    make_webhooks(&client, &receiver).await;
    make_orders(&client).await;
    let deliveries = "/v1/webhooks/1/deliveries";
    eventually("failed deliveries", async || {
        client
            .get(deliveries)
            .await
            .json()
            .as_array()
            .unwrap()
            .len()
            >= 2
    })
    .await;
    for id in [1, 2] {
        let path = format!("/v1/webhooks/{id}");
        send(&client, Method::PATCH, &path, &json!({"state": "disabled"})).await;
    }
    make_keys(home, &service, &client).await;
    service.stop();
    // One was given up, which takes three days.
    sql(
        "UPDATE webhook_deliveries SET state = 'failed', next_attempt_at = NULL
         WHERE sequence = (SELECT min(sequence) FROM webhook_deliveries)",
    );

    // An order without an end.
    let service = home.serve();
    post(
        &Client::new(&service, &key),
        "/v1/store/orders",
        json!({"petId": 6}),
    )
    .await;
    service.stop();
    let service = home.serve();
    let client = Client::new(&service, &key);
    // A webhook that is enabled moves on to the newest event.
    eventually("the position of webhook 3", async || {
        let webhook = client.get("/v1/webhooks/3").await.json();
        let newest = client.get("/v1/events?limit=1&sort=desc").await.json();
        webhook["position"] == newest[0]["id"]
    })
    .await;
    let responses = read_all(&client).await;
    service.stop();
    let record = json!({"key": key, "responses": responses});
    serde_json::to_string_pretty(&record).unwrap() + "\n"
}

async fn make_pets(client: &Client) {
    let pet = json!({
        "name": "Żółw 🐢", "categoryId": 2, "status": "available", "breed": "Greek tortoise",
        "sex": "female", "birthDate": "2019-05-01", "color": "olive",
        "microchip": "276098106123456", "price": {"amount": 14500, "currency": "EUR"},
        "description": "Likes dandelions.\nShy.", "notes": "Hibernates.", "location": "Room 2",
        "acquiredOn": "2026-01-15", "metadata": {"cites": "A", "box": "7"},
        "source": {"name": "Jan Novák", "address": "Polní 3, Brno", "licence": "CZ 17"},
    });
    let created = client.send_json(Method::POST, "/v1/pets", &pet, Some("golden"));
    assert_eq!(created.await.unwrap().status, 201);
    for (name, status) in [
        ("Rex", Value::Null),
        ("Bella", "available".into()),
        ("Max", "available".into()),
        ("Luna", "available".into()),
        ("Tom", "available".into()),
    ] {
        let mut pet = json!({"name": name, "categoryId": 1});
        if !status.is_null() {
            pet["status"] = status;
        }
        post(client, "/v1/pets", pet).await;
    }
    let mut deleted = pet;
    deleted["microchip"] = "276098106654321".into();
    deleted["name"] = "Stripes".into();
    post(client, "/v1/pets", deleted).await;
    send(client, Method::DELETE, "/v1/pets/7", &Value::Null).await;
    for seed in 0..2 {
        let retry_key = format!("photo-{seed}");
        let photo = client.upload(1, noise(24, 16, seed), &retry_key).await;
        assert_eq!(photo.unwrap().status, 201);
    }
    send(client, Method::DELETE, "/v1/pets/1/photos/2", &Value::Null).await;

    let batch = json!({
        "batchId": "delivery-7", "import": {"file": FILE, "row": 0, "rows": 2},
        "changes": [{"create": {"name": "Nemo", "categoryId": 3}},
                    {"id": 2, "update": {"color": "black"}}],
    });
    let changed = client.send_json(Method::POST, "/v1/pets/batch", &batch, Some("batch"));
    assert_eq!(changed.await.unwrap().status, 200);
    let undone = json!({
        "batchId": "delivery-8", "import": {"file": "0".repeat(64), "row": 0, "rows": 3},
        "changes": [{"create": {"name": "Dory", "categoryId": 3}}],
    });
    post(client, "/v1/pets/batch", undone).await;
    post(client, "/v1/pets/batch/delivery-8/undo", json!({})).await;
}

async fn make_webhooks(client: &Client, receiver: &Receiver) {
    let types = json!(["order.placed", "order.completed"]);
    for path in ["/till", "/shop"] {
        let webhook = json!({"url": receiver.url_of(path), "types": types, "description": "Till"});
        post(client, "/v1/webhooks", webhook).await;
    }
    let webhook = json!({"url": receiver.url_of("/quiet"), "types": ["category.deleted"]});
    post(client, "/v1/webhooks", webhook).await;
    let rotation = json!({"graceSeconds": 86400});
    let path = "/v1/webhooks/3/rotate-secret";
    let rotated = client.send_json(Method::POST, path, &rotation, Some("rotation"));
    assert_eq!(rotated.await.unwrap().status, 200);
}

/// Orders in every state. The one that stays open is placed later.
async fn make_orders(client: &Client) {
    for (pet, ends) in [
        (3, &["complete"][..]),
        (4, &["cancel"]),
        (5, &["complete", "return"]),
        (1, &["complete"]),
    ] {
        let order = json!({
            "petId": pet, "price": {"amount": 9900, "currency": "EUR"}, "reference": "R-17",
            "buyer": {"name": "Ada", "address": "Hafen 4", "contact": "ada@example.com"},
        });
        let order = post(client, "/v1/store/orders", order).await;
        for end in ends {
            let path = format!("/v1/store/orders/{}/{end}", order["id"]);
            post(client, &path, Value::Null).await;
        }
    }
}

/// Keys in every state, and people.
async fn make_keys(home: &Home, service: &Service, client: &Client) {
    let scopes = json!(["pets:read"]);
    let expiring =
        json!({"name": "web shop", "scopes": scopes, "expiresAt": "2099-12-31T00:00:00Z"});
    post(client, "/v1/keys", expiring).await;
    for name in ["mirror", "lost"] {
        post(client, "/v1/keys", json!({"name": name, "scopes": scopes})).await;
    }
    home.keys(&["rotate", "mirror", "--grace", "0s"]).success();
    home.keys(&["revoke", "lost"]).success();
    let invitations = "/v1/keys/invitations";
    let ada = json!({"name": "Ada", "scopes": scopes, "replaces": 2});
    let ada = post(client, invitations, ada).await;
    let device = Client::new(service, ada["secret"].as_str().unwrap());
    let claimed = post(&device, "/v1/keys/claim", Value::Null).await;
    let device = Client::new(service, claimed["secret"].as_str().unwrap());
    // Deprecated, which is counted.
    assert_eq!(device.get("/v1/pets/1").await.status, 200);
    let grace = json!({"name": "Bob", "scopes": scopes, "expiresAt": "2099-12-31T00:00:00Z"});
    post(client, invitations, grace).await;
}
