//! `DELETE /pets/{petId}`: what remains, and what prevents it.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        a_deleted_pet_is_gone_everywhere,
        preconditions_prevent_a_deletion,
        a_reserved_pet_is_kept_and_a_sold_one_leaves_its_order,
        deletions_and_orders_are_serialized,
    ],
}

async fn create(server: &Server) -> i64 {
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    server.create(pet).await
}

async fn delete(server: &Server, pet: i64) -> Response {
    server.delete(&format!("/v1/pets/{pet}")).await
}

async fn a_deleted_pet_is_gone_everywhere(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..3 {
        create(&server).await;
    }
    let lists = [
        "/v1/pets",
        "/v1/pets?sort=desc",
        "/v1/pets?status=available",
        "/v1/pets?categoryId=1",
        "/v1/pets?categoryId=1&status=available",
        "/v1/pets?name=rex",
        "/v1/pets?name=rex&status=available",
        "/v1/pets?id=1,2,3",
    ];
    let listed = async |list: &str| {
        let pets = server.get(list).await.json();
        let mut ids: Vec<_> = pets
            .as_array()
            .unwrap()
            .iter()
            .map(|pet| pet["id"].as_i64().unwrap())
            .collect();
        ids.sort();
        ids
    };
    // Also what is cached.
    for list in lists {
        assert_eq!(listed(list).await, [1, 2, 3], "{list}");
    }
    assert_eq!(server.get("/v1/pets/3").await.status, 200);
    let deleted = delete(&server, 3).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(deleted.header("content-length"), None);
    for list in lists {
        assert_eq!(listed(list).await, [1, 2], "{list}");
    }
    let inventory = server.get("/v1/store/inventory").await.json();
    let expected = json!({"available": 2, "pending": 0, "sold": 0, "total": 2});
    assert_eq!(inventory, expected);
    let metric = r#"petstore_pets{status="available"}"#;
    assert_eq!(server.metric(metric).await, 2.0);
    server
        .get("/v1/pets/3")
        .await
        .assert_error(404, "not_found");
    let patch = server.patch("/v1/pets/3", r#"{"name":"Max"}"#).await;
    patch.assert_error(404, "not_found");
    server.post_order(3).await.assert_error(404, "not_found");
    delete(&server, 3).await.assert_error(404, "not_found");
    // The id is never reused, although it was the highest.
    assert_eq!(create(&server).await, 4);
    for id in [
        "0",
        "-1",
        "abc",
        "+1",
        "01",
        "1.0",
        "99",
        "9223372036854775808",
    ] {
        let response = server.delete(&format!("/v1/pets/{id}")).await;
        response.assert_error(404, "not_found");
    }
    assert_eq!(server.count_pets().await, 3);
    // Without a status; the body is ignored.
    server.create(json!({"name": "A", "categoryId": 1})).await;
    let request = server
        .request(Method::DELETE, "/v1/pets/5")
        .body("not json");
    assert_eq!(request.send().await.status, 204);
    let total = &server.get("/v1/store/inventory").await.json()["total"];
    assert_eq!(*total, 3);
}

async fn preconditions_prevent_a_deletion(backend: Backend) {
    let server = Server::start(backend).await;
    create(&server).await;
    let old = server.get("/v1/pets/1").await;
    let old = old.header("etag").unwrap();
    let changed = server.patch("/v1/pets/1", r#"{"name":"Max"}"#).await;
    let tag = changed.header("etag").unwrap();
    let weak = format!("W/{tag}");
    let delete = |path: &str, headers: &[(&str, &str)]| {
        let request = server.request(Method::DELETE, path);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        });
        request.send()
    };
    for headers in [
        &[("if-match", old)][..],
        &[("if-match", &*weak)],
        &[("if-match", "")],
        &[("if-none-match", "*")],
        &[("if-none-match", tag)],
        &[("if-none-match", &*weak)],
        &[("if-match", tag), ("if-none-match", "*")],
        &[("if-match", old), ("if-none-match", old)],
    ] {
        let response = delete("/v1/pets/1", headers).await;
        response.assert_error(412, "precondition_failed");
    }
    for headers in [
        [("if-match", "*")],
        [("if-match", tag)],
        [("if-none-match", "*")],
    ] {
        let missing = delete("/v1/pets/9", &headers).await;
        missing.assert_error(404, "not_found");
    }
    let current = [("if-match", tag), ("if-none-match", old)];
    assert_eq!(delete("/v1/pets/1", &current).await.status, 204);
    create(&server).await;
    assert_eq!(delete("/v1/pets/2", &[("if-match", "*")]).await.status, 204);
    // A change and a deletion with the same ETag: one of them.
    for round in 0..5 {
        let pet = create(&server).await;
        let path = format!("/v1/pets/{pet}");
        let tag = server.get(&path).await;
        let tag = tag.header("etag").unwrap();
        let patch = server.request(Method::PATCH, &path);
        let patch = patch.header("if-match", tag).body(r#"{"name":"Max"}"#);
        let tags = [("if-match", tag)];
        let (patched, deleted) = tokio::join!(patch.send(), delete(&path, &tags));
        let outcome = (patched.status, deleted.status);
        assert!(
            [(200, 412), (404, 204)].contains(&outcome),
            "round {round}: {outcome:?}"
        );
    }
}

async fn a_reserved_pet_is_kept_and_a_sold_one_leaves_its_order(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let order = server.place_order(pet).await;
    for name in ["", "if-match"] {
        let request = server.request(Method::DELETE, "/v1/pets/1");
        let request = match name {
            "" => request,
            name => request.header(name, "*"),
        };
        request.send().await.assert_error(409, "pet_reserved");
    }
    assert_eq!(server.pet_status(pet).await, "pending");
    server.transition(order, "cancel").await;
    let order = server.place_order(pet).await;
    let path = format!("/v1/store/orders/{order}");
    let complete = || {
        let request = server.request(Method::POST, &format!("{path}/complete"));
        request.header("idempotency-key", "sale").send()
    };
    let completed = complete().await;
    assert_eq!(completed.status, 200);
    assert_eq!(delete(&server, pet).await.status, 204);
    // Its orders remain, and cannot be returned.
    assert_eq!(server.get(&path).await.json(), completed.json());
    let orders = server.get("/v1/store/orders?petId=1").await.json();
    assert_eq!(orders[1], completed.json());
    assert_eq!(orders[0]["status"], "cancelled");
    for _ in 0..2 {
        let response = server.transition(order, "return").await;
        response.assert_error(409, "order_not_returnable");
    }
    for action in ["complete", "cancel"] {
        let response = server.transition(order, action).await;
        response.assert_error(409, "order_not_open");
    }
    let replayed = complete().await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.body, completed.body);
    assert_eq!(server.get(&path).await.json(), completed.json());
    server.post_order(pet).await.assert_error(404, "not_found");
    // The replay of a create does not bring the pet back.
    let create = || {
        let request = server.request(Method::POST, "/v1/pets");
        let request = request.header("idempotency-key", "create");
        request.body(r#"{"name":"A","categoryId":1}"#).send()
    };
    let created = create().await;
    assert_eq!(delete(&server, 2).await.status, 204);
    let replayed = create().await;
    assert_eq!(
        (replayed.status, &replayed.body),
        (created.status, &created.body)
    );
    server
        .get("/v1/pets/2")
        .await
        .assert_error(404, "not_found");
    assert_eq!(server.count_pets().await, 0);
}

/// There is never an open order without its pet.
async fn deletions_and_orders_are_serialized(backend: Backend) {
    let server = Server::start(backend).await;
    let status = |response: &Response| response.status;
    for round in 0..10 {
        let pet = create(&server).await;
        let (deleted, placed) = tokio::join!(delete(&server, pet), server.post_order(pet));
        match (status(&deleted), status(&placed)) {
            (204, 404) => {}
            (409, 201) => assert_eq!(server.pet_status(pet).await, "pending"),
            other => panic!("round {round}: {other:?}"),
        }
        // Many at once: one deletion, or one order.
        let pet = create(&server).await;
        let (deleted, placed) = tokio::join!(
            join_all((0..6).map(|_| delete(&server, pet))),
            join_all((0..6).map(|_| server.post_order(pet))),
        );
        let gone = deleted.iter().filter(|r| r.status == 204).count();
        let sold = placed.iter().filter(|r| r.status == 201).count();
        assert_eq!(gone + sold, 1, "round {round}");
        // A cancelled order gives the pet free.
        let pet = create(&server).await;
        let order = server.place_order(pet).await;
        let (deleted, cancelled) =
            tokio::join!(delete(&server, pet), server.transition(order, "cancel"));
        assert_eq!(cancelled.status, 200, "round {round}");
        assert!([204, 409].contains(&status(&deleted)), "round {round}");
        // A return puts the pet back on sale, unless it was deleted before.
        let pet = create(&server).await;
        let order = server.place_order(pet).await;
        server.transition(order, "complete").await;
        let (deleted, returned) =
            tokio::join!(delete(&server, pet), server.transition(order, "return"));
        assert_eq!(status(&deleted), 204, "round {round}");
        let now = server
            .get(&format!("/v1/store/orders/{order}"))
            .await
            .json();
        match status(&returned) {
            200 => assert_eq!(now["status"], "returned"),
            409 => assert_eq!(now["status"], "completed"),
            other => panic!("round {round}: {other}"),
        }
    }
    let orphans = "SELECT count(*) || '' FROM orders
                   WHERE status = 'placed' AND pet_id NOT IN (SELECT id FROM pets)";
    assert_eq!(server.database.query(orphans), "0");
    let counts = server.get("/v1/store/inventory").await.json();
    let pets = server.walk("/v1/pets?limit=100").await;
    assert_eq!(counts["total"], Value::from(pets.len()));
}
