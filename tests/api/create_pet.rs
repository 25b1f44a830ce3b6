//! `POST /pets`: valid and invalid bodies, media types, size limits and ids.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use support::Backend;

use crate::{contract, harness::Server};

support::cases! {
    DATABASES: [
        create_returns_201_with_the_pet_and_its_location,
        names_and_category_ids_round_trip_exactly,
        an_omitted_status_stays_absent,
        unknown_members_are_ignored,
        integers_are_accepted_in_any_json_notation,
        invalid_bodies_get_400_and_store_nothing,
        content_types_other_than_json_get_415,
        content_encodings_get_415,
        oversized_bodies_get_413,
        concurrent_creates_get_unique_ascending_ids,
    ],
}

async fn create_returns_201_with_the_pet_and_its_location(backend: Backend) {
    let server = Server::start(backend).await;
    for id in 1..=3 {
        let body = json!({"name": "Biscuit", "categoryId": 3, "status": "available"});
        let response = server.post("/v1/pets", body.to_string()).await;
        assert_eq!(response.status, 201);
        let pet = json!({"id": id, "name": "Biscuit", "categoryId": 3, "status": "available"});
        assert_eq!(response.json(), pet);
        let location = response.header("location").unwrap();
        assert_eq!(location, format!("/v1/pets/{id}"));
        assert_eq!(server.get(location).await.json(), pet);
    }
}

async fn names_and_category_ids_round_trip_exactly(backend: Backend) {
    let server = Server::start(backend).await;
    let long = "ü".repeat(255);
    let names = [
        "x",
        " Moss ",
        "O'Brien; DROP TABLE pets;--",
        "\"quoted\\\"",
        "小狗",
        "e\u{301}",
        "é",
        "🐈‍⬛",
        "\u{feff}x",
        "\u{200b}",
        "a\u{2028}b",
        "\u{fffd}",
        "<b>&amp;</b>",
        "${name}",
        "%s",
        &long,
        "\u{10ffff}",
    ];
    for name in names {
        for category in [0, -1, 1 << 53, (1 << 53) + 1, i64::MAX, i64::MIN] {
            let id = server
                .create(json!({"name": name, "categoryId": category}))
                .await;
            let pet = server.get(&format!("/v1/pets/{id}")).await;
            assert_eq!(
                pet.json(),
                json!({"id": id, "name": name, "categoryId": category})
            );
            assert!(
                pet.text().contains(&category.to_string()),
                "the number keeps every digit"
            );
        }
    }
    let escaped = r#"{"n\u0061me":"\u0041\ud83d\udc08","categoryId":1}"#;
    assert_eq!(server.post("/v1/pets", escaped).await.json()["name"], "A🐈");
}

async fn an_omitted_status_stays_absent(backend: Backend) {
    let server = Server::start(backend).await;
    let created = server
        .post("/v1/pets", r#"{"name":"Moss","categoryId":7}"#)
        .await;
    assert_eq!(created.text(), r#"{"id":1,"name":"Moss","categoryId":7}"#);
    for path in ["/v1/pets", "/v1/pets/1"] {
        assert!(!server.get(path).await.text().contains("status"));
    }
    for status in ["available", "pending", "sold"] {
        assert_eq!(
            server
                .get(&format!("/v1/pets?status={status}"))
                .await
                .json(),
            json!([])
        );
    }
}

async fn unknown_members_are_ignored(backend: Backend) {
    let server = Server::start(backend).await;
    let body =
        r#"{"id":999,"x":{"y":[null,1e5,"\u00e9",{}]},"Name":"no","name":"A","categoryId":1,"":0}"#;
    let response = server.post("/v1/pets", body).await;
    assert_eq!(
        response.json(),
        json!({"id": 1, "name": "A", "categoryId": 1})
    );
}

async fn integers_are_accepted_in_any_json_notation(backend: Backend) {
    let server = Server::start(backend).await;
    for (written, value) in [
        ("1.0", 1),
        ("-0", 0),
        ("-0.0e9", 0),
        ("10e-1", 1),
        ("1E+2", 100),
        ("1.50e1", 15),
        ("0.0000000000000000001e19", 1),
        ("9007199254740993.0", 9_007_199_254_740_993),
        ("9.223372036854775807e18", i64::MAX),
        ("-9223372036854775808.000", i64::MIN),
    ] {
        let body = format!(r#"{{"name":"A","categoryId":{written}}}"#);
        let request = server.request(Method::POST, "/v1/pets").body(body);
        let response = request.skip_body_check().send().await;
        assert_eq!(response.json()["categoryId"], value, "{written}");
    }
}

async fn invalid_bodies_get_400_and_store_nothing(backend: Backend) {
    let server = Server::start(backend).await;
    let malformed: &[&[u8]] = &[
        b"",
        b" ",
        b"{",
        b"}",
        b"{\"name\":\"A\",\"categoryId\":1",
        b"{\"name\":\"A\",\"categoryId\":",
        b"{'name':'A','categoryId':1}",
        b"{name:\"A\",\"categoryId\":1}",
        b"nul",
        b"[1,",
        b"\"x",
        b"+1",
        b"{\"name\":\"A\",\"categoryId\":1}{}",
        b"{\"name\":\"A\",\"categoryId\":1} x",
        b"{\"name\":\"A\",\"categoryId\":1,}",
        b"{\"name\":\"A\",\"categoryId\":01}",
        b"{\"name\":\"A\",\"categoryId\":+1}",
        b"{\"name\":\"A\",\"categoryId\":1.}",
        b"{\"name\":\"A\",\"categoryId\":.5}",
        b"{\"name\":\"A\",\"categoryId\":NaN}",
        b"{\"name\":\"A\",\"categoryId\":0x10}",
        b"{\"name\":\"A\" /* c */,\"categoryId\":1}",
        b"{\"name\":\"A\xff\",\"categoryId\":1}",
        b"{\"name\":\"A\",\"categoryId\":1,\"x\":\"\xc3\"}",
        b"{\"name\":\"\xed\xa0\x80\",\"categoryId\":1}",
        b"{\"name\":\"A\nB\",\"categoryId\":1}",
        b"{\"name\":\"A\0\",\"categoryId\":1}",
        b"{\"name\":\"\\ud800\",\"categoryId\":1}",
        b"{\"name\":\"\\udc00\\ud800\",\"categoryId\":1}",
        b"{\"name\":\"\\x41\",\"categoryId\":1}",
        b"{\"name\":\"A\",\"categoryId\":1,\"x\":\"\\ud800\"}",
        b"{\"name\":\"A\",\"categoryId\":1,\"x\":{\"y\":[\"\\ud800\"]}}",
        b"{\"name\":\"A\",\"categoryId\":1,\"\\ud800\":1}",
        b"\xef\xbb\xbf{\"name\":\"A\",\"categoryId\":1}",
        b"\xff\xfe{\0\"\0n\0",
        b"\xfe\xff\0{\0\"\0n",
        b"{\"name\":\"A\",\"name\":\"A\",\"categoryId\":1}",
        b"{\"name\":\"A\",\"n\\u0061me\":\"B\",\"categoryId\":1}",
        b"{\"n\\u0061me\":\"A\",\"name\":\"B\",\"categoryId\":1}",
        b"{\"name\":\"A\",\"categoryId\":1,\"categoryId\":1}",
        b"{\"name\":\"A\",\"categoryId\":1,\"x\":1,\"x\":1}",
        b"{\"name\":\"A\",\"categoryId\":1,\"x\":{\"y\":1,\"y\":1}}",
        b"{\"name\":\"A\",\"categoryId\":1,\"status\":\"sold\",\"status\":\"sold\"}",
    ];
    for body in malformed {
        server
            .post("/v1/pets", *body)
            .await
            .assert_error(400, "invalid_json");
    }
    let deep = format!(
        r#"{{"name":"A","categoryId":1,"x":{}{}}}"#,
        "[".repeat(9999),
        "]".repeat(9999)
    );
    server
        .post("/v1/pets", deep)
        .await
        .assert_error(400, "invalid_json");

    let wrong_shape = [
        "[]",
        r#"["A",1]"#,
        r#"[{"name":"A","categoryId":1}]"#,
        "null",
        "true",
        "1",
        "\"x\"",
        "{}",
        r#"{"name":"A"}"#,
        r#"{"categoryId":1}"#,
        r#"{"NAME":"A","categoryid":1}"#,
    ];
    for body in wrong_shape {
        server
            .post("/v1/pets", body)
            .await
            .assert_error(400, "invalid_body");
    }
    let long = format!("\"{}\"", "a".repeat(256));
    let members = [
        ("name", "null"),
        ("name", "1"),
        ("name", "true"),
        ("name", "{}"),
        ("name", "[\"A\"]"),
        ("name", "\"\""),
        ("name", "\" \""),
        ("name", "\"\u{3000}\u{a0}\u{2028}\""),
        ("name", &long),
        ("name", r#""\u0000""#),
        ("name", r#""A\u0000""#),
        ("name", r#""\n""#),
        ("name", r#""A\tB""#),
        ("name", r#""\u007f""#),
        ("name", r#""A\u0085B""#),
        ("name", r#""\u001b[31m""#),
        ("categoryId", "null"),
        ("categoryId", "\"1\""),
        ("categoryId", "1.5"),
        ("categoryId", "true"),
        ("categoryId", "{}"),
        ("categoryId", "[1]"),
        ("categoryId", "9223372036854775808"),
        ("categoryId", "-9223372036854775809"),
        ("categoryId", "9223372036854775807.5"),
        ("categoryId", "1e19"),
        ("categoryId", "1e400"),
        ("categoryId", "1e-1"),
        ("categoryId", "1e-400"),
        ("categoryId", "1e99999999999999999999"),
        ("categoryId", "1e-99999999999999999999"),
        ("categoryId", "99999999999999999999999999999999999999999999"),
        ("status", "null"),
        ("status", "\"\""),
        ("status", "\"lost\""),
        ("status", "\"Sold\""),
        ("status", "\"sold \""),
        ("status", "1"),
        ("status", "[\"sold\"]"),
        ("status", r#"{"sold":null}"#),
    ];
    for (member, value) in members {
        let mut body = vec![("name", "\"A\""), ("categoryId", "1")];
        body.retain(|(name, _)| *name != member);
        body.push((member, value));
        let body: Vec<_> = body
            .iter()
            .map(|(name, value)| format!("{name:?}:{value}"))
            .collect();
        let mut request = server
            .request(Method::POST, "/v1/pets")
            .body(format!("{{{}}}", body.join(",")));
        if member == "categoryId" && value.len() > 5 {
            request = request.skip_body_check();
        }
        let response = request.send().await;
        response.assert_error(400, "invalid_body");
        let message = response.json()["message"].as_str().unwrap().to_string();
        assert!(
            message.starts_with(&format!("{member}: ")),
            "{member} {value}: {message}"
        );
    }
    assert_eq!(server.count_pets().await, 0);
}

async fn content_types_other_than_json_get_415(backend: Backend) {
    let server = Server::start(backend).await;
    let body = r#"{"name":"A","categoryId":1}"#;
    let post = |types: &[&str]| {
        let request = server.request(Method::POST, "/v1/pets").body(body);
        types
            .iter()
            .fold(request, |request, value| {
                request.header("content-type", value)
            })
            .send()
    };
    for rejected in [
        &["text/plain"][..],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=x"],
        &["application/json; charset=utf-16"],
        &["application/json; charset=latin1"],
        &["application/jsonx"],
        &["application/merge-patch+json"],
        &[""],
        &["application/json, application/json"],
        &["application/json", "text/plain"],
    ] {
        post(rejected)
            .await
            .assert_error(415, "unsupported_media_type");
    }
    assert_eq!(server.count_pets().await, 0);
    for accepted in [
        &[][..],
        &["application/json"],
        &["Application/JSON"],
        &["application/json;charset=UTF-8"],
        &["application/json ; charset=\"utf-8\""],
        &["application/json; profile=x"],
    ] {
        assert_eq!(post(accepted).await.status, 201, "{accepted:?}");
    }
}

async fn content_encodings_get_415(backend: Backend) {
    let server = Server::start(backend).await;
    let body = r#"{"name":"A","categoryId":1,"petId":1}"#;
    for (method, path) in [
        (Method::POST, "/v1/pets"),
        (Method::POST, "/v1/store/orders"),
        (Method::PATCH, "/v1/pets/1"),
        (Method::PUT, "/v1/categories/1"),
    ] {
        let send = |encoding: &str, media_type: &str| {
            let request = server.request(method.clone(), path).body(body);
            let request = request.header("content-encoding", encoding);
            request.header("content-type", media_type).send()
        };
        for encoding in ["gzip", "br", "identity, gzip", "x"] {
            let response = send(encoding, "application/json").await;
            response.assert_error(415, "unsupported_media_type");
            assert_eq!(response.header("accept-encoding"), Some("identity"));
            assert!(
                response
                    .text()
                    .contains("Content-Encoding: must be identity")
            );
        }
        // Another media type is not mended by another encoding (RFC 9110, 12.5.3).
        let response = send("identity", "text/plain").await;
        response.assert_error(415, "unsupported_media_type");
        assert_eq!(response.header("accept-encoding"), None);
    }
    let post = || {
        let request = server.request(Method::POST, "/v1/pets").body(body);
        request.header("content-encoding", "Identity")
    };
    assert_eq!(post().send().await.status, 201);
    let response = post().header("content-encoding", "gzip").send().await;
    response.assert_error(415, "unsupported_media_type");
}

async fn oversized_bodies_get_413(backend: Backend) {
    let server = Server::start(backend).await;
    let body = |size: usize| {
        let start = r#"{"name":"A","categoryId":1,"x":""#;
        format!("{start}{}\"}}", "x".repeat(size - start.len() - 2))
    };
    assert_eq!(server.post("/v1/pets", body(65536)).await.status, 201);
    for (method, path, _) in contract::operations_with("413") {
        let sizes = match &*path {
            "/v1/pets" => [65537, 8 << 20],
            "/v1/pets/batch" => [(1 << 20) + 1, 2 << 20],
            "/v1/pets/1/photos" if method == Method::POST => [(10 << 20) + 1, 11 << 20],
            _ => [65537, 1 << 20],
        };
        for size in sizes {
            let request = server.request(method.clone(), &path).body(body(size));
            let response = request.send().await;
            response.assert_error(413, "body_too_large");
        }
    }
    assert_eq!(server.count_pets().await, 1);
}

async fn concurrent_creates_get_unique_ascending_ids(backend: Backend) {
    let server = Server::start(backend).await;
    let server = &server;
    let clients = (0..32).map(|client| async move {
        let mut ids = Vec::new();
        for n in 0..10 {
            ids.push(
                server
                    .create(json!({"name": format!("{client}-{n}"), "categoryId": n}))
                    .await,
            );
        }
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        ids
    });
    let ids = futures_util::future::join_all(clients).await.concat();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 320);

    let mut names = BTreeSet::new();
    let mut next = Some("/v1/pets?limit=100".to_string());
    while let Some(path) = next {
        let response = server.get(&path).await;
        let pets = response.json();
        let pets = pets.as_array().unwrap().iter().cloned();
        names.extend(pets.map(|pet: Value| pet["name"].as_str().unwrap().to_string()));
        next = response.next();
    }
    assert_eq!(names.len(), 320);
}
