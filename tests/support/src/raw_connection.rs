//! Raw HTTP/1.1 connections, for requests that no client library sends.

use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use crate::{
    HttpClient, Response, TIMEOUT,
    client::{Duplex, Stream},
};

/// A raw connection, for clients that misbehave, or whose every byte counts.
pub struct RawConnection {
    pub stream: Stream,
    /// Bytes that belong to no response yet.
    received: Vec<u8>,
}

impl RawConnection {
    /// Connects over plain TCP.
    pub async fn connect(address: SocketAddr) -> Self {
        Self::new(HttpClient::new(address).connect().await.unwrap())
    }

    pub fn new(stream: impl Duplex + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            received: Vec::new(),
        }
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Half-closes the connection: sends FIN, keeps reading.
    pub async fn shutdown_write(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// The next response, or `None` if the service closed the connection.
    pub async fn response(&mut self) -> Option<Response> {
        let head_length = loop {
            match self.position_after(b"\r\n\r\n") {
                Some(position) => break position,
                None if self.read().await == 0 => {
                    assert!(self.received.is_empty(), "the response head is incomplete");
                    return None;
                }
                None => {}
            }
        };
        let head = String::from_utf8(self.received[..head_length].to_vec()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap();
        let status = status.parse().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").unwrap();
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_str(value).unwrap());
        }
        let body_length: usize = match status {
            304 => 0,
            _ => headers["content-length"].to_str().unwrap().parse().unwrap(),
        };
        let length = head_length + body_length;
        while self.received.len() < length {
            assert_ne!(self.read().await, 0, "the response body is incomplete");
        }
        let body = self.received[head_length..length].to_vec();
        self.received.drain(..length);
        Some(Response {
            status,
            headers,
            body,
        })
    }

    /// Reads up to and including some text, and leaves what follows for the next read.
    pub async fn read_until(&mut self, end: &str) -> String {
        let length = loop {
            if let Some(position) = self.position_after(end.as_bytes()) {
                break position;
            }
            assert_ne!(self.read().await, 0, "closed before {end:?}");
        };
        String::from_utf8(self.received.drain(..length).collect()).unwrap()
    }

    /// Reads so many bytes.
    pub async fn read_exactly(&mut self, length: usize) -> Vec<u8> {
        while self.received.len() < length {
            assert_ne!(self.read().await, 0, "closed before {length} bytes");
        }
        self.received.drain(..length).collect()
    }

    /// Reads until the service closes the connection.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let read = timeout(TIMEOUT, self.stream.read_to_end(&mut self.received)).await;
        read.expect("the service closes the connection").unwrap();
        std::mem::take(&mut self.received)
    }

    fn position_after(&self, end: &[u8]) -> Option<usize> {
        let mut windows = self.received.windows(end.len());
        windows
            .position(|window| window == end)
            .map(|start| start + end.len())
    }

    /// Returns 0 if the service has closed the connection.
    async fn read(&mut self) -> usize {
        let read = timeout(TIMEOUT, self.stream.read_buf(&mut self.received)).await;
        read.expect("the service responds or closes").unwrap_or(0)
    }
}
