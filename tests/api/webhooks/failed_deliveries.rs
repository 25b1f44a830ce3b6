//! Failed deliveries, retries and replays.

use http::Method;
use serde_json::{Value, json};

use super::{URL, create, get, message};
use support::{Backend, Response, eventually};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        failed_deliveries_are_listed,
        a_failed_delivery_is_retried_on_request,
        a_webhook_is_moved_to_another_position,
    ],
}

/// Well-formed, and not of any event.
const UNKNOWN: &str = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";

/// Creates pets and returns the ids of their events.
async fn create_events(server: &Server, count: usize) -> Vec<String> {
    server.create_pets(count).await;
    let events = server.get("/v1/events?limit=1000").await.json();
    let ids = events.as_array().unwrap().iter();
    let ids: Vec<_> = ids
        .map(|event| event["id"].as_str().unwrap().to_string())
        .collect();
    ids[ids.len() - count..].to_vec()
}

/// Stores a failed delivery of a webhook.
async fn store_delivery(server: &Server, webhook: i64, event: &str, state: &str) {
    let events = server.get("/v1/events?limit=1000").await.json();
    let mut events = events.as_array().unwrap().iter();
    let found = events.find(|it| it["id"] == event).unwrap();
    let sequence: i64 = found["sequence"].as_str().unwrap().parse().unwrap();
    let (attempts, status, next) = match state {
        "failed" => (10, "500", "NULL"),
        _ => (1, "NULL", "32503680000000000"),
    };
    server.database.execute(&format!(
        "INSERT INTO webhook_deliveries (webhook_id, sequence, event_id, state, attempts,
             last_attempt_at, status, error, next_attempt_at)
         VALUES ({webhook}, {sequence}, '{event}', '{state}', {attempts}, 1763199000000000,
             {status}, 'unsuccessful_status', {next})"
    ));
}

async fn retry(server: &Server, webhook: i64, event: &str) -> Response {
    let path = format!("/v1/webhooks/{webhook}/deliveries/{event}/retry");
    server.request(Method::POST, &path).send().await
}

async fn failed_deliveries_are_listed(backend: Backend) {
    let server = Server::start(backend).await;
    let body = json!({"url": URL, "types": ["order.returned"]});
    for _ in 0..2 {
        create(&server, body.clone()).await;
    }
    let empty = server.get("/v1/webhooks/1/deliveries").await;
    assert_eq!(empty.json(), json!([]));
    let events = create_events(&server, 5).await;
    for (n, event) in events.iter().enumerate() {
        let state = if n % 2 == 0 { "failed" } else { "retrying" };
        store_delivery(&server, 1, event, state).await;
    }
    let list = server.get("/v1/webhooks/1/deliveries?limit=2").await;
    assert_eq!(list.header("cache-control"), Some("no-store"));
    assert_eq!(
        list.json(),
        json!([
            {
                "eventId": events[0], "state": "failed", "attempts": 10,
                "lastAttemptAt": "2025-11-15T09:30:00Z", "status": 500,
                "error": "unsuccessful_status",
            },
            {
                "eventId": events[1], "state": "retrying", "attempts": 1,
                "lastAttemptAt": "2025-11-15T09:30:00Z", "error": "unsuccessful_status",
                "nextAttemptAt": "3000-01-01T00:00:00Z",
            },
        ])
    );
    let next = list.next().unwrap();
    assert!(
        next.starts_with("/v1/webhooks/1/deliveries?limit=2&cursor="),
        "{next}"
    );
    let ids = async |path: &str| -> Vec<Value> {
        let items = server.walk(path).await;
        items.iter().map(|it| it["eventId"].clone()).collect()
    };
    assert_eq!(ids("/v1/webhooks/1/deliveries?limit=2").await, events);
    let failed = ids("/v1/webhooks/1/deliveries?limit=1&state=failed").await;
    assert_eq!(failed, [&*events[0], &events[2], &events[4]]);
    let retrying = ids("/v1/webhooks/1/deliveries?state=retrying").await;
    assert_eq!(retrying, [&*events[1], &events[3]]);
    assert!(ids("/v1/webhooks/2/deliveries").await.is_empty());
    let cursor = next.split_once("cursor=").unwrap().1;
    for query in [
        "limit=0",
        "state=delivered",
        "state=",
        "state=failed&state=failed",
        "cursor=x",
        &format!("state=failed&cursor={cursor}"),
    ] {
        let response = server
            .get(&format!("/v1/webhooks/1/deliveries?{query}"))
            .await;
        response.assert_error(400, "invalid_parameter");
    }
    // They go with their webhook.
    assert_eq!(server.delete("/v1/webhooks/1").await.status, 204);
    let left = server
        .database
        .query("SELECT count(*) || '' FROM webhook_deliveries");
    assert_eq!(left, "0");
}

async fn a_failed_delivery_is_retried_on_request(backend: Backend) {
    let server = Server::start(backend).await;
    let body = json!({"url": URL, "types": ["order.returned"]});
    create(&server, body.clone()).await;
    create(&server, body).await;
    let events = create_events(&server, 2).await;
    let delivery = &events[0];
    let other = &events[1];
    for webhook in [1, 2] {
        store_delivery(&server, webhook, delivery, "failed").await;
    }
    for _ in 0..2 {
        let response = retry(&server, 1, delivery).await;
        assert_eq!(response.status, 202, "{}", response.text());
        assert_eq!(response.header("cache-control"), Some("no-store"));
        let due = response.json();
        assert_eq!(
            (&due["eventId"], &due["state"]),
            (&json!(delivery), &json!("retrying"))
        );
        assert!(due["nextAttemptAt"].is_string(), "{due}");
    }
    let untouched = server.get("/v1/webhooks/2/deliveries").await.json();
    assert_eq!(untouched[0]["state"], "failed");
    for event in [other, "evt_", "1", "now", &delivery.to_lowercase()] {
        let response = retry(&server, 1, event).await;
        response.assert_error(404, "not_found");
        assert!(
            message(&response).starts_with("eventId: "),
            "{}",
            message(&response)
        );
    }
    retry(&server, 1, UNKNOWN)
        .await
        .assert_error(410, "cursor_unknown");
    server
        .patch("/v1/webhooks/2", r#"{"state":"disabled"}"#)
        .await;
    for event in [delivery, other] {
        let response = retry(&server, 2, event).await;
        response.assert_error(409, "webhook_disabled");
    }
    let untouched = server.get("/v1/webhooks/2/deliveries").await.json();
    assert_eq!(untouched[0]["state"], "failed");
}

async fn a_webhook_is_moved_to_another_position(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.event_retention.count = 3;
    })
    .await;
    let expired = create_events(&server, 1).await.remove(0);
    // Disabled, so that only a client moves it.
    let created = create(&server, json!({"url": URL})).await;
    let disabled = r#"{"state":"disabled"}"#;
    assert_eq!(server.patch("/v1/webhooks/1", disabled).await.status, 200);
    assert_eq!(created["position"], expired);
    let replay = |after: &str| {
        let body = json!({"after": after}).to_string();
        server.post("/v1/webhooks/1/replay", body)
    };
    store_delivery(&server, 1, &expired, "failed").await;
    let events = create_events(&server, 3).await;
    eventually("an event is purged", async || {
        server.metric("petstore_purged_events_total").await == 1.0
    })
    .await;
    let last = events.last().unwrap();
    for (after, position) in [("now", last), (&events[0], &events[0]), (last, last)] {
        let response = replay(after).await;
        assert_eq!(response.status, 202, "{}", response.text());
        assert_eq!(response.header("cache-control"), Some("no-store"));
        assert_eq!(response.json()["position"], *position);
        assert_eq!(get(&server, &json!(1)).await, response.json());
    }
    for (after, code) in [(&*expired, "cursor_expired"), (UNKNOWN, "cursor_unknown")] {
        replay(after).await.assert_error(410, code);
    }
    for (body, expected) in [
        ("{}", "after: required; must be the id of an event, or now"),
        (
            r#"{"after":7}"#,
            "after: must be the id of an event, or now, got 7",
        ),
        (
            r#"{"after":null}"#,
            "after: must be the id of an event, or now, got null",
        ),
        (
            r#"{"after":"NOW"}"#,
            r#"after: must be the id of an event, or now, got "NOW""#,
        ),
        (
            r#"{"after":"evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G6"}"#,
            "after: must be the id of an event, or now, got \"evt_",
        ),
    ] {
        let response = server.post("/v1/webhooks/1/replay", body).await;
        response.assert_error(400, "invalid_body");
        assert!(
            message(&response).starts_with(expected),
            "{}",
            message(&response)
        );
    }
    assert_eq!(get(&server, &json!(1)).await["position"], *last);
    // The event of a delivery may be gone, too.
    assert_eq!(
        server
            .patch("/v1/webhooks/1", r#"{"state":"enabled"}"#)
            .await
            .status,
        200
    );
    let response = retry(&server, 1, &expired).await;
    response.assert_error(410, "cursor_expired");
}
