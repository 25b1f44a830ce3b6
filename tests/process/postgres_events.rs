//! The event log on PostgreSQL: whoever makes a change, it is logged once; and nothing
//! appears behind what may be read.

use futures_util::future::join_all;
use petstore::{
    event::EventRetention,
    page::Sort,
    store::{DatabaseUrl, Options, Role, Store},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio_postgres::NoTls;

use crate::{
    client::Client,
    harness::{eventually, signal},
    replicas::Deployment,
};

/// All events, oldest first: type, id of the resource, and API key if any.
const EVENTS: &str = "SELECT concat_ws(' ', type, resource_id, 'by ' || api_key_id)
                      FROM events ORDER BY sequence";

async fn change(client: &Client, method: Method, path: &str, body: Value) -> Value {
    let response = client.send_json(method, path, &body, None).await.unwrap();
    assert!(response.status < 300, "{path}: {response:?}");
    response.body
}

async fn open(deployment: &Deployment) -> Store {
    let url: DatabaseUrl = deployment.home.url().parse().unwrap();
    Store::open(&url, &Options::new(Role::Command))
        .await
        .unwrap()
}

/// The names of the pets whose events may be read, in either direction.
async fn names(store: &Store) -> Vec<String> {
    let events = store
        .event_read(None, Sort::Asc, 1000)
        .await
        .unwrap()
        .unwrap();
    let newest_first = store.event_read(None, Sort::Desc, 1000).await;
    let mut newest_first = newest_first.unwrap().unwrap();
    newest_first.reverse();
    assert_eq!(newest_first, events);
    let data = events
        .iter()
        .map(|event| serde_json::from_str::<Value>(event.data.as_json()).unwrap());
    data.map(|pet| pet["name"].as_str().unwrap().into())
        .collect()
}

/// A session of another program.
async fn session(deployment: &Deployment) -> tokio_postgres::Client {
    let url = deployment.cluster.url(&deployment.database);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn insert(name: &str) -> String {
    format!("INSERT INTO pets (name, search_name, category_id) VALUES ('{name}', '{name}', 1)")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn each_change_is_logged_with_its_api_key() {
    let deployment = Deployment::start(1);
    let (one, other) = (deployment.client(0), deployment.home.new_key());
    let other = Client::new(&deployment.services[0], &other);
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    change(&one, Method::POST, "/v1/pets", pet.clone()).await;
    let key = Some("till");
    for _ in 0..2 {
        let created = other.send_json(Method::POST, "/v1/pets", &pet, key);
        assert_eq!(created.await.unwrap().status, 201);
    }
    let rename = json!({"name": "Max"});
    for _ in 0..2 {
        change(&other, Method::PATCH, "/v1/pets/1", rename.clone()).await;
    }
    let orders = "/v1/store/orders";
    change(&other, Method::POST, orders, json!({"petId": 1})).await;
    let complete = format!("{orders}/1/complete");
    change(&one, Method::POST, &complete, Value::Null).await;
    change(
        &other,
        Method::POST,
        &format!("{orders}/1/return"),
        Value::Null,
    )
    .await;
    change(&one, Method::POST, orders, json!({"petId": 2})).await;
    change(
        &other,
        Method::POST,
        &format!("{orders}/2/cancel"),
        Value::Null,
    )
    .await;
    for name in ["Dogs", "Hounds", "Hounds"] {
        change(&one, Method::PUT, "/v1/categories/5", json!({"name": name})).await;
    }
    change(&other, Method::DELETE, "/v1/categories/5", Value::Null).await;
    change(&one, Method::DELETE, "/v1/pets/2", Value::Null).await;
    assert_eq!(
        deployment.sql(EVENTS),
        "pet.created 1 by 1\n\
         pet.created 2 by 2\n\
         pet.updated 1 by 2\n\
         order.placed 1 by 2\npet.updated 1 by 2\n\
         order.completed 1 by 1\npet.updated 1 by 1\n\
         order.returned 1 by 2\npet.updated 1 by 2\n\
         order.placed 2 by 1\npet.updated 2 by 1\n\
         order.cancelled 2 by 2\npet.updated 2 by 2\n\
         category.updated 5 by 1\ncategory.updated 5 by 1\ncategory.deleted 5 by 2\n\
         pet.deleted 2 by 1"
    );

    // Changes of several API keys share a statement.
    let creates = (0..200).map(|n| {
        let client = [&one, &other][n % 2];
        async move { client.create(&format!("key {}", n % 2 + 1)).await.unwrap() }
    });
    for created in join_all(creates).await {
        assert_eq!(created.status, 201);
    }
    let by_key = "SELECT count(*) FROM events WHERE data::json ->> 'name' = 'key ' || api_key_id";
    assert_eq!(deployment.sql(by_key), "200");
    let url = deployment.home.url();
    let check = deployment.home.petstore(&["check", "--database", &url]);
    check.success();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn changes_by_other_programs_are_logged() {
    let deployment = Deployment::start(1);
    let created = deployment.client(0).create("Rex").await.unwrap();
    assert_eq!(created.status, 201);
    deployment.sql(
        "INSERT INTO pets (name, search_name, category_id) VALUES ('a', 'a', 1), ('b', 'b', 1);
         UPDATE pets SET name = name;
         UPDATE pets SET category_id = 2 WHERE name <> 'a';
         INSERT INTO categories VALUES (1, 'a', 'a');
         UPDATE categories SET name = name;
         INSERT INTO orders (pet_id, status, created_at, updated_at) VALUES (9, 'cancelled', 1, 1);
         DELETE FROM pets WHERE name = 'a';
         TRUNCATE pets, categories",
    );
    let renumber = "UPDATE orders SET id = id + 1";
    let rejected = deployment.cluster.psql_command(&deployment.database);
    let rejected = { rejected }.arg(renumber).output().unwrap();
    assert!(!rejected.status.success(), "ids can be changed");
    assert_eq!(
        deployment.sql(EVENTS),
        "pet.created 1 by 1\npet.created 2\npet.created 3\npet.updated 1\npet.updated 3\n\
         category.updated 1\norder.cancelled 1\npet.deleted 2\npet.deleted 1\npet.deleted 3\n\
         category.deleted 1"
    );
}

/// A transaction in progress has drawn a number: what has been drawn after it must not be
/// read yet, or its event would be skipped.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_transaction_in_progress_holds_back_later_events() {
    let deployment = Deployment::start(1);
    let store = open(&deployment).await;
    let client = deployment.client(0);
    client.create("first").await.unwrap();
    store.event_sync().await.unwrap();
    let program = session(&deployment).await;
    let begin = format!("BEGIN; {}", insert("second"));
    program.batch_execute(&begin).await.unwrap();
    client.create("third").await.unwrap();

    let visible = "SELECT string_agg(data::json ->> 'name', ' ' ORDER BY sequence) FROM events";
    assert_eq!(deployment.sql(visible), "first third");
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first"]);

    program.batch_execute("COMMIT").await.unwrap();
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first", "second", "third"]);
}

/// A crash gives a prepared transaction another virtual id, and the server keeps its start
/// time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_prepared_transaction_holds_back_later_events_through_a_crash() {
    let deployment = Deployment::start(1);
    deployment.cluster.set("max_prepared_transactions = 4");
    deployment.cluster.crash();
    deployment.cluster.restart();
    let store = open(&deployment).await;
    deployment.sql(&insert("first"));
    store.event_sync().await.unwrap();
    let prepare = format!("BEGIN; {}; PREPARE TRANSACTION 'held'", insert("second"));
    deployment.sql(&prepare);
    deployment.sql(&insert("third"));
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first"]);

    let (program, other) = (session(&deployment).await, session(&deployment).await);
    let pid = program.query_one("SELECT pg_backend_pid()", &[]).await;
    signal(pid.unwrap().get::<_, i32>(0).unsigned_abs(), "KILL");
    eventually("the server ends all sessions", async || other.is_closed()).await;
    eventually("the server has recovered", async || {
        store.event_sync().await.is_ok() && store.ping().await.is_ok()
    })
    .await;
    store.event_sync().await.unwrap();
    let after_crash = names(&store).await;
    assert!(!after_crash.contains(&"third".into()), "{after_crash:?}");
    deployment.sql("COMMIT PREPARED 'held'");
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first", "second", "third"]);
}

/// What others have decided is readable at once, also while a transaction is open.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_replica_that_starts_knows_what_is_decided() {
    let deployment = Deployment::start(1);
    for name in ["a", "b"] {
        deployment.sql(&insert(name));
    }
    let store = open(&deployment).await;
    // The service has background tasks: until a transaction of theirs ends, nothing newer is
    // decided.
    eventually("an event is purged", async || {
        let keep_one = EventRetention {
            count: 1,
            ..EventRetention::default()
        };
        store.event_purge(keep_one).await.unwrap() == 1
    })
    .await;
    let program = session(&deployment).await;
    let begin = format!("BEGIN; {}", insert("open"));
    program.batch_execute(&begin).await.unwrap();
    deployment.sql(&insert("later"));

    let new = open(&deployment).await;
    new.event_sync().await.unwrap();
    assert_eq!(names(&new).await, ["b"]);
    let newest = new.event_newest().await.unwrap().unwrap().id();
    assert_eq!(
        new.event_read(Some(newest), Sort::Asc, 10).await.unwrap(),
        Ok(vec![])
    );
}

/// Nobody reads, and yet the operator learns of it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_transaction_that_is_left_open_is_reported() {
    let deployment = Deployment::start(1);
    let program = session(&deployment).await;
    let pid = program.query_one("SELECT pg_backend_pid()", &[]).await;
    let pid: i32 = pid.unwrap().get(0);
    let begin = format!("BEGIN; {}", insert("open"));
    program.batch_execute(&begin).await.unwrap();
    let service = &deployment.services[0];
    let warning = service.event("an open transaction holds back the event log");
    assert_eq!(warning["pid"], pid, "{warning}");
    program.batch_execute("COMMIT").await.unwrap();
    service.event("the event log is no longer held back");
    let events = deployment.client(0).get("/v1/events").await.body;
    assert_eq!(events[0]["data"]["name"], "open");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn the_head_moves_while_it_is_followed() {
    let deployment = Deployment::start(1);
    let store = open(&deployment).await;
    let mut head = store.event_head();
    let follow = async {
        for expected in 1..=3 {
            deployment.sql(&insert("Rex"));
            head.wait_for(|head| *head == expected).await.unwrap();
        }
    };
    tokio::select! {
        () = store.event_follow() => unreachable!(),
        () = follow => {}
    }
}

/// Positions are verified, and what is decided holds for one run of the server only.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn positions_survive_other_replicas_and_restarts_but_not_a_purge() {
    let deployment = Deployment::start(1);
    let (store, lagging) = (open(&deployment).await, open(&deployment).await);
    for name in ["a", "b", "c"] {
        deployment.sql(&insert(name));
    }
    store.event_sync().await.unwrap();
    let newest = store.event_newest().await.unwrap().unwrap().id();
    // This one has decided nothing yet.
    assert_eq!(
        lagging
            .event_read(Some(newest), Sort::Asc, 10)
            .await
            .unwrap(),
        Ok(vec![])
    );
    let before = lagging.event_read(Some(newest), Sort::Desc, 10).await;
    assert_eq!(before.unwrap().unwrap().len(), 2);

    deployment.cluster.crash();
    deployment.cluster.restart();
    eventually("the store reconnects", async || store.ping().await.is_ok()).await;
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["a", "b", "c"]);

    // The event is another one now.
    deployment.sql("UPDATE events SET data = replace(data, '\"c\"', '\"x\"') WHERE data::json ->> 'name' = 'c'");
    let read = store.event_read(Some(newest), Sort::Asc, 10).await.unwrap();
    assert_eq!(format!("{read:?}"), "Err(Unknown)");

    let all = store
        .event_read(None, Sort::Asc, 10)
        .await
        .unwrap()
        .unwrap();
    let second = all[1].id();
    let keep = |count| EventRetention {
        count,
        ..EventRetention::default()
    };
    assert_eq!(store.event_purge(keep(10)).await.unwrap(), 0);
    assert_eq!(store.event_purge(keep(2)).await.unwrap(), 1);
    assert_eq!(names(&store).await, ["b", "x"]);
    let read = store
        .event_read(Some(second), Sort::Asc, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, all[2..]);
    // Never the newest.
    assert_eq!(store.event_purge(keep(0)).await.unwrap(), 1);
    assert_eq!(store.event_purge(keep(0)).await.unwrap(), 0);
    let read = store.event_read(Some(second), Sort::Asc, 10).await.unwrap();
    assert_eq!(format!("{read:?}"), "Err(Expired)");
    assert_eq!(names(&store).await, ["x"]);
    deployment.sql("UPDATE events SET at = 0");
    deployment.sql(&insert("d"));
    eventually("an event is purged", async || {
        store.event_purge(keep(10)).await.unwrap() == 1
    })
    .await;
    assert_eq!(names(&store).await, ["d"]);
}
