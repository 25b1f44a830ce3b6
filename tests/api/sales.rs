//! The sale: buyer, price and reference of an order, and who may see the buyer.

use domain::api_key::Scope;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::Backend;

use crate::{harness::Server, pet_details::patch_incompletely};

support::cases! {
    DATABASES: [
        an_order_records_the_sale,
        the_price_of_the_order_stays_what_it_was,
        a_sale_is_corrected_by_a_merge_patch,
        if_match_prevents_lost_corrections,
        a_closed_order_is_not_corrected_but_its_buyer_is_erased,
        invalid_sales_are_rejected,
        only_keys_that_read_orders_see_the_buyer,
        a_retry_does_not_compare_the_buyer,
    ],
}

fn buyer() -> Value {
    json!({"name": "Ada Moreno", "address": "4 Orchard Street", "contact": "ada@example.com"})
}

fn sale(pet: i64) -> Value {
    json!({
        "petId": pet,
        "buyer": buyer(),
        "price": {"amount": 139_900, "currency": "USD"},
        "reference": "R-2026-1107",
    })
}

async fn create_pet(server: &Server, price: i64) -> i64 {
    let price = json!({"amount": price, "currency": "EUR"});
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available", "price": price});
    server.create(pet).await
}

async fn place(server: &Server, order: &Value) -> Value {
    let placed = server.post("/v1/store/orders", order.to_string()).await;
    assert_eq!(placed.status, 201, "{}", placed.text());
    placed.json()
}

fn updated_at(order: &Value) -> Timestamp {
    order["updatedAt"].as_str().unwrap().parse().unwrap()
}

async fn an_order_records_the_sale(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 45_000).await;
    let placed = place(&server, &sale(pet)).await;
    for member in ["buyer", "price", "reference"] {
        assert_eq!(placed[member], sale(pet)[member]);
    }
    let order = placed["id"].as_i64().unwrap();
    let completed = server.transition(order, "complete").await.json();
    assert_eq!(completed["buyer"], buyer());
    let stored = server
        .get(&format!("/v1/store/orders/{order}"))
        .await
        .json();
    assert_eq!(stored, completed);
    assert_eq!(server.get("/v1/store/orders").await.json(), json!([stored]));
    let returned = server.transition(order, "return").await.json();
    assert_eq!(returned["buyer"], buyer());

    // Events have everything but the buyer.
    let events = server
        .get("/v1/events?types=order.placed,order.returned")
        .await;
    assert!(!events.text().contains("Ada") && !events.text().contains("Orchard"));
    assert_eq!(events.json()[0]["data"]["price"]["amount"], 139_900);
    assert_eq!(events.json()[1]["data"]["reference"], "R-2026-1107");
}

async fn the_price_of_the_order_stays_what_it_was(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 45_000).await;
    let placed = place(&server, &json!({"petId": pet})).await;
    let price = json!({"amount": 45_000, "currency": "EUR"});
    assert_eq!(placed["price"], price);
    let path = format!("/v1/pets/{pet}");
    assert_eq!(
        server
            .patch(&path, r#"{"price":{"amount":1}}"#)
            .await
            .status,
        200
    );
    let order = format!("/v1/store/orders/{}", placed["id"]);
    assert_eq!(server.get(&order).await.json()["price"], price);
}

async fn a_sale_is_corrected_by_a_merge_patch(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 45_000).await;
    let mut expected = place(&server, &sale(pet)).await;
    let path = format!("/v1/store/orders/{}", expected["id"]);
    for (patch, member, value) in [
        (r#"{"reference":"R-8"}"#, "reference", json!("R-8")),
        (r#"{"reference":null}"#, "reference", Value::Null),
        (
            r#"{"buyer":{"contact":null}}"#,
            "buyer",
            json!({"name": "Ada Moreno", "address": "4 Orchard Street"}),
        ),
        (
            r#"{"price":{"amount":5}}"#,
            "price",
            json!({"amount": 5, "currency": "USD"}),
        ),
        (r#"{"buyer":null}"#, "buyer", Value::Null),
        (r#"{"buyer":{"name":"Bo"}}"#, "buyer", json!({"name": "Bo"})),
    ] {
        let corrected = server.patch(&path, patch).await;
        assert_eq!(corrected.status, 200, "{}", corrected.text());
        let corrected = corrected.json();
        assert!(updated_at(&corrected) >= updated_at(&expected));
        expected["updatedAt"] = corrected["updatedAt"].clone();
        match value {
            Value::Null => _ = expected.as_object_mut().unwrap().remove(member),
            value => expected[member] = value,
        }
        assert_eq!(corrected, expected, "{patch}");
        assert_eq!(server.get(&path).await.json(), expected);
    }
    // A patch that changes nothing logs no event.
    let before = server.get("/v1/events?limit=1&sort=desc").await.json();
    assert_eq!(before[0]["type"], "order.updated");
    assert_eq!(server.patch(&path, "{}").await.json(), expected);
    let after = server.get("/v1/events?limit=1&sort=desc").await.json();
    assert_eq!(before, after);
    let events = server.get("/v1/events").await.text();
    assert!(
        !events.contains("Bo\"") && !events.contains("Ada"),
        "{events}"
    );
}

async fn if_match_prevents_lost_corrections(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 1).await;
    let order = place(&server, &sale(pet)).await;
    let path = format!("/v1/store/orders/{}", order["id"]);
    let read = server.get(&path).await;
    let patch = |tag: &str, body: &str| {
        let request = server.request(Method::PATCH, &path).header("if-match", tag);
        request.body(body).send()
    };
    let tag = read.header("etag").unwrap();
    let corrected = patch(tag, r#"{"reference":"A"}"#).await;
    assert_eq!(corrected.status, 200);
    let lost = patch(tag, r#"{"reference":"B"}"#).await;
    lost.assert_error(412, "precondition_failed");
    let current = corrected.header("etag").unwrap();
    assert_eq!(patch(current, r#"{"reference":"B"}"#).await.status, 200);
    assert_eq!(patch("*", r#"{"reference":"C"}"#).await.status, 200);
    let request = server
        .request(Method::PATCH, &path)
        .header("if-none-match", "*");
    let unmet = request.body("{}").send().await;
    unmet.assert_error(412, "precondition_failed");
    let request = server.request(Method::PATCH, &path);
    let unsupported = request.header("content-type", "text/plain").body("{}");
    let unsupported = unsupported.send().await;
    unsupported.assert_error(415, "unsupported_media_type");
    let missing = server.patch("/v1/store/orders/99", "{}").await;
    missing.assert_error(404, "not_found");
}

async fn a_closed_order_is_not_corrected_but_its_buyer_is_erased(backend: Backend) {
    let server = Server::start(backend).await;
    for actions in [&["cancel"][..], &["complete", "return"]] {
        let pet = create_pet(&server, 1).await;
        let order = place(&server, &sale(pet)).await["id"].as_i64().unwrap();
        for action in actions {
            assert_eq!(server.transition(order, action).await.status, 200);
        }
        let path = format!("/v1/store/orders/{order}");
        for patch in [
            r#"{"reference":"A"}"#,
            r#"{"buyer":{"name":"B"}}"#,
            r#"{"buyer":null,"price":null}"#,
        ] {
            let rejected = server.patch(&path, patch).await;
            rejected.assert_error(409, "order_not_changeable");
        }
        let before = server.get(&path).await.json();
        assert_eq!(server.patch(&path, "{}").await.json(), before);
        let erased = server.patch(&path, r#"{"buyer":null}"#).await;
        assert_eq!(erased.json().get("buyer"), None);
        assert_eq!(server.get(&path).await.json(), erased.json());
    }
}

async fn invalid_sales_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 1).await;
    for (member, value, message) in [
        (
            "buyer",
            json!("Ada"),
            "buyer: must be an object, got a string",
        ),
        ("buyer", json!({}), "buyer.name: required; must be a string"),
        (
            "buyer",
            json!({"name": "x".repeat(201)}),
            "buyer.name: must be 1 to 200 characters long, got 201",
        ),
        (
            "price",
            json!({"amount": 1, "currency": "XXX"}),
            "price.currency: must be the code",
        ),
        (
            "reference",
            json!(""),
            "reference: must be 1 to 100 characters long, got 0",
        ),
    ] {
        let mut order = json!({"petId": pet});
        order[member] = value.clone();
        let request = server.request(Method::POST, "/v1/store/orders");
        let rejected = request.body(order.to_string()).send().await;
        rejected.assert_error(400, "invalid_body");
        let got = rejected.json()["message"].as_str().unwrap().to_string();
        assert!(got.starts_with(message), "{got}");
    }
    let order = place(&server, &json!({"petId": pet})).await;
    let path = format!("/v1/store/orders/{}", order["id"]);
    let incomplete = patch_incompletely(&server, &path, r#"{"buyer":{"contact":"x"}}"#).await;
    incomplete.assert_error(400, "invalid_body");
    assert_eq!(
        incomplete.json()["message"],
        "buyer.name: required; must be a string"
    );
    server
        .patch(&path, "[]")
        .await
        .assert_error(400, "invalid_body");
}

async fn only_keys_that_read_orders_see_the_buyer(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 1).await;
    let writer = server.create_key(&[Scope::OrdersWrite], None).await;
    let send = |method, path: String, body: String| {
        let request = server.request(method, &path).with_key(&writer);
        request.body(body).send()
    };
    let placed = send(
        Method::POST,
        "/v1/store/orders".into(),
        sale(pet).to_string(),
    )
    .await;
    assert_eq!(placed.status, 201);
    assert_eq!(placed.json().get("buyer"), None);
    assert_eq!(placed.json()["reference"], "R-2026-1107");
    let path = format!("/v1/store/orders/{}", placed.json()["id"]);
    let corrected = send(Method::PATCH, path.clone(), r#"{"reference":"R-8"}"#.into()).await;
    assert_eq!(corrected.json().get("buyer"), None);
    let completed = send(Method::POST, format!("{path}/complete"), String::new()).await;
    assert_eq!(completed.json().get("buyer"), None);
    let hidden = send(Method::GET, path.clone(), String::new()).await;
    hidden.assert_error(403, "insufficient_scope");
    assert_eq!(server.get(&path).await.json()["buyer"], buyer());
    // The response to a change of a part does not tell whether there is a buyer.
    for buyer in [r#"{"name":"Ada"}"#, "null"] {
        let body = format!(r#"{{"buyer":{buyer}}}"#);
        assert_eq!(server.patch(&path, body).await.status, 200);
        for part in ["{}", r#"{"contact":"c"}"#, r#"{"address":null}"#] {
            let body = format!(r#"{{"buyer":{part}}}"#);
            let request = server.request(Method::PATCH, &path).with_key(&writer);
            let rejected = request.body(body).skip_body_check().send().await;
            rejected.assert_error(400, "invalid_body");
            assert_eq!(
                rejected.json()["message"],
                "buyer.name: required from an API key without the scope orders:read"
            );
        }
        let body = r#"{"buyer":{"name":"Bo","contact":"c"}}"#.to_string();
        assert_eq!(send(Method::PATCH, path.clone(), body).await.status, 200);
    }
    // What a key cannot read does not decide whether its precondition holds.
    let tag = corrected.header("etag").unwrap().to_string();
    let request = server.request(Method::PATCH, &path).with_key(&writer);
    let stale = request.header("if-match", &tag).body("{}").send().await;
    stale.assert_error(412, "precondition_failed");
}

async fn a_retry_does_not_compare_the_buyer(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create_pet(&server, 1).await;
    let post = |order: Value| {
        let request = server.request(Method::POST, "/v1/store/orders");
        let request = request.header("idempotency-key", "sale");
        request.body(order.to_string()).send()
    };
    let first = post(sale(pet)).await;
    assert_eq!(first.status, 201);
    let again = post(sale(pet)).await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.body, first.body);
    let path = format!("/v1/store/orders/{}", first.json()["id"]);
    assert_eq!(server.patch(&path, r#"{"buyer":null}"#).await.status, 200);
    let erased = post(sale(pet)).await;
    assert_eq!(erased.header("idempotent-replayed"), Some("true"));
    assert_eq!(erased.json().get("buyer"), None);
    let mut other = sale(pet);
    other["buyer"]["name"] = "Bo".into();
    assert_eq!(post(other.clone()).await.body, erased.body);
    other["reference"] = "R-9".into();
    post(other)
        .await
        .assert_error(422, "idempotency_key_reused");
}
