//! Which web pages of other origins may use the service from a browser.

use std::str::FromStr;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{self, HeaderName},
    request::Parts,
};

use super::Response;
use crate::invalid::{Invalid, quoted};

/// An origin that may use the service, or `*` for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl FromStr for Origin {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            let reason = format!(
                "must be a scheme and a host such as https://shop.example, with a port if it has \
                 one and nothing after it, or *; got {}",
                quoted(text)
            );
            Invalid::new("cors-origin", reason)
        };
        let is_origin = || {
            let (scheme, host) = text.split_once("://")?;
            let uri: Uri = text.parse().ok()?;
            let usual = match scheme {
                "http" => 80,
                "https" => 443,
                _ => return None,
            };
            // A browser leaves out the usual port.
            let has_port = host.rsplit(']').next()?.contains(':');
            let fits = !has_port || uri.port_u16().is_some_and(|port| port != usual);
            let plain = uri.authority()?.as_str() == host
                && !host.contains(['@', '*'])
                && host == host.to_ascii_lowercase();
            (plain && fits).then_some(())
        };
        if text != "*" {
            is_origin().ok_or_else(wrong)?;
        }
        HeaderValue::from_str(text).map(Self).map_err(|_| wrong())
    }
}

const METHODS: &str = "GET, HEAD, POST, PATCH";
const HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, \
                       X-Request-Id";
/// What a page may read of an answer.
const EXPOSED: &str = "Accept-Patch, Allow, Deprecation, ETag, Idempotent-Replayed, Link, Location, \
                       RateLimit, RateLimit-Policy, Retry-After, Sunset, WWW-Authenticate, \
                       X-Request-Id";
/// For how long, in seconds, a browser need not ask again.
const MAX_AGE: &str = "600";

/// The answer to a browser that asks whether a page may send a request. It
/// comes without a key.
pub fn preflight(origins: &[Origin], head: &Parts) -> Option<Response> {
    let asks = head.method == Method::OPTIONS
        && head
            .headers
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !asks || allowed(origins, &head.headers).is_none() {
        return None;
    }
    let mut answer = Response::default();
    *answer.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        set(&mut answer, name, value);
    }
    Some(answer)
}

/// Tells a browser whether the page may read the answer.
pub fn mark(origins: &[Origin], request: &HeaderMap, answer: &mut Response) {
    if origins.is_empty() {
        return;
    }
    let by_origin = HeaderValue::from_static("Origin");
    answer.headers_mut().append(header::VARY, by_origin);
    if let Some(origin) = allowed(origins, request) {
        let name = header::ACCESS_CONTROL_ALLOW_ORIGIN;
        answer.headers_mut().insert(name, origin);
        set(answer, header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
}

/// What to allow the request's origin by.
fn allowed(origins: &[Origin], request: &HeaderMap) -> Option<HeaderValue> {
    let asking = request.get(header::ORIGIN)?;
    let fits = |origin: &&Origin| origin.0 == "*" || origin.0 == asking;
    origins.iter().find(fits).map(|origin| origin.0.clone())
}

fn set(answer: &mut Response, name: HeaderName, value: &'static str) {
    let value = HeaderValue::from_static(value);
    answer.headers_mut().insert(name, value);
}
