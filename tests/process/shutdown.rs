//! Graceful shutdown: in-flight requests are drained, then the service exits.

use std::{collections::BTreeSet, fs, io::ErrorKind};

use support::{RawConnection, wait_for};
use tokio::net::{TcpSocket, TcpStream};

use crate::{
    client::{Client, LoadGenerator, create_request},
    harness::{Home, Service},
};

#[tokio::test]
async fn sigterm_drains_and_exits() {
    assert_drains_and_exits("TERM").await;
}

#[tokio::test]
async fn sigint_drains_and_exits() {
    assert_drains_and_exits("INT").await;
}

/// A request whose body is still arriving is completed; idle connections are
/// closed; new connections are rejected.
async fn assert_drains_and_exits(signal: &str) {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();

    let mut silent = RawConnection::connect(service.address).await;
    let mut idle = RawConnection::connect(service.address).await;
    let (head, body) = create_request(&key, "Rex", "");
    idle.send(head + &body).await;
    idle.read_until("\"categoryId\":1}").await;
    let mut busy = RawConnection::connect(service.address).await;
    let (head, body) = create_request(&key, "Bella", "Expect: 100-continue\r\n");
    let (half, rest) = body.split_at(body.len() / 2);
    busy.send(head).await;
    assert_eq!(
        busy.read_until("\r\n\r\n").await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    busy.send(half).await;

    service.signal(signal);
    assert_eq!(silent.read_to_end().await, b"");
    assert_eq!(idle.read_to_end().await, b"");
    let rejected = TcpStream::connect(service.address).await.map(drop);
    assert_eq!(rejected.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(service.is_running());

    busy.send(rest).await;
    let response = String::from_utf8(busy.read_to_end().await).unwrap();
    assert!(response.starts_with("HTTP/1.1 201 "), "{response}");
    assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
    drop(busy);
    let status = service.wait();
    assert_eq!(status.code(), Some(0), "{status}: {}", service.output());
    assert_wal_checkpointed(&home);

    let service = home.serve();
    let pets = Client::new(&service, &key).pets().await;
    let names: Vec<_> = pets.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["Rex", "Bella"]);
}

/// Connections that the kernel has accepted and the service has not are served:
/// closing the listener would reset them.
#[tokio::test]
async fn connections_in_the_backlog_are_served() {
    let home = Home::new();
    let mut service = home.serve();
    let mut waiting = Vec::new();
    service.signal("STOP");
    for _ in 0..20 {
        let mut conn = RawConnection::connect(service.address).await;
        conn.send("GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await;
        waiting.push(conn);
    }
    service.signal("TERM");
    service.signal("CONT");
    for mut conn in waiting {
        let response = String::from_utf8(conn.read_to_end().await).unwrap();
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
    assert!(service.wait().success());
}

/// Shutdown under load: every stored write has been acknowledged.
#[tokio::test]
async fn shutdown_under_load_acknowledges_every_stored_write() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();
    let load = LoadGenerator::start(&Client::new(&service, &key), 16, "pet");
    load.until(|results| results.acknowledged.len() >= 300)
        .await;
    service.signal("TERM");
    let results = load.finish().await;
    let status = service.wait();
    assert_eq!(status.code(), Some(0), "{status}: {}", service.output());
    assert_wal_checkpointed(&home);
    assert_eq!(results.unavailable, 0);

    let service = home.serve();
    let pets = Client::new(&service, &key).pets().await;
    results.assert_durable(&pets);
    let stored: BTreeSet<_> = pets.into_iter().map(|(_, name)| name).collect();
    assert_eq!(stored, results.acknowledged.into_keys().collect());
}

/// A response to a slow reader is not truncated.
#[tokio::test]
async fn a_response_in_flight_is_sent_completely() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();
    let client = Client::new(&service, &key);
    for _ in 0..100 {
        client.create(&"🐕".repeat(255)).await.unwrap();
    }
    let get = |connection: &str| {
        format!(
            "GET /v1/pets?limit=100 HTTP/1.1\r\nHost: petstore\r\n\
             Authorization: Bearer {key}\r\nConnection: {connection}\r\n\r\n"
        )
    };
    let mut one = RawConnection::connect(service.address).await;
    one.send(get("keep-alive")).await;
    let length = one.read_until("}]").await.len();

    // The responses exceed the socket buffers, so the service is in the middle
    // of writing one of them.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = RawConnection::new(socket.connect(service.address).await.unwrap());
    slow.send(get("keep-alive").repeat(100)).await;
    let mut first = slow.read_until("}]").await;
    service.signal("TERM");
    wait_for("the service to stop accepting", || {
        std::net::TcpStream::connect(service.address)
            .is_err()
            .then_some(())
    });
    let rest = slow.read_to_end().await;
    first.push_str(&String::from_utf8(rest).unwrap());
    assert!(
        first.ends_with("}]"),
        "truncated after {} of {length} bytes",
        first.len() % length
    );
    assert!(service.wait().success());
}

/// Shutdown is graceful even if log output fails with EPIPE.
#[tokio::test]
async fn shutdown_works_with_a_broken_log_pipe() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start_with_closed_output(&mut home.serve_command());
    let created = Client::new(&service, &key).create("Rex").await.unwrap();
    assert_eq!(created.status, 201);
    service.stop();
    assert_wal_checkpointed(&home);
}

/// Asserts that the WAL was checkpointed into the database.
#[track_caller]
fn assert_wal_checkpointed(home: &Home) {
    let wal = fs::metadata(home.path("petstore.db-wal"));
    assert_eq!(wal.map_or(0, |wal| wal.len()), 0, "{:?}", home.files());
}

/// A stream that is asked for while the service shuts down, one whose client does not read,
/// and a long poll: none of them delays the shutdown.
#[tokio::test]
async fn event_streams_do_not_delay_the_shutdown() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();
    let get = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n")
    };
    let stream = get("/v1/events/stream");
    let mut stalled = RawConnection::connect(service.address).await;
    stalled.send(&stream).await;
    let mut poll = RawConnection::connect(service.address).await;
    poll.send(get("/v1/events?after=now&wait=50")).await;
    let mut late = RawConnection::connect(service.address).await;
    let (half, rest) = stream.split_at(stream.len() / 2);
    late.send(half).await;
    // More than the buffers hold, for a client that does not read.
    let client = Client::new(&service, &key);
    let load = LoadGenerator::start(&client, 16, &"x".repeat(200));
    load.until(|results| results.acknowledged.len() >= 1000)
        .await;
    load.finish().await;
    service.signal("TERM");
    service.event("shutting down");
    late.send(rest).await;
    let response = String::from_utf8(poll.read_to_end().await).unwrap();
    assert!(response.contains("pet.created"), "{response}");
    let status = service.wait();
    assert!(status.success(), "{status}: {}", service.output());
    let output = service.output();
    assert!(!output.contains("drain timed out"), "{output}");
}
