//! Protocol detection: HTTP/1.1, or HTTP/2 with prior knowledge (RFC 9113,
//! section 3.3).

use std::io;

use bytes::BytesMut;
use tokio::{io::AsyncReadExt, net::TcpStream, time::Instant};

/// The start of the HTTP/2 connection preface. No HTTP/1.1 method starts with it.
const PREFACE: &[u8] = b"PRI ";

/// The size of a read: usually the whole first request fits.
const CAPACITY: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// Bytes that were read to detect the protocol, to be replayed to its implementation.
#[derive(Debug, Default)]
pub struct ReadAhead {
    bytes: BytesMut,
    first_byte_at: Option<Instant>,
}

impl ReadAhead {
    /// Reads until the protocol is known.
    pub async fn detect(&mut self, stream: &mut TcpStream) -> io::Result<Protocol> {
        // Waits before it allocates the buffer: a silent connection needs none.
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

    /// Returns the arrival time of the first byte, from which the head timeout counts.
    pub fn first_byte_at(&self) -> Option<Instant> {
        self.first_byte_at
    }

    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}
