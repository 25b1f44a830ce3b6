//! An HTTP client for the commands that use the API of a service.

use std::{env, error::Error, io, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Args;
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, LINK, RETRY_AFTER, USER_AGENT},
    uri::Scheme,
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
    time::timeout,
};
use tokio_rustls::TlsConnector;

use outbound::{
    bounded_stream::{BoundedStream, ReadBudget, TooMuchReceived},
    tls,
};

/// The maximum time to connect, or until the next part of a response arrives.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum time that a response may take from its head to its end.
const MAX_BODY_TIME: Duration = Duration::from_secs(300);
/// The maximum number of bytes that a service may send for one request. A page of events, the
/// longest response there is, takes less than a quarter of it.
const MAX_RESPONSE: usize = 8 << 20;
/// The maximum size of the head of a response.
const MAX_HEAD: usize = 64 << 10;
/// The maximum number of bytes that a service may send up to the end of the head: the TLS
/// handshake, interim responses (1xx), and the head itself.
const MAX_UNTIL_HEAD: usize = 256 << 10;
/// The maximum number of characters of an error message that are shown.
const MAX_MESSAGE_CHARS: usize = 1000;

/// The service to use, with the API key in the environment.
#[derive(Args)]
pub struct ServiceArgs {
    /// URL of the service.
    ///
    /// With https, its certificate must be signed by an authority that the system
    /// trusts, or by one in the PEM file that SSL_CERT_FILE names.
    #[arg(long, env = "PETSTORE_URL", default_value = "http://127.0.0.1:8080")]
    url: ServiceUrl,
}

impl ServiceArgs {
    pub fn client(&self) -> Result<Client, String> {
        let key = env::var("PETSTORE_KEY").unwrap_or_default();
        if key.is_empty() {
            return Err(
                "set PETSTORE_KEY to an API key; `petstore keys create NAME` creates one".into(),
            );
        }
        Client::new(self.url.clone(), &key).map_err(|e| format!("PETSTORE_KEY: {e}"))
    }
}

/// The URL of a service, such as `https://pets.example`.
#[derive(Debug, Clone)]
pub struct ServiceUrl {
    uri: Uri,
    host: String,
}

impl FromStr for ServiceUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
            let has_user = uri.authority().is_some_and(|it| it.as_str().contains('@'));
            is_http && !has_user && uri.query().is_none()
        });
        let uri = uri.ok_or("must be a URL such as https://pets.example")?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_matches(['[', ']']).into();
        Ok(Self { uri, host })
    }
}

impl ServiceUrl {
    fn uses_tls(&self) -> bool {
        self.uri.scheme() == Some(&Scheme::HTTPS)
    }

    fn port(&self) -> u16 {
        let default = if self.uses_tls() { 443 } else { 80 };
        self.uri.port_u16().unwrap_or(default)
    }

    fn authority(&self) -> &str {
        self.uri.authority().map_or("", |it| it.as_str())
    }

    /// Returns the path of the API. The URL may include the version.
    fn base_path(&self) -> String {
        let path = self.uri.path().trim_end_matches('/');
        format!("{}/v1", path.strip_suffix("/v1").unwrap_or(path))
    }
}

/// The reason why a request was not successful.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}; start the service, or name its URL with --url")]
    NoResponse(String),
    #[error("{0}; name the URL of a petstore service with --url")]
    TooLong(String),
    /// The same request may succeed later.
    #[error("{message}")]
    Unavailable {
        message: String,
        retry_after: Duration,
    },
    #[error("{message}")]
    Rejected { status: StatusCode, message: String },
}

pub struct Client {
    url: ServiceUrl,
    authorization: HeaderValue,
    tls: Option<TlsConnector>,
    connection: Option<Connection>,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    budget: ReadBudget,
}

impl Client {
    fn new(url: ServiceUrl, api_key: &str) -> Result<Self, &'static str> {
        let authorization = HeaderValue::try_from(format!("Bearer {api_key}"));
        let mut authorization = authorization.map_err(|_| "this is not an API key")?;
        authorization.set_sensitive(true);
        let tls = url.uses_tls().then(|| {
            let roots = rustls_native_certs::load_native_certs().certs;
            Arc::new(tls::verifying(roots)).into()
        });
        Ok(Self {
            url,
            authorization,
            tls,
            connection: None,
        })
    }

    /// Sends a GET request to a path below `/v1`. The service may take `wait` longer to respond.
    pub async fn get(
        &mut self,
        path: &str,
        wait: Duration,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        self.request(Method::GET, path, None, wait).await
    }

    /// Sends a request to a path below `/v1`, with a body in JSON if there is one.
    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Option<String>,
        wait: Duration,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let request = ClientRequest {
            method,
            path,
            body: body.map(Bytes::from),
            wait,
        };
        // The service may have closed the connection in the meantime. Only a request without
        // effect can be sent again.
        let is_safe = request.method.is_safe();
        let (status, headers, body) = match self.connection.take().filter(|_| is_safe) {
            Some(connection) => match self.send(connection, &request).await {
                Err(_) => self.connect_and_send(&request).await,
                response => response,
            },
            None => self.connect_and_send(&request).await,
        }
        .map_err(|error| {
            let authority = self.url.authority();
            if is_too_long(&*error) {
                return Failure::TooLong(format!("the response from {authority} is too long"));
            }
            Failure::NoResponse(format!("no response from {authority}: {}", causes(&*error)))
        })?;
        if status.is_success() {
            return Ok((headers, body));
        }
        let message = error_message(status, &body);
        let is_temporary = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        Err(match is_temporary {
            true => Failure::Unavailable {
                message,
                retry_after: retry_after(&headers),
            },
            false => Failure::Rejected { status, message },
        })
    }

    async fn connect_and_send(&mut self, request: &ClientRequest<'_>) -> SendResult {
        let connection = timeout(TIMEOUT, self.connect()).await??;
        self.send(connection, request).await
    }

    async fn connect(&self) -> Result<Connection, Box<dyn Error>> {
        let (host, port) = (self.url.host.as_str(), self.url.port());
        let budget = ReadBudget::new(MAX_UNTIL_HEAD);
        let stream = TcpStream::connect((host, port)).await?;
        let stream = BoundedStream::new(stream, budget.clone());
        let sender = match &self.tls {
            None => handshake(stream).await?,
            Some(tls) => {
                let name = ServerName::try_from(host.to_string())?;
                handshake(tls.connect(name, stream).await?).await?
            }
        };
        Ok(Connection { sender, budget })
    }

    /// Sends the request and keeps the connection for the next one.
    async fn send(
        &mut self,
        mut connection: Connection,
        request: &ClientRequest<'_>,
    ) -> SendResult {
        connection.budget.reset(MAX_UNTIL_HEAD);
        connection.sender.ready().await?;
        let mut head = Request::builder()
            .method(&request.method)
            .uri(format!("{}{}", self.url.base_path(), request.path))
            .header(HOST, self.url.authority())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(USER_AGENT, concat!("petstore/", env!("CARGO_PKG_VERSION")));
        if request.body.is_some() {
            head = head.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(request.body.clone().unwrap_or_default());
        let sent = connection.sender.send_request(head.body(body)?);
        let response = timeout(request.wait + TIMEOUT, sent).await??;
        let (head, body) = response.into_parts();
        connection.budget.reset(MAX_RESPONSE);
        let bytes = timeout(MAX_BODY_TIME, read(body)).await??;
        self.connection = Some(connection);
        Ok((head.status, head.headers, bytes))
    }
}

struct ClientRequest<'a> {
    method: Method,
    path: &'a str,
    body: Option<Bytes>,
    /// The additional time that the service may take to respond.
    wait: Duration,
}

type SendResult = Result<(StatusCode, HeaderMap, Vec<u8>), Box<dyn Error>>;

async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Full<Bytes>>, Box<dyn Error>> {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Reads a body, whose size is bounded by the budget of its connection.
async fn read(mut body: Incoming) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(TIMEOUT, body.frame()).await? {
        bytes.extend(frame?.into_data().unwrap_or_default());
    }
    Ok(bytes)
}

fn is_too_long(error: &(dyn Error + 'static)) -> bool {
    let is_cause = |error: &io::Error| error.get_ref().is_some_and(|it| it.is::<TooMuchReceived>());
    error.downcast_ref().is_some_and(is_cause) || error.source().is_some_and(is_too_long)
}

/// Formats an error with its causes, none of which hyper shows by itself.
fn causes(error: &(dyn Error + 'static)) -> String {
    // An I/O error shows its cause already.
    let source = error.source().filter(|_| !error.is::<io::Error>());
    source.map_or_else(
        || error.to_string(),
        |source| format!("{error}: {}", causes(source)),
    )
}

/// Returns the message of an Error body. A proxy may have sent something else.
fn error_message(status: StatusCode, body: &[u8]) -> String {
    let error: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = error["message"].as_str();
    let message = message.map_or_else(|| format!("response {status}"), shorten);
    // The message comes from elsewhere and may be shown on a terminal.
    message.replace(char::is_control, "\u{fffd}")
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Returns a query parameter of the link to the next page. The rest of the link may name another
/// host, which must not get the API key.
pub fn next_parameter(headers: &HeaderMap, name: &str) -> Option<String> {
    let link = headers.get(LINK)?.to_str().ok()?;
    let (_, query) = link.split_once('>')?.0.split_once('?')?;
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let (_, value) = parameters.find(|(given, _)| given == name)?;
    Some(value.into())
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let value = headers.get(RETRY_AFTER).and_then(|it| it.to_str().ok());
    let seconds = value.and_then(|it| it.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}
