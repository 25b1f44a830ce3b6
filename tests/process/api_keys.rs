//! `petstore keys` on its own and while the service is running.

use std::{fs, os::unix::net::UnixStream, sync::Arc, time::Duration};

use http::Method;
use http_body_util::BodyExt;
use jiff::Timestamp;
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Cluster, CommandResult, TIMEOUT, eventually, wait_for};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use crate::{
    client::{Client, LoadGenerator},
    harness::{Home, PETSTORE, Service},
    torture::disk::{self, Faults, Trace},
};

/// Only the secret goes to standard output; everything else is for people.
#[test]
fn only_the_secret_goes_to_stdout() {
    let home = Home::new();
    home.create_store();
    let created = home.keys(&["create", "till"]).success();
    created.secret();
    assert!(created.stderr.contains("key 1 (till)"), "{created:?}");
    assert!(
        created.stderr.contains("won't be shown again"),
        "{created:?}"
    );
}

/// The link that opens the console signed in, at the URL of the service.
#[test]
fn a_link_to_the_console_goes_to_stderr() {
    let home = Home::new();
    home.create_store();
    let assert_link = |options: &[&str], url: &str| {
        let created = home.keys(&[&["create", "till"], options].concat());
        let created = created.success();
        let link = format!(": {url}/console#key={}\n", created.secret());
        assert!(created.stderr.contains(&link), "{created:?}");
    };
    let url = ["--url", "https://pets.example/shop/v1"];
    assert_link(&url, "https://pets.example/shop");
    // No service runs that knows it.
    assert_link(&[], "");
    let socket = || UnixStream::connect(home.path("petstore.db-socket")).ok();
    let service = home.serve();
    wait_for("the service to listen for commands", socket);
    assert_link(&[], &service.url(""));
    assert_link(&url, "https://pets.example/shop");
    drop(service);
    let public = ["--public-url", "https://shop.example/pets/v1"];
    let _service = Service::start(home.serve_command().args(public));
    wait_for("the service to listen for commands", socket);
    assert_link(&[], "https://shop.example/pets");
}

#[test]
fn a_role_stands_for_scopes() {
    let home = Home::new();
    home.create_store();
    let staff = "pets:read pets:write orders:read orders:write";
    let webhooks = "webhooks:read webhooks:write";
    let all = format!("{staff} {webhooks} store:write");
    let owner = format!("{staff} {webhooks} keys:read keys:write store:write");
    for (name, options, scopes) in [
        ("a", &["--role", "owner"][..], &*owner),
        ("b", &["--role", "staff"], staff),
        ("c", &["--role", "read-only"], "pets:read orders:read"),
        ("d", &["--scope", "keys:read"], "keys:read"),
        ("e", &[], &all),
    ] {
        let created = home.keys(&[&["create", name], options].concat()).success();
        let line = format!(": scopes {scopes};");
        assert!(created.stderr.contains(&line), "{created:?}");
    }
    for (options, reason) in [
        (
            &["--role", "staff", "--scope", "pets:read"][..],
            "cannot be used with",
        ),
        (&["--role", "boss"], "read-only"),
        (&["--scope", "keys:claim"], "must be one of"),
    ] {
        let failed = home.keys(&[&["create", "f"], options].concat());
        failed.assert_fails(2, reason);
    }
}

/// A key is not created unless its secret was printed.
#[test]
fn a_secret_that_cannot_be_printed_is_not_valid() {
    let home = Home::new();
    home.new_key();
    for arguments in ["create till", "rotate 1"] {
        for (redirection, reason) in [
            (">/dev/full", "cannot print the secret: the disk is full"),
            (">&-", "the secret would be lost"),
        ] {
            let mut shell = home.command("sh");
            let line = format!("\"$0\" keys {arguments} {redirection}");
            let failed = CommandResult::of(shell.args(["-c", &line, PETSTORE]));
            failed.assert_fails(1, reason);
            failed.assert_fails(1, "no key was created");
        }
    }
    let list = home.keys(&["list"]).success().stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
    assert_eq!(columns(list.lines().nth(1).unwrap())[5], "never");
}

/// The list includes revoked and expired keys.
#[test]
fn keys_are_listed() {
    let home = Home::new();
    home.create_store();
    home.keys(&["create", "till"]).success();
    let narrow = [
        "create",
        "shop window",
        "--scope",
        "pets:read",
        "--expires",
        "90d",
    ];
    home.keys(&narrow).success();
    home.keys(&["create", "old till"]).success();
    home.keys(&["revoke", "3"]).success();
    let list = home.keys(&["list"]).success();
    let rows: Vec<_> = list.stdout.lines().map(columns).collect();
    let header = [
        "ID",
        "NAME",
        "STATE",
        "CREATED",
        "LAST USED",
        "EXPIRES",
        "SCOPES",
    ];
    assert_eq!(rows[0], header);
    assert_eq!(rows[1][..3], ["1", "till", "valid"]);
    assert_eq!(rows[1][4..], ["never", "never", "all except keys"]);
    assert_eq!(rows[2][..3], ["2", "shop window", "valid"]);
    assert_eq!(rows[2][6], "pets:read");
    assert_eq!(rows[3][..3], ["3", "old till", "revoked"]);
    assert_eq!(rows.len(), 4);
    let named = home.database().display().to_string();
    assert!(list.stderr.contains(&named), "{list:?}");

    let json = home.keys(&["list", "--json"]).success().stdout;
    let keys = json.lines().map(|line| serde_json::from_str(line).unwrap());
    let keys: Vec<Value> = keys.collect();
    assert_eq!(keys.len(), 3, "{json}");
    assert_eq!(
        (&keys[1]["id"], &keys[1]["name"]),
        (&2.into(), &"shop window".into())
    );
    assert_eq!(keys[1]["scopes"], serde_json::json!(["pets:read"]));
    assert_eq!(
        (&keys[1]["state"], &keys[2]["state"]),
        (&"valid".into(), &"revoked".into())
    );
    assert!(
        keys[1]["expiresAt"].is_string() && keys[2]["revokedAt"].is_string(),
        "{json}"
    );
    assert!(keys[0].get("expiresAt").is_none(), "{json}");
}

/// A name stands for the only valid key that has it.
#[test]
fn keys_are_revoked_by_name() {
    let home = Home::new();
    home.create_store();
    for name in ["kiosk", "till", "till", "till\u{202e} 42"] {
        home.keys(&["create", name]).success();
    }
    let again = home.keys(&["create", "kiosk"]).success();
    assert!(
        again.stderr.contains("Also valid under this name: key 1."),
        "{again:?}"
    );
    home.keys(&["rm", "5"]).success();
    let revoked = home.keys(&["delete", "kiosk"]).success();
    assert!(
        revoked.stderr.starts_with("Revoked key 1 (kiosk)"),
        "{revoked:?}"
    );
    let several = home.keys(&["revoke", "till"]);
    let location = home.database().display().to_string();
    several.assert_fails(1, &format!("2 keys in {location} are named till"));
    for part in [
        "\n  2 (created 2",
        "\n  3 (created 2",
        "Z, never expires, never",
    ] {
        assert!(several.stderr.contains(part), "{several:?}");
    }
    home.keys(&["revoke", "kiosks"])
        .assert_fails(1, &format!("there is no key kiosks in {location}; see"));
    let last = home.keys(&["revoke", "till\u{202e} 42"]).success();
    assert!(
        last.stderr.starts_with(r"Revoked key 4 (till\u{202e} 42)"),
        "{last:?}"
    );
    let list = home.keys(&["list"]).success().stdout;
    assert!(list.contains(r" till\u{202e} 42 "), "{list}");
}

/// The successor has the same name, scopes and lifetime; the old key expires.
async fn assert_rotates(home: Home) {
    let service = home.serve();
    let create = [
        "create",
        "kiosk",
        "--scope",
        "pets:read",
        "--expires",
        "90d",
    ];
    let old = home.keys(&create).success().secret();
    let rotated = home.keys(&["rotate", "kiosk", "--grace", "1h"]).success();
    let old = Client::new(&service, &old);
    let new = Client::new(&service, &rotated.secret());
    let stream = new.stream(None).await.unwrap();
    assert_eq!(stream.status(), 200);
    assert!(
        rotated
            .stderr
            .contains("It replaces key 1 (kiosk), which stays valid until 2")
    );
    for client in [&old, &new] {
        assert_eq!(client.get("/v1/pets").await.status, 200);
        client
            .create("Rex")
            .await
            .unwrap()
            .assert_error(403, "insufficient_scope");
    }
    let json = home.keys(&["list", "--json"]).success().stdout;
    let keys = json.lines().map(|line| serde_json::from_str(line).unwrap());
    let keys: Vec<Value> = keys.collect();
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let lifetime = |key: &Value| time(&key["expiresAt"]) - time(&key["createdAt"]);
    assert_eq!(
        lifetime(&keys[1]).total(jiff::Unit::Hour).unwrap().round(),
        2160.0
    );
    assert!(
        time(&keys[0]["expiresAt"]) < time(&keys[1]["expiresAt"]),
        "{json}"
    );

    // A successor of the old key would last as long as the grace period.
    home.keys(&["rotate", "1"])
        .assert_fails(1, "petstore keys rotate 2");

    // Without a grace period, streams end, too.
    let rotated = home.keys(&["rotate", "2", "--grace", "0s"]).success();
    assert!(
        rotated
            .stderr
            .contains("key 2 (kiosk), which is no longer valid"),
        "{rotated:?}"
    );
    let rejected = async || new.get("/v1/pets").await.status == 401;
    eventually("the old key to expire", rejected).await;
    let end_of_stream = stream.into_body().collect();
    timeout(TIMEOUT, end_of_stream).await.unwrap().unwrap();
    // Neither a key that has expired nor one that is about to has a lifetime for a successor. On
    // PostgreSQL, the id of the newest one need not follow: a transaction that finds the old key
    // locked, while its use is recorded, starts again.
    let json = home.keys(&["list", "--json"]).success().stdout;
    let newest: Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let newest = newest["id"].to_string();
    home.keys(&["revoke", &newest]).success();
    let expired = home.keys(&["rotate", "2", "--grace", "30d"]);
    expired.assert_fails(
        1,
        " has expired; create a new key instead: petstore keys create",
    );
    assert_eq!(expired.stdout, "");
    home.keys(&["rotate", "1"]).assert_fails(
        1,
        "key 2 has replaced key 1 (kiosk), and is no longer valid; create a new",
    );
    let json = home.keys(&["list", "--json"]).success().stdout;
    assert!(
        json.lines()
            .any(|key| key.contains(r#""id":2"#) && key.contains(r#""state":"expired""#)),
        "{json}"
    );
    service.event("api key rotated");
    home.keys(&["revoke", "1"]).success();
    home.keys(&["rotate", "1"])
        .assert_fails(1, " was revoked at 2");
    service.stop();
}

#[tokio::test]
async fn keys_are_rotated() {
    assert_rotates(Home::new()).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn keys_are_rotated_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let missing = home.keys(&["create", "till"]);
    missing.assert_fails(1, "has no tables of petstore yet");
    for command in ["check", "export"] {
        let failed = home.petstore(&[command, "--database", &home.url()]);
        failed.assert_fails(1, "has no tables of petstore yet");
    }
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(cluster.psql(&database, tables), "0");
    assert_rotates(home).await;
}

#[test]
fn revoking_a_key_is_idempotent() {
    let home = Home::new();
    home.new_key();
    let first = home.keys(&["revoke", "1"]).success();
    assert!(first.stderr.starts_with("Revoked key 1"), "{first:?}");
    let again = home.keys(&["revoke", "1"]).success();
    assert!(again.stderr.contains("was already revoked"), "{again:?}");
    assert_eq!((first.stdout, again.stdout), (String::new(), String::new()));
}

#[test]
fn revoking_an_unknown_key_fails() {
    let home = Home::new();
    home.new_key();
    let unknown = home.keys(&["revoke", "2"]);
    assert_eq!((unknown.code, &*unknown.stdout), (Some(1), ""));
    assert!(unknown.stderr.contains("there is no key 2"), "{unknown:?}");
    // Otherwise this could be either.
    let number = home.keys(&["create", "2"]);
    number.assert_fails(2, "must not be a number");
}

/// In the wrong directory, a new database would make a key that the service refuses.
#[test]
fn only_serve_and_imports_create_a_database() {
    let home = Home::new();
    for arguments in [
        "keys create till",
        "keys list",
        "keys rotate till",
        "keys revoke 1",
        "backup copy.db",
        "check",
        "export",
    ] {
        let ended = home.petstore(&arguments.split(' ').collect::<Vec<_>>());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        let missing = format!("there is no database at {}", home.database().display());
        for part in [&*missing, "--database", "`petstore serve`"] {
            assert!(ended.stderr.contains(part), "{ended:?}");
        }
        assert_eq!(home.files(), [""; 0]);
    }
}

/// Neither the files nor the log contain a secret.
#[tokio::test]
async fn secrets_are_never_stored_or_logged() {
    let home = Home::new();
    home.create_store();
    let first = home.keys(&["create", "owner", "--role", "owner"]);
    let first = first.success().secret();
    let service = home.serve();
    let second = home.new_key();
    for key in [&first, &second] {
        let client = Client::new(&service, key);
        client.create("Rex").await.unwrap();
    }
    let post = async |key: &str, path: &str, body: Value| {
        let client = Client::new(&service, key);
        let created = client.send_json(Method::POST, path, &body, Some("once"));
        let created = created.await.unwrap();
        assert_eq!(created.status, 201, "{created:?}");
        String::from(created.json()["secret"].as_str().unwrap())
    };
    let grant = json!({"name": "Ada", "scopes": ["pets:read"]});
    let third = post(&first, "/v1/keys/invitations", grant).await;
    let fourth = post(&third, "/v1/keys/claim", Value::Null).await;
    let output = service.output();
    let while_it_runs = home.contents();
    assert!(while_it_runs.contains_key("petstore.db-wal"));
    service.stop();
    for key in [first, second, third, fourth] {
        let random = &key["psk_".len()..][..32];
        assert!(!output.contains(random));
        for (name, bytes) in while_it_runs.iter().chain(&home.contents()) {
            let found = bytes
                .windows(random.len())
                .any(|part| part == random.as_bytes());
            assert!(!found, "the secret is in {name}");
        }
    }
}

/// The service started without keys, so none of them is cached.
#[tokio::test]
async fn a_new_key_works_immediately() {
    let home = Home::new();
    let service = home.serve();
    for _ in 0..5 {
        let client = Client::new(&service, &home.new_key());
        assert_eq!(client.get("/v1/pets").await.status, 200);
    }
}

#[tokio::test]
async fn a_revoked_key_is_rejected() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    assert_eq!(client.get("/v1/pets").await.status, 200);
    home.keys(&["revoke", "1"]).success();
    client.wait_until_rejected().await;
}

/// Also while the service can't write because another process holds the write lock.
#[tokio::test]
async fn a_revoked_key_is_rejected_while_the_file_is_locked() {
    let home = Home::new();
    let metrics = ["--metrics-listen", "127.0.0.1:0"];
    let service = Service::start(home.serve_command().args(metrics));
    let revoked = Client::new(&service, &home.new_key());
    assert_eq!(revoked.get("/v1/pets").await.status, 200);
    let other = Client::new(&service, &home.new_key());
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    tokio::spawn(async move { other.create("Rex").await });
    eventually("the service waits to write", async || {
        let in_flight = service
            .metrics()
            .await
            .metric("petstore_requests_in_flight");
        in_flight == Some(1.0)
    })
    .await;
    let revoke = "UPDATE api_keys SET revoked_at = created_at WHERE id = 1";
    db.execute_batch(&format!("{revoke}; COMMIT; BEGIN IMMEDIATE"))
        .unwrap();
    revoked.wait_until_rejected().await;
}

/// A service that writes all the time to a slow disk doesn't starve other processes
/// of the write lock.
#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn keys_are_created_and_revoked_while_the_service_is_busy() {
    let home = Home::new();
    let key = home.new_key();
    let slow = "inject=fsync,fdatasync:delay_enter=30000:when=12+";
    let options = ["-e", "trace=fsync,fdatasync", "-e", slow];
    let service = Service::start(&mut home.serve_traced(&options));
    let load = LoadGenerator::start(&Client::new(&service, &key), 16, "pet");
    load.until(|results| results.acknowledged.len() >= 200)
        .await;
    let home = Arc::new(home);
    for id in 2..10 {
        let home = home.clone();
        let create_and_revoke = spawn_blocking(move || {
            home.new_key();
            home.keys(&["revoke", &id.to_string()]).success();
        });
        create_and_revoke.await.unwrap();
    }
    load.finish().await;
}

#[tokio::test]
async fn a_key_is_limited_to_its_scopes() {
    let home = Home::new();
    let service = home.serve();
    let created = home
        .keys(&["create", "window", "--scope", "pets:read"])
        .success();
    let client = Client::new(&service, &created.secret());
    assert_eq!(client.get("/v1/pets").await.status, 200);
    let rejected = client.create("Rex").await.unwrap();
    rejected.assert_error(403, "insufficient_scope");
    let rejected = client.get("/v1/store/orders").await;
    rejected.assert_error(403, "insufficient_scope");

    let scopes = ["--scope", "pets:write", "--scope", "orders:read"];
    let created = home
        .keys(&[&["create", "till"][..], &scopes].concat())
        .success();
    let client = Client::new(&service, &created.secret());
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert_eq!(client.get("/v1/store/orders").await.status, 200);
    client
        .get("/v1/pets")
        .await
        .assert_error(403, "insufficient_scope");
}

#[tokio::test]
async fn an_expired_key_is_rejected() {
    let home = Home::new();
    let service = home.serve();
    let created = home
        .keys(&["create", "visitor", "--expires", "1s"])
        .success();
    sleep(Duration::from_secs(1)).await;
    let visitor = Client::new(&service, &created.secret());
    visitor
        .get("/v1/pets")
        .await
        .assert_error(401, "invalid_api_key");
    let list = home.keys(&["list"]).success();
    assert_eq!(columns(list.stdout.lines().nth(1).unwrap())[2], "expired");

    let created = home.keys(&["create", "guest", "--expires", "1h"]).success();
    let guest = Client::new(&service, &created.secret());
    assert_eq!(guest.get("/v1/pets").await.status, 200);
}

/// A use shows up in the list while the service is running.
#[tokio::test]
async fn last_use_is_listed() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    home.keys(&["create", "unused"]).success();
    assert_eq!(client.get("/v1/pets").await.status, 200);
    eventually("the use is listed", async || {
        let list = home.keys(&["list"]).success();
        let rows: Vec<_> = list.stdout.lines().map(columns).collect();
        assert_eq!(rows[2][4], "never");
        rows[1][4] != "never"
    })
    .await;
}

/// Commands write the valid part of the WAL again, as a failed commit may be in it; not the
/// frames of before the last checkpoint. Those that only read write nothing.
#[test]
fn commands_leave_stale_frames_alone() {
    let home = Home::new();
    home.new_key();
    let other = Connection::open(home.database()).unwrap();
    let write_a_megabyte_and_start_again = "CREATE TABLE large AS SELECT zeroblob(1 << 20);
        DROP TABLE large;
        PRAGMA wal_checkpoint;
        UPDATE counts SET pets = pets + 1;
        UPDATE counts SET pets = pets - 1";
    other
        .execute_batch(write_a_megabyte_and_start_again)
        .unwrap();
    let size = fs::metadata(home.path("petstore.db-wal")).unwrap().len();
    assert!(size > 1 << 20, "{size}");
    let written_by = |arguments: &[&str]| {
        let mut command = home.command(PETSTORE);
        command.args(["keys"]).args(arguments);
        command.args(["--database", &home.url()]);
        let _ = fs::remove_file(disk::trace_path(&home));
        Faults::default().apply(&home, &mut command);
        CommandResult::of(&mut command).success();
        Trace::read(&home, Vec::new()).wal_bytes()
    };
    assert_eq!(written_by(&["list"]), 0);
    let written = written_by(&["create", "till"]);
    assert!((1..100_000).contains(&written), "{written}");
}

/// The cells of a row, separated by two or more spaces.
fn columns(row: &str) -> Vec<&str> {
    let cells = row.split("  ").map(str::trim);
    cells.filter(|cell| !cell.is_empty()).collect()
}
