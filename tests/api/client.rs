//! The client side: requests, responses, and connections that use TLS if the suite does.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::{self, conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use support::{Identity, Response};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{contract, harness::Server};

/// A request to build and send.
pub struct Request<'a> {
    server: &'a Server,
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    check_body: bool,
    http2: bool,
    from: Option<IpAddr>,
}

impl Request<'_> {
    /// Does not validate the body against the contract: the validator parses numbers
    /// as doubles, and this body has one that a double cannot represent.
    pub fn skip_body_check(mut self) -> Self {
        self.check_body = false;
        self
    }

    /// Appends a header, keeping others of the same name.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers.append(name, value);
        self
    }

    pub fn without_key(mut self) -> Self {
        self.headers.remove(http::header::AUTHORIZATION);
        self
    }

    pub fn with_key(self, key: &str) -> Self {
        self.without_key()
            .header("authorization", format!("Bearer {key}"))
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Uses HTTP/2: with prior knowledge on plain TCP, negotiated by ALPN over TLS.
    pub fn over_http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Connects from this local address.
    pub fn from(mut self, address: impl Into<IpAddr>) -> Self {
        self.from = Some(address.into());
        self
    }

    /// Converts it for hyper.
    pub fn into_http(self) -> http::Request<Full<Bytes>> {
        let url = self.server.url(&self.path);
        let mut request = http::Request::builder().method(self.method).uri(url);
        *request.headers_mut().unwrap() = self.headers;
        request.body(Full::from(self.body)).unwrap()
    }

    /// Sends it and checks the exchange against the contract.
    pub async fn send(self) -> Response {
        let (method, path) = (self.method.clone(), self.path.clone());
        let body = self.check_body.then(|| self.body.clone());
        let response = match self.server.tls {
            None => self.send_plain().await,
            Some(_) => {
                let (server, from, http2) = (self.server, self.from, self.http2);
                let request = self.into_http();
                server.send_encrypted(request, from, http2).await
            }
        };
        contract::check(&method, &path, body.as_deref(), &response.decoded());
        response
    }

    async fn send_plain(self) -> Response {
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .local_address(self.from);
        if self.http2 {
            client = client.http2_prior_knowledge();
        }
        let client = client.build().unwrap();
        let url = self.server.url(&self.path);
        let request = client
            .request(self.method, url)
            .headers(self.headers)
            .body(self.body);
        let mut response = request.send().await.unwrap();
        assert_eq!(response.version() == Version::HTTP_2, self.http2);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = match is_stream(&headers) {
            true => response.chunk().await.unwrap().unwrap_or_default(),
            false => response.bytes().await.unwrap(),
        };
        Response {
            status,
            headers,
            body: body.to_vec(),
        }
    }
}

/// Returns true if the body is a stream of events, of which only the first chunk is awaited.
fn is_stream(headers: &HeaderMap) -> bool {
    headers
        .get("content-type")
        .is_some_and(|media_type| media_type == "text/event-stream")
}

/// A byte stream, over TLS or plain TCP.
pub type Stream = Box<dyn Duplex>;

pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Server {
    /// Builds a request that carries the key with all scopes.
    pub fn request(&self, method: Method, path: &str) -> Request<'_> {
        let mut headers = HeaderMap::new();
        let key = HeaderValue::try_from(format!("Bearer {}", self.key)).unwrap();
        headers.insert(http::header::AUTHORIZATION, key);
        Request {
            server: self,
            method,
            path: path.into(),
            headers,
            body: Vec::new(),
            check_body: true,
            http2: false,
            from: None,
        }
    }

    /// The TLS certificate of the server; panics without TLS.
    pub fn identity(&self) -> &Identity {
        &self.tls.as_ref().expect("the suite runs over TLS").0
    }

    /// Opens a connection, over TLS if the suite runs over TLS.
    pub async fn connect(&self, version: Version) -> Stream {
        self.connect_from(Ipv4Addr::LOCALHOST.into(), version).await
    }

    pub async fn connect_from(&self, from: IpAddr, version: Version) -> Stream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        self.connect_over(stream, version).await
    }

    pub async fn connect_over(&self, stream: TcpStream, version: Version) -> Stream {
        let Some((identity, _)) = &self.tls else {
            return Box::new(stream);
        };
        let mut client = identity.client();
        client.alpn_protocols = match version {
            Version::HTTP_2 => vec![b"h2".into()],
            _ => vec![b"http/1.1".into()],
        };
        Box::new(self.tls_handshake(stream, client).await.unwrap())
    }

    pub async fn tls_handshake(
        &self,
        stream: TcpStream,
        client: ClientConfig,
    ) -> io::Result<TlsStream<TcpStream>> {
        let client = TlsConnector::from(Arc::new(client));
        client.connect(self.address.ip().into(), stream).await
    }

    /// Opens an HTTP/2 connection for concurrent requests.
    pub async fn http2(&self) -> SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.connect(Version::HTTP_2).await);
        let handshake = client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (requests, connection) = handshake.unwrap();
        tokio::spawn(connection);
        requests
    }

    /// Sends a request on a new TLS connection.
    pub async fn send_encrypted(
        &self,
        mut request: http::Request<Full<Bytes>>,
        from: Option<IpAddr>,
        http2: bool,
    ) -> Response {
        let response = if http2 {
            self.http2().await.send_request(request).await
        } else {
            let from = from.unwrap_or(Ipv4Addr::LOCALHOST.into());
            let stream = TokioIo::new(self.connect_from(from, Version::HTTP_11).await);
            let (mut requests, connection) = client::conn::http1::handshake(stream).await.unwrap();
            tokio::spawn(connection);
            let host = HeaderValue::try_from(self.address.to_string()).unwrap();
            request.headers_mut().insert(http::header::HOST, host);
            let path = request.uri().path_and_query().unwrap().clone();
            *request.uri_mut() = path.into();
            requests.send_request(request).await
        };
        let (head, mut body) = response.unwrap().into_parts();
        let body = match is_stream(&head.headers) {
            true => match body.frame().await {
                Some(frame) => frame.unwrap().into_data().unwrap(),
                None => Bytes::new(),
            },
            false => body.collect().await.unwrap().to_bytes(),
        };
        Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.into(),
        }
    }
}
