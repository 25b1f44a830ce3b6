//! The optional members of a pet: how they are stored, patched, found and validated.

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        every_member_is_stored_and_returned,
        a_pet_without_details_has_the_same_bytes_as_ever,
        objects_are_merged_member_by_member,
        invalid_details_name_the_member_and_the_rule,
        a_patch_that_leaves_an_object_incomplete_is_rejected,
        a_microchip_belongs_to_one_pet_that_is_not_sold,
        a_rejected_microchip_is_decided_again,
        concurrent_creates_with_one_microchip_add_one_pet,
        pets_are_found_by_microchip,
    ],
}

const CHIP: &str = "985112004567890";

/// A pet with every member that a client can set.
fn details() -> Value {
    json!({
        "name": "Juniper",
        "categoryId": 3,
        "status": "available",
        "breed": "Cavalier King Charles Spaniel",
        "sex": "female",
        "birthDate": "2026-08-02",
        "color": "blenheim",
        "microchip": CHIP,
        "price": {"amount": 145_000, "currency": "USD"},
        "description": "Calm.\nLikes children.",
        "notes": "Ärztin: 1. Dezember\t\"Impfung\"",
        "location": "Kennel 4",
        "acquiredOn": "1900-01-01",
        "source": {"name": "Hollow Oak", "address": "12 Mill Lane", "licence": "52-B-0187"},
        "metadata": {"feed": "puppy-small", "litter": "2026-07"},
    })
}

fn with_id(mut pet: Value, id: i64) -> Value {
    pet["id"] = id.into();
    pet
}

async fn every_member_is_stored_and_returned(backend: Backend) {
    let server = Server::start(backend).await;
    let created = server.post("/v1/pets", details().to_string()).await;
    assert_eq!(
        (created.status, created.json()),
        (201, with_id(details(), 1))
    );
    assert_eq!(server.get("/v1/pets/1").await.json(), with_id(details(), 1));
    let events = server.get("/v1/events").await.json();
    assert_eq!(events[0]["data"], with_id(details(), 1));

    for name in details().as_object().unwrap().keys() {
        if name == "name" || name == "categoryId" {
            continue;
        }
        let removed = server
            .patch("/v1/pets/1", format!(r#"{{"{name}":null}}"#))
            .await;
        assert_eq!(removed.json().get(name), None, "{name}");
        let patch = json!({name: details()[name]});
        let restored = server.patch("/v1/pets/1", patch.to_string()).await;
        assert_eq!(restored.json(), with_id(details(), 1), "{name}");
    }
}

async fn a_pet_without_details_has_the_same_bytes_as_ever(backend: Backend) {
    let server = Server::start(backend).await;
    server
        .create(json!({"name": "Rex", "categoryId": 7, "status": "sold"}))
        .await;
    server.create(json!({"name": "Max", "categoryId": 7})).await;
    let expected = r#"[{"id":1,"name":"Rex","categoryId":7,"status":"sold"},{"id":2,"name":"Max","categoryId":7}]"#;
    let list = server.get("/v1/pets").await;
    assert_eq!(list.text(), expected);
    // Clients keep tags for long: another hash would make them read everything again.
    assert_eq!(list.header("etag"), Some("\"ckpvs56niB6yhTpzTJ1aQg\""));
    let first = server.get("/v1/pets/1").await;
    assert_eq!(first.header("etag"), Some("\"FJZm67OTWQyP290_p5duOw\""));
}

async fn objects_are_merged_member_by_member(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(details()).await;
    for (patch, member, expected) in [
        (
            json!({"price": {"amount": 99}}),
            "price",
            json!({"amount": 99, "currency": "USD"}),
        ),
        (
            json!({"price": {"currency": "JPY"}}),
            "price",
            json!({"amount": 99, "currency": "JPY"}),
        ),
        (
            json!({"source": {"licence": null}}),
            "source",
            json!({"name": "Hollow Oak", "address": "12 Mill Lane"}),
        ),
        (
            json!({"source": {"name": "Old Farm", "address": null}}),
            "source",
            json!({"name": "Old Farm"}),
        ),
        (
            json!({"metadata": {"feed": null, "toy": "ball"}}),
            "metadata",
            json!({"litter": "2026-07", "toy": "ball"}),
        ),
        (
            json!({"metadata": {"litter": null, "toy": null, "none": null}}),
            "metadata",
            Value::Null,
        ),
        (json!({"metadata": {}}), "metadata", Value::Null),
        (json!({"source": {}}), "source", json!({"name": "Old Farm"})),
    ] {
        let patched = server.patch("/v1/pets/1", patch.to_string()).await;
        assert_eq!(patched.json()[member], expected, "{patch}");
    }
}

async fn invalid_details_name_the_member_and_the_rule(backend: Backend) {
    let server = Server::start(backend).await;
    let long = |length| "x".repeat(length);
    let many: serde_json::Map<_, _> = (0..21).map(|n| (format!("k{n}"), json!("v"))).collect();
    for (member, value, message) in [
        (
            "breed",
            json!(""),
            "breed: must be 1 to 100 characters long, got 0",
        ),
        (
            "breed",
            json!(long(101)),
            "breed: must be 1 to 100 characters long, got 101",
        ),
        (
            "color",
            json!("a\nb"),
            "color: must not contain control characters, got U+000A",
        ),
        ("location", json!(7), "location: must be a string, got 7"),
        (
            "sex",
            json!("none"),
            "sex: must be one of male, female, unknown, got \"none\"",
        ),
        (
            "birthDate",
            json!("1899-12-31"),
            "birthDate: must be a date from 1900-01-01 to ",
        ),
        (
            "birthDate",
            json!("2999-01-01"),
            "birthDate: must be a date from 1900-01-01 to ",
        ),
        (
            "birthDate",
            json!("2026-02-30"),
            "birthDate: must be a date from 1900-01-01 to ",
        ),
        (
            "acquiredOn",
            json!("20260201"),
            "acquiredOn: must be a date from 1900-01-01 to ",
        ),
        (
            "microchip",
            json!("98511200456789X"),
            "microchip: must be 9, 10 or 15 digits, got ",
        ),
        (
            "microchip",
            json!("12345678"),
            "microchip: must be 9, 10 or 15 digits, got ",
        ),
        (
            "microchip",
            json!(985_112_004),
            "microchip: must be a string, got 985112004",
        ),
        ("price", json!(450), "price: must be an object, got 450"),
        (
            "price",
            json!({"amount": 1}),
            "price.currency: required; must be a string",
        ),
        (
            "price",
            json!({"amount": -1, "currency": "EUR"}),
            "price.amount: must be an integer from 0 to 1000000000000, got -1",
        ),
        (
            "price",
            json!({"amount": 1.5, "currency": "eur"}),
            "price.amount: must be an integer from 0 to 1000000000000, got 1.5; price.currency: \
             must be the code of a currency (ISO 4217), such as EUR or USD, got \"eur\"",
        ),
        (
            "description",
            json!(" \n"),
            "description: must not be only whitespace",
        ),
        (
            "notes",
            json!(long(2001)),
            "notes: must be 1 to 2000 characters long, got 2001",
        ),
        (
            "notes",
            json!("\u{7}"),
            "notes: must not contain control characters, got U+0007",
        ),
        (
            "source",
            json!({"address": "x"}),
            "source.name: required; must be a string",
        ),
        (
            "source",
            json!({"name": {"first": {"second": 1}}}),
            "source.name: must be a string, got an object",
        ),
        (
            "metadata",
            Value::Object(many),
            "metadata: must have at most 20 members, got 21",
        ),
        (
            "metadata",
            json!({"a b": "v"}),
            "metadata: a key must be 1 to 40 letters ",
        ),
        (
            "metadata",
            json!({"k": {"deep": 1}}),
            "metadata.k: must be a string, got an object",
        ),
        (
            "metadata",
            json!({"k": long(501)}),
            "metadata.k: must be 1 to 500 characters long",
        ),
    ] {
        let mut pet = json!({"name": "Rex", "categoryId": 1});
        pet[member] = value;
        // The schema cannot express every rule.
        let request = server.request(Method::POST, "/v1/pets");
        let created = request.skip_body_check().body(pet.to_string()).send().await;
        created.assert_error(400, "invalid_body");
        let got = created.json()["message"].as_str().unwrap().to_string();
        assert!(got.starts_with(message), "{got}");
    }
    for (levels, code, message) in [
        (
            127,
            "invalid_body",
            "metadata.a: must be a string, got an object",
        ),
        (
            128,
            "invalid_json",
            "body: invalid JSON: in member \"metadata\": must not be nested deeper than 127 levels",
        ),
    ] {
        let deep = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let pet = format!(r#"{{"name":"Rex","categoryId":1,"metadata":{deep}}}"#);
        let request = server.request(Method::POST, "/v1/pets");
        let rejected = request.skip_body_check().body(pet).send().await;
        rejected.assert_error(400, code);
        assert_eq!(rejected.json()["message"], message);
    }
    assert_eq!(server.count_pets().await, 0);
}

async fn a_patch_that_leaves_an_object_incomplete_is_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    server.create(json!({"name": "Rex", "categoryId": 1})).await;
    for (patch, message) in [
        (
            r#"{"price":{"amount":5}}"#,
            "price.currency: required; must be a string",
        ),
        (
            r#"{"source":{"licence":"7"}}"#,
            "source.name: required; must be a string",
        ),
        (
            r#"{"source":{"name":null}}"#,
            "source.name: must be a string, got null",
        ),
    ] {
        let rejected = patch_incompletely(&server, "/v1/pets/1", patch).await;
        rejected.assert_error(400, "invalid_body");
        assert_eq!(rejected.json()["message"], message);
    }
    let pairs = |from: usize, to: usize| {
        let pairs = (from..to).map(|n| (format!("k{n}"), json!("v")));
        json!({"metadata": pairs.collect::<serde_json::Map<_, _>>()}).to_string()
    };
    assert_eq!(server.patch("/v1/pets/1", pairs(0, 20)).await.status, 200);
    assert_eq!(server.patch("/v1/pets/1", pairs(0, 10)).await.status, 200);
    let rejected = patch_incompletely(&server, "/v1/pets/1", &pairs(19, 21)).await;
    rejected.assert_error(400, "invalid_body");
}

/// Sends a patch that only the state of the resource makes invalid.
pub async fn patch_incompletely(server: &Server, path: &str, patch: &str) -> Response {
    let request = server.request(Method::PATCH, path).body(patch);
    request.skip_body_check().send().await
}

async fn a_microchip_belongs_to_one_pet_that_is_not_sold(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = |status| json!({"name": "Rex", "categoryId": 1, "status": status, "microchip": CHIP});
    assert_eq!(server.create(pet("available")).await, 1);
    let taken = |response: Response| {
        response.assert_error(409, "microchip_taken");
        let message = response.json()["message"].as_str().unwrap().to_string();
        assert!(
            message.starts_with("microchip: pet 1 has this number"),
            "{message}"
        );
    };
    let typed = json!({"name": "Max", "categoryId": 1, "microchip": "985-112 004-567 890"});
    taken(server.post("/v1/pets", typed.to_string()).await);
    // A pet that is sold does not keep its number.
    let second = server.create(pet("sold")).await;
    taken(
        server
            .patch(&format!("/v1/pets/{second}"), r#"{"status":"available"}"#)
            .await,
    );
    taken(
        server
            .patch(&format!("/v1/pets/{second}"), r#"{"status":null}"#)
            .await,
    );
    let other = server.create(json!({"name": "Max", "categoryId": 1})).await;
    let path = format!("/v1/pets/{other}");
    taken(
        server
            .patch(&path, json!({"microchip": CHIP}).to_string())
            .await,
    );
    // Setting the same number again changes nothing.
    let same = server
        .patch("/v1/pets/1", json!({"microchip": CHIP}).to_string())
        .await;
    assert_eq!(same.status, 200);

    // Sold, another pet gets the number, and the sale can no longer be returned.
    let order = server.place_order(1).await;
    taken(
        server
            .patch(&path, json!({"microchip": CHIP}).to_string())
            .await,
    );
    assert_eq!(server.transition(order, "complete").await.status, 200);
    let moved = server
        .patch(&path, json!({"microchip": CHIP}).to_string())
        .await;
    assert_eq!(moved.status, 200);
    let returned = server.transition(order, "return").await;
    returned.assert_error(409, "microchip_taken");
    let removed = server.patch(&path, r#"{"microchip":null}"#).await;
    assert_eq!(removed.status, 200);
    assert_eq!(server.transition(order, "return").await.status, 200);
    let deleted = server.delete("/v1/pets/1").await;
    assert_eq!(deleted.status, 204);
    assert_eq!(
        server
            .patch(&path, json!({"microchip": CHIP}).to_string())
            .await
            .status,
        200
    );
}

async fn a_rejected_microchip_is_decided_again(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = json!({"name": "Rex", "categoryId": 1, "microchip": CHIP}).to_string();
    assert_eq!(server.post("/v1/pets", pet.clone()).await.status, 201);
    let post = || async {
        let request = server.request(Method::POST, "/v1/pets").body(pet.clone());
        request.header("idempotency-key", "chip").send().await
    };
    let first = post().await;
    first.assert_error(409, "microchip_taken");
    assert_eq!(server.delete("/v1/pets/1").await.status, 204);
    let created = post().await;
    assert_eq!(
        (created.status, created.header("idempotent-replayed")),
        (201, None)
    );
    let replayed = post().await;
    assert_eq!(replayed.header("idempotent-replayed"), Some("true"));
    assert_eq!(replayed.body, created.body);
}

async fn concurrent_creates_with_one_microchip_add_one_pet(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = json!({"name": "Rex", "categoryId": 1, "microchip": CHIP}).to_string();
    let creates = (0..16).map(|_| server.post("/v1/pets", pet.clone()));
    let created = join_all(creates).await;
    let count = |status| created.iter().filter(|it| it.status == status).count();
    assert_eq!((count(201), count(409)), (1, 15));
    assert_eq!(server.count_pets().await, 1);
}

async fn pets_are_found_by_microchip(backend: Backend) {
    let server = Server::start(backend).await;
    for (name, status, chip) in [
        ("Ada", "sold", CHIP),
        ("Bo", "available", CHIP),
        ("Cleo", "available", "123456789"),
    ] {
        let pet = json!({"name": name, "categoryId": 1, "status": status, "microchip": chip});
        server.create(pet).await;
    }
    for (query, ids) in [
        (CHIP, vec![1, 2]),
        ("985%20112%20004-567-890", vec![1, 2]),
        ("985112004567890&status=available", vec![2]),
        ("985112004567890&sort=desc", vec![2, 1]),
        ("985112004567890&name=a", vec![1]),
        ("985112004567890&id=2,3", vec![2]),
        ("123-456-789", vec![3]),
        ("1234567890", vec![]),
    ] {
        let found = server
            .walk(&format!("/v1/pets?limit=1&microchip={query}"))
            .await;
        let found: Vec<_> = found
            .iter()
            .map(|pet| pet["id"].as_i64().unwrap())
            .collect();
        assert_eq!(found, ids, "{query}");
    }
    for query in ["", "12", "abc", "985112004567890&microchip=123456789"] {
        let rejected = server.get(&format!("/v1/pets?microchip={query}")).await;
        rejected.assert_error(400, "invalid_parameter");
    }
}
