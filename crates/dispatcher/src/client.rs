//! One attempt to deliver a message: an HTTP request to a checked address.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{
    Request,
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use rustls::ClientConfig;
use tokio::{
    sync::OnceCell,
    time::{Instant, timeout, timeout_at},
};

use super::{Attempt, Config, LOCK, metrics::Metrics};
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
    http1::{self, Connection, Error, Response},
    tls,
};

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
    tls: OnceCell<Arc<ClientConfig>>,
}

/// Idle connections to one receiver, kept for the next request.
#[derive(Default)]
pub struct Connections(Mutex<Vec<(Connection, Instant)>>);

impl Connections {
    /// Takes the connection that was used last.
    fn take(&self) -> Option<Connection> {
        let mut idle = self.0.lock().expect(LOCK);
        let now = Instant::now();
        let mut popped = std::iter::from_fn(|| idle.pop());
        let usable = popped.find(|(connection, until)| !connection.is_closed() && now < *until);
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
        let response = timeout_at(deadline, self.send(message, connections))
            .await
            .unwrap_or(Err(AttemptError::TimedOut));
        let duration = start.elapsed();
        let (outcome, status, error) = match &response {
            Ok((_, response)) => self.interpret(response),
            Err(error) => (Outcome::Failed { retry_after: None }, None, Some(*error)),
        };
        if let Ok((connection, response)) = response {
            // The status is known; the rest is read only to reuse the connection.
            let limits = &self.config.limits;
            let max_time = limits.drain_timeout;
            let rest = http1::read(response.into_body(), limits.max_response, max_time);
            if let Ok(Ok(_)) = timeout(max_time, rest).await {
                connections.keep(connection, Instant::now() + limits.idle_timeout);
            }
        }
        self.metrics.attempts.count(outcome);
        Attempt {
            outcome,
            status,
            error,
            duration,
        }
    }

    fn interpret(&self, response: &Response) -> (Outcome, Option<u16>, Option<AttemptError>) {
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let outcome = Outcome::of_response(status, retry_after, self.clock.now());
        let is_failure = outcome != Outcome::Delivered;
        let error = is_failure.then_some(AttemptError::UnsuccessfulStatus);
        (outcome, Some(status), error)
    }

    /// Sends the request and waits for the head of the response.
    async fn send(
        &self,
        message: &Message<'_>,
        connections: &Connections,
    ) -> Result<(Connection, Response), AttemptError> {
        let url = message.url;
        // The operator may have changed the policy since the URL was stored.
        let allowed = self.config.urls.check(url);
        allowed.map_err(|_| AttemptError::UrlNotAllowed)?;
        let request = self
            .request(message)
            .map_err(|_| AttemptError::UrlNotAllowed)?;
        // The receiver may close an idle connection at any time, so a failure means nothing yet.
        if let Some(mut connection) = connections.take()
            && let Ok(response) = connection.send(request.clone()).await
        {
            return Ok((connection, response));
        }
        let mut connection = self.connect(url).await?;
        let response = connection.send(request).await.map_err(attempt_error)?;
        Ok((connection, response))
    }

    /// Builds the request. It carries no credentials: a webhook whose URL leads to this service
    /// gets 401, and so cannot cause a loop.
    fn request(&self, message: &Message<'_>) -> http::Result<Request<Bytes>> {
        let &Message { url, id, .. } = message;
        let now = self.clock.now();
        let signature = message.secrets.sign(id, now, &message.body);
        Request::post(&*url.path_and_query())
            .header(HOST, url.authority())
            .header(CONTENT_TYPE, "application/cloudevents+json")
            .header(USER_AGENT, http1::USER_AGENT)
            .header("webhook-id", id)
            .header("webhook-timestamp", now.as_second())
            .header("webhook-signature", signature)
            .body(message.body.clone())
    }

    async fn connect(&self, url: &WebhookUrl) -> Result<Connection, AttemptError> {
        let deadline = Instant::now() + self.config.limits.connect_timeout;
        let checked = self.resolve(url.host(), deadline).await?;
        let with_port = |address: &CheckedAddress| SocketAddr::new(address.get(), url.port());
        let addresses: Vec<_> = checked.iter().map(with_port).collect();
        let host = match url.host() {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let tls = if url.is_https() {
            Some((self.tls().await, &*host))
        } else {
            None
        };
        let max_received = MAX_OVERHEAD + self.config.limits.max_response;
        let connection = Connection::open(&addresses, tls, max_received, deadline).await;
        connection.map_err(attempt_error)
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
                let resolved = timeout_at(deadline, self.config.resolver.resolve(name))
                    .await
                    .ok()
                    .and_then(Result::ok)
                    .filter(|addresses| !addresses.is_empty());
                resolved.ok_or(AttemptError::NameNotResolved)?
            }
        };
        let checked = self.config.urls.networks.check(addresses);
        checked.map_err(|_| AttemptError::AddressNotAllowed)
    }

    async fn tls(&self) -> &Arc<ClientConfig> {
        let more = &self.config.tls_roots;
        let load = async || {
            let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs)
                .await
                .expect("loading certificates does not panic");
            for error in &system.errors {
                tracing::warn!(%error, "certificate authorities of the system not loaded");
            }
            let mut roots = system.certs;
            roots.extend_from_slice(more);
            Arc::new(tls::verifying(roots))
        };
        self.tls.get_or_init(load).await
    }
}

fn attempt_error(error: Error) -> AttemptError {
    match error {
        Error::Connection(_) => AttemptError::ConnectionFailed,
        Error::Tls(_) => AttemptError::TlsFailed,
        Error::Timeout(_) => AttemptError::TimedOut,
        Error::Http(_) => AttemptError::ConnectionLost,
    }
}

#[cfg(test)]
mod tests;
