//! The semantics of HTTP (RFC 9110), as far as the transport implements them for HTTP/1.1.

use std::time::Duration;

use support::Backend;
use tokio::io::AsyncReadExt;

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        rejections_after_an_upgrade_are_received,
    ],
    SQLITE: [
        responses_have_a_date,
        responses_to_head_have_the_headers_of_get,
        a_body_is_invited_if_the_client_waits_for_that,
    ],
}

const LIST: &str = "GET /v1/pets";

/// Section 6.6.1.
async fn responses_have_a_date(backend: Backend) {
    let server = Server::start(backend).await;
    let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    let mut conn = Connection::open(&server).await;
    conn.send(&format!("{get}garbage\r\n\r\n")).await;
    for _ in 0..2 {
        let response = conn.raw.response().await.unwrap();
        let date = response.header("date").unwrap();
        let parsed = jiff::fmt::rfc2822::parse(date).unwrap();
        assert_eq!(
            parsed.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            date
        );
    }
}

/// Section 7.8: `Upgrade` is ignored. The connection is closed gracefully also after it: a
/// reset would discard the responses.
async fn rejections_after_an_upgrade_are_received(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..20 {
        let mut conn = Connection::open(&server).await;
        let upgrade = "GET /console HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\n\r\n";
        let unread = "x".repeat(10_000);
        conn.send(&format!(
            "{upgrade}GET / HTTP/2.0\r\nHost: x\r\n\r\n{unread}"
        ))
        .await;
        assert_eq!(conn.raw.response().await.unwrap().status, 200);
        assert_eq!(conn.raw.response().await.unwrap().status, 505);
        let end = conn.raw.stream.read_buf(&mut Vec::new()).await;
        assert_eq!(end.unwrap(), 0, "the connection is closed gracefully");
    }
}

/// Sections 8.6 and 9.3.2. The length of a stream is not known.
async fn responses_to_head_have_the_headers_of_get(backend: Backend) {
    let server = Server::start(backend).await;
    server.create_pets(2).await;
    let mut conn = Connection::open(&server).await;
    for path in ["/v1/pets", "/v1/pets/9", "/", "/docs", "/v1/openapi.json"] {
        let mut lengths = Vec::new();
        for method in ["HEAD", "GET"] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n");
            conn.send(&request).await;
            let head = conn.raw.read_until("\r\n\r\n").await;
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            lengths.push(length.unwrap().to_owned());
        }
        assert_eq!(lengths[0], lengths[1], "{path}");
        conn.raw.read_exactly(lengths[1].parse().unwrap()).await;
    }
    conn.send("HEAD /v1/events/stream HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
        .await;
    let head = conn.raw.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    conn.send("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
        .await;
    assert_eq!(conn.response(LIST).await.unwrap().status, 200);
}

/// Section 10.1.1.
async fn a_body_is_invited_if_the_client_waits_for_that(backend: Backend) {
    let server = Server::start(backend).await;
    let body = "{\"name\":\"A\",\"categoryId\":1}";
    let post = format!("Host: x\r\nKEY\r\nContent-Length: {}\r\n", body.len());
    let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    let invitation = "HTTP/1.1 100 Continue\r\n\r\n";
    let mut conn = Connection::open(&server).await;
    for expect in [
        "Expect: 100-continue",
        "expect: 100-Continue",
        "Expect: a, 100-continue",
        "Expect: 100-continue\r\nExpect: a",
    ] {
        // Also behind another request.
        conn.send(&format!(
            "{get}POST /v1/pets HTTP/1.1\r\n{post}{expect}\r\n\r\n"
        ))
        .await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200);
        assert_eq!(
            conn.raw.read_until("\r\n\r\n").await,
            invitation,
            "{expect:?}"
        );
        conn.send(body).await;
        assert_eq!(conn.raw.response().await.unwrap().status, 201);
    }
    // The body is there, the expectation is another, or there is no body.
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let expect = "Expect: 100-continue\r\n";
    for (request, status) in [
        (
            format!("POST /v1/pets HTTP/1.1\r\n{post}{expect}\r\n{body}"),
            201,
        ),
        (
            format!(
                "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n{expect}Transfer-Encoding: chunked\r\n\r\n{chunks}"
            ),
            201,
        ),
        (
            format!("POST /v1/pets HTTP/1.1\r\n{post}Expect: a\r\n\r\n{body}"),
            201,
        ),
        (
            format!("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n{expect}\r\n"),
            200,
        ),
    ] {
        conn.send(&request).await;
        assert_eq!(
            conn.raw.response().await.unwrap().status,
            status,
            "{request}"
        );
    }
    // HTTP/1.0 has no interim responses.
    conn.send(&format!("POST /v1/pets HTTP/1.0\r\n{post}{expect}\r\n"))
        .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    conn.send(body).await;
    assert_eq!(conn.raw.response().await.unwrap().status, 201);
    // A client that still waits might never send the body.
    let mut conn = Connection::open(&server).await;
    conn.send(&format!("POST /nowhere HTTP/1.1\r\n{post}{expect}\r\n"))
        .await;
    let response = conn.raw.response().await.unwrap();
    assert_eq!(response.header("connection"), Some("close"));
    conn.assert_closed().await;
}
