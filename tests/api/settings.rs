//! `GET` and `PATCH /store/settings`: the settings of the shop.

use domain::api_key::Scope;
use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        settings_are_set_changed_and_removed,
        invalid_settings_name_every_member,
        only_json_and_merge_patch_are_accepted,
        if_match_prevents_lost_updates,
        concurrent_changes_keep_every_member,
        only_store_write_changes_settings,
    ],
}

const PATH: &str = "/v1/store/settings";

fn shop() -> Value {
    json!({
        "name": "Happy Paws 🐾",
        "address": "12 Mill Lane\r\nFrederick,\tMD 21701",
        "receiptText": "Danke schön!\nشكراً",
        "currency": "USD",
    })
}

async fn settings_are_set_changed_and_removed(backend: Backend) {
    let server = Server::start(backend).await;
    let first = server.get(PATH).await;
    assert_eq!((first.status, first.json()), (200, json!({})));
    let mut expected = shop();
    for (patch, member, value) in [
        (json!({}), "name", None),
        (shop(), "name", Some(json!("Happy Paws 🐾"))),
        (shop(), "currency", Some(json!("USD"))),
        (json!({"currency": "JPY"}), "currency", Some(json!("JPY"))),
        (json!({"name": null}), "name", None),
        (json!({"name": null, "shop": 1}), "name", None),
        (json!({"name": " A "}), "name", Some(json!(" A "))),
        (json!({"receiptText": null}), "receiptText", None),
    ] {
        let response = server.patch(PATH, patch.to_string()).await;
        assert_eq!(response.status, 200, "{patch}: {}", response.text());
        assert_eq!(response.json().get(member), value.as_ref(), "{patch}");
        let fetched = server.get(PATH).await;
        assert_eq!(fetched.text(), response.text(), "{patch}");
        assert_eq!(fetched.header("etag"), response.header("etag"), "{patch}");
    }
    expected["currency"] = "JPY".into();
    expected["name"] = " A ".into();
    expected.as_object_mut().unwrap().remove("receiptText");
    assert_eq!(server.get(PATH).await.json(), expected);
    let none = json!({"name": null, "address": null, "currency": null});
    let emptied = server.patch(PATH, none.to_string()).await;
    assert_eq!((emptied.status, emptied.json()), (200, json!({})));
    assert_eq!(emptied.header("etag"), first.header("etag"));
    // Changes of settings are no events.
    assert_eq!(server.get("/v1/events").await.json(), json!([]));
}

async fn invalid_settings_name_every_member(backend: Backend) {
    let server = Server::start(backend).await;
    let longest = json!({
        "name": "n".repeat(200),
        "address": "ä".repeat(500),
        "receiptText": "🐾".repeat(1000),
    });
    let before = server.patch(PATH, longest.to_string()).await;
    assert_eq!(before.status, 200);
    for (member, values) in [
        (
            "name",
            [json!(""), json!("a\nb"), json!("n".repeat(201)), json!(1)],
        ),
        (
            "address",
            [
                json!(" \n"),
                json!("a\u{0}"),
                json!("a".repeat(501)),
                json!([]),
            ],
        ),
        (
            "receiptText",
            [
                json!("\t"),
                json!("\u{85}"),
                json!("a".repeat(1001)),
                json!({}),
            ],
        ),
        (
            "currency",
            [json!("usd"), json!("XXX"), json!(""), json!(840)],
        ),
    ] {
        for value in values {
            let patch = json!({"name": "B", member: value});
            let response = server.patch(PATH, patch.to_string()).await;
            response.assert_error(400, "invalid_body");
            let message = response.json()["message"].to_string();
            assert!(message.contains(member), "{patch}: {message}");
        }
    }
    let all = json!({"name": 1, "address": 1, "receiptText": 1, "currency": 1});
    let response = server.patch(PATH, all.to_string()).await;
    response.assert_error(400, "invalid_body");
    for member in ["name", "address", "receiptText", "currency"] {
        let prefix = format!("{member}: must be");
        assert!(response.text().contains(&prefix), "{}", response.text());
    }
    for body in ["", "{", r#"{"name":"A","name":"B"}"#] {
        let response = server.patch(PATH, body).await;
        response.assert_error(400, "invalid_json");
    }
    let too_large = server.patch(PATH, " ".repeat(65_537)).await;
    too_large.assert_error(413, "body_too_large");
    assert_eq!(server.get(PATH).await.json(), before.json());
}

async fn only_json_and_merge_patch_are_accepted(backend: Backend) {
    let server = Server::start(backend).await;
    let patch = |media_type: &str| {
        let request = server.request(Method::PATCH, PATH);
        let request = request.header("content-type", media_type);
        request.body(r#"{"name":"A"}"#).send()
    };
    patch("text/plain")
        .await
        .assert_error(415, "unsupported_media_type");
    for media_type in ["application/json", "application/merge-patch+json"] {
        assert_eq!(patch(media_type).await.status, 200, "{media_type}");
    }
    for method in [Method::PUT, Method::POST, Method::DELETE] {
        let response = server.request(method, PATH).body("{}").send().await;
        response.assert_error(405, "method_not_allowed");
        assert_eq!(response.header("allow"), Some("GET, HEAD, PATCH"));
    }
}

async fn if_match_prevents_lost_updates(backend: Backend) {
    let server = Server::start(backend).await;
    let patch = |name: &str, header: &str, tag: &str| {
        let request = server.request(Method::PATCH, PATH).header(header, tag);
        request.body(json!({"name": name}).to_string()).send()
    };
    let empty = server.get(PATH).await.header("etag").unwrap().to_string();
    let first = patch("A", "if-match", &empty).await;
    assert_eq!(first.status, 200);
    let tag = first.header("etag").unwrap();
    assert_ne!(tag, empty);
    for (header, tag) in [
        ("if-match", &*empty),
        ("if-match", &format!("W/{tag}")),
        ("if-none-match", tag),
        ("if-none-match", "*"),
    ] {
        let response = patch("B", header, tag).await;
        response.assert_error(412, "precondition_failed");
    }
    assert_eq!(server.get(PATH).await.json(), json!({"name": "A"}));
    assert_eq!(patch("C", "if-match", "*").await.status, 200);
    assert_eq!(patch("D", "if-none-match", &empty).await.status, 200);
    // Of several, one wins.
    let tag = server.get(PATH).await.header("etag").unwrap().to_string();
    let names: Vec<_> = (0..8).map(|number| format!("Shop {number}")).collect();
    let changes = names.iter().map(|name| patch(name, "if-match", &tag));
    let statuses = join_all(changes).await.into_iter().map(|it| it.status);
    let (changed, outdated): (Vec<_>, Vec<_>) = statuses.partition(|status| *status == 200);
    assert_eq!((changed.len(), outdated), (1, vec![412; 7]));
}

/// The first change is decided because there is no row.
async fn concurrent_changes_keep_every_member(backend: Backend) {
    let server = Server::start(backend).await;
    let members = [
        json!({"name": "A"}),
        json!({"address": "B"}),
        json!({"receiptText": "C"}),
        json!({"currency": "EUR"}),
    ];
    let changes = members
        .iter()
        .map(|member| server.patch(PATH, member.to_string()));
    for response in join_all(changes).await {
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let all = json!({"name": "A", "address": "B", "receiptText": "C", "currency": "EUR"});
    assert_eq!(server.get(PATH).await.json(), all);
}

async fn only_store_write_changes_settings(backend: Backend) {
    let server = Server::start(backend).await;
    let cases = Scope::ALL.map(|scope| {
        let reads = matches!(scope, Scope::PetsRead | Scope::OrdersRead);
        (scope, reads, scope == Scope::StoreWrite)
    });
    for (scope, reads, writes) in cases {
        let key = server.create_key(&[scope], None).await;
        let get = server.request(Method::GET, PATH).with_key(&key).send();
        let status = get.await.status;
        assert_eq!(status, if reads { 200 } else { 403 }, "{scope}");
        let patch = server.request(Method::PATCH, PATH).with_key(&key);
        let response = patch.body(r#"{"name":"A"}"#).send().await;
        assert_eq!(response.status, if writes { 200 } else { 403 }, "{scope}");
        if !writes {
            response.assert_error(403, "insufficient_scope");
        }
    }
}
