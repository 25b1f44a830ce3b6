//! HTTP/1.1 on raw sockets: timeouts, limits and drain.

use std::time::Duration;

use futures_util::future::join_all;
use http::Version;
use serde_json::json;
use server::Limits;
use support::{Backend, TIMEOUT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
};

use crate::{
    client::Connection,
    contract,
    harness::{Server, ServerConfig},
};

support::cases! {
    ALL: [
        oversized_heads_get_431,
        idle_connections_time_out,
        slowloris_heads_time_out,
        partial_heads_behind_a_request_time_out,
        slow_bodies_time_out,
        clients_that_do_not_read_time_out,
        clients_that_read_too_slowly_time_out,
        shutdown_finishes_responses_in_flight,
    ],
}

const LIST: &str = "GET /v1/pets";

/// Long enough for a handshake and a first byte on a busy machine.
pub const SHORT_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

fn with_short_timeouts(config: &mut ServerConfig) {
    config.service.server = Limits {
        head_timeout: SHORT_HEAD_TIMEOUT,
        idle_timeout: Duration::from_millis(300),
        write_timeout: Duration::from_millis(200),
        ..Limits::default()
    };
    config.service.api.limits.body_timeout = Duration::from_millis(200);
}

async fn oversized_heads_get_431(backend: Backend) {
    let server = Server::start(backend).await;
    let request = |size: usize| {
        let start = format!(
            "GET /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nX: ",
            server.key
        );
        format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4))
    };
    let mut conn = Connection::open(&server).await;
    conn.send(&request(16384)).await;
    assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    let long_path = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(101));
    for text in [request(16385), request(100_000), long_path, many] {
        let mut conn = Connection::open(&server).await;
        conn.send(&text).await;
        conn.last_response("GET /")
            .await
            .assert_error(431, "head_too_large");
    }
}

async fn idle_connections_time_out(backend: Backend) {
    let server = Server::start_with(backend, with_short_timeouts).await;
    let mut silent = Connection::open(&server).await;
    silent.assert_closed().await;
    // The keep-alive timeout applies after a response.
    let mut idle = Connection::open(&server).await;
    idle.send("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
        .await;
    assert_eq!(idle.response(LIST).await.unwrap().status, 200);
    idle.assert_closed().await;
}

async fn slowloris_heads_time_out(backend: Backend) {
    let server = Server::start_with(backend, with_short_timeouts).await;
    let mut conn = Connection::open(&server).await;
    conn.send("GET /v1/pets HTTP/1.1\r\nHost:").await;
    conn.last_response("GET /")
        .await
        .assert_error(408, "request_timeout");
    // Trickling bytes does not extend the deadline.
    let mut conn = Connection::open(&server).await;
    conn.send("GET /v1/pets HTTP/1.1\r\nX: ").await;
    let (mut reading, mut writing) = tokio::io::split(conn.raw.stream);
    let trickle = tokio::spawn(async move {
        while writing.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut received = Vec::new();
    let _ = reading.read_to_end(&mut received).await;
    assert!(
        received.starts_with(b"HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(&received)
    );
    drop(reading);
    trickle.await.unwrap();
}

/// A part of a head that arrives with the previous request, or right behind it, has the
/// head timeout, not the much longer idle timeout.
async fn partial_heads_behind_a_request_time_out(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.head_timeout = SHORT_HEAD_TIMEOUT;
    })
    .await;
    let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    let create = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 27\r\n\r\n\
                  {\"name\":\"A\",\"categoryId\":1}";
    let chunked = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n\
                   1b\r\n{\"name\":\"A\",\"categoryId\":1}\r\n0\r\n\r\n";
    let rejected = create.replace("KEY\r\n", "");
    let chunked_rejected = chunked.replace("KEY\r\n", "");
    let requests = [
        vec![("GET", get)],
        vec![("POST", create)],
        vec![("POST", chunked)],
        vec![("POST", &rejected)],
        vec![("POST", &chunked_rejected), ("GET", get)],
        vec![("POST", chunked), ("POST", create), ("GET", get)],
    ];
    let partial = "GET /v1/pets HTTP/1.1\r\nHost:";
    let timed_out = async |requests: &[(&str, &str)], separately: bool| {
        let sent: String = requests.iter().map(|(_, request)| *request).collect();
        let mut conn = Connection::open(&server).await;
        if separately {
            conn.send(&sent).await;
        } else {
            conn.send(&format!("{sent}{partial}")).await;
        }
        for (method, _) in requests {
            let response = conn.response(&format!("{method} /v1/pets")).await;
            assert!(response.unwrap().status < 402);
        }
        if separately {
            conn.send(partial).await;
        }
        conn.last_response("GET /")
            .await
            .assert_error(408, "request_timeout");
    };
    // Without one, the connection is idle and stays open for longer than that.
    let idle = async |requests: &[(&str, &str)]| {
        let mut conn = Connection::open(&server).await;
        for _ in 0..2 {
            for (method, request) in requests {
                conn.send(request).await;
                let response = conn.response(&format!("{method} /v1/pets")).await;
                assert!(response.unwrap().status < 402);
            }
            tokio::time::sleep(SHORT_HEAD_TIMEOUT + Duration::from_millis(300)).await;
        }
    };
    let cases = requests.iter().map(async |requests| {
        tokio::join!(
            timed_out(requests, false),
            timed_out(requests, true),
            idle(requests)
        )
    });
    join_all(cases).await;
}

async fn slow_bodies_time_out(backend: Backend) {
    let server = Server::start_with(backend, with_short_timeouts).await;
    server.create(json!({"name": "A", "categoryId": 1})).await;
    for (method, path, _) in contract::operations_with("408") {
        let mut conn = Connection::open(&server).await;
        let request = format!("{method} {path}");
        conn.send(&format!(
            "{request} HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 100\r\n\r\n{{\"name\""
        ))
        .await;
        conn.last_response(&request)
            .await
            .assert_error(408, "request_timeout");
    }
    // A request with an incomplete body is not executed.
    let mut conn = Connection::open(&server).await;
    let body = r#"{"name":"A","categoryId":1}"#;
    conn.send(&format!(
        "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 100\r\n\r\n{body}"
    ))
    .await;
    conn.raw.shutdown_write().await;
    while conn.raw.response().await.is_some() {}
    assert_eq!(server.count_pets().await, 1);
}

/// A client that reads at a trickle makes progress, but must not hold its connection
/// for ever.
async fn clients_that_read_too_slowly_time_out(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.write_timeout = Duration::from_secs(3);
        config.service.server.min_read_rate = 100 << 20;
    })
    .await;
    let stream = server.connect(Version::HTTP_11).await;
    let (mut reading, mut writing) = tokio::io::split(stream);
    let ask = tokio::spawn(async move {
        let request = "GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n";
        let requests = request.repeat(10_000);
        let _ = writing.write_all(requests.as_bytes()).await;
        let _ = writing.flush().await;
    });
    let trickle = async {
        let mut some = vec![0; 64 << 10];
        while reading.read(&mut some).await.is_ok_and(|read| read > 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let closed = tokio::time::timeout(TIMEOUT, trickle).await;
    assert!(closed.is_ok(), "still open");
    ask.abort();
}

/// Pipelined responses fill the socket buffers until the write timeout closes the connection.
async fn clients_that_do_not_read_time_out(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.write_timeout = Duration::from_millis(200);
    })
    .await;
    server.create_pets(100).await;
    let conn = Connection::open(&server).await;
    let request = format!(
        "GET /v1/pets?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\r\n",
        server.key
    );
    let requests = request.repeat(50_000);
    let mut stream = conn.raw.stream;
    let written = tokio::time::timeout(TIMEOUT, stream.write_all(requests.as_bytes()));
    assert!(
        written
            .await
            .expect("the service closes the connection")
            .is_err()
    );
}

/// Graceful shutdown: a response that is being written when it begins arrives complete.
async fn shutdown_finishes_responses_in_flight(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..100 {
        server
            .create(json!({"name": "x".repeat(255), "categoryId": 1}))
            .await;
    }
    let key = server.key.clone();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(server.address).await.unwrap();
    let mut stream = server
        .client(Version::HTTP_11)
        .connect_over(stream)
        .await
        .unwrap();
    let request = format!(
        "GET /v1/pets?limit=100 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    stream
        .write_all(request.repeat(60).as_bytes())
        .await
        .unwrap();
    stream.flush().await.unwrap();
    let mut received = vec![stream.read_u8().await.unwrap()];
    let address = server.address;
    let reading = async {
        Server::wait_until_draining(address).await;
        stream.read_to_end(&mut received).await.unwrap();
        received
    };
    let (received, ()) = tokio::join!(reading, server.stop());
    let text = String::from_utf8(received).unwrap();
    let responses: Vec<_> = text.split("HTTP/1.1 200 OK\r\n").skip(1).collect();
    assert!(!responses.is_empty());
    for response in responses {
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
    }
}
