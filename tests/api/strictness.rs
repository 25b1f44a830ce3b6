//! Requests that a proxy in front of the service could read differently are rejected
//! (RFC 9110, RFC 9112, RFC 9113), on raw sockets.

use http::Version;
use support::{
    Backend,
    http2::{
        DATA, EMPTY_SETTINGS, END_HEADERS, END_STREAM, HEADERS, PREFACE, RST_STREAM, frame, frames,
        literal_header,
    },
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        missing_repeated_and_invalid_hosts_get_400,
        ambiguous_body_lengths_get_400,
        ambiguous_targets_get_400,
        http_versions_follow_rfc_9112,
        http2_authorities_are_checked,
    ],
}

const LIST: &str = "GET /v1/pets";
/// A request that must not be executed.
const SMUGGLED: &str = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 27\r\n\r\n\
                        {\"name\":\"A\",\"categoryId\":1}";

/// Sends a request, on its own and behind a valid one, and asserts that it is the last
/// one on its connection.
async fn assert_rejected(server: &Server, request: &str, status: u16, code: &str) {
    let valid = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    for before in ["", valid] {
        let mut conn = Connection::open(server).await;
        conn.send(&format!("{before}{request}{SMUGGLED}")).await;
        if !before.is_empty() {
            assert_eq!(conn.response(LIST).await.unwrap().status, 200);
        }
        let response = conn.response("GET /").await.expect(request);
        assert_eq!(response.status, status, "{request:?}: {}", response.text());
        response.assert_error(status, code);
        assert_eq!(response.header("connection"), Some("close"), "{request:?}");
        conn.assert_closed().await;
    }
    assert_eq!(server.count_pets().await, 0, "{request:?}");
}

async fn missing_repeated_and_invalid_hosts_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    // Also without a key: what is no valid HTTP is not authenticated.
    for headers in [
        "KEY",
        "A: b",
        "Host: x\r\nHost: x\r\nKEY",
        "Host: x\r\nKEY\r\nHost: y",
        "Host:\r\nKEY",
        "Host: a b\r\nKEY",
        "Host: a/b\r\nKEY",
        "Host: user@a\r\nKEY",
        "Host: a:port\r\nKEY",
        "Host: [::1\r\nKEY",
        "Host: a, b\r\nKEY",
        "Host: \u{e4}\r\nKEY",
    ] {
        let request = format!("GET /v1/pets HTTP/1.1\r\n{headers}\r\n\r\n");
        assert_rejected(&server, &request, 400, "invalid_request").await;
    }
    for host in ["Host: x\r\nHost: x", "Host: a b"] {
        let request = format!("GET /v1/pets HTTP/1.0\r\n{host}\r\nKEY\r\n\r\n");
        assert_rejected(&server, &request, 400, "invalid_request").await;
    }
    let mut conn = Connection::open(&server).await;
    for host in ["x", "X.example:80", "127.0.0.1", "[::1]:8080", "my_shop"] {
        conn.send(&format!(
            "GET /v1/pets HTTP/1.1\r\nHost: {host}\r\nKEY\r\n\r\n"
        ))
        .await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200, "{host}");
    }
}

async fn ambiguous_body_lengths_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    for headers in [
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        " Transfer-Encoding: chunked",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nContent-Length: 0",
        "Transfer-Encoding: chunked\r\nContent-Length: abc",
        "Transfer-Encoding: chunked\r\nContent-Length: 5, 5",
        "Transfer-Encoding: chunked\r\nContent-Length:",
        "Content-Length: 0\r\nContent-Length: 0",
        "Content-Length: 1\r\nContent-Length: 2",
        "Content-Length: 0, 0",
        "Content-Length: +0",
        "Content-Length: 0x0",
        "Content-Length: -1",
        "Content-Length:",
        "Content-Length: 1 1",
        "Content-Length: \u{663}",
    ] {
        for method in ["POST", "GET"] {
            let request = format!(
                "{method} /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n{headers}\r\n\r\n0\r\n\r\n"
            );
            assert_rejected(&server, &request, 400, "invalid_request").await;
        }
    }
    let request = "POST /v1/pets HTTP/1.0\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_rejected(&server, request, 400, "invalid_request").await;
    for length in [
        "18446744073709551613",
        "18446744073709551615",
        "18446744073709551616",
        &"9".repeat(1000),
    ] {
        let request =
            format!("POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: {length}\r\n\r\n");
        assert_rejected(&server, &request, 413, "body_too_large").await;
    }
}

async fn ambiguous_targets_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    for target in [
        "/v1/pets#a",
        "/v1/pets?limit=1#a",
        "/#",
        "http://x/v1/pets#a",
        "http://user@x/v1/pets",
        "http://user:password@x/v1/pets",
        "http://@x/v1/pets",
        "http://x y/v1/pets",
        "http:///v1/pets",
        "ftp://x/v1/pets",
        "v1/pets",
        "x:80",
        "*",
        "/v1/pets\\\u{1}",
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n");
        assert_rejected(&server, &request, 400, "invalid_request").await;
    }
    // In absolute form, the target names the host, and Host is ignored.
    let mut conn = Connection::open(&server).await;
    for target in ["http://x/v1/pets", "https://y:8080/v1/pets?limit=1"] {
        conn.send(&format!("GET {target} HTTP/1.1\r\nHost: z\r\nKEY\r\n\r\n"))
            .await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200, "{target}");
    }
}

async fn http_versions_follow_rfc_9112(backend: Backend) {
    let server = Server::start(backend).await;
    for version in ["2.0", "3.0", "0.9", "9.9"] {
        let request = format!("GET /v1/pets HTTP/{version}\r\nHost: x\r\nKEY\r\n\r\n");
        assert_rejected(&server, &request, 505, "http_version_not_supported").await;
    }
    for version in [
        "HTTP/1",
        "HTTP/1.",
        "HTTP/1.1.1",
        "HTTP/1.10",
        "http/1.1",
        "HTTP/x.y",
        "FTP/1.1",
    ] {
        let request = format!("GET /v1/pets {version}\r\nHost: x\r\nKEY\r\n\r\n");
        assert_rejected(&server, &request, 400, "invalid_request").await;
    }
    // A later minor version is read as HTTP/1.1, however it arrives.
    let mut conn = Connection::open(&server).await;
    for version in ["1.2", "1.9"] {
        let request = format!("GET /v1/pets HTTP/{version}\r\nHost: x\r\nKEY\r\n\r\n");
        conn.send(&request).await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200);
        let (line, headers) = request.split_once('\n').unwrap();
        for byte in line.bytes().chain([b'\n']) {
            conn.raw.send([byte]).await;
        }
        conn.send(headers).await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    }
    // It needs a Host, like HTTP/1.1.
    let request = "GET /v1/pets HTTP/1.2\r\nKEY\r\n\r\n";
    assert_rejected(&server, request, 400, "invalid_request").await;
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

async fn http2_authorities_are_checked(backend: Backend) {
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
