//! Logs: one JSON event per line, without secrets and safe from log injection.

use std::io::Read;

use http::Method;
use serde_json::{Value, json};
use support::{RawConnection, eventually};

use crate::{
    client::Client,
    harness::{Home, Service},
    strace,
    terminal::Terminal,
};

/// Sends a raw request and reads until the connection closes.
async fn send(service: &Service, request: &str) -> String {
    let mut connection = RawConnection::connect(service.address).await;
    connection.send(request).await;
    String::from_utf8(connection.read_to_end().await).unwrap()
}

#[tokio::test]
async fn the_access_log_has_every_request() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(home.serve_command().arg("--access-log"));
    let created = Client::new(&service, &key).create("Rex").await.unwrap();
    let request = service.event("request");
    assert_eq!(
        request["request_id"],
        created.headers["x-request-id"].to_str().unwrap()
    );
    assert_eq!(request["client.address"], "127.0.0.1");
    assert_eq!(
        (&request["http.request.method"], &request["url.path"]),
        (&"POST".into(), &"/v1/pets".into())
    );
    assert_eq!(
        (
            &request["http.response.status_code"],
            &request["api_key_id"]
        ),
        (&201.into(), &1.into())
    );
    assert_eq!(request["operation"], "createPet");
    assert!(request["duration_ms"].is_number(), "{request}");
    service.stop();
}

/// Without `--access-log`, fast requests that did not fail are not logged.
#[tokio::test]
async fn requests_are_not_logged_by_default() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    client.create("Rex").await.unwrap();
    assert_eq!(client.get("/v1/pets/abc").await.status, 404);
    home.keys(&["create", "later"]).success();
    service.event("api key created");
    let all = service.events();
    assert!(
        all.iter().all(|event| event["request_id"].is_null()),
        "{all:?}"
    );
}

/// Secrets in paths, methods and headers are redacted, and client input cannot
/// forge log lines.
#[tokio::test]
async fn secrets_are_redacted_and_log_injection_fails() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start(home.serve_command().arg("--access-log"));
    let forged = r#"{\"level\":\"ERROR\",\"message\":\"forged\"}"#;
    let client = Client::new(&service, &key);
    let created = client.create(&format!("Rex\n{forged}")).await.unwrap();
    assert_eq!(created.status, 400);
    let rest = &key["psk_".len()..];
    let capitals = key.to_uppercase();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    for request in [
        format!("GET /v1/pets/psk%5F{rest} HTTP/1.1\r\nHost: a\r\n"),
        format!(
            "GET /v1/pets/psk_%{:x}{} HTTP/1.1\r\nHost: a\r\n",
            rest.as_bytes()[0],
            &rest[1..]
        ),
        format!("{key} /v1/pets HTTP/1.1\r\nHost: a\r\n"),
        format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: {key}\r\n"),
        format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: a.{key}\r\n"),
        format!(
            "GET /v1/pets/{key}?key={key} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
        ),
        format!("GET /v1/pets HTTP/1.1\r\nHost: {key}\r\nAuthorization: Basic {key}\r\n"),
        format!("GET /{key}%0a{{%22message%22:%22forged%22}} HTTP/1.1\r\nHost: a\r\n"),
        format!(
            "GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: {key} {forged}\r\nUser-Agent: {key}\r\n"
        ),
        "GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: one\r\n {\"message\":\"forged\"}\r\n"
            .into(),
        format!("GET /v1/pets\r\n{forged} HTTP/1.1\r\nHost: a\r\n"),
        format!("{key} {key} {key}\r\n"),
        format!("GET /v1/pets/{capitals} HTTP/1.1\r\nHost: a\r\n"),
        format!("{capitals} /v1/pets HTTP/1.1\r\nHost: a\r\n"),
        format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: {capitals}\r\n"),
        format!("GET /v1/webhooks/{secret} HTTP/1.1\r\nHost: a\r\n"),
        format!(
            "GET /v1/webhooks/whsec%255f{} HTTP/1.1\r\nHost: a\r\n",
            &secret[6..]
        ),
        format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Request-Id: {secret}\r\n"),
    ] {
        let response = send(&service, &format!("{request}Connection: close\r\n\r\n")).await;
        assert!(response.starts_with("HTTP/1.1 4"), "{response}");
    }
    assert!(!home.keys(&["create", "a\nforged"]).stderr.is_empty());
    home.keys(&["create", r#"a "quoted" name"#]).success();
    let audit = service.event("api key created");
    assert_eq!(audit["name"], r#"a "quoted" name"#);
    home.keys(&["create", &format!("my {key}")]).success();
    eventually("the name of the key is cut", async || {
        service.output().contains("\"my psk_…\"")
    })
    .await;
    service.signal("TERM");
    service.event("shutting down");
    // Every line is an event with a timestamp and a level.
    for event in service.events() {
        let [time, level] = ["timestamp", "level"].map(|name| event[name].as_str());
        assert!(time.is_some() && level.is_some(), "{event}");
        assert_ne!(event["message"], "forged");
    }
    let output = service.output();
    // Not even a part of a secret is logged.
    let capitals = rest.to_uppercase();
    for part in [&rest[..8], &rest[24..32], &capitals[..8], &secret[8..16]] {
        assert!(!output.contains(part), "{output}");
    }
    assert!(output.contains("/v1/pets/psk_…"), "{output}");
}

#[tokio::test]
async fn changes_of_the_settings_are_audited_without_their_values() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let patch = async |body: Value| {
        let path = "/v1/store/settings";
        let response = client.send_json(Method::PATCH, path, &body, None).await;
        assert_eq!(response.unwrap().status, 200);
    };
    patch(json!({"name": "Secret Paws", "currency": "EUR"})).await;
    let event = service.event("settings changed");
    assert_eq!(
        (&event["audit"], &event["api_key_id"], &event["members"]),
        (&true.into(), &1.into(), &"name currency".into())
    );
    // What stays as it is was not changed.
    patch(json!({"name": "Secret Paws"})).await;
    patch(json!({"name": "Secret Paws", "currency": null})).await;
    let is_second = |event: &&Value| event["members"] == "currency";
    eventually("the second event", async || {
        service.events().iter().any(|event| is_second(&event))
    })
    .await;
    let events = service.events();
    let changed = events
        .iter()
        .filter(|event| event["message"] == "settings changed");
    assert_eq!(changed.count(), 2, "{events:?}");
    assert!(!format!("{events:?}").contains("Secret"), "{events:?}");
}

#[tokio::test]
async fn key_changes_are_audited() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    // A key that is created before the keys were first read is no change either.
    let listed = Client::new(&service, &key).get("/v1/pets").await;
    assert_eq!(listed.status, 200);
    home.keys(&["create", "till", "--scope", "pets:read"])
        .success();
    let created = service.event("api key created");
    home.keys(&["revoke", "2"]).success();
    let revoked = service.event("api key revoked");
    for event in [created, revoked] {
        assert_eq!(
            (&event["audit"], &event["api_key_id"]),
            (&true.into(), &2.into())
        );
        assert_eq!(
            (&event["name"], &event["scopes"]),
            (&"till".into(), &"pets:read".into())
        );
    }
    // A key that existed at startup is no change.
    let all = service.events();
    assert!(all.iter().all(|event| event["api_key_id"] != 1), "{all:?}");
}

/// While the log is not read, its buffer fills up with other events, and the rest of them
/// is dropped. The audit log has a buffer of its own.
#[tokio::test]
async fn audit_events_survive_a_flood_of_others() {
    let home = Home::new();
    home.new_key();
    let (service, mut log) = Service::start_unread(home.serve_command().arg("--access-log"));
    let mut connection = RawConnection::connect(service.address).await;
    let requests = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n".repeat(100);
    // More than the buffer and the pipe hold.
    for _ in 0..100 {
        connection.send(&requests).await;
        for _ in 0..100 {
            assert_eq!(connection.response().await.unwrap().status, 200);
        }
    }
    let key = home.keys(&["create", "till"]).success().secret();
    // The service has noticed the key, and logged it.
    let client = Client::new(&service, &key);
    assert_eq!(client.get("/v1/pets").await.status, 200);
    service.signal("TERM");
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    let events = rest
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<_> = events.collect();
    let count = |message: &str| {
        let with_message = |event: &&Value| event["message"] == message;
        events.iter().filter(with_message).count()
    };
    assert!(count("request") < 10_000, "nothing was dropped");
    assert_eq!(count("api key created"), 1);
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn failed_requests_are_logged_with_their_cause() {
    let home = Home::new();
    let key = home.new_key();
    let failing = "inject=fsync,fdatasync:error=EIO:when=12+";
    let options = ["-e", strace::SYSCALLS, "-e", failing];
    let service = Service::start(&mut home.serve_traced(&options));
    let client = Client::new(&service, &key);
    let failed = loop {
        let response = client.create("Rex").await.unwrap();
        if response.status != 201 {
            break response;
        }
    };
    let event = service.event("request failed");
    assert_eq!(
        event["request_id"],
        failed.headers["x-request-id"].to_str().unwrap()
    );
    assert_eq!(
        (&event["level"], &event["http.response.status_code"]),
        (&"ERROR".into(), &503.into())
    );
    // Of SQLite, or of the system if the store was about to be opened again.
    let error = event["error"].as_str().unwrap();
    let causes = ["disk I/O error", "Input/output error"];
    assert!(causes.iter().any(|cause| error.contains(cause)), "{event}");
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn slow_requests_are_logged() {
    let home = Home::new();
    let key = home.new_key();
    let slow = "inject=fsync,fdatasync:delay_enter=1200000:when=8+";
    let options = ["-e", strace::SYSCALLS, "-e", slow];
    let service = Service::start(&mut home.serve_traced(&options));
    let client = Client::new(&service, &key);
    for _ in 0..8 {
        assert_eq!(client.create("Rex").await.unwrap().status, 201);
    }
    let event = service.event("slow request");
    assert_eq!(
        (&event["level"], &event["http.response.status_code"]),
        (&"WARN".into(), &201.into())
    );
    assert!(event["duration_ms"].as_f64().unwrap() >= 1000.0, "{event}");
}

#[tokio::test]
#[ignore = "needs script; make test installs it and runs this"]
async fn terminal_output_is_human_readable() {
    let home = Home::new();
    let key = home.new_key();
    let terminal = Terminal::serve(&home, "--access-log");
    let client = Client::new(&terminal.service, &key);
    assert_eq!(client.get("/v1/pets").await.status, 200);
    let output = terminal.stop();
    let line = output
        .lines()
        .find(|line| line.contains("listPets"))
        .unwrap();
    assert!(line.contains("INFO") && line.contains("request"), "{line}");
    assert!(!output.contains('{'), "{output}");
}

/// A service that fails to start logs the reason as an event.
#[test]
fn startup_errors_are_logged_as_json() {
    let home = Home::new();
    std::fs::write(home.database(), "no database").unwrap();
    let ended = home.petstore(&["serve", "--listen", "127.0.0.1:0"]);
    ended.assert_fails(1, "is not a petstore database");
    let event: Value = serde_json::from_str(ended.stderr.trim()).unwrap();
    assert_eq!(
        (&event["level"], &event["message"]),
        (&"ERROR".into(), &"service failed".into())
    );
}
