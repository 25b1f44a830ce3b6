//! Writes the heads of HTTP/1.1 responses.

use std::{
    cell::RefCell,
    time::{SystemTime, UNIX_EPOCH},
};

use http::{HeaderValue, StatusCode, header, response::Parts};
use jiff::{Timestamp, fmt::rfc2822};

/// The way in which a client recognises the end of a response.
#[derive(Clone, Copy)]
pub enum Length {
    /// By its status, or because its request was HEAD.
    NoBody,
    Bytes(u64),
    Chunked,
    /// By the end of the connection, in HTTP/1.0.
    Connection,
}

/// The fate of the connection after a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// An HTTP/1.1 connection stays open, which needs no word.
    Default,
    Close,
    /// For a client with HTTP/1.0.
    KeepAlive,
}

/// Writes the head of a response, with room for `more` bytes.
pub fn write_head(head: &Parts, length: Length, persistence: Persistence, more: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512 + more);
    bytes.extend_from_slice(b"HTTP/1.1 ");
    bytes.extend_from_slice(head.status.as_str().as_bytes());
    bytes.push(b' ');
    let reason = head.status.canonical_reason().unwrap_or_default();
    bytes.extend_from_slice(reason.as_bytes());
    bytes.extend_from_slice(b"\r\n");
    for (name, value) in &head.headers {
        if *name != header::CONNECTION {
            write_header(&mut bytes, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    match length {
        Length::NoBody | Length::Connection => {}
        Length::Bytes(length) => {
            let mut digits = itoa::Buffer::new();
            write_header(
                &mut bytes,
                b"content-length",
                digits.format(length).as_bytes(),
            );
        }
        Length::Chunked => write_header(&mut bytes, b"transfer-encoding", b"chunked"),
    }
    match persistence {
        Persistence::Default => {}
        Persistence::Close => write_header(&mut bytes, b"connection", b"close"),
        Persistence::KeepAlive => write_header(&mut bytes, b"connection", b"keep-alive"),
    }
    DATE.with_borrow_mut(|date| write_header(&mut bytes, b"date", date.now().as_bytes()));
    bytes.extend_from_slice(b"\r\n");
    bytes
}

fn write_header(bytes: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(b": ");
    bytes.extend_from_slice(value);
    bytes.extend_from_slice(b"\r\n");
}

/// Returns true if the service wants the connection to be closed after its response.
pub fn closes_connection(head: &Parts) -> bool {
    let close = HeaderValue::from_static("close");
    head.headers
        .iter()
        .any(|(name, value)| *name == header::CONNECTION && *value == close)
}

/// Returns true if a response with this status has no body (RFC 9110, section 6.4.1).
pub fn has_no_body(status: StatusCode) -> bool {
    matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

thread_local! {
    static DATE: RefCell<Date> = const { RefCell::new(Date { second: 0, text: String::new() }) };
}

/// The value of the `Date` header, which is rendered once in a second.
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn now(&mut self) -> &str {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let second = now.unwrap_or_default().as_secs();
        if self.second != second {
            let date =
                rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now());
            self.text = date.unwrap_or_default();
            self.second = second;
        }
        &self.text
    }
}
