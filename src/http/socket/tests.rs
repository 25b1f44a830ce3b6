//! Which of the bytes that hyper writes are an answer of its own.

use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

/// What a client receives of some writes, each flushed, over a connection that
/// takes `room` bytes at a time.
async fn received(room: usize, writes: Vec<&'static str>) -> String {
    let (mut client, stream) = duplex(room);
    let mut socket = Socket::new(stream, Arc::default(), Limits::default());
    let writing = tokio::spawn(async move {
        for text in writes {
            socket.write_all(text.as_bytes()).await.unwrap();
            socket.flush().await.unwrap();
        }
    });
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    writing.await.unwrap();
    received
}

/// A name may look like an answer, and its body may be written in pieces that
/// start with it.
#[tokio::test]
async fn what_stands_in_a_body_stays_there() {
    let answer = "HTTP/1.1 200 OK\r\nHTTP/1.1 400 forged";
    assert_eq!(received(17, vec![answer]).await, answer);
}

#[tokio::test]
async fn the_services_own_errors_pass() {
    let answer = "HTTP/1.1 404 Not Found\r\nx-request-id: 1\r\n\r\n{}";
    assert_eq!(received(1024, vec![answer, answer]).await, answer.repeat(2));
}

#[tokio::test]
async fn what_hyper_says_by_itself_gets_the_error_body() {
    let good = "HTTP/1.1 200 OK\r\nx-request-id: 1\r\n\r\n";
    for (alone, code) in [
        (
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
            "invalid_request",
        ),
        (
            "HTTP/1.1 431 Too Large\r\ncontent-length: 0\r\n\r\n",
            "head_too_large",
        ),
    ] {
        let text = received(1024, vec![good, alone]).await;
        assert!(text.starts_with(good), "{text}");
        assert!(
            text.contains(code) && text.contains("x-request-id: "),
            "{text}"
        );
        assert!(
            text.contains("\r\ndate: ") && !text.contains("content-length: 0"),
            "{text}"
        );
    }
}
