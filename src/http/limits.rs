//! How much and how long a client may.

use std::time::Duration;

use http::{Uri, Version, request::Parts};

/// The largest body that is read.
pub const MAX_BODY: usize = 64 << 10;
/// The largest request line with headers.
pub const MAX_HEAD: usize = 16 << 10;
/// The most headers.
pub const MAX_HEADERS: usize = 100;

/// How many requests may run side by side on a connection of HTTP/2.
pub const MAX_STREAMS: u32 = 64;

/// Whether a head is over the limits. hyper sees to that for HTTP/1.1 only.
pub fn is_too_large(head: &Parts) -> bool {
    let headers = || head.headers.iter().map(|(n, v)| n.as_str().len() + v.len());
    head.version == Version::HTTP_2
        && (head.headers.len() > MAX_HEADERS
            || headers().sum::<usize>() + length(&head.uri) > MAX_HEAD)
}

fn length(uri: &Uri) -> usize {
    uri.path_and_query().map_or(0, |path| path.as_str().len())
}

/// How long a client may take for things, and how many may be there at once.
#[derive(Debug, Clone)]
pub struct Limits {
    /// From the first byte of a request's head to its last, from the start of a
    /// connection to its first byte, and, with TLS, to the end of the handshake.
    pub head: Duration,
    /// The whole body.
    pub body: Duration,
    /// Silence before a request begins, counted from when the last one did.
    pub idle: Duration,
    /// A write that makes no progress because the client does not read.
    pub write: Duration,
    /// From the wish to stop until the last connection is cut.
    pub drain: Duration,
    pub connections: usize,
    /// Requests with a valid key that are worked on at a time. One more is
    /// refused at once: those that wait hold memory, and would be answered
    /// late.
    pub requests: usize,
    /// Bodies that are waited for, at a time.
    pub slow_bodies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(35),
            connections: 4096,
            requests: 4096,
            slow_bodies: 2048,
        }
    }
}
