//! An HTTP client for the commands that use the API of a service.

use std::{env, error::Error, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use clap::Args;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST, LINK, RETRY_AFTER, USER_AGENT},
    request,
    uri::Scheme,
};
use rustls::ClientConfig;
use tokio::{
    net::lookup_host,
    time::{Instant, timeout, timeout_at},
};

use domain::photo::{DECODE_TIMEOUT, MIN_UPLOAD_RATE};
use outbound::{
    http1::{self, Connection},
    tls,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The maximum time to connect, or until the next part of a response arrives.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum time that a response may take from its head to its end.
const MAX_BODY_TIME: Duration = Duration::from_secs(300);
/// The maximum number of bytes that a service may send for one request. A page of events, the
/// longest response there is, takes less than a quarter of it.
const MAX_RESPONSE: usize = 8 << 20;
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
        let host = uri
            .host()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .into();
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

    /// Returns the path of the service. The URL may include the version of the API.
    fn root(&self) -> &str {
        let path = self.uri.path().trim_end_matches('/');
        path.strip_suffix("/v1").unwrap_or(path)
    }

    fn base_path(&self) -> String {
        format!("{}/v1", self.root())
    }

    /// Returns the URL of a page of the service.
    pub fn page(&self, path: &str) -> String {
        let scheme = self.uri.scheme_str().unwrap_or("http");
        format!("{scheme}://{}{}{path}", self.authority(), self.root())
    }
}

/// The reason why a request was not successful.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}; start the service, or name its URL with --url")]
    NoResponse(String),
    #[error("the response from {0} is too long; name the URL of a petstore service with --url")]
    TooLong(String),
    #[error("the response is not one of a petstore service; name its URL with --url")]
    NotPetstore,
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
    tls: Option<Arc<ClientConfig>>,
    connection: Option<Connection>,
}

impl Client {
    fn new(url: ServiceUrl, api_key: &str) -> Result<Self, &'static str> {
        let mut authorization = HeaderValue::try_from(format!("Bearer {api_key}"))
            .map_err(|_| "this is not an API key")?;
        authorization.set_sensitive(true);
        let tls = url.uses_tls().then(|| {
            let roots = rustls_native_certs::load_native_certs().certs;
            Arc::new(tls::verifying(roots))
        });
        Ok(Self {
            url,
            authorization,
            tls,
            connection: None,
        })
    }

    /// Sends a request to a path below `/v1`, with a body in JSON if there is one. The service may
    /// take `wait` longer to respond.
    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        body: Option<String>,
        wait: Duration,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let mut request = self.start(method, path);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(body.unwrap_or_default().into());
        self.respond(request, wait).await
    }

    /// Sends an image to a path below `/v1`. With the same key it takes effect once, however often
    /// it is sent.
    pub async fn upload(
        &mut self,
        path: &str,
        image: Bytes,
        idempotency_key: &str,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let seconds = image.len() as u64 / MIN_UPLOAD_RATE;
        let wait = DECODE_TIMEOUT + Duration::from_secs(seconds);
        let request = self
            .start(Method::POST, path)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(IDEMPOTENCY_KEY, idempotency_key)
            .body(image);
        self.respond(request, wait).await
    }

    fn start(&self, method: Method, path: &str) -> request::Builder {
        Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url.base_path()))
            .header(HOST, self.url.authority())
            .header(AUTHORIZATION, self.authorization.clone())
            .header(USER_AGENT, http1::USER_AGENT)
    }

    /// Sends a request, and returns the response if it was successful.
    async fn respond(
        &mut self,
        request: http::Result<Request<Bytes>>,
        wait: Duration,
    ) -> Result<(HeaderMap, Vec<u8>), Failure> {
        let authority = self.url.authority().to_string();
        let no_response = |cause: &dyn Error| {
            Failure::NoResponse(format!("no response from {authority}: {cause}"))
        };
        let request = request.map_err(|error| no_response(&error))?;
        let response = match self.exchange(request, wait).await {
            Ok(response) => response,
            Err(error) if error.is_too_long() => return Err(Failure::TooLong(authority)),
            Err(error) => return Err(no_response(&error)),
        };
        let (head, body) = response.into_parts();
        let status = head.status;
        if status.is_success() {
            return Ok((head.headers, body));
        }
        let message = error_message(status, &body);
        if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
            let retry_after = retry_after(&head.headers);
            return Err(Failure::Unavailable {
                message,
                retry_after,
            });
        }
        Err(Failure::Rejected { status, message })
    }

    /// Sends the request, over the connection of the last one if it still works.
    async fn exchange(
        &mut self,
        request: Request<Bytes>,
        wait: Duration,
    ) -> http1::Result<Response<Vec<u8>>> {
        // The service may have closed the connection in the meantime. Only a request that takes
        // effect at most once can be sent again.
        let is_repeatable =
            request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_KEY);
        if let Some(connection) = self.connection.take().filter(|_| is_repeatable)
            && let Ok(response) = self.send(connection, request.clone(), wait).await
        {
            return Ok(response);
        }
        let deadline = Instant::now() + TIMEOUT;
        let host = self.url.host.as_str();
        let addresses: Vec<_> = timeout_at(deadline, lookup_host((host, self.url.port())))
            .await?
            .map_err(http1::Error::Connection)?
            .collect();
        let tls = self.tls.as_ref().map(|tls| (tls, host));
        let connection = Connection::open(&addresses, tls, MAX_RESPONSE, deadline).await?;
        self.send(connection, request, wait).await
    }

    /// Sends the request and keeps the connection for the next one.
    async fn send(
        &mut self,
        mut connection: Connection,
        request: Request<Bytes>,
        wait: Duration,
    ) -> http1::Result<Response<Vec<u8>>> {
        let response = timeout(wait + TIMEOUT, connection.send(request)).await??;
        let (head, body) = response.into_parts();
        let body = timeout(MAX_BODY_TIME, http1::read(body, MAX_RESPONSE, TIMEOUT)).await??;
        self.connection = Some(connection);
        Ok(Response::from_parts(head, body))
    }
}

/// Returns the message of an Error body. A proxy may have sent something else.
fn error_message(status: StatusCode, body: &[u8]) -> String {
    let error: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let message = error["message"]
        .as_str()
        .map_or_else(|| format!("response {status}"), shorten);
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
