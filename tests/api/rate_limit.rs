//! Rate limits: per API key, and per address for failed authentication.
//!
//! Tests that count requests use a window of a day, so that nothing is replenished while
//! they run.

use domain::api_key::{ApiKeySecret, Scope};
use futures_util::future::join_all;
use http::Method;
use jiff::Timestamp;
use serde_json::json;
use support::{Backend, Response, eventually};

use crate::{client::Request, contract, harness::Server};

support::cases! {
    ALL: [
        no_rate_limit_headers_without_a_limit,
        every_authenticated_response_reports_the_remaining_quota,
        requests_over_the_limit_get_429_and_have_no_effect,
        concurrent_requests_cannot_exceed_the_limit,
        the_quota_is_replenished,
        refreshing_the_keys_keeps_their_usage,
        failed_authentication_is_limited_per_address,
        failed_authentication_is_limited_by_default,
        failed_authentication_is_limited_while_keys_cannot_be_read,
        a_limited_address_triggers_no_key_lookup,
    ],
}

async fn start_with_key_limit(backend: Backend, limit: &str) -> Server {
    Server::start_with(backend, |config| {
        config.service.api.rate_limit = Some(limit.parse().unwrap());
    })
    .await
}

async fn start_with_address_limit(backend: Backend, limit: &str) -> Server {
    Server::start_with(backend, |config| {
        config.service.api.failed_auth_limit = limit.parse().unwrap();
    })
    .await
}

fn has_no_rate_limit_headers(response: &Response) -> bool {
    response.header("ratelimit").is_none() && response.header("ratelimit-policy").is_none()
}

/// A 429 whose message agrees with its `Retry-After` and `RateLimit` headers.
#[track_caller]
fn assert_limited(response: &Response, message: &str) {
    response.assert_error(429, "rate_limited");
    let wait = response.header("retry-after").unwrap();
    let message = format!("{message}; retry in {wait}s");
    assert_eq!(response.json()["message"], message);
    if let Some(current) = response.header("ratelimit") {
        assert_eq!(current, format!("\"default\";r=0;t={wait}"));
    }
}

async fn no_rate_limit_headers_without_a_limit(backend: Backend) {
    let server = Server::start(backend).await;
    for path in ["/v1/pets", "/v1/pets/1", "/v1/nothing"] {
        assert!(has_no_rate_limit_headers(&server.get(path).await), "{path}");
    }
}

async fn every_authenticated_response_reports_the_remaining_quota(backend: Backend) {
    let server = start_with_key_limit(backend, "100/24h").await;
    let orders_only = server.create_key(&[Scope::OrdersRead], None).await;
    let tag = server.get("/v1/pets").await;
    let tag = tag.header("etag").unwrap();
    let request = |method: Method, path: &str| server.request(method, path);
    let requests = [
        (request(Method::GET, "/v1/pets"), 200),
        (
            request(Method::GET, "/v1/pets").header("if-none-match", tag),
            304,
        ),
        (request(Method::HEAD, "/v1/pets"), 200),
        (request(Method::POST, "/v1/pets").body(contract::BODY), 201),
        (request(Method::POST, "/v1/pets").body("{}"), 400),
        (request(Method::GET, "/v1/pets/9"), 404),
        (request(Method::GET, "/v1/nothing"), 404),
        (request(Method::DELETE, "/v1/pets"), 405),
        (request(Method::GET, "/v1/pets").over_http2(), 200),
    ];
    for (left, (request, status)) in (0..99).rev().zip(requests) {
        let response = request.send().await;
        assert_eq!(response.status, status);
        let policy = response.header("ratelimit-policy");
        assert_eq!(policy, Some("\"default\";q=100;w=86400"));
        let current = response.header("ratelimit").unwrap();
        let expected = format!("\"default\";r={left};t=");
        assert!(current.starts_with(&expected), "{left}: {current}");
    }
    // Each key has its own quota.
    let response = request(Method::GET, "/v1/pets")
        .with_key(&orders_only)
        .send()
        .await;
    response.assert_error(403, "insufficient_scope");
    assert!(response.header("ratelimit").unwrap().contains(";r=99;"));
    // Public endpoints and unauthenticated responses carry no rate limit headers.
    for path in ["/healthz", "/readyz", "/docs", "/v1/openapi.yaml"] {
        assert!(has_no_rate_limit_headers(&server.get(path).await), "{path}");
    }
    let response = request(Method::GET, "/v1/pets").without_key().send().await;
    assert!(has_no_rate_limit_headers(&response));
}

async fn requests_over_the_limit_get_429_and_have_no_effect(backend: Backend) {
    let server = start_with_key_limit(backend, "3/24h").await;
    let other = server.create_key(&Scope::ALL, None).await;
    let pet = json!({"name": "A", "categoryId": 1, "status": "available"});
    server.create(pet).await;
    server.place_order(1).await;
    server
        .get("/v1/nothing")
        .await
        .assert_error(404, "not_found");
    for (method, path, _) in contract::callable_operations() {
        let request = server.request(method.clone(), &path);
        let response = request.body(contract::BODY).send().await;
        assert_limited(&response, "rate limit of 3/86400s per API key exceeded");
        let policy = response.header("ratelimit-policy");
        assert_eq!(policy, Some("\"default\";q=3;w=86400"));
    }
    // The limit is checked before routing, scopes and validation.
    for (method, path) in [
        (Method::GET, "/v1/nothing"),
        (Method::GET, "/v1/pets?limit=0"),
        (Method::DELETE, "/v1/pets"),
    ] {
        let response = server.request(method, path).send().await;
        response.assert_error(429, "rate_limited");
    }
    let head = server.request(Method::HEAD, "/v1/pets").send().await;
    assert_eq!(head.status, 429);
    let over_http2 = server.request(Method::GET, "/v1/pets").over_http2().send();
    over_http2.await.assert_error(429, "rate_limited");
    for path in ["/healthz", "/readyz", "/docs", "/v1/openapi.json"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let counted = r#"petstore_rate_limited_requests_total{limit="api_key"}"#;
    let limited = contract::callable_operations().count() + 5;
    assert_eq!(server.metric(counted).await, limited as f64);
    // Another key can see that the limited requests had no effect.
    let of_other = |path: &str| server.request(Method::GET, path).with_key(&other).send();
    let pets = of_other("/v1/pets").await.json();
    let pet = json!([{"id": 1, "name": "A", "categoryId": 1, "status": "pending"}]);
    assert_eq!(pets, pet);
    let orders = of_other("/v1/store/orders").await.json();
    assert_eq!(orders.as_array().unwrap().len(), 1);
    assert_eq!(orders[0]["status"], "placed");
}

async fn concurrent_requests_cannot_exceed_the_limit(backend: Backend) {
    let server = start_with_key_limit(backend, "40/24h").await;
    let other = server.create_key(&Scope::ALL, None).await;
    let get = || server.request(Method::GET, "/v1/pets");
    let count_allowed = |responses: Vec<Response>| {
        let count = |status| {
            responses
                .iter()
                .filter(|response| response.status == status)
                .count()
        };
        assert_eq!(count(200) + count(429), responses.len());
        count(200)
    };
    assert_eq!(
        count_allowed(join_all((0..120).map(|_| get().send())).await),
        40
    );
    let others = (0..40).map(|_| get().with_key(&other).send());
    assert_eq!(count_allowed(join_all(others).await), 40);
    assert_eq!(
        count_allowed(join_all((0..10).map(|_| get().send())).await),
        0
    );
}

async fn the_quota_is_replenished(backend: Backend) {
    let server = start_with_key_limit(backend, "1/2s").await;
    let status = async || server.get("/v1/pets").await.status;
    eventually("the quota is used up", async || status().await == 429).await;
    eventually("the quota is replenished", async || status().await == 200).await;
}

/// A refresh replaces the in-memory key table, but each key keeps its used quota.
async fn refreshing_the_keys_keeps_their_usage(backend: Backend) {
    let server = start_with_key_limit(backend, "1/24h").await;
    assert_eq!(server.get("/v1/pets").await.status, 200);
    for _ in 0..3 {
        let new = server.create_key(&Scope::ALL, None).await;
        let request = server.request(Method::GET, "/v1/pets").with_key(&new);
        assert_eq!(request.send().await.status, 200);
        let response = server.get("/v1/pets").await;
        response.assert_error(429, "rate_limited");
    }
}

/// A request for each way to fail authentication.
async fn unauthenticated_requests(server: &Server) -> [Request<'_>; 5] {
    let get = || server.request(Method::GET, "/v1/pets");
    let expired = server.create_key(&Scope::ALL, Some(Timestamp::now())).await;
    [
        get().without_key(),
        get().with_key("psk_typo"),
        get().header("authorization", "Bearer twice"),
        get().with_key(ApiKeySecret::generate().reveal()),
        get().with_key(&expired),
    ]
}

async fn failed_authentication_is_limited_per_address(backend: Backend) {
    const MESSAGE: &str = "rate limit of 5/86400s for requests without a valid API key exceeded for this \
                           address";
    let server = start_with_address_limit(backend, "5/24h").await;
    for request in unauthenticated_requests(&server).await {
        assert_eq!(request.send().await.status, 401);
    }
    for request in unauthenticated_requests(&server).await {
        let response = request.send().await;
        assert_limited(&response, MESSAGE);
        assert!(has_no_rate_limit_headers(&response));
    }
    for (method, path, _) in contract::callable_operations() {
        let response = server.request(method, &path).without_key().send().await;
        assert_limited(&response, MESSAGE);
    }
    let head = server.request(Method::HEAD, "/v1/pets").without_key();
    assert_eq!(head.send().await.status, 429);
    let unauthenticated = server.request(Method::GET, "/v1/pets").without_key();
    assert_limited(&unauthenticated.over_http2().send().await, MESSAGE);
    // Valid keys, public endpoints and other addresses are not affected.
    assert_eq!(server.get("/v1/pets").await.status, 200);
    for path in ["/healthz", "/readyz", "/docs", "/v1/openapi.yaml"] {
        let request = server.request(Method::GET, path).without_key();
        assert_eq!(request.send().await.status, 200, "{path}");
    }
    for request in unauthenticated_requests(&server).await {
        let response = request.from([127, 0, 0, 2]).send().await;
        assert_eq!(response.status, 401);
    }
    let request = server.request(Method::GET, "/v1/pets").without_key();
    let response = request.from([127, 0, 0, 2]).send().await;
    assert_limited(&response, MESSAGE);
    let counted = r#"petstore_rate_limited_requests_total{limit="address"}"#;
    let limited = 5 + contract::callable_operations().count() + 3;
    assert_eq!(server.metric(counted).await, limited as f64);
}

/// Attempts count against the limit even while no key can be verified.
async fn failed_authentication_is_limited_while_keys_cannot_be_read(backend: Backend) {
    let server = start_with_address_limit(backend, "5/24h").await;
    server.get("/v1/nothing").await;
    let away = "ALTER TABLE api_keys RENAME TO away";
    server.database.execute(away);
    let send_unknown_key = async || {
        let request = server.request(Method::GET, "/v1/pets");
        request
            .with_key(ApiKeySecret::generate().reveal())
            .send()
            .await
    };
    for _ in 0..5 {
        send_unknown_key().await.assert_error(500, "internal_error");
    }
    send_unknown_key().await.assert_error(429, "rate_limited");
}

/// The default limit tolerates a burst of failures.
async fn failed_authentication_is_limited_by_default(backend: Backend) {
    let server = Server::start(backend).await;
    // Loads the API key into memory.
    assert_eq!(server.get("/v1/pets").await.status, 200);
    let fail = || server.request(Method::GET, "/v1/pets").without_key().send();
    for response in join_all((0..60).map(|_| fail())).await {
        response.assert_error(401, "missing_api_key");
    }
    eventually("the address is limited", async || {
        let responses = join_all((0..20).map(|_| fail())).await;
        responses.iter().any(|response| response.status == 429)
    })
    .await;
    assert_eq!(server.get("/v1/pets").await.status, 200);
}

/// Unknown keys from a limited address do not reach the database; new keys still work there.
async fn a_limited_address_triggers_no_key_lookup(backend: Backend) {
    let server = start_with_address_limit(backend, "1/24h").await;
    let get = || server.request(Method::GET, "/v1/pets");
    assert_eq!(server.get("/v1/pets").await.status, 200);
    assert_eq!(get().without_key().send().await.status, 401);
    let send_unknown_key = || async {
        let key = ApiKeySecret::generate();
        get().with_key(key.reveal()).send().await
    };
    // A lookup would now fail with 500.
    let rename = |from: &str, to: &str| format!("ALTER TABLE {from} RENAME TO {to}");
    server.database.execute(&rename("api_keys", "away"));
    for response in join_all((0..20).map(|_| send_unknown_key())).await {
        response.assert_error(429, "rate_limited");
    }
    server.database.execute(&rename("away", "api_keys"));
    let new = server.create_key(&Scope::ALL, None).await;
    eventually("the new key works", async || {
        get().with_key(&new).send().await.status == 200
    })
    .await;
}
