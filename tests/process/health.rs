//! Liveness, readiness, and `petstore healthcheck`.

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

/// The status of a request without an API key.
async fn status(service: &Service, path: &str) -> u16 {
    let response = reqwest::get(service.url(path)).await.unwrap();
    response.status().as_u16()
}

fn probe(home: &Home, service: &Service) -> crate::harness::Finished {
    home.petstore(&["healthcheck", "--listen", &service.address.to_string()])
}

#[tokio::test]
async fn readiness_fails_while_the_database_file_is_missing() {
    let home = Home::new();
    let service = home.serve();
    assert_eq!(status(&service, "/healthz").await, 200);
    assert_eq!(status(&service, "/readyz").await, 200);
    assert!(probe(&home, &service).success().stderr.contains("is ready"));
    let (here, away) = (home.database(), home.path("away.db"));
    fs::rename(&here, &away).unwrap();
    assert_eq!(status(&service, "/healthz").await, 200);
    let unready = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", unready).await;
    probe(&home, &service).assert_fails(1, "503");
    fs::rename(&away, &here).unwrap();
    let ready = async || status(&service, "/readyz").await == 200;
    eventually("readiness to recover", ready).await;
    service.stop();
}

/// During `--drain-delay` readiness fails while requests are still served.
#[tokio::test]
async fn readiness_fails_while_draining() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = Service::start(home.serve_command().args(["--drain-delay", "2s"]));
    let client = Client::new(&service, &key);
    assert_eq!(status(&service, "/readyz").await, 200);
    service.signal("TERM");
    let draining = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", draining).await;
    let response = client.get("/readyz").await;
    assert_eq!(response.body["message"], "the service is shutting down");
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert!(service.wait().success());
}

#[test]
fn healthcheck_fails_if_nothing_listens() {
    let home = Home::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let probe = home.petstore(&["healthcheck", "--listen", &address]);
    probe.assert_fails(1, "no response from");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn readiness_follows_the_database_connection() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    let key = home.new_key();
    let service = home.serve();
    assert_eq!(status(&service, "/readyz").await, 200);
    cluster.crash();
    let unready = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", unready).await;
    assert_eq!(status(&service, "/healthz").await, 200);
    cluster.restart();
    let client = Client::new(&service, &key);
    let ready = async || status(&service, "/readyz").await == 200;
    eventually("readiness to recover", ready).await;
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
}

#[tokio::test]
#[ignore = "needs strace; make test installs it and runs this"]
async fn readiness_fails_on_a_full_disk() {
    let home = Home::new();
    home.new_key();
    let full = "inject=pwrite64:error=ENOSPC:when=25+";
    let mut serve = home.serve_traced(&["-e", crate::strace::SYSCALLS, "-e", full]);
    let service = Service::start(&mut serve);
    let unready = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", unready).await;
    assert_eq!(status(&service, "/healthz").await, 200);
}

/// Another server on the port is reported with what it sent.
#[test]
fn healthcheck_fails_on_another_server() {
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
    probed.assert_fails(1, "is not a petstore service: it answered 200 OK\n");
}
