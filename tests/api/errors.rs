//! Snapshot of the error bodies, so that review shows every change of wording.

use std::fmt::Write;

use domain::{
    api_key::Scope,
    page::{ListQuery, Position},
    pet::PetFilter,
};
use http::Method;
use support::Backend;

use crate::harness::Server;

support::cases! {
    ALL: [
        error_bodies_match_the_snapshot,
    ],
}

async fn error_bodies_match_the_snapshot(backend: Backend) {
    let server = Server::start(backend).await;
    let orders_only = server.create_key(&[Scope::OrdersRead], None).await;
    let get = |path: &str| server.request(Method::GET, path);
    let post = |body: &str| server.request(Method::POST, "/v1/pets").body(body);
    let patch = |body: &str| server.request(Method::PATCH, "/v1/pets/1").body(body);
    let order = |body: &str| server.request(Method::POST, "/v1/store/orders").body(body);
    let webhooks_only = server.create_key(&[Scope::WebhooksWrite], None).await;
    let webhook = |body: &str| server.request(Method::POST, "/v1/webhooks").body(body);
    let change = |path: &str, body: &str| server.request(Method::PATCH, path).body(body);
    let event = "evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5";
    let retry = format!("/v1/webhooks/1/deliveries/{event}/retry");
    let put = |path: &str, body: &str| server.request(Method::PUT, path).body(body);
    let query = ListQuery::<PetFilter>::parse("").unwrap();
    let next = query.next(Position::of_id(1));
    let (_, cursor) = next.split_once("cursor=").unwrap();
    let ids: Vec<_> = (1..=101).map(|id| id.to_string()).collect();
    let requests = [
        get("/v1/pets").without_key(),
        get("/v1/pets").with_key("psk_typo"),
        get("/v1/pets").with_key("psk_00000000000000000000000000000000272EL9"),
        get("/v1/pets").header("authorization", "Bearer x"),
        get("/v1/pets").with_key(&orders_only),
        post("{}").with_key(&orders_only),
        get("/v1/pets?limit=0"),
        get("/v1/pets?limit=a%0Ab"),
        get("/v1/pets?limit=1&limit=2"),
        get("/v1/pets?status=lost"),
        get("/v1/pets?cursor=x"),
        get(&format!("/v1/pets?sort=desc&cursor={cursor}")),
        get("/v1/pets?sort=down"),
        get("/v1/pets?categoryId=one"),
        get("/v1/pets?name="),
        get("/v1/pets?name=a%07"),
        get(&format!("/v1/pets?name={}", "%C3%9F".repeat(64))),
        get("/v1/pets?id=1,,2"),
        get(&format!("/v1/pets?id={}", ids.join(","))),
        get("/v1/pets?id=1&id=2"),
        get("/v1/pets?microchip=12"),
        get("/v1/store/orders?status=sold"),
        get("/v1/store/orders?petId=0"),
        get("/v1/store/sales?by=year"),
        get("/v1/store/sales?by=day&by=day"),
        get("/v1/store/sales?from=2026-02-29"),
        get("/v1/store/sales?to=1.1.2026"),
        get("/v1/store/sales?from=2026-02-02&to=2026-02-01"),
        get("/v1/store/sales?from=2024-12-31&to=2026-01-01"),
        get("/v1/store/sales?by=week&from=2016-01-01&to=2026-01-08"),
        get("/v1/store/sales?timeZone=Europe/Bielefeld"),
        get("/v1/store/register"),
        get("/v1/store/register?entry=lost"),
        get("/v1/store/register?entry=sold&from=2016-01-01&to=2026-01-08"),
        get("/v1/store/register?entry=sold&cursor=x"),
        get("/v1/pets?limt=1&Name=rex").header("prefer", "handling=strict"),
        get("/v1/store/inventory?limit=1").header("prefer", "handling=strict"),
        get("/v1/pets/1"),
        get("/v1/pets/one"),
        get("/v1/nothing"),
        get("/v1/pet"),
        get("/v1/orders/1"),
        server.request(Method::DELETE, "/v1/pets"),
        server.request(Method::DELETE, "/v1/pets/1"),
        server.request(Method::DELETE, "/v1/categories/1"),
        post(""),
        post("{\"name\":\"Moss\","),
        post("\u{feff}{}"),
        post(r#"{"name":"A","name":"B","categoryId":1}"#),
        post(r#"{"name":"\ud800","categoryId":1}"#),
        post("[]"),
        post("{}"),
        post(r#"{"name":"","categoryId":1.5,"status":null}"#),
        post(r#"{"name":"a\u0000b","categoryId":"1","status":"lost"}"#),
        post(r#"{"name":1,"categoryId":9223372036854775808,"status":{"sold":null}}"#),
        post(r#"{"name":"A","categoryId":1,"price":{"amount":1,"currency":"EUR","id":1}}"#)
            .header("prefer", "handling=strict"),
        post(r#"{"name":"A","categoryId":1,"source":{"id":1,"nmae":"B"}}"#)
            .header("prefer", "handling=strict"),
        post("{}").header("content-type", "text/plain"),
        post("{}").header("content-encoding", "gzip"),
        get("/v1/pets").header("if-match", "\"x\""),
        post(r#"{"name":"A","categoryId":1}"#).header("if-match", "*, *"),
        post(r#"{"name":"A","categoryId":1}"#).header("if-none-match", "*"),
        post(r#"{"name":"A","categoryId":1}"#).header("idempotency-key", ""),
        patch("{}").header("content-type", "text/plain"),
        patch(r#"{"name":null,"categoryId":null,"status":1}"#),
        patch(r#"{"status":"sold"}"#),
        order("{}"),
        order(r#"{"petId":0}"#),
        get("/v1/store/orders/1"),
        server.request(Method::POST, "/v1/store/orders/1/complete"),
        server.request(Method::PUT, "/v1/store/orders/1/cancel"),
        post(r#"{"name":"A","categoryId":1,"status":"sold"}"#).header("idempotency-key", "a"),
        server.request(Method::POST, "/v1/store/orders/1/return"),
        post(r#"{"name":"C","categoryId":1,"status":"available"}"#),
        order(r#"{"petId":2}"#),
        server.request(Method::DELETE, "/v1/pets/2"),
        server.request(Method::POST, "/v1/store/orders/1/return"),
        server.request(Method::POST, "/v1/store/orders/1/complete"),
        server
            .request(Method::PATCH, "/v1/pets/2")
            .body(r#"{"status":"available"}"#),
        // On PostgreSQL, a rejected request may use up an id.
        post(r#"{"name":"B","categoryId":1}"#).header("idempotency-key", "a"),
        order(r#"{"petId":1}"#),
        order(r#"{"petId":99}"#),
        put("/v1/categories/1", r#"{"name":"Dogs"}"#),
        put("/v1/categories/2", r#"{"name":"DOGS"}"#),
        put("/v1/categories/2", r#"{"name":" "}"#),
        put("/v1/categories/2", "{}"),
        put("/v1/categories/01", r#"{"name":"Cats"}"#),
        put("/v1/categories/1", r#"{"name":"Cats"}"#).header("if-none-match", "*"),
        put("/v1/categories/2", r#"{"name":"Cats"}"#).header("if-match", "*"),
        webhook(r#"{"url":"https://receiver.example/"}"#),
        webhook("{}"),
        webhook(r#"{"url":"http://a.example","types":["pet.created"]}"#),
        webhook(r#"{"url":"http://localhost"}"#),
        webhook(r#"{"url":"https://localhost"}"#),
        webhook(r#"{"url":"https://10.0.0.1/"}"#),
        webhook(r#"{"url":"https://user@a.example","types":[],"description":1}"#),
        webhook(r#"{"url":"https://a.example"}"#).with_key(&webhooks_only),
        change("/v1/webhooks/1", r#"{"state":"on"}"#),
        change("/v1/webhooks/1", "{}").header("if-match", "\"x\""),
        change("/v1/webhooks/1", "{}").header("if-none-match", "*"),
        change("/v1/webhooks/1", r#"{"state":"disabled"}"#),
        get("/v1/webhooks/2"),
        get("/v1/webhooks/1/deliveries?state=lost"),
        server.request(Method::POST, &retry),
        change("/v1/webhooks/1", r#"{"state":"enabled"}"#),
        server.request(Method::POST, &retry),
        server.request(Method::POST, "/v1/webhooks/1/deliveries/1/retry"),
        server
            .request(Method::POST, "/v1/webhooks/1/replay")
            .body("{}"),
        server
            .request(Method::POST, "/v1/webhooks/1/replay")
            .body(format!(r#"{{"after":"{event}"}}"#)),
        patch("{}").header("if-match", "\"x\""),
        patch("{}").header("if-none-match", "*"),
        change(
            "/v1/store/settings",
            r#"{"name":" ","address":"","receiptText":"a\u0007","currency":"euro"}"#,
        ),
        change("/v1/store/settings", r#"{"adress":"x"}"#).header("prefer", "handling=strict"),
        change("/v1/store/settings", "{}").header("if-match", "\"x\""),
        change("/v1/store/settings", "{}").header("if-none-match", "*"),
        change("/v1/store/settings", "{}").with_key(&orders_only),
        get("/v1/store/settings").with_key(&webhooks_only),
        post(&" ".repeat(65537)),
    ];
    let mut record = String::new();
    for request in requests {
        let method = request.method.clone();
        let mut path = request.path.clone();
        let mut body = String::from_utf8(request.body.clone()).unwrap();
        for text in [&mut path, &mut body] {
            if text.len() > 100 {
                *text = format!("{}… ({} bytes)", &text[..15], text.len());
            }
        }
        let response = request.send().await;
        if response.is_success() {
            continue;
        }
        writeln!(record, "{method} {path} {body:?}\n  {}", response.text()).unwrap();
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("errors", record);
    });
}
