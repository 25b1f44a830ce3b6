//! Snapshot of the error bodies, so that review shows every change of wording.

use std::fmt::Write;

use http::Method;
use petstore::api_key::Scope;

use crate::harness::{Backend, Server};

pub async fn error_bodies_match_the_snapshot(backend: Backend) {
    let server = Server::start(backend).await;
    let orders_only = server.create_key(&[Scope::OrdersRead], None).await;
    let get = |path: &str| server.request(Method::GET, path);
    let post = |body: &str| server.request(Method::POST, "/v1/pets").body(body);
    let patch = |body: &str| server.request(Method::PATCH, "/v1/pets/1").body(body);
    let order = |body: &str| server.request(Method::POST, "/v1/store/orders").body(body);
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
        get("/v1/store/orders?status=sold"),
        get("/v1/pets/1"),
        get("/v1/pets/one"),
        get("/v1/nothing"),
        server.request(Method::DELETE, "/v1/pets"),
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
        order(r#"{"petId":1}"#),
        get("/v1/store/orders/1"),
        server.request(Method::POST, "/v1/store/orders/1/complete"),
        server.request(Method::PUT, "/v1/store/orders/1/cancel"),
        post(r#"{"name":"A","categoryId":1,"status":"sold"}"#).header("idempotency-key", "a"),
        post(r#"{"name":"B","categoryId":1}"#).header("idempotency-key", "a"),
        order(r#"{"petId":1}"#),
        patch("{}").header("if-match", "\"x\""),
        patch("{}").header("if-none-match", "*"),
        post(&" ".repeat(65537)),
    ];
    let mut record = String::new();
    for request in requests {
        let (method, path) = (request.method.clone(), request.path.clone());
        let mut body = String::from_utf8(request.body.clone()).unwrap();
        if body.len() > 100 {
            body = format!("({} bytes)", body.len());
        }
        let response = request.send().await;
        writeln!(record, "{method} {path} {body:?}\n  {}", response.text()).unwrap();
    }
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("errors", record);
    });
}
