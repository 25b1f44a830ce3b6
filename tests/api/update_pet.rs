//! `PATCH /pets/{petId}`: merge patch (RFC 7396) and optimistic concurrency with `If-Match`.

use http::Method;
use serde_json::json;
use support::Backend;

use crate::harness::Server;

support::cases! {
    DATABASES: [
        merge_patch_changes_only_the_given_members,
        invalid_patches_and_unknown_ids_are_rejected,
        only_json_and_merge_patch_are_accepted,
        if_match_prevents_lost_updates,
    ],
}

async fn start(backend: Backend) -> Server {
    let server = Server::start(backend).await;
    let pet = json!({"name": "Rex", "categoryId": 7, "status": "available"});
    assert_eq!(server.create(pet).await, 1);
    server
}

async fn merge_patch_changes_only_the_given_members(backend: Backend) {
    let server = start(backend).await;
    for (patch, name, category, status) in [
        (r#"{"name":"Max"}"#, "Max", 7, Some("available")),
        (r#"{"categoryId":-3.0}"#, "Max", -3, Some("available")),
        (r#"{"status":"sold"}"#, "Max", -3, Some("sold")),
        (r#"{"status":null}"#, "Max", -3, None),
        ("{}", "Max", -3, None),
        (r#"{"id":9,"owner":{"name":"x"}}"#, "Max", -3, None),
        (
            r#"{"name":" Ää 🐕 ","categoryId":1,"status":"pending"}"#,
            " Ää 🐕 ",
            1,
            Some("pending"),
        ),
    ] {
        let mut pet = json!({"id": 1, "name": name, "categoryId": category});
        if let Some(status) = status {
            pet["status"] = status.into();
        }
        let response = server.patch("/v1/pets/1", patch).await;
        assert_eq!(
            (response.status, response.json()),
            (200, pet.clone()),
            "{patch}"
        );
        let fetched = server.get("/v1/pets/1").await;
        assert_eq!(fetched.json(), pet, "{patch}");
        assert_eq!(fetched.header("etag"), response.header("etag"));
        assert_eq!(server.get("/v1/pets").await.json(), json!([pet]), "{patch}");
    }
    let pending = server.get("/v1/pets?status=pending").await.json();
    assert_eq!(pending[0]["id"], 1);
}

async fn invalid_patches_and_unknown_ids_are_rejected(backend: Backend) {
    let server = start(backend).await;
    let before = server.get("/v1/pets/1").await.json();
    for patch in [
        "[]",
        r#"{"name":null}"#,
        r#"{"name":""}"#,
        r#"{"name":" "}"#,
        r#"{"name":1}"#,
        r#"{"categoryId":null}"#,
        r#"{"categoryId":"1"}"#,
        r#"{"categoryId":1.5,"name":"Max"}"#,
        r#"{"status":"lost"}"#,
        r#"{"status":{}}"#,
    ] {
        let response = server.patch("/v1/pets/1", patch).await;
        response.assert_error(400, "invalid_body");
    }
    for patch in ["", "{", r#"{"name":"A","name":"B"}"#] {
        let response = server.patch("/v1/pets/1", patch).await;
        response.assert_error(400, "invalid_json");
    }
    for id in ["2", "0", "abc", "9223372036854775808"] {
        let response = server.patch(&format!("/v1/pets/{id}"), "{}").await;
        response.assert_error(404, "not_found");
    }
    assert_eq!(server.get("/v1/pets/1").await.json(), before);
}

async fn only_json_and_merge_patch_are_accepted(backend: Backend) {
    let server = start(backend).await;
    let patch = |types: &[&str]| {
        let request = server.request(Method::PATCH, "/v1/pets/1").body("{}");
        let typed = types.iter().fold(request, |request, value| {
            request.header("content-type", value)
        });
        typed.send()
    };
    for accepted in [
        &[][..],
        &["application/json"],
        &["application/merge-patch+json"],
        &["Application/Merge-Patch+JSON; charset=utf-8"],
    ] {
        assert_eq!(patch(accepted).await.status, 200, "{accepted:?}");
    }
    for rejected in [
        &["application/json-patch+json"][..],
        &["text/plain"],
        &["application/merge-patch+json; charset=latin1"],
        &["application/json", "application/json"],
    ] {
        let response = patch(rejected).await;
        response.assert_error(415, "unsupported_media_type");
        let types = "application/merge-patch+json, application/json";
        assert_eq!(response.header("accept-patch"), Some(types));
    }
}

async fn if_match_prevents_lost_updates(backend: Backend) {
    let server = start(backend).await;
    let tag = server.get("/v1/pets/1").await;
    let tag = tag.header("etag").unwrap();
    let patch = |name: &str, tags: &[&str]| {
        let request = server.request(Method::PATCH, "/v1/pets/1");
        let request = request.body(json!({"name": name}).to_string());
        let conditional = tags
            .iter()
            .fold(request, |request, tag| request.header("if-match", tag));
        conditional.send()
    };
    let weak = format!("W/{tag}");
    for rejected in [
        &["\"other\""][..],
        &[&weak],
        &["garbage"],
        &[""],
        &["\"a\", \"b\""],
    ] {
        let response = patch("Max", rejected).await;
        response.assert_error(412, "precondition_failed");
    }
    assert_eq!(server.get("/v1/pets/1").await.json()["name"], "Rex");
    let any_of = format!("\"other\", {tag}");
    let first = patch("Max", &[&any_of]).await;
    assert_eq!(first.status, 200, "{}", first.text());
    patch("Late", &[tag])
        .await
        .assert_error(412, "precondition_failed");
    // The response carries the ETag for the next update.
    let next = patch("Moritz", &[first.header("etag").unwrap()]).await;
    assert_eq!(next.json()["name"], "Moritz");
    assert_eq!(patch("Any", &["*"]).await.status, 200);
    // A missing pet is a 404, not a failed precondition.
    let missing = server
        .request(Method::PATCH, "/v1/pets/9")
        .header("if-match", "*");
    missing
        .body("{}")
        .send()
        .await
        .assert_error(404, "not_found");

    // Of concurrent updates with the same ETag exactly one succeeds.
    let tag = server.get("/v1/pets/1").await;
    let tag = tag.header("etag").unwrap();
    let names: Vec<_> = (0..16).map(|n| format!("Pet {n}")).collect();
    let changes = names
        .iter()
        .map(|name| patch(name, std::slice::from_ref(&tag)));
    let responses = futures_util::future::join_all(changes).await;
    let won: Vec<_> = responses
        .iter()
        .filter(|response| response.status == 200)
        .collect();
    assert_eq!(won.len(), 1);
    assert_eq!(server.get("/v1/pets/1").await.json(), won[0].json());
}
