//! `Prefer: handling=strict` (RFC 7240): what would be ignored is rejected.

use domain::api_key::Scope;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::{client::Request, contract, harness::Server};

support::cases! {
    DATABASES: [
        unknown_parameters_are_rejected,
        unknown_parameters_are_named,
        unknown_members_are_rejected,
        unknown_members_of_nested_objects_are_rejected,
        every_response_says_that_handling_was_strict,
        only_strict_handling_is_applied,
    ],
}

const UNKNOWN: &str = "petstore-unknown-parameters";

fn strict<'a>(server: &'a Server, method: Method, path: &str) -> Request<'a> {
    let request = server.request(method, path);
    request.header("prefer", "handling=strict")
}

#[track_caller]
fn assert_applied(response: &Response, expected: bool) {
    let applied = response.header("preference-applied");
    let expected = expected.then_some("handling=strict");
    assert_eq!(applied, expected, "{}", response.text());
}

fn message(response: &Response) -> String {
    response.json()["message"].as_str().unwrap().into()
}

async fn unknown_parameters_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    for (method, path, operation) in contract::callable_operations() {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}limt=1&Status&b%0A=2&limt=3");
        let request = || server.request(method.clone(), &path).body(contract::BODY);
        let response = request().header("prefer", "handling=strict").send().await;
        response.assert_error(400, "invalid_parameter");
        assert_applied(&response, true);
        let (unknown, known) = response.json()["message"]
            .as_str()
            .and_then(|message| message.split_once("; known: "))
            .map(|(unknown, known)| (unknown.to_string(), known.to_string()))
            .unwrap();
        assert_eq!(
            unknown, r#"unknown query parameters "Status", "b\n", "limt""#,
            "{path}"
        );
        let documented = contract::query_parameters(operation);
        if documented.is_empty() {
            assert_eq!(known, "none", "{path}");
        } else {
            let mut known: Vec<_> = known.split(", ").collect();
            known.sort();
            assert_eq!(known, documented, "{path}");
        }
        // Ignored by default. A claim or a revocation would end the key.
        if path.starts_with("/v1/keys/") && method != Method::GET {
            continue;
        }
        let response = request().send().await;
        assert_ne!(response.status, 400, "{path}: {}", response.text());
        assert_applied(&response, false);
        assert_eq!(
            response.header(UNKNOWN),
            Some("Status, b%0A, limt"),
            "{path}"
        );
    }
    // Known ones are accepted, and still checked.
    let lists = [
        (
            "/v1/pets?limit=1&sort=desc&status=sold&categoryId=1&name=a&id=1",
            200,
        ),
        (
            "/v1/store/orders?limit=1&sort=desc&status=placed&petId=1",
            200,
        ),
        ("/v1/categories?limit=1", 200),
        ("/v1/categories?limit=1&sort=desc", 400),
        ("/v1/webhooks?limit=1", 200),
        ("/v1/webhooks/1/deliveries?limit=1&state=failed", 404),
        ("/v1/webhooks/1/deliveries?status=failed", 400),
        ("/v1/pets?limit=0", 400),
        ("/v1/pets?", 200),
        ("/v1/pets?=", 400),
    ];
    for (path, status) in lists {
        let response = strict(&server, Method::GET, path).send().await;
        assert_eq!(response.status, status, "{path}: {}", response.text());
        assert_applied(&response, true);
    }
}

/// Without strict handling, a header names what is ignored: also in a cached response, which is
/// the same for other requests, and in an error.
async fn unknown_parameters_are_named(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(json!({"name": "A", "categoryId": 1})).await;
    let named = async |path: &str| {
        let response = server.get(path).await;
        let named = response.header(UNKNOWN).map(String::from);
        (response.status, named)
    };
    for _ in 0..2 {
        let stauts = Some("stauts".into());
        assert_eq!(named("/v1/pets?stauts=sold").await, (200, stauts.clone()));
        assert_eq!(named("/v1/pets").await, (200, None));
        assert_eq!(named("/v1/pets?limit=20").await, (200, None));
        assert_eq!(named("/v1/pets?stauts=1&limit=0").await, (400, stauts));
        let fields = Some("fields, page%5Bsize%5D".into());
        let path = "/v1/pets/1?page%5Bsize%5D=2&fields=name";
        assert_eq!(named(path).await, (200, fields));
        assert_eq!(named("/v1/pets/1").await, (200, None));
    }
    let list = server.get("/v1/pets?a=1").await;
    let tag = list.header("etag").unwrap();
    let request = server.request(Method::GET, "/v1/pets?a=1");
    let again = request.header("if-none-match", tag).send().await;
    assert_eq!((again.status, again.header(UNKNOWN)), (304, Some("a")));
    let head = server.request(Method::HEAD, "/v1/pets?a=1").send().await;
    assert_eq!(head.header(UNKNOWN), Some("a"));
    let rejected = strict(&server, Method::GET, "/v1/pets?a=1").send().await;
    assert_eq!(rejected.header(UNKNOWN), Some("a"));
    // Who has no valid key is told nothing.
    let unauthorized = server.request(Method::GET, "/v1/pets?a=1").without_key();
    assert_eq!(unauthorized.send().await.header(UNKNOWN), None);
}

async fn unknown_members_of_nested_objects_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = json!({"name": "A", "categoryId": 1, "status": "available"});
    server.create(pet).await;
    for (method, path, mut body, members, message) in [
        (
            Method::POST,
            "/v1/pets",
            json!({"name": "B", "categoryId": 1}),
            json!({"source": {"name": "C", "license": "D"}, "metadata": {"any": "key"}}),
            r#"source: unknown member "license"; known: name, address, licence"#,
        ),
        (
            Method::PATCH,
            "/v1/pets/1",
            json!({}),
            json!({"price": {"amount": 1, "currency": "EUR", "cents": 1}}),
            r#"price: unknown member "cents"; known: amount, currency"#,
        ),
        (
            Method::POST,
            "/v1/store/orders",
            json!({"petId": 1}),
            json!({"buyer": {"name": "C", "phone": "1", "mail": "2"}, "price": {"value": 1}}),
            "price.amount: required; must be an integer; \
             price.currency: required; must be a string; \
             buyer: unknown members \"mail\", \"phone\"; known: name, address, contact; \
             price: unknown member \"value\"; known: amount, currency",
        ),
    ] {
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        let request = strict(&server, method, path);
        let response = request.body(body.to_string()).send().await;
        response.assert_error(400, "invalid_body");
        assert_eq!(self::message(&response), message, "{path}");
    }
}

async fn unknown_members_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = json!({"name": "A", "categoryId": 1, "status": "available"});
    server.create(pet).await;
    let bodies = [
        (
            Method::POST,
            "/v1/pets",
            json!({"name": "B", "categoryId": 1}),
        ),
        (Method::PATCH, "/v1/pets/1", json!({"name": "B"})),
        (Method::PUT, "/v1/categories/1", json!({"name": "Dogs"})),
        (Method::POST, "/v1/store/orders", json!({"petId": 1})),
        (
            Method::PATCH,
            "/v1/store/orders/1",
            json!({"reference": "R-1"}),
        ),
        (
            Method::POST,
            "/v1/webhooks",
            json!({"url": "https://receiver.example/"}),
        ),
        (Method::PATCH, "/v1/webhooks/1", json!({"description": "A"})),
        (
            Method::POST,
            "/v1/webhooks/1/replay",
            json!({"after": "now"}),
        ),
    ];
    for (method, path, body) in bodies {
        let expected = contract::body_members(&method, path);
        let send = |body: &Value| {
            let request = strict(&server, method.clone(), path);
            request.body(body.to_string()).send()
        };
        let with = |members: &[&str]| {
            let mut body = body.clone();
            for name in members {
                body[*name] = json!({"name": null});
            }
            body
        };
        for (members, names) in [
            (&["id"][..], r#"member "id""#),
            (&["Name"], r#"member "Name""#),
            (&["id", "owner", ""], r#"members "#),
        ] {
            let response = send(&with(members)).await;
            response.assert_error(400, "invalid_body");
            assert_applied(&response, true);
            let message = message(&response);
            let start = format!("unknown {names}");
            assert!(message.starts_with(&start), "{path}: {message}");
            let (_, known) = message.split_once("; known: ").unwrap();
            let mut known: Vec<_> = known.split(", ").collect();
            known.sort_unstable();
            assert_eq!(known, expected, "{path}");
            for name in members {
                assert!(message.contains(&format!("{name:?}")), "{path}: {message}");
            }
        }
        // Named together with what else is wrong.
        let mut wrong = with(&["id"]);
        let member = body.as_object().unwrap().keys().next().unwrap();
        wrong[member] = json!([]);
        let response = send(&wrong).await;
        response.assert_error(400, "invalid_body");
        let message = message(&response);
        assert!(message.starts_with(&format!("{member}: ")), "{message}");
        assert!(message.contains(r#"unknown member "id""#), "{message}");
        // Nothing was done; the same is done without them, or without the preference.
        assert_eq!(
            server.count_pets().await,
            if path == "/v1/pets" { 1 } else { 3 }
        );
        let response = send(&body).await;
        assert!(response.is_success(), "{path}: {}", response.text());
        assert_applied(&response, true);
        let lenient = server.request(method.clone(), path);
        let lenient = lenient
            .body(with(&["id", "owner"]).to_string())
            .send()
            .await;
        let decided = lenient.is_success() || lenient.status == 409;
        assert!(decided, "{path}: {}", lenient.text());
        assert_applied(&lenient, false);
    }
    // A transition does not interpret its body.
    let complete = strict(&server, Method::POST, "/v1/store/orders/1/complete");
    assert_eq!(complete.body(r#"{"id":1}"#).send().await.status, 200);
    // A request that was rejected does not use up its idempotency key.
    let create = |body: &str| {
        let request = strict(&server, Method::POST, "/v1/pets").body(body);
        request.header("idempotency-key", "a").send()
    };
    let rejected = create(r#"{"id":1,"name":"C","categoryId":1}"#).await;
    rejected.assert_error(400, "invalid_body");
    let body = r#"{"name":"C","categoryId":1}"#;
    assert_eq!(create(body).await.status, 201);
    let replayed = create(body).await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_applied(&replayed, true);
}

async fn every_response_says_that_handling_was_strict(backend: Backend) {
    let server = Server::start(backend).await;
    let orders_only = server.create_key(&[Scope::OrdersRead], None).await;
    for _ in 0..2 {
        let pet = json!({"name": "A", "categoryId": 1, "status": "available"});
        server.create(pet).await;
    }
    server.place_order(1).await;
    let send = |method: Method, path: &str| strict(&server, method, path);
    let tag = server.get("/v1/pets").await;
    let tag = tag.header("etag").unwrap();
    let body = r#"{"name":"B","categoryId":1}"#;
    for (request, status) in [
        (send(Method::GET, "/v1/pets"), 200),
        (send(Method::HEAD, "/v1/pets"), 200),
        (send(Method::GET, "/v1/pets/1"), 200),
        (
            send(Method::GET, "/v1/pets").header("if-none-match", tag),
            304,
        ),
        (
            send(Method::HEAD, "/v1/pets").header("if-none-match", tag),
            304,
        ),
        (send(Method::POST, "/v1/pets").body(body), 201),
        (send(Method::DELETE, "/v1/pets/2"), 204),
        (send(Method::GET, "/v1/pets?limit=0"), 400),
        (send(Method::POST, "/v1/pets").body("{"), 400),
        (send(Method::GET, "/v1/pets").without_key(), 401),
        (send(Method::GET, "/v1/pets").with_key("psk_typo"), 401),
        (send(Method::GET, "/v1/pets").with_key(&orders_only), 403),
        (send(Method::GET, "/v1/pets/99"), 404),
        (send(Method::GET, "/v1/nothing"), 404),
        (send(Method::PUT, "/v1/pets"), 405),
        (send(Method::DELETE, "/v1/pets/1"), 409),
        (
            send(Method::POST, "/v1/store/orders").body(r#"{"petId":1}"#),
            409,
        ),
        (
            send(Method::GET, "/v1/pets").header("if-match", "\"x\""),
            412,
        ),
        (send(Method::POST, "/v1/pets").body(" ".repeat(65537)), 413),
        (
            send(Method::POST, "/v1/pets")
                .header("content-type", "text/plain")
                .body(body),
            415,
        ),
    ] {
        let method = request.method.clone();
        let path = request.path.clone();
        let response = request.send().await;
        assert_eq!(response.status, status, "{method} {path}");
        assert_applied(&response, true);
    }
    // Outside the API, there is nothing to prefer.
    for path in ["/healthz", "/docs", "/v1/openapi.json", "/nothing"] {
        let response = send(Method::GET, path).send().await;
        assert_applied(&response, false);
    }
}

async fn only_strict_handling_is_applied(backend: Backend) {
    let server = Server::start(backend).await;
    for (values, is_strict) in [
        (&["handling=strict"][..], true),
        (&["Handling=STRICT"], true),
        (&["handling=\"strict\""], true),
        (&["handling = strict ; foo=bar"], true),
        (&["respond-async, wait=10, handling=strict"], true),
        (&["return=minimal", "handling=strict"], true),
        (&["handling=strict, handling=lenient"], true),
        (&["note=\"a, b\", handling=strict"], true),
        (&["handling=lenient"], false),
        (&["handling=lenient", "handling=strict"], false),
        (&["handling"], false),
        (&["handling="], false),
        (&["strict"], false),
        (&["handling=stricter"], false),
        (&["handling: strict"], false),
        (&["xhandling=strict"], false),
        (&["foo; handling=strict"], false),
        (&["note=\"x, handling=strict\""], false),
        (&["note=\"\\\", handling=strict\""], false),
        (&[""], false),
        (&[",;=,"], false),
        (&["\u{fc}"], false),
    ] {
        let request = server.request(Method::GET, "/v1/pets?unknown=1");
        let request = values
            .iter()
            .fold(request, |request, value| request.header("prefer", value));
        let response = request.send().await;
        let status = if is_strict { 400 } else { 200 };
        assert_eq!(response.status, status, "{values:?}");
        assert_applied(&response, is_strict);
    }
}
