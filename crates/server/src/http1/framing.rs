//! The length of a request body, and the chunks that it may consist of (RFC 9112, sections 6
//! and 7).

use std::str;

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::SizeHint;
use memchr::memchr;

use crate::limits::MAX_HEAD_BYTES;

/// The digits of the largest size of a chunk. Parsers differ in how many zeros may come first.
const MAX_SIZE_DIGITS: usize = 16;

/// The part of a body that was not taken yet.
#[derive(Debug, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes. A request without a body has none.
    Length(u64),
    Chunked(Chunked),
    /// It cannot be known where the body ends.
    Malformed,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Chunked {
    next: Next,
    /// The bytes of chunk extensions and trailers, which are ignored.
    ignored: usize,
}

/// The element that comes next in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Size,
    Data(u64),
    EndOfData,
    Trailer,
}

/// The next element of a body, as far as it was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    Data(Bytes),
    /// More has to be received first.
    Incomplete,
    End,
    Malformed,
}

impl Framing {
    pub fn chunked() -> Self {
        Self::Chunked(Chunked {
            next: Next::Size,
            ignored: 0,
        })
    }

    pub fn is_complete(&self) -> bool {
        *self == Self::Length(0)
    }

    pub fn size(&self) -> SizeHint {
        match self {
            Self::Length(length) => SizeHint::with_exact(*length),
            Self::Chunked(_) | Self::Malformed => SizeHint::default(),
        }
    }

    /// Returns the number of bytes that are known to follow.
    pub fn announced(&self) -> u64 {
        match self {
            Self::Length(length)
            | Self::Chunked(Chunked {
                next: Next::Data(length),
                ..
            }) => *length,
            Self::Chunked(_) | Self::Malformed => 0,
        }
    }

    /// Takes the next bytes of the body from those that were received.
    pub fn take(&mut self, received: &mut BytesMut) -> Taken {
        match self {
            Self::Length(0) => Taken::End,
            Self::Length(length) => take_up_to(length, received),
            Self::Chunked(chunked) => match chunked.take(received) {
                Taken::End => {
                    *self = Self::Length(0);
                    Taken::End
                }
                Taken::Malformed => {
                    *self = Self::Malformed;
                    Taken::Malformed
                }
                taken => taken,
            },
            Self::Malformed => Taken::Malformed,
        }
    }
}

fn take_up_to(length: &mut u64, received: &mut BytesMut) -> Taken {
    let taken = received
        .len()
        .min(usize::try_from(*length).unwrap_or(usize::MAX));
    if taken == 0 {
        return Taken::Incomplete;
    }
    *length -= taken as u64;
    Taken::Data(received.split_to(taken).freeze())
}

impl Chunked {
    fn take(&mut self, received: &mut BytesMut) -> Taken {
        loop {
            if let Next::Data(length) = &mut self.next {
                let taken = take_up_to(length, received);
                if *length == 0 {
                    self.next = Next::EndOfData;
                }
                return taken;
            }
            let end = memchr(b'\n', received);
            if self.ignored + end.unwrap_or(received.len()) > MAX_HEAD_BYTES {
                return Taken::Malformed;
            }
            let Some(end) = end else {
                return Taken::Incomplete;
            };
            let Some(line) = received[..end].strip_suffix(b"\r") else {
                return Taken::Malformed;
            };
            let next = match self.next {
                Next::Size => chunk_size(line).map(|(size, extension)| {
                    self.ignored += extension;
                    match size {
                        0 => Next::Trailer,
                        _ => Next::Data(size),
                    }
                }),
                Next::EndOfData => line.is_empty().then_some(Next::Size),
                Next::Trailer | Next::Data(_) => {
                    self.ignored += line.len();
                    if line.is_empty() {
                        received.advance(end + 1);
                        return Taken::End;
                    }
                    is_field(line).then_some(Next::Trailer)
                }
            };
            match next {
                Some(next) => self.next = next,
                None => return Taken::Malformed,
            }
            received.advance(end + 1);
        }
    }
}

/// Returns the size of a chunk, and the length of its extension.
fn chunk_size(line: &[u8]) -> Option<(u64, usize)> {
    let end = memchr(b';', line).unwrap_or(line.len());
    let (size, extension) = line.split_at(end);
    let is_text = |byte: &u8| matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
    if !(1..=MAX_SIZE_DIGITS).contains(&size.len())
        || !size.iter().all(u8::is_ascii_hexdigit)
        || !extension.iter().all(is_text)
    {
        return None;
    }
    let size = u64::from_str_radix(str::from_utf8(size).ok()?, 16).ok()?;
    Some((size, extension.len()))
}

/// Returns true for a line with a name and a value, in a trailer.
fn is_field(line: &[u8]) -> bool {
    let mut field = [httparse::EMPTY_HEADER];
    let text = [line, b"\r\n\r\n"].concat();
    httparse::parse_headers(&text, &mut field).is_ok_and(|parsed| parsed.is_complete())
}

#[cfg(test)]
mod tests;
