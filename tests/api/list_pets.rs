//! `GET /pets`: page size, filter, keyset pagination, conditional requests.

use std::collections::BTreeSet;

use domain::{
    order::OrderFilter,
    page::{Cursor, Filter, ListQuery, Position},
    pet::PetFilter,
};
use http::Method;
use serde_json::json;
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        the_page_size_defaults_to_20,
        the_list_can_be_filtered_by_status,
        keyset_pagination_visits_every_pet_once,
        links_use_the_public_url,
        invalid_query_parameters_get_400,
        if_none_match_returns_304_for_an_unchanged_page,
        reads_see_every_acknowledged_write,
    ],
}

async fn the_page_size_defaults_to_20(backend: Backend) {
    let server = Server::start(backend).await;
    assert_eq!(server.get("/v1/pets").await.json(), json!([]));
    server.create_pets(101).await;
    for (path, count) in [
        ("/v1/pets", 20),
        ("/v1/pets?limit=1", 1),
        ("/v1/pets?limit=100", 100),
        ("/v1/pets?unknown=1&limit=7&more", 7),
    ] {
        let response = server.get(path).await;
        assert_eq!(response.status, 200);
        let ids: Vec<_> = response
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|pet| pet["id"].as_i64())
            .collect();
        let first: Vec<_> = (1..=count).map(Some).collect();
        assert_eq!(ids, first, "{path}");
    }
}

async fn the_list_can_be_filtered_by_status(backend: Backend) {
    let server = Server::start(backend).await;
    for status in ["sold", "available", "pending", "sold"] {
        server
            .create(json!({"name": "A", "categoryId": 1, "status": status}))
            .await;
    }
    server
        .create(json!({"name": "without", "categoryId": 1}))
        .await;
    for (status, ids) in [
        ("available", vec![2]),
        ("pending", vec![3]),
        ("sold", vec![1, 4]),
    ] {
        let pets = server
            .get(&format!("/v1/pets?status={status}"))
            .await
            .json();
        let pets = pets.as_array().unwrap();
        assert!(pets.iter().all(|pet| pet["status"] == status));
        assert_eq!(
            pets.iter()
                .map(|pet| pet["id"].as_i64().unwrap())
                .collect::<Vec<_>>(),
            ids
        );
    }
    assert_eq!(server.count_pets().await, 5);
}

async fn keyset_pagination_visits_every_pet_once(backend: Backend) {
    let server = Server::start(backend).await;
    for n in 0..10 {
        let status = if n % 2 == 0 { "sold" } else { "pending" };
        server
            .create(json!({"name": "A", "categoryId": n, "status": status}))
            .await;
    }
    for (start, pages, found) in [
        ("/v1/pets?limit=3", 4, 10),
        ("/v1/pets?limit=5", 2, 10),
        ("/v1/pets?limit=10", 1, 10),
        ("/v1/pets?limit=2&status=sold", 3, 5),
        ("/v1/pets?status=sold&limit=5", 1, 5),
    ] {
        let mut next = Some(start.to_string());
        let mut seen = Vec::new();
        let mut count = 0;
        while let Some(path) = next {
            assert!(path.contains("limit="), "the link lost the limit: {path}");
            assert_eq!(
                path.contains("status=sold"),
                start.contains("status=sold"),
                "{path}"
            );
            let response = server.get(&path).await;
            seen.extend(
                response
                    .json()
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|pet| pet["id"].as_i64().unwrap()),
            );
            next = response.next();
            count += 1;
        }
        assert_eq!(count, pages, "{start}");
        assert_eq!(seen.len(), found, "{start}");
        assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    }
}

async fn links_use_the_public_url(backend: Backend) {
    let address = "https://shop.example/api/v1";
    let server = Server::start_with(backend, |config| {
        config.service.api.public_url = Some(address.parse().unwrap());
    })
    .await;
    server.create_pets(2).await;
    let next = server.get("/v1/pets?limit=1").await.next().unwrap();
    assert!(
        next.starts_with("https://shop.example/api/v1/pets?limit=1&cursor="),
        "{next}"
    );
    let created = server
        .post("/v1/pets", r#"{"name":"A","categoryId":1}"#)
        .await;
    assert_eq!(
        created.header("location"),
        Some("https://shop.example/api/v1/pets/3")
    );
    let link = server
        .get("/v1/pets/1")
        .await
        .header("link")
        .unwrap()
        .to_string();
    assert!(
        link.contains("<https://shop.example/api/v1/pets>; rel=\"successor-version\""),
        "{link}"
    );
    assert!(
        link.contains("<https://shop.example/api/docs>; rel=\"deprecation\""),
        "{link}"
    );
}

async fn invalid_query_parameters_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(3).await;
    let good = server.get("/v1/pets?limit=1").await.next().unwrap();
    let good = good.split_once("cursor=").unwrap().1.to_string();
    let tampered = |at: usize| {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let queries = [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=",
        "limit",
        "limit=abc",
        "limit=1.0",
        "limit=1e1",
        "limit=%2B1",
        "limit=+1",
        "limit=%201",
        "limit=01",
        "limit=0x10",
        "limit=99999999999999999999",
        "limit=%00",
        "limit=%ff",
        "limit=٣",
        "limit=1&limit=1",
        "limit=1&limit=2",
        "limit=1&limit=",
        "status=",
        "status",
        "status=lost",
        "status=SOLD",
        "status=sold%20",
        "status=null",
        "status=available,available",
        "status=available,",
        "status=,sold",
        "status=available%2C%20sold",
        "status=sold&status=sold",
        "status[]=sold&status=x",
        "%73tatus=x",
        "cursor=",
        "cursor=1",
        "cursor=AAAA",
        "cursor=%00",
        "cursor=====",
        "cursor=a+b",
    ];
    let mut queries: Vec<String> = queries.map(String::from).into();
    queries.extend((0..good.len()).map(|at| format!("cursor={}", tampered(at))));
    queries.push(format!("cursor={good}&cursor={good}"));
    queries.push(format!("cursor={good}="));
    queries.push(format!("cursor={good}A"));
    queries.push(format!("cursor={}", &good[1..]));
    let cursor = Cursor::parse(&good, PetFilter::LIST).unwrap();
    queries.push(format!("cursor={}", cursor.encode(OrderFilter::LIST)));
    // A cursor belongs to its query.
    queries.push(format!("status=sold&cursor={good}"));
    queries.push(format!("sort=desc&cursor={good}"));
    for query in queries {
        let response = server.get(&format!("/v1/pets?{query}")).await;
        response.assert_error(400, "invalid_parameter");
        let message = response.json()["message"].as_str().unwrap().to_string();
        let field = message.split(':').next().unwrap();
        assert!(
            ["limit", "status", "cursor"].contains(&field),
            "{query}: {message}"
        );
    }
    assert_eq!(
        server.get(&format!("/v1/pets?cursor={good}")).await.status,
        200
    );
}

async fn if_none_match_returns_304_for_an_unchanged_page(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(2).await;
    for path in [
        "/v1/pets",
        "/v1/pets?limit=2",
        "/v1/pets/1",
        "/v1/store/orders",
    ] {
        let first = server.get(path).await;
        let tag = first.header("etag").unwrap().to_string();
        assert_eq!(server.get(path).await.header("etag"), Some(&*tag), "{path}");
        for validator in [
            tag.clone(),
            format!("W/{tag}"),
            "*".into(),
            format!("\"x\", {tag},"),
        ] {
            let request = server
                .request(Method::GET, path)
                .header("if-none-match", &validator);
            let response = request.send().await;
            assert_eq!(
                (response.status, &*response.body),
                (304, &b""[..]),
                "{path} {validator}"
            );
            assert_eq!(response.header("etag"), Some(&*tag));
        }
        let two_headers = server.request(Method::GET, path);
        let two_headers = two_headers
            .header("if-none-match", "\"x\"")
            .header("if-none-match", &tag)
            .send()
            .await;
        assert_eq!(two_headers.status, 304);
        for validator in ["\"x\"", "", "x", &tag[1..], &tag.to_uppercase()] {
            let request = server
                .request(Method::GET, path)
                .header("if-none-match", validator);
            assert_eq!(request.send().await.status, 200, "{path} {validator}");
        }
        let head = server.request(Method::HEAD, path).send().await;
        assert_eq!(
            (head.status, head.header("etag")),
            (200, Some(&*tag)),
            "{path}"
        );
        assert_eq!(
            head.header("content-length"),
            Some(&*first.body.len().to_string())
        );
        let head = server
            .request(Method::HEAD, path)
            .header("if-none-match", &tag)
            .send()
            .await;
        assert_eq!(head.status, 304);
    }
    // A new next page changes the ETag of this one, although the body is the same.
    let before = server.get("/v1/pets?limit=2").await;
    server.create_pets(1).await;
    let after = server.get("/v1/pets?limit=2").await;
    assert_eq!(before.body, after.body);
    assert_ne!(before.header("etag"), after.header("etag"));
}

/// Read-your-writes under concurrency: the response cache must never be staler than a 201.
async fn reads_see_every_acknowledged_write(backend: Backend) {
    let server = Server::start(backend).await;
    let server = &server;
    let writers = (0..8).map(|writer| async move {
        let mut ids = Vec::new();
        for n in 0..25 {
            let pet = json!({"name": format!("{writer}-{n}"), "categoryId": n, "status": "sold"});
            let id = server.create(pet).await;
            // Also read what does not exist yet: a cached empty page or 404 must be
            // invalidated by the create.
            let later = id + 4;
            server
                .get(&format!("/v1/pets?{}", page_after("limit=1", later - 1)))
                .await;
            server.get(&format!("/v1/pets/{later}")).await;
            for query in [
                "limit=1",
                "limit=1&status=sold",
                "limit=1&status=sold&categoryId={n}",
            ] {
                let query = query.replace("{n}", &n.to_string());
                let path = format!("/v1/pets?{}", page_after(&query, id - 1));
                assert_eq!(server.get(&path).await.json()[0]["id"], id, "{path}");
            }
            for query in [
                "sort=desc".into(),
                "name=".to_string() + &format!("{writer}-{n}"),
                format!("id={id}"),
                format!("categoryId={n}&sort=desc"),
            ] {
                let listed = server
                    .get(&format!("/v1/pets?limit=100&{query}"))
                    .await
                    .json();
                let mut listed = listed.as_array().unwrap().iter();
                assert!(listed.any(|pet| pet["id"] == id), "{query}");
            }
            assert_eq!(server.get(&format!("/v1/pets/{id}")).await.json()["id"], id);
            ids.push(id);
        }
        ids
    });
    let ids = futures_util::future::join_all(writers).await.concat();
    assert_eq!(BTreeSet::from_iter(ids), BTreeSet::from_iter(1..=200));
}

/// The query of the page after an id.
fn page_after(query: &str, id: i64) -> String {
    let query = ListQuery::<PetFilter>::parse(query).unwrap();
    query.next(Position::of_id(id))
}
