//! Whether the service lives and is ready, and the probe that asks.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
};

use crate::{
    client::Client,
    harness::{Home, Service, eventually},
    postgres::Cluster,
};

/// Asks without a key.
async fn status(service: &Service, path: &str) -> u16 {
    let answer = reqwest::get(service.url(path)).await.unwrap();
    answer.status().as_u16()
}

fn probe(home: &Home, service: &Service) -> crate::harness::Finished {
    home.petstore(&["healthcheck", "--listen", &service.address.to_string()])
}

#[tokio::test]
async fn a_store_that_cannot_be_written_is_not_ready() {
    let home = Home::new();
    let service = home.serve();
    assert_eq!(status(&service, "/healthz").await, 200);
    assert_eq!(status(&service, "/readyz").await, 200);
    assert!(probe(&home, &service).success().stderr.contains("is ready"));
    let (here, away) = (home.database(), home.path("away.db"));
    fs::rename(&here, &away).unwrap();
    assert_eq!(status(&service, "/healthz").await, 200);
    let not = async || status(&service, "/readyz").await == 503;
    eventually("a service that is not ready", not).await;
    probe(&home, &service).assert_refused(1, "503");
    fs::rename(&away, &here).unwrap();
    let again = async || status(&service, "/readyz").await == 200;
    eventually("a service that is ready again", again).await;
    service.stop();
}

/// Told to stop, it says so while it goes on for as long as it was told.
#[tokio::test]
async fn a_service_that_stops_is_not_ready() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = Service::start(home.serve_command().args(["--drain-delay", "2s"]));
    let client = Client::new(&service, &key);
    assert_eq!(status(&service, "/readyz").await, 200);
    service.signal("TERM");
    let stops = async || status(&service, "/readyz").await == 503;
    eventually("a service that stops", stops).await;
    let answer = client.get("/readyz").await;
    assert_eq!(answer.body["message"], "the service is stopping");
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert!(service.wait().success());
}

#[test]
fn a_probe_of_nothing_fails() {
    let home = Home::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let probe = home.petstore(&["healthcheck", "--listen", &address]);
    probe.assert_refused(1, "no response from");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_replica_is_ready_while_its_database_is_there() {
    let cluster = Cluster::start();
    let home = Home::on(cluster.url(&cluster.create_database()));
    let key = home.new_key();
    let service = home.serve();
    assert_eq!(status(&service, "/readyz").await, 200);
    cluster.crash();
    let is_not = async || status(&service, "/readyz").await == 503;
    eventually("a replica that is not ready", is_not).await;
    assert_eq!(status(&service, "/healthz").await, 200);
    cluster.restart();
    let client = Client::new(&service, &key);
    let is_ready = async || status(&service, "/readyz").await == 200;
    eventually("a replica that is ready", is_ready).await;
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn a_full_disk_is_not_ready() {
    let home = Home::new();
    home.new_key();
    let full = "inject=pwrite64:error=ENOSPC:when=25+";
    let mut serve = home.serve_traced(&["-e", crate::trace::CALLS, "-e", full]);
    let service = Service::start(&mut serve);
    let full = async || status(&service, "/readyz").await == 503;
    eventually("a full disk", full).await;
    assert_eq!(status(&service, "/healthz").await, 200);
}

/// What listens there may be something else.
#[test]
fn a_probe_of_something_else_fails() {
    let home = Home::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut client, _) = other.accept().unwrap();
        let mut request = [0; 1024];
        let _ = client.read(&mut request);
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n\x1b[31mwelcome\n");
    });
    let probed = home.petstore(&["healthcheck", "--listen", &address]);
    probed.assert_refused(1, r"is not ready: HTTP/1.1 200 OK \u{1b}[31mwelcome\n");
}
