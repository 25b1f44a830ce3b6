//! An HTTP/1.1 client on hyper. Callers choose addresses and timeouts, and keep connections for
//! later requests; redirects are not followed.

use std::{error, io, iter::successors, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{Builder, SendRequest},
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    net::TcpStream,
    time::{Instant, error::Elapsed, timeout, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::{either::Either, task::AbortOnDropHandle};

use crate::bounded_stream::{BoundedStream, ReadBudget, TooMuchReceived};

/// The `User-Agent` of requests.
pub const USER_AGENT: &str = concat!("petstore/", env!("CARGO_PKG_VERSION"));

/// The maximum size of the head of a response. hyper allows no less than 8 KiB.
const MAX_HEAD: usize = 16 << 10;

/// The reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection, or it failed outside of HTTP.
    #[error("{0}")]
    Connection(#[source] io::Error),
    /// The TLS handshake failed.
    #[error("{0}")]
    Tls(#[source] io::Error),
    #[error(transparent)]
    Timeout(#[from] Elapsed),
    /// The connection was lost, or the peer sent something else than a response. hyper does not
    /// show the causes of its errors by itself.
    #[error("{}", causes(.0).map(ToString::to_string).collect::<Vec<_>>().join(": "))]
    Http(#[from] hyper::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns true if the peer sent more than it may.
    pub fn is_too_long(&self) -> bool {
        causes(self).any(|error| {
            let error = error.downcast_ref().and_then(io::Error::get_ref);
            error.is_some_and(|error| error.is::<TooMuchReceived>())
        })
    }
}

/// Returns an error and its causes.
fn causes<'a>(
    error: &'a (dyn error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn error::Error + 'static)> {
    successors(Some(error), |error| error.source())
}

/// A TLS configuration, and the host that the certificate must name.
pub type Tls<'a> = (&'a Arc<ClientConfig>, &'a str);

/// A byte stream to a peer, plain or over TLS.
pub type Stream = Either<BoundedStream<TcpStream>, TlsStream<BoundedStream<TcpStream>>>;

/// A response whose body has not been read yet.
pub type Response = http::Response<Incoming>;

/// A connection for one request at a time. Dropping it closes it.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    budget: ReadBudget,
    max_received: usize,
    _task: AbortOnDropHandle<()>,
}

impl Connection {
    /// Opens a connection on which the peer may send `max_received` bytes per request, and as many
    /// before the first: the TLS handshake, interim responses (1xx), heads and bodies.
    pub fn open<'a>(
        addresses: &'a [SocketAddr],
        tls: Option<Tls<'a>>,
        max_received: usize,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Self>> {
        Box::pin(async move {
            let budget = ReadBudget::new(max_received);
            let stream = connect(addresses, tls, budget.clone(), deadline).await?;
            let mut builder = Builder::new();
            builder.max_buf_size(MAX_HEAD);
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
            // The requests report the errors of the connection.
            let task = tokio::spawn(async { drop(connection.await) });
            Ok(Self {
                sender,
                budget,
                max_received,
                _task: AbortOnDropHandle::new(task),
            })
        })
    }

    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and waits for the head of the response.
    pub fn send(&mut self, request: Request<Bytes>) -> BoxFuture<'_, Result<Response>> {
        Box::pin(async {
            self.budget.reset(self.max_received);
            self.sender.ready().await?;
            Ok(self.sender.send_request(request.map(Full::new)).await?)
        })
    }
}

/// Reads a body of at most `max` bytes. Each part of it must arrive within `max_pause`.
pub async fn read(mut body: Incoming, max: usize, max_pause: Duration) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(max_pause, body.frame()).await? {
        bytes.extend(frame?.into_data().unwrap_or_default());
        if bytes.len() > max {
            return Err(Error::Connection(io::Error::other(TooMuchReceived)));
        }
    }
    Ok(bytes)
}

/// Connects to the first address that accepts, and negotiates TLS if there is a configuration.
pub async fn connect(
    addresses: &[SocketAddr],
    tls: Option<Tls<'_>>,
    budget: ReadBudget,
    deadline: Instant,
) -> Result<Stream> {
    let stream = BoundedStream::new(connect_to_any(addresses, deadline).await?, budget);
    let Some((config, host)) = tls else {
        return Ok(Either::Left(stream));
    };
    // Neither a certificate nor the server name indication has a final dot.
    let name = ServerName::try_from(host.trim_end_matches('.').to_string())
        .map_err(|error| Error::Tls(io::Error::other(error)))?;
    let handshake = TlsConnector::from(config.clone()).connect(name, stream);
    let stream = timeout_at(deadline, handshake).await?;
    stream.map(Either::Right).map_err(Error::Tls)
}

/// Connects to the first address that accepts. An address that does not respond leaves time for
/// the others.
async fn connect_to_any(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream> {
    let mut failure = Error::Connection(io::ErrorKind::AddrNotAvailable.into());
    for (n, address) in addresses.iter().enumerate() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        let share = remaining / u32::try_from(addresses.len() - n).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // A request is written in one piece; there is nothing to coalesce.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => failure = Error::Connection(error),
            Err(elapsed) => failure = elapsed.into(),
        }
    }
    Err(failure)
}
