//! Signed requests over one connection.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{AUTHORIZATION, CONTENT_RANGE, ETAG, HOST, RANGE, USER_AGENT},
};
use jiff::Timestamp;
use outbound::{http1, tls};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::ClientConfig;
use sha2::{Digest, Sha256};
use tokio::{
    net::lookup_host,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    settings::S3Settings,
    signature::{self, Signed},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// The maximum time from the end of a request to the head of its response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// The rate at which a request must be sent at least, in bytes per second.
const MIN_RATE: u64 = 32 << 10;
/// The maximum time until the next bytes of a body arrive.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The bytes that the service may send beyond the body of a response.
const MAX_OVERHEAD: usize = 64 << 10;

/// The delays before a request is sent again that may succeed then.
const RETRIES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// The characters that are encoded in a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The reason why a request was not successful.
#[derive(Debug, thiserror::Error)]
pub enum S3Error {
    #[error("no response from {host}: {cause}; check AWS_ENDPOINT_URL")]
    NoResponse { host: String, cause: http1::Error },
    #[error("{host} rejected a request with {code} ({}){}", status.as_u16(), advice(code))]
    Rejected {
        host: String,
        status: StatusCode,
        code: String,
    },
    #[error("{0} is damaged: it is not what was written")]
    Damaged(String),
    #[error("the file was changed since it was made")]
    FileChanged,
    #[error("the response is not one of S3; check AWS_ENDPOINT_URL")]
    Unexpected,
    #[error("cannot read or write the backup: {0}")]
    File(#[from] io::Error),
}

/// In place of the code of a response that has none: perhaps the service is another one.
const NO_CODE: &str = "no code";

fn advice(code: &str) -> &'static str {
    match code {
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" => {
            "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        "ExpiredToken" | "InvalidToken" => "; renew AWS_SESSION_TOKEN",
        "AccessDenied" => "; the credentials need to list, read, write and delete objects there",
        "NoSuchBucket" => "; create the bucket, or name another",
        "AuthorizationHeaderMalformed" | "PermanentRedirect" => "; check AWS_REGION",
        "RequestTimeTooSkewed" => "; set the clock",
        NO_CODE => "; check AWS_ENDPOINT_URL",
        _ => "",
    }
}

impl S3Error {
    /// Returns true if a request was rejected because of the object that it was for. Credentials
    /// that do not allow it are a reason for all of them.
    pub fn is_about_object(&self) -> bool {
        matches!(self, Self::Rejected { code, .. } if code != "AccessDenied")
    }

    /// Returns true if the same request may succeed later.
    fn is_transient(&self) -> bool {
        match self {
            Self::NoResponse { .. } => true,
            Self::Rejected { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }
}

pub(super) struct Request {
    pub method: Method,
    /// Encoded.
    pub path: String,
    pub query: Vec<(&'static str, String)>,
    /// The first and the last byte to read.
    pub range: Option<(u64, u64)>,
    pub body: Bytes,
}

/// A successful response.
pub(super) struct Reply {
    pub status: StatusCode,
    pub entity_tag: Option<String>,
    /// The size of the whole object, if a range of it was read.
    pub total: Option<u64>,
    pub body: Vec<u8>,
    host: String,
}

impl Reply {
    /// Returns the error that a successful response carries.
    pub fn rejection(&self) -> S3Error {
        rejection(&self.host, StatusCode::INTERNAL_SERVER_ERROR, &self.body)
    }
}

fn rejection(host: &str, status: StatusCode, body: &[u8]) -> S3Error {
    let body = String::from_utf8_lossy(body);
    let code = super::element(&body, "Code").unwrap_or_default();
    // The text comes from elsewhere and may be shown on a terminal.
    let code: String = code
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(64)
        .collect();
    S3Error::Rejected {
        host: host.into(),
        status,
        code: if code.is_empty() {
            NO_CODE.into()
        } else {
            code
        },
    }
}

pub(super) struct Connection {
    settings: Arc<S3Settings>,
    tls: Option<Arc<ClientConfig>>,
    /// The connection of the last request, with the number of bytes that it may receive.
    kept: Option<(http1::Connection, usize)>,
}

impl Connection {
    pub fn new(settings: Arc<S3Settings>) -> Self {
        Self {
            settings,
            tls: None,
            kept: None,
        }
    }

    /// Sends a request, again if it may succeed then: all of them can be repeated.
    pub async fn send(&mut self, request: Request, max_body: usize) -> Result<Reply, S3Error> {
        for delay in RETRIES {
            match self.send_once(&request, max_body).await {
                Err(error) if error.is_transient() => sleep(delay).await,
                result => return result,
            }
        }
        self.send_once(&request, max_body).await
    }

    async fn send_once(&mut self, request: &Request, max_body: usize) -> Result<Reply, S3Error> {
        let host = self.settings.authority.to_string();
        let replied = self.exchange(request, max_body).await;
        let (status, headers, body) = replied.map_err(|cause| S3Error::NoResponse {
            host: host.clone(),
            cause,
        })?;
        if !status.is_success() {
            return Err(rejection(&host, status, &body));
        }
        let header = |name| {
            headers
                .get(name)
                .and_then(|it: &HeaderValue| it.to_str().ok())
        };
        let is_tag = |tag: &&str| !tag.contains(['<', '>', '&']);
        let total = header(CONTENT_RANGE).and_then(|range| range.rsplit('/').next());
        Ok(Reply {
            status,
            entity_tag: header(ETAG).filter(is_tag).map(String::from),
            total: total.and_then(|total| total.parse().ok()),
            body,
            host,
        })
    }

    async fn exchange(
        &mut self,
        request: &Request,
        max_body: usize,
    ) -> http1::Result<(StatusCode, HeaderMap, Vec<u8>)> {
        let max_received = max_body + MAX_OVERHEAD;
        // The service may have closed the connection in the meantime.
        if let Some((connection, budget)) = self.kept.take()
            && budget >= max_received
            && !connection.is_closed()
            && let Ok(replied) = self.send_over(connection, budget, request, max_body).await
        {
            return Ok(replied);
        }
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let host = self.settings.host().to_string();
        let resolving = lookup_host((&*host, self.settings.port()));
        let addresses: Vec<_> = timeout_at(deadline, resolving)
            .await?
            .map_err(http1::Error::Connection)?
            .collect();
        let tls = self.tls().await;
        let tls = tls.as_ref().map(|tls| (tls, &*host));
        let connection = http1::Connection::open(&addresses, tls, max_received, deadline).await?;
        self.send_over(connection, max_received, request, max_body)
            .await
    }

    async fn send_over(
        &mut self,
        mut connection: http1::Connection,
        budget: usize,
        request: &Request,
        max_body: usize,
    ) -> http1::Result<(StatusCode, HeaderMap, Vec<u8>)> {
        let signed = self.sign(request).await;
        let sending = Duration::from_secs(request.body.len() as u64 / MIN_RATE);
        let response = timeout(RESPONSE_TIMEOUT + sending, connection.send(signed)).await??;
        let (head, body) = response.into_parts();
        let body = http1::read(body, max_body, MAX_PAUSE).await?;
        self.kept = Some((connection, budget));
        Ok((head.status, head.headers, body))
    }

    async fn sign(&self, request: &Request) -> http::Request<Bytes> {
        let settings = &self.settings;
        let content = request.body.clone();
        let hash = tokio::task::spawn_blocking(move || Sha256::digest(content)).await;
        let payload = signature::hex(&hash.expect("hashing does not panic"));
        let encode = |text: &str| utf8_percent_encode(text, QUERY).to_string();
        // A signature is of the query in this order.
        let mut query: Vec<_> = request.query.iter().collect();
        query.sort_unstable_by_key(|(name, _)| *name);
        let query: Vec<_> = query
            .into_iter()
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        let query = query.join("&");
        let time = Timestamp::now();
        let authorization = signature::authorization(
            settings,
            &Signed {
                method: request.method.as_str(),
                path: &request.path,
                query: &query,
                payload: &payload,
                time,
            },
        );
        let separator = if query.is_empty() { "" } else { "?" };
        let mut signed = http::Request::builder()
            .method(&request.method)
            .uri(format!("{}{separator}{query}", request.path))
            .header(HOST, settings.authority.as_str())
            .header(USER_AGENT, http1::USER_AGENT)
            .header("x-amz-date", signature::date(time))
            .header("x-amz-content-sha256", payload);
        if let Some(token) = &settings.token {
            signed = signed.header("x-amz-security-token", token.clone());
        }
        if let Some((first, last)) = request.range {
            signed = signed.header(RANGE, format!("bytes={first}-{last}"));
        }
        let mut authorization =
            HeaderValue::try_from(authorization).expect("credentials are visible characters");
        authorization.set_sensitive(true);
        let signed = signed.header(AUTHORIZATION, authorization);
        let signed = signed.body(request.body.clone());
        signed.expect("encoded paths are valid")
    }

    async fn tls(&mut self) -> Option<Arc<ClientConfig>> {
        if self.settings.is_https && self.tls.is_none() {
            let load = || tls::verifying(rustls_native_certs::load_native_certs().certs);
            let loaded = tokio::task::spawn_blocking(load).await;
            self.tls = Some(Arc::new(
                loaded.expect("loading certificates does not panic"),
            ));
        }
        self.tls.clone()
    }
}
