//! HTTP/1.1 (RFC 9112), in the order of its sections, on raw sockets. What a proxy in front of the
//! service could read differently is rejected, even where the RFC permits processing it.

use std::time::Duration;

use futures_util::future::join_all;
use support::Backend;

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        malformed_requests_get_an_error_body,
        versions_other_than_1_are_rejected,
        missing_repeated_and_invalid_hosts_get_400,
        ambiguous_targets_get_400,
        ambiguous_body_lengths_get_400,
        keep_alive_pipelining_and_chunked_bodies_work,
        half_closed_connections_get_their_response,
        a_rejected_upload_still_gets_its_response,
    ],
    SQLITE: [
        empty_lines_and_bare_line_feeds_are_accepted,
        requests_are_read_in_whatever_pieces_they_arrive,
        asterisk_and_authority_forms_have_their_methods,
        ambiguous_header_lines_get_400,
        whitespace_around_values_is_no_part_of_them,
        a_body_is_no_request_whatever_the_method,
        malformed_chunks_get_400,
        chunk_extensions_and_trailers_are_ignored,
        connections_persist_unless_an_option_closes_them,
        a_connection_that_closes_behind_an_unread_body_says_so,
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

/// Section 2.2.
async fn empty_lines_and_bare_line_feeds_are_accepted(backend: Backend) {
    let server = Server::start(backend).await;
    let mut conn = Connection::open(&server).await;
    let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    let bare = get.replace('\r', "");
    conn.send(&format!("\r\n\r\n{get}\r\n\n{bare}{get}")).await;
    for _ in 0..3 {
        assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    }
}

/// Sections 2.2 and 3.
async fn malformed_requests_get_an_error_body(backend: Backend) {
    let server = Server::start(backend).await;
    for text in [
        "garbage\r\n\r\n",
        "\0\0\0\0\0\r\n\r\n",
        "GET /v1/pets\r\n\r\n",
        "GET  /v1/pets HTTP/1.1\r\n\r\n",
        "GET /v1 /pets HTTP/1.1\r\n\r\n",
        "GET /v1/pets HTTP/1.1\r\nno colon\r\n\r\n",
        "GET /v1/pets HTTP/1.1\r\nBad Name: x\r\n\r\n",
        "GET /v1/pets HTTP/1.1\r\nHost: x\0y\r\n\r\n",
        "\rGET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/pets HTTP/1.1\rHost: x\r\n\r\n",
        "GET /v1/pets HTTP/1.1\r\nHost: x\rA: b\r\n\r\n",
    ] {
        let mut conn = Connection::open(&server).await;
        conn.send(text).await;
        let response = conn.last_response("GET /").await;
        response.assert_error(400, "invalid_request");
    }
    // Also when pipelined behind a valid request.
    let mut conn = Connection::open(&server).await;
    conn.send("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\ngarbage\r\n\r\n")
        .await;
    assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    conn.last_response("GET /")
        .await
        .assert_error(400, "invalid_request");
    assert_eq!(server.count_pets().await, 0);
}

/// Section 2.2: a request is a sequence of octets.
async fn requests_are_read_in_whatever_pieces_they_arrive(backend: Backend) {
    let server = Server::start(backend).await;
    let requests = format!(
        "\r\nPOST /v1/pets HTTP/1.2\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Transfer-Encoding: chunked\r\n\r\na;b=c\r\n{{\"name\":\"B\r\n11\r\n\",\"categoryId\":1}}\r\n\
         0\r\nA: b\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        server.key
    );
    let cuts = (1..requests.len()).map(async |cut| {
        let mut conn = Connection::open(&server).await;
        conn.raw.send(&requests[..cut]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        conn.raw.send(&requests[cut..]).await;
        let created = conn.raw.response().await.unwrap();
        assert_eq!(created.status, 201, "cut at {cut}: {}", created.text());
        let redirected = conn.raw.response().await.unwrap();
        assert_eq!(redirected.status, 307, "cut at {cut}");
        conn.assert_closed().await;
    });
    join_all(cuts).await;
}

/// Section 2.3; RFC 9110, section 2.5.
async fn versions_other_than_1_are_rejected(backend: Backend) {
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

/// Section 3.2.
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

/// Section 3.2; RFC 9110, section 4.2.4.
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

/// Sections 3.2.3 and 3.2.4. What follows a CONNECT could be meant for the host.
async fn asterisk_and_authority_forms_have_their_methods(backend: Backend) {
    let server = Server::start(backend).await;
    let mut conn = Connection::open(&server).await;
    conn.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert_eq!(conn.raw.response().await.unwrap().status, 404);
    conn.send(&format!(
        "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n{SMUGGLED}"
    ))
    .await;
    let response = conn.raw.response().await.unwrap();
    assert_eq!(response.status, 404);
    assert_eq!(response.header("connection"), Some("close"));
    conn.assert_closed().await;
    assert_eq!(server.count_pets().await, 0);
}

/// Sections 5.1 and 5.2.
async fn ambiguous_header_lines_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    for line in [
        "A : b",
        "A\t: b",
        " A: b",
        "A: b\r\n c",
        "A: b\r\n\tc",
        "A: b\n c",
        ": b",
        "A",
        "A(b): c",
        "\u{e4}: b",
        "A: b\u{1}",
        "A: b\u{7f}",
    ] {
        for headers in [format!("Host: x\r\n{line}"), format!("{line}\r\nHost: x")] {
            let request = format!("GET /v1/pets HTTP/1.1\r\n{headers}\r\nKEY\r\n\r\n");
            assert_rejected(&server, &request, 400, "invalid_request").await;
        }
    }
}

/// Section 5; RFC 9110, section 5.5.
async fn whitespace_around_values_is_no_part_of_them(backend: Backend) {
    let server = Server::start(backend).await;
    let mut conn = Connection::open(&server).await;
    for line in ["X-Request-Id:a", "x-request-id: a", "X-REQUEST-ID:\t a \t"] {
        let others = "Empty:\r\nA: \u{e4}\tb";
        conn.send(&format!(
            "GET /v1/pets HTTP/1.1\r\nHost: x\r\n{others}\r\n{line}\r\nKEY\r\n\r\n"
        ))
        .await;
        let response = conn.response(LIST).await.unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(response.header("x-request-id"), Some("a"), "{line:?}");
    }
}

/// Sections 6.1 to 6.3.
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
        "Content-Length: abc",
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
        "000000000000000000001",
        &"9".repeat(1000),
    ] {
        let request =
            format!("POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: {length}\r\n\r\n");
        assert_rejected(&server, &request, 413, "body_too_large").await;
    }
}

/// Section 6.
async fn a_body_is_no_request_whatever_the_method(backend: Backend) {
    let server = Server::start(backend).await;
    let key = format!("Authorization: Bearer {}", server.key);
    let body = SMUGGLED.replace("KEY", &key);
    let length = body.len();
    for method in ["GET", "POST", "DELETE", "OPTIONS", "FOO"] {
        let mut conn = Connection::open(&server).await;
        let start = format!("{method} /nowhere HTTP/1.1\r\nHost: x");
        let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
        conn.send(&format!(
            "{start}\r\nContent-Length: {length}\r\n\r\n{body}\
             {start}\r\nTransfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n{get}"
        ))
        .await;
        for status in [404, 404, 200] {
            let response = conn.raw.response().await.unwrap();
            assert_eq!(response.status, status, "{method}");
        }
    }
    assert_eq!(server.count_pets().await, 0);
}

/// Section 7.1.
async fn malformed_chunks_get_400(backend: Backend) {
    let server = Server::start(backend).await;
    for body in [
        "not a size\r\n",
        "\r\n",
        "1g\r\na\r\n0\r\n\r\n",
        "+1\r\na\r\n0\r\n\r\n",
        "-1\r\na\r\n0\r\n\r\n",
        " 1\r\na\r\n0\r\n\r\n",
        "1 \r\na\r\n0\r\n\r\n",
        "0x1\r\na\r\n0\r\n\r\n",
        "1_0\r\na\r\n0\r\n\r\n",
        "10000000000000001\r\na\r\n0\r\n\r\n",
        "00000000000000001\r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n",
        "1\r\na\n0\r\n\r\n",
        "1\r\nab\r\n0\r\n\r\n",
        "1\r\na\r\n0\n\r\n",
        "1;a\nb\r\na\r\n0\r\n\r\n",
        "1;a\rb\r\na\r\n0\r\n\r\n",
        "1\r\na\r\n0\r\nno colon\r\n\r\n",
        "1\r\na\r\n0\r\nA: b\r\n c\r\n\r\n",
        "1\r\na\r\n0\r\n\n",
    ] {
        let request = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
        );
        assert_rejected(&server, &request, 400, "invalid_request").await;
    }
}

/// Sections 7.1.1 and 7.1.2. A trailer is no header.
async fn chunk_extensions_and_trailers_are_ignored(backend: Backend) {
    let server = Server::start(backend).await;
    let mut conn = Connection::open(&server).await;
    let start = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked";
    let chunks = "0a;a;b=c;d=\"e f\"\r\n{\"name\":\"B\r\n11\r\n\",\"categoryId\":1}\r\n000;a\r\n";
    let trailer = "KEY\r\nContent-Length: 1\r\nConnection: close";
    conn.send(&format!("{start}\r\nKEY\r\n\r\n{chunks}A: b\r\n\r\n"))
        .await;
    assert_eq!(conn.raw.response().await.unwrap().status, 201);
    for _ in 0..2 {
        conn.send(&format!("{start}\r\n\r\n{chunks}{trailer}\r\n\r\n"))
            .await;
        let response = conn.response("POST /v1/pets").await.unwrap();
        response.assert_error(401, "missing_api_key");
    }
}

/// Section 9.3; RFC 9110, section 7.6.1. The service labels its responses HTTP/1.1, also
/// for clients with HTTP/1.0 (RFC 9110, section 2.5).
async fn connections_persist_unless_an_option_closes_them(backend: Backend) {
    let server = Server::start(backend).await;
    for (version, options, expected) in [
        ("1.1", "", None),
        ("1.1", "Connection: keep-alive\r\n", None),
        ("1.1", "Connection: closed, x-close\r\n", None),
        ("1.1", "Connection: close\r\n", Some("close")),
        ("1.1", "connection:x ,\tCLOSE , y\r\n", Some("close")),
        (
            "1.1",
            "Connection: x\r\nConnection: close\r\n",
            Some("close"),
        ),
        ("1.0", "", Some("close")),
        ("1.0", "Connection: x\r\n", Some("close")),
        ("1.0", "Connection: keep-alive, close\r\n", Some("close")),
        ("1.0", "Connection: Keep-Alive\r\n", Some("keep-alive")),
    ] {
        let mut conn = Connection::open(&server).await;
        let request = format!("GET /v1/pets HTTP/{version}\r\nHost: x\r\nKEY\r\n{options}\r\n");
        // What follows on a connection that closes is not read.
        conn.send(&format!("{request}{SMUGGLED}")).await;
        assert_eq!(conn.raw.read_until("HTTP/1.1 ").await, "HTTP/1.1 ");
        let head = conn.raw.read_until("\r\n\r\n").await;
        let mut lines = head.lines();
        let connection = lines.find_map(|line| line.strip_prefix("connection: "));
        assert_eq!(connection, expected, "{version} {options:?}");
        conn.raw.read_until("]").await;
        if expected == Some("close") {
            conn.assert_closed().await;
        } else {
            assert_eq!(conn.raw.response().await.unwrap().status, 201);
        }
    }
}

/// Section 9.3.2.
async fn keep_alive_pipelining_and_chunked_bodies_work(backend: Backend) {
    let server = Server::start(backend).await;
    let mut conn = Connection::open(&server).await;
    for _ in 0..3 {
        conn.send("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
            .await;
        assert_eq!(conn.response(LIST).await.unwrap().status, 200);
    }
    // Pipelining: responses come in the order of the requests.
    let body = r#"{"name":"A","categoryId":1}"#;
    let create = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let list = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    let unauthenticated = "GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n";
    conn.send(&format!("{create}{list}{unauthenticated}{list}"))
        .await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let request = if statuses.is_empty() {
            "POST /v1/pets"
        } else {
            LIST
        };
        statuses.push(conn.response(request).await.unwrap().status);
    }
    assert_eq!(statuses, [201, 200, 401, 200]);
    // One byte per write, with a chunked body.
    let chunked = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nTransfer-Encoding: chunked\r\n\r\n\
                   a\r\n{\"name\":\"B\r\n11\r\n\",\"categoryId\":1}\r\n0\r\n\r\n";
    let key = format!("Authorization: Bearer {}", server.key);
    for byte in chunked.replace("KEY", &key).bytes() {
        conn.raw.send([byte]).await;
    }
    assert_eq!(
        conn.response("POST /v1/pets").await.unwrap().json()["name"],
        "B"
    );
}

/// Section 9.6. A client may half-close (FIN) after its request and still read the response.
async fn half_closed_connections_get_their_response(backend: Backend) {
    let server = Server::start(backend).await;
    let body = r#"{"name":"A","categoryId":1}"#;
    for _ in 0..20 {
        let mut conn = Connection::open(&server).await;
        let length = body.len();
        conn.send(&format!(
            "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        conn.raw.shutdown_write().await;
        assert_eq!(conn.last_response("POST /v1/pets").await.status, 201);
    }
    assert_eq!(server.count_pets().await, 20);
}

/// Section 9.6. A client that sends its whole body before it reads must see the 413, not a TCP
/// reset: the service lingers and discards the body before it closes.
async fn a_rejected_upload_still_gets_its_response(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..5 {
        let mut conn = Connection::open(&server).await;
        conn.send("POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nContent-Length: 500000\r\n\r\n")
            .await;
        conn.send(&"x".repeat(500_000)).await;
        let response = conn.last_response("POST /v1/pets").await;
        response.assert_error(413, "body_too_large");
    }
    // With `Expect: 100-continue` the client learns of the error before it sends the body.
    let mut conn = Connection::open(&server).await;
    let head = "POST /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\nExpect: 100-continue\r\nContent-Length: 500000\r\n\r\n";
    conn.send(head).await;
    let response = conn.response("POST /v1/pets").await.unwrap();
    response.assert_error(413, "body_too_large");
}

/// Section 9.6: a body that is too long to be skipped ends the connection, and the response
/// says so if the length is known.
async fn a_connection_that_closes_behind_an_unread_body_says_so(backend: Backend) {
    let server = Server::start(backend).await;
    let post = "POST /nowhere HTTP/1.1\r\nHost: x\r\n";
    let get = "GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n";
    for (length, closes) in [
        (0, false),
        (1, false),
        (65_536, false),
        (65_537, true),
        (70_000, true),
    ] {
        let body = "x".repeat(length);
        let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}");
        let end = if length == 0 { "\r\n" } else { "\r\n0\r\n\r\n" };
        for body in [
            format!("Content-Length: {length}\r\n\r\n{body}"),
            format!("{chunked}{end}"),
        ] {
            let mut conn = Connection::open(&server).await;
            conn.send(&format!("{post}{body}{get}")).await;
            let response = conn.raw.response().await.unwrap();
            assert_eq!(response.status, 404);
            let expected = closes.then_some("close");
            assert_eq!(response.header("connection"), expected, "{length} bytes");
            if closes {
                conn.assert_closed().await;
            } else {
                assert_eq!(conn.response(LIST).await.unwrap().status, 200);
            }
        }
    }
}
