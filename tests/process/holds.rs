//! Holds that lapse: once each, whoever looks after them.

use std::{process::Stdio, time::Duration};

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    client::Client,
    harness::{Home, Service, eventually},
    postgres::Cluster,
};

fn serve(home: &Home) -> Service {
    Service::start(home.serve_command().args(["--reserve-for", "1s"]))
}

/// Adds animals and places an order on each.
async fn hold(client: &Client, count: i64) {
    for pet in 1..=count {
        let new = json!({"name": "Rex", "categoryId": 1, "status": "available"});
        for (path, body) in [
            ("/v1/pets", new),
            ("/v1/store/orders", json!({"petId": pet})),
        ] {
            let answer = client.send_json(Method::POST, path, &body, None).await;
            assert_eq!(answer.unwrap().status, 201);
        }
    }
}

/// Waits until every animal is available again.
async fn wait_until_free(client: &Client, count: i64) {
    let free = json!({"available": count, "pending": 0, "sold": 0});
    let is_free = async || client.get("/v1/store/inventory").await.body == free;
    eventually("free animals", is_free).await;
}

#[tokio::test]
async fn they_lapse_after_a_restart() {
    let home = Home::new();
    let key = home.new_key();
    let service = serve(&home);
    hold(&Client::new(&service, &key), 5).await;
    service.kill();
    // Whatever it is told now, those orders have an end.
    let service = home.serve();
    let client = Client::new(&service, &key);
    wait_until_free(&client, 5).await;
    let orders = client.get("/v1/store/orders").await.body;
    for order in orders.as_array().unwrap() {
        assert_eq!(order["status"], "cancelled");
        assert!(order["updatedAt"].as_str() >= order["expiresAt"].as_str());
    }
    assert!(service.said().contains("orders expired"));
    // New ones have none.
    let claim = json!({"petId": 1});
    let path = "/v1/store/orders";
    let placed = client.send_json(Method::POST, path, &claim, None).await;
    assert_eq!(placed.unwrap().body.get("expiresAt"), None::<&Value>);
}

/// Three replicas look after the same orders, and each lapses once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn they_lapse_once_on_several_replicas() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::on(cluster.url(&database));
    let key = home.new_key();
    // Writes down every change of an order.
    cluster.psql(
        &database,
        "CREATE TABLE changes (order_id bigint, status text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO changes VALUES (NEW.id, NEW.status); RETURN NEW; END $$;
         CREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let services = [serve(&home), serve(&home), serve(&home)];
    let client = Client::new(&services[0], &key);
    hold(&client, 20).await;
    // Somebody has the animals when their holds lapse, so that all replicas
    // meet there.
    let mut busy = cluster.psql_command(&database);
    busy.arg("BEGIN; SELECT id FROM pets FOR UPDATE; SELECT pg_sleep(2.5)");
    let mut busy = busy.stdout(Stdio::null()).spawn().unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    wait_until_free(&client, 20).await;
    busy.wait().unwrap();
    let changes = "SELECT count(*) || ' of ' || count(DISTINCT order_id) FROM changes
                   WHERE status = 'cancelled'";
    assert_eq!(cluster.psql(&database, changes), "20 of 20");
    for service in services {
        service.stop();
    }
}
