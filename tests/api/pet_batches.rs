//! `POST /pets/batch`: many changes in one request, with a result for each.

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::{
    client::{Connection, Request},
    harness::Server,
};

support::cases! {
    DATABASES: [
        each_change_has_the_result_of_the_operation_that_makes_it,
        a_batch_has_the_events_of_its_changes,
        a_rejected_change_of_an_atomic_batch_rejects_all,
        a_batch_without_the_shape_of_one_gets_400,
        an_update_names_the_values_that_it_replaces,
        unknown_members_are_rejected_with_strict_handling,
        a_retry_replays_the_results,
        microchips_are_unique_within_a_batch,
        batches_and_sales_are_serialized,
        a_batch_is_limited_in_size,
        a_batch_counts_as_a_request_for_every_hundred_changes,
        batches_over_the_limit_are_shed,
    ],
}

fn batch<'a>(server: &'a Server, body: &Value) -> Request<'a> {
    let request = server.request(Method::POST, "/v1/pets/batch");
    request.body(body.to_string())
}

async fn send(server: &Server, changes: Value) -> Response {
    batch(server, &json!({"changes": changes})).send().await
}

/// The status, the id and the code of the error of each result.
fn results(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    let results = body["results"].as_array().unwrap().iter();
    let shown = results.map(|it| json!([it["status"], it["id"], it["error"]["code"]]));
    shown.collect()
}

async fn create(server: &Server, name: &str, status: &str) -> i64 {
    let pet = json!({"name": name, "categoryId": 1, "status": status});
    server.create(pet).await
}

fn new(name: &str) -> Value {
    json!({"create": {"name": name, "categoryId": 1}})
}

async fn names(server: &Server) -> Vec<String> {
    let pets = server.walk("/v1/pets?limit=100").await;
    let names = pets.iter().map(|pet| pet["name"].as_str().unwrap().into());
    names.collect()
}

async fn each_change_has_the_result_of_the_operation_that_makes_it(backend: Backend) {
    let server = Server::start(backend).await;
    for name in ["A", "B", "C", "D", "E", "F"] {
        create(&server, name, "available").await;
    }
    server.place_order(4).await;
    let sale = server.place_order(5).await;
    assert_eq!(server.transition(sale, "complete").await.status, 200);
    let tag = server.get("/v1/pets/6").await;
    let tag = tag.header("etag").unwrap();
    let changes = json!([
        {"create": {"name": "G", "categoryId": 2, "microchip": "123 456 789"}},
        {"id": 1, "update": {"name": "A2", "location": "Kennel 4"}},
        {"id": 2, "delete": true},
        {"id": 99, "update": {}},
        {"id": 98, "delete": true},
        {"id": 3, "update": {"name": "C2"}, "ifMatch": "\"x\""},
        {"id": 6, "update": {"name": "F2"}, "ifMatch": format!("\"x\", {tag}")},
        {"id": 97, "delete": true, "ifMatch": "\"x\""},
        {"id": 4, "delete": true, "ifMatch": "*"},
        {"id": 5, "update": {"status": "available"}},
        {"create": {"name": "", "categoryId": "1"}},
        {"id": 1, "delete": true},
        {"id": 96, "update": {"name": null}},
        {"create": {"name": "H", "categoryId": 1, "microchip": "123456789"}},
        {"create": {"name": "I", "categoryId": 1}, "id": 7, "unknown": true},
    ]);
    let response = send(&server, changes).await;
    let expected = json!([
        [201, 7, null],
        [200, 1, null],
        [204, 2, null],
        [404, 99, "not_found"],
        [404, 98, "not_found"],
        [412, 3, "precondition_failed"],
        [200, 6, null],
        [404, 97, "not_found"],
        [409, 4, "pet_reserved"],
        [409, 5, "pet_sold"],
        [400, null, "invalid_body"],
        [400, 1, "invalid_body"],
        [400, 96, "invalid_body"],
        [409, null, "microchip_taken"],
    ]);
    let results = results(&response);
    assert_eq!(Value::from(results[..14].to_vec()), expected);
    assert_eq!(results[14][0], 201);
    let body = response.json();
    assert_eq!(body["batchId"].as_str().unwrap().len(), 32);
    for (index, message) in [
        (
            8,
            "an open order reserves this pet; complete or cancel the order first",
        ),
        (
            10,
            "name: must be 1 to 255 characters long, got 0; categoryId: must be an integer from -9223372036854775808 to 9223372036854775807, got a string",
        ),
        (
            11,
            "id: pet 1 is already changed by changes[1]; a batch changes a pet once",
        ),
    ] {
        assert_eq!(body["results"][index]["error"]["message"], message);
        assert_eq!(
            body["results"][index]["error"]["status"],
            body["results"][index]["status"]
        );
    }
    assert_eq!(names(&server).await, ["A2", "C", "D", "E", "F2", "G", "I"]);
    let inventory = server.get("/v1/store/inventory").await.json();
    let expected = json!({"available": 3, "pending": 1, "sold": 1, "total": 7});
    assert_eq!(inventory, expected);
    let found = server.get("/v1/pets?microchip=123456789").await.json();
    assert_eq!(found[0]["id"], 7);
    assert_eq!(
        server.get("/v1/pets/1").await.json()["location"],
        "Kennel 4"
    );
}

async fn a_batch_has_the_events_of_its_changes(backend: Backend) {
    let server = Server::start(backend).await;
    for name in ["A", "B", "C"] {
        create(&server, name, "available").await;
    }
    let changes = json!([
        {"id": 2, "delete": true},
        new("D"),
        {"id": 1, "update": {"name": "A2"}},
        {"id": 3, "update": {"name": "C"}},
        {"id": 99, "delete": true},
    ]);
    let sent = send(&server, changes).await;
    let id = sent.json()["results"][1]["id"].clone();
    let events = server.get("/v1/events").await.json();
    let events = events.as_array().unwrap()[3..].iter();
    let shown: Vec<_> = events
        .map(|it| json!([it["type"], it["data"]["name"], it["keyid"]]))
        .collect();
    let expected = json!([
        ["pet.deleted", "B", "1"],
        ["pet.created", "D", "1"],
        ["pet.updated", "A2", "1"],
    ]);
    assert_eq!(Value::from(shown), expected);
    let created = server.get(&format!("/v1/events?subject=pets/{id}")).await;
    assert_eq!(created.json().as_array().unwrap().len(), 1);
    // They have the id of the batch in common, and can be read by it.
    let batch_id = sent.json()["batchId"].clone();
    let path = format!("/v1/events?batch={}", batch_id.as_str().unwrap());
    let of_batch = server.get(&path).await.json();
    assert_eq!(of_batch.as_array().unwrap().len(), 3);
    for event in of_batch.as_array().unwrap() {
        assert_eq!(event["batchid"], batch_id);
    }
    let all = server.get("/v1/events").await.json();
    assert_eq!(all[0].get("batchid"), None);
    let none = server.get("/v1/events?batch=other&sort=desc").await.json();
    assert_eq!(none, json!([]));
    let invalid = server.get("/v1/events?batch=a/b").await;
    invalid.assert_error(400, "invalid_parameter");
}

async fn a_rejected_change_of_an_atomic_batch_rejects_all(backend: Backend) {
    let server = Server::start(backend).await;
    create(&server, "A", "available").await;
    create(&server, "B", "available").await;
    server.place_order(2).await;
    let events = server.get("/v1/events").await.json();
    let send = |changes: Value| batch(&server, &json!({"changes": changes, "atomic": true})).send();
    for (changes, message) in [
        (
            json!([new("C"), {"create": {"name": "D"}}]),
            "changes[1]: categoryId: required; must be an integer",
        ),
        (
            json!([{"create": {"name": ""}}]),
            "changes[0]: name: must be",
        ),
        (
            json!([new("C"), {"id": 99, "delete": true}, {"create": {}}]),
            "changes[1]: petId: no pet has this id",
        ),
        (
            json!([{"id": 1, "update": {"name": "C"}}, {"id": 2, "delete": true}]),
            "changes[1]: an open order reserves this pet",
        ),
        (
            json!([{"id": 1, "delete": true, "ifMatch": "W/\"x\""}]),
            "changes[0]: If-Match: the pet has changed",
        ),
        (
            json!([{"id": 1, "update": {"name": "C"}}, {"id": 1, "delete": true}]),
            "changes[1]: id: pet 1 is already changed by changes[0]",
        ),
    ] {
        // Plain creates may share its transaction.
        let mixed = (0..4).map(|_| server.post("/v1/pets", r#"{"name":"E","categoryId":1}"#));
        let (response, created) = tokio::join!(send(changes), join_all(mixed));
        response.assert_error(409, "batch_rejected");
        let body = response.json();
        let got = body["message"].as_str().unwrap();
        assert!(got.starts_with(message), "{got}");
        assert!(got.ends_with("nothing was changed, because the batch is atomic"));
        for created in created {
            assert_eq!(created.status, 201);
            let path = format!("/v1/pets/{}", created.json()["id"]);
            assert_eq!(server.delete(&path).await.status, 204);
        }
    }
    assert_eq!(names(&server).await, ["A", "B"]);
    let path = "/v1/events?types=pet.updated,order.placed";
    let after = server.get(path).await.json();
    assert_eq!(
        after.as_array().unwrap()[..],
        events.as_array().unwrap()[2..]
    );
    let made = send(json!([new("C"), {"id": 1, "delete": true}])).await;
    assert_eq!(made.status, 200);
    assert_eq!(names(&server).await, ["B", "C"]);
}

async fn a_batch_without_the_shape_of_one_gets_400(backend: Backend) {
    let server = Server::start(backend).await;
    for (body, field) in [
        (json!({}), "changes: required"),
        (json!({"changes": []}), "changes: must be"),
        (json!({"changes": "x"}), "changes: must be"),
        (
            json!({"changes": [new("A"), {}]}),
            "changes[1]: must have one",
        ),
        (json!({"changes": [{"id": 1}]}), "changes[0]: must have one"),
        (
            json!({"changes": [{"id": 1, "update": {}, "delete": true}]}),
            "changes[0]: must have one",
        ),
        (
            json!({"changes": [{"create": {}, "update": {}}]}),
            "changes[0]: must have one",
        ),
        (
            json!({"changes": [{"update": {}}]}),
            "changes[0].id: required",
        ),
        (
            json!({"changes": [{"create": 1}]}),
            "changes[0].create: must",
        ),
        (
            json!({"changes": [{"id": 1, "update": null}]}),
            "changes[0].update: must",
        ),
        (
            json!({"changes": [{"id": "1", "delete": true}]}),
            "changes[0].id: must",
        ),
        (
            json!({"changes": [{"id": 1, "delete": false}]}),
            "changes[0].delete: must",
        ),
        (
            json!({"changes": [{"id": 1, "delete": true, "ifMatch": 1}]}),
            "changes[0].ifMatch: must",
        ),
        (
            json!({"changes": [new("A")], "atomic": null}),
            "atomic: must",
        ),
        (
            json!({"changes": [new("A")], "batchId": ""}),
            "batchId: must",
        ),
        (
            json!({"changes": [new("A")], "batchId": "a".repeat(65)}),
            "batchId: must",
        ),
        (
            json!({"changes": vec![new("A"); 1001]}),
            "changes: must be an array of 1 to 1000 changes, got 1001",
        ),
    ] {
        let response = batch(&server, &body).send().await;
        response.assert_error(400, "invalid_body");
        let body = response.json();
        let message = body["message"].as_str().unwrap();
        assert!(message.starts_with(field), "{message}");
    }
    let not_json = server.post("/v1/pets/batch", r#"{"changes":[{"create":{}}"#);
    not_json.await.assert_error(400, "invalid_json");
    let twice = r#"{"changes":[{"create":{"name":"A","name":"B","categoryId":1}}]}"#;
    let twice = server.post("/v1/pets/batch", twice).await;
    twice.assert_error(400, "invalid_json");
    let body = json!({"changes": [new("A")]});
    let conditional = batch(&server, &body).header("if-match", "*").send().await;
    conditional.assert_error(412, "precondition_failed");
    let text = batch(&server, &body).header("content-type", "text/csv");
    text.send()
        .await
        .assert_error(415, "unsupported_media_type");
    assert_eq!(server.count_pets().await, 0);
    let named = json!({"changes": [new("A")], "batchId": "A-z_9"});
    let named = batch(&server, &named).send().await;
    assert_eq!(named.json()["batchId"], "A-z_9");
}

/// An update is made on what a person has seen.
async fn an_update_names_the_values_that_it_replaces(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = json!({"name": "A", "categoryId": 1, "status": "available",
                     "price": {"amount": 1, "currency": "EUR"}, "source": {"name": "S"},
                     "metadata": {"a": "b"}});
    for (update, expected, status) in [
        (json!({"name": "B"}), json!({"name": "A"}), 200),
        // Other members may have changed.
        (json!({"name": "B"}), json!({}), 200),
        (json!({"name": "B"}), json!({"name": "C"}), 412),
        // It already has the new value.
        (json!({"name": "A"}), json!({"name": "C"}), 200),
        (json!({"location": "L"}), json!({"location": null}), 200),
        (json!({"status": "sold"}), json!({"status": null}), 412),
        (
            json!({"price": {"amount": 2, "currency": "EUR"}}),
            json!({"price": {"amount": 1, "currency": "USD"}}),
            412,
        ),
        (
            json!({"source": null}),
            json!({"source": {"name": "S", "address": null}}),
            200,
        ),
        (
            json!({"source": null}),
            json!({"source": {"name": "S", "address": "T"}}),
            412,
        ),
        (
            json!({"source": {"name": "T"}}),
            json!({"source": null}),
            412,
        ),
        (
            json!({"metadata": {"c": "d"}}),
            json!({"metadata": {"c": null}}),
            200,
        ),
        (
            json!({"metadata": {"a": "d"}}),
            json!({"metadata": {"a": null}}),
            412,
        ),
        (json!({"name": "B"}), json!({"name": ""}), 400),
        (json!({"name": ""}), json!({"name": "A"}), 400),
    ] {
        let id = server.create(pet.clone()).await;
        let change = json!({"id": id, "update": update, "expected": expected});
        let response = send(&server, json!([change])).await.json();
        let result = &response["results"][0];
        assert_eq!(result["status"], status, "{change}: {result}");
        let stored = server.get(&format!("/v1/pets/{id}")).await.json();
        let mut unchanged = pet.clone();
        unchanged["id"] = id.into();
        assert!(status == 200 || stored == unchanged, "{stored}");
    }
}

async fn unknown_members_are_rejected_with_strict_handling(backend: Backend) {
    let server = Server::start(backend).await;
    let strict = |body: Value| {
        let request = batch(&server, &body);
        request.header("prefer", "handling=strict").send()
    };
    for (body, expected) in [
        (
            json!({"changes": [new("A")], "atomc": true}),
            r#"unknown member "atomc"; known: changes, atomic, batchId, import"#,
        ),
        (
            json!({"changes": [new("A"), {"create": {}, "id": 1}]}),
            r#"changes[1]: unknown member "id"; known: create"#,
        ),
        (
            json!({"changes": [{"id": 1, "delete": true, "if-match": "x"}]}),
            r#"changes[0]: unknown member "if-match"; known: id, delete, ifMatch"#,
        ),
    ] {
        let response = strict(body).await;
        response.assert_error(400, "invalid_body");
        assert_eq!(response.json()["message"], expected);
    }
    let nested = json!([
        new("A"),
        {"create": {"name": "B", "categoryId": 1, "price": {"cents": 1}, "id": 1}},
    ]);
    let response = strict(json!({"changes": nested})).await;
    let expected = json!([[201, 1, null], [400, null, "invalid_body"]]);
    assert_eq!(Value::from(results(&response)), expected);
    let message = response.json()["results"][1]["error"]["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.contains(r#"unknown member "id""#), "{message}");
    assert!(
        message.contains(r#"price: unknown member "cents""#),
        "{message}"
    );
    assert_eq!(names(&server).await, ["A"]);
}

async fn a_retry_replays_the_results(backend: Backend) {
    let server = Server::start(backend).await;
    create(&server, "A", "available").await;
    let body = json!({"changes": [
        new("B"),
        {"id": 1, "update": {"name": "A2"}},
        {"id": 99, "delete": true},
        {"create": {"name": "C", "categoryId": 1, "microchip": "123456789"}},
        {"create": {"name": "D", "categoryId": 1, "microchip": "123456789"}},
        {"create": {"name": "E"}},
        {"id": 1, "delete": true},
    ]});
    let retry = |key: &str, body: &Value| {
        let request = batch(&server, body);
        request.header("idempotency-key", key).send()
    };
    let responses = join_all((0..8).map(|_| retry("a", &body))).await;
    let firsts = responses
        .iter()
        .filter(|response| response.header("idempotent-replayed").is_none());
    assert_eq!(firsts.count(), 1);
    server.patch("/v1/pets/1", r#"{"name":"A3"}"#).await;
    let again = retry("a", &body).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    for response in &responses {
        assert_eq!(response.json(), again.json());
    }
    let statuses: Vec<_> = results(&again).iter().map(|it| it[0].clone()).collect();
    assert_eq!(statuses, [201, 200, 404, 201, 409, 400, 400]);
    assert_eq!(names(&server).await, ["A3", "B", "C"]);
    let other = retry("a", &json!({"changes": [new("B")]})).await;
    other.assert_error(422, "idempotency_key_reused");

    // Nothing was changed by a batch that was rejected, so it is decided again.
    let atomic =
        json!({"changes": [{"id": 1, "update": {"microchip": "123456789"}}], "atomic": true});
    let rejected = retry("b", &atomic).await;
    rejected.assert_error(409, "batch_rejected");
    let holder = server.get("/v1/pets?microchip=123456789").await.json()[0]["id"].clone();
    server.delete(&format!("/v1/pets/{holder}")).await;
    let made = retry("b", &atomic).await;
    assert_eq!(
        (made.status, made.header("idempotent-replayed")),
        (200, None)
    );
    let replayed = retry("b", &atomic).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.body, made.body);
}

async fn microchips_are_unique_within_a_batch(backend: Backend) {
    let server = Server::start(backend).await;
    let with_chip = |name: &str, chip: &str| json!({"create": {"name": name, "categoryId": 1, "microchip": chip}});
    let taken = json!([409, null, "microchip_taken"]);
    let first = send(
        &server,
        json!([
            with_chip("A", "100000001"),
            with_chip("B", "100000002"),
            with_chip("C", "100000003")
        ]),
    )
    .await;
    assert_eq!(results(&first)[2][0], 201);
    // A deletion or an update makes room for an animal that is added, but not before it.
    let moved = json!([
        with_chip("D", "100000001"),
        {"id": 1, "delete": true},
        with_chip("E", "100000001"),
        with_chip("F", "100000001"),
        {"id": 2, "update": {"microchip": null}},
        with_chip("G", "100000002"),
    ]);
    let moved = results(&send(&server, moved).await);
    let statuses: Vec<_> = moved.iter().map(|it| it[0].clone()).collect();
    assert_eq!(statuses, [409, 204, 201, 409, 200, 201]);
    assert_eq!(moved[0], taken);
    // An update cannot take what another update of the batch frees: the database checks each
    // row as it is written.
    let swapped = json!([
        {"id": 3, "update": {"status": "sold"}},
        {"id": 2, "update": {"microchip": "100000003"}},
        with_chip("H", "100000003"),
    ]);
    let swapped = results(&send(&server, swapped).await);
    assert_eq!(swapped[0][0], 200);
    assert_eq!(swapped[1], json!([409, 2, "microchip_taken"]));
    assert_eq!(swapped[2][0], 201);
    let holder = server.get("/v1/pets?microchip=100000003").await.json();
    assert_eq!(holder.as_array().unwrap().len(), 2);
}

/// Batches that withdraw animals compete with orders for them: each animal is either ordered or
/// withdrawn.
async fn batches_and_sales_are_serialized(backend: Backend) {
    let server = Server::start(backend).await;
    let count = 40;
    for n in 0..count {
        create(&server, &format!("Pet {n}"), "available").await;
    }
    let withdraw: Vec<_> = (1..=count)
        .map(|id| json!({"id": id, "update": {"status": null}}))
        .collect();
    let batches = (0..4).map(|_| send(&server, Value::from(withdraw.clone())));
    let orders = (1..=count).map(|id| server.post_order(id));
    let (batches, orders) = tokio::join!(join_all(batches), join_all(orders));
    let outcomes: Vec<_> = batches.iter().map(results).collect();
    for (index, order) in orders.iter().enumerate() {
        let pet = index as i64 + 1;
        let last = outcomes
            .iter()
            .map(|batch| batch[index][0].as_i64().unwrap());
        if order.status == 201 {
            assert_eq!(server.pet_status(pet).await, "pending");
            assert_eq!(last.max(), Some(409), "a batch came after the order");
        } else {
            order.assert_error(409, "pet_not_available");
            assert_eq!(server.pet_status(pet).await, Value::Null);
            assert_eq!(last.max(), Some(200));
        }
    }
}

async fn a_batch_is_limited_in_size(backend: Backend) {
    let server = Server::start(backend).await;
    let mut full = json!({"changes": vec![new("A"); 1000], "x": ""});
    let padding = (1 << 20) - full.to_string().len();
    full["x"] = Value::from("x".repeat(padding));
    let response = batch(&server, &full).send().await;
    assert!(results(&response).iter().all(|it| it[0] == 201));
    full["x"] = Value::from("x".repeat(padding + 1));
    let response = batch(&server, &full).send().await;
    response.assert_error(413, "body_too_large");
    let over_http2 = batch(&server, &full).over_http2().send().await;
    over_http2.assert_error(413, "body_too_large");
    // Without a length, the buffer is that of other operations.
    let chunk = "x".repeat(65536);
    let request = format!(
        "POST /v1/pets/batch HTTP/1.1\r\nHost: x\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n\
         10000\r\n{chunk}\r\n1\r\nx\r\n0\r\n\r\n"
    );
    let mut connection = Connection::open(&server).await;
    connection.send(&request).await;
    let response = connection.last_response("POST /v1/pets/batch").await;
    response.assert_error(413, "body_too_large");
    let inventory = server.get("/v1/store/inventory").await.json();
    assert_eq!(inventory["total"], 1000);
}

async fn a_batch_counts_as_a_request_for_every_hundred_changes(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.rate_limit = Some("10/24h".parse().unwrap());
    })
    .await;
    let remaining = |response: &Response| {
        let limit = response.header("ratelimit").unwrap();
        let (_, rest) = limit.split_once(";r=").unwrap();
        rest.split_once(';').unwrap().0.to_string()
    };
    let one = send(&server, json!([new("A")])).await;
    assert_eq!((one.status, &*remaining(&one)), (200, "9"));
    let more = send(&server, json!(vec![new("A"); 201])).await;
    assert_eq!((more.status, &*remaining(&more)), (200, "6"));
    let too_many = send(&server, json!(vec![new("A"); 601])).await;
    too_many.assert_error(429, "rate_limited");
    assert!(too_many.header("retry-after").is_some());
    let rest = send(&server, json!(vec![new("A"); 500])).await;
    assert_eq!((rest.status, &*remaining(&rest)), (200, "0"));
    server
        .get("/v1/pets")
        .await
        .assert_error(429, "rate_limited");
    let count = "SELECT count(*) || '' FROM pets";
    assert_eq!(server.database.query(count), "702");
}

async fn batches_over_the_limit_are_shed(backend: Backend) {
    let server = Server::start(backend).await;
    create(&server, "A", "available").await;
    let mut lock = Some(server.database.lock());
    let sent = (0..17).map(|_| send(&server, json!([new("B")])));
    let mut responses = sent.collect::<FuturesUnordered<_>>();
    let mut statuses = Vec::new();
    while let Some(response) = responses.next().await {
        if response.status == 503 {
            let message = "too many batches are being worked on; nothing was changed, retry later";
            assert_eq!(response.json()["message"], message);
            lock = None;
        }
        statuses.push(response.status);
    }
    assert!(lock.is_none());
    assert_eq!(
        statuses.iter().filter(|it| **it == 200).count(),
        16,
        "{statuses:?}"
    );
    assert_eq!(server.count_pets().await, 17);
    assert_eq!(server.metric("petstore_shed_requests_total").await, 1.0);
}
