//! Cross-origin resource sharing: the origins that may call the API from a browser.

use std::str::FromStr;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Uri,
    header::{self, HeaderName},
    request::Parts,
};

use domain::invalid::{Invalid, quoted};
use server::Response;

/// An allowed origin, or `*` for any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl FromStr for Origin {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || {
            let reason = format!(
                "must be an origin such as https://shop.example (scheme, host and any non-default \
                 port, nothing else), or *; got {}",
                quoted(text)
            );
            Invalid::new("cors-origin", reason)
        };
        let is_origin = || {
            let (scheme, host) = text.split_once("://")?;
            let uri: Uri = text.parse().ok()?;
            let default_port = match scheme {
                "http" => 80,
                "https" => 443,
                _ => return None,
            };
            // Browsers omit the default port.
            let has_port = host.rsplit(']').next()?.contains(':');
            let fits = !has_port || uri.port_u16().is_some_and(|port| port != default_port);
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

const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, \
                       Last-Event-ID, Prefer, X-Request-Id";
/// The response headers that a page may read.
const EXPOSED_HEADERS: &str = "Accept-Patch, Allow, Deprecation, ETag, Idempotent-Replayed, Link, Location, \
                       Petstore-Unknown-Parameters, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, Sunset, WWW-Authenticate, \
                       X-Request-Id";
/// The maximum time that a browser may cache the preflight response, in seconds.
const MAX_AGE: &str = "600";

/// Returns the response to a preflight request, which carries no API key.
pub fn preflight(origins: &[Origin], head: &Parts) -> Option<Response> {
    let is_preflight = head.method == Method::OPTIONS
        && head
            .headers
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight || allowed(origins, &head.headers).is_none() {
        return None;
    }
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
        (header::ACCESS_CONTROL_MAX_AGE, MAX_AGE),
    ] {
        set(&mut response, name, value);
    }
    Some(response)
}

/// Tells the browser whether the page may read the response.
pub fn set_headers(origins: &[Origin], request: &HeaderMap, response: &mut Response) {
    if origins.is_empty() {
        return;
    }
    let origin = HeaderValue::from_static("Origin");
    response.headers_mut().append(header::VARY, origin);
    if let Some(origin) = allowed(origins, request) {
        let name = header::ACCESS_CONTROL_ALLOW_ORIGIN;
        response.headers_mut().insert(name, origin);
        set(
            response,
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            EXPOSED_HEADERS,
        );
    }
}

/// Returns the header value that allows the request's origin, if it is allowed.
fn allowed(origins: &[Origin], request: &HeaderMap) -> Option<HeaderValue> {
    let requesting = request.get(header::ORIGIN)?;
    let matches = |origin: &&Origin| origin.0 == "*" || origin.0 == requesting;
    origins.iter().find(matches).map(|origin| origin.0.clone())
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
}
