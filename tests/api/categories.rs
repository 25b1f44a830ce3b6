//! Categories: names for the category ids of pets.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        categories_are_named_renamed_and_deleted,
        categories_are_listed_by_id,
        invalid_categories_are_rejected,
        names_are_unique_ignoring_case,
        preconditions_of_categories_are_evaluated,
        concurrent_changes_of_categories_are_serialized,
        races_of_put_and_delete_have_an_order,
    ],
}

/// Names a category, with preconditions.
async fn put_if(server: &Server, id: i64, name: &str, headers: &[(&str, &str)]) -> Response {
    let request = server.request(Method::PUT, &format!("/v1/categories/{id}"));
    let request = request.body(json!({"name": name}).to_string());
    let conditional = headers.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    conditional.send().await
}

async fn delete_if(server: &Server, id: i64, headers: &[(&str, &str)]) -> Response {
    let request = server.request(Method::DELETE, &format!("/v1/categories/{id}"));
    let conditional = headers.iter().fold(request, |request, (name, value)| {
        request.header(name, value)
    });
    conditional.send().await
}

async fn list(server: &Server) -> Value {
    server.get("/v1/categories?limit=100").await.json()
}

async fn categories_are_named_renamed_and_deleted(backend: Backend) {
    let server = Server::start(backend).await;
    assert_eq!(list(&server).await, json!([]));
    server
        .create(json!({"name": "Rex", "categoryId": -3}))
        .await;
    let created = server.put_category(-3, "Dogs").await;
    let dogs = json!({"id": -3, "name": "Dogs"});
    assert_eq!((created.status, created.json()), (201, dogs.clone()));
    assert_eq!(list(&server).await, json!([dogs]));
    // Unchanged.
    let again = server.put_category(-3, "Dogs").await;
    assert_eq!((again.status, again.json()), (200, dogs.clone()));
    assert_eq!(again.header("etag"), created.header("etag"));
    // Its own name in another case is another name.
    for name in ["DOGS", " Hunde 🐕 ", "Dogs"] {
        let renamed = server.put_category(-3, name).await;
        assert_eq!(renamed.status, 200);
        assert_eq!(renamed.json(), json!({"id": -3, "name": name}));
        assert_eq!(list(&server).await, json!([renamed.json()]));
    }
    let deleted = server.delete("/v1/categories/-3").await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    assert_eq!(list(&server).await, json!([]));
    let again = server.delete("/v1/categories/-3").await;
    again.assert_error(404, "not_found");
    // Pets keep their number.
    let found = server.get("/v1/pets?categoryId=-3").await.json();
    assert_eq!(found[0]["categoryId"], -3);
    assert_eq!(server.put_category(-3, "Dogs").await.status, 201);
}

async fn categories_are_listed_by_id(backend: Backend) {
    let server = Server::start(backend).await;
    let ids = [0, i64::MAX, -1, i64::MIN, 1, 9_007_199_254_740_993, 2, -2];
    for id in ids {
        let response = server.put_category(id, &format!("Category {id}")).await;
        assert_eq!(response.status, 201, "{}", response.text());
        assert_eq!(response.json()["id"], id);
    }
    let mut sorted = ids;
    sorted.sort();
    for limit in [1, 3, 4, 8, 100] {
        let found = server.walk(&format!("/v1/categories?limit={limit}")).await;
        let found: Vec<_> = found.iter().map(|c| c["id"].as_i64().unwrap()).collect();
        assert_eq!(found, sorted, "limit {limit}");
    }
    let first = server.get("/v1/categories?limit=4").await;
    let next = first.next().unwrap();
    assert!(next.starts_with("/v1/categories?limit=4&cursor="), "{next}");
    assert_eq!(server.get(&next).await.next(), None);
    // A walk continues after a category that was deleted since the last page.
    let ids: Vec<_> = sorted.iter().map(|id| json!(id)).collect();
    server
        .delete(&format!("/v1/categories/{}", sorted[3]))
        .await;
    let rest = server.walk(&next).await;
    let rest: Vec<_> = rest.iter().map(|c| c["id"].clone()).collect();
    assert_eq!(rest, ids[4..]);

    let (_, cursor) = next.split_once("cursor=").unwrap();
    for query in [
        "limit=0",
        "limit=101",
        "limit=1&limit=1",
        "cursor=x",
        "cursor=",
    ] {
        let response = server.get(&format!("/v1/categories?{query}")).await;
        response.assert_error(400, "invalid_parameter");
    }
    let elsewhere = server.get(&format!("/v1/pets?cursor={cursor}")).await;
    elsewhere.assert_error(400, "invalid_parameter");
    // Every change gives the list another ETag.
    let mut tags = Vec::new();
    for change in 0..3 {
        match change {
            0 => server.put_category(0, "Zero").await,
            1 => server.put_category(77, "New").await,
            _ => server.delete("/v1/categories/77").await,
        };
        let tag = server.get("/v1/categories").await;
        let tag = tag.header("etag").unwrap().to_string();
        let request = server.request(Method::GET, "/v1/categories");
        let same = request.header("if-none-match", &tag).send().await;
        assert_eq!(same.status, 304);
        tags.push(tag);
    }
    assert!(tags[0] != tags[1] && tags[0] == tags[2], "{tags:?}");
}

async fn invalid_categories_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    let put = |path: &str, body: &str| {
        let request = server.request(Method::PUT, path);
        request.body(body).send()
    };
    let long = json!({"name": "x".repeat(101)}).to_string();
    for body in [
        "{}",
        "[]",
        "\"Dogs\"",
        r#"{"name":null}"#,
        r#"{"name":1}"#,
        r#"{"name":""}"#,
        r#"{"name":" \u00a0"}"#,
        r#"{"name":"a\u0000"}"#,
        r#"{"name":"a\u0085b"}"#,
        r#"{"Name":"Dogs"}"#,
        &long,
    ] {
        let response = put("/v1/categories/1", body).await;
        response.assert_error(400, "invalid_body");
    }
    for body in ["", "{", r#"{"name":"A","name":"B"}"#] {
        let response = put("/v1/categories/1", body).await;
        response.assert_error(400, "invalid_json");
    }
    let plain = server.request(Method::PUT, "/v1/categories/1");
    let plain = plain
        .header("content-type", "text/plain")
        .body(r#"{"name":"A"}"#);
    plain
        .send()
        .await
        .assert_error(415, "unsupported_media_type");
    for id in [
        "one",
        "+1",
        "01",
        "-0",
        "-",
        "1.0",
        "1e0",
        "9223372036854775808",
        "-9223372036854775809",
        "%201",
        "%ff",
    ] {
        let path = format!("/v1/categories/{id}");
        put(&path, r#"{"name":"A"}"#)
            .await
            .assert_error(404, "not_found");
        server.delete(&path).await.assert_error(404, "not_found");
    }
    assert_eq!(list(&server).await, json!([]));
    // The longest name, which folding makes longer; unknown members are ignored.
    let name = "ΐ".repeat(100);
    let body = json!({"id": 9, "name": name, "color": "red"}).to_string();
    let response = put("/v1/categories/%31", &body).await;
    assert_eq!(response.json(), json!({"id": 1, "name": name}));
}

async fn names_are_unique_ignoring_case(backend: Backend) {
    let server = Server::start(backend).await;
    for (id, (name, taken)) in [
        ("Dogs", &["dogs", "DOGS"][..]),
        ("Éclairs", &["éclairs", "E\u{301}CLAIRS"]),
        ("Straße", &["STRASSE", "straẞe"]),
        ("Σ", &["ς", "σ"]),
        ("İ", &["i\u{307}"]),
        ("100%_\\", &["100%_\\"]),
        ("🐕\u{10ffff}", &["🐕\u{10ffff}"]),
    ]
    .into_iter()
    .enumerate()
    {
        let id = id as i64;
        assert_eq!(server.put_category(id, name).await.status, 201);
        for taken in taken {
            let response = server.put_category(100, taken).await;
            response.assert_error(409, "category_name_taken");
        }
    }
    for free in ["Dog", "Dogs ", "Eclairs", "Strase", "i", "ı", "100%"] {
        assert_eq!(server.put_category(100, free).await.status / 100, 2);
    }
    // A rename can collide as well, and frees the old name.
    let response = server.put_category(100, "dOGS").await;
    response.assert_error(409, "category_name_taken");
    assert_eq!(server.put_category(0, "Hounds").await.status, 200);
    assert_eq!(server.put_category(100, "dOGS").await.status, 200);
    server.delete("/v1/categories/100").await;
    assert_eq!(server.put_category(101, "DOGS").await.status, 201);
}

async fn preconditions_of_categories_are_evaluated(backend: Backend) {
    let server = Server::start(backend).await;
    let failed = |response: Response| response.assert_error(412, "precondition_failed");
    // Only create.
    failed(put_if(&server, 1, "Dogs", &[("if-match", "*")]).await);
    failed(put_if(&server, 1, "Dogs", &[("if-match", "\"x\"")]).await);
    let created = put_if(&server, 1, "Dogs", &[("if-none-match", "*")]).await;
    assert_eq!(created.status, 201);
    failed(put_if(&server, 1, "Cats", &[("if-none-match", "*")]).await);
    let tag = created.header("etag").unwrap();
    let weak = format!("W/{tag}");
    for (name, value) in [
        ("if-match", "\"x\""),
        ("if-match", &weak),
        ("if-match", ""),
        ("if-none-match", tag),
        ("if-none-match", &weak),
        ("if-none-match", "*"),
    ] {
        failed(put_if(&server, 1, "Cats", &[(name, value)]).await);
        failed(delete_if(&server, 1, &[(name, value)]).await);
    }
    // Only rename what is known.
    let renamed = put_if(&server, 1, "Cats", &[("if-match", tag)]).await;
    assert_eq!(renamed.status, 200);
    failed(put_if(&server, 1, "Late", &[("if-match", tag)]).await);
    failed(delete_if(&server, 1, &[("if-match", tag)]).await);
    let both = [("if-match", "*"), ("if-none-match", tag)];
    assert_eq!(put_if(&server, 1, "Dogs", &both).await.status, 200);
    assert_eq!(list(&server).await, json!([{"id": 1, "name": "Dogs"}]));
    // A missing category is a 404, not a failed precondition.
    for (name, value) in [
        ("if-match", "*"),
        ("if-match", "\"x\""),
        ("if-none-match", "*"),
    ] {
        let response = delete_if(&server, 2, &[(name, value)]).await;
        response.assert_error(404, "not_found");
    }
    assert_eq!(
        delete_if(&server, 1, &[("if-match", tag)]).await.status,
        204
    );
}

async fn concurrent_changes_of_categories_are_serialized(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 0..5 {
        // One name for many ids: exactly one wins.
        let first = round * 100;
        let name = format!("Name {round}");
        let puts = (0..16).map(|n| {
            let name = if n % 2 == 0 {
                name.to_uppercase()
            } else {
                name.clone()
            };
            let server = &server;
            async move { server.put_category(first + n, &name).await }
        });
        let responses = join_all(puts).await;
        let (won, lost): (Vec<_>, Vec<_>) = responses.iter().partition(|r| r.status == 201);
        assert_eq!(won.len(), 1, "round {round}");
        for response in lost {
            response.assert_error(409, "category_name_taken");
        }
        // Many names for one id: one creates, the others rename, and the last one stays.
        let id = first + 50;
        let puts = (0..8).map(async |n| server.put_category(id, &format!("{round}-{n}")).await);
        let responses = join_all(puts).await;
        let created = responses.iter().filter(|r| r.status == 201).count();
        let renamed = responses.iter().filter(|r| r.status == 200).count();
        assert_eq!((created, renamed), (1, 7), "round {round}");
        // With an ETag, one of them.
        let tag = server.put_category(id, &format!("{round}-now")).await;
        let tag = tag.header("etag").unwrap();
        let names: Vec<_> = (0..8).map(|n| format!("{round}-next-{n}")).collect();
        let unchanged = [("if-match", tag)];
        let puts = names
            .iter()
            .map(|name| put_if(&server, id, name, &unchanged));
        let won = join_all(puts).await;
        assert_eq!(won.iter().filter(|r| r.status == 200).count(), 1);
        assert_eq!(won.iter().filter(|r| r.status == 412).count(), 7);
        // `If-None-Match: *` creates once.
        let id = first + 51;
        let names: Vec<_> = (0..8).map(|n| format!("{round}-new-{n}")).collect();
        let puts = names
            .iter()
            .map(|name| put_if(&server, id, name, &[("if-none-match", "*")]));
        let won = join_all(puts).await;
        assert_eq!(won.iter().filter(|r| r.status == 201).count(), 1);
        assert_eq!(won.iter().filter(|r| r.status == 412).count(), 7);
    }
}

/// Puts and deletes of one category: the responses have an order in which they are true.
async fn races_of_put_and_delete_have_an_order(backend: Backend) {
    let server = Server::start(backend).await;
    for round in 0..10 {
        let path = format!("/v1/categories/{round}");
        let name = format!("Name {round}");
        let (puts, deletes) = tokio::join!(
            join_all((0..4).map(|_| server.put_category(round, &name))),
            join_all((0..4).map(|_| server.delete(&path))),
        );
        let count = |responses: &[Response], status: u16| {
            let of_status = responses.iter().filter(|r| r.status == status);
            of_status.count()
        };
        let created = count(&puts, 201);
        let deleted = count(&deletes, 204);
        assert_eq!(created + count(&puts, 200), 4, "round {round}");
        assert_eq!(deleted + count(&deletes, 404), 4, "round {round}");
        let categories = list(&server).await;
        let mut categories = categories.as_array().unwrap().iter();
        let remains = categories.any(|category| category["id"] == round);
        assert_eq!(created, deleted + usize::from(remains), "round {round}");
        // Deleting frees the name, also for others.
        let (freed, taken) = tokio::join!(
            server.delete(&path),
            server.put_category(round + 100, &name)
        );
        match (remains, freed.status, taken.status) {
            (true, 204, 201) | (false, 404, 201) => {}
            (true, 204, 409) => {
                assert_eq!(server.put_category(round + 100, &name).await.status, 201);
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    // Two that swap their names at once fail, and neither waits for the other.
    server.put_category(-1, "One").await;
    server.put_category(-2, "Two").await;
    for _ in 0..5 {
        let (one, two) = tokio::join!(
            server.put_category(-1, "Two"),
            server.put_category(-2, "One")
        );
        one.assert_error(409, "category_name_taken");
        two.assert_error(409, "category_name_taken");
    }
}
