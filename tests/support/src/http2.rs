//! HTTP/2 on the frame level (RFC 9113), for clients that misbehave.

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame, which a client sends after the preface (RFC 9113, 3.4).
pub const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0];

/// The types of frames.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;

/// Flags.
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Error codes.
pub const CANCEL: u32 = 8;
pub const ENHANCE_YOUR_CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Parses frames into type, stream id and payload; ignores an incomplete last frame.
pub fn frames(mut received: &[u8]) -> impl Iterator<Item = (u8, u32, &[u8])> {
    std::iter::from_fn(move || {
        let (start, rest) = received.split_at_checked(9)?;
        let length = u32::from_be_bytes([0, start[0], start[1], start[2]]);
        let stream = u32::from_be_bytes([start[5], start[6], start[7], start[8]]);
        let (payload, rest) = rest.split_at_checked(length as usize)?;
        received = rest;
        Some((start[3], stream, payload))
    })
}

pub fn request_head(method: &str, path: &str) -> Vec<u8> {
    [
        literal_header(":method", method),
        literal_header(":scheme", "https"),
        literal_header(":authority", "x"),
        literal_header(":path", path),
    ]
    .concat()
}

/// A request without a body.
pub fn request(stream: u32, method: &str, path: &str) -> Vec<u8> {
    let head = request_head(method, path);
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &head)
}

/// An HPACK literal header field without indexing or Huffman coding (RFC 7541, 6.2.2).
pub fn literal_header(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    let string = |bytes: &[u8]| [&[u8::try_from(bytes.len()).unwrap()], bytes].concat();
    [&[0][..], &string(name.as_ref()), &string(value.as_ref())].concat()
}
