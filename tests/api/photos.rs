//! `/pets/{petId}/photos`: photos of animals, as clients add, order, delete and fetch them.

use std::time::Duration;

use domain::api_key::Scope;
use http::Method;
use serde_json::{Value, json};
use support::{Backend, Response, noise, png_of_size};

use crate::{client::Request, harness::Server};

support::cases! {
    DATABASES: [
        photos_are_added_ordered_and_deleted,
        an_animal_without_photos_is_as_it_was,
        the_bytes_decide_what_an_image_is,
        images_that_cannot_be_stored_are_rejected,
        an_image_that_takes_too_long_is_rejected,
        a_retried_upload_is_replayed,
        an_animal_has_at_most_twenty_photos,
        an_order_names_photos_of_the_animal,
        the_order_can_be_conditional,
        images_are_revalidated,
        images_with_their_digest_are_cached_for_good,
        scopes_decide_who_changes_photos,
        photos_belong_to_one_animal,
        photos_cannot_be_set_with_the_animal,
        other_changes_keep_the_photos,
        undoing_a_batch_brings_photos_back,
        a_photo_that_was_added_since_is_kept,
        photos_of_deleted_animals_are_gone,
    ],
}

/// The path of a photo.
fn path(pet: i64, photo: i64) -> String {
    format!("/v1/pets/{pet}/photos/{photo}")
}

fn photos_of(pet: i64) -> String {
    format!("/v1/pets/{pet}/photos")
}

fn post(server: &Server, pet: i64, image: Vec<u8>) -> Request<'_> {
    let request = server.request(Method::POST, &photos_of(pet)).body(image);
    request.skip_body_check()
}

/// Adds a small photo and returns it.
pub async fn add(server: &Server, pet: i64, seed: u64) -> Value {
    let response = post(server, pet, noise(8, 6, seed)).send().await;
    assert_eq!(response.status, 201, "{}", response.text());
    let id = response.json()["id"].as_i64().unwrap();
    assert_eq!(response.header("location"), Some(&*path(pet, id)));
    response.json()
}

pub async fn create(server: &Server) -> i64 {
    let new = json!({"name": "Biscuit", "categoryId": 3, "status": "available"});
    server.create(new).await
}

async fn order(server: &Server, pet: i64, ids: Value) -> Response {
    let request = server.request(Method::PUT, &photos_of(pet));
    request.body(json!({"ids": ids}).to_string()).send().await
}

/// The photos that the animal shows; null if it has none.
async fn shown(server: &Server, pet: i64) -> Value {
    let response = server.get(&format!("/v1/pets/{pet}")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["photos"].clone()
}

async fn status(server: &Server, path: &str) -> u16 {
    server.get(path).await.status
}

#[track_caller]
fn assert_jpeg(response: &Response) {
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("image/jpeg"));
    assert!(response.body.starts_with(&[0xff, 0xd8, 0xff]));
    assert!(response.body.ends_with(&[0xff, 0xd9]));
}

async fn photos_are_added_ordered_and_deleted(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let first = add(&server, pet, 1).await;
    let second = add(&server, pet, 2).await;
    let expected = json!({"id": first["id"], "width": 8, "height": 6, "digest": first["digest"]});
    assert_eq!(first, expected);
    assert_eq!(shown(&server, pet).await, json!([first, second]));
    let list = server.get("/v1/pets").await.json();
    assert_eq!(list[0]["photos"], json!([first, second]));
    let ids = [&first, &second].map(|photo| photo["id"].as_i64().unwrap());
    for id in ids {
        for size in ["", "?size=full", "?size=thumb"] {
            assert_jpeg(&server.get(&(path(pet, id) + size)).await);
        }
    }
    let ordered = order(&server, pet, json!([ids[1], ids[0]])).await;
    assert_eq!(ordered.status, 200, "{}", ordered.text());
    assert_eq!(ordered.json(), json!([second, first]));
    assert_eq!(shown(&server, pet).await, json!([second, first]));
    let deleted = server.delete(&path(pet, ids[1])).await;
    assert_eq!(deleted.status, 204);
    assert_eq!(shown(&server, pet).await, json!([first]));
    for size in ["", "?size=thumb"] {
        let gone = server.get(&(path(pet, ids[1]) + size)).await;
        gone.assert_error(404, "not_found");
    }
    let again = server.delete(&path(pet, ids[1])).await;
    again.assert_error(404, "not_found");
    // The order brings it back, and leaves out the other one.
    let restored = order(&server, pet, json!([ids[1]])).await;
    assert_eq!(restored.json(), json!([second]));
    assert_jpeg(&server.get(&(path(pet, ids[1]) + "?size=thumb")).await);
    assert_eq!(status(&server, &path(pet, ids[0])).await, 404);
    let emptied = order(&server, pet, json!([])).await;
    assert_eq!(emptied.json(), json!([]));
    let events = server.get(&format!("/v1/events?subject=pets/{pet}")).await;
    let events = events.json();
    let logged: Vec<_> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| json!([event["type"], event["data"]["photos"]]))
        .collect();
    let updated = |photos: Value| json!(["pet.updated", photos]);
    assert_eq!(
        logged,
        [
            json!(["pet.created", null]),
            updated(json!([first])),
            updated(json!([first, second])),
            updated(json!([second, first])),
            updated(json!([first])),
            updated(json!([second])),
            updated(json!(null)),
        ]
    );
}

/// A client that knows only the members of the specification gets the bytes that it always got.
async fn an_animal_without_photos_is_as_it_was(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let target = format!("/v1/pets/{pet}");
    let expected =
        format!(r#"{{"id":{pet},"name":"Biscuit","categoryId":3,"status":"available"}}"#);
    let before = server.get(&target).await;
    assert_eq!(before.text(), expected);
    let photo = add(&server, pet, 1).await;
    let pictured = server.get(&target).await;
    assert_ne!(pictured.header("etag"), before.header("etag"));
    let id = photo["id"].as_i64().unwrap();
    let digest = photo["digest"].as_str().unwrap();
    let with_photo =
        format!(r#","photos":[{{"id":{id},"width":8,"height":6,"digest":"{digest}"}}]}}"#);
    assert_eq!(pictured.text(), expected.replace('}', "") + &with_photo);
    let target_of_photo = path(pet, id);
    assert_eq!(server.delete(&target_of_photo).await.status, 204);
    let after = server.get(&target).await;
    assert_eq!(after.text(), expected);
    assert_eq!(after.header("etag"), before.header("etag"));
    assert_eq!(server.get("/v1/pets").await.text(), format!("[{expected}]"));
}

async fn the_bytes_decide_what_an_image_is(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let photo = add(&server, pet, 1).await;
    let jpeg = server
        .get(&path(pet, photo["id"].as_i64().unwrap()))
        .await
        .body;
    for media_type in [
        "image/jpeg",
        "image/png",
        "image/webp",
        "application/octet-stream",
        "IMAGE/PNG",
        "image/jpg",
    ] {
        for image in [noise(4, 4, 1), jpeg.clone()] {
            let request = post(&server, pet, image).header("content-type", media_type);
            let response = request.send().await;
            assert_eq!(response.status, 201, "{media_type}: {}", response.text());
        }
    }
    for media_type in ["text/plain", "application/json", "image/gif", "image/*", ""] {
        let request = post(&server, pet, jpeg.clone()).header("content-type", media_type);
        let response = request.send().await;
        response.assert_error(415, "unsupported_media_type");
        assert!(response.text().contains("Content-Type: must be image/jpeg"));
    }
    let encoded = post(&server, pet, jpeg.clone()).header("content-encoding", "gzip");
    let response = encoded.send().await;
    response.assert_error(415, "unsupported_media_type");
    assert_eq!(response.header("accept-encoding"), Some("identity"));
}

async fn images_that_cannot_be_stored_are_rejected(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let whole = noise(64, 64, 1);
    let truncated = whole[..whole.len() - 40].to_vec();
    let huge = png_of_size(20_000, 20_000);
    for (image, status, code, message) in [
        (
            b"GIF89a\x01\x00\x01\x00\x00\x00\x00;".to_vec(),
            415,
            "unsupported_media_type",
            "got GIF",
        ),
        (
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec(),
            415,
            "unsupported_media_type",
            "got SVG",
        ),
        (
            b"hello".to_vec(),
            415,
            "unsupported_media_type",
            "must be a JPEG, PNG or WebP image",
        ),
        (
            Vec::new(),
            415,
            "unsupported_media_type",
            "must be a JPEG, PNG or WebP image",
        ),
        (truncated, 400, "invalid_image", "truncated"),
        (huge, 413, "image_too_large", "20000 × 20000"),
    ] {
        for key in [None, Some("k")] {
            let mut request = post(&server, pet, image.clone());
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            let response = request.send().await;
            response.assert_error(status, code);
            assert!(response.text().contains(message), "{}", response.text());
        }
    }
    let too_large = post(&server, pet, vec![0; (10 << 20) + 1]).send().await;
    too_large.assert_error(413, "body_too_large");
    let missing = post(&server, pet + 1, noise(4, 4, 1)).send().await;
    missing.assert_error(404, "not_found");
    let malformed = server.request(Method::POST, "/v1/pets/abc/photos");
    malformed.send().await.assert_error(404, "not_found");
    let tagged = post(&server, pet, noise(4, 4, 1)).header("if-match", "\"x\"");
    tagged.send().await.assert_error(412, "precondition_failed");
    let key = post(&server, pet, noise(4, 4, 1)).header("idempotency-key", "");
    key.send().await.assert_error(400, "invalid_parameter");
    assert_eq!(shown(&server, pet).await, json!(null));
    // Another image under the same key is another request, but none was recorded.
    let retried = post(&server, pet, noise(4, 4, 1)).header("idempotency-key", "k");
    assert_eq!(retried.send().await.status, 201);
}

/// Another attempt would take as long, so it is not a response that clients retry.
async fn an_image_that_takes_too_long_is_rejected(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.api.uploads.decode_timeout = Duration::ZERO;
    })
    .await;
    let pet = create(&server).await;
    let response = post(&server, pet, noise(8, 6, 1)).send().await;
    response.assert_error(413, "image_too_large");
    assert!(response.text().contains("too long"), "{}", response.text());
    assert_eq!(response.header("retry-after"), None);
}

async fn a_retried_upload_is_replayed(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let upload = async |pet, key: &str, seed| {
        let request = post(&server, pet, noise(8, 6, seed));
        request.header("idempotency-key", key).send().await
    };
    let first = upload(pet, "a", 1).await;
    assert_eq!(first.status, 201, "{}", first.text());
    assert_eq!(first.header("idempotent-replayed"), None);
    let other = upload(pet, "a", 2).await;
    other.assert_error(422, "idempotency_key_reused");
    let id = first.json()["id"].as_i64().unwrap();
    assert_eq!(shown(&server, pet).await, json!([first.json()]));
    let assert_replayed = async || {
        let retried = upload(pet, "a", 1).await;
        assert_eq!((retried.status, retried.text()), (201, first.text()));
        assert_eq!(retried.header("location"), first.header("location"));
        assert_eq!(retried.header("idempotent-replayed"), Some("true"));
    };
    assert_replayed().await;
    assert_eq!(server.delete(&path(pet, id)).await.status, 204);
    assert_replayed().await;
    assert_eq!(shown(&server, pet).await, json!(null));
    let deleted = server.delete(&format!("/v1/pets/{pet}")).await;
    assert_eq!(deleted.status, 204);
    assert_replayed().await;
    let missing = upload(pet, "b", 1).await;
    missing.assert_error(404, "not_found");
    assert_eq!(missing.header("idempotent-replayed"), None);
    let missing = upload(pet, "b", 1).await;
    missing.assert_error(404, "not_found");
    assert_eq!(missing.header("idempotent-replayed"), Some("true"));
    // Another animal is another request.
    let other = create(&server).await;
    let reused = upload(other, "a", 1).await;
    reused.assert_error(422, "idempotency_key_reused");
}

async fn an_animal_has_at_most_twenty_photos(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let mut ids = Vec::new();
    for seed in 0..20 {
        ids.push(add(&server, pet, seed).await["id"].as_i64().unwrap());
    }
    let another = || post(&server, pet, noise(4, 4, 99)).header("idempotency-key", "a");
    let rejected = another().send().await;
    rejected.assert_error(409, "too_many_photos");
    let reversed: Vec<_> = ids.iter().rev().copied().collect();
    assert_eq!(order(&server, pet, json!(reversed)).await.status, 200);
    assert_eq!(shown(&server, pet).await[0]["id"], ids[19]);
    // It is decided again.
    assert_eq!(server.delete(&path(pet, ids[3])).await.status, 204);
    let added = another().send().await;
    assert_eq!(added.status, 201, "{}", added.text());
    assert_eq!(shown(&server, pet).await[19], added.json());
}

async fn an_order_names_photos_of_the_animal(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let other = create(&server).await;
    let own = add(&server, pet, 1).await["id"].as_i64().unwrap();
    let foreign = add(&server, other, 2).await["id"].as_i64().unwrap();
    let before = shown(&server, pet).await;
    for (ids, message) in [
        (json!([own, foreign]), format!("{foreign} is not a photo")),
        (json!([own, 999]), "999 is not a photo".into()),
        (json!([own, own]), format!("{own} more than once")),
        (json!(null), "ids: must be an array".into()),
        (json!([0]), "ids: must be an array".into()),
        (json!(["1"]), "ids: must be an array".into()),
        (json!((1..=21).collect::<Vec<_>>()), "at most 20".into()),
    ] {
        let response = order(&server, pet, ids).await;
        response.assert_error(400, "invalid_body");
        assert!(response.text().contains(&message), "{}", response.text());
    }
    let target = photos_of(pet);
    let put = |body: &str| server.request(Method::PUT, &target).body(body);
    let required = put("{}").send().await;
    required.assert_error(400, "invalid_body");
    put("[").send().await.assert_error(400, "invalid_json");
    let unknown = put(r#"{"ids":[],"order":1}"#).header("prefer", "handling=strict");
    unknown.send().await.assert_error(400, "invalid_body");
    let text = put(r#"{"ids":[]}"#).header("content-type", "text/plain");
    text.send()
        .await
        .assert_error(415, "unsupported_media_type");
    let missing = order(&server, other + 1, json!([])).await;
    missing.assert_error(404, "not_found");
    assert_eq!(shown(&server, pet).await, before);
    // An animal that was deleted keeps no photos for others.
    assert_eq!(
        server.delete(&format!("/v1/pets/{other}")).await.status,
        204
    );
    let stolen = order(&server, pet, json!([own, foreign])).await;
    stolen.assert_error(400, "invalid_body");
}

async fn the_order_can_be_conditional(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let first = add(&server, pet, 1).await["id"].clone();
    let target = format!("/v1/pets/{pet}");
    let tag = |response: Response| response.header("etag").unwrap().to_string();
    let stale = tag(server.get(&target).await);
    let second = add(&server, pet, 2).await["id"].clone();
    let current = tag(server.get(&target).await);
    let photos = photos_of(pet);
    let put = |name, tag: &str| {
        let request = server.request(Method::PUT, &photos).header(name, tag);
        request.body(json!({"ids": [second, first]}).to_string())
    };
    for (header, tag) in [
        ("if-match", &*stale),
        ("if-none-match", &*current),
        ("if-none-match", "*"),
    ] {
        let rejected = put(header, tag).send().await;
        rejected.assert_error(412, "precondition_failed");
    }
    assert_eq!(put("if-match", &current).send().await.status, 200);
    let rejected = put("if-match", &current).send().await;
    rejected.assert_error(412, "precondition_failed");
    assert_eq!(put("if-match", "*").send().await.status, 200);
}

async fn images_are_revalidated(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let id = add(&server, pet, 1).await["id"].as_i64().unwrap();
    let mut tags = Vec::new();
    for size in ["", "?size=thumb"] {
        let target = path(pet, id) + size;
        let image = server.get(&target).await;
        assert_jpeg(&image);
        let revalidated = Some("private, no-cache");
        assert_eq!(image.header("cache-control"), revalidated);
        assert_eq!(image.header("vary"), Some("authorization"));
        let length = image.body.len().to_string();
        assert_eq!(image.header("content-length"), Some(&*length));
        let tag = image.header("etag").unwrap().to_string();
        let get = |name, tag: &str| server.request(Method::GET, &target).header(name, tag);
        let known = get("if-none-match", &tag).send().await;
        assert_eq!((known.status, known.body.len()), (304, 0));
        assert_eq!(known.header("etag"), Some(&*tag));
        assert_eq!(known.header("cache-control"), revalidated);
        assert_eq!(known.header("vary"), Some("authorization"));
        assert_eq!(known.header("content-type"), None);
        assert_eq!(get("if-none-match", "\"x\"").send().await.body, image.body);
        assert_eq!(get("if-match", &tag).send().await.body, image.body);
        let other = get("if-match", "\"x\"").send().await;
        other.assert_error(412, "precondition_failed");
        for tagged in [false, true] {
            let mut head = server.request(Method::HEAD, &target);
            if tagged {
                head = head.header("if-none-match", &tag);
            }
            let head = head.send().await;
            assert_eq!(head.status, if tagged { 304 } else { 200 });
            assert_eq!((head.body.len(), head.header("etag")), (0, Some(&*tag)));
            if !tagged {
                assert_eq!(head.header("content-length"), Some(&*length));
            }
        }
        tags.push(tag);
    }
    assert_ne!(tags[0], tags[1]);
    let delete = |name, tag: &str| {
        let request = server.request(Method::DELETE, &path(pet, id));
        request.header(name, tag)
    };
    for (name, tag) in [("if-match", &*tags[1]), ("if-none-match", "*")] {
        let rejected = delete(name, tag).send().await;
        rejected.assert_error(412, "precondition_failed");
    }
    assert_eq!(delete("if-match", &tags[0]).send().await.status, 204);
}

/// After a restore, or in another store at the same address, an id may be that of another photo.
async fn images_with_their_digest_are_cached_for_good(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let photo = add(&server, pet, 1).await;
    let other = add(&server, pet, 2).await;
    let id = photo["id"].as_i64().unwrap();
    let immutable = Some("private, max-age=31536000, immutable");
    for size in ["full", "thumb"] {
        let target = |photo: &Value| {
            let digest = photo["digest"].as_str().unwrap();
            format!("{}?size={size}&digest={digest}", path(pet, id))
        };
        let image = server.get(&target(&photo)).await;
        assert_jpeg(&image);
        assert_eq!(image.header("cache-control"), immutable);
        assert_eq!(image.header("vary"), Some("authorization"));
        let tag = image.header("etag").unwrap();
        let known = server.request(Method::GET, &target(&photo));
        let known = known.header("if-none-match", tag).send().await;
        assert_eq!(
            (known.status, known.header("cache-control")),
            (304, immutable)
        );
        let wrong = server.get(&target(&other)).await;
        wrong.assert_error(404, "not_found");
        for digest in ["", "x", "AAAA"] {
            let malformed = format!("{}?size={size}&digest={digest}", path(pet, id));
            let request = server.request(Method::GET, &malformed);
            let request = request.header("if-match", "\"x\"");
            request.send().await.assert_error(404, "not_found");
        }
        let twice = format!("{}&digest=x", target(&photo));
        let twice = server.get(&twice).await;
        twice.assert_error(400, "invalid_parameter");
        let missing = target(&photo).replace(&path(pet, id), &path(pet, 99));
        server.get(&missing).await.assert_error(404, "not_found");
    }
}

async fn scopes_decide_who_changes_photos(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let id = add(&server, pet, 1).await["id"].as_i64().unwrap();
    let reader = server.create_key(&[Scope::PetsRead], None).await;
    let writer = server.create_key(&[Scope::PetsWrite], None).await;
    let requests = || {
        [
            (post(&server, pet, noise(4, 4, 1)), &reader),
            (
                server
                    .request(Method::PUT, &photos_of(pet))
                    .body(json!({"ids": [id]}).to_string()),
                &reader,
            ),
            (server.request(Method::GET, &path(pet, id)), &writer),
            (server.request(Method::DELETE, &path(pet, id)), &reader),
        ]
    };
    for (request, key) in requests() {
        let response = request.with_key(key).send().await;
        response.assert_error(403, "insufficient_scope");
    }
    for (request, key) in requests() {
        let other = if key == &reader { &writer } else { &reader };
        let response = request.with_key(other).send().await;
        assert!(response.is_success(), "{}", response.text());
    }
}

async fn photos_belong_to_one_animal(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let other = create(&server).await;
    let id = add(&server, pet, 1).await["id"].as_i64().unwrap();
    for target in [
        path(other, id),
        path(other, id) + "?size=thumb",
        path(pet, id + 1),
        path(pet, id + 1) + "?size=thumb",
        format!("/v1/pets/{pet}/photos/abc"),
        format!("/v1/pets/abc/photos/{id}"),
    ] {
        server.get(&target).await.assert_error(404, "not_found");
        let deleted = server.delete(target.split('?').next().unwrap()).await;
        deleted.assert_error(404, "not_found");
    }
    for query in [
        "size=small",
        "size=",
        "size=full&size=full",
        "size=thumb&size=full",
    ] {
        let response = server.get(&format!("{}?{query}", path(pet, id))).await;
        response.assert_error(400, "invalid_parameter");
    }
    let unknown = server.request(Method::GET, &(path(pet, id) + "?sise=thumb"));
    let response = unknown.header("prefer", "handling=strict").send().await;
    response.assert_error(400, "invalid_parameter");
    assert_jpeg(&server.get(&path(pet, id)).await);
}

async fn photos_cannot_be_set_with_the_animal(backend: Backend) {
    let server = Server::start(backend).await;
    let photos = json!([{"id": 1, "width": 8, "height": 6}]);
    let new = json!({"name": "Moss", "categoryId": 7, "photos": photos});
    let pet = server.create(new.clone()).await;
    assert_eq!(shown(&server, pet).await, json!(null));
    let photo = add(&server, pet, 1).await;
    let target = format!("/v1/pets/{pet}");
    for patch in [json!({"photos": null}), json!({"photos": photos})] {
        assert_eq!(server.patch(&target, patch.to_string()).await.status, 200);
        assert_eq!(shown(&server, pet).await, json!([photo]));
        let strict = server.request(Method::PATCH, &target);
        let strict = strict.header("prefer", "handling=strict");
        let response = strict.body(patch.to_string()).send().await;
        response.assert_error(400, "invalid_body");
        assert!(response.text().contains("photos"), "{}", response.text());
    }
    let strict = server.request(Method::POST, "/v1/pets");
    let strict = strict.header("prefer", "handling=strict");
    let response = strict.body(new.to_string()).send().await;
    response.assert_error(400, "invalid_body");
}

async fn other_changes_keep_the_photos(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let photo = add(&server, pet, 1).await;
    let target = format!("/v1/pets/{pet}");
    let renamed = server.patch(&target, r#"{"name":"Rex"}"#).await;
    assert_eq!(renamed.json()["photos"], json!([photo]));
    let sale = server.place_order(pet).await;
    assert_eq!(server.transition(sale, "complete").await.status, 200);
    let batch = json!({"changes": [{"id": pet, "update": {"color": "red"}}]});
    let changed = server.post("/v1/pets/batch", batch.to_string()).await;
    assert_eq!(changed.json()["results"][0]["status"], 200);
    assert_eq!(shown(&server, pet).await, json!([photo]));
    let id = photo["id"].as_i64().unwrap();
    assert_jpeg(&server.get(&path(pet, id)).await);
}

async fn change(server: &Server, id: &str, changes: Value) {
    let body = json!({"batchId": id, "changes": changes, "atomic": true});
    let response = server.post("/v1/pets/batch", body.to_string()).await;
    assert_eq!(response.status, 200, "{}", response.text());
}

async fn undo(server: &Server, id: &str) -> Value {
    let path = format!("/v1/pets/batch/{id}/undo");
    let response = server.request(Method::POST, &path).send().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json().get("purgedPhotos"), None);
    let kept = response.json()["kept"].as_array().unwrap().len();
    json!([response.json()["undone"], kept])
}

async fn undoing_a_batch_brings_photos_back(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let first = add(&server, pet, 1).await;
    let second = add(&server, pet, 2).await;
    let updated = create(&server).await;
    let third = add(&server, updated, 3).await;
    let image = server
        .get(&path(pet, first["id"].as_i64().unwrap()))
        .await
        .body;
    let changes = json!([
        {"id": pet, "delete": true},
        {"id": updated, "update": {"name": "Rex"}},
    ]);
    change(&server, "a", changes).await;
    let target = path(pet, first["id"].as_i64().unwrap());
    assert_eq!(status(&server, &target).await, 404);
    assert_eq!(undo(&server, "a").await, json!([2, 0]));
    assert_eq!(shown(&server, pet).await, json!([first, second]));
    assert_eq!(shown(&server, updated).await, json!([third]));
    assert_eq!(server.get(&target).await.body, image);
    // The undo is undone: the animal is gone once more, and its photos with it.
    assert_eq!(undo(&server, "undo-a").await, json!([2, 0]));
    assert_eq!(status(&server, &target).await, 404);
    // One of the photos is purged in between.
    let purged = second["id"].as_i64().unwrap();
    server
        .database
        .execute(&format!("DELETE FROM photos WHERE id = {purged}"));
    let restored = server.request(Method::POST, "/v1/pets/batch/a/undo");
    let restored = restored.send().await.json();
    assert_eq!(
        (&restored["undone"], &restored["purgedPhotos"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(shown(&server, pet).await, json!([first]));
    assert_eq!(server.get(&target).await.body, image);
    // It is as it was before, as far as that is possible.
    assert_eq!(undo(&server, "a").await, json!([0, 0]));
}

async fn a_photo_that_was_added_since_is_kept(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server).await;
    let changes = json!([
        {"id": pet, "update": {"name": "Rex"}},
        {"create": {"name": "Moss", "categoryId": 7}},
        {"create": {"name": "Pip", "categoryId": 7}},
    ]);
    change(&server, "a", changes).await;
    let first = add(&server, pet, 1).await;
    let second = add(&server, pet + 1, 2).await;
    assert_eq!(undo(&server, "a").await, json!([1, 2]));
    assert_eq!(shown(&server, pet).await, json!([first]));
    assert_eq!(shown(&server, pet + 1).await, json!([second]));
    assert_eq!(status(&server, &format!("/v1/pets/{}", pet + 2)).await, 404);
}

async fn photos_of_deleted_animals_are_gone(backend: Backend) {
    let server = Server::start(backend).await;
    for is_batch in [false, true] {
        let pet = create(&server).await;
        let id = add(&server, pet, 1).await["id"].as_i64().unwrap();
        assert_jpeg(&server.get(&path(pet, id)).await);
        if is_batch {
            change(&server, "a", json!([{"id": pet, "delete": true}])).await;
        } else {
            assert_eq!(server.delete(&format!("/v1/pets/{pet}")).await.status, 204);
        }
        for size in ["", "?size=thumb"] {
            let gone = server.get(&(path(pet, id) + size)).await;
            gone.assert_error(404, "not_found");
        }
        order(&server, pet, json!([id]))
            .await
            .assert_error(404, "not_found");
        // What is kept of it is marked, so that it is purged.
        let unmarked = server
            .database
            .query("SELECT count(*) FROM photos WHERE removed_at IS NULL");
        assert_eq!(unmarked, "0");
    }
}
