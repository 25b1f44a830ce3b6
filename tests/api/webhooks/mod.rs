//! Webhooks: creating, changing and deleting them; their secrets.

pub mod failed_deliveries;
pub mod testing;

use domain::api_key::Scope;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::{Server, ServerConfig};

support::cases! {
    DATABASES: [
        webhooks_are_created_changed_and_deleted,
        webhooks_are_listed_by_page,
        invalid_webhooks_get_400,
        only_allowed_urls_are_accepted,
        secrets_are_shown_once,
        a_key_must_be_able_to_read_what_a_webhook_delivers,
        retries_create_and_rotate_once,
        a_replay_shows_no_later_changes,
        there_are_at_most_1000_webhooks,
        preconditions_of_webhooks_do_not_hold,
    ],
}

/// A receiver that is never contacted: its name does not exist.
const URL: &str = "https://receiver.example/petstore";

/// Allows receivers on this machine.
fn allow_loopback(config: &mut ServerConfig) {
    let urls = &mut config.service.api.webhooks.urls;
    urls.allow_http = true;
    urls.networks = ["127.0.0.0/8".parse().unwrap()].into_iter().collect();
}

async fn post_webhook(server: &Server, body: Value) -> Response {
    server.post("/v1/webhooks", body.to_string()).await
}

/// Creates a webhook and returns it, with its secret.
async fn create(server: &Server, body: Value) -> Value {
    let response = post_webhook(server, body).await;
    assert_eq!(response.status, 201, "{}", response.text());
    response.json()
}

async fn get(server: &Server, id: &Value) -> Value {
    let response = server.get(&format!("/v1/webhooks/{id}")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

fn message(response: &Response) -> String {
    response.json()["message"].as_str().unwrap().into()
}

fn without(mut object: Value, member: &str) -> Value {
    object.as_object_mut().unwrap().remove(member).unwrap();
    object
}

#[track_caller]
fn assert_not_stored(response: &Response) {
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("etag"), None);
}

async fn webhooks_are_created_changed_and_deleted(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(1).await;
    let newest = server.get("/v1/events").await.json()[0]["id"].clone();
    let created = post_webhook(&server, json!({"url": URL, "secret": "whsec_", "id": 9})).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("location"), Some("/v1/webhooks/1"));
    assert_not_stored(&created);
    let webhook = created.json();
    assert_eq!(webhook["id"], 1);
    assert_eq!(webhook["url"], URL);
    assert_eq!(webhook["types"].as_array().unwrap().len(), 10);
    assert_eq!(webhook["state"], "enabled");
    assert_eq!(webhook["keyId"], 1);
    assert_eq!(webhook["position"], newest);
    assert_eq!(webhook["createdAt"], webhook["updatedAt"]);
    for absent in [
        "description",
        "disabledReason",
        "failingSince",
        "nextAttemptAt",
    ] {
        assert_eq!(webhook.get(absent), None);
    }
    assert_eq!(get(&server, &json!(1)).await, without(webhook, "secret"));

    let body = json!({"url": URL, "types": ["order.placed", "pet.created"], "description": "é "});
    let second = create(&server, body).await;
    assert_eq!(second["id"], 2);
    assert_eq!(second["types"], json!(["pet.created", "order.placed"]));
    assert_eq!(second["description"], "é ");
    let listed = server.get("/v1/webhooks").await;
    assert_not_stored(&listed);
    assert_eq!(listed.json()[1], without(second.clone(), "secret"));

    // A merge patch changes what it names.
    let patch = async |body: Value| {
        let response = server.patch("/v1/webhooks/2", body.to_string()).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_not_stored(&response);
        assert_eq!(get(&server, &json!(2)).await, response.json());
        response.json()
    };
    assert_eq!(patch(json!({})).await, without(second, "secret"));
    let changed = patch(json!({"url": "https://receiver.example/", "types": null})).await;
    assert_eq!(changed["url"], "https://receiver.example/");
    assert_eq!(changed["types"].as_array().unwrap().len(), 10);
    assert_eq!(changed["description"], "é ");
    let changed = patch(json!({"types": ["pet.deleted"], "description": null})).await;
    assert_eq!(changed["types"], json!(["pet.deleted"]));
    assert_eq!(changed.get("description"), None);
    for _ in 0..2 {
        let disabled = patch(json!({"state": "disabled"})).await;
        assert_eq!(disabled["state"], "disabled");
        assert_eq!(disabled["disabledReason"], "requested");
    }
    let enabled = patch(json!({"state": "enabled"})).await;
    assert_eq!(enabled["state"], "enabled");
    assert_eq!(enabled.get("disabledReason"), None);

    let head = server.request(Method::HEAD, "/v1/webhooks/2").send().await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(server.delete("/v1/webhooks/2").await.status, 204);
    for id in [
        "2",
        "99",
        "0",
        "-1",
        "+1",
        "01",
        "one",
        "9223372036854775808",
    ] {
        let path = format!("/v1/webhooks/{id}");
        let requests = [
            server.request(Method::GET, &path),
            server.request(Method::PATCH, &path).body("{}"),
            server.request(Method::DELETE, &path),
            server.request(Method::GET, &format!("{path}/deliveries")),
            server.request(Method::POST, &format!("{path}/rotate-secret")),
            server.request(Method::POST, &format!("{path}/test")),
            server
                .request(Method::POST, &format!("{path}/replay"))
                .body(r#"{"after":"now"}"#),
            server.request(
                Method::POST,
                &format!("{path}/deliveries/{}/retry", newest.as_str().unwrap()),
            ),
        ];
        for request in requests {
            let response = request.send().await;
            response.assert_error(404, "not_found");
            assert_eq!(message(&response), "webhookId: no webhook has this id");
        }
    }
    // Ids are not used again.
    assert_eq!(create(&server, json!({"url": URL})).await["id"], 3);
    for (method, path, allow) in [
        (Method::PUT, "/v1/webhooks", "POST, GET, HEAD"),
        (Method::POST, "/v1/webhooks/1", "GET, HEAD, PATCH, DELETE"),
        (Method::GET, "/v1/webhooks/1/test", "POST"),
        (Method::GET, "/v1/webhooks/1/deliveries/evt_/retry", "POST"),
    ] {
        let response = server.request(method, path).send().await;
        response.assert_error(405, "method_not_allowed");
        assert_eq!(response.header("allow"), Some(allow));
    }
}

async fn webhooks_are_listed_by_page(backend: Backend) {
    let server = Server::start(backend).await;
    assert_eq!(server.get("/v1/webhooks").await.json(), json!([]));
    for n in 1..=5 {
        create(&server, json!({"url": URL, "description": n.to_string()})).await;
    }
    let page = server.get("/v1/webhooks?limit=2").await;
    assert_eq!(page.json().as_array().unwrap().len(), 2);
    assert!(
        page.next()
            .unwrap()
            .starts_with("/v1/webhooks?limit=2&cursor=")
    );
    let all = server.walk("/v1/webhooks?limit=2").await;
    let descriptions: Vec<_> = all
        .iter()
        .map(|it| it["description"].as_str().unwrap())
        .collect();
    assert_eq!(descriptions, ["1", "2", "3", "4", "5"]);
    assert_eq!(server.get("/v1/webhooks?limit=5").await.next(), None);
    let of_pets = {
        server.create_pets(2).await;
        let next = server.get("/v1/pets?limit=1").await.next().unwrap();
        next.split_once("cursor=").unwrap().1.to_string()
    };
    for query in [
        "limit=0",
        "limit=101",
        "limit=1&limit=1",
        "cursor=x",
        &format!("cursor={of_pets}"),
    ] {
        let response = server.get(&format!("/v1/webhooks?{query}")).await;
        response.assert_error(400, "invalid_parameter");
    }
}

async fn invalid_webhooks_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    create(&server, json!({"url": URL})).await;
    let types = "types: must be an array of one or more of pet.created,";
    for (invalid, expected) in [
        (json!({"url": 7}), "url: must be a string with a URL, got 7"),
        (json!({"url": null}), "url: must be a string with a URL"),
        (json!({"url": ""}), "url: must start with https://"),
        (json!({"url": "/hook"}), "url: must start with https://"),
        (
            json!({"url": "ftp://a.example"}),
            "url: must start with https://",
        ),
        (json!({"url": "https://"}), "url: must contain a host"),
        (
            json!({"url": "https://a b.example"}),
            "url: must contain only",
        ),
        (
            json!({"url": "https://é.example"}),
            "url: must contain only",
        ),
        (
            json!({"url": "https://u:p@a.example"}),
            "url: must not contain a user",
        ),
        (
            json!({"url": "https://a.example/#b"}),
            "url: must not contain a fragment",
        ),
        (
            json!({"url": "https://a.example:0/"}),
            "url: must have a port",
        ),
        (
            json!({"url": format!("https://{}", "a".repeat(2000))}),
            "url: must be at most 2000",
        ),
        (json!({"types": []}), types),
        (json!({"types": "pet.created"}), types),
        (json!({"types": ["pet"]}), types),
        (json!({"types": ["webhook.test"]}), types),
        (
            json!({"types": ["pet.created", "pet.created"]}),
            "types: must not contain",
        ),
        (
            json!({"description": 7}),
            "description: must be a string or null",
        ),
        (
            json!({"description": "a\u{7}"}),
            "description: must not contain control",
        ),
        (
            json!({"description": "é".repeat(201)}),
            "description: must be at most 200",
        ),
    ] {
        let mut new = json!({"url": URL});
        let members = invalid.as_object().unwrap().clone();
        new.as_object_mut().unwrap().extend(members);
        let change = server.patch("/v1/webhooks/1", invalid.to_string());
        for response in [post_webhook(&server, new).await, change.await] {
            response.assert_error(400, "invalid_body");
            let message = message(&response);
            assert!(message.starts_with(expected), "{expected}: {message}");
        }
    }
    let missing = post_webhook(&server, json!({})).await;
    assert_eq!(message(&missing), "url: required; must be a URL");
    let state = server
        .patch("/v1/webhooks/1", r#"{"state":"paused"}"#)
        .await;
    let expected = r#"state: must be one of enabled, disabled, got "paused""#;
    assert_eq!(message(&state), expected);
    let all = post_webhook(&server, json!({"url": 1, "types": 2, "description": 3})).await;
    for field in ["url: ", "; types: ", "; description: "] {
        assert!(message(&all).contains(field), "{}", message(&all));
    }
    for body in [
        "",
        "[]",
        "{",
        r#"{"url":"https://a.example","url":"https://a.example"}"#,
    ] {
        assert_eq!(server.post("/v1/webhooks", body).await.status, 400);
    }
    for (method, path) in [
        (Method::POST, "/v1/webhooks"),
        (Method::PATCH, "/v1/webhooks/1"),
        (Method::POST, "/v1/webhooks/1/replay"),
    ] {
        let request = server.request(method, path).body("{}");
        let response = request.header("content-type", "text/plain").send().await;
        response.assert_error(415, "unsupported_media_type");
    }
    assert_eq!(server.walk("/v1/webhooks").await.len(), 1);
}

async fn only_allowed_urls_are_accepted(backend: Backend) {
    let refused = [
        (
            "http://a.example/",
            "must start with https://, got http://; to allow it, the operator starts the service \
             with --webhook-allow-http",
        ),
        (
            "https://127.0.0.1/",
            "127.0.0.0/8 (loopback) is not allowed",
        ),
        ("https://0x7f.1/", "loopback"),
        (
            "http://127.0.0.1/",
            "with --webhook-allow-http and --webhook-allow-net CIDR",
        ),
        (
            "https://localhost/",
            "localhost is the machine of the service, which is not allowed; use one on the public \
             internet, or ask the operator to allow it with --webhook-allow-net 127.0.0.0/8,::1/128",
        ),
        ("https://shop.LOCALHOST.:8443/", "--webhook-allow-net"),
        ("https://[::1]/", "loopback"),
        ("https://[::ffff:10.0.0.1]/", "is not allowed"),
        ("https://10.1.2.3/", "10.0.0.0/8"),
        ("https://169.254.169.254/", "169.254.0.0/16"),
        ("https://shop.invalid/", "never exists"),
    ];
    let strict = Server::start(backend).await;
    create(&strict, json!({"url": URL})).await;
    for (url, reason) in refused {
        let body = json!({"url": url});
        let change = strict.patch("/v1/webhooks/1", body.to_string());
        for response in [post_webhook(&strict, body.clone()).await, change.await] {
            response.assert_error(400, "invalid_body");
            let message = message(&response);
            assert!(message.starts_with("url: "), "{message}");
            assert!(message.contains(reason), "{url}: {message}");
        }
    }
    let lenient = Server::start_with(backend, allow_loopback).await;
    for (url, _) in &refused[..6] {
        create(&lenient, json!({"url": url, "types": ["pet.deleted"]})).await;
    }
    for (url, _) in &refused[6..] {
        let response = post_webhook(&lenient, json!({"url": url})).await;
        response.assert_error(400, "invalid_body");
    }
}

/// A secret is in the responses that create it, and nowhere else.
async fn secrets_are_shown_once(backend: Backend) {
    let server = Server::start(backend).await;
    let created = create(&server, json!({"url": URL})).await;
    let first = created["secret"].as_str().unwrap();
    assert!(first.starts_with("whsec_"));
    let rotate = async || {
        let request = server.request(Method::POST, "/v1/webhooks/1/rotate-secret");
        let response = request.body("ignored").send().await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_not_stored(&response);
        response.json()
    };
    let second = rotate().await;
    let third = rotate().await;
    assert_eq!(second["id"], 1);
    assert_ne!(second["secret"], created["secret"]);
    assert_ne!(second["secret"], third["secret"]);
    for request in [
        server.request(Method::GET, "/v1/webhooks"),
        server.request(Method::GET, "/v1/webhooks/1"),
        server.request(Method::GET, "/v1/webhooks/1/deliveries"),
        server
            .request(Method::PATCH, "/v1/webhooks/1")
            .body(r#"{"description":"a"}"#),
        server
            .request(Method::POST, "/v1/webhooks/1/replay")
            .body(r#"{"after":"now"}"#),
        server.request(Method::POST, "/v1/webhooks/1/test"),
    ] {
        let response = request.send().await;
        assert!(response.is_success(), "{}", response.text());
        assert_not_stored(&response);
        assert!(!response.text().contains("secret"), "{}", response.text());
        assert!(!response.text().contains("whsec_"), "{}", response.text());
    }
}

/// Otherwise a key could have events sent to it that it cannot read.
async fn a_key_must_be_able_to_read_what_a_webhook_delivers(backend: Backend) {
    let server = Server::start(backend).await;
    let writer = server.create_key(&[Scope::WebhooksWrite], None).await;
    let pets = [Scope::WebhooksRead, Scope::WebhooksWrite, Scope::PetsRead];
    let pets = server.create_key(&pets, None).await;
    let post = |key: &str, body: Value| {
        let request = server.request(Method::POST, "/v1/webhooks").with_key(key);
        request.body(body.to_string()).send()
    };
    #[track_caller]
    fn assert_missing(response: &Response, scope: &str) {
        response.assert_error(403, "insufficient_scope");
        let challenge =
            format!("Bearer realm=\"petstore\", error=\"insufficient_scope\", scope=\"{scope}\"");
        assert_eq!(response.header("www-authenticate"), Some(&*challenge));
    }
    assert_missing(&post(&writer, json!({"url": URL})).await, "pets:read");
    let orders = json!({"url": URL, "types": ["pet.created", "order.placed"]});
    assert_missing(&post(&pets, orders.clone()).await, "orders:read");
    assert_eq!(server.walk("/v1/webhooks").await.len(), 0);

    // Without types: what the key can read.
    let own = post(&pets, json!({"url": URL})).await;
    assert_eq!(own.status, 201);
    let own = own.json();
    let types = own["types"].as_array().unwrap();
    assert_eq!(types.len(), 5);
    assert!(
        types
            .iter()
            .all(|kind| !kind.as_str().unwrap().starts_with("order"))
    );
    let path = format!("/v1/webhooks/{}", own["id"]);
    let patch = |key: &str, path: &str, body: Value| {
        let request = server.request(Method::PATCH, path).with_key(key);
        request.body(body.to_string()).send()
    };
    let more = json!({"types": ["order.placed"]});
    assert_missing(&patch(&pets, &path, more).await, "orders:read");
    assert_eq!(
        patch(&pets, &path, json!({"types": null})).await.status,
        200
    );

    // Another key's webhook that delivers orders.
    create(&server, orders).await;
    let path = "/v1/webhooks/2";
    let before = get(&server, &json!(2)).await;
    let event = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";
    for body in [
        json!({"url": "https://receiver.example/mine"}),
        json!({"state": "enabled"}),
        json!({"types": ["pet.created"], "url": "https://receiver.example/mine"}),
    ] {
        assert_missing(&patch(&pets, path, body).await, "orders:read");
    }
    for action in [
        "rotate-secret",
        "test",
        "replay",
        &format!("deliveries/{event}/retry"),
    ] {
        let request = server.request(Method::POST, &format!("{path}/{action}"));
        let request = request.with_key(&pets).body(r#"{"after":"now"}"#);
        assert_missing(&request.send().await, "orders:read");
    }
    assert_eq!(get(&server, &json!(2)).await, before);
    // It may see and delete it.
    let shown = server
        .request(Method::GET, path)
        .with_key(&pets)
        .send()
        .await;
    assert_eq!(shown.json(), before);
    let delete = server.request(Method::DELETE, path).with_key(&pets);
    assert_eq!(delete.send().await.status, 204);
}

async fn retries_create_and_rotate_once(backend: Backend) {
    let server = Server::start(backend).await;
    let post = |path: &str, key: &str, body: &str| {
        let request = server.request(Method::POST, path).body(body);
        request.header("idempotency-key", key).send()
    };
    let body = json!({"url": URL}).to_string();
    let created = post("/v1/webhooks", "a", &body).await;
    assert_eq!(created.status, 201);
    assert_eq!(created.header("idempotent-replayed"), None);
    let replayed = post("/v1/webhooks", "a", &body).await;
    assert_eq!(replayed.status, 201);
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.header("location"), created.header("location"));
    assert_not_stored(&replayed);
    assert_eq!(replayed.json(), created.json());
    let other = json!({"url": "https://receiver.example/other"}).to_string();
    let reused = post("/v1/webhooks", "a", &other).await;
    reused.assert_error(422, "idempotency_key_reused");
    let path = "/v1/webhooks/1/rotate-secret";
    let rotated = post(path, "b", "").await;
    assert_ne!(rotated.json()["secret"], created.json()["secret"]);
    let again = post(path, "b", "").await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_not_stored(&again);
    assert_eq!(again.json()["secret"], rotated.json()["secret"]);
    post(path, "b", "x")
        .await
        .assert_error(422, "idempotency_key_reused");
    // A retry is not shown a secret that was generated for another request.
    let replayed = post("/v1/webhooks", "a", &body).await;
    replayed.assert_error(404, "not_found");
    assert!(replayed.text().contains("replaced"));
    let changed = json!({"description": "x"}).to_string();
    let change = server
        .request(Method::PATCH, "/v1/webhooks/1")
        .body(&*changed);
    assert_eq!(change.send().await.status, 200);
    let again = post(path, "b", "").await;
    assert_eq!(again.json()["secret"], rotated.json()["secret"]);
    for path in ["/v1/webhooks", path] {
        let invalid = post(path, "a b", &body).await;
        invalid.assert_error(400, "invalid_parameter");
    }
    assert_eq!(server.walk("/v1/webhooks").await.len(), 1);
    assert_eq!(server.delete("/v1/webhooks/1").await.status, 204);
    for (path, key, body) in [("/v1/webhooks", "a", &*body), (path, "b", "")] {
        let response = post(path, key, body).await;
        response.assert_error(404, "not_found");
        assert_eq!(response.header("idempotent-replayed"), Some("true"));
    }
    assert_eq!(server.walk("/v1/webhooks").await.len(), 0);

    // What a key may not do does not use up its idempotency key.
    let pets = [Scope::WebhooksWrite, Scope::PetsRead];
    let pets = server.create_key(&pets, None).await;
    let orders = json!({"url": URL, "types": ["order.placed"]}).to_string();
    let rejected = server.request(Method::POST, "/v1/webhooks").with_key(&pets);
    let rejected = rejected
        .body(orders)
        .header("idempotency-key", "c")
        .send()
        .await;
    rejected.assert_error(403, "insufficient_scope");
    let accepted = server.request(Method::POST, "/v1/webhooks").with_key(&pets);
    let accepted = accepted
        .body(body)
        .header("idempotency-key", "c")
        .send()
        .await;
    assert_eq!(accepted.status, 201);
}

/// A replay shows nothing that another key has changed since and that this key may not read.
async fn a_replay_shows_no_later_changes(backend: Backend) {
    let server = Server::start(backend).await;
    let writer = [Scope::WebhooksWrite, Scope::PetsRead];
    let writer = server.create_key(&writer, None).await;
    let post = |path: &str, idempotency_key: &str, body: &str| {
        let request = server.request(Method::POST, path).with_key(&writer);
        let request = request.header("idempotency-key", idempotency_key);
        request.body(body).send()
    };
    for body in [
        json!({"url": URL, "types": ["pet.created"], "description": "Mine"}),
        json!({"url": URL}),
    ] {
        let body = body.to_string();
        let created = post("/v1/webhooks", &body.len().to_string(), &body).await;
        assert_eq!(created.status, 201);
        let path = format!("/v1/webhooks/{}", created.json()["id"]);
        let rotate = format!("{path}/rotate-secret");
        let change = json!({
            "url": "https://receiver.example/of-another-key", "types": ["order.placed"],
            "description": "Theirs", "state": "disabled",
        });
        assert_eq!(server.patch(&path, change.to_string()).await.status, 200);
        let replayed = post("/v1/webhooks", &body.len().to_string(), &body).await;
        assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
        assert_eq!(replayed.json(), created.json());

        let types = json!({"types": ["pet.created"]}).to_string();
        assert_eq!(server.patch(&path, types).await.status, 200);
        assert_eq!(post(&rotate, &path, "").await.status, 200);
        assert_eq!(server.patch(&path, change.to_string()).await.status, 200);
        let replayed = post(&rotate, &path, "").await;
        replayed.assert_error(403, "insufficient_scope");
    }
}

async fn there_are_at_most_1000_webhooks(backend: Backend) {
    let server = Server::start(backend).await;
    let first = create(&server, json!({"url": URL})).await;
    server.database.execute(
        "INSERT INTO webhooks (url, types, state, disabled_reason, api_key_id, created_at,
             updated_at, secret, position)
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 998)
         SELECT 'https://receiver.example/', 'pet.created', 'disabled', 'requested', 1, 0, 0,
             'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'evt_AQAAAAAAAAAAAAAAAAAAAABOSTr-'
         FROM numbers",
    );
    create(&server, json!({"url": URL})).await;
    let rejected = post_webhook(&server, json!({"url": URL})).await;
    rejected.assert_error(409, "too_many_webhooks");
    let id = first["id"].as_i64().unwrap();
    assert_eq!(
        server.delete(&format!("/v1/webhooks/{id}")).await.status,
        204
    );
    create(&server, json!({"url": URL})).await;
}

/// A webhook has no entity tag: nothing is changed in doubt.
async fn preconditions_of_webhooks_do_not_hold(backend: Backend) {
    let server = Server::start(backend).await;
    let webhook = without(create(&server, json!({"url": URL})).await, "secret");
    let event = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";
    let retry = &format!("/v1/webhooks/1/deliveries/{event}/retry");
    let url = &json!({"url": "https://receiver.example/new"}).to_string();
    let send = |method: &Method, path: &str, body: &str, name: &str, value: &str| {
        let request = server.request(method.clone(), path).body(body);
        request.header(name, value).send()
    };
    let requests = [
        (Method::POST, "/v1/webhooks", &**url),
        (Method::POST, "/v1/webhooks/1/rotate-secret", ""),
        (Method::POST, "/v1/webhooks/1/test", ""),
        (Method::POST, "/v1/webhooks/1/replay", r#"{"after":"now"}"#),
        (Method::POST, retry, ""),
        (Method::PATCH, "/v1/webhooks/1", url),
        (Method::DELETE, "/v1/webhooks/1", ""),
    ];
    for (method, path, body) in &requests {
        let response = send(method, path, body, "if-match", "\"x\"").await;
        response.assert_error(412, "precondition_failed");
        // Unless the request fails anyway.
        if *path != "/v1/webhooks" {
            let path = path.replace("/1", "/9");
            let response = send(method, &path, body, "if-match", "\"x\"").await;
            response.assert_error(404, "not_found");
        }
    }
    for (method, path, body) in [&requests[0], &requests[5], &requests[6]] {
        let response = send(method, path, body, "if-none-match", "*").await;
        response.assert_error(412, "precondition_failed");
    }
    assert_eq!(server.walk("/v1/webhooks").await, [webhook]);
    let (method, path, body) = &requests[5];
    assert_eq!(send(method, path, body, "if-match", "*").await.status, 200);
}
