//! Connections to the service, encrypted if the suite runs over TLS.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::{self, conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{
    identity::Identity,
    harness::{Reply, Server},
};

/// A connection, encrypted or not.
pub type Stream = Box<dyn Duplex>;

pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl Server {
    /// The certificate of a server that has one.
    pub fn identity(&self) -> &Identity {
        &self.tls.as_ref().expect("the suite runs over TLS").0
    }

    /// A raw connection, encrypted if the suite runs over TLS.
    pub async fn connect(&self, version: Version) -> Stream {
        self.connect_from(Ipv4Addr::LOCALHOST.into(), version).await
    }

    async fn connect_from(&self, from: IpAddr, version: Version) -> Stream {
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
        Box::new(self.shake_hands(stream, client).await.unwrap())
    }

    pub async fn shake_hands(
        &self,
        stream: TcpStream,
        client: ClientConfig,
    ) -> io::Result<TlsStream<TcpStream>> {
        let client = TlsConnector::from(Arc::new(client));
        client.connect(self.address.ip().into(), stream).await
    }

    /// A connection of HTTP/2 that many requests can share.
    pub async fn http2(&self) -> SendRequest<Full<Bytes>> {
        let stream = TokioIo::new(self.connect(Version::HTTP_2).await);
        let shaken = client::conn::http2::handshake(TokioExecutor::new(), stream).await;
        let (requests, connection) = shaken.unwrap();
        tokio::spawn(connection);
        requests
    }

    /// Sends a request over a connection of its own.
    pub async fn send_encrypted(
        &self,
        mut request: Request<Full<Bytes>>,
        from: Option<IpAddr>,
        http2: bool,
    ) -> Reply {
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
        let (head, body) = response.unwrap().into_parts();
        Reply {
            status: head.status,
            headers: head.headers,
            body: body.collect().await.unwrap().to_bytes().into(),
        }
    }
}
