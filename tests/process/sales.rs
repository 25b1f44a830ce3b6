//! Concurrent sales while every replica is killed with SIGKILL and restarted:
//! the history of each pet must be linearizable, so no pet is sold twice.
//!
//! The random operations come from a seed, which is printed. `SEED` replays
//! one; `SOAK_SECONDS` adds rounds with new pets for that long (`make soak`).

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::Method;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use support::{Cluster, RequestError, Response};
use tokio::task::JoinSet;

use crate::{
    client::Client,
    harness::{Home, Service},
    linearizability::{Invocation, Operation, Outcome, Status, check_linearizable},
};

const CLIENTS: usize = 12;
const PETS: usize = 6;
const OPERATIONS_PER_CLIENT: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn no_pet_is_sold_twice_on_sqlite_under_kills() {
    let home = Home::new();
    assert_eq!(run_workload(&home, 1).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn no_pet_is_sold_twice_by_three_replicas_under_kills() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    assert_eq!(run_workload(&home, 3).await, Vec::<String>::new());
}

/// Tests the test: triggers break the store, and the checker detects it.
#[tokio::test(flavor = "multi_thread")]
async fn the_checker_detects_broken_stores() {
    for broken in [
        // Loses acknowledged orders.
        "CREATE TRIGGER broken AFTER INSERT ON orders WHEN NEW.id % 5 = 0 BEGIN
             UPDATE orders SET status = 'cancelled' WHERE id = NEW.id;
             UPDATE pets SET status = 'available' WHERE id = NEW.pet_id;
         END",
        // Keeps the pet of a cancelled order reserved.
        "CREATE TRIGGER broken AFTER UPDATE ON orders WHEN NEW.status = 'cancelled' BEGIN
             UPDATE pets SET status = 'sold' WHERE id = NEW.pet_id;
             INSERT INTO orders (pet_id, status, created_at, updated_at)
                 VALUES (NEW.pet_id, 'placed', 1, 1);
         END",
        // Acknowledges an update of a pet and drops it.
        "CREATE TRIGGER broken BEFORE UPDATE OF status ON pets
         WHEN OLD.status IS NOT 'pending' AND NEW.status IS NOT 'pending' BEGIN
             SELECT raise(ignore);
         END",
    ] {
        let home = Home::new();
        home.new_key();
        let db = rusqlite::Connection::open(home.database()).unwrap();
        db.execute_batch(broken).unwrap();
        db.close().unwrap();
        assert_ne!(
            run_workload(&home, 1).await,
            Vec::<String>::new(),
            "{broken}"
        );
    }
}

/// Tests the tests: a store in which a completed order no longer claims its pet, so that an
/// update puts the pet back on sale. The checker detects it, and so does `petstore check`.
#[tokio::test(flavor = "multi_thread")]
async fn a_pet_that_is_sold_to_two_buyers_is_detected() {
    let home = Home::new();
    home.new_key();
    let execute = |sql| {
        let db = rusqlite::Connection::open(home.database()).unwrap();
        db.execute_batch(sql).unwrap();
        db.close().unwrap();
    };
    execute(
        "CREATE TABLE sales (order_id INTEGER PRIMARY KEY);
         CREATE TRIGGER broken AFTER UPDATE ON orders WHEN NEW.status = 'completed' BEGIN
             INSERT INTO sales VALUES (NEW.id);
             UPDATE orders SET status = 'returned' WHERE id = NEW.id;
         END",
    );
    assert_ne!(run_workload(&home, 1).await, Vec::<String>::new());
    // The orders as their buyers know them.
    execute(
        "DROP TRIGGER broken;
         DROP INDEX orders_active_pet_id_key;
         UPDATE orders SET status = 'completed' WHERE id IN (SELECT order_id FROM sales);
         DROP TABLE sales",
    );
    let found = home.petstore(&["check", "--database", &home.url()]);
    found.assert_fails(1, "problems found");
    let several = "animals with more than one order that is open or completed";
    assert!(found.stdout.contains(several), "{found:?}");
}

/// Runs rounds of the workload; returns the violations of the first round that
/// has any.
async fn run_workload(home: &Home, replicas: usize) -> Vec<String> {
    let number = |name| env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("SEED").unwrap_or_else(rand::random);
    let deadline = Instant::now() + Duration::from_secs(number("SOAK_SECONDS").unwrap_or(0));
    let key = home.new_key();
    let services: Vec<_> = (0..replicas).map(|_| home.serve()).collect();
    let mut deployment = Deployment {
        clients: Arc::new(RwLock::new(
            services.iter().map(|s| Client::new(s, &key)).collect(),
        )),
        services: services.into_iter().map(Some).collect(),
        key,
        home,
    };
    for round in 0.. {
        let seed = seed.wrapping_add(round);
        println!("SEED={seed}");
        let violations = deployment.run_round(seed).await;
        if !violations.is_empty() || (round >= 2 && Instant::now() >= deadline) {
            println!("{} rounds", round + 1);
            return violations;
        }
    }
    unreachable!("the range of rounds is endless")
}

/// The replicas under test and a client for each of them.
struct Deployment<'a> {
    services: Vec<Option<Service>>,
    clients: Arc<RwLock<Vec<Client>>>,
    key: String,
    home: &'a Home,
}

impl Deployment<'_> {
    async fn run_round(&mut self, seed: u64) -> Vec<String> {
        let client = self.clients.read().unwrap()[0].clone();
        let mut workload = Workload {
            clients: self.clients.clone(),
            clock: AtomicU64::new(0),
            completed: AtomicUsize::new(0),
            pets: BTreeMap::new(),
            violations: Mutex::default(),
        };
        for _ in 0..PETS {
            let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
            let created = client.send_json(Method::POST, "/v1/pets", &pet, None).await;
            let id = created.unwrap().json()["id"].as_i64().unwrap();
            workload.pets.insert(id, Mutex::default());
        }
        let workload = Arc::new(workload);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS as u64 {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(number));
            clients.spawn(workload.clone().run_client(random, number));
        }
        // SIGKILL each replica once, spread over the round.
        for number in 0..self.services.len() {
            let threshold =
                CLIENTS * OPERATIONS_PER_CLIENT * (number + 1) / (self.services.len() + 1);
            while workload.completed.load(Ordering::Relaxed) < threshold {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.services[number].take().unwrap().kill();
            let service = self.home.serve();
            self.clients.write().unwrap()[number] = Client::new(&service, &self.key);
            self.services[number] = Some(service);
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
        workload.check().await
    }
}

/// The state that all clients of a round share.
struct Workload {
    clients: Arc<RwLock<Vec<Client>>>,
    /// Logical clock of the histories.
    clock: AtomicU64,
    /// The number of operations that have ended.
    completed: AtomicUsize,
    pets: BTreeMap<i64, Mutex<PetHistory>>,
    /// Violations found while the clients run.
    violations: Mutex<Vec<String>>,
}

/// The operations on one pet, and the orders of it that clients know.
#[derive(Default)]
struct PetHistory {
    operations: Vec<Operation>,
    orders: Vec<i64>,
}

impl PetHistory {
    fn record(&mut self, operation: Operation) {
        self.operations.push(operation);
        if let Outcome::Placed(order) = operation.outcome {
            self.orders.push(order);
        }
    }
}

impl Workload {
    /// Runs one client: sequential random operations.
    async fn run_client(self: Arc<Self>, mut random: StdRng, number: u64) {
        let pets: Vec<_> = self.pets.keys().copied().collect();
        for count in 0..OPERATIONS_PER_CLIENT {
            let pet = pets[random.random_range(0..pets.len())];
            let order = {
                let orders = &self.pets[&pet].lock().unwrap().orders;
                // Favour the last order, which may still be open or returnable.
                let back = [0, 0, 0, 1, 2][random.random_range(0..5)];
                orders.len().checked_sub(1 + back).map(|n| orders[n])
            };
            let statuses = [
                Status::Absent,
                Status::Available,
                Status::Pending,
                Status::Sold,
            ];
            // Pets are deleted towards the end of a round.
            let can_delete = count > OPERATIONS_PER_CLIENT * 3 / 4;
            let invocation = match (random.random_range(0..100), order) {
                (0..=24, _) => Invocation::Place,
                (25..=36, Some(order)) => Invocation::Cancel(order),
                (37..=53, Some(order)) => Invocation::Complete(order),
                (54..=70, Some(order)) => Invocation::Return(order),
                (71..=76, _) => Invocation::Get,
                (77..=80, _) if can_delete => Invocation::Delete,
                (77..=94, _) => Invocation::Update(Status::Available),
                _ => Invocation::Update(statuses[random.random_range(0..4)]),
            };
            let idempotency_key = random
                .random::<bool>()
                .then(|| format!("{number}-{count}-{pet}"));
            self.invoke(pet, invocation, idempotency_key, &mut random)
                .await;
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Executes an operation and records it. With an idempotency key it is
    /// retried until its outcome is known.
    async fn invoke(
        &self,
        pet: i64,
        invocation: Invocation,
        idempotency_key: Option<String>,
        random: &mut StdRng,
    ) {
        let (method, path, body) = match invocation {
            Invocation::Place => (
                Method::POST,
                "/v1/store/orders".into(),
                json!({"petId": pet}),
            ),
            Invocation::Complete(id) => (
                Method::POST,
                format!("/v1/store/orders/{id}/complete"),
                Value::Null,
            ),
            Invocation::Cancel(id) => (
                Method::POST,
                format!("/v1/store/orders/{id}/cancel"),
                Value::Null,
            ),
            Invocation::Return(id) => (
                Method::POST,
                format!("/v1/store/orders/{id}/return"),
                Value::Null,
            ),
            Invocation::Update(status) => (
                Method::PATCH,
                format!("/v1/pets/{pet}"),
                json!({"status": status_json(status)}),
            ),
            Invocation::Delete => (Method::DELETE, format!("/v1/pets/{pet}"), Value::Null),
            Invocation::Get => (Method::GET, format!("/v1/pets/{pet}"), Value::Null),
        };
        let idempotency_key = idempotency_key.filter(|_| method == Method::POST);
        let invoked_at = self.now();
        let mut outcome = Outcome::Unknown;
        // Whether the request may have reached a replica.
        let mut sent = false;
        for _ in 0..20 {
            let client = self.random_client(random);
            let response = client
                .send_json(method.clone(), &path, &body, idempotency_key.as_deref())
                .await;
            outcome = response.as_ref().map_or(Outcome::Unknown, |response| {
                outcome_of(invocation, response)
            });
            if outcome != Outcome::Unknown {
                // Sometimes a client retries a request that already succeeded.
                if idempotency_key.is_some() && random.random_range(0..4) == 0 {
                    let client = self.random_client(random);
                    let retried = client
                        .send_json(method, &path, &body, idempotency_key.as_deref())
                        .await;
                    if let (Ok(first), Ok(retried)) = (response, retried)
                        && retried.status < 500
                    {
                        self.check_replay(&first, &retried);
                    }
                }
                break;
            }
            sent |= !matches!(response, Err(RequestError::NotConnected(_)));
            if sent && idempotency_key.is_none() {
                break;
            }
            // The replica may be restarting.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if outcome == Outcome::Unknown && !sent {
            return;
        }
        let operation = Operation {
            invocation,
            outcome,
            invoked_at,
            returned_at: self.now(),
        };
        self.pets[&pet].lock().unwrap().record(operation);
        if invocation == Invocation::Place && outcome == Outcome::Unknown {
            self.discover_orders(random).await;
        }
    }

    /// A retry with the same idempotency key replays the first response.
    fn check_replay(&self, first: &Response, retried: &Response) {
        let same = (first.status, &first.json()) == (retried.status, &retried.json());
        if !same || !retried.headers.contains_key("idempotent-replayed") {
            let violation = format!("first {first:?}, then {retried:?}");
            self.violations.lock().unwrap().push(violation);
        }
    }

    /// Lists open orders, to learn those whose placing had an unknown outcome.
    async fn discover_orders(&self, random: &mut StdRng) {
        let client = self.random_client(random);
        let path = "/v1/store/orders?status=placed&limit=100";
        let Ok(found) = client
            .send_json(Method::GET, path, &Value::Null, None)
            .await
        else {
            return;
        };
        for order in found.json().as_array().into_iter().flatten() {
            let id = order["id"].as_i64().unwrap();
            let pet = order["petId"].as_i64().unwrap();
            if let Some(history) = self.pets.get(&pet) {
                let mut history = history.lock().unwrap();
                if !history.orders.contains(&id) {
                    history.orders.push(id);
                }
            }
        }
    }

    fn random_client(&self, random: &mut StdRng) -> Client {
        let clients = self.clients.read().unwrap();
        clients[random.random_range(0..clients.len())].clone()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Checks each history, closed by a final read, for linearizability, and
    /// every acknowledged transition of an order against its final state.
    async fn check(&self) -> Vec<String> {
        let mut violations = std::mem::take(&mut *self.violations.lock().unwrap());
        let client = self.clients.read().unwrap()[0].clone();
        let mut outcomes = BTreeMap::<String, usize>::new();
        for (pet, history) in &self.pets {
            let mut history = history.lock().unwrap().operations.clone();
            for operation in &history {
                let outcome = format!("{:?}", operation.outcome);
                let outcome = outcome.split('(').next().unwrap();
                *outcomes.entry(outcome.into()).or_default() += 1;
            }
            let response = client.get(&format!("/v1/pets/{pet}")).await;
            let now = self.now();
            history.push(Operation {
                invocation: Invocation::Get,
                outcome: outcome_of(Invocation::Get, &response),
                invoked_at: now,
                returned_at: now + 1,
            });
            if let Err(stuck) = check_linearizable(&history) {
                violations.push(format!(
                    "pet {pet} is not linearizable, stuck at {stuck:#?}"
                ));
            }
            for operation in &history {
                let may_be_returned = |order| {
                    history.iter().any(|other| {
                        other.invocation == Invocation::Return(order)
                            && other.outcome != Outcome::NotReturnable
                    })
                };
                let (order, statuses) = match (operation.invocation, operation.outcome) {
                    (Invocation::Complete(order), Outcome::Changed) if may_be_returned(order) => {
                        (order, &["completed", "returned"][..])
                    }
                    (Invocation::Complete(order), Outcome::Changed) => (order, &["completed"][..]),
                    (Invocation::Cancel(order), Outcome::Changed) => (order, &["cancelled"][..]),
                    (Invocation::Return(order), Outcome::Changed) => (order, &["returned"][..]),
                    _ => continue,
                };
                let now = client
                    .get(&format!("/v1/store/orders/{order}"))
                    .await
                    .json();
                let status = now["status"].as_str().unwrap_or_default();
                if !statuses.contains(&status) || now["petId"] != *pet {
                    violations.push(format!("pet {pet}: {operation:?}, but the order is {now}"));
                }
            }
        }
        println!("{outcomes:?}");
        violations
    }
}

fn status_json(status: Status) -> Value {
    match status {
        Status::Absent => Value::Null,
        Status::Available => "available".into(),
        Status::Pending => "pending".into(),
        Status::Sold => "sold".into(),
    }
}

fn outcome_of(invocation: Invocation, response: &Response) -> Outcome {
    let status = match response.json()["status"].as_str() {
        Some("available") => Status::Available,
        Some("pending") => Status::Pending,
        Some("sold") => Status::Sold,
        _ => Status::Absent,
    };
    match (
        response.status,
        response.json()["code"].as_str(),
        invocation,
    ) {
        (201, _, Invocation::Place) => Outcome::Placed(response.json()["id"].as_i64().unwrap()),
        (200, _, Invocation::Complete(_) | Invocation::Cancel(_) | Invocation::Return(_)) => {
            Outcome::Changed
        }
        (200, _, Invocation::Update(_)) => Outcome::Updated,
        (200, _, Invocation::Get) => Outcome::Is(status),
        (204, _, Invocation::Delete) => Outcome::Deleted,
        (404, Some("not_found"), _) => Outcome::NotFound,
        (409, Some("pet_not_available"), Invocation::Place) => Outcome::NotAvailable,
        (409, Some("order_not_open"), _) => Outcome::NotOpen,
        (409, Some("order_not_returnable"), _) => Outcome::NotReturnable,
        (409, Some("pet_reserved"), _) => Outcome::Reserved,
        (409, Some("pet_sold"), _) => Outcome::Sold,
        (500.., ..) => Outcome::Unknown,
        _ => panic!("{invocation:?} got an unexpected response: {response:?}"),
    }
}
