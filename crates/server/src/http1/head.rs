//! Parses the heads of HTTP/1.1 requests (RFC 9112).

use std::{mem::MaybeUninit, str};

use bytes::{Buf, BytesMut};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, header};
use memchr::{memchr, memchr_iter};

use super::framing::Framing;
use crate::{MAX_HEAD_BYTES, MAX_HEADERS, Rejection};

/// The digits of the largest `Content-Length`.
const MAX_LENGTH_DIGITS: usize = 20;

/// The head of a request, and what it says about the connection.
pub struct Head {
    pub parts: Parts,
    pub framing: Framing,
    /// The client may send another request on the connection.
    pub keeps_alive: bool,
    /// The client sends the body only when it is asked to.
    pub expects_continue: bool,
}

/// Takes the next head from the bytes that were received, if it is complete. Its end is searched
/// for from `scanned`.
pub fn take(received: &mut BytesMut, scanned: &mut usize) -> Result<Option<Head>, Rejection> {
    skip_empty_lines(received);
    let Some(end_of_line) = memchr(b'\n', received) else {
        return incomplete(received);
    };
    check_version(&mut received[..end_of_line])?;
    let Some(length) = find_end(received, (*scanned).max(end_of_line)) else {
        // The last bytes may be a part of the end.
        *scanned = received.len() - 2;
        return incomplete(received);
    };
    *scanned = 0;
    if length > MAX_HEAD_BYTES {
        return Err(Rejection::HeadTooLarge);
    }
    parse(received.split_to(length)).map(Some)
}

/// Skips empty lines in front of a request line (RFC 9112, section 2.2).
fn skip_empty_lines(received: &mut BytesMut) {
    while let [b'\n', ..] | [b'\r', b'\n', ..] = **received {
        received.advance(if received[0] == b'\n' { 1 } else { 2 });
    }
}

fn incomplete(received: &[u8]) -> Result<Option<Head>, Rejection> {
    match received {
        // No method: the client speaks another protocol, and may wait for a response.
        [first, ..] if *first != b'\r' && !first.is_ascii_graphic() => {
            Err(Rejection::MalformedRequest)
        }
        _ if received.len() >= MAX_HEAD_BYTES => Err(Rejection::HeadTooLarge),
        _ => Ok(None),
    }
}

/// Returns the length of the head, which ends with the first empty line.
fn find_end(received: &[u8], from: usize) -> Option<usize> {
    let mut newlines = memchr_iter(b'\n', &received[from..]);
    newlines.find_map(|at| match received[from + at + 1..] {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
    })
}

/// Checks the version at the end of a request line. A later minor version than 1 becomes
/// HTTP/1.1, as which the request is processed (RFC 9110, section 2.5).
fn check_version(line: &mut [u8]) -> Result<(), Rejection> {
    if line.ends_with(b" HTTP/1.1\r") {
        return Ok(());
    }
    let line = match line {
        [line @ .., b'\r'] => line,
        line => line,
    };
    match line {
        [.., b' ', b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor] if minor.is_ascii_digit() => {
            *minor = (*minor).min(b'1');
            Ok(())
        }
        [.., b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Err(Rejection::UnsupportedVersion)
        }
        _ => Err(Rejection::MalformedRequest),
    }
}

fn parse(head: BytesMut) -> Result<Head, Rejection> {
    let head = head.freeze();
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut []);
    match parsed.parse_with_uninit_headers(&head, &mut headers) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Err(httparse::Error::TooManyHeaders) => return Err(Rejection::HeadTooLarge),
        _ => return Err(Rejection::MalformedRequest),
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Err(Rejection::MalformedRequest);
    };
    // `Uri` would drop a fragment.
    if memchr(b'#', target.as_bytes()).is_some() {
        return Err(Rejection::InvalidTarget);
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method =
        Method::from_bytes(method.as_bytes()).map_err(|_| Rejection::MalformedRequest)?;
    parts.uri = Uri::from_maybe_shared(head.slice_ref(target.as_bytes()))
        .map_err(|_| Rejection::InvalidTarget)?;
    parts.version = match minor {
        0 => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    parts.headers = HeaderMap::with_capacity(parsed.headers.len());
    for parsed in &*parsed.headers {
        let name = HeaderName::from_bytes(parsed.name.as_bytes())
            .map_err(|_| Rejection::MalformedRequest)?;
        let value = HeaderValue::from_maybe_shared(head.slice_ref(parsed.value))
            .map_err(|_| Rejection::MalformedRequest)?;
        parts.headers.append(name, value);
    }
    interpret(parts)
}

/// Reads the headers that concern the connection and the length of the body.
fn interpret(parts: Parts) -> Result<Head, Rejection> {
    let is_1_0 = parts.version == Version::HTTP_10;
    let mut length = None;
    let mut is_chunked = false;
    let mut expects_continue = false;
    let mut closes = false;
    let mut keeps_alive = false;
    for (name, value) in &parts.headers {
        let value = value.as_bytes();
        if *name == header::CONTENT_LENGTH {
            if length.replace(content_length(value)?).is_some() {
                return Err(Rejection::InvalidFraming);
            }
        } else if *name == header::TRANSFER_ENCODING {
            // No other coding is supported, and HTTP/1.0 has none.
            if is_chunked || is_1_0 || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Rejection::InvalidFraming);
            }
            is_chunked = true;
        } else if *name == header::EXPECT {
            expects_continue |=
                elements(value).any(|value| value.eq_ignore_ascii_case(b"100-continue"));
        } else if *name == header::CONNECTION {
            for option in elements(value) {
                closes |= option.eq_ignore_ascii_case(b"close");
                keeps_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        }
    }
    let framing = match length {
        Some(_) if is_chunked => return Err(Rejection::InvalidFraming),
        None if is_chunked => Framing::chunked(),
        length => Framing::Length(length.unwrap_or(0)),
    };
    Ok(Head {
        // What follows a CONNECT may be meant for the host that it names.
        keeps_alive: !closes && (keeps_alive || !is_1_0) && parts.method != Method::CONNECT,
        expects_continue: expects_continue && !is_1_0 && !framing.is_complete(),
        parts,
        framing,
    })
}

/// Returns the elements of a list (RFC 9110, section 5.6.1).
fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

fn content_length(value: &[u8]) -> Result<u64, Rejection> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return Err(Rejection::InvalidFraming);
    }
    // Parsers differ in how many zeros may come first.
    let is_bounded = value.len() <= MAX_LENGTH_DIGITS;
    let digits = str::from_utf8(value).ok().filter(|_| is_bounded);
    let length = digits.and_then(|digits| digits.parse().ok());
    length.ok_or(Rejection::BodyTooLarge)
}

#[cfg(test)]
mod tests;
