//! Letting others in: keys and invitations that the holder of another key creates, and takes away
//! again. Every way to get more than one was given is tried.

use std::sync::{Mutex, atomic::Ordering};

use domain::api_key::Scope;
use futures_util::future::join_all;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use support::{Backend, Response, eventually};

use crate::{client::Request, contract, harness::Server};

support::cases! {
    DATABASES: [
        keys_are_created_rotated_and_revoked,
        a_key_grants_only_what_it_has,
        invalid_grants_get_400,
        a_key_that_has_ended_grants_nothing,
        a_retry_never_shows_a_secret,
        an_invitation_turns_into_a_key_once,
        an_invitation_expires_or_is_withdrawn,
        an_invitation_allows_nothing_else,
        a_renewed_key_ends_when_the_invitation_is_claimed,
        a_key_is_revoked_by_one_with_its_scopes,
        the_last_owner_stays,
        a_key_is_rotated_by_one_that_lasts_as_long,
        a_key_is_rotated_once,
        a_revoked_key_is_rejected_at_once,
        events_about_keys_show_no_secret,
        the_list_shows_details_to_those_who_may_see_them,
        the_number_of_keys_is_limited,
        preconditions_and_media_types_are_checked,
    ],
}

const STAFF: [Scope; 4] = [
    Scope::PetsRead,
    Scope::PetsWrite,
    Scope::OrdersRead,
    Scope::OrdersWrite,
];

fn send<'a>(server: &'a Server, method: Method, path: &str, key: &str, body: Value) -> Request<'a> {
    let request = server.request(method, path).with_key(key);
    match body {
        Value::Null => request,
        body => request.body(body.to_string()),
    }
}

async fn post(server: &Server, path: &str, key: &str, body: Value) -> Response {
    send(server, Method::POST, path, key, body).send().await
}

async fn revoke(server: &Server, id: &Value, key: &str) -> Response {
    let path = format!("/v1/keys/{id}");
    send(server, Method::DELETE, &path, key, Value::Null)
        .send()
        .await
}

async fn claim(server: &Server, invitation: &str) -> Response {
    post(server, "/v1/keys/claim", invitation, Value::Null).await
}

async fn current(server: &Server, key: &str) -> Response {
    let path = "/v1/keys/current";
    send(server, Method::GET, path, key, Value::Null)
        .send()
        .await
}

async fn owner(server: &Server) -> String {
    server.create_key(&Scope::ALL, None).await
}

fn names(scopes: &[Scope]) -> Vec<&'static str> {
    scopes.iter().map(|scope| scope.as_str()).collect()
}

fn grant(name: &str, scopes: &[Scope]) -> Value {
    json!({"name": name, "scopes": names(scopes)})
}

/// Creates a key or an invitation. Returns its id and its secret.
async fn create(server: &Server, path: &str, key: &str, body: Value) -> (Value, String) {
    let created = post(server, path, key, body).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let body = created.json();
    let location = format!("/v1/keys/{}", body["id"]);
    assert_eq!(created.header("location"), Some(&*location));
    assert_eq!(created.header("cache-control"), Some("no-store"));
    (body["id"].clone(), body["secret"].as_str().unwrap().into())
}

async fn invite(server: &Server, key: &str, body: Value) -> (Value, String) {
    create(server, "/v1/keys/invitations", key, body).await
}

async fn keys_are_created_rotated_and_revoked(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let body = json!({
        "name": "Ada",
        "scopes": names(&STAFF),
        "expiresAt": "2096-10-02T09:06:40+02:00",
    });
    let (id, secret) = create(&server, "/v1/keys", &owner, body).await;
    let key = current(&server, &secret).await.json();
    assert_eq!(key["id"], id);
    assert_eq!(key["name"], "Ada");
    assert_eq!(key["scopes"], json!(names(&STAFF)));
    assert_eq!(key["expiresAt"], "2096-10-02T07:06:40Z");
    assert_eq!(key.get("secret"), None);

    let path = format!("/v1/keys/{id}");
    let fetched = send(&server, Method::GET, &path, &owner, Value::Null);
    assert_eq!(fetched.send().await.json()["name"], "Ada");

    // The old key stays valid for the grace period.
    let rotate = format!("/v1/keys/{id}/rotate");
    let grace = json!({"graceSeconds": 3600});
    let (successor, new_secret) = create(&server, &rotate, &owner, grace).await;
    assert_ne!(successor, id);
    let old = current(&server, &secret).await.json();
    let end: Timestamp = old["expiresAt"].as_str().unwrap().parse().unwrap();
    assert!(end < Timestamp::now() + SignedDuration::from_secs(3601));
    let new = current(&server, &new_secret).await.json();
    assert_eq!(
        (&new["name"], &new["scopes"]),
        (&key["name"], &key["scopes"])
    );
    let again = post(&server, &rotate, &owner, Value::Null).await;
    again.assert_error(409, "key_rotated");
    let message = again.json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(&format!("key {successor}")), "{message}");

    // Without a body, it is a day; with 0, the old key ends at once.
    let rotate = format!("/v1/keys/{successor}/rotate");
    let grace = json!({"graceSeconds": 0});
    let (last, last_secret) = create(&server, &rotate, &owner, grace).await;
    let ended = current(&server, &new_secret).await;
    ended.assert_error(401, "invalid_api_key");
    let rotated = post(&server, &rotate, &owner, Value::Null).await;
    rotated.assert_error(409, "key_rotated");

    for _ in 0..2 {
        assert_eq!(revoke(&server, &last, &owner).await.status, 204);
        let revoked = current(&server, &last_secret).await;
        revoked.assert_error(401, "invalid_api_key");
    }
    let rotate = format!("/v1/keys/{last}/rotate");
    let rotated = post(&server, &rotate, &owner, Value::Null).await;
    rotated.assert_error(409, "key_not_rotatable");
    for id in [json!(99), json!("x"), json!(0)] {
        let path = format!("/v1/keys/{}", id.to_string().trim_matches('"'));
        for (method, path) in [
            (Method::GET, path.clone()),
            (Method::DELETE, path.clone()),
            (Method::POST, format!("{path}/rotate")),
        ] {
            let missing = send(&server, method, &path, &owner, Value::Null);
            missing.send().await.assert_error(404, "not_found");
        }
    }
}

async fn a_key_grants_only_what_it_has(backend: Backend) {
    let server = Server::start(backend).await;
    let in_a_day = Timestamp::now() + SignedDuration::from_hours(24);
    let in_two = in_a_day + SignedDuration::from_hours(24);
    let scopes = [Scope::PetsRead, Scope::KeysWrite];
    let manager = server.create_key(&scopes, Some(in_a_day)).await;
    for path in ["/v1/keys", "/v1/keys/invitations"] {
        for scope in Scope::ALL {
            let grant = grant(
                "Mallory",
                &[Scope::PetsRead, scope][usize::from(scope == Scope::PetsRead)..],
            );
            let created = post(&server, path, &manager, grant).await;
            if scopes.contains(&scope) {
                assert_eq!(created.status, 201, "{scope} {}", created.text());
            } else {
                created.assert_error(403, "insufficient_scope");
                let challenge = created.header("www-authenticate").unwrap();
                assert!(challenge.contains(scope.as_str()), "{challenge}");
            }
        }
        let mut longer = grant("Mallory", &[Scope::PetsRead]);
        longer["expiresAt"] = json!(in_two);
        let created = post(&server, path, &manager, longer).await;
        created.assert_error(403, "expiry_too_late");
    }
    // Without an expiry, the key ends with the one that created it.
    let body = grant("Bo", &[Scope::PetsRead]);
    let (_, secret) = create(&server, "/v1/keys", &manager, body.clone()).await;
    let of_manager = current(&server, &manager).await.json()["expiresAt"].clone();
    assert_eq!(
        current(&server, &secret).await.json()["expiresAt"],
        of_manager
    );
    let (_, invitation) = invite(&server, &manager, body).await;
    let claimed = claim(&server, &invitation).await.json();
    assert_eq!(claimed["expiresAt"], of_manager);

    // Nothing is granted without the scope for it.
    let reader = server
        .create_key(&[Scope::KeysRead, Scope::PetsRead], None)
        .await;
    for path in ["/v1/keys", "/v1/keys/invitations", "/v1/keys/1/rotate"] {
        let rejected = post(&server, path, &reader, grant("Bo", &[Scope::PetsRead])).await;
        rejected.assert_error(403, "insufficient_scope");
    }
    let rejected = revoke(&server, &json!(1), &reader).await;
    rejected.assert_error(403, "insufficient_scope");
}

async fn invalid_grants_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let scopes = json!(["pets:read"]);
    for (body, member) in [
        (json!({}), "name: required"),
        (json!({}), "scopes: required"),
        (
            json!({"name": 1, "scopes": scopes}),
            "name: must be a string",
        ),
        (
            json!({"name": "", "scopes": scopes}),
            "name: must be 1 to 100",
        ),
        (
            json!({"name": " ", "scopes": scopes}),
            "name: must be 1 to 100",
        ),
        (
            json!({"name": "a\nb", "scopes": scopes}),
            "name: must be 1 to 100",
        ),
        (
            json!({"name": "a".repeat(101), "scopes": scopes}),
            "name: must be 1 to 100",
        ),
        (
            json!({"name": " 17 ", "scopes": scopes}),
            "name: must not be a number",
        ),
        (
            json!({"name": "A", "scopes": []}),
            "scopes: must be an array of one or more",
        ),
        (
            json!({"name": "A", "scopes": "pets:read"}),
            "scopes: must be an array",
        ),
        (
            json!({"name": "A", "scopes": ["pets:read", "pets:read"]}),
            "more than once",
        ),
        (json!({"name": "A", "scopes": ["admin"]}), "got \"admin\""),
        // Only an invitation has it.
        (
            json!({"name": "A", "scopes": ["keys:claim"]}),
            "got \"keys:claim\"",
        ),
        (
            json!({"name": "A", "scopes": scopes, "expiresAt": 5}),
            "expiresAt: must be a time",
        ),
        (
            json!({"name": "A", "scopes": scopes, "expiresAt": "soon"}),
            "expiresAt: must be a time",
        ),
        (
            json!({"name": "A", "scopes": scopes, "expiresAt": "2020-01-01T00:00:00Z"}),
            "in the future",
        ),
        (
            json!({"name": "A", "scopes": scopes, "expiresAt": "2096-10-02"}),
            "expiresAt: must be a time",
        ),
    ] {
        for path in ["/v1/keys", "/v1/keys/invitations"] {
            let request = send(&server, Method::POST, path, &owner, body.clone());
            // The contract does not know the time.
            let rejected = request.skip_body_check().send().await;
            rejected.assert_error(400, "invalid_body");
            let message = rejected.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(member), "{body}: {message}");
        }
    }
    for (replaces, reason) in [
        (json!("x"), "must be the id of a key"),
        (json!(0), "must be the id of a key"),
        (json!(99), "no API key has this id"),
    ] {
        let mut body = grant("A", &[Scope::PetsRead]);
        body["replaces"] = replaces;
        let path = "/v1/keys/invitations";
        let request = send(&server, Method::POST, path, &owner, body);
        let rejected = request.skip_body_check().send().await;
        rejected.assert_error(400, "invalid_body");
        assert!(rejected.text().contains(reason), "{}", rejected.text());
    }
    for grace in [json!(-1), json!("1h"), json!(31_622_401), Value::Null] {
        let body = json!({"graceSeconds": grace});
        let rejected = post(&server, "/v1/keys/1/rotate", &owner, body).await;
        rejected.assert_error(400, "invalid_body");
    }
}

/// The service notices within a second that another program has revoked a key. Until then it
/// authenticates the key, but grants nothing in its name.
async fn a_key_that_has_ended_grants_nothing(backend: Backend) {
    let server = Server::start(backend).await;
    let body = grant("Mallory", &[Scope::PetsRead]);
    let count = || server.database.query("SELECT count(*) FROM api_keys");
    for end in ["revoked_at = 1", "expires_at = 1"] {
        // Each has a key of its own: a request may tell the service that another has ended.
        for (method, path) in [
            (Method::POST, "/v1/keys"),
            (Method::POST, "/v1/keys/invitations"),
            (Method::POST, "/v1/keys/1/rotate"),
            (Method::DELETE, "/v1/keys/1"),
        ] {
            let key = owner(&server).await;
            let id = current(&server, &key).await.json()["id"].clone();
            let before = count();
            let end = format!("UPDATE api_keys SET {end} WHERE id = {id}");
            server.database.execute(&end);
            let request = send(&server, method, path, &key, body.clone());
            let rejected = request.skip_body_check().send().await;
            rejected.assert_error(401, "invalid_api_key");
            assert_eq!(count(), before);
        }
        // An invitation ends with the key that made it.
        for ended in ["id", "invitation_invited_by"] {
            let key = owner(&server).await;
            let (id, invitation) = invite(&server, &key, body.clone()).await;
            assert_eq!(current(&server, &invitation).await.status, 200);
            let before = count();
            server.database.execute(&format!(
                "UPDATE api_keys SET {end}
                 WHERE id = (SELECT {ended} FROM api_keys WHERE id = {id})"
            ));
            let rejected = claim(&server, &invitation).await;
            rejected.assert_error(401, "invalid_api_key");
            assert_eq!(count(), before);
        }
    }
    let first = "SELECT count(*) FROM api_keys
                 WHERE id = 1 AND revoked_at IS NULL AND successor IS NULL";
    assert_eq!(server.database.query(first), "1");
}

async fn a_retry_never_shows_a_secret(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let body = grant("Ada", &[Scope::PetsRead]);
    let (id, _) = create(&server, "/v1/keys", &owner, body.clone()).await;
    for (path, body) in [
        ("/v1/keys".to_owned(), body.clone()),
        ("/v1/keys/invitations".to_owned(), body),
        (format!("/v1/keys/{id}/rotate"), json!({})),
    ] {
        let request = async |body: &Value| {
            let request = send(&server, Method::POST, &path, &owner, body.clone());
            request.header("idempotency-key", &path).send().await
        };
        let first = request(&body).await;
        assert_eq!(first.status, 201, "{}", first.text());
        let count = server.database.query("SELECT count(*) FROM api_keys");
        let mut expected = first.json();
        assert!(expected.as_object_mut().unwrap().remove("secret").is_some());
        let retry = request(&body).await;
        assert_eq!(retry.status, 201);
        assert_eq!(retry.header("idempotent-replayed"), Some("true"));
        assert_eq!(retry.json(), expected);
        assert_eq!(
            server.database.query("SELECT count(*) FROM api_keys"),
            count
        );
        let other = request(&json!({"name": "B", "scopes": ["pets:write"]})).await;
        other.assert_error(422, "idempotency_key_reused");
    }
    // The secrets are not stored, either.
    let stored = "SELECT count(*) FROM idempotency_keys WHERE outcome LIKE '%psk_%'";
    assert_eq!(server.database.query(stored), "0");
}

async fn an_invitation_turns_into_a_key_once(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    for _ in 0..5 {
        let (id, invitation) = invite(&server, &owner, grant("Ada", &STAFF)).await;
        let described = current(&server, &invitation).await.json();
        assert_eq!(described["scopes"], json!(["keys:claim"]));
        assert_eq!(described["invitation"]["scopes"], json!(names(&STAFF)));
        let claims = join_all((0..6).map(|_| claim(&server, &invitation))).await;
        let (won, lost): (Vec<_>, Vec<_>) =
            claims.iter().partition(|claimed| claimed.status == 201);
        assert_eq!(won.len(), 1, "{claims:?}");
        for lost in lost {
            lost.assert_error(401, "invalid_api_key");
        }
        let secret = won[0].json()["secret"].as_str().unwrap().to_owned();
        let key = current(&server, &secret).await.json();
        assert_eq!(
            (&key["name"], &key["scopes"]),
            (&json!("Ada"), &json!(names(&STAFF)))
        );
        assert_eq!(key.get("invitation"), None);
        let again = claim(&server, &invitation).await;
        again.assert_error(401, "invalid_api_key");
        let open = "SELECT count(*) FROM api_keys
                    WHERE invitation_scopes IS NOT NULL AND revoked_at IS NULL AND id > 1";
        assert_eq!(server.database.query(open), "0", "{id}");
    }
    let keys = "SELECT count(*) FROM api_keys WHERE name = 'Ada' AND revoked_at IS NULL";
    assert_eq!(server.database.query(keys), "5");
}

async fn an_invitation_expires_or_is_withdrawn(backend: Backend) {
    let (server, hours) = Server::start_with_clock(backend).await;
    let owner = owner(&server).await;
    let (id, withdrawn) = invite(&server, &owner, grant("Ada", &STAFF)).await;
    assert_eq!(revoke(&server, &id, &owner).await.status, 204);
    let rejected = claim(&server, &withdrawn).await;
    rejected.assert_error(401, "invalid_api_key");

    let (_, late) = invite(&server, &owner, grant("Bo", &STAFF)).await;
    let (_, in_time) = invite(&server, &owner, grant("Cy", &STAFF)).await;
    hours.store(23, Ordering::Relaxed);
    assert_eq!(claim(&server, &in_time).await.status, 201);
    hours.store(25, Ordering::Relaxed);
    let rejected = claim(&server, &late).await;
    rejected.assert_error(401, "invalid_api_key");
}

async fn an_invitation_allows_nothing_else(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let (_, invitation) = invite(&server, &owner, grant("Ada", &Scope::ALL)).await;
    for (method, path, _) in contract::callable_operations() {
        if path == "/v1/keys/claim" || path == "/v1/keys/current" {
            continue;
        }
        let request = server.request(method, &path).with_key(&invitation);
        let response = request.body(contract::BODY).send().await;
        response.assert_error(403, "insufficient_scope");
    }
    // Neither is it rotated into a key that lasts.
    let (id, _) = invite(&server, &owner, grant("Bo", &STAFF)).await;
    let rotated = post(
        &server,
        &format!("/v1/keys/{id}/rotate"),
        &owner,
        Value::Null,
    )
    .await;
    rotated.assert_error(409, "key_not_rotatable");
    // Nor can another key claim.
    let claimed = claim(&server, &owner).await;
    claimed.assert_error(403, "insufficient_scope");
}

async fn a_renewed_key_ends_when_the_invitation_is_claimed(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let (old, secret) = create(&server, "/v1/keys", &owner, grant("Ada", &STAFF)).await;
    let mut body = grant("Ada", &STAFF);
    body["replaces"] = old.clone();
    let (_, invitation) = invite(&server, &owner, body.clone()).await;
    assert_eq!(current(&server, &secret).await.status, 200);
    let claimed = claim(&server, &invitation).await;
    assert_eq!(claimed.status, 201);
    current(&server, &secret)
        .await
        .assert_error(401, "invalid_api_key");

    // What a key could not revoke, it cannot have replaced.
    let scopes = [Scope::PetsRead, Scope::KeysWrite];
    let manager = server.create_key(&scopes, None).await;
    let mut body = grant("Mallory", &[Scope::PetsRead]);
    body["replaces"] = claimed.json()["id"].clone();
    let rejected = post(&server, "/v1/keys/invitations", &manager, body).await;
    rejected.assert_error(403, "insufficient_scope");
    // And an owner is replaced by an owner.
    let mut body = grant("Ada", &STAFF);
    body["replaces"] = current(&server, &owner).await.json()["id"].clone();
    let path = "/v1/keys/invitations";
    let request = send(&server, Method::POST, path, &owner, body);
    let rejected = request.skip_body_check().send().await;
    rejected.assert_error(400, "invalid_body");
}

async fn a_key_is_revoked_by_one_with_its_scopes(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let scopes = [Scope::PetsRead, Scope::KeysWrite];
    let manager = server.create_key(&scopes, None).await;
    let (staff, _) = create(&server, "/v1/keys", &owner, grant("Ada", &STAFF)).await;
    let (reader, _) = create(&server, "/v1/keys", &owner, grant("Bo", &[Scope::PetsRead])).await;
    let (invited, _) = invite(&server, &owner, grant("Cy", &STAFF)).await;
    for id in [&staff, &invited] {
        let rejected = revoke(&server, id, &manager).await;
        rejected.assert_error(403, "insufficient_scope");
    }
    assert_eq!(revoke(&server, &reader, &manager).await.status, 204);
    // Itself, too: another key can manage keys.
    let own = current(&server, &manager).await.json()["id"].clone();
    assert_eq!(revoke(&server, &own, &manager).await.status, 204);
    current(&server, &manager)
        .await
        .assert_error(401, "invalid_api_key");
}

async fn the_last_owner_stays(backend: Backend) {
    let server = Server::start(backend).await;
    let in_a_day = Timestamp::now() + SignedDuration::from_hours(24);
    let first = owner(&server).await;
    let others = "UPDATE api_keys SET scopes = 'pets:read' WHERE id = 1";
    server.database.execute(others);
    let id = async |key: &str| current(&server, key).await.json()["id"].clone();
    let first_id = id(&first).await;
    let rejected = revoke(&server, &first_id, &first).await;
    rejected.assert_error(409, "last_owner");
    // One that ends earlier does not count.
    let temporary = server.create_key(&Scope::ALL, Some(in_a_day)).await;
    for caller in [&first, &temporary] {
        let rejected = revoke(&server, &first_id, caller).await;
        rejected.assert_error(409, "last_owner");
    }
    // Neither does one that can do less.
    let manager = server.create_key(&[Scope::KeysWrite], None).await;
    let rejected = revoke(&server, &first_id, &first).await;
    rejected.assert_error(409, "last_owner");
    let own = id(&manager).await;
    assert_eq!(revoke(&server, &own, &manager).await.status, 204);
    assert_eq!(
        revoke(&server, &id(&temporary).await, &temporary)
            .await
            .status,
        204
    );
    // Two that revoke each other at the same time: one stays.
    let mut owners = [first, owner(&server).await];
    for _ in 0..5 {
        let ids = [id(&owners[0]).await, id(&owners[1]).await];
        let revoked = join_all([
            revoke(&server, &ids[1], &owners[0]),
            revoke(&server, &ids[0], &owners[1]),
        ])
        .await;
        let statuses: Vec<_> = revoked.iter().map(|response| response.status).collect();
        let stays = statuses.iter().position(|status| *status == 204).unwrap();
        assert_ne!(statuses[1 - stays], 204, "{revoked:?}");
        assert_eq!(current(&server, &owners[stays]).await.status, 200);
        owners[1 - stays] = owner(&server).await;
    }
}

async fn a_key_is_rotated_by_one_that_lasts_as_long(backend: Backend) {
    let server = Server::start(backend).await;
    let in_a_day = Timestamp::now() + SignedDuration::from_hours(24);
    let owner = owner(&server).await;
    let (staff, _) = create(&server, "/v1/keys", &owner, grant("Ada", &STAFF)).await;
    let rotate = format!("/v1/keys/{staff}/rotate");
    let scopes = [Scope::PetsRead, Scope::KeysWrite];
    let manager = server.create_key(&scopes, None).await;
    let rejected = post(&server, &rotate, &manager, Value::Null).await;
    rejected.assert_error(403, "insufficient_scope");
    let temporary = server.create_key(&Scope::ALL, Some(in_a_day)).await;
    let rejected = post(&server, &rotate, &temporary, Value::Null).await;
    rejected.assert_error(403, "expiry_too_late");
    // A key that expires cannot extend its own life.
    let described = current(&server, &temporary).await.json();
    let path = format!("/v1/keys/{}/rotate", described["id"]);
    let (_, successor) = create(&server, &path, &temporary, json!({})).await;
    let renewed = current(&server, &successor).await.json();
    assert_eq!(renewed["expiresAt"], described["expiresAt"]);
}

/// Of several rotations of a key at the same time, one is made.
async fn a_key_is_rotated_once(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let in_an_hour = Timestamp::now() + SignedDuration::from_hours(1);
    for expires_at in [None, Some(in_an_hour)] {
        let mut body = grant("Ada", &STAFF);
        body["expiresAt"] = json!(expires_at);
        let (id, _) = create(&server, "/v1/keys", &owner, body).await;
        let path = format!("/v1/keys/{id}/rotate");
        let rotated = (0..4).map(|_| post(&server, &path, &owner, Value::Null));
        let rotated = join_all(rotated).await;
        let made = rotated.iter().filter(|rotated| rotated.status == 201);
        assert_eq!(made.count(), 1, "{rotated:?}");
        for rejected in rotated.iter().filter(|rotated| rotated.status != 201) {
            rejected.assert_error(409, "key_rotated");
        }
        // Also if the old key expires before the grace period would end.
        let subject = format!("/v1/events?types=key.rotated&subject=keys/{id}");
        let events = send(&server, Method::GET, &subject, &owner, Value::Null);
        let events = events.send().await.json();
        assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
    }
}

async fn a_revoked_key_is_rejected_at_once(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let (id, secret) = create(&server, "/v1/keys", &owner, grant("Ada", &STAFF)).await;
    // The first request reads the key from the database, the second remembers its hash.
    for _ in 0..3 {
        assert_eq!(current(&server, &secret).await.status, 200);
    }
    assert_eq!(revoke(&server, &id, &owner).await.status, 204);
    current(&server, &secret)
        .await
        .assert_error(401, "invalid_api_key");
}

async fn events_about_keys_show_no_secret(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let owner_id = current(&server, &owner).await.json()["id"].clone();
    let (invited, invitation) = invite(&server, &owner, grant("Ada", &STAFF)).await;
    let claimed = claim(&server, &invitation).await.json();
    let rotate = format!("/v1/keys/{}/rotate", claimed["id"]);
    let (successor, _) = create(&server, &rotate, &owner, json!({})).await;
    assert_eq!(revoke(&server, &successor, &owner).await.status, 204);
    let events = async |key: &str, query: &str| {
        let path = format!("/v1/events?{query}");
        send(&server, Method::GET, &path, key, Value::Null)
            .send()
            .await
    };
    let types = "types=key.created,key.rotated,key.revoked";
    let seen = events(&owner, types).await;
    let described: Vec<_> = seen
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("{} {} {}", event["type"], event["subject"], event["keyid"]))
        .collect();
    let expected = [
        ("key.created", &invited, &owner_id),
        ("key.revoked", &invited, &invited),
        ("key.created", &claimed["id"], &invited),
        ("key.rotated", &claimed["id"], &owner_id),
        ("key.created", &successor, &owner_id),
        ("key.revoked", &successor, &owner_id),
    ];
    let expected =
        expected.map(|(kind, subject, key)| format!("\"{kind}\" \"keys/{subject}\" \"{key}\""));
    assert_eq!(described, expected);
    let text = seen.text();
    assert!(!text.contains("psk_") && !text.contains("hash") && !text.contains("lastUsed"));
    assert!(
        text.contains("\"invitation\":{\"scopes\":[\"pets:read\""),
        "{text}"
    );

    // Others neither see them nor may ask for them.
    let staff = server.create_key(&STAFF, None).await;
    assert_eq!(events(&staff, "").await.json(), json!([]));
    let subject = format!("subject=keys/{successor}");
    for query in [types, &subject] {
        let rejected = events(&staff, query).await;
        rejected.assert_error(403, "insufficient_scope");
    }
    assert_eq!(
        events(&owner, &subject)
            .await
            .json()
            .as_array()
            .unwrap()
            .len(),
        2
    );
    // Recording a use logs no event.
    eventually("the use is recorded", async || {
        let used = "SELECT count(*) FROM api_keys WHERE last_used_at IS NOT NULL";
        server.database.query(used) != "0"
    })
    .await;
    let logged = events(&owner, types).await.json().as_array().unwrap().len();
    assert_eq!(logged, 6);
}

async fn the_list_shows_details_to_those_who_may_see_them(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let (_, _) = invite(&server, &owner, grant("Ada", &STAFF)).await;
    let list = async |key: &str| {
        let request = send(&server, Method::GET, "/v1/keys", key, Value::Null);
        request.send().await.json()
    };
    let reader = server.create_key(&[Scope::KeysRead], None).await;
    let listed = list(&reader).await;
    assert_eq!(listed[1]["scopes"], json!(names(&Scope::ALL)));
    assert!(listed[1]["createdAt"].is_string());
    let invitation = json!({"scopes": names(&STAFF), "invitedBy": 2});
    assert_eq!(listed[2]["invitation"], invitation);
    assert!(listed[2]["expiresAt"].is_string());
    let staff = server.create_key(&STAFF, None).await;
    assert_eq!(list(&staff).await[2], json!({"id": 3, "name": "Ada"}));
    eventually("the last use is listed", async || {
        list(&reader).await[1]["lastUsedAt"].is_string()
    })
    .await;
}

async fn the_number_of_keys_is_limited(backend: Backend) {
    let server = Server::start(backend).await;
    let owner = owner(&server).await;
    let hash = match backend {
        Backend::Postgres => "decode(lpad(n::text, 64, '0'), 'hex')",
        Backend::Sqlite | Backend::Tls => "unhex(printf('%064d', n))",
    };
    server.database.execute(&format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 997)
         INSERT INTO api_keys (name, scopes, created_at, hash)
         SELECT 'test', 'pets:read', 0, {hash} FROM numbers"
    ));
    let body = grant("Ada", &[Scope::PetsRead]);
    // The service learns of the others within a second. Until then, it creates more.
    let created = Mutex::new(Vec::new());
    eventually("the limit is reached", async || {
        let response = post(&server, "/v1/keys", &owner, body.clone()).await;
        let is_rejected = response.status == 409;
        if !is_rejected {
            created.lock().unwrap().push(response.json()["id"].clone());
        }
        is_rejected
    })
    .await;
    for path in ["/v1/keys", "/v1/keys/invitations"] {
        let rejected = post(&server, path, &owner, body.clone()).await;
        rejected.assert_error(409, "too_many_keys");
    }
    for id in created.into_inner().unwrap() {
        assert_eq!(revoke(&server, &id, &owner).await.status, 204);
    }
    // On a busy machine, the service may notice that later than it responds.
    eventually("there is room for another key", async || {
        post(&server, "/v1/keys", &owner, body.clone()).await.status == 201
    })
    .await;
}

async fn preconditions_and_media_types_are_checked(backend: Backend) {
    let server = Server::start(backend).await;
    let body = grant("Ada", &[Scope::PetsRead]);
    let request = |method: Method, path: &str| {
        let request = server.request(method, path);
        request.body(body.to_string()).skip_body_check()
    };
    for path in ["/v1/keys", "/v1/keys/invitations", "/v1/keys/1/rotate"] {
        let text = request(Method::POST, path).header("content-type", "text/plain");
        let rejected = text.send().await;
        rejected.assert_error(415, "unsupported_media_type");
    }
    for (method, path) in [
        (Method::POST, "/v1/keys"),
        (Method::POST, "/v1/keys/invitations"),
        (Method::POST, "/v1/keys/claim"),
        (Method::POST, "/v1/keys/1/rotate"),
        (Method::DELETE, "/v1/keys/1"),
    ] {
        let conditional = request(method, path).header("if-match", "\"x\"");
        let rejected = conditional.send().await;
        rejected.assert_error(412, "precondition_failed");
    }
    assert_eq!(server.database.query("SELECT count(*) FROM api_keys"), "1");
}
