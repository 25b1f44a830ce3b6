//! Scans the heads of HTTP/1.1 requests for what hyper does not report.
//!
//! hyper drops the fragment of a request target, a `Content-Length` beside
//! `Transfer-Encoding`, and a second, equal `Content-Length`. It answers a length of
//! more than 64 bits and every version but 1.0 and 1.1 with a 400 or 431 of its own.
//! The scanner follows the requests on the byte stream, finds where each ends, and notes which
//! one to reject and why. It does not frame requests: that remains hyper's decision.
//!
//! It also hides `Upgrade` from hyper, which a server may ignore (RFC 9110, section 7.8). After
//! such a request, hyper hands the connection over as soon as both directions are done, without
//! the part of a response that it has not written yet.

use std::{
    mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use memchr::memchr;

use super::{Rejection, limits::MAX_HEAD_BYTES};

/// The scanner's findings on one connection, for the service.
#[derive(Debug, Default)]
pub struct Findings {
    /// The number of the first request to reject. None is served after it.
    rejection: OnceLock<(u64, Rejection)>,
    /// The heads that the scanner has seen end.
    scanned: AtomicU64,
    /// The requests that hyper has parsed.
    parsed: AtomicU64,
}

impl Findings {
    /// Counts a request that hyper has parsed. Returns the reason if it must be rejected.
    pub fn next_request(&self) -> Option<Rejection> {
        // Only the connection's own task writes.
        let number = self.parsed.load(Ordering::Relaxed);
        self.parsed.store(number + 1, Ordering::Relaxed);
        // hyper gets one head at a time. If it has read another number of heads, it
        // disagrees about where one of them ended.
        let agrees = self.scanned.load(Ordering::Relaxed) == number + 1;
        self.rejection_of(number)
            .or((!agrees).then_some(Rejection::InvalidFraming))
    }

    /// Returns the scanner's reason for a rejection by hyper, or else hyper's.
    pub fn explain(&self, rejection: Rejection) -> Rejection {
        match rejection {
            Rejection::MalformedRequest | Rejection::HeadTooLarge => {
                let number = self.parsed.load(Ordering::Relaxed);
                self.rejection_of(number).unwrap_or(rejection)
            }
            other => other,
        }
    }

    fn rejection_of(&self, number: u64) -> Option<Rejection> {
        let (found, rejection) = *self.rejection.get()?;
        (found == number).then_some(rejection)
    }
}

/// The element that comes next on the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    RequestLine,
    Header,
    Body {
        remaining: u64,
    },
    ChunkSize,
    Chunk {
        remaining: u64,
    },
    ChunkEnd,
    Trailer,
    /// Nothing that matters: hyper closes the connection.
    End,
}

pub struct HeadScanner {
    findings: Arc<Findings>,
    next: Next,
    /// The start of a line whose end was not read yet.
    partial_line: Vec<u8>,
    /// The number of the current request.
    request: u64,
    /// The framing of the current request.
    content_length: Option<u64>,
    has_content_length: bool,
    has_transfer_encoding: bool,
}

impl HeadScanner {
    pub fn new(findings: Arc<Findings>) -> Self {
        Self {
            findings,
            next: Next::RequestLine,
            partial_line: Vec::new(),
            request: 0,
            content_length: None,
            has_content_length: false,
            has_transfer_encoding: false,
        }
    }

    /// Returns true if the next bytes belong to a body.
    pub fn is_in_body(&self) -> bool {
        !matches!(self.next, Next::RequestLine | Next::Header | Next::End)
    }

    /// Scans bytes that were read until a request ends, and returns the number of bytes scanned.
    ///
    /// A later minor version in a request line becomes HTTP/1.1, as which it is processed
    /// (RFC 9110, section 2.5); hyper would reject it.
    pub fn scan(&mut self, bytes: &mut [u8]) -> usize {
        let mut scanned = 0;
        while scanned < bytes.len() {
            let before = self.next;
            scanned += self.scan_part(&mut bytes[scanned..]);
            if self.next == Next::RequestLine && before != Next::RequestLine {
                break;
            }
        }
        scanned
    }

    /// Scans one line, or the bytes of a body.
    fn scan_part(&mut self, bytes: &mut [u8]) -> usize {
        if let Next::Body { remaining } | Next::Chunk { remaining } = self.next {
            let length = remaining.min(bytes.len() as u64);
            self.skip(length);
            return length as usize;
        }
        if self.next == Next::End {
            return bytes.len();
        }
        let end = memchr(b'\n', bytes).map(|newline| newline + 1);
        let length = end.unwrap_or(bytes.len());
        let bytes = &mut bytes[..length];
        if end.is_some() && self.partial_line.is_empty() {
            self.read_line(bytes);
            return length;
        }
        let mut line = mem::take(&mut self.partial_line);
        let start = line.len();
        line.extend_from_slice(bytes);
        if end.is_some() {
            self.read_line(&mut line);
        } else if self.next == Next::RequestLine {
            lower_minor_version(&mut line);
        } else if self.next == Next::Header {
            hide_upgrade(&mut line);
        }
        bytes.copy_from_slice(&line[start..]);
        if end.is_none() {
            self.keep(line);
        }
        length
    }

    fn keep(&mut self, partial_line: Vec<u8>) {
        if partial_line.len() <= MAX_HEAD_BYTES {
            self.partial_line = partial_line;
        } else if matches!(self.next, Next::RequestLine | Next::Header) {
            // hyper rejects it.
            self.next = Next::End;
        } else {
            self.next = self.lose_track();
        }
    }

    /// Ends the scan: whatever hyper makes of a body that is not understood here, no request
    /// follows it.
    fn lose_track(&self) -> Next {
        self.reject(Rejection::InvalidFraming);
        Next::End
    }

    fn skip(&mut self, length: u64) {
        self.next = match self.next {
            Next::Body { remaining } if remaining > length => Next::Body {
                remaining: remaining - length,
            },
            Next::Chunk { remaining } if remaining > length => Next::Chunk {
                remaining: remaining - length,
            },
            Next::Chunk { .. } => Next::ChunkEnd,
            _ => Next::RequestLine,
        };
    }

    fn read_line(&mut self, line: &mut [u8]) {
        let is_empty = matches!(line, [b'\n'] | [b'\r', b'\n']);
        self.next = match self.next {
            // In a chunked body, hyper takes a bare line feed for something else.
            Next::ChunkSize | Next::ChunkEnd | Next::Trailer if !line.ends_with(b"\r\n") => {
                self.lose_track()
            }
            Next::ChunkEnd if !is_empty => self.lose_track(),
            // RFC 9112, section 2.2: ignored.
            Next::RequestLine if is_empty => Next::RequestLine,
            Next::RequestLine => {
                self.read_request_line(line);
                Next::Header
            }
            Next::Header if is_empty => self.end_head(),
            Next::Header => {
                self.read_header(line);
                Next::Header
            }
            Next::ChunkSize => match chunk_size(line) {
                Some(0) => Next::Trailer,
                Some(remaining) => Next::Chunk { remaining },
                None => self.lose_track(),
            },
            Next::ChunkEnd => Next::ChunkSize,
            Next::Trailer if is_empty => Next::RequestLine,
            other => other,
        };
    }

    fn read_request_line(&mut self, line: &mut [u8]) {
        if line.ends_with(b" HTTP/1.1\r\n") && memchr(b'#', line).is_none() {
            return;
        }
        lower_minor_version(line);
        let mut parts = line.trim_ascii_end().splitn(3, |byte| *byte == b' ');
        let _method = parts.next();
        let target = parts.next();
        let version = parts.next();
        if target.is_some_and(|target| target.contains(&b'#')) {
            self.reject(Rejection::InvalidTarget);
        }
        if let Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]) = version
            && *major != b'1'
            && major.is_ascii_digit()
            && minor.is_ascii_digit()
        {
            self.reject(Rejection::UnsupportedVersion);
        }
    }

    fn read_header(&mut self, line: &mut [u8]) {
        // Checks the first byte, because most headers are others.
        match line[0] {
            b't' | b'T' if value_of(line, b"transfer-encoding:").is_some() => {
                self.has_transfer_encoding = true;
            }
            b'c' | b'C' => {
                if let Some(value) = value_of(line, b"content-length:") {
                    self.read_content_length(value.trim_ascii());
                }
            }
            b'u' | b'U' => hide_upgrade(line),
            _ => {}
        }
    }

    fn read_content_length(&mut self, digits: &[u8]) {
        if mem::replace(&mut self.has_content_length, true) {
            self.reject(Rejection::InvalidFraming);
        }
        // hyper rejects other values, and reserves the largest ones.
        if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
            let length = str::from_utf8(digits)
                .ok()
                .and_then(|text| text.parse().ok());
            if length.is_none_or(|length: u64| length >= u64::MAX - 2) {
                self.reject(Rejection::BodyTooLarge);
            }
            self.content_length = length;
        }
    }

    fn end_head(&mut self) -> Next {
        let content_length = self.content_length.take();
        let has_content_length = mem::take(&mut self.has_content_length);
        let has_transfer_encoding = mem::take(&mut self.has_transfer_encoding);
        // hyper ignores a length beside an encoding, even an invalid one.
        if has_transfer_encoding && has_content_length {
            self.reject(Rejection::InvalidFraming);
        }
        self.request += 1;
        self.findings.scanned.store(self.request, Ordering::Relaxed);
        match content_length {
            _ if self.findings.rejection.get().is_some() => Next::End,
            _ if has_transfer_encoding => Next::ChunkSize,
            Some(remaining @ 1..) => Next::Body { remaining },
            _ => Next::RequestLine,
        }
    }

    /// Rejects the current request. The first reason counts.
    fn reject(&self, rejection: Rejection) {
        let _ = self.findings.rejection.set((self.request, rejection));
    }
}

/// Returns the value of a header line if it has this name, which includes the colon.
fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (start, value) = line.split_at_checked(name.len())?;
    start.eq_ignore_ascii_case(name).then_some(value)
}

/// Turns HTTP/1.2 and later at the end of a request line into HTTP/1.1.
fn lower_minor_version(line: &mut [u8]) {
    let length = line.trim_ascii_end().len();
    if let Some((minor, start)) = line[..length].split_last_mut()
        && matches!(minor, b'2'..=b'9')
        && start.ends_with(b" HTTP/1.")
    {
        *minor = b'1';
    }
}

/// Renames `Upgrade`, and headers whose names start with it, at its last letter: the rest of the
/// name may not have arrived yet. The service uses none of them.
fn hide_upgrade(line: &mut [u8]) {
    if let Some(name) = line.get_mut(..7)
        && name.eq_ignore_ascii_case(b"upgrade")
    {
        name[6] = b'_';
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?;
    u64::from_str_radix(str::from_utf8(size).ok()?.trim(), 16).ok()
}

#[cfg(test)]
mod tests;
