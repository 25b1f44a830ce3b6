//! Responses that are written without hyper, and those of its own that are replaced.

use futures_util::FutureExt;
use http::{HeaderValue, header, response::Parts};
use http_body_util::BodyExt;
use jiff::{Timestamp, fmt::rfc2822};

use crate::{Rejection, Response};

/// Returns the rejection that hyper's own error response corresponds to.
pub fn parse_error_status(head: &[u8]) -> Option<Rejection> {
    let status = head
        .strip_prefix(b"HTTP/1.1 ")
        .or_else(|| head.strip_prefix(b"HTTP/1.0 "))?;
    match status.get(..3)? {
        b"431" | b"414" => Some(Rejection::HeadTooLarge),
        [b'4', ..] => Some(Rejection::MalformedRequest),
        _ => None,
    }
}

/// Serializes an HTTP/1.1 response that closes its connection.
pub fn serialize(response: Response) -> Vec<u8> {
    let (mut head, body) = response.into_parts();
    let body = body
        .collect()
        .now_or_never()
        .and_then(Result::ok)
        .map(|body| body.to_bytes())
        .unwrap_or_default();
    head.headers
        .insert(header::CONTENT_LENGTH, body.len().into());
    let mut bytes = serialize_head(head);
    bytes.extend_from_slice(&body);
    bytes
}

/// Serializes the head of an HTTP/1.1 response that closes its connection.
pub fn serialize_head(mut head: Parts) -> Vec<u8> {
    let close = HeaderValue::from_static("close");
    head.headers.insert(header::CONNECTION, close);
    let date = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&Timestamp::now());
    if let Some(date) = date.ok().and_then(|date| HeaderValue::try_from(date).ok()) {
        head.headers.insert(header::DATE, date);
    }
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        bytes.extend_from_slice(name.as_str().as_bytes());
        bytes.extend_from_slice(b": ");
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}
