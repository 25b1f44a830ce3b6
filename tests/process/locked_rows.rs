//! Rows of PostgreSQL that another session has locked: they delay only the changes that
//! need them.

use std::process::{Child, Stdio};

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::{Response, TIMEOUT, eventually, wait_for};
use tokio::{task::JoinSet, time::timeout};

use crate::{client::Client, harness::Service, replicas::Deployment};

const ORDERS: &str = "/v1/store/orders";

/// A psql session that executes a statement and leaves its transaction open.
struct OpenTransaction<'a> {
    deployment: &'a Deployment,
    psql: Child,
}

impl<'a> OpenTransaction<'a> {
    fn start(deployment: &'a Deployment, statement: &str) -> Self {
        let mut psql = deployment.cluster.psql_command(&deployment.database);
        psql.arg(format!("BEGIN; {statement}; SELECT pg_sleep(600)"))
            .env("PGAPPNAME", "locker")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let transaction = Self {
            deployment,
            psql: psql.spawn().unwrap(),
        };
        wait_for("the lock", || transaction.is_open().then_some(()));
        transaction
    }

    fn is_open(&self) -> bool {
        let sleeping = "SELECT count(*) FROM pg_stat_activity
                        WHERE application_name = 'locker' AND wait_event = 'PgSleep'";
        self.deployment.sql(sleeping) == "1"
    }

    /// Rolls it back.
    fn end(mut self) {
        self.deployment.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'locker'",
        );
        self.psql.wait().unwrap();
    }
}

/// Creates an available pet and returns its id.
async fn create_pet(client: &Client) -> i64 {
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    let created = client.send_json(Method::POST, "/v1/pets", &pet, None).await;
    created.unwrap().json()["id"].as_i64().unwrap()
}

/// Creates a pet and places an order for it. Returns the ids of both.
async fn create_order(client: &Client) -> (i64, i64) {
    let pet = create_pet(client).await;
    let placed = send(client, place(pet)).await;
    assert_eq!(placed.status, 201, "{placed:?}");
    (pet, placed.json()["id"].as_i64().unwrap())
}

type Request = (Method, String, Value);

fn place(pet: i64) -> Request {
    (Method::POST, ORDERS.into(), json!({"petId": pet}))
}

fn transition(order: i64, to: &str) -> Request {
    (Method::POST, format!("{ORDERS}/{order}/{to}"), Value::Null)
}

fn rename(pet: i64, name: &str) -> Request {
    let path = format!("/v1/pets/{pet}");
    (Method::PATCH, path, json!({"name": name}))
}

fn delete(pet: i64) -> Request {
    (Method::DELETE, format!("/v1/pets/{pet}"), Value::Null)
}

fn name_category(id: i64, name: &str) -> Request {
    let path = format!("/v1/categories/{id}");
    (Method::PUT, path, json!({"name": name}))
}

fn delete_category(id: i64) -> Request {
    let path = format!("/v1/categories/{id}");
    (Method::DELETE, path, Value::Null)
}

async fn send(client: &Client, (method, path, body): Request) -> Response {
    let response = client.send_json(method, &path, &body, None).await;
    response.unwrap()
}

#[track_caller]
fn assert_locked(response: &Response) {
    response.assert_error(503, "unavailable");
    let body = response.json();
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("nothing was changed"), "{message}");
}

/// Retries while the row is locked.
async fn send_until_unlocked(client: Client, request: Request) -> u16 {
    loop {
        let response = send(&client, request.clone()).await;
        if response.status != 503 {
            return response.status;
        }
        assert_locked(&response);
    }
}

/// Creates a pet that an order has sold. Returns the ids of both.
async fn create_sale(client: &Client) -> (i64, i64) {
    let (pet, order) = create_order(client).await;
    let completed = send(client, transition(order, "complete")).await;
    assert_eq!(completed.status, 200, "{completed:?}");
    (pet, order)
}

/// Thirty clients order, return, rename and delete one pet each and name a category, and
/// succeed every time.
async fn change_others(client: &Client) {
    let mut clients = JoinSet::new();
    for number in 0..30 {
        let client = client.clone();
        clients.spawn(async move {
            let pet = create_pet(&client).await;
            for round in 0..10 {
                let placed = send(&client, place(pet)).await;
                assert_eq!(placed.status, 201, "{placed:?}");
                let order = placed.json()["id"].as_i64().unwrap();
                let to = if round == 9 { "complete" } else { "cancel" };
                let closed = send(&client, transition(order, to)).await;
                assert_eq!(closed.status, 200, "{closed:?}");
                let renamed = send(&client, rename(pet, &format!("Rex {round}"))).await;
                assert_eq!(renamed.status, 200, "{renamed:?}");
                if round == 9 {
                    let returned = send(&client, transition(order, "return")).await;
                    assert_eq!(returned.status, 200, "{returned:?}");
                }
            }
            let deleted = send(&client, delete(pet)).await;
            assert_eq!(deleted.status, 204, "{deleted:?}");
            let category = 1000 + number;
            let named = send(&client, name_category(category, &format!("Dogs {number}"))).await;
            assert_eq!(named.status, 201, "{named:?}");
            let deleted = send(&client, delete_category(category)).await;
            assert_eq!(deleted.status, 204, "{deleted:?}");
        });
    }
    let all = async { while clients.join_next().await.transpose().unwrap().is_some() {} };
    let finished = timeout(TIMEOUT, all).await;
    finished.expect("no other client waits for the lock");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_locked_row_delays_only_its_own_changes() {
    let deployment = Deployment::start(1);
    let client = deployment.client(0);
    let available = create_pet(&client).await;
    let [completed, cancelled] = [create_order(&client).await, create_order(&client).await];
    let [returned, sold] = [create_sale(&client).await, create_sale(&client).await];
    let [resold, exchanged] = [create_sale(&client).await, create_sale(&client).await];
    let deleted = create_pet(&client).await;
    for (id, name) in [(1, "Dogs"), (2, "Cats")] {
        assert_eq!(send(&client, name_category(id, name)).await.status, 201);
    }
    let lock = |table: &str, id: i64| format!("SELECT FROM {table} WHERE id = {id} FOR UPDATE");
    let once = |status| [status, 409, 409, 409];
    let deleted_once = [204, 404, 404, 404];
    // Each request is sent by four clients.
    for (statement, requests) in [
        // The first update of a status locks a shard of the counts; here, half of
        // them are locked.
        (
            format!(
                "UPDATE pets SET status = 'sold' WHERE id = {available};
                 SELECT FROM counts WHERE shard % 2 = 0 FOR UPDATE"
            ),
            vec![(place(available), once(201))],
        ),
        (
            format!(
                "{}; {}; {}; {}; {}",
                lock("orders", completed.1),
                lock("orders", returned.1),
                lock("pets", deleted),
                lock("pets", exchanged.0),
                lock("orders", exchanged.1)
            ),
            vec![
                (transition(completed.1, "complete"), once(200)),
                (transition(returned.1, "return"), once(200)),
                (transition(exchanged.1, "return"), once(200)),
                (delete(deleted), deleted_once),
            ],
        ),
        (
            format!(
                "{}; {}; {}",
                lock("pets", cancelled.0),
                lock("pets", resold.0),
                lock("pets", sold.0)
            ),
            vec![
                (transition(cancelled.1, "cancel"), once(200)),
                (transition(resold.1, "return"), once(200)),
                (delete(sold.0), deleted_once),
            ],
        ),
        (
            format!(
                "{}; SELECT FROM categories WHERE id IN (1, 2) FOR UPDATE",
                lock("pets", available)
            ),
            vec![
                (rename(available, "Bello"), [200; 4]),
                (name_category(1, "Hunde"), [200; 4]),
                (delete_category(2), deleted_once),
            ],
        ),
    ] {
        let lock = OpenTransaction::start(&deployment, &statement);
        let waiting = requests.into_iter().map(|(request, expected)| {
            let clients = [(); 4].map(|()| {
                let client = client.clone();
                let request = request.clone();
                tokio::spawn(send_until_unlocked(client, request))
            });
            (request, clients, expected)
        });
        let waiting: Vec<_> = waiting.collect();
        change_others(&client).await;
        assert!(lock.is_open(), "{statement}");
        for (request, clients, _) in &waiting {
            let waits = clients.iter().all(|client| !client.is_finished());
            assert!(waits, "{request:?}");
        }
        lock.end();
        for (request, clients, expected) in waiting {
            let mut statuses = Vec::new();
            for client in clients {
                statuses.push(client.await.unwrap());
            }
            statuses.sort_unstable();
            assert_eq!(statuses, expected, "{request:?}");
        }
    }
    let check = ["check", "--database", &deployment.home.url()];
    deployment.home.petstore(&check).success();
}

/// A change waits for a limited time; its retry under the same key is executed once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_lock_timeout_is_reported() {
    let deployment = Deployment::start(1);
    let client = deployment.client(0);
    let order = async |pet, key| {
        let (method, path, body) = place(pet);
        let response = client.send_json(method, &path, &body, Some(key)).await;
        response.unwrap()
    };
    let [reserved, pet] = [create_pet(&client).await, create_pet(&client).await];
    assert_eq!(order(reserved, "first").await.status, 201);
    let (sold, sale) = create_sale(&client).await;
    assert_eq!(send(&client, name_category(1, "Dogs")).await.status, 201);
    let locks = "SELECT FROM pets FOR UPDATE; SELECT FROM api_keys FOR UPDATE;
                 SELECT FROM categories FOR UPDATE;
                 INSERT INTO categories VALUES (2, 'Cats', 'cats')";
    let lock = OpenTransaction::start(&deployment, locks);
    let ordering = order(pet, "second");
    let others = [
        rename(pet, "Bello"),
        delete(pet),
        delete(sold),
        transition(sale, "return"),
        name_category(1, "Hunde"),
        delete_category(1),
        // Another transaction may take the number, or the name.
        name_category(2, "Birds"),
        name_category(3, "CATS"),
    ];
    let others = others.map(|request| send(&client, request));
    let (ordered, others) = tokio::join!(ordering, join_all(others));
    assert_locked(&ordered);
    others.iter().for_each(assert_locked);
    // What is rejected anyway needs no lock.
    let change = (
        Method::PATCH,
        format!("/v1/pets/{sold}"),
        json!({"status": null}),
    );
    send(&client, change).await.assert_error(409, "pet_sold");
    send(&client, delete(reserved))
        .await
        .assert_error(409, "pet_reserved");
    let again = transition(sale, "complete");
    send(&client, again)
        .await
        .assert_error(409, "order_not_open");
    // A new pet and a replay need no lock.
    let pet_body = json!({"name": "Rex", "categoryId": 1});
    let created = client.send_json(Method::POST, "/v1/pets", &pet_body, Some("third"));
    assert_eq!(created.await.unwrap().status, 201);
    let replayed = order(reserved, "first").await;
    assert_eq!(replayed.status, 201, "{replayed:?}");
    assert!(replayed.headers.contains_key("idempotent-replayed"));
    lock.end();
    let placed = order(pet, "second").await;
    assert_eq!(placed.status, 201, "{placed:?}");
    assert!(!placed.headers.contains_key("idempotent-replayed"));
    assert_eq!(order(pet, "second").await.json(), placed.json());
    // Nothing was changed.
    for (request, status) in [
        (transition(sale, "return"), 200),
        (delete(sold), 204),
        (name_category(3, "CATS"), 201),
        (name_category(1, "Dogs"), 200),
        (delete_category(1), 204),
    ] {
        let response = send(&client, request).await;
        assert_eq!(response.status, status, "{response:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn orders_expire_while_another_pet_is_locked() {
    let mut deployment = Deployment::start(0);
    let serve = &mut deployment.home.serve_command();
    let service = Service::start(serve.args(["--reserve-for", "3s"]));
    deployment.services.push(service);
    let client = deployment.client(0);
    let (locked, _) = create_order(&client).await;
    let statement = format!("SELECT FROM pets WHERE id = {locked} FOR UPDATE");
    let lock = OpenTransaction::start(&deployment, &statement);
    for _ in 0..5 {
        create_order(&client).await;
    }
    let available = async |count| {
        let expected = json!({"available": count, "pending": 6 - count, "sold": 0, "total": 6});
        eventually("orders to expire", async || {
            client.get("/v1/store/inventory").await.json() == expected
        })
        .await;
    };
    available(5).await;
    assert!(lock.is_open());
    lock.end();
    available(6).await;
}

/// The use of a locked API key is recorded later; that of others, and the expiry of
/// orders on the same connection, do not wait for it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn usage_is_recorded_while_another_api_key_is_locked() {
    let deployment = Deployment::start(1);
    let keys = [deployment.home.new_key(), deployment.home.new_key()];
    let newest = "(SELECT max(id) FROM api_keys)";
    let statement = format!("SELECT FROM api_keys WHERE id = {newest} FOR UPDATE");
    let lock = OpenTransaction::start(&deployment, &statement);
    for key in &keys {
        let client = Client::new(&deployment.services[0], key);
        client.get("/v1/pets/1").await;
    }
    let calls = |behind_newest: i64| {
        let id = format!("{newest} - {behind_newest}");
        deployment.sql(&format!(
            "SELECT deprecated_calls FROM api_keys WHERE id = {id}"
        ))
    };
    wait_for("the use of the other key", || {
        (calls(1) == "1").then_some(())
    });
    assert!(lock.is_open());
    assert_eq!(calls(0), "0");
    lock.end();
    wait_for("the use of the key", || (calls(0) == "1").then_some(()));
}

/// A command whose commit group always ends in a deadlock fails alone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_deadlock_fails_no_other_command_of_its_group() {
    let deployment = Deployment::start(1);
    let client = deployment.client(0);
    deployment.sql(
        "CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION USING ERRCODE = 'deadlock_detected'; END $$;
         CREATE TRIGGER deadlock BEFORE UPDATE ON pets FOR EACH ROW
         WHEN (NEW.name = 'Deadlock') EXECUTE FUNCTION deadlock()",
    );
    let pets = join_all((0..40).map(|_| create_pet(&client))).await;
    let renamed = join_all(pets.iter().enumerate().map(|(number, pet)| {
        let name = if number == 20 { "Deadlock" } else { "Bello" };
        send(&client, rename(*pet, name))
    }));
    for (number, renamed) in renamed.await.into_iter().enumerate() {
        let expected = if number == 20 { 503 } else { 200 };
        assert_eq!(renamed.status, expected, "{renamed:?}");
    }
}
