use super::*;

fn head(text: &str) -> Result<Option<Head>, Rejection> {
    take(&mut text.into(), &mut 0)
}

fn rejection(text: &str) -> Option<Rejection> {
    head(text).err()
}

#[test]
fn a_head_is_taken_when_its_last_byte_has_arrived() {
    for text in [
        "GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n",
        "\r\n\r\nGET /a?b HTTP/1.1\nHost: x\n\n",
    ] {
        let mut received = BytesMut::new();
        let mut scanned = 0;
        for (at, byte) in text.bytes().enumerate() {
            received.extend_from_slice(&[byte]);
            let taken = take(&mut received, &mut scanned).unwrap();
            assert_eq!(taken.is_some(), at == text.len() - 1, "{text:?} at {at}");
        }
        assert!(received.is_empty());
    }
}

#[test]
fn what_follows_a_head_stays() {
    let mut received = BytesMut::from("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /next");
    let taken = take(&mut received, &mut 0).unwrap().unwrap();
    assert_eq!(taken.parts.uri, "/");
    assert_eq!(taken.parts.headers[header::HOST], "x");
    assert_eq!(received, "GET /next");
}

#[test]
fn later_minor_versions_are_1_1_and_other_major_versions_are_rejected() {
    for (version, expected) in [
        ("1.0", Version::HTTP_10),
        ("1.1", Version::HTTP_11),
        ("1.2", Version::HTTP_11),
        ("1.9", Version::HTTP_11),
    ] {
        let head = head(&format!("GET / HTTP/{version}\r\n\r\n"));
        assert_eq!(head.unwrap().unwrap().parts.version, expected);
    }
    for version in ["0.9", "2.0", "3.0"] {
        let text = format!("GET / HTTP/{version}\r\n");
        assert_eq!(rejection(&text), Some(Rejection::UnsupportedVersion));
    }
}

#[test]
fn a_wrong_request_line_is_rejected_before_the_rest_arrives() {
    for text in [
        "GET /\r\n",
        "HELO mail\r\n",
        "GET / HTTP/1.10\r\n",
        "GET / http/1.1\r\n",
        "\u{16}\u{3}\u{1}",
        "\0",
        "\u{e4}",
    ] {
        assert_eq!(
            rejection(text),
            Some(Rejection::MalformedRequest),
            "{text:?}"
        );
    }
}

#[test]
fn heads_have_a_maximum_size_and_number_of_headers() {
    let sized = |size: usize| {
        let start = "GET / HTTP/1.1\r\nX: ";
        format!("{start}{}\r\n\r\n", "x".repeat(size - start.len() - 4))
    };
    assert!(head(&sized(MAX_HEAD_BYTES)).unwrap().is_some());
    for text in [
        sized(MAX_HEAD_BYTES + 1),
        // Incomplete, on its first line and behind it.
        "x".repeat(MAX_HEAD_BYTES),
        sized(MAX_HEAD_BYTES + 4)[..MAX_HEAD_BYTES].into(),
        format!(
            "GET / HTTP/1.1\r\n{}\r\n",
            "X: y\r\n".repeat(MAX_HEADERS + 1)
        ),
    ] {
        assert_eq!(rejection(&text), Some(Rejection::HeadTooLarge));
    }
    let most = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS));
    assert!(head(&most).unwrap().is_some());
}

#[test]
fn headers_decide_on_the_body_and_the_connection() {
    let head = |line: &str, headers: &str| head(&format!("{line}\r\n{headers}\r\n")).unwrap();
    let facts = |head: Option<Head>| {
        let head = head.unwrap();
        (head.framing, head.keeps_alive, head.expects_continue)
    };
    let none = || Framing::Length(0);
    for (headers, expected) in [
        ("", (none(), true, false)),
        ("Content-Length: 0\r\n", (none(), true, false)),
        ("content-length:007\r\n", (Framing::Length(7), true, false)),
        (
            "Transfer-Encoding: CHUNKED\r\n",
            (Framing::chunked(), true, false),
        ),
        ("Connection: a, Close\r\n", (none(), false, false)),
        (
            "Connection: a\r\nConnection: close\r\n",
            (none(), false, false),
        ),
        (
            "Connection: Upgrade\r\nUpgrade: h2c\r\n",
            (none(), true, false),
        ),
        (
            "Expect: 100-Continue\r\nContent-Length: 1\r\n",
            (Framing::Length(1), true, true),
        ),
        (
            "Expect: a, 100-continue\r\nExpect: b\r\nContent-Length: 1\r\n",
            (Framing::Length(1), true, true),
        ),
        // There is no body to send.
        ("Expect: 100-continue\r\n", (none(), true, false)),
        (
            "Expect: other\r\nContent-Length: 1\r\n",
            (Framing::Length(1), true, false),
        ),
    ] {
        assert_eq!(
            facts(head("GET / HTTP/1.1", headers)),
            expected,
            "{headers:?}"
        );
    }
    for (headers, expected) in [
        ("", (none(), false, false)),
        ("Connection: keep-alive\r\n", (none(), true, false)),
        ("Connection: keep-alive, close\r\n", (none(), false, false)),
        (
            "Expect: 100-continue\r\nContent-Length: 1\r\n",
            (Framing::Length(1), false, false),
        ),
    ] {
        assert_eq!(
            facts(head("GET / HTTP/1.0", headers)),
            expected,
            "{headers:?}"
        );
    }
    assert!(!head("CONNECT x:80 HTTP/1.1", "").unwrap().keeps_alive);
}

#[test]
fn ambiguous_requests_are_rejected() {
    for (headers, expected) in [
        (
            "Content-Length: 1\r\nContent-Length: 1",
            Rejection::InvalidFraming,
        ),
        ("Content-Length: 1, 1", Rejection::InvalidFraming),
        ("Content-Length: +1", Rejection::InvalidFraming),
        ("Content-Length:", Rejection::InvalidFraming),
        (
            "Content-Length: 18446744073709551616",
            Rejection::BodyTooLarge,
        ),
        (
            "Content-Length: 000000000000000000001",
            Rejection::BodyTooLarge,
        ),
        (
            "Transfer-Encoding: gzip, chunked",
            Rejection::InvalidFraming,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            Rejection::InvalidFraming,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 1",
            Rejection::InvalidFraming,
        ),
        (
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            Rejection::InvalidFraming,
        ),
        ("A : b", Rejection::MalformedRequest),
        ("A: b\r\n c", Rejection::MalformedRequest),
        ("A: b\0c", Rejection::MalformedRequest),
        ("A: b\rc", Rejection::MalformedRequest),
        ("no colon", Rejection::MalformedRequest),
    ] {
        let text = format!("POST / HTTP/1.1\r\n{headers}\r\n\r\n");
        assert_eq!(rejection(&text), Some(expected), "{headers:?}");
    }
    let chunked = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(rejection(chunked), Some(Rejection::InvalidFraming));
    let fragment = "GET /a#b HTTP/1.1\r\n\r\n";
    assert_eq!(rejection(fragment), Some(Rejection::InvalidTarget));
}
