//! HTTP/2 on the frame level: denial-of-service floods, which must close the
//! connection, and cancellations, which must not.

use std::time::Duration;

use http::Version;
use serde_json::json;
use support::{
    Backend, TIMEOUT, eventually,
    http2::{
        CANCEL, CONTINUATION, DATA, EMPTY_SETTINGS, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM,
        GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, frame, frames, literal_header, request,
        request_head,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{harness::Server, http1::SHORT_HEAD_TIMEOUT};

support::cases! {
    ALL: [
        rapid_reset_continuation_and_data_floods_close_the_connection,
        ping_and_settings_floods_close_the_connection,
        cancelling_every_concurrent_request_is_allowed,
        a_create_cancelled_in_flight_is_still_stored,
    ],
}

/// Each flood ends with GOAWAY(ENHANCE_YOUR_CALM), and other clients are still served.
async fn rapid_reset_continuation_and_data_floods_close_the_connection(backend: Backend) {
    let server = Server::start(backend).await;
    let open_head = frame(HEADERS, 0, 1, &request_head("GET", "/healthz"));
    let upload = frame(HEADERS, END_HEADERS, 1, &request_head("POST", "/v1/pets"));
    let continuation = |block: &[u8]| frame(CONTINUATION, 0, 1, block);
    let kilobyte = literal_header("x", "y".repeat(100)).repeat(10);
    for (flood, frames) in [
        // Rapid reset, CVE-2023-44487.
        (
            "rapid reset",
            stream_ids(10_000).flat_map(request_and_cancel).collect(),
        ),
        // Requests that provoke a RST_STREAM each, CVE-2019-9514.
        (
            "malformed requests",
            stream_ids(10_000).flat_map(request_without_path).collect(),
        ),
        // CONTINUATION floods, CVE-2024-27316.
        (
            "CONTINUATION flood of empty frames",
            [open_head.clone(), continuation(&[]).repeat(10_000)].concat(),
        ),
        (
            "CONTINUATION flood of headers",
            [open_head, continuation(&kilobyte).repeat(10_000)].concat(),
        ),
        // CVE-2019-9518.
        (
            "empty DATA frames",
            [upload, frame(DATA, 0, 1, &[]).repeat(100_000)].concat(),
        ),
    ] {
        let received = send_flood(&server, &frames).await;
        let error_code = goaway_error_code(&received);
        assert_eq!(error_code, Some(ENHANCE_YOUR_CALM), "{flood}");
        assert_eq!(server.get("/v1/pets").await.status, 200, "{flood}");
    }
}

/// PING and SETTINGS must be acknowledged (CVE-2019-9512, CVE-2019-9515), but they do not
/// keep a connection without requests open, and the acknowledgements are not buffered
/// without bound for a client that does not read.
async fn ping_and_settings_floods_close_the_connection(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.head_timeout = SHORT_HEAD_TIMEOUT;
        config.service.server.write_timeout = Duration::from_millis(200);
    })
    .await;
    for flood in [frame(PING, 0, 0, &[0; 8]), EMPTY_SETTINGS.to_vec()] {
        let flood = flood.repeat(10_000);
        for reads in [true, false] {
            let stream = server.connect(Version::HTTP_2).await;
            let (mut reading, mut writing) = tokio::io::split(stream);
            let reader = tokio::spawn(async move {
                let mut received = vec![0; 1 << 16];
                while reads && reading.read(&mut received).await.is_ok_and(|read| read > 0) {}
                reading
            });
            let flooding = async {
                let mut open = writing.write_all(&[PREFACE, EMPTY_SETTINGS].concat()).await;
                while open.is_ok() {
                    open = writing.write_all(&flood).await;
                }
            };
            let cut = timeout(TIMEOUT, flooding).await;
            assert!(cut.is_ok(), "still open, reads: {reads}");
            drop(reader.await.unwrap());
        }
    }
    assert_eq!(server.get("/v1/pets").await.status, 200);
}

/// A client may cancel as many requests as it may have open; only more than that is a flood.
async fn cancelling_every_concurrent_request_is_allowed(backend: Backend) {
    let server = Server::start(backend).await;
    let mut stream = server.connect(Version::HTTP_2).await;
    let many: Vec<u8> = stream_ids(64).flat_map(request_and_cancel).collect();
    let one = request(1001, "GET", "/healthz");
    let all = [PREFACE, EMPTY_SETTINGS, &many, &one].concat();
    stream.write_all(&all).await.unwrap();
    let mut received = Vec::new();
    let wait_for_response = async {
        while !frames(&received).any(|(kind, id, _)| (kind, id) == (HEADERS, 1001)) {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "closed");
        }
    };
    timeout(TIMEOUT, wait_for_response)
        .await
        .expect("a response");
}

/// A write that the store has accepted is executed even if its client has reset the stream.
async fn a_create_cancelled_in_flight_is_still_stored(backend: Backend) {
    let server = Server::start(backend).await;
    assert_eq!(server.count_pets().await, 0);
    let lock = server.database.lock();
    let mut stream = server.connect(Version::HTTP_2).await;
    let key = literal_header("authorization", format!("Bearer {}", server.key));
    let head = [request_head("POST", "/v1/pets"), key].concat();
    let pet = json!({"name": "Rex", "categoryId": 1}).to_string();
    let create = [
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(DATA, END_STREAM, 1, pet.as_bytes()),
    ];
    let create = [PREFACE, EMPTY_SETTINGS, &create.concat()].concat();
    stream.write_all(&create).await.unwrap();
    server.wait_until_in_flight(1).await;
    // The store has accepted it.
    tokio::time::sleep(Duration::from_millis(300)).await;
    stream.write_all(&rst_stream(1)).await.unwrap();
    server.wait_until_in_flight(0).await;
    drop(lock);
    eventually("the pet is stored", async || server.count_pets().await == 1).await;
}

/// Sends frames and returns everything received until the service closes the connection.
async fn send_flood(server: &Server, flood: &[u8]) -> Vec<u8> {
    let stream = server.connect(Version::HTTP_2).await;
    let (mut reading, mut writing) = tokio::io::split(stream);
    let flood = [PREFACE, EMPTY_SETTINGS, flood].concat();
    let flooding = tokio::spawn(async move {
        // Fails once the service closes the connection.
        let _ = writing.write_all(&flood).await;
        writing
    });
    let mut received = Vec::new();
    let reading = reading.read_to_end(&mut received);
    let closed = timeout(TIMEOUT, reading).await;
    assert!(closed.is_ok(), "still open");
    drop(flooding.await.unwrap());
    received
}

/// The error code of the last GOAWAY frame.
fn goaway_error_code(received: &[u8]) -> Option<u32> {
    let goaways = frames(received).filter(|(kind, ..)| *kind == GOAWAY);
    let (.., payload) = goaways.last()?;
    Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()))
}

/// The first stream ids of a client, which are odd.
fn stream_ids(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|n| 2 * n + 1)
}

fn request_and_cancel(stream: u32) -> Vec<u8> {
    [request(stream, "GET", "/healthz"), rst_stream(stream)].concat()
}

fn rst_stream(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// A malformed request: it lacks the `:path` pseudo-header.
fn request_without_path(stream: u32) -> Vec<u8> {
    let head = literal_header(":method", "GET");
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)
}
