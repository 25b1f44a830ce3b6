//! Size limits and timeouts.

use std::time::Duration;

use http::{Version, request::Parts};

/// The largest request body.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// The largest request line with all headers.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// The most headers in a request.
pub const MAX_HEADERS: usize = 100;
/// Concurrent streams on an HTTP/2 connection.
pub(super) const MAX_CONCURRENT_STREAMS: u32 = 64;

/// Whether a request head exceeds the limits. Needed for HTTP/2 only: for HTTP/1.1,
/// hyper enforces `MAX_HEAD_BYTES`, and its own limit of 100 headers.
pub(super) fn head_exceeds_limits(head: &Parts) -> bool {
    if head.version != Version::HTTP_2 {
        return false;
    }
    let path = head
        .uri
        .path_and_query()
        .map_or(0, |path| path.as_str().len());
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    head.headers.len() > MAX_HEADERS || path + headers.sum::<usize>() > MAX_HEAD_BYTES
}

/// Timeouts and limits of a server's connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// For a request head, from its first byte to its last (slowloris); for the first
    /// byte after accepting a connection; and for the TLS handshake.
    pub head_timeout: Duration,
    /// Between the start of one request and the start of the next.
    pub idle_timeout: Duration,
    /// For a write that makes no progress because the client does not read.
    pub write_timeout: Duration,
    /// How long to wait for requests in flight after the last connection was accepted.
    pub drain_timeout: Duration,
    pub max_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(35),
            max_connections: 4096,
        }
    }
}
