//! Authentication and authorization: API keys, scopes, expiry and revocation.

use std::sync::atomic::Ordering;

use domain::api_key::{ApiKeySecret, Scope};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use support::{Backend, eventually};

use crate::{contract, harness::Server};

support::cases! {
    ALL: [
        every_operation_requires_an_api_key,
        only_a_single_bearer_token_is_accepted,
        auth_precedes_routing_and_validation,
        scopes_restrict_operations,
        revoked_and_expired_keys_get_401,
        a_new_key_works_at_once_and_its_last_use_is_recorded,
        deprecated_calls_are_recorded_per_key,
    ],
}

async fn every_operation_requires_an_api_key(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.failed_auth_limit = "1000/1s".parse().unwrap();
    })
    .await;
    for (method, path, _) in contract::callable_operations() {
        let response = server
            .request(method.clone(), &path)
            .without_key()
            .send()
            .await;
        response.assert_error(401, "missing_api_key");
        assert_eq!(
            response.header("www-authenticate"),
            Some("Bearer realm=\"petstore\"")
        );
        let unknown_key = ApiKeySecret::generate();
        let response = server
            .request(method, &path)
            .with_key(unknown_key.reveal())
            .send()
            .await;
        response.assert_error(401, "invalid_api_key");
        let challenge = "Bearer realm=\"petstore\", error=\"invalid_token\"";
        assert_eq!(response.header("www-authenticate"), Some(challenge));
    }
}

async fn only_a_single_bearer_token_is_accepted(backend: Backend) {
    let server = Server::start(backend).await;
    let key = server.key.clone();
    let get = |value: Vec<u8>| {
        let request = server.request(Method::GET, "/v1/pets").without_key();
        request.header("authorization", value).send()
    };
    for scheme in ["Bearer", "bearer", "BEARER", "Bearer   "] {
        assert_eq!(
            get(format!("{scheme} {key}").into()).await.status,
            200,
            "{scheme}"
        );
    }
    for value in [
        "",
        "Bearer",
        "Bearer ",
        &key,
        "Basic dXNlcjpwYXNz",
        &format!("Token {key}"),
        &format!("Bearer{key}"),
    ] {
        get(value.into()).await.assert_error(401, "missing_api_key");
    }
    let mut typo = key.clone().into_bytes();
    typo[10] = if typo[10] == b'a' { b'b' } else { b'a' };
    let typo = String::from_utf8(typo).unwrap();
    for wrong in [
        "x",
        "psk_",
        &key[..41],
        &key[4..],
        &format!("{key}x"),
        &format!("{key} x"),
        &format!("{key},{key}"),
        &key.to_lowercase(),
        &format!("\"{key}\""),
        &typo,
        &"a".repeat(9000),
    ] {
        get(format!("Bearer {wrong}").into())
            .await
            .assert_error(401, "invalid_api_key");
    }
    get(b"Bearer psk_\xff\xfe".to_vec())
        .await
        .assert_error(401, "invalid_api_key");
    let twice = server
        .request(Method::GET, "/v1/pets")
        .header("authorization", format!("Bearer {key}"));
    twice.send().await.assert_error(401, "invalid_api_key");
    let in_query = server.request(
        Method::GET,
        &format!("/v1/pets?access_token={key}&api_key={key}"),
    );
    in_query
        .without_key()
        .send()
        .await
        .assert_error(401, "missing_api_key");
}

async fn auth_precedes_routing_and_validation(backend: Backend) {
    let server = Server::start(backend).await;
    for (method, path, body) in [
        (Method::GET, "/v1/pets?limit=0", ""),
        (Method::GET, "/v1/pets/abc", ""),
        (Method::GET, "/v1/pets/999", ""),
        (Method::GET, "/v1/nothing", ""),
        (Method::GET, "/v1/", ""),
        (Method::DELETE, "/v1/pets", ""),
        (Method::POST, "/v1/pets", "not json"),
        (Method::POST, "/v1/pets", &"x".repeat(100_000)),
    ] {
        let request = server.request(method, path).without_key().body(body);
        let response = request.header("content-type", "text/plain").send().await;
        response.assert_error(401, "missing_api_key");
    }
    // A missing scope is reported before invalid input.
    let key = server.create_key(&[Scope::OrdersRead], None).await;
    let list = server
        .request(Method::GET, "/v1/pets?limit=0")
        .with_key(&key);
    list.send().await.assert_error(403, "insufficient_scope");
    let create = server
        .request(Method::POST, "/v1/pets")
        .with_key(&key)
        .body("not json");
    create.send().await.assert_error(403, "insufficient_scope");
}

async fn scopes_restrict_operations(backend: Backend) {
    let server = Server::start(backend).await;
    server
        .create(json!({"name": "A", "categoryId": 1, "status": "available"}))
        .await;
    server.place_order(1).await;
    server.put_category(1, "Dogs").await;
    // Others can revoke it.
    let first = "UPDATE api_keys SET scopes = 'pets:read' WHERE id = 1";
    server.database.execute(first);
    for scope in Scope::ALL {
        // A key that creates webhooks must be able to read the events that they deliver, and one
        // that manages keys must have their scopes.
        let granted: &[Scope] = match scope {
            Scope::WebhooksWrite => &[scope, Scope::PetsRead, Scope::OrdersRead],
            Scope::KeysWrite => &Scope::ALL,
            _ => &[scope],
        };
        let key = server.create_key(granted, None).await;
        for (method, path, _) in contract::callable_operations() {
            let webhooks = path.starts_with("/v1/webhooks");
            let keys = path.starts_with("/v1/keys");
            let photos = path.contains("/photos");
            let is_register = path.starts_with("/v1/store/register");
            let orders = is_register
                || path.starts_with("/v1/store/orders")
                || path.starts_with("/v1/store/sales");
            let settings = path == "/v1/store/settings";
            // One of these.
            let needed: &[Scope] = match (orders, method == Method::GET) {
                _ if path == "/v1/keys/current" => granted,
                (_, true) if path == "/v1/keys" => &[
                    Scope::PetsRead,
                    Scope::OrdersRead,
                    Scope::WebhooksRead,
                    Scope::KeysRead,
                ],
                _ if path == "/v1/keys/claim" => &[Scope::KeysClaim],
                (_, true) if keys => &[Scope::KeysRead],
                (_, false) if keys => &[Scope::KeysWrite],
                _ if path.starts_with("/v1/events") => {
                    &[Scope::PetsRead, Scope::OrdersRead, Scope::KeysRead]
                }
                (_, true) if settings => &[Scope::PetsRead, Scope::OrdersRead],
                (_, false) if settings => &[Scope::StoreWrite],
                (_, true) if webhooks => &[Scope::WebhooksRead],
                (_, false) if webhooks => &[Scope::WebhooksWrite],
                (false, true) if path.starts_with("/v1/imports") => &[Scope::PetsWrite],
                (false, true) => &[Scope::PetsRead],
                (false, false) => &[Scope::PetsWrite],
                (true, true) => &[Scope::OrdersRead],
                (true, false) => &[Scope::OrdersWrite],
            };
            let request = server.request(method, &path).with_key(&key);
            let response = request.body(contract::BODY).send().await;
            let has_both = !is_register || granted.contains(&Scope::PetsRead);
            if has_both && needed.iter().any(|scope| granted.contains(scope)) {
                // An earlier request may have closed the order, sold or deleted the pet, or
                // deleted the webhook. There is no photo, and the body is none.
                let decided = response.is_success()
                    || response.status == 409
                    || photos && [404, 415].contains(&response.status)
                    || (webhooks || scope == Scope::KeysWrite) && response.status == 404;
                assert!(decided, "{}", response.text());
                continue;
            }
            response.assert_error(403, "insufficient_scope");
            let needed = match scope {
                Scope::OrdersRead if is_register => &[Scope::PetsRead],
                _ => needed,
            };
            let needed: Vec<_> = needed.iter().map(|scope| scope.as_str()).collect();
            let challenge = format!(
                "Bearer realm=\"petstore\", error=\"insufficient_scope\", scope=\"{}\"",
                needed.join(" ")
            );
            assert_eq!(response.header("www-authenticate"), Some(&*challenge));
        }
    }
}

async fn revoked_and_expired_keys_get_401(backend: Backend) {
    let (server, hours) = Server::start_with_clock(backend).await;
    let status = async |key: &str| {
        let response = server
            .request(Method::GET, "/v1/pets")
            .with_key(key)
            .send()
            .await;
        if response.status != 200 {
            response.assert_error(401, "invalid_api_key");
        }
        response.status
    };
    let past = server
        .create_key(&[Scope::PetsRead], Some(Timestamp::now()))
        .await;
    assert_eq!(status(&past).await, 401);

    let in_an_hour = Timestamp::now() + SignedDuration::from_hours(1);
    let expiring = server
        .create_key(&[Scope::PetsRead], Some(in_an_hour))
        .await;
    assert_eq!(status(&expiring).await, 200);
    hours.store(1, Ordering::Relaxed);
    assert_eq!(status(&expiring).await, 401);

    let key = server.create_key(&[Scope::PetsRead], None).await;
    assert_eq!(status(&key).await, 200);
    server
        .database
        .execute("UPDATE api_keys SET revoked_at = 1 WHERE id = 4");
    eventually("the key is revoked", async || status(&key).await == 401).await;
    assert_eq!(status(&server.key).await, 200);
}

async fn a_new_key_works_at_once_and_its_last_use_is_recorded(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..5 {
        let key = server.create_key(&Scope::ALL, None).await;
        let response = server
            .request(Method::GET, "/v1/pets")
            .with_key(&key)
            .send()
            .await;
        assert_eq!(response.status, 200);
    }
    let recorded = "SELECT count(last_used_at) || ' of ' || count(*) FROM api_keys";
    eventually("the uses are recorded", async || {
        server.database.query(recorded) == "5 of 6"
    })
    .await;
}

/// The operator can find the clients that still call a deprecated operation.
async fn deprecated_calls_are_recorded_per_key(backend: Backend) {
    let server = Server::start(backend).await;
    let key = server.create_key(&Scope::ALL, None).await;
    for path in ["/v1/pets/1", "/v1/pets/2", "/v1/pets/abc", "/v1/pets"] {
        let request = server.request(Method::GET, path).with_key(&key);
        request.send().await;
    }
    let recorded = "SELECT max(deprecated_calls) || ' by ' || count(last_deprecated_call_at) \
                    FROM api_keys";
    eventually("the calls are recorded", async || {
        server.database.query(recorded) == "3 by 1"
    })
    .await;
}
