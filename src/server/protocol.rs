//! Protocol detection: HTTP/1.1, or HTTP/2 with prior knowledge (RFC 9113,
//! section 3.3).

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// How the HTTP/2 connection preface starts. No HTTP/1.1 method does.
const PREFACE: &[u8] = b"PRI ";

/// How much is read at once to detect the protocol: usually the whole first request.
const READ_AHEAD: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// Reads until the protocol is known. What was read is in `read_ahead` and must
/// be replayed to the protocol's implementation.
pub async fn detect(
    stream: &mut (impl AsyncRead + Unpin),
    read_ahead: &mut BytesMut,
) -> io::Result<Protocol> {
    read_ahead.reserve(READ_AHEAD);
    loop {
        if stream.read_buf(read_ahead).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let seen = read_ahead.len().min(PREFACE.len());
        if read_ahead[..seen] != PREFACE[..seen] {
            return Ok(Protocol::Http1);
        }
        if seen == PREFACE.len() {
            return Ok(Protocol::Http2);
        }
    }
}
