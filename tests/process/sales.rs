//! No animal is sold twice: many clients, several replicas, kills on the way,
//! and a checker that knows what a store may say.
//!
//! The choices of the clients come from a seed, which is printed. `SEED` repeats
//! one, `SOAK_SECONDS` goes on with fresh animals for so long (`make soak`).

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    client::{Client, Response as Reply},
    harness::{Home, Service},
    history::{Call, Event, Response, Status, explain},
    postgres::Cluster,
};

const CLIENTS: usize = 12;
const ANIMALS: usize = 6;
/// How many calls a client makes in a round.
const CALLS: usize = 60;

#[tokio::test(flavor = "multi_thread")]
async fn no_animal_is_sold_twice_from_a_file() {
    let home = Home::new();
    assert_eq!(sell(&home, 1).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn no_animal_is_sold_twice_by_three_replicas() {
    let cluster = Cluster::start();
    let home = Home::on(cluster.url(&cluster.create_database()));
    assert_eq!(sell(&home, 3).await, Vec::<String>::new());
}

/// The checker finds what is wrong with stores that are.
#[tokio::test(flavor = "multi_thread")]
async fn broken_stores_are_found_out() {
    for broken in [
        // Forgets what it has promised.
        "CREATE TRIGGER broken AFTER INSERT ON orders WHEN NEW.id % 5 = 0 BEGIN
             UPDATE orders SET status = 'cancelled' WHERE id = NEW.id;
             UPDATE pets SET status = 'available' WHERE id = NEW.pet_id;
         END",
        // Does not let go of what was given back.
        "CREATE TRIGGER broken AFTER UPDATE ON orders WHEN NEW.status = 'cancelled' BEGIN
             UPDATE pets SET status = 'sold' WHERE id = NEW.pet_id;
             INSERT INTO orders (pet_id, status, created_at, updated_at)
                 VALUES (NEW.pet_id, 'placed', 1, 1);
         END",
        // Says that it changed an animal, and did not.
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
        assert_ne!(sell(&home, 1).await, Vec::<String>::new(), "{broken}");
    }
}

/// Sells animals in rounds, and gives what no store may have said.
async fn sell(home: &Home, replicas: usize) -> Vec<String> {
    let number = |name| env::var(name).ok().map(|text| text.parse().unwrap());
    let seed = number("SEED").unwrap_or_else(rand::random);
    let until = Instant::now() + Duration::from_secs(number("SOAK_SECONDS").unwrap_or(0));
    let key = home.new_key();
    let services: Vec<_> = (0..replicas).map(|_| home.serve()).collect();
    let mut store = Store {
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
        let wrong = store.round(seed).await;
        if !wrong.is_empty() || (round >= 2 && Instant::now() >= until) {
            println!("{} rounds", round + 1);
            return wrong;
        }
    }
    unreachable!("rounds do not end")
}

/// The services that sell, and how clients reach them.
struct Store<'a> {
    services: Vec<Option<Service>>,
    clients: Arc<RwLock<Vec<Client>>>,
    key: String,
    home: &'a Home,
}

impl Store<'_> {
    async fn round(&mut self, seed: u64) -> Vec<String> {
        let client = self.clients.read().unwrap()[0].clone();
        let mut market = Market {
            clients: self.clients.clone(),
            clock: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
            animals: BTreeMap::new(),
            wrong: Mutex::default(),
        };
        for _ in 0..ANIMALS {
            let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
            let created = client.send_json(Method::POST, "/v1/pets", &pet, None).await;
            let id = created.unwrap().body["id"].as_i64().unwrap();
            market.animals.insert(id, Mutex::default());
        }
        let market = Arc::new(market);
        let mut clients = JoinSet::new();
        for number in 0..CLIENTS as u64 {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(number));
            clients.spawn(market.clone().visit(random, number));
        }
        // Each replica dies once, some way into the round.
        for number in 0..self.services.len() {
            let reached = CLIENTS * CALLS * (number + 1) / (self.services.len() + 1);
            while market.calls.load(Ordering::Relaxed) < reached {
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
        market.judge().await
    }
}

/// What all clients of a round share.
struct Market {
    clients: Arc<RwLock<Vec<Client>>>,
    clock: AtomicU64,
    calls: AtomicUsize,
    animals: BTreeMap<i64, Mutex<Stall>>,
    /// What was found wrong on the way.
    wrong: Mutex<Vec<String>>,
}

/// One animal: what was done to it, and the orders that clients know of.
#[derive(Default)]
struct Stall {
    history: Vec<Event>,
    orders: Vec<i64>,
}

impl Stall {
    fn note(&mut self, event: Event) {
        self.history.push(event);
        if let Response::Placed(order) = event.answer {
            self.orders.push(order);
        }
    }
}

impl Market {
    /// One client's calls, one after the other.
    async fn visit(self: Arc<Self>, mut random: StdRng, number: u64) {
        let animals: Vec<_> = self.animals.keys().copied().collect();
        for count in 0..CALLS {
            let animal = animals[random.random_range(0..animals.len())];
            let order = {
                let orders = &self.animals[&animal].lock().unwrap().orders;
                // Mostly one of the last.
                let back = random.random_range(0..3usize);
                orders.len().checked_sub(1 + back).map(|n| orders[n])
            };
            let statuses = [
                Status::Absent,
                Status::Available,
                Status::Pending,
                Status::Sold,
            ];
            let call = match (random.random_range(0..10), order) {
                (0..=3, _) => Call::Place,
                (4 | 5, Some(order)) => Call::Cancel(order),
                (6, Some(order)) => Call::Complete(order),
                (7, _) => Call::Get,
                (8, _) => Call::Update(Status::Available),
                _ => Call::Update(statuses[random.random_range(0..4)]),
            };
            let name = random
                .random::<bool>()
                .then(|| format!("{number}-{count}-{animal}"));
            self.call(animal, call, name, &mut random).await;
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Makes a call, and makes it again if it has a name and no certain answer.
    async fn call(&self, animal: i64, call: Call, name: Option<String>, random: &mut StdRng) {
        let (method, path, body) = match call {
            Call::Place => (
                Method::POST,
                "/v1/store/orders".into(),
                json!({"petId": animal}),
            ),
            Call::Complete(id) => (
                Method::POST,
                format!("/v1/store/orders/{id}/complete"),
                Value::Null,
            ),
            Call::Cancel(id) => (
                Method::POST,
                format!("/v1/store/orders/{id}/cancel"),
                Value::Null,
            ),
            Call::Update(status) => (
                Method::PATCH,
                format!("/v1/pets/{animal}"),
                json!({"status": status_json(status)}),
            ),
            Call::Get => (Method::GET, format!("/v1/pets/{animal}"), Value::Null),
        };
        let name = name.filter(|_| method == Method::POST);
        let begin = self.now();
        let mut answer = Response::Unknown;
        // Whether it may have reached a service.
        let mut sent = false;
        for _ in 0..20 {
            let client = self.some_client(random);
            let reply = client
                .send_json(method.clone(), &path, &body, name.as_deref())
                .await;
            answer = reply
                .as_ref()
                .map_or(Response::Unknown, |reply| answer_of(call, reply));
            if answer != Response::Unknown {
                // Sometimes a client does not believe what it is told.
                if name.is_some() && random.random_range(0..4) == 0 {
                    let client = self.some_client(random);
                    let again = client
                        .send_json(method, &path, &body, name.as_deref())
                        .await;
                    if let (Ok(first), Ok(again)) = (reply, again)
                        && again.status < 500
                    {
                        self.compare(&first, &again);
                    }
                }
                break;
            }
            sent |= !matches!(&reply, Err(error) if error.is_connect());
            if sent && name.is_none() {
                break;
            }
            // It may be starting again.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if answer == Response::Unknown && !sent {
            return;
        }
        let event = Event {
            call,
            answer,
            begin,
            end: self.now(),
        };
        self.animals[&animal].lock().unwrap().note(event);
        if call == Call::Place && answer == Response::Unknown {
            self.look_for_orders(random).await;
        }
    }

    /// A request that is sent again is answered as before.
    fn compare(&self, first: &Reply, again: &Reply) {
        let same = (first.status, &first.body) == (again.status, &again.body);
        if !same || !again.headers.contains_key("idempotent-replayed") {
            let wrong = format!("first {first:?}, then {again:?}");
            self.wrong.lock().unwrap().push(wrong);
        }
    }

    /// Finds open orders whose clients were not told of them.
    async fn look_for_orders(&self, random: &mut StdRng) {
        let client = self.some_client(random);
        let path = "/v1/store/orders?status=placed&limit=100";
        let Ok(found) = client
            .send_json(Method::GET, path, &Value::Null, None)
            .await
        else {
            return;
        };
        for order in found.body.as_array().into_iter().flatten() {
            let (id, pet) = (
                order["id"].as_i64().unwrap(),
                order["petId"].as_i64().unwrap(),
            );
            if let Some(stall) = self.animals.get(&pet) {
                let mut stall = stall.lock().unwrap();
                if !stall.orders.contains(&id) {
                    stall.orders.push(id);
                }
            }
        }
    }

    fn some_client(&self, random: &mut StdRng) -> Client {
        let clients = self.clients.read().unwrap();
        clients[random.random_range(0..clients.len())].clone()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Holds what clients were told against what a store may say, and against
    /// what is there in the end.
    async fn judge(&self) -> Vec<String> {
        let mut wrong = std::mem::take(&mut *self.wrong.lock().unwrap());
        let client = self.clients.read().unwrap()[0].clone();
        for (animal, stall) in &self.animals {
            let mut history = stall.lock().unwrap().history.clone();
            let unsure = history
                .iter()
                .filter(|e| e.answer == Response::Unknown)
                .count();
            let pet = client.get(&format!("/v1/pets/{animal}")).await;
            let now = self.now();
            history.push(Event {
                call: Call::Get,
                answer: answer_of(Call::Get, &pet),
                begin: now,
                end: now + 1,
            });
            println!("animal {animal}: {} calls, {unsure} unsure", history.len());
            if let Err(stuck) = explain(&history) {
                wrong.push(format!("animal {animal}, at the latest at {stuck:#?}"));
            }
            for event in &history {
                let (order, status) = match (event.call, event.answer) {
                    (Call::Complete(order), Response::Closed) => (order, "completed"),
                    (Call::Cancel(order), Response::Closed) => (order, "cancelled"),
                    _ => continue,
                };
                let now = client.get(&format!("/v1/store/orders/{order}")).await.body;
                if now["status"] != status || now["petId"] != *animal {
                    wrong.push(format!("animal {animal}: {event:?}, and now it is {now}"));
                }
            }
        }
        wrong
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

fn answer_of(call: Call, reply: &Reply) -> Response {
    let status = match reply.body["status"].as_str() {
        Some("available") => Status::Available,
        Some("pending") => Status::Pending,
        Some("sold") => Status::Sold,
        _ => Status::Absent,
    };
    match (reply.status, reply.body["code"].as_str(), call) {
        (201, _, Call::Place) => Response::Placed(reply.body["id"].as_i64().unwrap()),
        (200, _, Call::Complete(_) | Call::Cancel(_)) => Response::Closed,
        (200, _, Call::Update(_)) => Response::Updated,
        (200, _, Call::Get) => Response::Is(status),
        (409, Some("pet_not_available"), Call::Place) => Response::NotAvailable,
        (409, Some("order_not_open"), _) => Response::NotOpen,
        (409, Some("pet_reserved"), _) => Response::Reserved,
        (500.., ..) => Response::Unknown,
        _ => panic!("{call:?} was answered {reply:?}"),
    }
}
