//! Liveness, readiness, and `petstore healthcheck`.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::FileExt,
};

use futures_util::future::join_all;
use support::{Cluster, HttpClient, eventually, free_address};

use crate::{
    client::Client,
    harness::{Home, Service},
    torture::disk::Faults,
};

/// The status of a request without an API key.
async fn status(service: &Service, path: &str) -> u16 {
    HttpClient::new(service.address).get(path).await.status
}

fn probe(home: &Home, service: &Service) -> support::CommandResult {
    home.petstore(&["healthcheck", "--listen", &service.address.to_string()])
}

#[tokio::test]
async fn readiness_fails_while_the_database_file_is_missing() {
    let home = Home::new();
    let service = home.serve();
    assert_eq!(status(&service, "/healthz").await, 200);
    assert_eq!(status(&service, "/readyz").await, 200);
    assert!(probe(&home, &service).success().stderr.contains("is ready"));
    let here = home.database();
    let away = home.path("away.db");
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
    let serve = |delay| Service::start(home.serve_command().args(["--drain-delay", delay]));
    let service = serve("10m");
    let client = Client::new(&service, &key);
    assert_eq!(status(&service, "/readyz").await, 200);
    service.signal("TERM");
    let draining = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", draining).await;
    let response = client.get("/readyz").await;
    assert_eq!(response.json()["message"], "the service is shutting down");
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    assert_eq!(client.get("/v1/pets").await.status, 200);
    service.kill();
    serve("1s").stop();
}

#[test]
fn healthcheck_fails_if_nothing_listens() {
    let home = Home::new();
    let address = free_address().to_string();
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

/// The room that is left is enough for the probe, but not for a client's write.
#[tokio::test]
async fn readiness_follows_writes_that_find_no_room() {
    let home = Home::new();
    let key = home.new_key();
    let mut command = home.serve_command();
    let faults = Faults {
        fills_up: true,
        ..Faults::default()
    };
    faults.apply(&home, &mut command);
    let service = Service::start(&mut command);
    let client = Client::new(&service, &key);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    for _ in 0..3 {
        assert_eq!(status(&service, "/readyz").await, 200);
        fs::write(home.path("room"), [0; 12_000]).unwrap();
        assert_eq!(client.create("Max").await.unwrap().status, 503);
        for _ in 0..20 {
            assert_eq!(status(&service, "/readyz").await, 503);
        }
        // No client writes: it is not ready.
        fs::remove_file(home.path("room")).unwrap();
        let ready = async || status(&service, "/readyz").await == 200;
        eventually("readiness to recover", ready).await;
        assert_eq!(client.create("Tom").await.unwrap().status, 201);
    }
    service.stop();
}

/// A part of the file is overwritten that no client reads at the moment.
#[tokio::test]
async fn readiness_fails_on_a_damaged_file() {
    let home = Home::new();
    home.new_key();
    home.petstore(&["seed", "5000", "--database", &home.url()])
        .success();
    let service = home.serve();
    assert_eq!(status(&service, "/readyz").await, 200);
    let file = fs::File::options()
        .write(true)
        .open(home.database())
        .unwrap();
    let half = file.metadata().unwrap().len() / 8192 * 4096;
    file.write_all_at(&vec![0xff; half as usize], half).unwrap();
    let unready = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", unready).await;
    for _ in 0..20 {
        assert_eq!(status(&service, "/readyz").await, 503);
    }
    assert_eq!(status(&service, "/healthz").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn readiness_fails_while_the_server_is_read_only() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    // A new connection would not be made to such a server, so all of them are there before.
    // A busy machine may need several attempts.
    eventually("100 concurrent lists to be read", async || {
        let queries = (0..100).map(|number| format!("/v1/pets?name={number}"));
        let lists = queries.map(async |query| client.get(&query).await.status);
        join_all(lists).await.iter().all(|status| *status == 200)
    })
    .await;
    assert_eq!(status(&service, "/readyz").await, 200);
    let set = |value: &str| {
        let sql = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        cluster.psql(&database, &sql);
        cluster.psql(&database, "SELECT pg_reload_conf()");
    };
    set("on");
    let unready = async || status(&service, "/readyz").await == 503;
    eventually("readiness to fail", unready).await;
    set("off");
    let ready = async || status(&service, "/readyz").await == 200;
    eventually("readiness to recover", ready).await;
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
