//! `GET /store/orders`.

use serde_json::json;

use crate::server::{Backend, Server};

/// Three animals and an order on each: placed, completed, cancelled.
const ORDERS: &str = "
    INSERT INTO pets (name, category_id) VALUES ('A', 1), ('B', 1), ('C', 1);
    INSERT INTO orders (pet_id, status, created_at, updated_at) VALUES
        (1, 'placed', 1763200000000000, 1763200000000000),
        (2, 'completed', 1763200000123000, 1763200001000000),
        (3, 'cancelled', 1763200000000000, 1763200002000000);";

pub async fn stored_orders_are_listed(backend: Backend) {
    let empty = Server::start(backend).await;
    assert_eq!(empty.get("/v1/store/orders").await.json(), json!([]));

    let server = Server::start_with(backend, |plan| plan.sql = ORDERS).await;
    let orders = server.get("/v1/store/orders").await.json();
    assert_eq!(orders.as_array().unwrap().len(), 3);
    let second = json!({
        "id": 2,
        "petId": 2,
        "status": "completed",
        "createdAt": "2025-11-15T09:46:40.123Z",
        "updatedAt": "2025-11-15T09:46:41Z",
    });
    assert_eq!(orders[1], second);
}

pub async fn they_are_filtered_and_paged(backend: Backend) {
    let server = Server::start_with(backend, |plan| plan.sql = ORDERS).await;
    for (status, id) in [("placed", 1), ("completed", 2), ("cancelled", 3)] {
        let orders = server
            .get(&format!("/v1/store/orders?status={status}"))
            .await
            .json();
        assert_eq!(
            (orders[0]["id"].as_i64(), orders[1].is_null()),
            (Some(id), true)
        );
    }
    let first = server.get("/v1/store/orders?limit=2").await;
    let next = first.next().unwrap();
    assert!(
        next.starts_with("/v1/store/orders?limit=2&cursor="),
        "{next}"
    );
    let second = server.get(&next).await;
    assert_eq!(second.json()[0]["id"], 3);
    assert_eq!(second.next(), None);
    for query in [
        "limit=0",
        "status=sold",
        "status=placed&status=placed",
        "cursor=x",
    ] {
        let reply = server.get(&format!("/v1/store/orders?{query}")).await;
        reply.assert_error(400, "invalid_parameter");
    }
}
