//! Middleware: what surrounds every request, whatever happens while it is
//! served.

use std::{any::Any, cell::RefCell, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use hyper::body::{Body, Incoming};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{context::RequestGuard, cors, error::ApiError, prefer, router, state::Api};
use crate::{
    api_key::ApiKeySecret,
    server::{self, Response},
};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Responds to a request: request id, CORS, panics, rate limit and security headers,
/// HEAD.
pub fn handle(
    api: &Api,
    client: IpAddr,
    request: Request<Incoming>,
) -> impl Future<Output = Response> {
    // An async fn would have space for the request beside its parts.
    let (head, body) = request.into_parts();
    async move {
        let request_id = request_id(&head.headers);
        let mut guard = RequestGuard::new(&api.metrics, api.access_log, client, &head, request_id);
        let result = if let Err(rejection) = server::validate(&head) {
            Err(rejection.into())
        } else if let Some(response) = cors::preflight(&api.cors_origins, &head) {
            Ok(response)
        } else {
            let routed = AssertUnwindSafe(router::route(api, &head, body, &mut guard.context));
            let routed = routed.catch_unwind().await;
            routed.unwrap_or_else(|panic| Err(ApiError::Internal(Arc::new(Panic::new(&*panic)))))
        };
        let (mut response, error) = match result {
            Ok(response) => (response, None),
            Err(error) => (error.response(), Some(error)),
        };
        if let Some(quota) = &guard.context.quota {
            quota.set_headers(response.headers_mut());
        }
        if guard.context.is_strict {
            prefer::set_applied(response.headers_mut());
        }
        let mut request_id = guard.end(response.status(), error.as_ref());
        if head.method == Method::HEAD && response.status() != StatusCode::NOT_MODIFIED {
            if let Some(length) = response.body().size_hint().exact() {
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_LENGTH, length.into());
            }
            *response.body_mut() = Default::default();
        }
        let closes = error.as_ref().is_some_and(ApiError::closes_connection);
        if closes && head.version != Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        cors::set_headers(&api.cors_origins, &head.headers, &mut response);
        if api.is_https {
            require_https(&mut response);
        }
        // Unique, so keep it out of HPACK's dynamic table.
        request_id.set_sensitive(true);
        set_common_headers(response.headers_mut(), request_id);
        response
    }
}

/// The client's request id if it is well-formed, otherwise a new one. An id that may
/// contain an API key is replaced, because it is logged.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    const KEY_PREFIX: &[u8] = ApiKeySecret::PREFIX.as_bytes();
    let well_formed = |id: &&HeaderValue| {
        let id = id.as_bytes();
        (1..=128).contains(&id.len())
            && id
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(b))
            && !id.windows(KEY_PREFIX.len()).any(|part| part == KEY_PREFIX)
    };
    match headers.get(X_REQUEST_ID).filter(well_formed) {
        Some(id) => id.clone(),
        None => new_request_id(),
    }
}

thread_local! {
    /// Quicker than a cryptographic generator: a request id is unique, not secret.
    static RANDOM: RefCell<SmallRng> = RefCell::new(SmallRng::from_rng(&mut rand::rng()));
}

/// 32 random hexadecimal digits.
fn new_request_id() -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [0; 32];
    let random: [u8; 16] = RANDOM.with_borrow_mut(SmallRng::random);
    for (pair, byte) in id.chunks_exact_mut(2).zip(random) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    HeaderValue::from_bytes(&id).expect("hexadecimal digits are valid in a header")
}

/// For responses that do not pass through [`handle`].
pub fn with_new_request_id(mut response: Response) -> Response {
    set_common_headers(response.headers_mut(), new_request_id());
    response
}

/// A browser must not use plain HTTP again (HSTS).
pub fn require_https(response: &mut Response) {
    let one_year = HeaderValue::from_static("max-age=31536000");
    let headers = response.headers_mut();
    headers.insert(header::STRICT_TRANSPORT_SECURITY, one_year);
}

/// The headers of every response. A browser must not guess another media type: a name in
/// a JSON body may look like HTML.
pub fn set_common_headers(headers: &mut HeaderMap, request_id: HeaderValue) {
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers.insert(X_REQUEST_ID, request_id);
}

#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
struct Panic(String);

impl Panic {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self(text.unwrap_or("no message").into())
    }
}
