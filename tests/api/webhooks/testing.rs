//! `testWebhook`: a message to the receiver, at once.

use futures_util::future::join_all;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{allow_loopback, create, get, receiver::Receiver, without};
use crate::harness::{Backend, Server, eventually};

async fn test(server: &Server, id: &Value) -> Value {
    let path = format!("/v1/webhooks/{id}/test");
    let response = server.request(Method::POST, &path).send().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("cache-control"), Some("no-store"));
    response.json()
}

/// Also with a disabled webhook, and with both secrets after a rotation.
pub async fn a_test_is_signed_and_delivered(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    let receiver = Receiver::start(202).await;
    let webhook = create(
        &server,
        json!({"url": receiver.url, "types": ["pet.deleted"]}),
    )
    .await;
    let id = &webhook["id"];
    let result = test(&server, id).await;
    assert_eq!(result["delivered"], true);
    assert_eq!(result["status"], 202);
    assert_eq!(result.get("error"), None);

    let received = receiver.received().remove(0);
    assert_eq!(received.target, "/hook?a=b");
    let first = webhook["secret"].as_str().unwrap();
    let signature = received.header("webhook-signature");
    assert_eq!(signature, received.signature(first));
    let timestamp: i64 = received.header("webhook-timestamp").parse().unwrap();
    let event = received.json();
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
    let both = [second.as_str().unwrap(), first].map(|secret| received.signature(secret));
    assert_eq!(received.header("webhook-signature"), both.join(" "));
    assert_ne!(received.json()["id"], event["id"]);
    assert_eq!(get(&server, id).await, disabled.json());
}

/// The response says why; it has no effect on the webhook.
pub async fn a_test_that_fails_says_why(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    let failing = Receiver::start(500).await;
    let gone = Receiver::start(410).await;
    let redirecting = Receiver::start(307).await;
    let port = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = format!("http://{}/", port.local_addr().unwrap());
    drop(port);
    for (url, status, error) in [
        (&*failing.url, json!(500), "unsuccessful_status"),
        (&*gone.url, json!(410), "unsuccessful_status"),
        (&*redirecting.url, json!(307), "unsuccessful_status"),
        (&*closed, Value::Null, "connection_failed"),
        (
            &*failing.url.replace("http:", "https:"),
            Value::Null,
            "tls_failed",
        ),
    ] {
        let webhook = create(&server, json!({"url": url, "types": ["pet.deleted"]})).await;
        let result = test(&server, &webhook["id"]).await;
        assert_eq!(result["delivered"], false, "{url}");
        assert_eq!(result["status"], status, "{url}");
        assert_eq!(result["error"], error, "{url}");
        let after = get(&server, &webhook["id"]).await;
        assert_eq!(after, without(webhook, "secret"));
    }
    // A name is resolved for every attempt.
    let server = Server::start(backend).await;
    let webhook = create(&server, json!({"url": "https://localhost/"})).await;
    let result = test(&server, &webhook["id"]).await;
    assert_eq!(result["error"], "address_not_allowed");
}

/// A webhook that points at this service gets nowhere: a delivery has no API key.
pub async fn a_webhook_cannot_call_this_service(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    if server.tls.is_some() {
        return; // The service does not trust its own certificate.
    }
    let url = server.url("/v1/pets");
    let webhook = create(&server, json!({"url": url, "types": ["pet.deleted"]})).await;
    let result = test(&server, &webhook["id"]).await;
    assert_eq!(result["status"], 401);
    assert_eq!(server.count_pets().await, 0);
}

pub async fn tests_over_the_limit_get_503(backend: Backend) {
    let server = Server::start_with(backend, allow_loopback).await;
    let slow = Receiver::start_paused(204).await;
    create(&server, json!({"url": slow.url, "types": ["pet.deleted"]})).await;
    let one = json!(1);
    let waiting = (0..16).map(|_| test(&server, &one));
    let others = async {
        eventually("16 tests wait", async || slow.received().len() == 16).await;
        let rejected = server.request(Method::POST, "/v1/webhooks/1/test");
        let rejected = rejected.send().await;
        rejected.assert_error(503, "unavailable");
        assert_eq!(rejected.header("retry-after"), Some("1"));
        // They do not count as requests in flight.
        assert_eq!(server.metric("petstore_requests_in_flight").await, 0.0);
        slow.responses.add_permits(17);
    };
    let (results, ()) = tokio::join!(join_all(waiting), others);
    assert!(results.iter().all(|result| result["delivered"] == true));
    assert_eq!(test(&server, &one).await["delivered"], true);
}
