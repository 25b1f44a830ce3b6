//! Size limits and timeouts.

use std::time::Duration;

use http::{HeaderMap, Uri, Version, request::Parts};
use hyper::body::SizeHint;

/// The largest request body, also of one whose length is not known in advance.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// The largest request body of an operation that takes large ones, with a `Content-Length`.
pub const MAX_LARGE_BODY_BYTES: usize = 1 << 20;
/// The largest request line with all headers.
pub const MAX_HEAD_BYTES: usize = 16 << 10;
/// The most headers in a request.
pub const MAX_HEADERS: usize = 100;
/// Concurrent streams on an HTTP/2 connection.
pub(super) const MAX_CONCURRENT_STREAMS: u32 = 64;

/// Returns true if the head of an HTTP/2 request exceeds the limits. One of HTTP/1.1 is not even
/// parsed then.
pub(super) fn head_exceeds_limits(head: &Parts) -> bool {
    head.version == Version::HTTP_2
        && (head.headers.len() > MAX_HEADERS
            || head_bytes(&head.uri, &head.headers) > MAX_HEAD_BYTES)
}

/// The size of a request head: its path, and the names and values of its headers.
pub(super) fn head_bytes(uri: &Uri, headers: &HeaderMap) -> usize {
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len());
    path + headers.sum::<usize>()
}

/// The most memory that the body of a request can take. A body that is longer than a large one is
/// not read, or by a service that charges the rest when it does ([`Client::hold`]): until then it
/// takes no more than the buffer of the transport.
///
/// [`Client::hold`]: crate::Client::hold
pub(super) fn max_body_bytes(size: &SizeHint) -> usize {
    match size.upper() {
        Some(length) if length <= MAX_LARGE_BODY_BYTES as u64 => length as usize,
        _ => MAX_BODY_BYTES,
    }
}

/// Timeouts and limits of a server's connections.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The timeout of a request head, from its first byte to its last (slowloris); of the
    /// first byte after a connection was accepted; and of the TLS handshake.
    pub head_timeout: Duration,
    /// The head timeout of a connection over the limit, if it is shorter.
    pub reserved_head_timeout: Duration,
    /// The maximum time between the start of one request and the start of the next.
    pub idle_timeout: Duration,
    /// The time for which writes may be blocked because the client does not read, unless it
    /// reads at the minimum rate.
    pub write_timeout: Duration,
    /// Bytes per second that a client must read while it blocks writes.
    pub min_read_rate: u32,
    /// The time for which connections are still accepted after the signal to shut down, while
    /// each connection is closed after its next response.
    pub drain_delay: Duration,
    /// The maximum wait for requests in flight after the last connection was accepted.
    pub drain_timeout: Duration,
    pub max_connections: usize,
    /// The maximum number of connections of one client address; IPv6 addresses count by /64.
    pub max_connections_per_address: Option<usize>,
    /// The maximum memory of the requests and unsent responses of all connections.
    pub max_held_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(10),
            reserved_head_timeout: Duration::from_secs(2),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            min_read_rate: 1024,
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(35),
            max_connections: 4096,
            max_connections_per_address: None,
            max_held_bytes: 256 << 20,
        }
    }
}
