//! The event log on PostgreSQL: every change is logged once, also those of other programs. Which
//! events may be read is tested in `tests/store/events.rs`.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio_postgres::NoTls;

use crate::{client::Client, replicas::Deployment};

/// All events, oldest first: type, id of the resource, and API key if any.
const EVENTS: &str = "SELECT concat_ws(' ', type, resource_id, 'by ' || api_key_id)
                      FROM events WHERE type NOT LIKE 'key.%' ORDER BY sequence";

async fn change(client: &Client, method: Method, path: &str, body: Value) -> Value {
    let response = client.send_json(method, path, &body, None).await.unwrap();
    assert!(response.status < 300, "{path}: {response:?}");
    response.json()
}

/// A session of another program.
async fn session(deployment: &Deployment) -> tokio_postgres::Client {
    let url = deployment.cluster.url(&deployment.database);
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn insert(name: &str) -> String {
    format!(
        "INSERT INTO pets (name, search_name, search_words, category_id)
         VALUES ('{name}', '{name}', '{name}', 1)"
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn each_change_is_logged_with_its_api_key() {
    let deployment = Deployment::start(1);
    let one = deployment.client(0);
    let other = deployment.home.new_key();
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

/// The operator learns of it, even if there are no readers.
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
    let events = deployment.client(0).get("/v1/events").await.json();
    assert_eq!(events[0]["data"]["name"], "open");
}
