//! The cost of hostile requests: what the service allocates for a request is at most
//! proportional to what the client sent.
//!
//! Allocated bytes are counted instead of time, so that the result does not depend on
//! the machine. The tests share one counter, so there is only one.

#![allow(clippy::unwrap_used)]

use std::{alloc::System, fmt::Write, net::SocketAddr};

use domain::api_key::{ApiKeySecret, NewApiKey};
use http::Version;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use service::{Config, Listeners};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use store::{DatabaseUrl, Options, Role, Store};
use support::{HttpClient, RawConnection};
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Limits on what a request may allocate, in bytes: this much for each byte of it, and this
/// much besides, which covers connection buffers and background tasks.
const PER_BYTE: usize = 50;
const BESIDES: usize = 1 << 20;

#[tokio::test]
async fn hostile_requests_cost_no_more_than_their_size() {
    let dir = tempfile::tempdir().unwrap();
    let url = DatabaseUrl::Sqlite(dir.path().join("petstore.db"));
    let store = Store::open(&url, &Options::new(Role::Service))
        .await
        .unwrap();
    let key = ApiKeySecret::generate();
    let new = NewApiKey::new("test".parse().unwrap(), Timestamp::now());
    store.api_key_create(new, key.hash()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut config = Config::default();
    config.api.access_log = true;
    let listeners = Listeners {
        api: listener,
        metrics: None,
    };
    tokio::spawn(service::run(
        listeners,
        store,
        config,
        Box::pin(std::future::pending()),
    ));
    let key = format!("Authorization: Bearer {}\r\n", key.reveal());

    let head = |target: &str, headers: &str| {
        format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n")
    };
    let json = |method: &str, path: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{key}\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let pet = |members: &str| {
        let body = format!("{{\"name\":\"A\",\"categoryId\":1,\"x\":{members}}}");
        json("POST", "/v1/pets", &body)
    };
    let members = |count: usize, name: fn(usize) -> String| {
        let all: Vec<_> = (0..count).map(|n| format!("\"{}\":0", name(n))).collect();
        format!("{{{}}}", all.join(","))
    };
    let digits = "9".repeat(60_000);
    let chunks = (0..10_000).fold(String::new(), |mut all, _| {
        write!(all, "1\r\n \r\n").unwrap();
        all
    });
    let fill = |text: &str| text.repeat(15_000 / text.len());
    let requests = [
        (
            "nested escapes",
            head(&format!("/%{}70sk_x", fill("25")), ""),
        ),
        ("escapes", head(&format!("/{}", fill("%25")), "")),
        ("unfinished escapes", head(&format!("/{}", fill("%")), "")),
        ("segments", head(&format!("/v1{}", fill("/a")), &key)),
        (
            "parameters",
            head(&format!("/v1/pets?{}", fill("a=b&")), &key),
        ),
        (
            "limits",
            head(&format!("/v1/pets?limit={}", fill("1")), &key),
        ),
        (
            "cursor",
            head(&format!("/v1/pets?cursor={}", fill("A")), &key),
        ),
        (
            "encoded id",
            head(&format!("/v1/pets/{}", fill("%31")), &key),
        ),
        (
            "entity tags",
            head(
                "/v1/pets",
                &format!("{key}If-None-Match: {}\r\n", fill("\"a\",")),
            ),
        ),
        (
            "weak tags",
            head(
                "/v1/pets",
                &format!("{key}If-Match: {}\r\n", fill("W/\"a\", ")),
            ),
        ),
        (
            "codings",
            head(
                "/docs/assets/x",
                &format!("Accept-Encoding: {}\r\n", fill("a;q=1,")),
            ),
        ),
        (
            "bearer",
            head(
                "/v1/pets",
                &format!("Authorization: Bearer psk_{}\r\n", fill("a")),
            ),
        ),
        (
            "request id",
            head(
                "/v1/pets",
                &format!("{key}X-Request-Id: {}\r\n", fill("psk_")),
            ),
        ),
        (
            "origin",
            head("/v1/pets", &format!("{key}Origin: {}\r\n", fill("a"))),
        ),
        (
            "media type",
            head(
                "/v1/pets",
                &format!("{key}Content-Type: {}\r\n", fill("a;")),
            ),
        ),
        ("arrays", pet(&"[".repeat(60_000))),
        (
            "closed arrays",
            pet(&format!("{}{}", "[".repeat(30_000), "]".repeat(30_000))),
        ),
        ("objects", pet(&"{\"a\":".repeat(12_000))),
        ("members", pet(&members(5_000, |n| format!("{n:x}")))),
        (
            "duplicate members",
            pet(&members(5_000, |n| (n % 4_999).to_string())),
        ),
        (
            "outer members",
            json("POST", "/v1/pets", &members(5_000, |n| format!("{n:x}"))),
        ),
        (
            "escaped text",
            pet(&format!("\"{}\"", "\\u0041".repeat(10_000))),
        ),
        (
            "digits",
            json("POST", "/v1/pets", &format!("{{\"categoryId\":{digits}}}")),
        ),
        ("zeros", pet(&format!("1{}", "0".repeat(60_000)))),
        (
            "fraction",
            json(
                "POST",
                "/v1/store/orders",
                &format!("{{\"petId\":0.{digits}}}"),
            ),
        ),
        (
            "exponent",
            json(
                "PATCH",
                "/v1/pets/1",
                &format!("{{\"categoryId\":1e{digits}}}"),
            ),
        ),
        ("nested exponent", pet(&format!("[1e-{digits}]"))),
        (
            "name",
            json("PATCH", "/v1/pets/1", &format!("{{\"name\":\"{digits}\"}}")),
        ),
        (
            "chunks",
            format!(
                "POST /v1/pets HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{key}\
                 Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"
            ),
        ),
    ];
    // Allocates what is allocated once: threads, caches, the key table.
    send(address, &head("/v1/pets", &key)).await;
    for (name, request) in requests {
        let before = ALLOCATOR.stats().bytes_allocated;
        let response = send(address, &request).await;
        let allocated = ALLOCATOR.stats().bytes_allocated - before;
        assert!(response.starts_with("HTTP/1.1 "), "{name}: {response}");
        assert!(!response.starts_with("HTTP/1.1 5"), "{name}: {response}");
        let allowed = PER_BYTE * request.len() + BESIDES;
        assert!(
            allocated <= allowed,
            "{name}: {allocated} bytes for {}",
            request.len()
        );
    }

    // An HTTP/2 head may be larger before it is rejected, and is logged too.
    let mut client = HttpClient::new(address);
    client.version = Version::HTTP_2;
    let mut http2 = client.http2().await.unwrap();
    let target = format!("http://x/%{}70sk_x", "25".repeat(30_000));
    let request = http::Request::get(target).body(Full::default()).unwrap();
    let before = ALLOCATOR.stats().bytes_allocated;
    let response = http2.send_request(request).await.unwrap();
    assert_eq!(response.status(), 431);
    response.into_body().collect().await.unwrap();
    let allocated = ALLOCATOR.stats().bytes_allocated - before;
    assert!(
        allocated <= PER_BYTE * 60_000 + BESIDES,
        "HTTP/2: {allocated} bytes"
    );
}

/// Sends a raw request and reads until the connection closes.
async fn send(address: SocketAddr, request: &str) -> String {
    let mut connection = RawConnection::connect(address).await;
    connection.send(request).await;
    String::from_utf8_lossy(&connection.read_to_end().await).into()
}
