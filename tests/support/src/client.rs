//! The HTTP client of all suites, over plain TCP or TLS, with HTTP/1.1 or HTTP/2.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Version, header::HOST};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Identity, Response, TIMEOUT};

/// A byte stream, over TLS or plain TCP.
pub type Stream = Box<dyn Duplex>;

pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

type Body = Full<Bytes>;

/// A client of one service. HTTP/1.1 connections are kept alive, and clones share them.
#[derive(Clone)]
pub struct HttpClient {
    pub address: SocketAddr,
    /// The only certificate to trust, if the service uses TLS.
    pub identity: Option<Identity>,
    /// The local address to connect from.
    pub from: Option<IpAddr>,
    /// HTTP/2 is used with prior knowledge on plain TCP, and negotiated by ALPN over TLS.
    pub version: Version,
    idle: Arc<Mutex<Vec<http1::SendRequest<Body>>>>,
}

/// The reason why there is no response.
#[derive(Debug)]
pub enum RequestError {
    /// Without a connection, the request was not sent.
    NotConnected(io::Error),
    Lost(hyper::Error),
    TimedOut,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotConnected(error) => write!(f, "cannot connect: {error}"),
            Self::Lost(error) => write!(f, "no response: {error}"),
            Self::TimedOut => f.write_str("no response in time"),
        }
    }
}

impl HttpClient {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            identity: None,
            from: None,
            version: Version::HTTP_11,
            idle: Arc::default(),
        }
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = if self.identity.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}{path}", self.address)
    }

    /// Gets a path without an API key.
    pub async fn get(&self, path: &str) -> Response {
        let request = Request::get(self.url(path)).body(Body::default()).unwrap();
        self.send(request).await.unwrap()
    }

    /// Sends a request with an absolute URI. Of a stream of events, only the first chunk is
    /// awaited.
    pub async fn send(&self, request: Request<Body>) -> Result<Response, RequestError> {
        let exchange = async {
            if self.version == Version::HTTP_2 {
                return Response::read(self.open(request).await?).await;
            }
            let (response, connection) = self.send_http1(request).await?;
            let response = Response::read(response).await?;
            self.idle.lock().unwrap().push(connection);
            Ok(response)
        };
        let response = timeout(TIMEOUT, exchange).await;
        response.unwrap_or(Err(RequestError::TimedOut))
    }

    /// Like [`send`](Self::send), but leaves the body to the caller.
    pub async fn open(
        &self,
        request: Request<Body>,
    ) -> Result<http::Response<Incoming>, RequestError> {
        if self.version == Version::HTTP_2 {
            let mut connection = self.http2().await.map_err(RequestError::NotConnected)?;
            let response = connection.send_request(request).await;
            return response.map_err(RequestError::Lost);
        }
        Ok(self.send_http1(request).await?.0)
    }

    /// Returns the connection, too, for the next request.
    async fn send_http1(
        &self,
        mut request: Request<Body>,
    ) -> Result<(http::Response<Incoming>, http1::SendRequest<Body>), RequestError> {
        let host = HeaderValue::try_from(self.address.to_string()).unwrap();
        request.headers_mut().insert(HOST, host);
        let target = request.uri().path_and_query().unwrap().clone();
        *request.uri_mut() = target.into();
        while let Some(mut connection) = self.take_idle() {
            if connection.ready().await.is_err() {
                continue;
            }
            // The service may close an idle connection while the request is on its way.
            let again = (request.method() == Method::GET).then(|| request.clone());
            match connection.try_send_request(request).await {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => match error.take_message().or(again) {
                    Some(again) => request = again,
                    None => return Err(RequestError::Lost(error.into_error())),
                },
            }
        }
        let stream = self.connect().await.map_err(RequestError::NotConnected)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut requests, connection) = handshake.map_err(RequestError::Lost)?;
        tokio::spawn(connection);
        let response = requests.send_request(request).await;
        Ok((response.map_err(RequestError::Lost)?, requests))
    }

    fn take_idle(&self) -> Option<http1::SendRequest<Body>> {
        self.idle.lock().unwrap().pop()
    }

    /// Opens an HTTP/2 connection for concurrent requests.
    pub async fn http2(&self) -> io::Result<http2::SendRequest<Body>> {
        let stream = TokioIo::new(self.connect().await?);
        let handshake = http2::handshake(TokioExecutor::new(), stream).await;
        let (requests, connection) = handshake.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(requests)
    }

    /// Opens a connection.
    pub async fn connect(&self) -> io::Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        if let Some(from) = self.from {
            socket.bind((from, 0).into())?;
        }
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        self.connect_over(stream).await
    }

    /// Uses a TCP connection to the service.
    pub async fn connect_over(&self, stream: TcpStream) -> io::Result<Stream> {
        let Some(identity) = &self.identity else {
            return Ok(Box::new(stream));
        };
        let mut config = identity.client();
        let protocol: &[u8] = match self.version {
            Version::HTTP_2 => b"h2",
            _ => b"http/1.1",
        };
        config.alpn_protocols = vec![protocol.into()];
        Ok(Box::new(tls_handshake(stream, config).await?))
    }
}

/// Starts TLS on a TCP connection.
pub async fn tls_handshake(
    stream: TcpStream,
    config: ClientConfig,
) -> io::Result<TlsStream<TcpStream>> {
    let name = stream.peer_addr()?.ip().into();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}
