//! `petstore events`: the log of a service, printed and followed.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use http::Method;
use serde_json::{Value, json};
use support::{CommandResult, Identity, eventually, signal, wait_for};

use crate::{
    client::{Client, LoadGenerator},
    harness::{Home, PETSTORE, Service},
};

/// `petstore events` on a service.
fn events(home: &Home, service: &Service, key: &str) -> Command {
    let mut command = home.command(PETSTORE);
    command
        .arg("events")
        .env("PETSTORE_URL", service.url(""))
        .env("PETSTORE_KEY", key);
    command
}

/// The whole log.
fn log(home: &Home, service: &Service, key: &str) -> Vec<String> {
    let printed = CommandResult::of(&mut events(home, service, key)).success();
    printed.stdout.lines().map(String::from).collect()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// A running `petstore events --follow`. Killed on drop.
struct Follower {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    errors: Arc<Mutex<Vec<String>>>,
}

impl Follower {
    fn start(command: &mut Command) -> Self {
        let mut child = command.arg("--follow").spawn().unwrap();
        Self {
            lines: collect(child.stdout.take().unwrap()),
            errors: collect(child.stderr.take().unwrap()),
            child,
        }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap().clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Collects lines in the background.
fn collect(from: impl std::io::Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let collected = lines.clone();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            collected.lock().unwrap().push(line);
        }
    });
    lines
}

/// Starts a service at the address of one that was killed.
fn restart(home: &Home, address: &str) -> Service {
    wait_for("the address to be free", || {
        let mut serve = home.command(PETSTORE);
        serve.args(["serve", "--listen", address, "--database", &home.url()]);
        Service::try_start(&mut serve).ok()
    })
}

/// The service is killed while the log grows: the follower prints it completely, in
/// order, and once.
#[tokio::test]
async fn a_follower_goes_on_after_crashes() {
    let home = Home::new();
    let mut service = home.serve();
    let address = service.address.to_string();
    let key = home.new_key();
    Client::new(&service, &key).create("before").await.unwrap();
    let first = parse(&log(&home, &service, &key)[0]);
    let mut command = events(&home, &service, &key);
    let mut follower = Follower::start(command.args(["--after", first["id"].as_str().unwrap()]));
    for round in 1..=3 {
        let client = Client::new(&service, &key);
        let load = LoadGenerator::start(&client, 4, &format!("round {round} "));
        let printed = follower.lines().len();
        eventually("events", async || follower.lines().len() > printed + 20).await;
        service.kill();
        load.finish().await;
        let lost = format!("no response from {address}");
        eventually("the loss", async || {
            follower.errors().len() == 2 * round - 1
        })
        .await;
        let error = &follower.errors()[2 * round - 2];
        assert!(
            error.contains(&lost) && error.ends_with("; retrying"),
            "{error}"
        );
        service = restart(&home, &address);
        // At once, although nothing happens.
        eventually("the return", async || follower.errors().len() == 2 * round).await;
        assert_eq!(
            follower.errors()[2 * round - 1],
            "petstore: connected again"
        );
    }
    Client::new(&service, &key).create("last").await.unwrap();
    let expected = log(&home, &service, &key);
    let count = expected.len() - 1;
    eventually("all events", async || follower.lines().len() >= count).await;
    assert_eq!(follower.lines(), expected[1..]);
    signal(follower.child.id(), "TERM");
    wait_for("the follower to end", || follower.child.try_wait().unwrap());
    assert_eq!(follower.lines(), expected[1..]);
    assert_eq!(follower.errors().len(), 6, "{:?}", follower.errors());
}

/// Without a position, a follower prints only what happens from now on; a service that
/// shuts down is not an error of the log.
#[tokio::test]
async fn a_follower_starts_now() {
    let home = Home::new();
    let service = home.serve();
    let address = service.address.to_string();
    let key = home.new_key();
    let client = Client::new(&service, &key);
    client.create("before").await.unwrap();
    let follower = Follower::start(&mut events(&home, &service, &key));
    eventually("an event", async || {
        client.create("after").await.unwrap();
        !follower.lines().is_empty()
    })
    .await;
    service.stop();
    let service = restart(&home, &address);
    let client = Client::new(&service, &key);
    client.create("last").await.unwrap();
    let is_last = |line: &String| parse(line)["data"]["name"] == "last";
    eventually("the last", async || follower.lines().iter().any(is_last)).await;
    let printed = follower.lines();
    let expected = log(&home, &service, &key);
    assert!(printed.len() < expected.len());
    assert!(expected.ends_with(&printed), "{printed:?}");
}

#[tokio::test]
async fn events_are_filtered() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    let client = Client::new(&service, &key);
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    let order = json!({"petId": 2});
    for (path, body) in [("pets", &pet), ("pets", &pet), ("store/orders", &order)] {
        let path = format!("/v1/{path}");
        let response = client.send_json(Method::POST, &path, body, None).await;
        assert_eq!(response.unwrap().status, 201);
    }
    for (filter, expected) in [
        (
            &[][..],
            &["pet.created", "pet.created", "order.placed", "pet.updated"][..],
        ),
        (
            &["--types", "order.placed,pet.updated"],
            &["order.placed", "pet.updated"],
        ),
        (&["--subject", "pets/2"], &["pet.created", "pet.updated"]),
        (
            &["--subject", "pets/2", "--types", "pet.created"],
            &["pet.created"],
        ),
        (&["--after", "now"], &[]),
    ] {
        let printed = CommandResult::of(events(&home, &service, &key).args(filter)).success();
        let lines: Vec<_> = printed.stdout.lines().map(parse).collect();
        let types: Vec<_> = lines.iter().map(|event| &event["type"]).collect();
        assert_eq!(types, expected, "{filter:?}");
    }
}

/// The command does not retry a request that cannot succeed: it fails with the reason.
#[tokio::test]
async fn rejections_end_the_command() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    let no_key = CommandResult::of(events(&home, &service, &key).env_remove("PETSTORE_KEY"));
    no_key.assert_fails(1, "set PETSTORE_KEY to an API key");
    let pets_only = home.keys(&["create", "kiosk", "--scope", "pets:read"]);
    let pets_only = pets_only.success().secret();
    let unknown = format!("psk_{}", "0".repeat(38));
    for (key, arguments, reason) in [
        (&unknown, &[][..], "API key"),
        (&pets_only, &["--types", "order.placed"], "orders:read"),
        (&key, &["--types", "pet.sold"], "types: must be one or more"),
        (&key, &["--subject", "17"], "subject: must be pets/ID"),
        (&key, &["--after", "yesterday"], "after: must be the id"),
    ] {
        let mut rejected = events(&home, &service, key);
        CommandResult::of(rejected.args(arguments)).assert_fails(1, reason);
        CommandResult::of(rejected.arg("--follow")).assert_fails(1, reason);
    }
    let mut elsewhere = events(&home, &service, &key);
    elsewhere.args(["--follow", "--url", "http://127.0.0.1:1"]);
    CommandResult::of(&mut elsewhere).assert_fails(1, "no response from 127.0.0.1:1");
}

#[tokio::test]
async fn an_expired_position_ends_the_command() {
    let home = Home::new();
    let service = Service::start(home.serve_command().args(["--max-events", "1"]));
    let key = home.new_key();
    let client = Client::new(&service, &key);
    client.create("first").await.unwrap();
    let first = parse(&log(&home, &service, &key)[0]);
    let id = first["id"].as_str().unwrap();
    client.create("second").await.unwrap();
    let path = format!("/v1/events?after={id}");
    eventually("the purge", async || client.get(&path).await.status == 410).await;
    let expired =
        CommandResult::of(events(&home, &service, &key).args(["--follow", "--after", id]));
    expired.assert_fails(1, "no longer kept");
    expired.assert_fails(1, "leave --after and --follow out");
    assert_eq!(log(&home, &service, &key).len(), 1);
}

/// A rate limit delays the log.
#[tokio::test]
async fn a_rate_limit_is_waited_out() {
    let home = Home::new();
    let service = Service::start(home.serve_command().args(["--rate-limit", "1/2s"]));
    Client::new(&service, &home.new_key())
        .create("a")
        .await
        .unwrap();
    let printed = CommandResult::of(&mut events(&home, &service, &home.new_key())).success();
    assert_eq!(printed.stdout.lines().count(), 1, "{printed:?}");
    let [limited, again] = printed.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("{printed:?}")
    };
    assert!(limited.ends_with("; retrying"), "{limited}");
    assert_eq!(again, "petstore: connected again");
}

/// `head` closes the pipe; the command ends quietly, also if nothing happens any more.
#[tokio::test]
async fn a_closed_pipe_ends_the_command() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    Client::new(&service, &key).create("a").await.unwrap();
    let start = "evt_AQAAAAAAAAAAAAAAAAAAAABOSTr-";
    let mut command = events(&home, &service, &key);
    let mut child = command
        .args(["--follow", "--after", start])
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(parse(&line)["subject"], "pets/1");
    drop(stdout);
    wait_for("the command to end", || child.try_wait().unwrap());
    let ended = CommandResult::from(child.wait_with_output().unwrap()).success();
    assert_eq!(ended.stderr, "");

    let mut child = events(&home, &service, &key).spawn().unwrap();
    drop(child.stdout.take());
    let ended = CommandResult::from(child.wait_with_output().unwrap()).success();
    assert_eq!(ended.stderr, "");
}

/// The certificate is verified, by the authorities in `SSL_CERT_FILE` if it is set.
#[tokio::test]
async fn events_are_read_over_tls() {
    let home = Home::new();
    let identity = Identity::new(&home.dir());
    let files = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let service = Service::start(home.serve_command().args(files));
    let key = home.new_key();
    let mut command = events(&home, &service, &key);
    let url = format!("https://localhost:{}/v1/", service.address.port());
    command.args(["--url", &url]);
    let trusted = CommandResult::of(command.env("SSL_CERT_FILE", identity.certificate));
    assert_eq!(trusted.success().stdout, "");
    let untrusted = CommandResult::of(command.env_remove("SSL_CERT_FILE"));
    untrusted.assert_fails(1, "invalid peer certificate");
}
