//! `Idempotency-Key`: a retry replays the stored response instead of executing again.

use domain::api_key::Scope;
use futures_util::future::join_all;
use http::Method;
use jiff::SignedDuration;
use serde_json::json;
use support::{Backend, Response, eventually};

use crate::{
    client::Request,
    harness::{Server, ServerConfig},
};

support::cases! {
    DATABASES: [
        a_retry_replays_the_original_response,
        an_idempotency_key_is_bound_to_one_request_and_api_key,
        invalid_idempotency_keys_get_400,
        concurrent_retries_execute_once,
        idempotency_keys_expire_after_24_hours,
    ],
}

const PET: &str = r#"{"name":"Rex","categoryId":1,"status":"available"}"#;

fn idempotent_post<'a>(server: &'a Server, key: &str, path: &str, body: &str) -> Request<'a> {
    let request = server.request(Method::POST, path).body(body);
    request.header("idempotency-key", key)
}

/// The response is marked as a replay and equals the first one.
#[track_caller]
fn assert_replayed(response: &Response, first: &Response) {
    assert_eq!(first.header("idempotent-replayed"), None);
    assert_eq!(
        response.header("idempotent-replayed"),
        Some("true"),
        "{}",
        response.text()
    );
    assert_eq!(
        (response.status, &response.body),
        (first.status, &first.body)
    );
    assert_eq!(response.header("location"), first.header("location"));
    assert_eq!(
        response.header("content-type"),
        first.header("content-type")
    );
}

async fn a_retry_replays_the_original_response(backend: Backend) {
    let server = Server::start(backend).await;
    let mut pet = 0;
    let mut order = 0;
    for (key, path, body) in [
        ("create", "/v1/pets", PET),
        ("another", "/v1/pets", PET),
        ("place", "/v1/store/orders", r#"{"petId":1}"#),
        ("not available", "/v1/store/orders", r#"{ "petId": 1 }"#),
        ("not there", "/v1/store/orders", r#"{"petId":99}"#),
        ("complete", "/v1/store/orders/1/complete", ""),
        ("not open", "/v1/store/orders/1/cancel", ""),
        ("no order", "/v1/store/orders/99/cancel", ""),
        ("return", "/v1/store/orders/1/return", ""),
        ("not completed", "/v1/store/orders/1/return", ""),
        ("no such order", "/v1/store/orders/99/return", ""),
        ("place another", "/v1/store/orders", r#"{"petId":PET}"#),
        ("cancel", "/v1/store/orders/ORDER/cancel", "{}"),
    ] {
        let key = key.replace(' ', "-");
        let path = &path.replace("ORDER", &order.to_string());
        let body = &body.replace("PET", &pet.to_string());
        let first = idempotent_post(&server, &key, path, body).send().await;
        match &*key {
            "another" => pet = first.json()["id"].as_i64().unwrap(),
            "place-another" => order = first.json()["id"].as_i64().unwrap(),
            _ => {}
        }
        for _ in 0..2 {
            let again = idempotent_post(&server, &key, path, body).send().await;
            assert_replayed(&again, &first);
        }
    }
    assert_eq!(server.count_pets().await, 2);
    let orders = server.get("/v1/store/orders").await.json();
    assert_eq!(orders.as_array().unwrap().len(), 2);

    // Replays show the original outcome, whatever has changed since.
    server
        .patch("/v1/pets/1", r#"{"name":"Max","status":null}"#)
        .await;
    let created = idempotent_post(&server, "create", "/v1/pets", PET)
        .send()
        .await;
    assert_eq!(
        created.json(),
        json!({"id": 1, "name": "Rex", "categoryId": 1, "status": "available"})
    );
    let placed = idempotent_post(&server, "place", "/v1/store/orders", r#"{"petId":1}"#)
        .send()
        .await;
    assert_eq!(placed.json()["status"], "placed");
    assert_eq!(placed.json()["updatedAt"], placed.json()["createdAt"]);
    // The other pet is available again, and the replay does not reserve it.
    let order_body = &format!(r#"{{"petId":{pet}}}"#);
    let placed = idempotent_post(&server, "place-another", "/v1/store/orders", order_body);
    assert_eq!(placed.send().await.status, 201);
    assert_eq!(server.pet_status(pet).await, "available");
    let orders = server.get("/v1/store/orders").await.json();
    assert_eq!(orders.as_array().unwrap().len(), 2);
}

async fn an_idempotency_key_is_bound_to_one_request_and_api_key(backend: Backend) {
    let server = Server::start(backend).await;
    let first = idempotent_post(&server, "n", "/v1/pets", PET).send().await;
    assert_eq!(first.status, 201);
    for (path, body) in [
        ("/v1/pets", r#"{"name":"Max","categoryId":1}"#),
        ("/v1/pets", &format!("{PET} ")),
        ("/v1/store/orders", r#"{"petId":1}"#),
        ("/v1/store/orders/1/complete", ""),
        ("/v1/store/orders/1/cancel", ""),
        ("/v1/store/orders/1/return", ""),
    ] {
        let other = idempotent_post(&server, "n", path, body).send().await;
        other.assert_error(422, "idempotency_key_reused");
    }
    // The outcome of a rejected order is unknown to the other operations.
    let rejected = r#"{"petId":99}"#;
    let first = idempotent_post(&server, "r", "/v1/store/orders", rejected);
    first.send().await.assert_error(404, "not_found");
    for (path, body) in [
        ("/v1/pets", PET),
        ("/v1/store/orders/1/complete", ""),
        ("/v1/store/orders/1/cancel", ""),
        ("/v1/store/orders/1/return", ""),
    ] {
        let other = idempotent_post(&server, "r", path, body).send().await;
        other.assert_error(422, "idempotency_key_reused");
    }
    assert_eq!(server.count_pets().await, 1);
    let key = server.create_key(&Scope::ALL, None).await;
    let other = idempotent_post(&server, "n", "/v1/pets", PET)
        .with_key(&key)
        .send()
        .await;
    assert_eq!(
        (other.status, other.header("idempotent-replayed")),
        (201, None)
    );
    assert_eq!(server.count_pets().await, 2);
    // A request that was not executed does not use up its key.
    let bad = idempotent_post(&server, "m", "/v1/pets", "{}").send().await;
    bad.assert_error(400, "invalid_body");
    let good = idempotent_post(&server, "m", "/v1/pets", PET).send().await;
    assert_eq!(
        (good.status, good.header("idempotent-replayed")),
        (201, None)
    );
    // PATCH ignores the header: a merge patch is idempotent by itself.
    let change = server
        .request(Method::PATCH, "/v1/pets/1")
        .header("idempotency-key", "n");
    assert_eq!(change.body("{}").send().await.status, 200);
}

async fn invalid_idempotency_keys_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    let paths = [
        ("/v1/pets", PET),
        ("/v1/store/orders", r#"{"petId":1}"#),
        ("/v1/store/orders/1/complete", ""),
        ("/v1/store/orders/1/cancel", ""),
        ("/v1/store/orders/1/return", ""),
    ];
    for (path, body) in paths {
        for key in [
            "".as_bytes(),
            b"a b",
            b"a\tb",
            "ä".as_bytes(),
            b"\xff",
            &[b'x'; 256],
        ] {
            let request = server.request(Method::POST, path).body(body);
            let response = request.header("idempotency-key", key).send().await;
            response.assert_error(400, "invalid_parameter");
        }
        let twice = idempotent_post(&server, "a", path, body).header("idempotency-key", "a");
        twice.send().await.assert_error(400, "invalid_parameter");
    }
    assert_eq!(server.count_pets().await, 0);
    for key in [
        "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"",
        &"x".repeat(255),
        "~!@#",
    ] {
        assert_eq!(
            idempotent_post(&server, key, "/v1/pets", PET)
                .send()
                .await
                .status,
            201
        );
    }
}

async fn concurrent_retries_execute_once(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 0..4 {
        let key = format!("round-{round}");
        let pets =
            join_all((0..16).map(|_| idempotent_post(&server, &key, "/v1/pets", PET).send())).await;
        let pet = assert_executed_once(&pets, 201).json()["id"]
            .as_i64()
            .unwrap();
        assert_eq!(server.count_pets().await, round + 1);
        let order_body = format!("{{\"petId\":{pet}}}");
        let path = "/v1/store/orders";
        let orders =
            join_all((0..16).map(|_| {
                idempotent_post(&server, &format!("{key}-order"), path, &order_body).send()
            }))
            .await;
        let order = assert_executed_once(&orders, 201).json()["id"]
            .as_i64()
            .unwrap();
        let path = format!("/v1/store/orders/{order}/complete");
        let closed = join_all(
            (0..16).map(|_| idempotent_post(&server, &format!("{key}-sale"), &path, "").send()),
        );
        assert_executed_once(&closed.await, 200);
    }
}

/// Exactly one response is original; the others replay it.
#[track_caller]
fn assert_executed_once(responses: &[Response], status: u16) -> &Response {
    let is_first = |response: &&Response| response.header("idempotent-replayed").is_none();
    let firsts: Vec<_> = responses.iter().filter(is_first).collect();
    assert_eq!(firsts.len(), 1, "{responses:?}");
    assert_eq!(firsts[0].status, status, "{}", firsts[0].text());
    for again in responses.iter().filter(|response| !is_first(response)) {
        assert_replayed(again, firsts[0]);
    }
    firsts[0]
}

/// After retention, the same key may be used for another request.
async fn idempotency_keys_expire_after_24_hours(backend: Backend) {
    let at_once =
        |config: &mut ServerConfig| config.options.trust_clock_after = SignedDuration::ZERO;
    let server = Server::start_with(backend, at_once).await;
    let pass_hours = |hours: i64| {
        let micros = hours * 3_600_000_000;
        let age = format!("UPDATE idempotency_keys SET created_at = created_at - {micros}");
        server.database.execute(&age);
    };
    let first = idempotent_post(&server, "n", "/v1/pets", PET).send().await;
    pass_hours(23);
    let again = idempotent_post(&server, "n", "/v1/pets", PET).send().await;
    assert_replayed(&again, &first);
    pass_hours(5);
    let count = "SELECT count(*) || '' FROM idempotency_keys";
    let purged = async || server.database.query(count) == "0";
    eventually("the idempotency key is purged", purged).await;
    let other = idempotent_post(&server, "n", "/v1/pets", r#"{"name":"Max","categoryId":1}"#);
    assert_eq!(other.send().await.status, 201);
}
