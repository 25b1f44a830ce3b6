//! Orders: their lifecycle, the reservation of pets, expiry, and the inventory.

use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use support::{Backend, eventually};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        orders_are_listed,
        orders_are_filtered_and_paginated,
        an_order_is_placed_then_completed_or_cancelled,
        if_none_match_returns_304_for_orders_and_inventory,
        unavailable_pets_cannot_be_ordered,
        closed_orders_cannot_be_changed,
        concurrent_orders_reserve_a_pet_once,
        a_reserved_pet_keeps_its_status,
        orders_and_status_updates_are_serialized,
        a_completed_order_is_returned_once,
        a_replay_shows_the_order_before_its_return,
        a_pet_is_sold_again_after_each_return,
        a_sold_pet_keeps_its_status,
        concurrent_sales_and_returns_are_serialized,
        expired_orders_are_cancelled,
        the_inventory_matches_a_recount,
    ],
}

/// Three pets with one order each: placed, completed, cancelled.
const ORDERS: &str = "
    INSERT INTO pets (name, search_name, category_id) VALUES
        ('A', 'a', 1), ('B', 'b', 1), ('C', 'c', 1);
    INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at) VALUES
        (1, 'placed', 1763200000000000, 1763200000000000, NULL),
        (2, 'completed', 1763200000123000, 1763200001000000, 1763200001000000),
        (3, 'cancelled', 1763200000000000, 1763200002000000, NULL);";

/// Creates a pet that can be ordered.
async fn create_available_pet(server: &Server) -> i64 {
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    server.create(pet).await
}

async fn inventory(server: &Server) -> [i64; 3] {
    let counts = server.get("/v1/store/inventory").await.json();
    ["available", "pending", "sold"].map(|status| counts[status].as_i64().unwrap())
}

async fn orders_are_listed(backend: Backend) {
    let empty = Server::start(backend).await;
    assert_eq!(empty.get("/v1/store/orders").await.json(), json!([]));

    let server = Server::start_with(backend, |config| config.sql = ORDERS).await;
    let orders = server.get("/v1/store/orders").await.json();
    assert_eq!(orders.as_array().unwrap().len(), 3);
    let second = json!({
        "id": 2,
        "petId": 2,
        "status": "completed",
        "createdAt": "2025-11-15T09:46:40.123Z",
        "updatedAt": "2025-11-15T09:46:41Z",
        "completedAt": "2025-11-15T09:46:41Z",
    });
    assert_eq!(orders[1], second);
    assert_eq!(server.get("/v1/store/orders/2").await.json(), second);
}

async fn orders_are_filtered_and_paginated(backend: Backend) {
    let server = Server::start_with(backend, |config| config.sql = ORDERS).await;
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
        let response = server.get(&format!("/v1/store/orders?{query}")).await;
        response.assert_error(400, "invalid_parameter");
    }
}

async fn an_order_is_placed_then_completed_or_cancelled(backend: Backend) {
    let server = Server::start(backend).await;
    let sold = create_available_pet(&server).await;
    let kept = create_available_pet(&server).await;
    let placed = server.post_order(sold).await;
    assert_eq!(placed.status, 201, "{}", placed.text());
    assert_eq!(placed.header("location"), Some("/v1/store/orders/1"));
    let order = placed.json();
    assert_eq!(order["status"], "placed");
    assert_eq!((&order["id"], &order["petId"]), (&json!(1), &json!(sold)));
    assert_eq!(order["createdAt"], order["updatedAt"]);
    for time in ["expiresAt", "completedAt", "returnedAt"] {
        assert_eq!(order.get(time), None);
    }
    assert_eq!(server.get("/v1/store/orders/1").await.json(), order);
    assert_eq!(server.pet_status(sold).await, "pending");
    assert_eq!(inventory(&server).await, [1, 1, 0]);

    let completed = server.transition(1, "complete").await;
    assert_eq!(completed.status, 200);
    let now = completed.json();
    assert_eq!(now["status"], "completed");
    assert_eq!(now["createdAt"], order["createdAt"]);
    assert_eq!(now["completedAt"], now["updatedAt"]);
    assert_eq!(now.get("returnedAt"), None);
    assert!(now["updatedAt"].as_str() >= order["updatedAt"].as_str());
    assert_eq!(server.get("/v1/store/orders/1").await.json(), now);
    assert_eq!(server.pet_status(sold).await, "sold");
    assert_eq!(inventory(&server).await, [1, 0, 1]);

    let order = server.place_order(kept).await;
    let cancelled = server.transition(order, "cancel").await;
    assert_eq!(
        (cancelled.status, &cancelled.json()["status"]),
        (200, &json!("cancelled"))
    );
    assert_eq!(server.pet_status(kept).await, "available");
    assert_eq!(inventory(&server).await, [1, 0, 1]);
    // The pet can be ordered again, and no cached page is stale.
    let again = server.place_order(kept).await;
    let open = server.get("/v1/store/orders?status=placed").await.json();
    assert_eq!(open[0]["id"], again);
    let pending = server.get("/v1/pets?status=pending").await.json();
    assert_eq!(pending[0]["id"], kept);
}

async fn if_none_match_returns_304_for_orders_and_inventory(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_available_pet(&server).await;
    let order = server.place_order(pet).await;
    for path in ["/v1/store/orders/1", "/v1/store/inventory"] {
        let first = server.get(path).await;
        let tag = first.header("etag").unwrap();
        let again = server
            .request(Method::GET, path)
            .header("if-none-match", tag);
        assert_eq!(again.send().await.status, 304);
        let head = server.request(Method::HEAD, path).send().await;
        assert_eq!(head.header("etag"), Some(tag));
    }
    let tag = server.get("/v1/store/orders/1").await;
    let tag = tag.header("etag").unwrap();
    server.transition(order, "cancel").await;
    let changed = server
        .request(Method::GET, "/v1/store/orders/1")
        .header("if-none-match", tag);
    assert_eq!(changed.send().await.status, 200);
}

async fn unavailable_pets_cannot_be_ordered(backend: Backend) {
    let server = Server::start(backend).await;
    server
        .create(json!({"name": "None", "categoryId": 1}))
        .await;
    for status in ["pending", "sold"] {
        let pet = json!({"name": "A", "categoryId": 1, "status": status});
        server.create(pet).await;
    }
    for pet in 1..=3 {
        server
            .post_order(pet)
            .await
            .assert_error(409, "pet_not_available");
    }
    for pet in [4, (1 << 53) - 1] {
        server.post_order(pet).await.assert_error(404, "not_found");
    }
    for body in [
        "{}",
        "[]",
        r#"{"petId":null}"#,
        r#"{"petId":"1"}"#,
        r#"{"petId":0}"#,
        r#"{"petId":-1}"#,
        r#"{"petId":1.5}"#,
        r#"{"petId":9007199254740992}"#,
        r#"{"petid":1}"#,
    ] {
        let response = server.post("/v1/store/orders", body).await;
        response.assert_error(400, "invalid_body");
    }
    let response = server.post("/v1/store/orders", r#"{"petId":1"#).await;
    response.assert_error(400, "invalid_json");
    let plain = server
        .request(Method::POST, "/v1/store/orders")
        .body("{\"petId\":1}");
    let response = plain.header("content-type", "text/plain").send().await;
    response.assert_error(415, "unsupported_media_type");
    assert_eq!(server.get("/v1/store/orders").await.json(), json!([]));
    assert_eq!(inventory(&server).await, [0, 1, 1]);
}

async fn closed_orders_cannot_be_changed(backend: Backend) {
    let server = Server::start(backend).await;
    for (pet, action) in [(1, "complete"), (2, "cancel")] {
        create_available_pet(&server).await;
        let order = server.place_order(pet).await;
        let closed = server.transition(order, action).await.json();
        for action in ["complete", "cancel"] {
            let response = server.transition(order, action).await;
            response.assert_error(409, "order_not_open");
        }
        let path = format!("/v1/store/orders/{order}");
        assert_eq!(server.get(&path).await.json(), closed);
    }
    for id in [
        "0",
        "99",
        "abc",
        "+1",
        "1.5",
        "01",
        "9223372036854775808",
        "%31%30",
    ] {
        let path = format!("/v1/store/orders/{id}");
        server.get(&path).await.assert_error(404, "not_found");
        for action in ["complete", "cancel"] {
            let close = server.request(Method::POST, &format!("{path}/{action}"));
            close.send().await.assert_error(404, "not_found");
        }
    }
    // A transition ignores its body and content type.
    create_available_pet(&server).await;
    let order = server.place_order(3).await;
    let path = format!("/v1/store/orders/{order}/complete");
    let odd = server
        .request(Method::POST, &path)
        .header("content-type", "text/plain");
    assert_eq!(odd.body("not json").send().await.status, 200);
}

async fn concurrent_orders_reserve_a_pet_once(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 1..=5 {
        let pet = create_available_pet(&server).await;
        let responses = join_all((0..24).map(|_| server.post_order(pet))).await;
        let (won, lost): (Vec<_>, Vec<_>) = responses.iter().partition(|r| r.status == 201);
        assert_eq!(won.len(), 1, "round {round}");
        for response in lost {
            response.assert_error(409, "pet_not_available");
        }
        // Concurrent transitions: exactly one closes the order.
        let order = won[0].json()["id"].as_i64().unwrap();
        let closes = (0..12).map(|n| server.transition(order, ["complete", "cancel"][n % 2]));
        let responses = join_all(closes).await;
        let (won, lost): (Vec<_>, Vec<_>) = responses.iter().partition(|r| r.status == 200);
        assert_eq!(won.len(), 1, "round {round}");
        for response in lost {
            response.assert_error(409, "order_not_open");
        }
        let now = server.pet_status(pet).await;
        match won[0].json()["status"].as_str() {
            Some("completed") => assert_eq!(now, "sold"),
            _ => assert_eq!(now, "available"),
        }
    }
}

async fn a_reserved_pet_keeps_its_status(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_available_pet(&server).await;
    let order = server.place_order(pet).await;
    let path = format!("/v1/pets/{pet}");
    for patch in [
        r#"{"status":"available"}"#,
        r#"{"status":null}"#,
        r#"{"status":"sold","name":"No"}"#,
    ] {
        server
            .patch(&path, patch)
            .await
            .assert_error(409, "pet_reserved");
    }
    // Other members may change, and repeating the current status is no conflict.
    let patch = r#"{"name":"Max","status":"pending"}"#;
    let changed = server.patch(&path, patch).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_eq!(changed.json()["name"], "Max");
    server.transition(order, "cancel").await;
    let freed = server.patch(&path, r#"{"status":"sold"}"#).await;
    assert_eq!(freed.json()["status"], "sold");
    server
        .post_order(pet)
        .await
        .assert_error(409, "pet_not_available");
}

/// Either the order or the status update wins the race, never both.
async fn orders_and_status_updates_are_serialized(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 0..20 {
        let pet = create_available_pet(&server).await;
        let path = format!("/v1/pets/{pet}");
        let (order, update) = tokio::join!(
            server.post_order(pet),
            server.patch(&path, r#"{"status":"sold"}"#)
        );
        let now = server.pet_status(pet).await;
        match (order.status, update.status) {
            (201, 409) => assert_eq!(now, "pending", "round {round}"),
            (409, 200) => assert_eq!(now, "sold", "round {round}"),
            other => panic!("round {round}: {other:?}, the pet is {now}"),
        }
    }
}

async fn a_completed_order_is_returned_once(backend: Backend) {
    let server = Server::start(backend).await;
    for (pet, action) in [(1, ""), (2, "cancel"), (3, "complete")] {
        create_available_pet(&server).await;
        let order = server.place_order(pet).await;
        if !action.is_empty() {
            server.transition(order, action).await;
        }
    }
    assert_eq!(inventory(&server).await, [1, 1, 1]);
    // Neither an open order nor a cancelled one.
    for order in [1, 2] {
        let path = format!("/v1/store/orders/{order}");
        let before = server.get(&path).await.json();
        let response = server.transition(order, "return").await;
        response.assert_error(409, "order_not_returnable");
        assert_eq!(server.get(&path).await.json(), before);
    }
    let completed = server.get("/v1/store/orders/3").await.json();
    let returned = server.transition(3, "return").await;
    assert_eq!(returned.status, 200, "{}", returned.text());
    let order = returned.json();
    let mut expected = completed.clone();
    expected["status"] = "returned".into();
    expected["updatedAt"] = order["updatedAt"].clone();
    expected["returnedAt"] = order["updatedAt"].clone();
    assert_eq!(order, expected);
    assert!(order["updatedAt"].as_str() >= completed["updatedAt"].as_str());
    assert_eq!(server.pet_status(3).await, "available");
    assert_eq!(inventory(&server).await, [2, 1, 0]);
    // A returned order does not change any more.
    server
        .transition(3, "return")
        .await
        .assert_error(409, "order_not_returnable");
    for action in ["complete", "cancel"] {
        let response = server.transition(3, action).await;
        response.assert_error(409, "order_not_open");
    }
    assert_eq!(server.get("/v1/store/orders/3").await.json(), order);
    for (query, expected) in [
        ("status=returned", &[3][..]),
        ("status=completed", &[]),
        ("petId=3", &[3]),
        ("petId=3&status=returned", &[3]),
        ("petId=3&status=placed", &[]),
        ("sort=desc", &[3, 2, 1]),
    ] {
        let orders = server.walk(&format!("/v1/store/orders?{query}")).await;
        let ids: Vec<_> = orders.iter().map(|o| o["id"].as_i64().unwrap()).collect();
        assert_eq!(ids, expected, "{query}");
    }
    for (status, count) in [
        ("placed", 1.0),
        ("completed", 0.0),
        ("cancelled", 1.0),
        ("returned", 1.0),
    ] {
        let metric = format!("petstore_orders{{status=\"{status}\"}}");
        assert_eq!(server.metric(&metric).await, count, "{status}");
    }
    for id in ["0", "99", "abc", "01", "9223372036854775808"] {
        let path = format!("/v1/store/orders/{id}/return");
        let response = server.request(Method::POST, &path).send().await;
        response.assert_error(404, "not_found");
    }
}

async fn a_replay_shows_the_order_before_its_return(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_available_pet(&server).await;
    let send = |key: &str, path: &str, body: &str| {
        let request = server.request(Method::POST, path).body(body);
        request.header("idempotency-key", key).send()
    };
    let place = format!("{{\"petId\":{pet}}}");
    let requests = [
        ("place", "/v1/store/orders", &*place),
        ("complete", "/v1/store/orders/1/complete", ""),
        ("return", "/v1/store/orders/1/return", ""),
    ];
    let mut firsts = Vec::new();
    for (key, path, body) in requests {
        firsts.push(send(key, path, body).await);
        // So that updatedAt differs.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_ne!(firsts[1].json()["updatedAt"], firsts[2].json()["updatedAt"]);
    for again in 0..2 {
        for ((key, path, body), first) in requests.iter().zip(&firsts) {
            let replayed = send(key, path, body).await;
            assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
            assert_eq!(
                (replayed.status, replayed.text()),
                (first.status, first.text()),
                "{key}"
            );
        }
        // The replays changed nothing, also while another order has the pet.
        match again {
            0 => {
                assert_eq!(server.pet_status(pet).await, "available");
                server.place_order(pet).await;
            }
            _ => assert_eq!(server.pet_status(pet).await, "pending"),
        }
    }
}

async fn a_pet_is_sold_again_after_each_return(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_available_pet(&server).await;
    let mut earlier_orders = Vec::new();
    for _ in 1..=4 {
        let order = server.place_order(pet).await;
        server
            .post_order(pet)
            .await
            .assert_error(409, "pet_not_available");
        assert_eq!(server.transition(order, "complete").await.status, 200);
        server
            .post_order(pet)
            .await
            .assert_error(409, "pet_not_available");
        // Only the last sale can be returned.
        for earlier in &earlier_orders {
            let response = server.transition(*earlier, "return").await;
            response.assert_error(409, "order_not_returnable");
        }
        earlier_orders.push(order);
        assert_eq!(server.pet_status(pet).await, "sold");
        assert_eq!(server.transition(order, "return").await.status, 200);
    }
    let returned = server
        .walk("/v1/store/orders?petId=1&status=returned&limit=2")
        .await;
    assert_eq!(returned.len(), 4);
}

async fn a_sold_pet_keeps_its_status(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_available_pet(&server).await;
    let order = server.place_order(pet).await;
    server.transition(order, "complete").await;
    let path = format!("/v1/pets/{pet}");
    for patch in [
        r#"{"status":"available"}"#,
        r#"{"status":"pending"}"#,
        r#"{"status":null}"#,
        r#"{"status":"available","name":"No"}"#,
    ] {
        let response = server.patch(&path, patch).await;
        response.assert_error(409, "pet_sold");
    }
    // Other members may change, and repeating the status is no conflict.
    let patch = r#"{"name":"Max","categoryId":2,"status":"sold"}"#;
    let changed = server.patch(&path, patch).await;
    let expected = json!({"id": pet, "name": "Max", "categoryId": 2, "status": "sold"});
    assert_eq!((changed.status, changed.json()), (200, expected));
    server.transition(order, "return").await;
    for status in ["sold", "available"] {
        let patch = json!({"status": status}).to_string();
        let changed = server.patch(&path, patch).await;
        assert_eq!(changed.json()["status"], status);
    }
    // Sold without an order, it can be put back.
    let pet = json!({"name": "A", "categoryId": 1, "status": "sold"});
    let pet = server.create(pet).await;
    let path = format!("/v1/pets/{pet}");
    let changed = server.patch(&path, r#"{"status":"available"}"#).await;
    assert_eq!(changed.json()["status"], "available");
    assert_eq!(server.post_order(pet).await.status, 201);
}

/// However sales, returns and changes of a pet meet, it is sold to one buyer at a time.
async fn concurrent_sales_and_returns_are_serialized(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 0..5 {
        let pet = create_available_pet(&server).await;
        let order = server.place_order(pet).await;
        server.transition(order, "complete").await;
        let returns = join_all((0..16).map(|_| server.transition(order, "return"))).await;
        let (won, lost): (Vec<_>, Vec<_>) = returns.iter().partition(|r| r.status == 200);
        assert_eq!(won.len(), 1, "round {round}");
        for response in lost {
            response.assert_error(409, "order_not_returnable");
        }
        // A return, new orders, and attempts to change the status.
        let order = server.place_order(pet).await;
        server.transition(order, "complete").await;
        let path = format!("/v1/pets/{pet}");
        let (returned, orders, patched) = tokio::join!(
            server.transition(order, "return"),
            join_all((0..6).map(|_| server.post_order(pet))),
            server.patch(&path, r#"{"status":"available"}"#),
        );
        assert_eq!(returned.status, 200, "round {round}");
        let placed = orders.iter().filter(|r| r.status == 201).count();
        assert!(placed <= 1, "round {round}");
        let codes = ["pet_sold", "pet_reserved"].map(Value::from);
        let is_decided = patched.status == 200 || codes.contains(&patched.json()["code"]);
        assert!(is_decided, "{}", patched.text());
        let now = server.pet_status(pet).await;
        assert_eq!(now == "pending", placed == 1, "round {round}: {now}");
    }
}

async fn expired_orders_are_cancelled(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.reserve_for = Some(SignedDuration::from_mins(30));
    })
    .await;
    let pass_seconds = |seconds: i64, orders: &str| {
        let micros = seconds * 1_000_000;
        server.database.execute(&format!(
            "UPDATE orders SET created_at = created_at - {micros},
                 updated_at = updated_at - {micros}, expires_at = expires_at - {micros}
             WHERE {orders}"
        ));
    };
    let status = async |order: i64| {
        let order = server.get(&format!("/v1/store/orders/{order}")).await;
        order.json()["status"].clone()
    };
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let pets = [
        create_available_pet(&server).await,
        create_available_pet(&server).await,
    ];
    let placed = server.post_order(pets[0]).await.json();
    let reserved_for = time(&placed["expiresAt"]) - time(&placed["createdAt"]);
    assert_eq!(
        reserved_for.get_seconds() + 60 * reserved_for.get_minutes(),
        1800
    );
    let in_time = server.place_order(pets[1]).await;
    pass_seconds(1700, "true");
    let completed = server.transition(in_time, "complete").await;
    assert_eq!(completed.status, 200);
    pass_seconds(100, "true");
    let late = server.transition(1, "complete").await;
    late.assert_error(409, "order_not_open");
    eventually("the order expires", async || status(1).await != "placed").await;
    let order = server.get("/v1/store/orders/1").await.json();
    assert_eq!(order["status"], "cancelled");
    assert!(time(&order["updatedAt"]) >= time(&order["expiresAt"]));
    assert_eq!(server.pet_status(pets[0]).await, "available");
    assert_eq!(inventory(&server).await, [1, 0, 1]);
    // Expiry runs once per order: when another order has expired, the next order of the same
    // pet is not affected.
    let next = server.place_order(pets[0]).await;
    let other = create_available_pet(&server).await;
    let other = server.place_order(other).await;
    pass_seconds(1800, &format!("id = {other}"));
    eventually("the other order expires", async || {
        status(other).await == "cancelled"
    })
    .await;
    assert_eq!(status(next).await, "placed");
    assert_eq!(server.get("/v1/store/orders/1").await.json(), order);
    assert_eq!(server.pet_status(pets[1]).await, "sold");
}

/// Random concurrent operations: the maintained counts always equal a full recount.
async fn the_inventory_matches_a_recount(backend: Backend) {
    let server = Server::start(backend).await;
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = <rand::rngs::StdRng as rand::SeedableRng>::seed_from_u64(seed);
    let mut pick = |below: usize| rand::RngExt::random_range(&mut random, 0..below);
    let statuses = ["\"available\"", "\"pending\"", "\"sold\"", "null"];
    for step in 0..40 {
        let calls: Vec<_> = (0..8)
            .map(|_| (pick(8), pick(step + 1) + 1, statuses[pick(4)]))
            .collect();
        let calls = calls.into_iter().map(|(what, id, status)| {
            let server = &server;
            async move {
                let id = id as i64;
                match what {
                    0 if status == "null" => server.create_pets(1).await,
                    0 => drop(server.create(json!({"name": "A", "categoryId": 1, "status": status.trim_matches('"')})).await),
                    1 => drop(server.post_order(id).await),
                    2 => drop(server.transition(id, "complete").await),
                    3 => drop(server.transition(id, "cancel").await),
                    4 => drop(server.transition(id, "return").await),
                    5 => drop(server.delete(&format!("/v1/pets/{id}")).await),
                    _ => drop(server.patch(&format!("/v1/pets/{id}"), format!("{{\"status\":{status}}}")).await),
                }
            }
        });
        join_all(calls).await;
        let query = |sql: &str| server.database.query(sql);
        let recount = query(
            "SELECT count(CASE WHEN status = 'available' THEN 1 END) || ' ' ||
                    count(CASE WHEN status = 'pending' THEN 1 END) || ' ' ||
                    count(CASE WHEN status = 'sold' THEN 1 END) || ' ' || count(*) FROM pets",
        );
        let counts = server.get("/v1/store/inventory").await.json();
        let counted =
            ["available", "pending", "sold", "total"].map(|name| counts[name].to_string());
        assert_eq!(counted.join(" "), recount, "seed {seed}, step {step}");
        // An order reserves its pet or has sold it, unless the sold pet was deleted.
        let inconsistent = query(
            "SELECT count(*) || '' FROM orders LEFT JOIN pets ON pets.id = orders.pet_id
             WHERE orders.status = 'placed' AND coalesce(pets.status, '') <> 'pending'
                OR orders.status = 'completed' AND pets.id IS NOT NULL
                   AND coalesce(pets.status, '') <> 'sold'",
        );
        assert_eq!(inconsistent, "0", "seed {seed}, step {step}");
        let sold_twice = query(
            "SELECT (count(*) - count(DISTINCT pet_id)) || '' FROM orders
             WHERE status IN ('placed', 'completed')",
        );
        assert_eq!(sold_twice, "0", "seed {seed}, step {step}");
    }
    for status in ["placed", "completed", "cancelled", "returned"] {
        let recount = format!("SELECT count(*) || '' FROM orders WHERE status = '{status}'");
        let metric = format!("petstore_orders{{status=\"{status}\"}}");
        let metric = server.metric(&metric).await.to_string();
        assert_eq!(metric, server.database.query(&recount), "seed {seed}");
    }
    let metric = server.metric(r#"petstore_pets{status="none"}"#).await;
    let recount = "SELECT count(*) || '' FROM pets WHERE status IS NULL";
    assert_eq!(metric.to_string(), server.database.query(recount));
}
