//! Transport: accepts connections and serves HTTP/1.1 and HTTP/2 on them, with
//! or without TLS.
//!
//! It enforces size limits and timeouts and drains connections on shutdown. It knows
//! nothing about the API: every request goes to a [`Service`].

mod accept;
mod activity;
mod body;
mod closing;
mod connection;
mod connections;
mod frame_meter;
mod http1;
mod http2;
mod limits;
mod memory;
mod message;
mod metered_stream;
mod protocol;
mod request_body;
mod stream;
mod tls;

use std::{
    net::IpAddr,
    sync::{Arc, atomic::AtomicI64},
};

use http::Request;

use telemetry::metrics::{Counter, Gauge};

use activity::Activity;
pub use activity::HeldMemory;
pub use body::{BodyError, ResponseBody};
pub use connections::{RESERVED_CONNECTIONS, client_network};
pub use limits::{Limits, MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_LARGE_BODY_BYTES};
pub use message::{header_values, validate};
pub use request_body::{RequestBody, RequestBodyError};
pub use tls::{CertificateError, Tls};

/// Serves a [`Service`] on the connections of a listener; `accept.rs` runs it.
pub struct Server<S> {
    pub service: Arc<S>,
    pub limits: Limits,
    /// If `None`, connections are not encrypted.
    pub tls: Option<Arc<Tls>>,
    pub metrics: Arc<Metrics>,
}

impl<S: Service> Server<S> {
    /// Returns a response if a request is not served because its connection is over the limit.
    fn reject_over_limit(&self, health_only: bool, path: &str) -> Option<Response> {
        if !health_only || self.service.is_health_check(path) {
            return None;
        }
        self.metrics.rejected_connections.increment();
        Some(self.service.reject(Rejection::TooManyConnections))
    }
}

#[derive(Debug, Default)]
pub struct Metrics {
    pub open_connections: Gauge,
    /// Connections over the limit that were not served.
    pub rejected_connections: Counter,
    /// Connections that were closed to make room for others.
    pub evicted_connections: Counter,
    /// Connections that were closed because they held too much memory.
    pub reset_connections: Counter,
    /// Memory that requests and unsent responses hold, beyond a free part for each
    /// connection.
    pub held_bytes: AtomicI64,
}

pub type Response = http::Response<ResponseBody>;

/// The client of a connection.
#[derive(Clone, Copy)]
pub struct Client<'a>(&'a Arc<Activity>);

impl Client<'_> {
    pub fn address(self) -> IpAddr {
        self.0.client()
    }

    /// Charges memory to the connection until it is dropped. The transport itself charges each
    /// body, up to [`MAX_LARGE_BODY_BYTES`].
    pub fn hold(self, bytes: usize) -> HeldMemory {
        HeldMemory::new(self.0, bytes)
    }

    /// Records the principal that the service has authenticated. Connections share memory fairly
    /// by principal, and only authenticated connections may have many requests open.
    pub fn authenticated(self, principal: i64) {
        self.0.set_principal(principal);
    }
}

/// A service that responds to the requests of a transport.
pub trait Service: Send + Sync + 'static {
    /// Responds to a request. Must call [`validate`] first and reject what it rejects: this is the
    /// defence against request smuggling.
    fn call<'a>(
        &'a self,
        client: Client<'a>,
        request: Request<RequestBody<'a>>,
    ) -> impl Future<Output = Response> + Send;

    /// Returns true if a request for a path is served even on a connection over the limit.
    fn is_health_check(&self, path: &str) -> bool;

    /// Returns true if the response for a path may take long because the service waits for
    /// something. If the client disconnects during the wait, or just shuts down its sending side,
    /// the request ends.
    fn may_wait(&self, _path: &str) -> bool {
        false
    }

    /// Responds to a client whose request never reaches the service. The connection is
    /// closed afterwards.
    fn reject(&self, rejection: Rejection) -> Response;
}

/// The reason why the transport rejects a client or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The bytes are not a valid HTTP/1.1 request.
    MalformedRequest,
    /// An HTTP/1 request line names a major version other than 1.
    UnsupportedVersion,
    /// The request target has userinfo, a fragment or another form.
    InvalidTarget,
    /// `Host` is missing, repeated or invalid, or differs from `:authority`.
    InvalidHost,
    /// The length of the body is ambiguous.
    InvalidFraming,
    /// The length of the body does not fit into 64 bits.
    BodyTooLarge,
    /// The request line and headers exceed the limits.
    HeadTooLarge,
    /// The request line and headers did not arrive in time.
    HeadTimeout,
    /// The connection limit is reached.
    TooManyConnections,
    /// The client speaks plain HTTP on a port that serves TLS.
    PlainHttpOnTlsPort,
}
