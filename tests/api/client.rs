//! The client side: requests and raw connections whose responses are checked against the
//! contract.

use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version, header::AUTHORIZATION};
use http_body_util::Full;
use hyper::client::conn::http2::SendRequest;
use support::{HttpClient, Identity, RawConnection, Response, Stream};

use crate::{contract, harness::Server};

/// A request to build and send.
pub struct Request<'a> {
    server: &'a Server,
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    check_body: bool,
    version: Version,
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
        self.headers.remove(AUTHORIZATION);
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

    pub fn over_http2(mut self) -> Self {
        self.version = Version::HTTP_2;
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

    /// The client that sends it, on a new connection.
    pub fn client(&self) -> HttpClient {
        let mut client = self.server.client(self.version);
        client.from = self.from;
        client
    }

    /// Sends it and checks the exchange against the contract.
    pub async fn send(self) -> Response {
        let client = self.client();
        let method = self.method.clone();
        let path = self.path.clone();
        let body = self.check_body.then(|| self.body.clone());
        let response = client.send(self.into_http()).await.unwrap();
        contract::check(&method, &path, body.as_deref(), &response.decoded());
        response
    }
}

/// A raw HTTP/1.1 connection whose responses are checked against the contract.
pub struct Connection<'a> {
    server: &'a Server,
    pub raw: RawConnection,
}

impl<'a> Connection<'a> {
    pub async fn open(server: &'a Server) -> Self {
        Self::over(server, server.connect(Version::HTTP_11).await)
    }

    pub fn over(server: &'a Server, stream: Stream) -> Self {
        let raw = RawConnection::new(stream);
        Self { server, raw }
    }

    /// Sends text, with `KEY` replaced by the `Authorization` header.
    pub async fn send(&mut self, text: &str) {
        let key = format!("Authorization: Bearer {}", self.server.key);
        self.raw.send(text.replace("KEY", &key)).await;
    }

    /// The response to a request for this method and target, or `None` if the service closed
    /// the connection.
    pub async fn response(&mut self, request: &str) -> Option<Response> {
        let response = self.raw.response().await?;
        let (method, target) = request.split_once(' ').unwrap();
        contract::check(&method.parse().unwrap(), target, None, &response);
        Some(response)
    }

    /// The next response, after which the service must close the connection.
    pub async fn last_response(&mut self, request: &str) -> Response {
        let response = self.response(request).await.expect("a response");
        self.assert_closed().await;
        response
    }

    /// Asserts that the service closes the connection without another response.
    pub async fn assert_closed(&mut self) {
        let response = self.raw.response().await;
        assert!(response.is_none(), "still open: {response:?}");
    }
}

impl Server {
    /// Builds a request that carries the key with all scopes.
    pub fn request(&self, method: Method, path: &str) -> Request<'_> {
        let request = Request {
            server: self,
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Vec::new(),
            check_body: true,
            version: Version::HTTP_11,
            from: None,
        };
        request.with_key(&self.key)
    }

    /// A client that trusts the certificate of the server, if the suite runs over TLS.
    pub fn client(&self, version: Version) -> HttpClient {
        let mut client = HttpClient::new(self.address);
        client.identity = self.tls.as_ref().map(|(identity, _)| identity.clone());
        client.version = version;
        client
    }

    /// The TLS certificate of the server; panics without TLS.
    pub fn identity(&self) -> &Identity {
        &self.tls.as_ref().expect("the suite runs over TLS").0
    }

    /// Opens a connection, over TLS if the suite runs over TLS.
    pub async fn connect(&self, version: Version) -> Stream {
        self.client(version).connect().await.unwrap()
    }

    pub async fn connect_from(&self, from: IpAddr, version: Version) -> Stream {
        let mut client = self.client(version);
        client.from = Some(from);
        client.connect().await.unwrap()
    }

    /// Opens an HTTP/2 connection for concurrent requests.
    pub async fn http2(&self) -> SendRequest<Full<Bytes>> {
        self.client(Version::HTTP_2).http2().await.unwrap()
    }
}
