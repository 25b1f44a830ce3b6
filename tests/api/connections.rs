//! The connection limit: health checks beyond it, fair eviction, and drain.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use futures_util::future::join_all;
use http::{Method, Version};
use support::{
    Backend, Stream, TIMEOUT, eventually,
    http2::{EMPTY_SETTINGS, GOAWAY, HEADERS, PREFACE, request},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    client::Connection,
    harness::{Server, ServerConfig},
};

support::cases! {
    ALL: [
        health_is_served_when_all_connections_are_busy,
        silent_connections_do_not_keep_health_checks_out,
        bursts_of_connections_get_200_or_503,
        evicted_connections_without_a_response_get_503,
        the_address_that_holds_most_loses_its_longest_idle_connection,
        an_address_can_be_limited,
        evicted_http2_connections_get_goaway,
        draining_connections_close_after_their_next_response,
        draining_http2_connections_get_goaway,
    ],
}

const LIST: &str = "GET /v1/pets";
const GET_LIST: &str = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
const GET_HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

const EVICTED: &str = "petstore_evicted_connections_total";

/// Limits the connections. A client of a busy machine has enough time to send its request, on
/// a connection over the limit, too.
fn limited_to(max_connections: usize) -> impl FnOnce(&mut ServerConfig) {
    move |config| {
        let limits = &mut config.service.server;
        limits.max_connections = max_connections;
        limits.reserved_head_timeout = limits.head_timeout;
    }
}

/// A loopback address.
fn client(number: u8) -> IpAddr {
    [127, 0, 0, number].into()
}

async fn connect(server: &Server, number: u8) -> Connection<'_> {
    let stream = server.connect_from(client(number), Version::HTTP_11).await;
    Connection::over(server, stream)
}

async fn assert_served(conn: &mut Connection<'_>) {
    conn.send(GET_LIST).await;
    assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    // The client has the response before the server takes the connection for idle.
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The types of the frames that arrive until one has this type, or the connection ends.
async fn frames_until(stream: &mut Stream, last: u8) -> Vec<u8> {
    let mut types = Vec::new();
    let reading = async {
        let mut head = [0; 9];
        while types.last() != Some(&last) && stream.read_exact(&mut head).await.is_ok() {
            types.push(head[3]);
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            if stream.read_exact(&mut payload).await.is_err() {
                break;
            }
        }
    };
    let read = timeout(TIMEOUT, reading).await;
    assert!(read.is_ok(), "no frame of type {last}: {types:?}");
    types
}

async fn all_closed(server: &Server) {
    let closed = async || server.metric("petstore_open_connections").await == 0.0;
    eventually("all connections are closed", closed).await;
}

/// A connection that is busy until it is dropped: it follows the events.
async fn busy(server: &Server) -> Connection<'_> {
    let mut conn = connect(server, 1).await;
    conn.send("GET /v1/events/stream HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
        .await;
    let mut status = [0; b"HTTP/1.1 200".len()];
    conn.raw.stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    conn
}

async fn health_is_served_when_all_connections_are_busy(backend: Backend) {
    let server = Server::start_with(backend, limited_to(2)).await;
    let streams = [busy(&server).await, busy(&server).await];
    let mut conn = Connection::open(&server).await;
    conn.send(GET_LIST).await;
    let response = conn.last_response("GET /").await;
    response.assert_error(503, "unavailable");
    assert_eq!(response.header("retry-after"), Some("1"));
    // The connection closes, so that the next probe is admitted.
    let mut probe = Connection::open(&server).await;
    probe.send(GET_HEALTH).await;
    let response = probe.last_response("GET /healthz").await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("connection"), Some("close"));
    for (path, status) in [("/healthz", 200), ("/v1/pets", 503)] {
        let response = server.request(Method::GET, path).over_http2().send().await;
        assert_eq!(response.status, status, "{path}");
    }
    let rejected = server.metric("petstore_rejected_connections_total").await;
    assert_eq!(rejected, 2.0);
    assert_eq!(server.metric(EVICTED).await, 0.0);
    drop(streams);
    all_closed(&server).await;
    assert_eq!(server.get("/v1/pets").await.status, 200);
}

async fn silent_connections_do_not_keep_health_checks_out(backend: Backend) {
    let server = Server::start_with(backend, limited_to(1)).await;
    let _stream = busy(&server).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(
            tokio::net::TcpStream::connect(server.address)
                .await
                .unwrap(),
        );
    }
    let mut probe = connect(&server, 2).await;
    probe.send(GET_HEALTH).await;
    assert_eq!(probe.last_response("GET /healthz").await.status, 200);
}

/// Behind a proxy all clients share an address. A connection beyond the limit must not
/// take the place of another that has not been served yet.
async fn bursts_of_connections_get_200_or_503(backend: Backend) {
    let server = Server::start_with(backend, limited_to(4)).await;
    let mut statuses = BTreeMap::new();
    for _ in 0..20 {
        let burst = (0..12).map(async |_| {
            let mut conn = Connection::open(&server).await;
            conn.send(GET_LIST).await;
            let response = conn.response(LIST).await;
            response.expect("a response").status
        });
        for status in join_all(burst).await {
            *statuses.entry(status).or_default() += 1;
        }
    }
    let total: usize = statuses.values().sum();
    assert_eq!(total, 240);
    assert!(statuses.keys().eq([&200, &503]), "{statuses:?}");
}

/// A client that has waited for too long, or is too slow, learns why it is not served.
async fn evicted_connections_without_a_response_get_503(backend: Backend) {
    let server = Server::start_with(backend, limited_to(1)).await;
    for (number, sent) in (1..).zip(["", "GET /v1/pets HTTP/1.1\r\nHost:"]) {
        let mut waiting = connect(&server, 2).await;
        waiting.send(sent).await;
        let evicted = async || {
            let mut new = connect(&server, 3).await;
            new.send(GET_LIST).await;
            new.response(LIST).await.expect("a response").status == 200
        };
        eventually("a connection is evicted", evicted).await;
        let response = waiting.last_response("GET /").await;
        response.assert_error(503, "unavailable");
        assert_eq!(response.header("retry-after"), Some("1"));
        assert!(server.metric(EVICTED).await >= f64::from(number));
        all_closed(&server).await;
    }
}

async fn the_address_that_holds_most_loses_its_longest_idle_connection(backend: Backend) {
    let server = Server::start_with(backend, limited_to(5)).await;
    let mut few = connect(&server, 2).await;
    assert_served(&mut few).await;
    let mut many = Vec::new();
    for _ in 0..4 {
        many.push(connect(&server, 1).await);
        assert_served(many.last_mut().unwrap()).await;
    }
    // Now the second one is idle for longest.
    assert_served(&mut many[0]).await;
    let mut new = connect(&server, 3).await;
    assert_served(&mut new).await;
    many.remove(1).assert_closed().await;
    for conn in many.iter_mut().chain([&mut few, &mut new]) {
        assert_served(conn).await;
    }
    assert_eq!(server.metric(EVICTED).await, 1.0);
    assert_eq!(server.metric("petstore_open_connections").await, 5.0);
}

async fn an_address_can_be_limited(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.max_connections_per_address = Some(2);
    })
    .await;
    let mut conns = Vec::new();
    for _ in 0..3 {
        conns.push(connect(&server, 1).await);
        assert_served(conns.last_mut().unwrap()).await;
    }
    conns.remove(0).assert_closed().await;
    for _ in 0..2 {
        conns.push(connect(&server, 2).await);
    }
    for conn in &mut conns {
        assert_served(conn).await;
    }
}

async fn evicted_http2_connections_get_goaway(backend: Backend) {
    let server = Server::start_with(backend, limited_to(1)).await;
    let mut idle = server.connect(Version::HTTP_2).await;
    let start = [PREFACE, EMPTY_SETTINGS, &request(1, "GET", "/")].concat();
    idle.write_all(&start).await.unwrap();
    idle.flush().await.unwrap();
    frames_until(&mut idle, HEADERS).await;
    // The client has the response before the server takes the connection for idle.
    eventually("the idle connection is evicted", async || {
        let mut new = Connection::open(&server).await;
        new.send(GET_LIST).await;
        new.response(LIST).await.expect("a response").status == 200
    })
    .await;
    assert_eq!(frames_until(&mut idle, GOAWAY).await.last(), Some(&GOAWAY));
    assert_eq!(server.metric(EVICTED).await, 1.0);
}

/// Long enough for a test to end first.
const DRAIN_DELAY: Duration = Duration::from_secs(600);

/// Until the end of the drain delay nothing is closed that a client may be about to use:
/// it learns from a response that the connection closes.
async fn draining_connections_close_after_their_next_response(backend: Backend) {
    let mut server = Server::start_with(backend, |config| {
        config.service.server.drain_delay = DRAIN_DELAY;
    })
    .await;
    let mut idle = server.connect(Version::HTTP_11).await;
    idle.write_all(GET_HEALTH.as_bytes()).await.unwrap();
    idle.flush().await.unwrap();
    let mut received = Vec::new();
    while !received.ends_with(b"}") {
        idle.read_buf(&mut received).await.unwrap();
    }
    let mut silent = server.connect(Version::HTTP_11).await;
    server.signal_shutdown();
    let draining = async || server.get("/readyz").await.status == 503;
    eventually("the service drains", draining).await;
    let mut new = server.connect(Version::HTTP_11).await;
    for stream in [&mut idle, &mut silent, &mut new] {
        let request = GET_LIST.replace("KEY", &format!("Authorization: Bearer {}", server.key));
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut received = String::new();
        let read = timeout(TIMEOUT, stream.read_to_string(&mut received)).await;
        read.expect("the connection is closed").unwrap();
        assert!(received.starts_with("HTTP/1.1 200 "), "{received}");
        assert!(received.contains("\r\nconnection: close\r\n"), "{received}");
    }
}

async fn draining_http2_connections_get_goaway(backend: Backend) {
    let mut server = Server::start_with(backend, |config| {
        config.service.server.drain_delay = DRAIN_DELAY;
    })
    .await;
    let mut used = server.connect(Version::HTTP_2).await;
    let mut unused = server.connect(Version::HTTP_2).await;
    let start = [PREFACE, EMPTY_SETTINGS].concat();
    for stream in [&mut used, &mut unused] {
        stream.write_all(&start).await.unwrap();
        stream.flush().await.unwrap();
    }
    used.write_all(&request(1, "GET", "/")).await.unwrap();
    used.flush().await.unwrap();
    frames_until(&mut used, HEADERS).await;
    server.signal_shutdown();
    assert_eq!(frames_until(&mut used, GOAWAY).await.last(), Some(&GOAWAY));
    // A connection that is new to the client still serves a request.
    unused.write_all(&request(1, "GET", "/")).await.unwrap();
    unused.flush().await.unwrap();
    let mut frames = frames_until(&mut unused, GOAWAY).await;
    if !frames.contains(&HEADERS) {
        frames.extend(frames_until(&mut unused, HEADERS).await);
    }
    assert!(frames.contains(&GOAWAY), "{frames:?}");
    assert!(frames.contains(&HEADERS), "{frames:?}");
}
