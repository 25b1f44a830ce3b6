//! System clocks that are wrong, or set while the service runs: idempotency keys, events and
//! failed deliveries are not forgotten, orders expire neither early nor late, deliveries are
//! retried, and no webhook is disabled.

use std::fs;

use domain::{event::EventRetention, idempotency::RETENTION};
use http::Method;
use jiff::SignedDuration;
use rand::RngExt;
use serde_json::{Value, json};
use store::{DatabaseUrl, Options, Role, Store};
use support::{Cluster, CommandResult, Response, eventually, noise, random, rounds};

use crate::{
    client::Client,
    faketime,
    harness::{Home, PETSTORE, Service},
};

const ORDERS: &str = "/v1/store/orders";

/// Starts the service with a system clock that [`set_clock`] sets.
fn serve(home: &Home, reserve_for: &str) -> Service {
    let mut command = home.serve_command();
    command
        .args(["--reserve-for", reserve_for])
        .args(["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"])
        .env("LD_PRELOAD", &*faketime::LIBRARY)
        .env("FAKETIME_TIMESTAMP_FILE", home.path("clock"))
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Service::start(&mut command)
}

/// Sets the system clock off by an offset such as `+2d`.
fn set_clock(home: &Home, offset: &str) {
    fs::write(home.path("clock"), offset).unwrap();
}

async fn post(client: &Client, path: &str, body: &Value, key: &str) -> Response {
    let response = client.send_json(Method::POST, path, body, Some(key)).await;
    response.unwrap()
}

async fn create_pet(client: &Client, name: &str) -> Response {
    let pet = json!({"name": name, "categoryId": 1, "status": "available"});
    post(client, "/v1/pets", &pet, name).await
}

/// Creates a pet, with its name as the idempotency key, and orders it. Returns the path
/// of the order.
async fn create_order(client: &Client, name: &str) -> String {
    let created = create_pet(client, name).await;
    assert_eq!(created.status, 201, "{created:?}");
    let order = json!({"petId": created.json()["id"]});
    let placed = post(client, ORDERS, &order, &format!("order-{name}")).await;
    assert_eq!(placed.status, 201, "{placed:?}");
    format!("{ORDERS}/{}", placed.json()["id"])
}

/// Asserts that neither the pet's idempotency key nor its order has expired.
async fn assert_kept(client: &Client, name: &str, order: &str) {
    assert_replayed(client, name).await;
    let path = format!("{order}/complete");
    let completed = client.send_json(Method::POST, &path, &Value::Null, None);
    let completed = completed.await.unwrap();
    assert_eq!(completed.status, 200, "{completed:?}");
}

async fn assert_replayed(client: &Client, name: &str) {
    let again = create_pet(client, name).await;
    let replayed = again.headers.contains_key("idempotent-replayed");
    assert!(replayed, "{again:?}");
}

async fn wait_until_expired(client: &Client, order: &str) {
    let is_cancelled = async || client.get(order).await.json()["status"] == "cancelled";
    eventually("the order to expire", is_cancelled).await;
}

/// Inserts an order that was due in 1970, and waits until the service has expired it, and
/// with it every order that is due.
async fn wait_until_all_expired(sql: impl Fn(&str) -> String) {
    sql(
        "INSERT INTO pets (name, search_name, search_words, category_id, status)
             VALUES ('marker', 'marker', 'marker', 1, 'pending');
         INSERT INTO orders (pet_id, status, created_at, updated_at, expires_at)
         SELECT max(id), 'placed', 0, 0, 1 FROM pets;",
    );
    let due =
        "SELECT CAST(count(*) AS text) FROM orders WHERE status = 'placed' AND expires_at = 1";
    eventually("expiry", async || sql(due) == "0").await;
}

/// Runs a statement on an SQLite file, and returns the text that it selects.
fn sqlite(home: &Home, sql: &str) -> String {
    let db = rusqlite::Connection::open(home.database()).unwrap();
    db.busy_timeout(support::TIMEOUT).unwrap();
    if sql.starts_with("SELECT") {
        db.query_row(sql, [], |row| row.get(0)).unwrap()
    } else {
        db.execute_batch(sql).map(|()| String::new()).unwrap()
    }
}

/// The clock of the database decides, not those of the replicas.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and faketime; make test installs them and runs this"]
async fn the_clocks_of_replicas_do_not_matter() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    let sql = |sql: &str| cluster.psql(&database, sql);
    let replica = |clock: &str, reserve_for: &str| {
        set_clock(&home, clock);
        let service = serve(&home, reserve_for);
        let client = Client::new(&service, &key);
        (service, client)
    };

    let (service, client) = replica("+0", "1h");
    let on_right = create_order(&client, "right").await;
    service.kill();
    let (service, client) = replica("+2d", "1s");
    wait_until_all_expired(sql).await;
    assert_kept(&client, "right", &on_right).await;
    let on_fast = create_order(&client, "fast").await;
    service.kill();
    let (service, client) = replica("-2d", "1h");
    wait_until_expired(&client, &on_fast).await;
    assert_replayed(&client, "fast").await;
    let on_slow = create_order(&client, "slow").await;
    service.kill();
    let (_service, client) = replica("+0", "1h");
    wait_until_all_expired(sql).await;
    assert_kept(&client, "slow", &on_slow).await;
}

/// SQLite has one writer, whose clock is steady.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs faketime; make test installs it and runs this"]
async fn steps_of_the_system_clock_do_not_matter_on_sqlite() {
    let home = Home::new();
    let key = home.new_key();
    let sql = |sql: &str| sqlite(&home, sql);
    set_clock(&home, "+0");
    let service = serve(&home, "1h");
    let client = Client::new(&service, &key);
    let before = create_order(&client, "before").await;
    set_clock(&home, "+2d");
    wait_until_all_expired(sql).await;
    assert_kept(&client, "before", &before).await;
    service.kill();

    set_clock(&home, "+0");
    let service = serve(&home, "2s");
    let client = Client::new(&service, &key);
    let before = create_order(&client, "short").await;
    set_clock(&home, "-2d");
    wait_until_expired(&client, &before).await;
    let after = create_order(&client, "after").await;
    wait_until_expired(&client, &after).await;
    assert_replayed(&client, "short").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs faketime; make test installs it and runs this"]
async fn steps_at_random_keep_orders_and_keys() {
    let mut random = random("clocks");
    let home = Home::new();
    let key = home.new_key();
    set_clock(&home, "+0");
    let service = serve(&home, "1h");
    let client = Client::new(&service, &key);
    for step in 0..rounds(3, 200) {
        let name = format!("step-{step}");
        let order = create_order(&client, &name).await;
        let hours = random.random_range(-1_000..1_000);
        set_clock(&home, &format!("{hours:+}h"));
        wait_until_all_expired(|sql| sqlite(&home, sql)).await;
        assert_kept(&client, &name, &order).await;
    }

    // The control: a service believes a fast clock if the store was open at that time.
    let order = create_order(&client, "control").await;
    service.kill();
    sqlite(
        &home,
        "UPDATE event_log SET last_open_at = (SELECT max(at) + 7200000000000 FROM events)",
    );
    set_clock(&home, "+2000h");
    let service = serve(&home, "1h");
    wait_until_expired(&Client::new(&service, &key), &order).await;
}

/// A machine may start with a clock that is fast, and set it a little later, every time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs faketime; make test installs it and runs this"]
async fn a_fast_clock_at_the_start_loses_nothing_on_sqlite() {
    let home = Home::new();
    let key = home.new_key();
    let sql = |sql: &str| sqlite(&home, sql);
    let number = |sql: &str| {
        let text = format!("SELECT CAST(({sql}) AS text)");
        sqlite(&home, &text).parse::<i64>().unwrap()
    };
    let failures = "SELECT consecutive_failures FROM webhooks";
    set_clock(&home, "+0");
    let service = serve(&home, "1h");
    let client = Client::new(&service, &key);
    let webhook = json!({"url": "http://127.0.0.1:1/"});
    let created = post(&client, "/v1/webhooks", &webhook, "webhook").await;
    assert_eq!(created.status, 201, "{created:?}");
    let mut orders = Vec::new();
    for name in ["first", "second", "third"] {
        orders.push((name, create_order(&client, name).await));
    }
    // The receiver is taken to be down, so that the webhook could be disabled.
    eventually("the webhook to back off", async || number(failures) >= 5).await;
    service.kill();

    for (name, order) in &orders[..2] {
        set_clock(&home, "+8d");
        let failed = number(failures);
        let service = serve(&home, "1h");
        let client = Client::new(&service, &key);
        wait_until_all_expired(sql).await;
        let state = || sql("SELECT state FROM webhooks");
        let is_attempted = async || number(failures) > failed || state() == "disabled";
        eventually("an attempt", is_attempted).await;
        assert_replayed(&client, "first").await;
        set_clock(&home, "+0");
        wait_until_all_expired(sql).await;
        assert_kept(&client, name, order).await;
        assert_eq!(number("SELECT min(sequence) FROM events"), 1);
        assert_eq!(state(), "enabled");
        service.stop();
    }
    let service = serve(&home, "1h");
    assert_kept(&Client::new(&service, &key), "third", &orders[2].1).await;
}

/// A store that was closed for four years cannot be told from a fast clock. In the end it is
/// believed.
#[tokio::test(flavor = "multi_thread")]
async fn what_grows_old_while_a_store_is_closed_is_purged_in_the_end() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(home.serve_command().args(["--reserve-for", "1h"]));
    let order = create_order(&Client::new(&service, &key), "old").await;
    service.stop();
    let age: i64 = 4 * 365 * 24 * 3_600_000_000;
    sqlite(
        &home,
        &format!(
            "UPDATE events SET at = at - {age};
             UPDATE idempotency_keys SET created_at = created_at - {age};
             UPDATE orders SET created_at = created_at - {age}, updated_at = updated_at - {age},
                               expires_at = expires_at - {age};
             UPDATE event_log SET last_open_at = last_open_at - {age};"
        ),
    );
    let service = home.serve();
    let client = Client::new(&service, &key);
    wait_until_all_expired(|sql| sqlite(&home, sql)).await;
    assert_replayed(&client, "old").await;
    assert_eq!(client.get(&order).await.json()["status"], "placed");
    service.kill();

    let url: DatabaseUrl = home.url().parse().unwrap();
    let events = EventRetention::default();
    let purge = async |trust_clock_after| {
        let options = Options {
            trust_clock_after,
            ..Options::new(Role::Service)
        };
        let store = Store::open(&url, &options).await.unwrap();
        let done = (
            store.order_expire().await.unwrap(),
            store.idempotency_purge(RETENTION).await.unwrap(),
            store.event_purge(events).await.unwrap(),
        );
        store.close().await;
        done
    };
    assert_eq!(purge(SignedDuration::from_hours(1)).await, (0, 0, 0));
    // The order, the keys of it and its animal, and the events of both and of the API key.
    assert_eq!(purge(SignedDuration::ZERO).await, (1, 2, 4));
}

/// A delivery is retried in time by a replica whose clock differs from that of the one that
/// has saved it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and faketime; make test installs them and runs this"]
async fn deliveries_follow_the_clock_of_the_database() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    // Each has a clock of its own.
    let [right, fast] = [(); 2].map(|()| Home::with_database(cluster.url(&database)));
    set_clock(&right, "+0");
    set_clock(&fast, "+30d");
    let key = right.new_key();
    let replica = |home: &Home| {
        let service = serve(home, "1h");
        let client = Client::new(&service, &key);
        (service, client)
    };
    let sql = |sql: &str| cluster.psql(&database, sql);
    let wait_for_attempt = async |count: i64| {
        let attempts = "SELECT coalesce(max(attempts), 0) FROM webhook_deliveries";
        let is_made = async || sql(attempts).parse::<i64>().unwrap() >= count;
        eventually(&format!("attempt {count}"), is_made).await;
    };
    let give_up = "UPDATE webhook_deliveries SET state = 'failed', next_attempt_at = NULL;";

    let (service, client) = replica(&fast);
    // Nothing listens on this port.
    let webhook = json!({"url": "http://127.0.0.1:1/"});
    let created = post(&client, "/v1/webhooks", &webhook, "webhook").await;
    assert_eq!(created.status, 201, "{created:?}");
    create_pet(&client, "event").await;
    wait_for_attempt(1).await;
    service.stop();
    let (delivers, _) = replica(&right);
    wait_for_attempt(2).await;

    sql(give_up);
    let (service, client) = replica(&fast);
    let path = format!("/v1/webhooks/{}/deliveries", created.json()["id"]);
    let failed = &client.get(&path).await.json()[0]["eventId"];
    let path = format!("{path}/{}/retry", failed.as_str().unwrap());
    let retried = post(&client, &path, &Value::Null, "retry").await;
    assert_eq!(retried.status, 202, "{retried:?}");
    wait_for_attempt(3).await;
    service.stop();
    delivers.stop();
}

/// `GET /pets/{petId}` is removed on 5 December 2030.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs faketime; make test installs it and runs this"]
async fn photos_are_added_and_listed_after_a_removal() {
    let home = Home::new();
    let key = home.new_key();
    set_clock(&home, "+10y");
    let service = serve(&home, "1h");
    let client = Client::new(&service, &key);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    let removed = client.get("/v1/pets/1").await;
    removed.assert_error(410, "operation_removed");
    fs::create_dir(home.path("in")).unwrap();
    fs::write(home.path("in/1.png"), noise(8, 6, 1)).unwrap();
    for arguments in [
        &["add", "1", "in/1.png"][..],
        &["list", "1"],
        &["import", "in"],
    ] {
        let mut command = home.command(PETSTORE);
        let command = command.arg("photos").args(arguments);
        let command = command.env("PETSTORE_URL", service.url(""));
        CommandResult::of(command.env("PETSTORE_KEY", &key)).success();
    }
    assert_eq!(
        client.get("/v1/pets?id=1").await.json()[0]["photos"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
