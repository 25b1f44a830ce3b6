//! `/metrics`: the exported metrics, the listener that serves them, and the dashboard.

use std::collections::BTreeSet;

use domain::api_key::{ApiKeySecret, Scope};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use support::{Backend, eventually};

use crate::harness::Server;

support::cases! {
    ALL: [
        requests_are_counted_by_operation_and_status,
        auth_failures_are_counted_by_reason,
        deprecated_requests_are_counted_per_key,
        store_and_cache_metrics_are_exported,
        active_requests_and_open_connections_are_exported,
        the_metrics_listener_serves_metrics_and_health_checks,
        the_metrics_listener_rejects_malformed_requests,
        client_disconnects_are_counted_as_499,
        the_dashboard_shows_exactly_the_exported_metrics,
    ],
}

/// Operation, method, route and response status.
type RequestLabels = (&'static str, &'static str, &'static str, u16);

fn duration_metric(
    suffix: &str,
    (operation, method, route, status): RequestLabels,
    le: &str,
) -> String {
    let route = match method {
        "" => String::new(),
        _ => format!("http_request_method=\"{method}\",http_route=\"{route}\","),
    };
    format!(
        "http_server_request_duration_seconds{suffix}{{operation=\"{operation}\",{route}\
         http_response_status_code=\"{status}\"{le}}}"
    )
}

async fn requests(server: &Server, labels: RequestLabels) -> f64 {
    server.metric(&duration_metric("_count", labels, "")).await
}

async fn requests_are_counted_by_operation_and_status(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(3).await;
    server.get("/v1/pets?limit=2").await;
    server.get("/v1/pets?limit=no").await;
    server.get("/v1/nothing").await;
    let unauthenticated = server.request(Method::GET, "/v1/pets").without_key();
    unauthenticated
        .send()
        .await
        .assert_error(401, "missing_api_key");
    for (labels, count) in [
        (("createPet", "POST", "/v1/pets", 201), 3.0),
        (("listPets", "GET", "/v1/pets", 200), 1.0),
        (("listPets", "GET", "/v1/pets", 400), 1.0),
        (("other", "", "", 404), 1.0),
        (("other", "", "", 401), 1.0),
        (("getPet", "GET", "/v1/pets/{petId}", 200), 0.0),
    ] {
        assert_eq!(requests(&server, labels).await, count, "{labels:?}");
    }
    let created = ("createPet", "POST", "/v1/pets", 201);
    let sum = duration_metric("_sum", created, "");
    assert!(server.metric(&sum).await > 0.0);
    let all = duration_metric("_bucket", created, r#",le="+Inf""#);
    assert_eq!(server.metric(&all).await, 3.0);
}

async fn auth_failures_are_counted_by_reason(backend: Backend) {
    let server = Server::start(backend).await;
    let expired = Timestamp::now() - SignedDuration::from_secs(1);
    let expired = server.create_key(&Scope::ALL, Some(expired)).await;
    let revoked = server.create_key(&Scope::ALL, None).await;
    let list = |key: &str| server.request(Method::GET, "/v1/pets").with_key(key).send();
    assert_eq!(list(&revoked).await.status, 200);
    server
        .database
        .execute("UPDATE api_keys SET revoked_at = created_at WHERE id = 3");
    let is_revoked = async || list(&revoked).await.status == 401;
    eventually("the key is revoked", is_revoked).await;
    let count = async |reason: &str| {
        let name = format!("petstore_auth_failures_total{{reason=\"{reason}\"}}");
        server.metric(&name).await
    };
    assert_eq!(count("revoked").await, 1.0);
    let unknown = ApiKeySecret::generate();
    for (reason, key) in [
        ("expired", &*expired),
        ("revoked", &revoked),
        ("unknown", unknown.reveal()),
        ("malformed", "psk_typo"),
        ("malformed", "\u{fc}"),
    ] {
        let before = count(reason).await;
        list(key).await.assert_error(401, "invalid_api_key");
        assert_eq!(count(reason).await, before + 1.0, "{reason}");
    }
    let missing = server.request(Method::GET, "/v1/pets").without_key();
    missing.send().await.assert_error(401, "missing_api_key");
    assert_eq!(count("missing").await, 1.0);
    let repeated = server.request(Method::GET, "/v1/pets");
    let repeated = repeated.header("authorization", "Bearer x");
    repeated.send().await.assert_error(401, "invalid_api_key");
    assert_eq!(count("repeated").await, 1.0);
}

async fn deprecated_requests_are_counted_per_key(backend: Backend) {
    let server = Server::start(backend).await;
    let key = server.create_key(&Scope::ALL, None).await;
    for path in ["/v1/pets/1", "/v1/pets/2", "/v1/pets"] {
        let request = server.request(Method::GET, path).with_key(&key);
        request.send().await;
    }
    let calls = r#"petstore_deprecated_requests_total{operation="getPet",api_key_id="2"}"#;
    assert_eq!(server.metric(calls).await, 2.0);
}

async fn store_and_cache_metrics_are_exported(backend: Backend) {
    let server = Server::start(backend).await;
    let creates = (0..20).map(|_| server.post("/v1/pets", r#"{"name":"A","categoryId":1}"#));
    futures_util::future::join_all(creates).await;
    server.get("/v1/pets").await;
    server.get("/v1/pets").await;
    let metric = async |name: &str| server.metric(name).await;
    // Group commit may also have written the last use of API keys.
    assert!(metric("petstore_commit_group_size_sum").await >= 20.0);
    let commits = metric("petstore_commit_duration_seconds_count").await;
    assert_eq!(metric("petstore_commit_group_size_count").await, commits);
    assert_eq!(metric("petstore_commit_failures_total").await, 0.0);
    let [hits, misses] = ["hit", "miss"]
        .map(|result| format!(r#"petstore_response_cache_requests_total{{result="{result}"}}"#));
    let pages = (metric(&hits).await, metric(&misses).await);
    match backend {
        Backend::Sqlite | Backend::Tls => assert_eq!(pages, (1.0, 1.0)),
        // Other tests write to the same server: nothing that is cached stays valid.
        Backend::Postgres => {
            assert_eq!(pages, (0.0, 2.0));
            let open = r#"petstore_db_connections{pool="create"}"#;
            assert!((1.0..=2.0).contains(&metric(open).await));
        }
    }
}

async fn active_requests_and_open_connections_are_exported(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    let lock = server.database.lock();
    let creates = (0..5).map(|_| server.post("/v1/pets", r#"{"name":"A","categoryId":1}"#));
    let active = "petstore_requests_in_flight";
    let observe = async {
        let all_active = async || server.metric(active).await == 5.0;
        eventually("five requests are in flight", all_active).await;
        assert!(server.metric("petstore_open_connections").await >= 5.0);
        drop(lock);
    };
    let (responses, ()) = tokio::join!(futures_util::future::join_all(creates), observe);
    assert!(responses.iter().all(|response| response.status == 201));
    assert_eq!(server.metric(active).await, 0.0);
}

/// Malformed requests get the same error body as on the API listener.
async fn the_metrics_listener_rejects_malformed_requests(backend: Backend) {
    let server = Server::start(backend).await;
    let response = server.metrics_bytes("nonsense\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(
        response.contains(r#""code":"invalid_request""#),
        "{response}"
    );
    let response = server.metrics_bytes("GET /metrics HTTP/1.1\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 400 "), "{response}");
    assert!(response.contains("Host: must be sent once"), "{response}");
    let head = format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(20_000));
    let response = server.metrics_bytes(&head).await;
    assert!(response.starts_with("HTTP/1.1 431 "), "{response}");
    assert!(
        response.contains(r#""code":"head_too_large""#),
        "{response}"
    );
}

async fn the_metrics_listener_serves_metrics_and_health_checks(backend: Backend) {
    let server = Server::start(backend).await;
    for (method, path, status) in [
        (Method::GET, "/metrics", 200),
        (Method::HEAD, "/metrics", 200),
        (Method::POST, "/metrics", 405),
        (Method::GET, "/healthz", 200),
        (Method::HEAD, "/readyz", 200),
        (Method::POST, "/readyz", 405),
        (Method::GET, "/", 404),
        (Method::GET, "/v1/pets", 404),
    ] {
        let response = server.metrics_request(method, path).await;
        assert_eq!(response.status, status, "{path}");
        assert!(response.headers.contains_key("x-request-id"));
        assert_eq!(response.headers["x-content-type-options"], "nosniff");
        let text = response.text();
        assert_eq!(text.contains(r#""code""#), status >= 400, "{text}");
    }
    server.get("/metrics").await.assert_error(404, "not_found");
}

/// A client that disconnects before its response is counted under status 499.
async fn client_disconnects_are_counted_as_499(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    let lock = server.database.lock();
    let create = server
        .request(Method::POST, "/v1/pets")
        .header("content-type", "application/json")
        .body(r#"{"name":"A","categoryId":1}"#)
        .into_http();
    let mut client = server.http2().await;
    let active = async || server.metric("petstore_requests_in_flight").await == 1.0;
    tokio::select! {
        _ = client.send_request(create) => panic!("a create succeeded despite the lock"),
        () = eventually("a request is in flight", active) => {}
    }
    let disconnected = ("createPet", "POST", "/v1/pets", 499);
    let counted = async || requests(&server, disconnected).await == 1.0;
    eventually("the disconnect is counted", counted).await;
    drop(lock);
    // The write that was in flight is still executed.
    eventually("the second pet is stored", async || {
        server.count_pets().await == 2
    })
    .await;
}

/// The Grafana dashboard and the exporter must not drift apart.
async fn the_dashboard_shows_exactly_the_exported_metrics(backend: Backend) {
    let server = Server::start(backend).await;
    let text = server.metrics_request(Method::GET, "/metrics").await.text();
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let families: BTreeSet<_> = families
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    let dashboard = std::fs::read_to_string("deploy/grafana.json").unwrap();
    let names = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names =
        names.filter(|name| name.starts_with("petstore_") || name.starts_with("http_server_"));
    let shown: BTreeSet<_> = names
        .map(|name| {
            let parts = ["_bucket", "_sum", "_count"];
            let family = parts.iter().find_map(|part| name.strip_suffix(part));
            family
                .filter(|family| families.contains(family))
                .unwrap_or(name)
        })
        .filter(|name| {
            let absent: &[_] = match backend {
                Backend::Postgres => &["petstore_wal_", "petstore_checkpoint"],
                _ => &["petstore_db_"],
            };
            // Exported if the service takes backups.
            let absent = absent.iter().chain(&["petstore_backup_"]);
            !absent.into_iter().any(|prefix| name.starts_with(prefix))
        })
        .collect();
    assert_eq!(shown, families);
}
