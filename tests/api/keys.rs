//! API keys: the key of a request, and the list of all keys.

use domain::api_key::Scope;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        a_key_can_be_fetched_with_itself,
        the_names_of_keys_are_listed,
    ],
}

async fn current(server: &Server, key: &str) -> Response {
    let request = server.request(Method::GET, "/v1/keys/current");
    request.with_key(key).send().await
}

async fn a_key_can_be_fetched_with_itself(backend: Backend) {
    let server = Server::start(backend).await;
    let first = current(&server, &server.key).await;
    assert_eq!(first.status, 200);
    assert_eq!(first.header("cache-control"), Some("no-store"));
    let all = Scope::ALL.iter().chain([&Scope::KeysClaim]);
    let all: Vec<_> = all.map(|scope| scope.as_str()).collect();
    let Value::Object(mut first) = first.json() else {
        panic!("not an object");
    };
    let created: Timestamp = first
        .remove("createdAt")
        .unwrap()
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((Timestamp::now() - created).get_hours() < 1);
    // Neither a secret nor an expiry.
    assert_eq!(
        Value::from(first),
        json!({
            "id": 1,
            "name": "test",
            "scopes": all,
            "invitation": {"scopes": ["pets:read"], "invitedBy": 1},
        })
    );

    // With any scope, even none that this version knows.
    let expires = Timestamp::from_second(4_000_000_000).unwrap();
    for (id, scope) in (2..).zip(Scope::ALL) {
        let key = server.create_key(&[scope], Some(expires)).await;
        let found = current(&server, &key).await.json();
        assert_eq!(found["id"], id);
        assert_eq!(found["scopes"], json!([scope.as_str()]));
        assert_eq!(found["expiresAt"], "2096-10-02T07:06:40Z");
    }
    let key = server.create_key(&[], None).await;
    assert_eq!(current(&server, &key).await.json()["scopes"], json!([]));

    let past = Timestamp::now() - SignedDuration::from_secs(1);
    let expired = server.create_key(&Scope::ALL, Some(past)).await;
    current(&server, &expired)
        .await
        .assert_error(401, "invalid_api_key");
}

async fn the_names_of_keys_are_listed(backend: Backend) {
    let mut server = Server::start(backend).await;
    for _ in 0..3 {
        server.create_key(&Scope::ALL, Some(Timestamp::now())).await;
    }
    server.database.execute(
        "UPDATE api_keys SET name = 'web-shop' WHERE id = 2;
         UPDATE api_keys SET name = 'Köter 🐕' WHERE id = 3;
         UPDATE api_keys SET revoked_at = 1 WHERE id = 3",
    );
    server.key = server.create_key(&[Scope::PetsRead], None).await;
    // Only id and name, of expired and revoked keys too.
    let all = json!([
        {"id": 1, "name": "test"},
        {"id": 2, "name": "web-shop"},
        {"id": 3, "name": "Köter 🐕"},
        {"id": 4, "name": "test"},
        {"id": 5, "name": "test"},
    ]);
    let listed = server.get("/v1/keys").await;
    assert_eq!(listed.json(), all);
    assert_eq!(listed.header("cache-control"), Some("no-store"));
    assert_eq!(listed.next(), None);
    for limit in [1, 2, 3, 4] {
        let found = server.walk(&format!("/v1/keys?limit={limit}")).await;
        assert_eq!(Value::from(found), all, "limit {limit}");
    }
    let next = server.get("/v1/keys?limit=1").await.next().unwrap();
    let (_, cursor) = next.split_once("cursor=").unwrap();
    for path in [
        "/v1/keys?limit=0",
        "/v1/keys?cursor=x",
        &format!("/v1/categories?cursor={cursor}"),
    ] {
        let response = server.get(path).await;
        response.assert_error(400, "invalid_parameter");
    }
    // A new key is listed at once.
    server.create_key(&[Scope::PetsWrite], None).await;
    assert_eq!(server.walk("/v1/keys").await.len(), 6);
}
