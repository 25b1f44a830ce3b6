//! Tests the scanner's findings, however the bytes are split into reads. That hyper treats
//! such requests as described is tested over real sockets in `tests/api/strictness.rs`.

use super::*;

/// Returns the number and reason of the first request to reject, and the text that hyper reads.
fn scan(text: &str, read_size: usize) -> (Option<(u64, Rejection)>, String) {
    let findings = Arc::new(Findings::default());
    let mut scanner = HeadScanner::new(findings.clone());
    let mut bytes = text.as_bytes().to_vec();
    for mut read in bytes.chunks_mut(read_size) {
        while !read.is_empty() {
            let scanned = scanner.scan(read);
            read = &mut read[scanned..];
        }
    }
    let found = findings.rejection.get().copied();
    (found, String::from_utf8(bytes).unwrap())
}

#[test]
fn the_first_request_to_reject_is_found() {
    use Rejection::*;
    let length = "POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\nPOST /#a HTTP/1.1\r\n\r\n";
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
                   14;a=b\r\nGET /#a HTTP/2.0\r\n\r\n\r\n0\r\nA: b\r\n\r\n";
    let valid = format!("\r\nGET / HTTP/1.1\r\nHost: a#b\r\n\r\n{length}{chunked}");
    for (request, rejection) in [
        ("GET / HTTP/1.0\nHost: a\n\n", None),
        ("GET /a#b HTTP/1.1\r\n\r\n", Some(InvalidTarget)),
        ("G#T / HTTP/1.1\r\n\r\n", None),
        ("GET / HTTP/2.0\r\n\r\n", Some(UnsupportedVersion)),
        ("GET / HTTP/0.9\r\n\r\n", Some(UnsupportedVersion)),
        ("GET / HTTP/1.9\r\n\r\n", None),
        ("GET / HTTP/x.y\r\n\r\n", None),
        (
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Some(InvalidFraming),
        ),
        (
            "GET / HTTP/1.1\r\ntransfer-encoding:chunked\r\ncontent-length:1\r\n\r\n",
            Some(InvalidFraming),
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            Some(InvalidFraming),
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n",
            Some(BodyTooLarge),
        ),
        (
            "GET / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
            Some(BodyTooLarge),
        ),
        ("GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nContent-Length: a\r\n\r\n", None),
        ("GET / HTTP/1.1\r\nno colon\r\n\r\n", None),
    ] {
        for read_size in [1, 2, 3, 7, 1000] {
            let (found, _) = scan(request, read_size);
            assert_eq!(found, rejection.map(|reason| (0, reason)), "{request:?}");
            let (found, _) = scan(&format!("{valid}{request}"), read_size);
            assert_eq!(found, rejection.map(|reason| (3, reason)), "{request:?}");
        }
    }
}

/// The bytes may be split anywhere, and lines may end in either way.
#[test]
fn the_end_of_a_request_is_found_in_pieces() {
    for request in [
        "GET / HTTP/1.1\r\nA: b\r\n\r\n",
        "GET / HTTP/1.1\nA: b\n\n",
        "GET / HTTP/1.1\r\nA: \r\r\n\n",
        "\r\n\n\r\nGET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 8\r\n\r\n\r\n\r\n\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n",
    ] {
        let bytes = format!("{request}GET / HTTP/1.1\r\n").into_bytes();
        for read_size in 1..=bytes.len() {
            let mut scanner = HeadScanner::new(Arc::default());
            let mut end = 0;
            for read in bytes.clone().chunks_mut(read_size) {
                end += scanner.scan(read);
                if scanner.request == 1 && scanner.next == Next::RequestLine {
                    break;
                }
            }
            assert_eq!(end, request.len(), "{request:?} in pieces of {read_size}");
        }
    }
}

#[test]
fn a_later_minor_version_is_read_as_http_1_1() {
    for (line, expected) in [
        ("GET / HTTP/1.2\r\n", "GET / HTTP/1.1\r\n"),
        ("GET / HTTP/1.9\n", "GET / HTTP/1.1\n"),
        ("GET / HTTP/1.0\r\n", "GET / HTTP/1.0\r\n"),
        ("GET / HTTP/2.2\r\n", "GET / HTTP/2.2\r\n"),
        ("GET /HTTP/1.2\r\n", "GET /HTTP/1.2\r\n"),
    ] {
        for read_size in [1, 2, 3, 1000] {
            let body = "Content-Length: 16\r\n\r\nGET / HTTP/1.2\r\n";
            let (_, read) = scan(&format!("{line}{body}{line}"), read_size);
            assert_eq!(read, format!("{expected}{body}{expected}"));
        }
    }
}

#[test]
fn upgrades_are_hidden_from_hyper() {
    for (header, expected) in [
        ("Upgrade: h2c", "Upgrad_: h2c"),
        ("UPGRADE:h2c", "UPGRAD_:h2c"),
        (
            "upgrade-insecure-requests: 1",
            "upgrad_-insecure-requests: 1",
        ),
        ("Upgrad: h2c", "Upgrad: h2c"),
        ("X-Upgrade: h2c", "X-Upgrade: h2c"),
        ("X: Upgrade: h2c", "X: Upgrade: h2c"),
    ] {
        let request = |header| {
            let body = "Upgrade: h2c\r\n";
            format!("GET / HTTP/1.1\r\n{header}\r\nContent-Length: 14\r\n\r\n{body}")
        };
        for read_size in 1..30 {
            let (_, read) = scan(&request(header), read_size);
            assert_eq!(read, request(expected), "in pieces of {read_size}");
        }
    }
}

/// hyper accepts any number of zeros before a chunk size.
#[test]
fn no_request_is_accepted_behind_a_body_that_is_not_understood() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for size in [
        "x",
        "",
        &"0".repeat(2 * MAX_HEAD_BYTES),
        "1\r\nab",
        "0\r\nA: b\n\n",
        "1\n",
    ] {
        for read_size in [1000, MAX_HEAD_BYTES] {
            let (found, _) = scan(&format!("{head}{size}\r\n"), read_size);
            assert_eq!(found, Some((1, Rejection::InvalidFraming)));
        }
    }
}

/// A line without an end is not kept beyond what hyper accepts.
#[test]
fn an_endless_line_is_not_kept() {
    let mut scanner = HeadScanner::new(Arc::default());
    for _ in 0..1000 {
        scanner.scan(&mut [b'a'; 1000]);
        assert!(scanner.partial_line.len() <= MAX_HEAD_BYTES);
    }
}
