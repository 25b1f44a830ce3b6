//! PostgreSQL that crashes, ends sessions and has locked rows, behind a proxy that
//! drops, delays and halves replies.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use rand::{
    Rng, RngExt, SeedableRng,
    rngs::StdRng,
    seq::{IndexedMutRandom, IndexedRandom, SliceRandom},
};
use serde_json::{Value, json};
use support::{Cluster, eventually, noise, random, rounds, signal};
use tokio::{
    io::{self, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};

use crate::{
    client::Client,
    event_log::UNLOGGED,
    harness::{Home, Service},
};

const CLIENTS: u64 = 8;
const PETS: &str = "/v1/pets";
const ORDERS: &str = "/v1/store/orders";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn acknowledged_changes_survive_database_failures() {
    let mut random = random("PostgreSQL failures");
    let campaign = Campaign::start(&mut random).await;
    let clients = campaign.start_clients(&mut random);
    let mut failures = [
        Failure::Crash,
        Failure::KilledSession,
        Failure::TerminatedSessions,
        Failure::LockedRows,
        Failure::BrokenReplies,
    ];
    for _ in 0..rounds(1, 100) {
        failures.shuffle(&mut random);
        for failure in failures {
            campaign.workload.make_progress().await;
            sleep(Duration::from_millis(random.random_range(0..100))).await;
            campaign.inflict(failure, &mut random).await;
        }
    }
    campaign.workload.make_progress().await;
    campaign.workload.stop(clients).await;
    let violations = campaign.check(&mut random).await;
    campaign.workload.report();
    assert_eq!(violations, Vec::<String>::new());
}

/// The control: the check finds changes that were lost, doubled or miscounted behind
/// the back of the service.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn the_check_finds_lost_and_doubled_changes() {
    let mut random = random("damaged PostgreSQL");
    let campaign = Campaign::start(&mut random).await;
    let clients = campaign.start_clients(&mut random);
    // Until there is something of every kind to damage.
    let kinds = ["cancel", "return", "PATCH", "DELETE", "photos"];
    let workload = &campaign.workload;
    while kinds.iter().any(|kind| workload.succeeded(kind) == 0) {
        workload.make_progress().await;
    }
    campaign.workload.stop(clients).await;
    campaign.workload.report();
    let mut known = campaign.check(&mut random).await;
    assert_eq!(known, Vec::<String>::new());
    let an_order = "SELECT pet_id, 'cancelled', 1, 1 FROM orders LIMIT 1";
    for damage in [
        "DELETE FROM pets WHERE id = (SELECT max(id) FROM pets
                                      WHERE id NOT IN (SELECT pet_id FROM orders))",
        &format!("INSERT INTO orders (pet_id, status, created_at, updated_at) {an_order}"),
        "INSERT INTO pets (name, search_name, search_words, category_id, status)
         SELECT name, search_name, search_words, category_id, status FROM pets LIMIT 1",
        "UPDATE orders SET status = 'returned'
         WHERE id = (SELECT max(id) FROM orders WHERE status = 'cancelled')",
        "UPDATE orders SET status = 'cancelled'
         WHERE id = (SELECT max(id) FROM orders
                     WHERE status = 'returned' AND completed_at IS NOT NULL)",
        // A change is lost, a deletion undone.
        "UPDATE pets SET name = 'lost', search_name = 'lost', search_words = 'lost'
         WHERE id = (SELECT min(id) FROM pets)",
        "INSERT INTO pets (id, name, search_name, search_words, category_id, status)
         SELECT min(id), 'undone', 'undone', 'undone', 1, 'available'
         FROM generate_series(1, (SELECT max(id) FROM pets)) AS id
         WHERE id NOT IN (SELECT id FROM pets)",
        "UPDATE pets SET status = 'sold' WHERE id = (SELECT max(id) FROM pets
                                                     WHERE status = 'available')",
        "UPDATE counts SET pets_sold = pets_sold + 1 WHERE shard = 0",
        // A photo is lost, and nothing refers to it.
        "UPDATE pets SET photos = NULL
         WHERE id = (SELECT max(id) FROM pets WHERE photos IS NOT NULL)",
        // Retries are executed again.
        "DELETE FROM idempotency_keys",
    ] {
        campaign.sql(damage);
        let found = campaign.check(&mut random).await;
        let is_new = |violation: &&String| !known.contains(violation);
        assert!(found.iter().any(|v| is_new(&v)), "{damage}: {found:#?}");
        known = found;
    }
}

#[derive(Debug, Clone, Copy)]
enum Failure {
    /// The whole server, as with `pg_ctl stop -m immediate`.
    Crash,
    /// SIGKILL for one session, after which PostgreSQL ends all others and recovers.
    KilledSession,
    TerminatedSessions,
    LockedRows,
    /// The proxy drops, delays and halves replies.
    BrokenReplies,
}

/// Two replicas, and the database behind a proxy.
struct Campaign {
    // Fields drop in this order: the services before their database.
    _services: Vec<Service>,
    workload: Arc<Workload>,
    proxy: Proxy,
    home: Home,
    cluster: Cluster,
    database: String,
}

impl Campaign {
    async fn start(random: &mut StdRng) -> Self {
        let cluster = Cluster::start();
        let database = cluster.create_database();
        let proxy = Proxy::start(cluster.port, random).await;
        let url = format!("postgres://petstore@{}/{database}", proxy.address);
        let home = Home::with_database(url);
        let key = home.new_key();
        let services = vec![home.serve(), home.serve()];
        let clients = services.iter().map(|service| Client::new(service, &key));
        let workload = Workload {
            clients: clients.collect(),
            calls: Mutex::default(),
            pets: Mutex::default(),
            acknowledged: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        };
        Self {
            _services: services,
            workload: Arc::new(workload),
            proxy,
            home,
            cluster,
            database,
        }
    }

    fn start_clients(&self, random: &mut StdRng) -> JoinSet<()> {
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS {
            let random = StdRng::from_rng(random);
            clients.spawn(self.workload.clone().run_client(random, number));
        }
        clients
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.psql(&self.database, sql)
    }

    async fn inflict(&self, failure: Failure, random: &mut StdRng) {
        let sessions = "FROM pg_stat_activity WHERE application_name = 'petstore'";
        match failure {
            Failure::Crash => {
                self.cluster.crash();
                sleep(Duration::from_millis(random.random_range(0..300))).await;
                self.cluster.restart();
            }
            Failure::KilledSession => {
                let pid = self.sql(&format!("SELECT pid {sessions} ORDER BY random() LIMIT 1"));
                if let Ok(pid) = pid.parse() {
                    signal(pid, "KILL");
                    // While PostgreSQL recovers, it accepts no connections.
                    eventually("recovery", async || {
                        let mut psql = self.cluster.psql_command(&self.database);
                        let status = psql.arg("SELECT 1").stderr(Stdio::null()).output();
                        status.unwrap().status.success()
                    })
                    .await;
                }
            }
            Failure::TerminatedSessions => {
                for _ in 0..10 {
                    self.sql(&format!(
                        "SELECT pg_terminate_backend(pid) {sessions} AND random() < 0.4"
                    ));
                    sleep(Duration::from_millis(random.random_range(0..50))).await;
                }
            }
            Failure::LockedRows => {
                self.sql(
                    "BEGIN;
                     SELECT FROM (SELECT id FROM pets ORDER BY id DESC LIMIT 20) AS pet
                     JOIN pets USING (id) FOR UPDATE OF pets;
                     SELECT FROM orders WHERE id % 3 = 0 AND status = 'placed' FOR UPDATE;
                     SELECT pg_sleep(0.5)",
                );
            }
            Failure::BrokenReplies => {
                self.proxy.is_faulty.store(true, Ordering::Relaxed);
                sleep(Duration::from_millis(random.random_range(200..1000))).await;
                self.proxy.is_faulty.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Retries what has an unknown outcome, and some of what has a known one. Then
    /// compares what is stored with what clients were told; returns the violations.
    async fn check(&self, random: &mut StdRng) -> Vec<String> {
        let mut violations = self.workload.settle(random).await;
        let rows = |sql: &str| -> Vec<Value> {
            let rows = format!("SELECT coalesce(json_agg(item), '[]') FROM ({sql}) AS item");
            serde_json::from_str(&self.sql(&rows)).unwrap()
        };
        let pets = rows("SELECT id, name, status FROM pets ORDER BY id");
        let orders = rows("SELECT id, pet_id, status FROM orders ORDER BY id");
        let photos = rows("SELECT id, pet_id FROM photos WHERE removed_at IS NULL");
        let found = compare(
            &self.workload.calls.lock().unwrap(),
            &pets,
            &orders,
            &photos,
        );
        violations.extend(found);
        let count = |status| pets.iter().filter(|pet| pet["status"] == status).count();
        let counted = ["available", "pending", "sold"]
            .map(|status| (status.to_string(), json!(count(status))));
        let total = ("total".to_string(), json!(pets.len()));
        let inventory = self.workload.clients[0]
            .get("/v1/store/inventory")
            .await
            .json();
        if inventory != Value::Object(counted.into_iter().chain([total]).collect()) {
            violations.push(format!("the inventory is {inventory}"));
        }
        if self.sql(&UNLOGGED) != "0" {
            violations.push("the event log differs from what is stored".into());
        }
        let check = ["check", "--database", &self.home.url()];
        let checked = self.home.petstore(&check);
        violations.extend(checked.stdout.lines().map(String::from));
        violations
    }
}

/// A request, which is retried until it has a response: a POST under the same idempotency
/// key.
#[derive(Debug, Clone)]
struct Call {
    key: String,
    method: Method,
    path: String,
    body: Value,
    /// True if an attempt may have been executed although there was no response.
    may_be_executed: bool,
    /// The first response other than 503.
    response: Option<(u16, Value)>,
}

impl Call {
    /// Sends the request. Returns a violation.
    async fn send(&mut self, client: &Client) -> Option<String> {
        let sent = if self.is_photo() {
            let seed = self.body["seed"].as_u64().unwrap();
            let image = noise(8, 6, seed);
            client.upload(self.pet().unwrap(), image, &self.key).await
        } else {
            let key = self.has_key().then_some(&*self.key);
            let sent = client.send_json(self.method.clone(), &self.path, &self.body, key);
            sent.await
        };
        let Ok(response) = sent else {
            self.may_be_executed = true;
            return None;
        };
        if response.status == 503 {
            let body = response.json();
            let message = body["message"].as_str().unwrap();
            self.may_be_executed |= !message.contains("nothing was changed");
            return None;
        }
        let is_replay = response.headers.contains_key("idempotent-replayed");
        let got = (response.status, response.json());
        let violation = match &self.response {
            Some(first) if *first != got || !is_replay => "differs from the first response",
            None if is_replay && !self.may_be_executed => {
                "was executed, though nothing was changed"
            }
            _ if !self.expected_statuses().contains(&got.0) => "has an unexpected response",
            _ => {
                self.response.get_or_insert(got);
                return None;
            }
        };
        Some(format!("{self:?} {violation}: {got:?}"))
    }

    /// Returns true for the upload of a photo, whose image depends on the `seed` in the body.
    fn is_photo(&self) -> bool {
        self.path.ends_with("/photos")
    }

    fn has_key(&self) -> bool {
        self.method == Method::POST
    }

    /// Other clients may delete the pet; orders are not deleted.
    fn expected_statuses(&self) -> &'static [u16] {
        match (&self.method, &*self.path) {
            (&Method::DELETE, _) => &[204, 404, 409],
            (&Method::PATCH, _) => &[200, 404, 409],
            (_, PETS) => &[201],
            (_, ORDERS) => &[201, 404, 409],
            _ if self.is_photo() => &[201, 404],
            _ => &[200, 409],
        }
    }

    fn status(&self) -> Option<u16> {
        self.response.as_ref().map(|(status, _)| *status)
    }

    /// The existing pet that the request names.
    fn pet(&self) -> Option<i64> {
        let in_path = self.path.strip_prefix("/v1/pets/");
        let in_path = in_path.map(|rest| rest.trim_end_matches("/photos").parse().unwrap());
        in_path.or_else(|| self.body["petId"].as_i64())
    }

    /// The id in the response, if the request was successful.
    fn id(&self) -> Option<i64> {
        let (status, body) = self.response.as_ref()?;
        let id = body["id"].as_i64();
        id.filter(|_| *status < 300)
    }
}

/// The calls of the clients, with the responses.
struct Workload {
    /// One per replica.
    clients: Vec<Client>,
    calls: Mutex<Vec<Call>>,
    /// Acknowledged pets.
    pets: Mutex<Vec<i64>>,
    acknowledged: AtomicUsize,
    stopped: AtomicBool,
}

/// The orders and pets created by one client.
#[derive(Default)]
struct Own {
    orders: Vec<i64>,
    /// Each is changed and deleted at most once, so that what is stored follows from the
    /// responses in whatever order the requests are executed.
    pets_to_change: Vec<i64>,
    pets_to_delete: Vec<i64>,
}

/// Takes one of the last ten.
fn take_recent(pets: &mut Vec<i64>, random: &mut impl Rng) -> Option<i64> {
    let back = random.random_range(1..=10);
    let index = pets.len().checked_sub(back)?;
    Some(pets.swap_remove(index))
}

impl Workload {
    /// Creates pets, orders pets that any client has created, and adds photos to them; completes,
    /// cancels and returns its own orders, and changes and deletes its own pets.
    async fn run_client(self: Arc<Self>, mut random: StdRng, number: u64) {
        let mut own = Own::default();
        for count in 0.. {
            if self.stopped.load(Ordering::Relaxed) {
                return;
            }
            let key = format!("{number}-{count}");
            let pet = {
                let pets = self.pets.lock().unwrap();
                let recent = &pets[pets.len().saturating_sub(20)..];
                recent.choose(&mut random).copied()
            };
            let recent = &own.orders[own.orders.len().saturating_sub(4)..];
            let order = recent.choose(&mut random);
            let transition = |order: &i64, to| {
                let path = format!("{ORDERS}/{order}/{to}");
                (Method::POST, path, Value::Null)
            };
            let (method, path, body) = match (random.random_range(0..22), pet, order) {
                (20.., Some(pet), _) => {
                    let image = json!({"seed": random.random::<u32>()});
                    (Method::POST, format!("{PETS}/{pet}/photos"), image)
                }
                (0..=6, Some(pet), _) => (Method::POST, ORDERS.into(), json!({"petId": pet})),
                (7..=9, _, Some(order)) => transition(order, "complete"),
                (10..=11, _, Some(order)) => transition(order, "cancel"),
                (12..=13, _, Some(order)) => transition(order, "return"),
                (action @ 14..=16, ..) => {
                    let pets = match action {
                        14 => &mut own.pets_to_delete,
                        _ => &mut own.pets_to_change,
                    };
                    let Some(pet) = take_recent(pets, &mut random) else {
                        continue;
                    };
                    let path = format!("{PETS}/{pet}");
                    // Rejected if an order claims the pet, which is not available then.
                    let change = json!({"name": key, "status": "available"});
                    match action {
                        14 => (Method::DELETE, path, Value::Null),
                        15 => (Method::PATCH, path, change),
                        _ => (Method::PATCH, path, json!({"name": key})),
                    }
                }
                _ => {
                    let pet = json!({"name": key, "categoryId": 1, "status": "available"});
                    (Method::POST, PETS.into(), pet)
                }
            };
            let mut call = Call {
                key,
                method,
                path,
                body,
                may_be_executed: false,
                response: None,
            };
            // Leaves some unknown outcomes for later.
            for _ in 0..random.random_range(1..=3) {
                let client = self.clients.choose(&mut random).unwrap();
                let violation = call.send(client).await;
                assert_eq!(violation, None);
                if call.response.is_some() {
                    self.acknowledged.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                sleep(Duration::from_millis(random.random_range(0..20))).await;
            }
            match (call.id(), &*call.path) {
                (Some(pet), PETS) => {
                    own.pets_to_change.push(pet);
                    own.pets_to_delete.push(pet);
                    self.pets.lock().unwrap().push(pet);
                }
                (Some(order), ORDERS) => own.orders.push(order),
                _ => {}
            }
            self.calls.lock().unwrap().push(call);
        }
    }

    /// Waits until clients are served again.
    async fn make_progress(&self) {
        let before = self.acknowledged.load(Ordering::Relaxed);
        eventually("acknowledged changes", async || {
            self.acknowledged.load(Ordering::Relaxed) >= before + 50
        })
        .await;
    }

    async fn stop(&self, mut clients: JoinSet<()>) {
        self.stopped.store(true, Ordering::Relaxed);
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    }

    /// Retries all calls without a response, and a sample of the others. Returns the
    /// violations.
    async fn settle(&self, random: &mut StdRng) -> Vec<String> {
        let mut calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let mut violations = Vec::new();
        for call in &mut calls {
            if call.response.is_none() {
                eventually("a response to every retry", async || {
                    violations.extend(call.send(&self.clients[0]).await);
                    call.response.is_some() || !violations.is_empty()
                })
                .await;
            }
        }
        let mut with_key: Vec<_> = calls.iter_mut().filter(|call| call.has_key()).collect();
        for _ in 0..100 {
            let call = with_key.choose_mut(random).unwrap();
            violations.extend(call.send(self.clients.choose(random).unwrap()).await);
        }
        *self.calls.lock().unwrap() = calls;
        violations
    }

    /// Returns the number of successful calls, by their method or the end of their path.
    fn succeeded(&self, what: &str) -> usize {
        let is_it = |call: &&Call| call.method.as_str() == what || call.path.ends_with(what);
        let calls = self.calls.lock().unwrap();
        let statuses = calls.iter().filter(is_it).filter_map(Call::status);
        statuses.filter(|status| *status < 300).count()
    }

    fn report(&self) {
        let (all, unknown) = {
            let calls = self.calls.lock().unwrap();
            let unknown = calls.iter().filter(|call| call.may_be_executed);
            (calls.len(), unknown.count())
        };
        println!(
            "{all} calls, {unknown} with an unknown outcome at first: {} completed orders, {} \
             returned; {} changed pets, {} deleted; {} photos",
            self.succeeded("complete"),
            self.succeeded("return"),
            self.succeeded("PATCH"),
            self.succeeded("DELETE"),
            self.succeeded("photos"),
        );
    }
}

/// Compares what is stored with the responses to all calls. Returns the violations.
fn compare(calls: &[Call], pets: &[Value], orders: &[Value], photos: &[Value]) -> Vec<String> {
    let mut violations = Vec::new();
    let made = |path: &str| -> BTreeSet<i64> {
        let calls = calls.iter().filter(|call| call.path == path);
        calls.filter_map(Call::id).collect()
    };
    let created = made(PETS);
    let placed = made(ORDERS);
    let by_id = |rows: &[Value]| -> BTreeMap<i64, Value> {
        let by_id = |row: &Value| (row["id"].as_i64().unwrap(), row.clone());
        rows.iter().map(by_id).collect()
    };
    let pets = by_id(pets);
    let orders = by_id(orders);

    // Whether a pet was deleted; `None` if that is not known.
    let mut deleted: BTreeMap<i64, Option<bool>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.method == Method::DELETE) {
        let is_deleted = match (call.status(), call.may_be_executed) {
            (Some(204), _) | (Some(404), true) => Some(true),
            (Some(409), false) => Some(false),
            (Some(409), true) => None,
            _ => {
                violations.push(format!("{call:?} did not find its pet"));
                continue;
            }
        };
        deleted.insert(call.pet().unwrap(), is_deleted);
    }
    let is_deleted = |pet: &i64| deleted.get(pet).copied().unwrap_or(Some(false));
    for call in calls.iter().filter(|call| call.status() == Some(404)) {
        if is_deleted(&call.pet().unwrap()) == Some(false) {
            violations.push(format!("{call:?} did not find its pet"));
        }
    }
    for pet in &created {
        match (is_deleted(pet), pets.contains_key(pet)) {
            (Some(true), true) => violations.push(format!("pet {pet} was deleted and is there")),
            (Some(false), false) => {
                violations.push(format!("pet {pet} was acknowledged and is lost"));
            }
            _ => {}
        }
    }
    for pet in pets.keys().filter(|pet| !created.contains(pet)) {
        violations.push(format!("pet {pet} was never acknowledged"));
    }
    let stored: BTreeSet<_> = orders.keys().copied().collect();
    for order in placed.difference(&stored) {
        violations.push(format!("order {order} was acknowledged and is lost"));
    }
    for order in stored.difference(&placed) {
        violations.push(format!("order {order} was never acknowledged"));
    }

    let mut photos: BTreeSet<(i64, i64)> = photos
        .iter()
        .map(|photo| [&photo["pet_id"], &photo["id"]].map(|id| id.as_i64().unwrap()))
        .map(|[pet, id]| (pet, id))
        .collect();
    for call in calls.iter().filter(|call| call.is_photo()) {
        let Some(id) = call.id() else { continue };
        let pet = call.pet().unwrap();
        if photos.remove(&(pet, id)) != pets.contains_key(&pet) {
            violations.push(format!(
                "photo {id} of pet {pet} was acknowledged and is lost"
            ));
        }
    }
    for (pet, id) in photos {
        violations.push(format!("photo {id} of pet {pet} was never acknowledged"));
    }

    // The possible names of each pet.
    let mut names: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for call in calls.iter().filter(|call| call.path == PETS) {
        names.extend(call.id().map(|pet| (pet, vec![&*call.key])));
    }
    for call in calls.iter().filter(|call| call.method == Method::PATCH) {
        let names = names.entry(call.pet().unwrap()).or_default();
        if call.status() == Some(200) {
            names.clear();
        }
        if call.status() == Some(200) || call.may_be_executed {
            names.push(&call.key);
        }
    }
    for (id, pet) in &pets {
        let names = names.get(id).map_or(&[][..], Vec::as_slice);
        if !names.contains(&pet["name"].as_str().unwrap()) {
            violations.push(format!("{pet} should have a name of {names:?}"));
        }
    }

    let mut transitions: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
    for call in calls {
        let transition = call.path.strip_prefix(ORDERS);
        let transition = transition.and_then(|rest| rest.rsplit('/').next());
        if let (Some(to @ ("complete" | "cancel" | "return")), Some(order)) =
            (transition, call.id())
        {
            transitions.entry(order).or_default().push(to);
        }
    }
    let mut expected: BTreeMap<i64, &str> = pets.keys().map(|id| (*id, "available")).collect();
    let mut claimed = BTreeSet::new();
    for (id, order) in &orders {
        let mut transitions = transitions.remove(id).unwrap_or_default();
        transitions.sort_unstable();
        let status = match transitions[..] {
            [] => "placed",
            ["cancel"] => "cancelled",
            ["complete"] => "completed",
            ["complete", "return"] => "returned",
            _ => {
                violations.push(format!("{order} was changed by {transitions:?}"));
                continue;
            }
        };
        if order["status"] != status {
            violations.push(format!("{order} should be {status}"));
        }
        let pet_status = match status {
            "placed" => "pending",
            "completed" => "sold",
            _ => continue,
        };
        let pet = order["pet_id"].as_i64().unwrap();
        if !claimed.insert(pet) {
            violations.push(format!("the pet of {order} has another active order"));
        }
        match expected.get_mut(&pet) {
            Some(expected) => *expected = pet_status,
            None if status == "placed" => {
                violations.push(format!("the pet of {order} was deleted"));
            }
            None => {}
        }
    }
    for (id, status) in expected {
        if pets[&id]["status"] != status {
            violations.push(format!("{} should be {status}", pets[&id]));
        }
    }
    violations
}

/// A TCP proxy in front of PostgreSQL.
struct Proxy {
    address: SocketAddr,
    is_faulty: Arc<AtomicBool>,
}

impl Proxy {
    async fn start(port: u16, random: &mut StdRng) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let is_faulty = Arc::new(AtomicBool::new(false));
        let faulty = is_faulty.clone();
        let mut random = StdRng::from_rng(random);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let faulty = faulty.clone();
                let random = StdRng::from_rng(&mut random);
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                        // Both connections close with the first error.
                        let _ = relay(client, server, &faulty, random).await;
                    }
                });
            }
        });
        Self { address, is_faulty }
    }
}

async fn relay(
    mut client: TcpStream,
    mut server: TcpStream,
    is_faulty: &AtomicBool,
    mut random: impl Rng,
) -> io::Result<()> {
    let (mut requests, mut client) = client.split();
    let (mut replies, mut server) = server.split();
    let forward_replies = async {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = replies.read(&mut buffer).await?;
            let mut reply = &buffer[..length];
            let fault = if is_faulty.load(Ordering::Relaxed) {
                random.random_range(0..20)
            } else {
                u32::MAX
            };
            match fault {
                0 => return Ok(()),
                1 => reply = &reply[..length / 2],
                2..=4 => sleep(Duration::from_millis(random.random_range(0..200))).await,
                _ => {}
            }
            client.write_all(reply).await?;
            if length == 0 || fault == 1 {
                return Ok(());
            }
        }
    };
    tokio::select! {
        replies = forward_replies => replies,
        requests = io::copy(&mut requests, &mut server) => requests.map(drop),
    }
}
