//! Checks the event log while clients change everything at random, services are killed, and
//! transactions of other programs stay open.
//!
//! Every reader gets every event once, all in the same order, and replaying the log yields
//! exactly the tables. The random operations come from a seed, which is printed;
//! `SOAK_SECONDS` makes the run longer (`make soak`).

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    panic::catch_unwind,
    sync::{
        Arc, LazyLock, Mutex, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use http::Method;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Cluster, EventStream, Response, eventually, field};
use tokio::task::JoinSet;

use crate::{
    client::Client,
    harness::{Home, Service},
};

const WRITERS: u64 = 12;
const CHANGES_PER_KILL: usize = 300;
const KILLS: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn readers_get_every_event_once_on_sqlite_under_kills() {
    let home = Home::new();
    let start = Start::new(&home, 1).await;
    let log = start.run(|| ()).await;
    assert!(log.len() > CHANGES_PER_KILL * KILLS / 4, "{}", log.len());
}

/// After a backup is restored, numbers are given again to other events. Who has read beyond
/// the backup must start over, and must not miss anything silently.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_detected() {
    let home = Home::new();
    let start = Start::new(&home, 1).await;
    let create = async |client: &Client, name: &str| {
        assert_eq!(client.create(name).await.unwrap().status, 201);
        position(&client.get("/v1/events?after=now").await)
    };
    let client = start.clients.read().unwrap()[0].clone();
    let before = create(&client, "before").await;
    let backup = home.path("backup.db");
    let backup = backup.to_str().unwrap();
    home.petstore(&["backup", backup, "--database", &home.url()])
        .success();
    let lost = create(&client, "lost").await;
    start.services.into_iter().for_each(Service::stop);

    home.petstore(&["restore", backup, "--database", &home.url()])
        .success();
    let service = home.serve();
    let client = Client::new(&service, &start.key);
    let after = |position: &str| format!("/v1/events?after={position}");
    let unknown = client.get(&after(&lost)).await;
    unknown.assert_error(410, "cursor_unknown");
    create(&client, "instead").await;
    let unknown = client.get(&after(&lost)).await;
    unknown.assert_error(410, "cursor_unknown");
    let resumed = client.get(&after(&before)).await.json();
    assert_eq!(resumed[0]["data"]["name"], "instead");
    let stream = client.stream(Some(&lost)).await.unwrap();
    assert_eq!(stream.status(), 410);
}

/// Limits are there to be reached, and services to be stopped: neither is an error.
#[tokio::test(flavor = "multi_thread")]
async fn rejected_streams_are_no_errors_in_the_log() {
    let home = Home::new();
    let keys = [(); 4].map(|()| home.new_key());
    let service = Service::start(home.serve_command().args(["--max-streams", "4"]));
    let clients = keys.each_ref().map(|key| Client::new(&service, key));
    let now = position(&clients[0].get("/v1/events?after=now").await);
    let mut streams = Vec::new();
    for client in &clients[..2] {
        streams.push(client.stream(Some(&now)).await.unwrap());
        assert_eq!(client.stream(Some(&now)).await.unwrap().status(), 429);
    }
    let poll = clients[2].clone();
    let path = format!("/v1/events?after={now}&wait=50");
    let poll = tokio::spawn(async move {
        loop {
            let response = poll.get(&path).await;
            if response.json()["message"]
                .to_string()
                .contains("shutting down")
            {
                return response;
            }
        }
    });
    eventually("the poll is open", async || {
        clients[3].stream(Some(&now)).await.unwrap().status() == 503
    })
    .await;
    let rejected = service.event("event streams rejected");
    assert_eq!(rejected["level"], "WARN");
    service.signal("TERM");
    poll.await.unwrap().assert_error(503, "unavailable");
    service.event("shutting down");
    let events = service.events();
    let errors = events.iter().filter(|event| event["level"] == "ERROR");
    assert_eq!(errors.count(), 0, "{events:?}");
}

/// Counts the pets and orders that differ from what their newest event says, or have none. The
/// log must be complete.
pub static UNLOGGED: LazyLock<String> = LazyLock::new(|| {
    // A change by another program is logged with the names of columns.
    unlogged(|member, column| {
        format!("coalesce(data::json ->> '{member}', data::json ->> '{column}')")
    })
});

/// The same on SQLite.
pub static UNLOGGED_IN_FILE: LazyLock<String> =
    LazyLock::new(|| unlogged(|member, _| format!("data ->> '{member}'")));

/// `member` returns the expression for a member of the data of an event, as text.
fn unlogged(member: impl Fn(&str, &str) -> String) -> String {
    let name = member("name", "name");
    let status = member("status", "status");
    let category_id = member("categoryId", "category_id");
    let pet_id = member("petId", "pet_id");
    format!(
        "WITH newest AS (
             SELECT max(sequence) AS sequence FROM events
             GROUP BY substr(type, 1, 3), resource_id
         ), logged AS (
             SELECT events.* FROM events JOIN newest ON events.sequence = newest.sequence
             WHERE type NOT LIKE '%.deleted'
         ), logged_pets AS (
             SELECT resource_id, {name}, CAST({category_id} AS bigint), {status}
             FROM logged WHERE type LIKE 'pet.%'
         ), logged_orders AS (
             SELECT resource_id, CAST({pet_id} AS bigint), {status}
             FROM logged WHERE type LIKE 'order.%'
         ), stored_pets AS (
             SELECT id, name, category_id, status FROM pets
         ), stored_orders AS (
             SELECT id, pet_id, status FROM orders
         )
         SELECT
             (SELECT count(*) FROM (SELECT * FROM stored_pets EXCEPT SELECT * FROM logged_pets) AS a)
           + (SELECT count(*) FROM (SELECT * FROM logged_pets EXCEPT SELECT * FROM stored_pets) AS b)
           + (SELECT count(*)
              FROM (SELECT * FROM stored_orders EXCEPT SELECT * FROM logged_orders) AS c)
           + (SELECT count(*)
              FROM (SELECT * FROM logged_orders EXCEPT SELECT * FROM stored_orders) AS d)"
    )
}

/// Asserts that the log of an SQLite file says what is stored: after a crash, neither is
/// ahead of the other.
#[track_caller]
pub fn assert_logged(home: &Home) {
    let db = Connection::open(home.database()).unwrap();
    let unlogged: i64 = db
        .query_row(&UNLOGGED_IN_FILE, [], |row| row.get(0))
        .unwrap();
    assert_eq!(unlogged, 0, "the log differs from what is stored");
}

/// Tests the test.
#[test]
fn the_check_finds_changes_that_are_not_logged() {
    for change in [
        "DELETE FROM pets WHERE id = 1",
        "UPDATE pets SET name = 'x' WHERE id = 1",
        "INSERT INTO pets (name, search_name, category_id) VALUES ('x', 'x', 1)",
        // The first five name categories.
        "DELETE FROM events WHERE sequence = 8",
        r#"INSERT INTO events (at, type, resource_id, data)
         VALUES (1, 'pet.created', 9, '{"id":9,"name":"x","categoryId":1}')"#,
        "INSERT INTO orders (pet_id, status, created_at, updated_at) VALUES (1, 'cancelled', 1, 1)",
    ] {
        let home = Home::new();
        home.petstore(&["seed", "3", "--database", &home.url()])
            .success();
        assert_logged(&home);
        let db = Connection::open(home.database()).unwrap();
        db.execute_batch(change).unwrap();
        assert!(catch_unwind(|| assert_logged(&home)).is_err(), "{change}");
    }
}

/// The naive reader asks for numbers above the last one that it has seen. A number that is
/// drawn earlier and committed later stays behind it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn readers_get_every_event_once_from_three_replicas_under_kills() {
    let cluster = Arc::new(Cluster::start());
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let start = Start::new(&home, 3).await;
    let stop = Arc::new(AtomicBool::new(false));
    let naive = thread::spawn({
        let cluster = cluster.clone();
        let database = database.clone();
        let stop = stop.clone();
        move || read_naively(&cluster, &database, &stop)
    });
    let log = start
        .run(|| {
            // Opened while others write, and committed or rolled back later.
            for end in ["COMMIT", "ROLLBACK"] {
                let open = format!(
                    "BEGIN; INSERT INTO pets (name, search_name, category_id)
                     VALUES ('held', 'held', 1);
                     DO $$
                     DECLARE own bigint := (SELECT max(sequence) FROM events);
                     BEGIN
                         -- Until later events are committed, which the naive reader sees.
                         FOR i IN 1..300 LOOP
                             PERFORM pg_sleep(0.1);
                             EXIT WHEN i >= 20
                                 AND (SELECT count(*) FROM events WHERE sequence > own) > 5;
                         END LOOP;
                     END $$;
                     {end}"
                );
                cluster.psql(&database, &open);
            }
        })
        .await;
    stop.store(true, Ordering::Relaxed);
    let numbers = |event: &Value| event["sequence"].as_str().unwrap().parse().unwrap();
    let complete: BTreeSet<i64> = log.iter().map(numbers).collect();
    let seen = naive.join().unwrap();
    assert!(seen.is_subset(&complete), "a number was reused");
    assert_ne!(
        seen, complete,
        "the naive reader missed nothing, so the test is too weak"
    );
}

fn read_naively(cluster: &Cluster, database: &str, stop: &AtomicBool) -> BTreeSet<i64> {
    let mut seen = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) {
        let last = seen.last().copied().unwrap_or(0);
        let newer = format!(
            "SELECT sequence FROM events WHERE sequence > {last} AND type NOT LIKE 'key.%'"
        );
        let newer = cluster.psql(database, &newer);
        seen.extend(newer.lines().map(|number| number.parse::<i64>().unwrap()));
    }
    seen
}

/// Running replicas of an empty store.
struct Start<'a> {
    home: &'a Home,
    key: String,
    services: Vec<Service>,
    clients: Clients,
    /// The position before the first event.
    position: String,
}

pub type Clients = Arc<RwLock<Vec<Client>>>;

fn any(clients: &Clients, random: &mut StdRng) -> Client {
    let clients = clients.read().unwrap();
    clients[random.random_range(0..clients.len())].clone()
}

impl<'a> Start<'a> {
    async fn new(home: &'a Home, replicas: usize) -> Self {
        let key = home.new_key();
        let services: Vec<_> = (0..replicas).map(|_| home.serve()).collect();
        let clients: Vec<_> = services.iter().map(|s| Client::new(s, &key)).collect();
        let position = position(&clients[0].get("/v1/events").await);
        Self {
            home,
            key,
            services,
            clients: Arc::new(RwLock::new(clients)),
            position,
        }
    }

    /// Runs writers and readers, kills services, and runs `disturb` in between. Checks what
    /// the readers got, and returns the log.
    async fn run(mut self, disturb: impl Fn()) -> Vec<Value> {
        let number = |name| env::var(name).ok().map(|text| text.parse().unwrap());
        let seed = number("SEED").unwrap_or_else(rand::random);
        println!("SEED={seed}");
        let deadline = Instant::now() + Duration::from_secs(number("SOAK_SECONDS").unwrap_or(0));
        let random = |n: u64| StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(n));
        let changes = Arc::new(Changes::default());
        let mut writers = JoinSet::new();
        for n in 0..WRITERS {
            writers.spawn(write(self.clients.clone(), changes.clone(), random(n), n));
        }
        let end = Arc::new(Mutex::new(None));
        let mut readers = JoinSet::new();
        for n in 0..3 {
            let clients = self.clients.clone();
            let start = self.position.clone();
            readers.spawn(follow_feed(clients, start, end.clone(), random(100 + n)));
            let clients = self.clients.clone();
            let start = self.position.clone();
            readers.spawn(follow_stream(clients, start, end.clone(), random(200 + n)));
        }
        for kill in 0.. {
            let target = changes.made.load(Ordering::Relaxed) + CHANGES_PER_KILL;
            tokio::task::block_in_place(&disturb);
            while changes.made.load(Ordering::Relaxed) < target {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            if kill >= KILLS && Instant::now() >= deadline {
                break;
            }
            let replica = kill % self.services.len();
            self.services.remove(replica).kill();
            let service = self.home.serve();
            self.clients.write().unwrap()[replica] = Client::new(&service, &self.key);
            self.services.insert(replica, service);
        }
        changes.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
        let client = self.clients.read().unwrap()[0].clone();
        *end.lock().unwrap() = Some(position(&client.get("/v1/events?after=now").await));
        let mut logs = Vec::new();
        while let Some(log) = readers.join_next().await {
            logs.push(log.unwrap());
        }
        let log = logs.pop().unwrap();
        for other in logs {
            assert!(other == log, "two readers got different logs");
        }
        check(&log, &changes.acknowledged.lock().unwrap());
        let tables = replay(&log);
        let clients = self.clients.read().unwrap().clone();
        for client in &clients {
            assert!(
                tables == stored(client).await,
                "the log does not lead to the tables"
            );
        }
        log
    }
}

/// The resources by their subject.
type Tables = BTreeMap<String, Value>;

/// Returns the stored resources, read through the lists.
async fn stored(client: &Client) -> Tables {
    let mut tables = Tables::new();
    for (collection, path) in [
        ("pets", "/v1/pets?limit=100"),
        ("orders", "/v1/store/orders?limit=100"),
        ("categories", "/v1/categories?limit=100"),
    ] {
        for item in client.try_list(path).await.unwrap() {
            tables.insert(format!("{collection}/{}", item["id"]), item);
        }
    }
    tables
}

/// Applies every event, starting with empty tables.
fn replay(log: &[Value]) -> Tables {
    let mut tables = Tables::new();
    for event in log {
        let subject = event["subject"].as_str().unwrap().to_string();
        let data = event["data"].clone();
        let before = match event["type"].as_str().unwrap() {
            "pet.deleted" | "category.deleted" => {
                let deleted = tables.remove(&subject);
                let history = || -> Vec<_> {
                    let all = log
                        .iter()
                        .filter(|other| other["subject"] == event["subject"]);
                    all.map(Value::to_string).collect()
                };
                assert_eq!(deleted.as_ref(), Some(&data), "{event}: {:#?}", history());
                continue;
            }
            _ => tables.insert(subject, data.clone()),
        };
        match event["type"].as_str().unwrap() {
            "pet.created" | "order.placed" => assert_eq!(before, None, "{event}"),
            "category.updated" => assert_ne!(before.as_ref(), Some(&data), "{event}"),
            _ => assert!(before.is_some_and(|before| before != data), "{event}"),
        }
    }
    tables
}

/// Numbers ascend, and every acknowledged change is an event.
fn check(log: &[Value], acknowledged: &[(String, Value)]) {
    let numbers: Vec<_> = log.iter().map(|event| event["sequence"].as_str()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "numbers do not ascend");
    let changes = log
        .iter()
        .map(|event| (event["subject"].to_string(), event["data"].to_string()));
    let changes: BTreeSet<_> = changes.collect();
    for (subject, data) in acknowledged {
        let change = (Value::from(&**subject).to_string(), data.to_string());
        assert!(
            changes.contains(&change),
            "{subject} {data} is not in the log"
        );
    }
}

/// State shared with the writers, and the record of their changes.
#[derive(Default)]
pub struct Changes {
    pub made: AtomicUsize,
    pub stop: AtomicBool,
    /// Resources as they were acknowledged, with their subjects.
    acknowledged: Mutex<Vec<(String, Value)>>,
}

/// Changes everything at random, through any replica.
pub async fn write(clients: Clients, changes: Arc<Changes>, mut random: StdRng, writer: u64) {
    let mut pets = vec![1];
    let mut orders = vec![1];
    for n in 0.. {
        if changes.stop.load(Ordering::Relaxed) {
            return;
        }
        let client = any(&clients, &mut random);
        let pet = pets[random.random_range(0..pets.len())];
        let order = orders[random.random_range(0..orders.len())];
        let category = random.random_range(1..5);
        let name = format!("{writer}-{n}");
        let animal = json!({"name": name, "categoryId": category, "status": "available"});
        let (collection, method, path, body) = match random.random_range(0..20) {
            0..5 => ("pets", Method::POST, "/v1/pets".into(), animal),
            5..8 => {
                let patch = json!({"name": name});
                ("pets", Method::PATCH, format!("/v1/pets/{pet}"), patch)
            }
            8 => ("", Method::DELETE, format!("/v1/pets/{pet}"), Value::Null),
            9..13 => {
                let claim = json!({"petId": pet});
                ("orders", Method::POST, "/v1/store/orders".into(), claim)
            }
            choice @ 13..18 => {
                let action = ["complete", "complete", "cancel", "return", "return"][choice - 13];
                let path = format!("/v1/store/orders/{order}/{action}");
                ("orders", Method::POST, path, Value::Null)
            }
            18 => {
                let path = format!("/v1/categories/{category}");
                ("categories", Method::PUT, path, json!({"name": name}))
            }
            _ => (
                "",
                Method::DELETE,
                format!("/v1/categories/{category}"),
                Value::Null,
            ),
        };
        let Ok(response) = client.send_json(method, &path, &body, None).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if !matches!(response.status, 200 | 201 | 204) {
            assert!(matches!(response.status, 404 | 409 | 503), "{response:?}");
            continue;
        }
        changes.made.fetch_add(1, Ordering::Relaxed);
        let id = response.json()["id"].as_i64();
        match (collection, response.status, id) {
            ("pets", 201, Some(id)) => pets.push(id),
            ("orders", 201, Some(id)) => orders.push(id),
            _ => {}
        }
        if let Some(id) = id {
            let subject = format!("{collection}/{id}");
            changes
                .acknowledged
                .lock()
                .unwrap()
                .push((subject, response.json()));
        }
    }
}

/// The position in the link of a page.
fn position(page: &Response) -> String {
    let next = page.next().unwrap();
    let after = next.split_once("after=").unwrap().1;
    after.split('&').next().unwrap().into()
}

/// The position at which readers end, once it is known.
type End = Arc<Mutex<Option<String>>>;

fn is_end(end: &End, position: &str) -> bool {
    end.lock().unwrap().as_deref() == Some(position)
}

/// Reads the feed through any replica, in pages of random length.
async fn follow_feed(
    clients: Clients,
    mut after: String,
    end: End,
    mut random: StdRng,
) -> Vec<Value> {
    let mut log = Vec::new();
    while !is_end(&end, &after) {
        let limit = random.random_range(1..200);
        let wait = random.random_range(0..2);
        let path = format!("/v1/events?after={after}&limit={limit}&wait={wait}");
        let client = any(&clients, &mut random);
        match client
            .send_json(Method::GET, &path, &Value::Null, None)
            .await
        {
            Ok(page) if page.status == 200 => {
                log.extend(page.json().as_array().unwrap().iter().cloned());
                after = position(&page);
            }
            Ok(page) => page.assert_error(503, "unavailable"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    log
}

/// Follows the stream of any replica, is cut off at random, and resumes.
async fn follow_stream(
    clients: Clients,
    mut last: String,
    end: End,
    mut random: StdRng,
) -> Vec<Value> {
    let mut log = Vec::new();
    while !is_end(&end, &last) {
        let mut left = random.random_range(1..100);
        let Ok(response) = any(&clients, &mut random).stream(Some(&last)).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        assert!(
            matches!(response.status().as_u16(), 200 | 503),
            "{response:?}"
        );
        let mut stream = EventStream::new(response.into_body());
        while left > 0 && !is_end(&end, &last) {
            let block = tokio::time::timeout(Duration::from_secs(1), stream.block()).await;
            let Ok(Some(block)) = block else {
                break;
            };
            if let Some(data) = field(&block, "data") {
                let event: Value = serde_json::from_str(data).unwrap();
                last = event["id"].as_str().unwrap().into();
                log.push(event);
                left -= 1;
            }
        }
    }
    log
}
