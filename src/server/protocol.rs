//! Protocol detection: HTTP/1.1, or HTTP/2 with prior knowledge (RFC 9113,
//! section 3.3).

use std::io;

use bytes::BytesMut;
use tokio::{io::AsyncReadExt, net::TcpStream, time::Instant};

/// How the HTTP/2 connection preface starts. No HTTP/1.1 method does.
const PREFACE: &[u8] = b"PRI ";

/// How much is read at once: usually the whole first request.
const CAPACITY: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// What was read to detect the protocol, to be replayed to its implementation.
#[derive(Debug, Default)]
pub struct ReadAhead {
    bytes: BytesMut,
    first_byte_at: Option<Instant>,
}

impl ReadAhead {
    /// Reads until the protocol is known.
    pub async fn detect(&mut self, stream: &mut TcpStream) -> io::Result<Protocol> {
        // Before the buffer is allocated: a silent connection needs none.
        stream.readable().await?;
        self.bytes.reserve(CAPACITY);
        loop {
            if stream.read_buf(&mut self.bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.first_byte_at.get_or_insert_with(Instant::now);
            let seen = self.bytes.len().min(PREFACE.len());
            if self.bytes[..seen] != PREFACE[..seen] {
                return Ok(Protocol::Http1);
            }
            if seen == PREFACE.len() {
                return Ok(Protocol::Http2);
            }
        }
    }

    /// When the first byte arrived: the head timeout counts from then.
    pub fn first_byte_at(&self) -> Option<Instant> {
        self.first_byte_at
    }

    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}
