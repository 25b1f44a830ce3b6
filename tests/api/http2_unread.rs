//! HTTP/2 clients that send requests and do not read the responses, by closing the
//! flow-control window: what they hold in memory is bounded, and others are served.

use std::{net::IpAddr, time::Duration};

use http::Version;
use server::Limits;
use support::{
    Backend, Stream, TIMEOUT, eventually,
    http2::{
        ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, PRIORITY, SETTINGS,
        WINDOW_UPDATE, frame, frames, literal_header, request_head,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    time::{sleep, timeout},
};

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        unread_responses_have_a_budget,
        closing_connections_are_within_the_budget,
        unread_http1_responses_have_a_budget,
        requests_without_a_key_wait_for_earlier_ones,
        pings_do_not_keep_unread_responses,
        floods_of_control_frames_close_the_connection,
        control_frames_of_a_busy_client_are_accepted,
    ],
}

/// A type of frames that RFC 9113 does not define.
const UNKNOWN: u8 = 0x42;

/// More than a frame, and it needs no API key.
const CONTRACT: &str = "/v1/openapi.yaml";

const EVICTIONS: &str = "petstore_memory_evictions_total";

const ATTACKER: [u8; 4] = [127, 0, 0, 1];
const OTHER: [u8; 4] = [127, 0, 0, 2];

/// A client that opens its streams with a window of no bytes.
struct Client {
    reading: ReadHalf<Stream>,
    writing: WriteHalf<Stream>,
    received: Vec<u8>,
    next_stream: u32,
    key: Option<String>,
    is_closed: bool,
}

impl Client {
    async fn connect(server: &Server, from: [u8; 4], key: Option<&str>) -> Self {
        let stream = server
            .connect_from(IpAddr::from(from), Version::HTTP_2)
            .await;
        let (reading, writing) = split(stream);
        let mut client = Self {
            reading,
            writing,
            received: Vec::new(),
            next_stream: 1,
            key: key.map(String::from),
            is_closed: false,
        };
        // SETTINGS_INITIAL_WINDOW_SIZE.
        let closed_window = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
        client.send(&[PREFACE, &closed_window].concat()).await;
        client
    }

    async fn send(&mut self, bytes: &[u8]) {
        // The service may have closed the connection.
        let _ = self.writing.write_all(bytes).await;
        let _ = self.writing.flush().await;
    }

    async fn request(&mut self, path: &str) {
        let mut head = request_head("GET", path);
        if let Some(key) = &self.key {
            head.extend(literal_header("authorization", format!("Bearer {key}")));
        }
        let request = frame(HEADERS, END_STREAM | END_HEADERS, self.next_stream, &head);
        self.next_stream += 2;
        self.send(&request).await;
    }

    /// The number of frames of a kind that have arrived.
    fn count(&self, kind: u8) -> usize {
        let received = frames(&self.received);
        received.filter(|(found, ..)| *found == kind).count()
    }

    /// The number of responses whose head has arrived.
    fn responses(&self) -> usize {
        self.count(HEADERS)
    }

    /// Reads a few kilobytes per second of eight responses in turn, until the condition holds.
    async fn read_slowly_until(&mut self, condition: impl Fn(&Self) -> bool) {
        let reading = async {
            let streams = (1..=15).step_by(2).cycle();
            for stream in streams {
                let acknowledged = self.count(PING);
                let increment = 500_u32.to_be_bytes();
                self.send(&frame(WINDOW_UPDATE, 0, stream, &increment))
                    .await;
                let received = self.reading.read_buf(&mut self.received);
                if let Ok(read) = timeout(Duration::from_millis(100), received).await {
                    self.is_closed = !read.is_ok_and(|read| read > 0);
                }
                let pings = frames(&self.received).filter(|(kind, ..)| *kind == PING);
                let acknowledgements = pings
                    .skip(acknowledged)
                    .flat_map(|(.., payload)| frame(PING, ACK, 0, payload));
                let acknowledgements: Vec<u8> = acknowledgements.collect();
                self.send(&acknowledgements).await;
                if condition(self) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let read = timeout(TIMEOUT, reading).await;
        assert!(read.is_ok(), "the condition does not hold");
    }

    /// Reads until this many responses have arrived.
    async fn wait_for_responses(&mut self, count: usize) {
        let reading = async {
            while self.responses() < count {
                let read = self.reading.read_buf(&mut self.received).await;
                assert_ne!(read.unwrap(), 0, "closed");
            }
        };
        let read = timeout(TIMEOUT, reading).await;
        let responses = self.responses();
        assert!(read.is_ok(), "{responses} responses instead of {count}");
    }

    /// Reads until the service closes the connection.
    async fn wait_for_close(&mut self) {
        let reading = async {
            while self
                .reading
                .read_buf(&mut self.received)
                .await
                .is_ok_and(|read| read > 0)
            {}
        };
        let read = timeout(TIMEOUT, reading).await;
        assert!(read.is_ok(), "still open");
    }
}

/// The clients of one address hold more than the budget. Their connections are closed, and
/// not that of another address, which has an unread response too.
async fn unread_responses_have_a_budget(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.max_held_bytes = 4 << 20;
        config.service.server.write_timeout = Duration::from_secs(600);
    })
    .await;
    let mut other = Client::connect(&server, OTHER, None).await;
    other.request(CONTRACT).await;
    other.wait_for_responses(1).await;
    for key in [None, Some(&*server.key)] {
        let before = server.metric(EVICTIONS).await;
        let mut attackers = Vec::new();
        while server.metric(EVICTIONS).await < before + 3.0 {
            let mut attacker = Client::connect(&server, ATTACKER, key).await;
            for _ in 0..60 {
                attacker.request(CONTRACT).await;
            }
            attackers.push(attacker);
            assert!(attackers.len() < 1000, "nothing is closed");
            assert_eq!(server.get("/v1/pets").await.status, 200);
        }
    }
    let within_budget = async || server.metric("petstore_held_memory_bytes").await < 4e6;
    eventually("memory is released", within_budget).await;
    other.request("/healthz").await;
    other.wait_for_responses(2).await;
}

/// A connection that is closing because it is idle may take long, if its client reads slowly.
/// It is reset like any other.
async fn closing_connections_are_within_the_budget(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.max_held_bytes = 3 << 20;
        config.service.server.min_read_rate = 100;
        config.service.server.idle_timeout = Duration::from_secs(4);
    })
    .await;
    let mut slow = Client::connect(&server, ATTACKER, None).await;
    for _ in 0..8 {
        slow.request(CONTRACT).await;
    }
    slow.wait_for_responses(8).await;
    slow.read_slowly_until(|client| client.count(GOAWAY) > 0)
        .await;
    assert_eq!(server.metric(EVICTIONS).await, 0.0);
    let exceed = async {
        let mut others = Vec::new();
        loop {
            let mut other = Client::connect(&server, ATTACKER, None).await;
            for _ in 0..3 {
                other.request(CONTRACT).await;
            }
            others.push(other);
            sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = slow.read_slowly_until(|client| client.is_closed) => {}
        () = exceed => {}
    }
    assert!(server.metric(EVICTIONS).await > 0.0);
}

/// The same over HTTP/1.1, where the client does not read from its socket.
async fn unread_http1_responses_have_a_budget(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server.max_held_bytes = 1 << 20;
    })
    .await;
    let request = format!("GET {CONTRACT} HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut attackers = Vec::new();
    while server.metric(EVICTIONS).await < 3.0 {
        let stream = server.connect_from(ATTACKER.into(), Version::HTTP_11).await;
        let mut attacker = Connection::over(&server, stream);
        attacker.send(&request.repeat(100)).await;
        attackers.push(attacker);
        assert!(attackers.len() < 1000, "nothing is closed");
        assert_eq!(server.get("/v1/pets").await.status, 200);
    }
}

/// Without an API key, few requests are open at a time. The others wait, and are served
/// when the client reads.
async fn requests_without_a_key_wait_for_earlier_ones(backend: Backend) {
    let server = Server::start(backend).await;
    let mut with_key = Client::connect(&server, ATTACKER, Some(&server.key)).await;
    let mut without = Client::connect(&server, ATTACKER, None).await;
    for _ in 0..20 {
        with_key.request("/v1/pets").await;
        without.request("/healthz").await;
    }
    with_key.wait_for_responses(20).await;
    without.wait_for_responses(8).await;
    // An acknowledgement that is requested now comes after what was sent before it.
    sleep(Duration::from_millis(200)).await;
    without.send(&frame(PING, 0, 0, &[0; 8])).await;
    while without.count(PING) == 0 {
        without
            .reading
            .read_buf(&mut without.received)
            .await
            .unwrap();
    }
    assert_eq!(without.responses(), 8);
    for stream in (1..=39).step_by(2) {
        without
            .send(&frame(WINDOW_UPDATE, 0, stream, &1000_u32.to_be_bytes()))
            .await;
    }
    without.wait_for_responses(20).await;
}

/// Acknowledgements of pings are not responses: they do not keep a connection open whose
/// client does not read its responses.
async fn pings_do_not_keep_unread_responses(backend: Backend) {
    let server = Server::start_with(backend, |config| {
        config.service.server = Limits {
            write_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(600),
            min_read_rate: 100,
            ..Limits::default()
        };
    })
    .await;
    let mut client = Client::connect(&server, ATTACKER, Some(&server.key)).await;
    client.request("/v1/pets").await;
    client.wait_for_responses(1).await;
    let Client {
        mut reading,
        mut writing,
        ..
    } = client;
    // 340 bytes per second, and fewer frames than a flood.
    let pinging = async {
        for _ in 0..900 {
            let sent = writing.write_all(&frame(PING, 0, 0, &[0; 8])).await;
            if sent.is_err() || writing.flush().await.is_err() {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
        panic!("still open");
    };
    let reading = async {
        let mut acknowledgements = [0; 1024];
        while reading
            .read(&mut acknowledgements)
            .await
            .is_ok_and(|read| read > 0)
        {}
    };
    tokio::select! {
        () = pinging => {}
        () = reading => {}
    }
}

/// h2 reads any number of frames that ask for no response. With a stream open, a
/// connection is never idle.
async fn floods_of_control_frames_close_the_connection(backend: Backend) {
    let server = Server::start(backend).await;
    for (flood, frame) in [
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("PING", frame(PING, 0, 0, &[0; 8])),
        (
            "WINDOW_UPDATE",
            frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
        ),
        ("PRIORITY", frame(PRIORITY, 0, 101, &[0, 0, 0, 0, 1])),
        ("unknown frames", frame(UNKNOWN, 0, 0, &[])),
    ] {
        let mut client = Client::connect(&server, ATTACKER, Some(&server.key)).await;
        client.request("/v1/events/stream").await;
        client.wait_for_responses(1).await;
        client.send(&frame.repeat(1000)).await;
        client.wait_for_close().await;
        assert_eq!(server.get("/v1/pets").await.status, 200, "{flood}");
    }
}

/// Some clients send a priority for each request and two window updates for each frame
/// that they get.
async fn control_frames_of_a_busy_client_are_accepted(backend: Backend) {
    let server = Server::start(backend).await;
    let mut client = Client::connect(&server, ATTACKER, Some(&server.key)).await;
    let increment = 1000_u32.to_be_bytes();
    for number in 1..=1000 {
        let stream = client.next_stream;
        client.request("/v1/pets").await;
        let frames = [
            frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 1]),
            frame(WINDOW_UPDATE, 0, stream, &increment),
            frame(WINDOW_UPDATE, 0, 0, &increment),
        ];
        client.send(&frames.concat()).await;
        client.wait_for_responses(number).await;
    }
}
