//! HTTP/2, with prior knowledge on plain TCP or negotiated by ALPN over TLS: same
//! responses as HTTP/1.1, multiplexing, timeouts and drain.

use std::time::Duration;

use futures_util::future::join_all;
use http::{HeaderMap, Method, Version};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use server::Limits;
use support::{
    Backend, Response, TIMEOUT, eventually,
    http2::{
        DATA, EMPTY_SETTINGS, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, frame, frames,
        literal_header,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::harness::{Server, ServerConfig};

support::cases! {
    ALL: [
        responses_match_http1,
        requests_are_multiplexed,
        a_fragmented_preface_is_accepted,
        idle_connections_are_closed,
        clients_that_do_not_read_are_closed,
        oversized_heads_get_431,
        shutdown_does_not_wait_for_unresponsive_clients,
        shutdown_drains_requests_in_flight,
        authorities_are_checked,
    ],
}

async fn responses_match_http1(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(3).await;
    let tag = server.get("/v1/pets").await;
    let tag = tag.header("etag").unwrap();
    let request = |method: Method, path: &str| server.request(method, path);
    let requests = || {
        [
            request(Method::GET, "/v1/pets?limit=2"),
            request(Method::GET, "/v1/pets").header("if-none-match", tag),
            request(Method::HEAD, "/v1/pets"),
            request(Method::HEAD, "/v1/pets").header("if-none-match", tag),
            request(Method::GET, "/v1/pets/1"),
            request(Method::GET, "/v1/pets/9"),
            request(Method::HEAD, "/v1/pets/9"),
            request(Method::GET, "/v1/pets?limit=0"),
            request(Method::GET, "/v1/pets").without_key(),
            request(Method::GET, "/v1/nothing"),
            request(Method::DELETE, "/v1/pets"),
            request(Method::POST, "/v1/pets").body("{}"),
            request(Method::POST, "/v1/pets").body(vec![b' '; 70_000]),
            request(Method::GET, "/docs"),
        ]
    };
    for (http1, http2) in requests().into_iter().zip(requests()) {
        let path = http1.path.clone();
        let http1 = http1.send().await;
        let http2 = http2.over_http2().send().await;
        assert_eq!(
            (http1.status, &http1.body, stable_headers(&http1)),
            (http2.status, &http2.body, stable_headers(&http2)),
            "{path}"
        );
    }
    let pet = json!({"name": "Rex", "categoryId": 1}).to_string();
    let created = request(Method::POST, "/v1/pets")
        .body(pet)
        .over_http2()
        .send()
        .await;
    assert_eq!((created.status, &created.json()["id"]), (201, &json!(4)));
}

/// The headers that do not differ between responses to the same request.
fn stable_headers(response: &Response) -> HeaderMap {
    let mut headers = response.headers.clone();
    for name in ["date", "x-request-id", "connection"] {
        headers.remove(name);
    }
    headers
}

async fn requests_are_multiplexed(backend: Backend) {
    let server = Server::start(backend).await;
    let mut client = server.http2().await;
    // By the first response hyper knows SETTINGS_MAX_CONCURRENT_STREAMS.
    let list = server.request(Method::GET, "/v1/pets").into_http();
    assert_eq!(client.send_request(list).await.unwrap().status(), 200);
    let creates = (0..300).map(|n| {
        let pet = json!({"name": format!("Pet {n}"), "categoryId": n}).to_string();
        let request = server.request(Method::POST, "/v1/pets").body(pet);
        let mut client = client.clone();
        async move {
            let sent = client.send_request(request.into_http()).await;
            sent.unwrap().status().as_u16()
        }
    });
    assert_eq!(join_all(creates).await, vec![201; 300]);
    let last = server.get("/v1/pets/300").await;
    assert_eq!(last.status, 200);
}

async fn a_fragmented_preface_is_accepted(backend: Backend) {
    let server = Server::start(backend).await;
    let mut stream = server.connect(Version::HTTP_2).await;
    for piece in [
        &PREFACE[..1],
        &PREFACE[1..3],
        &PREFACE[3..10],
        &PREFACE[10..],
        EMPTY_SETTINGS,
    ] {
        stream.write_all(piece).await.unwrap();
        stream.flush().await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The service responds with its SETTINGS frame.
    let mut frame = [0; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4);
}

async fn idle_connections_are_closed(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server = Limits {
            idle_timeout: Duration::from_millis(200),
            write_timeout: Duration::from_millis(200),
            ..Limits::default()
        };
    })
    .await;
    let mut stream = server.connect(Version::HTTP_2).await;
    stream
        .write_all(&[PREFACE, EMPTY_SETTINGS].concat())
        .await
        .unwrap();
    let mut received = Vec::new();
    let closed = timeout(TIMEOUT, stream.read_to_end(&mut received)).await;
    // A reset is fine too, since the client did not acknowledge the keep-alive PINGs.
    assert!(closed.is_ok(), "still open");
}

/// Flow control lets a client leave its responses unread without blocking a write. New
/// requests do not keep such a connection open.
async fn clients_that_do_not_read_are_closed(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server = Limits {
            write_timeout: Duration::from_secs(1),
            ..Limits::default()
        };
    })
    .await;
    let stream = TokioIo::new(server.connect(Version::HTTP_2).await);
    let mut handshake = http2::Builder::new(TokioExecutor::new());
    let handshake = handshake.initial_stream_window_size(0).handshake(stream);
    let (mut client, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let mut unread = Vec::new();
    // Below the limit on concurrent streams.
    for _ in 0..50 {
        let request = server.request(Method::GET, "/v1/openapi.yaml").into_http();
        match client.send_request(request).await {
            Ok(response) => unread.push(response),
            Err(_) => return,
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    eventually("the connection is closed", async || client.is_closed()).await;
}

/// On its own, hyper would send a 431 without a body, or only reset the stream.
async fn oversized_heads_get_431(backend: Backend) {
    let server = Server::start(backend).await;
    let request = || server.request(Method::GET, "/v1/pets").over_http2();
    let long = request()
        .header("x-long", "a".repeat(17 << 10))
        .send()
        .await;
    long.assert_error(431, "head_too_large");
    let mut many = request();
    for n in 0..101 {
        many = many.header(&format!("x-{n}"), "a");
    }
    many.send().await.assert_error(431, "head_too_large");
    assert_eq!(request().send().await.status, 200);
}

/// A client that does not react to GOAWAY does not delay shutdown.
async fn shutdown_does_not_wait_for_unresponsive_clients(backend: Backend) {
    let with_long_drain =
        |config: &mut ServerConfig| config.service.server.drain_timeout = 2 * TIMEOUT;
    let server = Server::start_with(backend, with_long_drain).await;
    let mut silent = Vec::new();
    for sent in [PREFACE.to_vec(), [PREFACE, EMPTY_SETTINGS].concat()] {
        let mut stream = server.connect(Version::HTTP_2).await;
        stream.write_all(&sent).await.unwrap();
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).await.unwrap();
        silent.push(stream);
    }
    // Well below the drain timeout, so the connections were not merely aborted.
    let stopped = timeout(TIMEOUT, server.stop()).await;
    assert!(stopped.is_ok(), "still running");
}

async fn shutdown_drains_requests_in_flight(backend: Backend) {
    let server = Server::start(backend).await;
    let mut client = server.http2().await;
    let list = server.request(Method::GET, "/v1/pets").into_http();
    let listed = client.send_request(list.clone()).await.unwrap();
    assert_eq!(listed.status(), 200);
    let lock = server.database.lock();
    let pet = json!({"name": "Rex", "categoryId": 1}).to_string();
    let create = server.request(Method::POST, "/v1/pets").body(pet);
    let create = tokio::spawn(client.send_request(create.into_http()));
    server.wait_until_in_flight(1).await;
    let address = server.address;
    let stopping = tokio::spawn(server.stop());
    Server::wait_until_draining(address).await;
    drop(lock);
    assert_eq!(create.await.unwrap().unwrap().status(), 201);
    stopping.await.unwrap();
    assert!(client.send_request(list).await.is_err());
}

/// The status and body of the response to a request with these pseudo-headers and
/// headers on a new HTTP/2 connection; `None` if the stream was reset.
async fn http2_response(server: &Server, fields: &[(&str, &str)]) -> Option<(u16, String)> {
    let key = format!("Bearer {}", server.key);
    let scheme = server.tls.as_ref().map_or("http", |_| "https");
    let common = [(":method", "GET"), (":scheme", scheme)];
    let head: Vec<u8> = [&common, fields, &[("authorization", &*key)]]
        .concat()
        .iter()
        .flat_map(|(name, value)| literal_header(name, value))
        .collect();
    let request = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head);
    let mut stream = server.connect(Version::HTTP_2).await;
    stream
        .write_all(&[PREFACE, EMPTY_SETTINGS, &request].concat())
        .await
        .unwrap();
    let mut received = Vec::new();
    let mut status = 0;
    let mut body = Vec::new();
    while !frames(&received).any(|(kind, id, _)| id == 1 && kind != HEADERS) {
        assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "closed");
    }
    for (kind, _, payload) in frames(&received).filter(|(_, id, _)| *id == 1) {
        match kind {
            // Indexed in HPACK's static table.
            HEADERS => status = [200, 204, 206, 304, 400, 404, 500][usize::from(payload[0] - 0x88)],
            DATA => body.extend_from_slice(payload),
            RST_STREAM => return None,
            _ => {}
        }
    }
    Some((status, String::from_utf8(body).unwrap()))
}

async fn authorities_are_checked(backend: Backend) {
    let server = Server::start(backend).await;
    let path = (":path", "/v1/pets");
    let default_port = server.tls.as_ref().map_or("x:80", |_| "x:443");
    for accepted in [
        &[path, (":authority", "x")][..],
        &[path, (":authority", "x:8080"), ("host", "X:8080")],
        &[path, (":authority", "x"), ("host", default_port)],
        &[path, ("host", "x")],
    ] {
        let (status, body) = http2_response(&server, accepted).await.unwrap();
        assert_eq!(status, 200, "{accepted:?}: {body}");
    }
    for rejected in [
        &[path][..],
        &[path, (":authority", "x"), ("host", "y")],
        &[path, (":authority", "x"), ("host", "x:1")],
        &[path, (":authority", "x"), ("host", "x"), ("host", "x")],
        &[path, ("host", "x"), ("host", "x")],
        &[path, ("host", "a b")],
        &[path, ("host", "")],
        &[path, (":authority", "user@x")],
        &[(":path", "*"), (":authority", "x")],
    ] {
        let (status, body) = http2_response(&server, rejected).await.unwrap();
        assert_eq!(status, 400, "{rejected:?}: {body}");
        assert!(body.contains(r#""code":"invalid_request""#), "{body}");
    }
    // What HTTP/2 itself forbids resets the stream (RFC 9113, section 8.1.1).
    for malformed in [
        &[path, (":authority", "x"), ("transfer-encoding", "chunked")][..],
        &[path, (":authority", "x"), ("connection", "close")],
        &[(":path", ""), (":authority", "x")],
        &[path, (":authority", "x"), ("content-length", "5")],
    ] {
        assert_eq!(
            http2_response(&server, malformed).await,
            None,
            "{malformed:?}"
        );
    }
}
