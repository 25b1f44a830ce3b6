//! `POST /pets/batch/{batchId}/undo`: animals get their former state back, except those that
//! were changed or ordered since.

use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        an_undone_batch_leaves_the_store_as_before,
        animals_that_were_changed_or_ordered_since_are_kept,
        an_undo_can_be_repeated_and_undone,
        a_batch_is_undone_in_parts,
        changes_of_one_animal_are_undone_together,
        microchips_go_back_to_their_animals,
        categories_go_with_the_animals,
        an_unknown_batch_gets_404,
        a_retried_undo_is_replayed,
    ],
}

async fn change(server: &Server, id: &str, changes: Value) -> Vec<Value> {
    let body = json!({"batchId": id, "changes": changes, "atomic": true});
    let response = server.post("/v1/pets/batch", body.to_string()).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["results"].as_array().unwrap().clone()
}

async fn send(server: &Server, id: &str, body: &str) -> Response {
    let path = format!("/v1/pets/batch/{id}/undo");
    server.request(Method::POST, &path).body(body).send().await
}

/// Undoes a batch that needs one request. Returns the number of animals that were reset, and those
/// that were kept, with the reason.
async fn undo(server: &Server, id: &str) -> Value {
    let response = send(server, id, "").await;
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    assert_eq!(body.get("next"), None);
    let kept = body["kept"].as_array().unwrap().iter();
    let kept: Vec<_> = kept.map(|it| json!([it["id"], it["reason"]])).collect();
    json!([body["undone"], kept])
}

async fn pets(server: &Server) -> Vec<Value> {
    server.walk("/v1/pets?limit=100").await
}

fn detailed(name: &str) -> Value {
    json!({
        "name": name, "categoryId": 3, "status": "available", "breed": "Spaniel", "sex": "female",
        "birthDate": "2026-08-02", "color": "blenheim", "price": {"amount": 145000, "currency": "USD"},
        "description": "Calm,\nlikes children.", "notes": "Ümläut \u{1F408}", "location": "Kennel 4",
        "acquiredOn": "2026-10-20", "source": {"name": "Oak", "licence": "52-B"},
        "metadata": {"litter": "2026-07"},
    })
}

async fn an_undone_batch_leaves_the_store_as_before(backend: Backend) {
    let server = Server::start(backend).await;
    for n in 1..=20 {
        server.create(detailed(&format!("Pet {n}"))).await;
    }
    let before = pets(&server).await;
    let inventory = server.get("/v1/store/inventory").await.json();
    // Also what is cached is as before, later.
    assert_eq!(server.get("/v1/pets/20").await.status, 200);
    let mut changes = Vec::new();
    for id in 1..=5 {
        changes.push(json!({"id": id, "update": {
            "name": "Changed", "status": "sold", "breed": null, "price": {"amount": 1},
            "source": null, "metadata": {"feed": "hay"}, "microchip": format!("98511200456789{id}"),
        }}));
    }
    for id in [6, 7, 20] {
        changes.push(json!({"id": id, "delete": true}));
    }
    for n in 0..5 {
        changes.push(json!({"create": detailed(&format!("New {n}"))}));
    }
    change(&server, "a", json!(changes)).await;
    assert_eq!(server.get("/v1/pets/20").await.status, 404);
    assert_ne!(pets(&server).await, before);
    assert_eq!(undo(&server, "a").await, json!([13, []]));
    assert_eq!(pets(&server).await, before);
    assert_eq!(server.get("/v1/pets/20").await.json(), before[19]);
    assert_eq!(server.get("/v1/store/inventory").await.json(), inventory);
    // An id that was given once is never given again.
    assert!(server.create(detailed("Next")).await > 25);
    let events = server.get("/v1/events?batch=undo-a").await.json();
    let events = events.as_array().unwrap();
    let mut types: Vec<_> = events
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    types.sort_unstable();
    types.dedup();
    assert_eq!(events.len(), 13);
    assert_eq!(types, ["pet.created", "pet.deleted", "pet.updated"]);
}

async fn animals_that_were_changed_or_ordered_since_are_kept(backend: Backend) {
    let server = Server::start(backend).await;
    for n in 1..=7 {
        server.create(detailed(&format!("Pet {n}"))).await;
    }
    // The order of the seventh is older than the batch.
    server.place_order(7).await;
    let rename = |id: i64| json!({"id": id, "update": {"name": "Changed"}});
    let mut changes: Vec<_> = (1..=5).map(rename).collect();
    changes.push(rename(7));
    changes.extend((0..4).map(|n| json!({"create": detailed(&format!("New {n}"))})));
    let results = change(&server, "a", json!(changes)).await;
    let new: Vec<_> = results[6..]
        .iter()
        .map(|it| it["id"].as_i64().unwrap())
        .collect();
    server
        .patch("/v1/pets/1", r#"{"location":"Elsewhere"}"#)
        .await;
    assert_eq!(server.delete("/v1/pets/2").await.status, 204);
    let sale = server.place_order(3).await;
    server.transition(sale, "complete").await;
    let cancelled = server.place_order(4).await;
    server.transition(cancelled, "cancel").await;
    server.place_order(new[0]).await;
    let sale = server.place_order(new[1]).await;
    server.transition(sale, "complete").await;
    server
        .patch(&format!("/v1/pets/{}", new[2]), r#"{"name":"Mine"}"#)
        .await;
    let expected = json!([
        3,
        [
            [new[2], "changed"],
            [new[1], "ordered"],
            [new[0], "ordered"],
            [4, "ordered"],
            [3, "ordered"],
            [2, "deleted"],
            [1, "changed"],
        ]
    ]);
    assert_eq!(undo(&server, "a").await, expected);
    let names: Vec<_> = pets(&server)
        .await
        .iter()
        .map(|pet| pet["name"].clone())
        .collect();
    let expected = json!([
        "Changed", "Changed", "Changed", "Pet 5", "Pet 6", "Pet 7", "New 0", "New 1", "Mine",
    ]);
    assert_eq!(Value::from(names), expected);
    assert_eq!(server.pet_status(3).await, "sold");
    assert_eq!(server.pet_status(7).await, "pending");
}

async fn an_undo_can_be_repeated_and_undone(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(detailed("A")).await;
    server.create(detailed("B")).await;
    let before = pets(&server).await;
    let changes = json!([
        {"id": 1, "update": {"name": "A2"}}, {"id": 2, "delete": true}, {"create": detailed("C")},
    ]);
    change(&server, "a", changes).await;
    let after = pets(&server).await;
    for _ in 0..2 {
        assert_eq!(undo(&server, "a").await, json!([3, []]));
        assert_eq!(pets(&server).await, before);
        assert_eq!(undo(&server, "a").await, json!([0, []]));
        assert_eq!(pets(&server).await, before);
        assert_eq!(undo(&server, "undo-a").await, json!([3, []]));
        assert_eq!(pets(&server).await, after);
    }
    // A long id is shortened.
    let long = "x".repeat(64);
    change(&server, &long, json!([{"id": 1, "update": {"name": "A3"}}])).await;
    let undone = send(&server, &long, "{}").await.json();
    assert_eq!(undone["batchId"].as_str().unwrap().len(), 64);
    assert_eq!(pets(&server).await, after);
}

async fn a_batch_is_undone_in_parts(backend: Backend) {
    let server = Server::start(backend).await;
    for part in 0..3 {
        let new = |n| json!({"create": {"name": format!("{part} {n}"), "categoryId": 1}});
        change(&server, "a", (0..400).map(new).collect()).await;
    }
    let mut body = json!({});
    let mut undone = Vec::new();
    loop {
        let response = send(&server, "a", &body.to_string()).await.json();
        undone.push(response["undone"].as_i64().unwrap());
        assert_eq!(response["kept"], json!([]));
        let Some(next) = response.get("next") else {
            break;
        };
        body = json!({"cursor": next});
    }
    assert_eq!(undone.iter().sum::<i64>(), 1200);
    assert!(undone.iter().all(|part| *part <= 1000), "{undone:?}");
    assert_eq!(server.get("/v1/store/inventory").await.json()["total"], 0);
    // Large animals make smaller parts.
    let text = "x".repeat(2000);
    let large = json!({"name": "A", "categoryId": 1, "notes": text, "description": text});
    for _ in 0..2 {
        change(&server, "b", json!(vec![json!({"create": large}); 200])).await;
    }
    let first = send(&server, "b", "").await.json();
    assert!(
        first["next"].is_string() && first["undone"].as_i64().unwrap() < 400,
        "{first}"
    );
}

async fn changes_of_one_animal_are_undone_together(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(detailed("A")).await;
    let before = pets(&server).await;
    for name in ["B", "C"] {
        change(&server, "a", json!([{"id": 1, "update": {"name": name}}])).await;
    }
    change(&server, "a", json!([{"id": 1, "delete": true}])).await;
    let created = change(&server, "a", json!([{"create": detailed("D")}])).await;
    change(
        &server,
        "a",
        json!([{"id": created[0]["id"], "delete": true}]),
    )
    .await;
    assert_eq!(undo(&server, "a").await, json!([1, []]));
    assert_eq!(pets(&server).await, before);
    // A change that lies in between stays.
    change(&server, "b", json!([{"id": 1, "update": {"name": "B"}}])).await;
    server.patch("/v1/pets/1", r#"{"name":"Mine"}"#).await;
    change(&server, "b", json!([{"id": 1, "update": {"name": "C"}}])).await;
    assert_eq!(undo(&server, "b").await, json!([1, [[1, "changed"]]]));
    assert_eq!(server.get("/v1/pets/1").await.json()["name"], "Mine");
}

async fn microchips_go_back_to_their_animals(backend: Backend) {
    let server = Server::start(backend).await;
    for chip in ["100000001", "100000002", "100000003"] {
        server
            .create(json!({"name": "A", "categoryId": 1, "microchip": chip}))
            .await;
    }
    let before = pets(&server).await;
    let set = |id: i64, chip: Value| json!([{"id": id, "update": {"microchip": chip}}]);
    for (id, chip) in [
        (1, Value::Null),
        (2, json!("100000001")),
        (1, json!("100000002")),
    ] {
        change(&server, "a", set(id, chip)).await;
    }
    // An update cannot take a microchip that another update frees, so this takes two requests.
    let mut body = json!({});
    for _ in 0..4 {
        let response = send(&server, "a", &body.to_string()).await.json();
        assert_eq!(response["kept"], json!([]));
        match response.get("next") {
            Some(next) => body = json!({"cursor": next}),
            None => break,
        }
    }
    assert_eq!(pets(&server).await, before);
    // Another animal has it now.
    change(&server, "b", json!([{"id": 3, "delete": true}])).await;
    let other = json!({"name": "B", "categoryId": 1, "microchip": "100000003"});
    server.create(other).await;
    assert_eq!(
        undo(&server, "b").await,
        json!([0, [[3, "microchip_taken"]]])
    );
}

/// Categories that a batch has created are deleted, unless they are used or renamed, and come back
/// when the undo is undone.
async fn categories_go_with_the_animals(backend: Backend) {
    let server = Server::start(backend).await;
    server.put_category(1, "Dogs").await;
    let name = async |id: i64, name: &str| {
        let path = format!("/v1/categories/{id}");
        let body = json!({"name": name, "batchId": "a"}).to_string();
        let request = server.request(Method::PUT, &path).body(body);
        let request = request.header("content-type", "application/json");
        assert!(request.send().await.status < 300);
    };
    for (id, category) in [(2, "Lions"), (3, "Tigers"), (4, "Bears"), (5, "Wolves")] {
        name(id, category).await;
    }
    // A change of a name is no creation.
    name(1, "Hounds").await;
    let create = |id: i64| json!({"create": {"name": "A", "categoryId": id}});
    change(&server, "a", json!([create(2), create(3), create(4)])).await;
    server.put_category(3, "Big cats").await;
    server
        .create(json!({"name": "Bear", "categoryId": 4}))
        .await;
    let mut body = json!({});
    let mut categories = 0;
    loop {
        let part = send(&server, "a", &body.to_string()).await.json();
        assert_eq!(part["kept"], json!([]));
        categories += part["categories"].as_i64().unwrap();
        let Some(next) = part.get("next") else {
            break;
        };
        body = json!({"cursor": next});
    }
    assert_eq!(categories, 2);
    let names = async || {
        let names = server.walk("/v1/categories?limit=100").await;
        let names = names.into_iter().map(|it| it["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["Hounds", "Big cats", "Bears"]);
    // One of the names is taken in the meantime.
    server.put_category(9, "lions").await;
    let mut body = json!({});
    loop {
        let part = send(&server, "undo-a", &body.to_string()).await.json();
        let Some(next) = part.get("next") else {
            break;
        };
        body = json!({"cursor": next});
    }
    assert_eq!(
        names().await,
        ["Hounds", "Big cats", "Bears", "Wolves", "lions"]
    );
    // A batch that has only categories is undone, too.
    name(7, "Foxes").await;
    assert_eq!(send(&server, "a", "").await.json()["categories"], 1);
}

async fn an_unknown_batch_gets_404(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(detailed("A")).await;
    for id in ["unknown", "a%20b", &"x".repeat(65)] {
        send(&server, id, "").await.assert_error(404, "not_found");
    }
    change(&server, "a", json!([{"id": 1, "update": {"name": "B"}}])).await;
    for body in [r#"{"cursor":1}"#, r#"{"cursor":"x"}"#, r#"{"cursor":"0"}"#] {
        send(&server, "a", body)
            .await
            .assert_error(400, "invalid_body");
    }
    let conditional = server.request(Method::POST, "/v1/pets/batch/a/undo");
    let conditional = conditional.header("if-match", "*").send().await;
    conditional.assert_error(412, "precondition_failed");
    let text = server.request(Method::POST, "/v1/pets/batch/a/undo");
    let text = text
        .header("content-type", "text/plain")
        .body("{}")
        .send()
        .await;
    text.assert_error(415, "unsupported_media_type");
    assert_eq!(server.get("/v1/pets/1").await.json()["name"], "B");
    let rest = send(&server, "a", r#"{"cursor":"1"}"#).await;
    assert_eq!(rest.json()["undone"], 0);
}

async fn a_retried_undo_is_replayed(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(detailed("A")).await;
    change(&server, "a", json!([{"id": 1, "delete": true}])).await;
    let retry = |id: &str| {
        let request = server.request(Method::POST, &format!("/v1/pets/batch/{id}/undo"));
        request.header("idempotency-key", "k").send()
    };
    let first = retry("a").await;
    assert_eq!(first.json()["undone"], 1);
    let again = retry("a").await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.body, first.body);
    change(&server, "b", json!([{"id": 1, "delete": true}])).await;
    retry("b").await.assert_error(422, "idempotency_key_reused");
}
