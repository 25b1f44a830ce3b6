//! `testWebhook`: a message to the receiver, at once.

use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use support::{Backend, Receiver, Reply, eventually, free_address};

use super::{allow_loopback, create, get, without};
use crate::harness::Server;

support::cases! {
    DATABASES: [
        a_test_is_signed_and_delivered,
        a_test_that_fails_says_why,
        tests_over_the_limit_get_503,
    ],
}

async fn test(server: &Server, id: &Value) -> Value {
    let path = format!("/v1/webhooks/{id}/test");
    let response = server.request(Method::POST, &path).send().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("cache-control"), Some("no-store"));
    response.json()
}

/// Also with a disabled webhook, and with both secrets after a rotation.
async fn a_test_is_signed_and_delivered(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    let receiver = Receiver::start().await;
    receiver.respond(|_| Reply::Status(202));
    let url = format!("{}?a=b", receiver.url());
    let webhook = create(&server, json!({"url": url, "types": ["pet.deleted"]})).await;
    let id = &webhook["id"];
    let result = test(&server, id).await;
    assert_eq!(result["delivered"], true);
    assert_eq!(result["status"], 202);
    assert_eq!(result.get("error"), None);

    let received = receiver.received().remove(0);
    assert_eq!(received.target, "/hook?a=b");
    let first = webhook["secret"].as_str().unwrap();
    received.assert_signed_by(first);
    let timestamp: i64 = received.header("webhook-timestamp").parse().unwrap();
    let event = received.event();
    let time: Timestamp = event["time"].as_str().unwrap().parse().unwrap();
    assert!(timestamp >= time.as_second());
    let content_type = received.header("content-type");
    assert_eq!(content_type, "application/cloudevents+json");
    assert!(received.header("user-agent").starts_with("petstore/"));
    for private in ["authorization", "cookie", "x-request-id"] {
        assert_eq!(received.headers.get(private), None);
    }
    assert_eq!(event["id"], received.header("webhook-id"));
    assert!(event["id"].as_str().unwrap().starts_with("test_"));
    assert_eq!(event["type"], "webhook.test");
    assert_eq!(event["subject"], format!("webhooks/{id}"));
    assert_eq!(event["specversion"], "1.0");
    assert!(event["source"].as_str().unwrap().starts_with("urn:uuid:"));
    assert_eq!(event.get("sequence"), None);
    assert_eq!(event["data"], without(webhook.clone(), "secret"));

    let path = format!("/v1/webhooks/{id}");
    let rotated = server.request(Method::POST, &format!("{path}/rotate-secret"));
    let second = rotated.send().await.json()["secret"].clone();
    let disabled = server.patch(&path, r#"{"state":"disabled"}"#).await;
    assert_eq!(test(&server, id).await["delivered"], true);
    let received = receiver.received().remove(1);
    for secret in [second.as_str().unwrap(), first] {
        received.assert_signed_by(secret);
    }
    assert_ne!(received.event()["id"], event["id"]);
    assert_eq!(get(&server, id).await, disabled.json());
}

/// The response says why; it has no effect on the webhook.
async fn a_test_that_fails_says_why(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    let receiver = Receiver::start().await;
    let closed = format!("http://{}/", free_address());
    let encrypted = receiver.url().replace("http:", "https:");
    for (url, status, error) in [
        (&receiver.url(), 500, "unsuccessful_status"),
        (&receiver.url(), 410, "unsuccessful_status"),
        (&receiver.url(), 307, "unsuccessful_status"),
        (&closed, 0, "connection_failed"),
        (&encrypted, 0, "tls_failed"),
    ] {
        receiver.respond(move |_| Reply::Status(status));
        let webhook = create(&server, json!({"url": url, "types": ["pet.deleted"]})).await;
        let result = test(&server, &webhook["id"]).await;
        let expected = (status > 0).then_some(status);
        assert_eq!(result["delivered"], false, "{url}");
        assert_eq!(result["status"], json!(expected), "{url}");
        assert_eq!(result["error"], error, "{url}");
        let after = get(&server, &webhook["id"]).await;
        assert_eq!(after, without(webhook, "secret"));
    }
    // A name is resolved for every attempt.
    let server = Server::start_with(backend, |config| {
        let networks = ["::1/128".parse().unwrap()];
        config.service.api.webhooks.urls.networks = networks.into_iter().collect();
    })
    .await;
    let webhook = create(&server, json!({"url": "https://localhost/"})).await;
    let result = test(&server, &webhook["id"]).await;
    assert_eq!(result["error"], "address_not_allowed");
}

async fn tests_over_the_limit_get_503(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        allow_loopback(config);
        config.service.api.webhooks.limits.attempt_timeout = Duration::from_secs(5);
    })
    .await;
    let receiver = Receiver::start().await;
    receiver.respond(|_| Reply::Never);
    let body = json!({"url": receiver.url(), "types": ["pet.deleted"]});
    let id = &create(&server, body).await["id"];
    let waiting = (0..16).map(|_| test(&server, id));
    let others = async {
        eventually("16 tests wait", async || receiver.in_flight() == 16).await;
        let path = format!("/v1/webhooks/{id}/test");
        let rejected = server.request(Method::POST, &path).send().await;
        rejected.assert_error(503, "unavailable");
        assert_eq!(rejected.header("retry-after"), Some("1"));
        // They do not count as requests in flight.
        assert_eq!(server.metric("petstore_requests_in_flight").await, 0.0);
    };
    let (results, ()) = tokio::join!(join_all(waiting), others);
    for result in results {
        assert_eq!(result["delivered"], false);
        assert_eq!(result["error"], "timed_out");
    }
    receiver.respond(|_| Reply::Status(204));
    assert_eq!(test(&server, id).await["delivered"], true);
}
