//! Internal failures: panics, broken storage, overload.

use std::panic::resume_unwind;

use domain::{
    api_key::{ApiKeySecret, Scope},
    clock::Clock,
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use http::Method;
use jiff::Timestamp;
use support::{Backend, eventually};

use crate::{contract, harness::Server};

support::cases! {
    ALL: [
        a_panic_returns_500,
        broken_storage_returns_503,
        keys_are_not_rejected_while_the_key_table_is_unreadable,
        requests_over_the_in_flight_limit_are_shed,
        a_full_write_queue_returns_503_and_stores_nothing,
    ],
}

/// Sends every operation a valid request and expects the error.
async fn assert_every_operation_fails(server: &Server, status: u16, code: &str) {
    assert_operations_fail(server, status, code, |_| true).await;
}

async fn assert_operations_fail(
    server: &Server,
    status: u16,
    code: &str,
    includes: impl Fn(&str) -> bool,
) {
    let operations = contract::callable_operations();
    for (method, path, _) in operations.filter(|(_, path, _)| includes(path)) {
        let request = server.request(method, &path);
        let response = request.body(contract::BODY).send().await;
        response.assert_error(status, code);
        assert_eq!(response.header("retry-after").is_some(), status == 503);
    }
}

async fn a_panic_returns_500(backend: Backend) {
    let mut server = Server::start_with(backend, |config| {
        // A panic without its message in the output, once for each request.
        config.service.api.clock = Clock::new(|| resume_unwind(Box::new("this clock is broken")));
    })
    .await;
    // The clock is read only for requests whose key expires.
    assert_eq!(server.get("/v1/pets").await.status, 200);
    server.key = server
        .create_key(
            &Scope::ALL,
            Some(Timestamp::from_second(4_000_000_000).unwrap()),
        )
        .await;
    assert_every_operation_fails(&server, 500, "internal_error").await;
    let response = server.get("/v1/pets").await;
    assert!(
        !response.text().contains("clock"),
        "the response leaks the cause: {}",
        response.text()
    );
}

async fn broken_storage_returns_503(backend: Backend) {
    let server = Server::start(backend).await;
    // Loads the API key into memory.
    server
        .get("/v1/nothing")
        .await
        .assert_error(404, "not_found");
    server.database.destroy();
    // The keys are in memory.
    let needs_storage = |path: &str| path != "/v1/keys/current";
    assert_operations_fail(&server, 503, "unavailable", needs_storage).await;
    let response = server.get("/v1/pets?limit=99").await;
    assert!(
        !response.text().to_lowercase().contains("sqlite"),
        "{}",
        response.text()
    );
}

/// A key missing from the cache may be new: without the database it is a 500, not a 401.
async fn keys_are_not_rejected_while_the_key_table_is_unreadable(backend: Backend) {
    let server = Server::start(backend).await;
    server
        .get("/v1/nothing")
        .await
        .assert_error(404, "not_found");
    let unknown_key = ApiKeySecret::generate();
    server
        .database
        .execute("ALTER TABLE api_keys RENAME TO away");
    let requests = (0..8).map(|_| {
        let request = server.request(Method::GET, "/v1/pets");
        request.with_key(unknown_key.reveal()).send()
    });
    for response in futures_util::future::join_all(requests).await {
        response.assert_error(500, "internal_error");
    }
    server
        .database
        .execute("ALTER TABLE away RENAME TO api_keys");
    let request = server.request(Method::GET, "/v1/pets");
    let response = request.with_key(unknown_key.reveal()).send().await;
    response.assert_error(401, "invalid_api_key");
}

/// Load shedding: requests over the in-flight limit fail at once with 503 and do not
/// affect those in flight. Health checks and authentication errors are still served.
async fn requests_over_the_in_flight_limit_are_shed(backend: Backend) {
    let server = |limit| {
        Server::start_with(backend, move |config| {
            config.service.api.limits.max_in_flight = limit;
        })
    };
    let saturated = server(0).await;
    assert_every_operation_fails(&saturated, 503, "unavailable").await;
    let unauthenticated = saturated.request(Method::GET, "/v1/pets").without_key();
    unauthenticated
        .send()
        .await
        .assert_error(401, "missing_api_key");
    assert_eq!(saturated.get("/healthz").await.status, 200);
    let shed = contract::callable_operations().count() as f64;
    assert_eq!(saturated.metric("petstore_shed_requests_total").await, shed);

    let server = server(3).await;
    server.create_pets(1).await;
    let lock = server.database.lock();
    let posts = (0..3).map(|_| server.post("/v1/pets", r#"{"name":"A","categoryId":1}"#));
    let others = async {
        server.wait_until_in_flight(3).await;
        let listed = server.get("/v1/pets").await;
        listed.assert_error(503, "unavailable");
        drop(lock);
    };
    let (responses, ()) = tokio::join!(futures_util::future::join_all(posts), others);
    assert!(responses.iter().all(|response| response.status == 201));
    assert_eq!(server.count_pets().await, 4);
}

async fn a_full_write_queue_returns_503_and_stores_nothing(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.options.write_queue_capacity = 2;
        let fixed = Timestamp::now();
        config.service.api.clock = Clock::new(move || fixed);
    })
    .await;
    let post = || server.post("/v1/pets", r#"{"name":"A","categoryId":1}"#);
    // The background tasks of a service that has just started may fill the queue.
    eventually("a pet is created", async || post().await.status == 201).await;
    let mut lock = Some(server.database.lock());
    let posts = (0..20).map(|_| post());
    let mut responses = posts.collect::<FuturesUnordered<_>>();
    let mut stored = 0;
    let mut rejected = 0;
    while let Some(response) = responses.next().await {
        if response.status == 201 {
            stored += 1;
        } else {
            response.assert_error(503, "unavailable");
            assert_eq!(response.header("retry-after"), Some("1"));
            rejected += 1;
        }
        if rejected == 10 {
            lock = None;
        }
    }
    assert!(lock.is_none() && stored >= 1, "{stored} stored");
    assert_eq!(server.count_pets().await, 1 + stored);
}
