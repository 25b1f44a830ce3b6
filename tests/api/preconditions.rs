//! `If-Match` and `If-None-Match` on reads, updates and POSTs (RFC 9110, section 13).

use http::Method;
use serde_json::json;
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        reads_evaluate_if_match_before_if_none_match,
        updates_evaluate_if_none_match,
        posts_with_preconditions_get_412,
    ],
}

async fn start(backend: Backend) -> Server {
    let server = Server::start(backend).await;
    let pet = json!({"name": "Rex", "categoryId": 7, "status": "available"});
    server.create(pet).await;
    server.place_order(1).await;
    server
}

async fn reads_evaluate_if_match_before_if_none_match(backend: Backend) {
    let server = start(backend).await;
    for path in [
        "/v1/pets",
        "/v1/pets/1",
        "/v1/store/inventory",
        "/v1/store/orders",
        "/v1/store/orders/1",
        "/v1/categories",
        "/v1/store/settings",
        "/v1/openapi.json",
    ] {
        let current = server.get(path).await;
        let tag = current.header("etag").unwrap();
        let get = |method: Method, headers: &[(&str, &str)]| {
            let request = server.request(method, path);
            let request = headers.iter().fold(request, |request, (name, value)| {
                request.header(name, value)
            });
            request.send()
        };
        let weak = format!("W/{tag}");
        let listed = format!("\"other\", {tag}");
        for (headers, status) in [
            (&[("if-match", tag)][..], 200),
            (&[("if-match", "*")], 200),
            (&[("if-match", &*listed)], 200),
            (&[("if-match", "\"other\""), ("if-match", tag)], 200),
            (&[("if-match", "\"other\"")], 412),
            (&[("if-match", &*weak)], 412),
            (&[("if-match", "")], 412),
            (&[("if-none-match", tag)], 304),
            (&[("if-none-match", &*weak)], 304),
            (&[("if-none-match", "*")], 304),
            (&[("if-none-match", "\"other\"")], 200),
            (&[("if-match", tag), ("if-none-match", tag)], 304),
            (&[("if-match", "\"other\""), ("if-none-match", tag)], 412),
        ] {
            let response = get(Method::GET, headers).await;
            assert_eq!(response.status, status, "{path} {headers:?}");
            if status == 412 {
                response.assert_error(412, "precondition_failed");
            }
            let head = get(Method::HEAD, headers).await;
            assert_eq!((head.status, head.body.len()), (status, 0));
        }
    }
    // A request that fails anyway is not evaluated.
    for (path, status) in [("/v1/pets/9", 404), ("/v1/pets?limit=0", 400)] {
        for name in ["if-match", "if-none-match"] {
            let request = server.request(Method::GET, path).header(name, "*");
            assert_eq!(request.send().await.status, status);
        }
    }
}

async fn updates_evaluate_if_none_match(backend: Backend) {
    let server = start(backend).await;
    let tag = server.get("/v1/pets/1").await;
    let tag = tag.header("etag").unwrap().to_string();
    let patch = |path: &str, headers: &[(&str, &str)]| {
        let request = server.request(Method::PATCH, path);
        let request = request.body(r#"{"name":"Max"}"#);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(name, value)
        });
        request.send()
    };
    let weak = format!("W/{tag}");
    for headers in [
        &[("if-none-match", "*")][..],
        &[("if-none-match", &*tag)],
        &[("if-none-match", &*weak)],
        &[("if-match", &*tag), ("if-none-match", "*")],
        &[("if-match", "*"), ("if-none-match", &*tag)],
        &[("if-match", "\"other\""), ("if-none-match", "\"other\"")],
    ] {
        let response = patch("/v1/pets/1", headers).await;
        response.assert_error(412, "precondition_failed");
    }
    assert_eq!(server.get("/v1/pets/1").await.json()["name"], "Rex");
    let missing = patch("/v1/pets/9", &[("if-none-match", "*")]).await;
    missing.assert_error(404, "not_found");
    let other = [("if-match", &*tag), ("if-none-match", "\"other\"")];
    assert_eq!(patch("/v1/pets/1", &other).await.status, 200);
}

/// A POST has no entity tag to match, and nothing is changed in doubt.
async fn posts_with_preconditions_get_412(backend: Backend) {
    let server = start(backend).await;
    server
        .create(json!({"name": "Max", "categoryId": 1, "status": "available"}))
        .await;
    let list = server.get("/v1/pets").await;
    let tag = list.header("etag").unwrap();
    let post = |path: &str, body: &str, name: &str, value: &str| {
        let request = server.request(Method::POST, path).header(name, value);
        request.body(body).send()
    };
    let create = ("/v1/pets", r#"{"name":"A","categoryId":1}"#);
    let place = ("/v1/store/orders", r#"{"petId":2}"#);
    let complete = ("/v1/store/orders/1/complete", "");
    let cancel = ("/v1/store/orders/1/cancel", "");
    let return_order = ("/v1/store/orders/1/return", "");
    for (path, body) in [create, place, complete, cancel, return_order] {
        let response = post(path, body, "if-match", tag).await;
        response.assert_error(412, "precondition_failed");
    }
    for (path, body) in [create, place] {
        let response = post(path, body, "if-none-match", "*").await;
        response.assert_error(412, "precondition_failed");
    }
    for (path, body) in [complete, cancel, return_order] {
        let response = post(path, body, "if-match", "*").await;
        response.assert_error(412, "precondition_failed");
    }
    for action in ["complete", "cancel", "return"] {
        let path = format!("/v1/store/orders/9/{action}");
        let response = post(&path, "", "if-match", tag).await;
        response.assert_error(404, "not_found");
    }
    assert_eq!(server.count_pets().await, 2);
    assert_eq!(server.pet_status(1).await, "pending");
    assert_eq!(server.pet_status(2).await, "available");
    // The lists exist; what is completed does not exist as such.
    assert_eq!(post(create.0, create.1, "if-match", "*").await.status, 201);
    assert_eq!(
        post(place.0, place.1, "if-none-match", tag).await.status,
        201
    );
    assert_eq!(
        post(complete.0, complete.1, "if-none-match", "*")
            .await
            .status,
        200
    );
}
