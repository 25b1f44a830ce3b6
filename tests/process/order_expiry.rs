//! Orders that expire and release their pets, exactly once across replicas.

use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{Cluster, eventually};
use tokio_postgres::NoTls;

use crate::{
    client::Client,
    harness::{Home, Service},
};

fn serve(home: &Home) -> Service {
    Service::start(home.serve_command().args(["--reserve-for", "3s"]))
}

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// Creates pets and places an order for each.
async fn place_orders(client: &Client, count: i64) {
    for pet in 1..=count {
        let new = json!({"name": "Rex", "categoryId": 1, "status": "available"});
        for (path, body) in [
            ("/v1/pets", new),
            ("/v1/store/orders", json!({"petId": pet})),
        ] {
            let response = client.send_json(Method::POST, path, &body, None).await;
            assert_eq!(response.unwrap().status, 201);
        }
    }
}

/// Waits until every pet is available again.
async fn wait_until_available(client: &Client, count: i64) {
    let available = json!({"available": count, "pending": 0, "sold": 0, "total": count});
    let all_available = async || client.get("/v1/store/inventory").await.json() == available;
    eventually("available pets", all_available).await;
}

#[tokio::test]
async fn orders_expire_after_a_restart() {
    let home = Home::new();
    let key = home.new_key();
    let service = serve(&home);
    place_orders(&Client::new(&service, &key), 5).await;
    service.kill();
    // Restarted without a reservation time, existing orders keep their expiry.
    let service = home.serve();
    let client = Client::new(&service, &key);
    wait_until_available(&client, 5).await;
    let orders = client.get("/v1/store/orders").await.json();
    for order in orders.as_array().unwrap() {
        assert_eq!(order["status"], "cancelled");
        let [updated, expires] = ["updatedAt", "expiresAt"].map(|name| time(&order[name]));
        assert!(updated >= expires, "{order}");
    }
    // The log is written behind the change.
    assert_eq!(service.event("orders expired")["level"], "INFO");
    // New orders have none.
    let order = json!({"petId": 1});
    let path = "/v1/store/orders";
    let placed = client.send_json(Method::POST, path, &order, None).await;
    assert_eq!(placed.unwrap().json().get("expiresAt"), None::<&Value>);
}

/// Three replicas expire the same orders concurrently; each order expires once.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn each_order_expires_once_across_replicas() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    // Records every update of an order.
    cluster.psql(
        &database,
        "CREATE TABLE changes (order_id bigint, status text);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO changes VALUES (NEW.id, NEW.status); RETURN NEW; END $$;
         CREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION note()",
    );
    let services = [serve(&home), serve(&home), serve(&home)];
    let client = Client::new(&services[0], &key);
    place_orders(&client, 20).await;
    // Lock the pets while their orders expire, so that all replicas contend
    // for them.
    let connected = tokio_postgres::connect(&cluster.url(&database), NoTls).await;
    let (session, connection) = connected.unwrap();
    tokio::spawn(connection);
    let lock = "BEGIN; SELECT FROM pets FOR UPDATE";
    session.batch_execute(lock).await.unwrap();
    let reserved = "SELECT FROM orders
                    WHERE expires_at > extract(epoch FROM clock_timestamp()) * 1000000";
    eventually("all orders to expire", async || {
        session.execute(reserved, &[]).await.unwrap() == 0
    })
    .await;
    // Every replica looks for expired orders once per second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    session.batch_execute("COMMIT").await.unwrap();
    wait_until_available(&client, 20).await;
    let changes = "SELECT count(*) || ' of ' || count(DISTINCT order_id) FROM changes
                   WHERE status = 'cancelled'";
    assert_eq!(cluster.psql(&database, changes), "20 of 20");
    for service in services {
        service.stop();
    }
}
