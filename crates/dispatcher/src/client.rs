//! One attempt to deliver a message: an HTTP request to a checked address.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{
    Request, Response,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::OnceCell,
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use super::{Attempt, Config, metrics::Metrics};
use domain::{
    clock::Clock,
    webhook::{
        address::CheckedAddress,
        delivery::AttemptError,
        schedule::Outcome,
        secret::SigningSecrets,
        url::{Host, WebhookUrl},
    },
};
use outbound::{
    bounded_stream::{BoundedStream, ReadBudget},
    tls,
};

/// The maximum size of the head of a response. hyper allows no less than 8 KiB.
const MAX_HEAD: usize = 16 << 10;
/// The bytes that a receiver may send per attempt beyond the body of its response: the TLS
/// handshake, interim responses (1xx), the head, chunk sizes and trailers.
const MAX_OVERHEAD: usize = 64 << 10;

/// A message and its destination.
pub struct Message<'a> {
    pub url: &'a WebhookUrl,
    pub secrets: &'a SigningSecrets,
    /// Stays the same when the message is sent again.
    pub id: &'a str,
    pub body: Bytes,
}

/// Sends messages.
pub struct Client {
    config: Config,
    clock: Clock,
    metrics: Arc<Metrics>,
    /// Loaded when the first message needs it.
    tls: OnceCell<TlsConnector>,
}

/// Idle connections to one receiver, kept for the next request.
#[derive(Default)]
pub struct Connections(Mutex<Vec<(Connection, Instant)>>);

/// A connection. Dropping it closes it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    budget: ReadBudget,
    _task: AbortOnDropHandle<()>,
}

impl Connections {
    /// Takes the connection that was used last.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.0.lock().expect(LOCK);
        let (now, mut popped) = (Instant::now(), std::iter::from_fn(|| idle.pop()));
        let usable = popped.find(|(it, until)| !it.sender.is_closed() && now < *until);
        usable.map(|(connection, _)| connection)
    }

    fn keep(&self, connection: Connection, until: Instant) {
        self.0.lock().expect(LOCK).push((connection, until));
    }

    /// Closes connections that were idle for too long. Call it from time to time.
    pub fn close_expired(&self) {
        let now = Instant::now();
        self.0.lock().expect(LOCK).retain(|(_, until)| now < *until);
    }
}

impl Client {
    pub fn new(config: Config, clock: Clock, metrics: Arc<Metrics>) -> Self {
        Self {
            config,
            clock,
            metrics,
            tls: OnceCell::new(),
        }
    }

    /// Sends a message once. Dropping the future closes the connection.
    pub async fn attempt(&self, message: &Message<'_>, connections: &Connections) -> Attempt {
        let _in_flight = self.metrics.attempts_in_flight.track();
        let start = Instant::now();
        let deadline = start + self.config.limits.attempt_timeout;
        let response = timeout_at(deadline, self.send(message, connections)).await;
        let response = response.unwrap_or(Err(AttemptError::TimedOut));
        let duration = start.elapsed();
        let attempt = match response {
            Err(error) => Attempt {
                outcome: Outcome::Failed { retry_after: None },
                status: None,
                error: Some(error),
                duration,
            },
            Ok((connection, response)) => {
                let attempt = self.interpret(&response, duration);
                // The status is known; the rest is read only to reuse the connection.
                let limits = &self.config.limits;
                let rest = drain(response.into_body(), limits.max_response);
                if let Ok(true) = timeout(limits.drain_timeout, rest).await {
                    connections.keep(connection, Instant::now() + limits.idle_timeout);
                }
                attempt
            }
        };
        self.metrics.attempts.count(attempt.outcome);
        attempt
    }

    fn interpret<B>(&self, response: &Response<B>, duration: Duration) -> Attempt {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        let outcome = Outcome::of_response(status, retry_after, self.clock.now());
        Attempt {
            outcome,
            status: Some(status),
            error: (outcome != Outcome::Delivered).then_some(AttemptError::UnsuccessfulStatus),
            duration,
        }
    }

    /// Sends the request and waits for the head of the response.
    async fn send(&self, message: &Message<'_>, connections: &Connections) -> SendResult {
        let url = message.url;
        // The operator may have changed the policy since the URL was stored.
        let allowed = self.config.urls.check(url);
        allowed.map_err(|_| AttemptError::UrlNotAllowed)?;
        let request = self.request(message);
        let request = request.map_err(|_| AttemptError::UrlNotAllowed)?;
        if let Some(connection) = connections.take() {
            connection.budget.reset(self.read_budget());
            // The receiver may close an idle connection at any time, so a failure means nothing
            // yet.
            if let Ok(response) = connection.send(request.clone()).await {
                return Ok(response);
            }
        }
        let deadline = Instant::now() + self.config.limits.connect_timeout;
        let connection = self.connect(url, deadline).await?;
        let response = connection.send(request).await;
        response.map_err(|_| AttemptError::ConnectionLost)
    }

    /// Builds the request. It carries no credentials: a webhook whose URL leads to this service
    /// gets 401, and so cannot cause a loop.
    fn request(&self, message: &Message<'_>) -> http::Result<Request<Full<Bytes>>> {
        let Message {
            url,
            secrets,
            id,
            body,
        } = message;
        let now = self.clock.now();
        Request::post(&*url.path_and_query())
            .header(HOST, url.authority())
            .header(CONTENT_TYPE, "application/cloudevents+json")
            .header(USER_AGENT, concat!("petstore/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", *id)
            .header("webhook-timestamp", now.as_second())
            .header("webhook-signature", secrets.sign(id, now, body))
            .body(Full::new(body.clone()))
    }

    async fn connect(
        &self,
        url: &WebhookUrl,
        deadline: Instant,
    ) -> Result<Connection, AttemptError> {
        let addresses = self.resolve(url.host(), deadline).await?;
        let stream = connect_to_one(&addresses, url.port(), deadline).await?;
        let budget = ReadBudget::new(self.read_budget());
        let stream = BoundedStream::new(stream, budget.clone());
        if !url.is_https() {
            return Connection::new(stream, budget).await;
        }
        let server_name = match url.host() {
            // Neither a certificate nor the server name indication has a final dot.
            Host::Name(name) => ServerName::try_from(name.trim_end_matches('.').to_string()),
            Host::Address(address) => Ok(ServerName::from(*address)),
        };
        let server_name = server_name.map_err(|_| AttemptError::TlsFailed)?;
        let tls = self.tls().await;
        let stream = timeout_at(deadline, tls.connect(server_name, stream)).await;
        let stream = stream.map_err(|_| AttemptError::TimedOut)?;
        Connection::new(stream.map_err(|_| AttemptError::TlsFailed)?, budget).await
    }

    /// Returns the number of bytes that a receiver may send per attempt.
    fn read_budget(&self) -> usize {
        MAX_OVERHEAD + self.config.limits.max_response
    }

    /// Resolves a host, and checks that all of its addresses may be connected to. The connection
    /// must go to one of them: the name may resolve to others the next time (DNS rebinding).
    async fn resolve(
        &self,
        host: &Host,
        deadline: Instant,
    ) -> Result<Vec<CheckedAddress>, AttemptError> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let resolved = timeout_at(deadline, self.config.resolver.resolve(name)).await;
                let resolved = resolved.ok().and_then(Result::ok);
                let resolved = resolved.filter(|addresses| !addresses.is_empty());
                resolved.ok_or(AttemptError::NameNotResolved)?
            }
        };
        let checked = self.config.urls.networks.check(addresses);
        checked.map_err(|_| AttemptError::AddressNotAllowed)
    }

    async fn tls(&self) -> &TlsConnector {
        let more = &self.config.tls_roots;
        let load = async || {
            let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
            let system = system.await.expect("loading certificates does not panic");
            for error in &system.errors {
                tracing::warn!(%error, "certificate authorities of the system not loaded");
            }
            let mut roots = system.certs;
            roots.extend_from_slice(more);
            Arc::new(tls::verifying(roots)).into()
        };
        self.tls.get_or_init(load).await
    }
}

type SendResult = Result<(Connection, Response<Incoming>), AttemptError>;

/// Connects to the first address that accepts. An address that does not respond leaves time for
/// the others.
async fn connect_to_one(
    addresses: &[CheckedAddress],
    port: u16,
    deadline: Instant,
) -> Result<TcpStream, AttemptError> {
    let mut result = Err(AttemptError::ConnectionFailed);
    for (n, address) in addresses.iter().enumerate() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let share = remaining / u32::try_from(addresses.len() - n).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect((address.get(), port))).await {
            Ok(Ok(stream)) => {
                // A request is written in one piece; there is nothing to coalesce.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(_)) => result = Err(AttemptError::ConnectionFailed),
            Err(_) => result = Err(AttemptError::TimedOut),
        }
    }
    result
}

impl Connection {
    async fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        budget: ReadBudget,
    ) -> Result<Self, AttemptError> {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(MAX_HEAD);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|_| AttemptError::ConnectionLost)?;
        // The requests report the errors of the connection.
        let task = tokio::spawn(async { drop(connection.await) });
        let _task = AbortOnDropHandle::new(task);
        Ok(Self {
            sender,
            budget,
            _task,
        })
    }

    async fn send(
        mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<(Self, Response<Incoming>)> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        Ok((self, response))
    }
}

/// Reads the rest of a response, unless it is too large. Returns true if it was read completely.
async fn drain(mut body: Incoming, max: usize) -> bool {
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return false;
        };
        length += frame.data_ref().map_or(0, Bytes::len);
        if length > max {
            return false;
        }
    }
    true
}

const LOCK: &str = "no task panics while holding the lock";

#[cfg(test)]
mod tests;
