//! Tests which of hyper's writes are replaced. That hyper still writes its own errors this way
//! is tested over real sockets in `tests/api/http1.rs`.

use std::{net::Ipv4Addr, sync::atomic::Ordering::Relaxed};

use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use super::{
    super::{Metrics, memory::MemoryBudget, protocol::Protocol},
    *,
};

const OK: &str = "HTTP/1.1 200 OK\r\n\r\n";
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\n\r\n{}";
const BARE_400: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
const BARE_431: &str = "HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\n\r\n";

enum Write {
    /// A response of the service.
    Service(&'static str),
    /// A response that hyper writes by itself.
    Hyper(&'static str),
}

fn activity() -> Arc<Activity> {
    let now = Instant::now();
    let unlimited = MemoryBudget::new(1 << 40, Arc::default());
    let client = Ipv4Addr::LOCALHOST.into();
    Arc::new(Activity::new(client, Arc::new(unlimited), now, now))
}

fn reject(rejection: Rejection) -> Response {
    let mut response = Response::new(format!("{rejection:?}").into());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// Returns what a client receives if `writes` are written and flushed one by one, through a
/// pipe of `capacity` bytes.
async fn received(capacity: usize, writes: Vec<Write>) -> String {
    let (mut client, stream) = duplex(capacity);
    let activity = activity();
    let ahead = ReadAhead::default();
    let limits = Limits::default();
    let mut stream = ClientStream::new(stream, ahead, activity.clone(), limits, reject);
    let writing = tokio::spawn(async move {
        for write in writes {
            let bytes = match write {
                Write::Service(bytes) => {
                    activity.request.begin();
                    activity.request.end(StatusCode::OK);
                    bytes
                }
                Write::Hyper(bytes) => bytes,
            };
            stream.write_all(bytes.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
    });
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    writing.await.unwrap();
    received
}

/// A body may look like a response, and may be written in pieces that start with it.
#[tokio::test]
async fn bodies_are_never_replaced() {
    let response = "HTTP/1.1 200 OK\r\nHTTP/1.1 400 forged";
    assert_eq!(received(17, vec![Write::Service(response)]).await, response);
}

#[tokio::test]
async fn error_responses_of_the_service_are_never_replaced() {
    let writes = vec![Write::Service(NOT_FOUND), Write::Service(BARE_400)];
    assert_eq!(
        received(1024, writes).await,
        format!("{NOT_FOUND}{BARE_400}")
    );
}

#[tokio::test]
async fn error_responses_of_hyper_get_an_error_body() {
    for (bare, rejection) in [(BARE_400, "MalformedRequest"), (BARE_431, "HeadTooLarge")] {
        let text = received(1024, vec![Write::Service(OK), Write::Hyper(bare)]).await;
        let replaced = text.strip_prefix(OK).unwrap();
        assert!(
            replaced.ends_with(&format!("\r\n\r\n{rejection}")),
            "{text}"
        );
        assert!(replaced.contains("\r\nconnection: close\r\n"), "{text}");
        assert!(replaced.contains("\r\ndate: "), "{text}");
        assert!(!replaced.contains("content-length: 0"), "{text}");
    }
}

#[tokio::test]
async fn interim_responses_pass() {
    let (mut client, stream) = duplex(1024);
    let activity = activity();
    let ahead = ReadAhead::default();
    let limits = Limits::default();
    let mut stream = ClientStream::new(stream, ahead, activity.clone(), limits, reject);
    activity.request.begin();
    let interim = "HTTP/1.1 100 Continue\r\n\r\n";
    stream.write_all(interim.as_bytes()).await.unwrap();
    drop(stream);
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, interim);
}

#[tokio::test]
async fn bytes_read_ahead_are_replayed_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    client.write_all(b"GET / ").await.unwrap();
    let mut ahead = ReadAhead::default();
    assert_eq!(ahead.detect(&mut stream).await.unwrap(), Protocol::Http1);
    client.write_all(b"HTTP/1.1").await.unwrap();
    drop(client);
    let limits = Limits::default();
    let mut stream = ClientStream::new(stream, ahead, activity(), limits, reject);
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "GET / HTTP/1.1");
}

/// Memory that connections hold while they are reset is released late.
#[tokio::test]
async fn http2_is_not_read_while_memory_is_short() {
    let metrics = Arc::new(Metrics::default());
    let budget = Arc::new(MemoryBudget::new(1 << 20, metrics.clone()));
    let now = Instant::now();
    let client = Ipv4Addr::LOCALHOST.into();
    let activity = Arc::new(Activity::new(client, budget, now, now));
    let (mut client, stream) = duplex(1024);
    let ahead = ReadAhead::default();
    let limits = Limits::default();
    let mut stream = ClientStream::new(stream, ahead, activity.clone(), limits, reject)
        .with_frame_meter(FrameMeter::new(activity.clone()));
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    metrics.held_bytes.store(3 << 20, Relaxed);
    let mut received = [0; 24];
    let read = timeout(10 * MEMORY_PAUSE, stream.read(&mut received)).await;
    assert!(read.is_err(), "{read:?}");
    metrics.held_bytes.store(2 << 20, Relaxed);
    assert_eq!(stream.read(&mut received).await.unwrap(), 24);
}
