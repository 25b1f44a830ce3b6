//! Hostile requests: valid ones with mutations, and generated paths, headers, JSON
//! documents and HTTP/2 frames.

use rand::{RngExt, rngs::StdRng};
use support::http2::{
    self, DATA, EMPTY_SETTINGS, END_HEADERS, END_STREAM, HEADERS as HEAD, PREFACE, literal_header,
};

/// Bytes for one connection.
pub struct HostileInput {
    pub bytes: Vec<u8>,
    pub protocol: Protocol,
    /// The number of requests it was made from.
    pub requests: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

pub fn generate(random: &mut StdRng, key: &str) -> HostileInput {
    if random.random_ratio(1, 5) {
        return http2(random, key);
    }
    let requests = random.random_range(1..=4);
    let mut bytes = Vec::new();
    for _ in 0..requests {
        bytes.extend(http1(random, key));
    }
    if random.random_ratio(1, 3) {
        mutate(random, &mut bytes);
    }
    HostileInput {
        bytes,
        protocol: Protocol::Http1,
        requests,
    }
}

const METHODS: &[&str] = &[
    "GET", "GET", "GET", "POST", "POST", "PATCH", "HEAD", "PUT", "DELETE", "OPTIONS", "CONNECT",
    "TRACE", "BREW", "get",
];

const TARGETS: &[&str] = &[
    "/v1/pets",
    "/v1/pets",
    "/v1/pets?limit=2&status=available",
    "/v1/pets?cursor=AnAAAAAAAAAAAAAAAAH9JvF4",
    "/v1/pets/1",
    "/v1/store/orders",
    "/v1/store/orders/1",
    "/v1/store/orders/1/complete",
    "/v1/store/orders/1/cancel",
    "/v1/store/orders/1/return",
    "/v1/categories",
    "/v1/categories/-1",
    "/v1/store/inventory",
    "/v1/events?limit=2&types=pet.created",
    "/v1/openapi.json",
    "/healthz",
    "/",
    "/docs",
    "*",
    "http://x/v1/pets",
    "http://user@x/v1/pets",
    "x:80",
];

/// Operations, which most requests are for. `N` becomes a small number.
const OPERATIONS: &[(&str, &str)] = &[
    ("GET", "/v1/pets"),
    ("GET", "/v1/pets?limit=2&status=available"),
    ("GET", "/v1/pets?cursor=AnAAAAAAAAAAAAAAAAH9JvF4"),
    ("HEAD", "/v1/pets"),
    ("POST", "/v1/pets"),
    ("POST", "/v1/pets"),
    ("GET", "/v1/pets?name=re&sort=desc&categoryId=1"),
    ("GET", "/v1/pets?id=1,N&status=sold"),
    ("GET", "/v1/pets/N"),
    ("PATCH", "/v1/pets/N"),
    ("DELETE", "/v1/pets/N"),
    ("GET", "/v1/categories?limit=1"),
    ("PUT", "/v1/categories/N"),
    ("DELETE", "/v1/categories/N"),
    ("GET", "/v1/store/inventory"),
    ("GET", "/v1/events?limit=3&subject=pets/N"),
    ("GET", "/v1/events?after=evt_AQAAAAAAAAAJ5l4wFyTHhJuBh9G5"),
    ("GET", "/v1/store/orders"),
    ("GET", "/v1/store/orders?petId=N&sort=desc"),
    ("POST", "/v1/store/orders"),
    ("POST", "/v1/store/orders"),
    ("GET", "/v1/store/orders/N"),
    ("POST", "/v1/store/orders/N/complete"),
    ("POST", "/v1/store/orders/N/cancel"),
    ("POST", "/v1/store/orders/N/return"),
];

/// Headers with values that mean something.
const HEADERS: &[(&str, &str)] = &[
    ("Authorization", "Bearer psk_x"),
    ("Content-Type", "application/json"),
    ("Content-Type", "text/plain"),
    ("Content-Encoding", "gzip"),
    ("Expect", "100-continue"),
    ("If-Match", "*"),
    ("If-Match", "\"x\""),
    ("If-None-Match", "*"),
    ("If-None-Match", "W/\"x\", \"y\""),
    ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("Range", "bytes=0-1"),
    ("Accept", "text/html"),
    ("Accept-Encoding", "gzip;q=0.5, br"),
    ("Accept-Encoding", "gzip, zstd"),
    ("Idempotency-Key", "a"),
    ("X-Request-Id", "a"),
    ("X-Forwarded-For", "1.2.3.4"),
    ("Origin", "https://shop.example"),
    ("Access-Control-Request-Method", "POST"),
    ("Prefer", "handling=strict"),
    ("Cookie", "a=b"),
    ("TE", "trailers"),
];

/// Headers that decide how a request is read.
const FRAMING: &[(&str, &str)] = &[
    ("Host", "y"),
    ("Content-Length", "3"),
    ("Transfer-Encoding", "chunked"),
    ("Connection", "close"),
    ("Connection", "keep-alive, Upgrade"),
    ("Upgrade", "h2c"),
    ("HTTP2-Settings", "AAMAAABkAAQAoAAAAAIAAAAA"),
    ("Trailer", "Host"),
];

/// Text that parsers stumble over.
const TOKENS: &[&str] = &[
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "=",
    "\"",
    "\\",
    "%",
    "%00",
    "%25",
    "%2525",
    "%70sk_",
    "psk_",
    "#",
    "?",
    "&",
    "@",
    "*",
    "..",
    "//",
    "/../",
    "chunked",
    "identity",
    "gzip",
    "close",
    "keep-alive",
    "100-continue",
    "h2c",
    "W/\"",
    "application/json",
    "charset=utf-8",
    "Bearer ",
    "0",
    "-1",
    "1",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "HTTP/1.1",
    "HTTP/1.0",
    "HTTP/1.2",
    "HTTP/2.0",
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Host: y\r\n",
    "\u{feff}",
    "\u{2028}",
    "é",
    "\u{10ffff}",
    "ud800",
    "{",
    "}",
    "[",
    "]",
    "null",
    "true",
];

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

/// A method and a target, mostly of an operation.
fn operation(random: &mut StdRng) -> (&'static str, Vec<u8>) {
    let (method, target) = if random.random_ratio(3, 4) {
        pick(random, OPERATIONS)
    } else {
        (pick(random, METHODS), pick(random, TARGETS))
    };
    let number = random.random_range(1..20).to_string();
    let mut target = target.replace('N', &number).into_bytes();
    if random.random_ratio(1, 6) {
        let mut more = line(random);
        more.retain(|byte| *byte != b' ');
        target.extend(more);
    }
    (method, target)
}

/// A few headers, mostly with a value that means something.
fn headers(random: &mut StdRng) -> Vec<(&'static str, Vec<u8>)> {
    let count = random.random_range(0..3);
    let header = |_| {
        let (name, value) = if random.random_ratio(1, 12) {
            pick(random, FRAMING)
        } else {
            pick(random, HEADERS)
        };
        if random.random_ratio(2, 3) {
            (name, value.into())
        } else {
            (name, line(random))
        }
    };
    (0..count).map(header).collect()
}

/// Some tokens and random bytes.
fn text(random: &mut StdRng) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..random.random_range(0..5) {
        match random.random_range(0..4) {
            0 => text.extend((0..random.random_range(0..20)).map(|_| random.random::<u8>())),
            1 => text.extend(
                pick(random, TOKENS)
                    .repeat(random.random_range(1..300))
                    .bytes(),
            ),
            _ => text.extend(pick(random, TOKENS).bytes()),
        }
    }
    text
}

/// The same, without what would end the line.
fn line(random: &mut StdRng) -> Vec<u8> {
    let mut line = text(random);
    line.retain(|byte| !byte.is_ascii_control());
    line
}

fn http1(random: &mut StdRng, key: &str) -> Vec<u8> {
    let (method, target) = operation(random);
    let mut request = [method.as_bytes(), b" ", &target].concat();
    let version = match random.random_range(0..20) {
        0 => "HTTP/1.0",
        1 => "HTTP/1.2",
        2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    };
    request.extend(format!(" {version}\r\n").bytes());
    if !random.random_ratio(1, 20) {
        request.extend(b"Host: x\r\n");
    }
    if !random.random_ratio(1, 5) {
        request.extend(format!("Authorization: Bearer {key}\r\n").bytes());
    }
    for (name, value) in headers(random) {
        request.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
    }
    let has_body = matches!(method, "POST" | "PATCH" | "PUT") || random.random_ratio(1, 20);
    let body = if has_body { body(random) } else { Vec::new() };
    if !has_body {
        request.extend(b"\r\n");
    } else if random.random_ratio(1, 4) {
        request.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(random.random_range(1..100)) {
            request.extend(format!("{:x}\r\n", chunk.len()).bytes());
            request.extend(chunk);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\n\r\n");
    } else {
        request.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        request.extend(body);
    }
    request
}

fn body(random: &mut StdRng) -> Vec<u8> {
    if random.random_ratio(1, 2) {
        let number = random.random_range(1..20);
        let valid = "{\"name\":\"Rex\",\"categoryId\":1,\"status\":\"available\",\"petId\":";
        return format!("{valid}{number}}}").into();
    }
    let mut document = Vec::new();
    match random.random_range(0..10) {
        0 => return text(random),
        1 => json(random, 0, &mut document),
        _ => {
            document.push(b'{');
            for name in ["name", "categoryId", "status", "petId", "x"] {
                if random.random_ratio(3, 4) {
                    if document.len() > 1 {
                        document.push(b',');
                    }
                    document.extend(format!("\"{name}\":").bytes());
                    match (name, random.random_ratio(1, 2)) {
                        ("name", true) => document.extend(b"\"Rex\""),
                        ("categoryId" | "petId", true) => document.push(b'1'),
                        ("status", true) => document.extend(b"\"available\""),
                        _ => json(random, 0, &mut document),
                    }
                }
            }
            document.push(b'}');
        }
    }
    if random.random_ratio(1, 4) {
        mutate(random, &mut document);
    }
    document
}

/// Appends a JSON value, or what looks like one.
fn json(random: &mut StdRng, depth: usize, document: &mut Vec<u8>) {
    let deepest = if depth > 6 { 4 } else { 7 };
    match random.random_range(0..deepest) {
        0 => document.extend(pick(random, &["null", "true", "false", "nul", "NaN"]).bytes()),
        1 => {
            let number = pick(
                random,
                &[
                    "0",
                    "-0",
                    "1.0",
                    "10e-1",
                    "1e400",
                    "-1e-400",
                    "9223372036854775807",
                    "9223372036854775808",
                    "00",
                    "1.",
                    ".1",
                    "+1",
                    "1e99999999999999999999",
                ],
            );
            document.extend(number.bytes());
        }
        2 => {
            let digits = random.random_range(1..2000);
            document.extend((0..digits).map(|_| b'0' + random.random_range(0..10)));
        }
        3 => {
            document.push(b'"');
            for _ in 0..random.random_range(0..6) {
                let part = pick(
                    random,
                    &[
                        "a",
                        "é",
                        "\\n",
                        "\\u0041",
                        "\\ud83d\\ude00",
                        "\\ud800",
                        "\\u0000",
                        "\\x",
                        "\u{7f}",
                    ],
                );
                document.extend(part.repeat(random.random_range(1..60)).bytes());
            }
            document.push(b'"');
        }
        4 => {
            let nesting = random.random_range(1..300);
            document.extend(b"[".repeat(nesting));
            if random.random_ratio(3, 4) {
                document.extend(b"]".repeat(nesting));
            }
        }
        5 => {
            document.push(b'[');
            for index in 0..random.random_range(0..5) {
                if index > 0 {
                    document.push(b',');
                }
                json(random, depth + 1, document);
            }
            document.push(b']');
        }
        _ => {
            document.push(b'{');
            for index in 0..random.random_range(0..5) {
                if index > 0 {
                    document.push(b',');
                }
                document.extend(format!("\"{}\":", pick(random, &["a", "b", "", "name"])).bytes());
                json(random, depth + 1, document);
            }
            document.push(b'}');
        }
    }
}

/// Changes bytes here and there.
fn mutate(random: &mut StdRng, bytes: &mut Vec<u8>) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=bytes.len());
        let end = (at + random.random_range(0..40)).min(bytes.len());
        match random.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 => drop(bytes.splice(at..at, text(random))),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            4 if random.random_ratio(1, 4) => bytes.truncate(at),
            _ => drop(bytes.splice(at..end, pick(random, TOKENS).bytes())),
        }
    }
}

fn http2(random: &mut StdRng, key: &str) -> HostileInput {
    let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
    let requests = random.random_range(1..=4);
    for number in 0..requests {
        let stream = 2 * number as u32 + 1;
        let mut head = Vec::new();
        let field = |head: &mut Vec<u8>, name: &[u8], value: &[u8]| {
            let cut = |bytes: &[u8]| bytes[..bytes.len().min(126)].to_vec();
            head.extend(literal_header(cut(name), cut(value)));
        };
        let (method, target) = operation(random);
        field(&mut head, b":method", method.as_bytes());
        field(&mut head, b":scheme", b"http");
        field(&mut head, b":path", &target);
        if !random.random_ratio(1, 10) {
            field(&mut head, b":authority", b"x");
        }
        if !random.random_ratio(1, 5) {
            field(
                &mut head,
                b"authorization",
                format!("Bearer {key}").as_bytes(),
            );
        }
        for (name, value) in headers(random) {
            field(&mut head, name.to_lowercase().as_bytes(), &value);
        }
        if random.random_ratio(1, 6) {
            mutate(random, &mut head);
        }
        let body = body(random);
        let has_body = random.random_ratio(1, 2);
        let end = if has_body { 0 } else { END_STREAM };
        bytes.extend(frame(HEAD, END_HEADERS | end, stream, &head));
        if has_body {
            for part in body.chunks(random.random_range(1..5000)) {
                bytes.extend(frame(DATA, 0, stream, part));
            }
            bytes.extend(frame(DATA, END_STREAM, stream, &[]));
        }
        if random.random_ratio(1, 4) {
            // Any other frame, mostly malformed.
            let kind = random.random_range(0..12);
            let payload = text(random);
            bytes.extend(frame(
                kind,
                random.random(),
                random.random_range(0..8),
                &payload,
            ));
        }
    }
    if random.random_ratio(1, 4) {
        let mut frames = bytes.split_off(24);
        mutate(random, &mut frames);
        bytes.extend(frames);
    }
    HostileInput {
        bytes,
        protocol: Protocol::Http2,
        requests,
    }
}

/// An HTTP/2 frame. Its payload is cut at the size that every peer accepts.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    http2::frame(kind, flags, stream, &payload[..payload.len().min(16_384)])
}
