//! Around every request: its id, and what must not escape.

use std::{any::Any, net::IpAddr, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::{Body, Incoming};

use super::{App, Response, cors, error::ApiError, route, trail::Watch};
use crate::api_key::ApiKeySecret;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request whatever happens on the way, under its id.
pub async fn answer(app: &App, client: IpAddr, request: Request<Incoming>) -> Response {
    let (head, body) = request.into_parts();
    let mut id = request_id(&head.headers);
    let mut watch = Watch::begin(app, client, &head, &id);
    let routed = match cors::preflight(&app.cors, &head) {
        Some(answer) => Ok(Ok(answer)),
        None => {
            let routing = AssertUnwindSafe(route(app, &head, body, &mut watch.trail));
            routing.catch_unwind().await
        }
    };
    let routed = routed
        .unwrap_or_else(|panic| Err(ApiError::Internal(Arc::new(Panicked(message(&*panic))))));
    let (mut answer, error) = match routed {
        Ok(answer) => (answer, None),
        Err(error) => (error.answer(), Some(error)),
    };
    if let Some(quota) = &watch.trail.quota {
        quota.mark(&mut answer);
    }
    watch.end(answer.status(), error.as_ref());
    if head.method == Method::HEAD && answer.status() != StatusCode::NOT_MODIFIED {
        let length = answer.body().size_hint().exact().unwrap_or_default();
        answer
            .headers_mut()
            .insert(header::CONTENT_LENGTH, length.into());
        *answer.body_mut() = Default::default();
    }
    cors::mark(&app.cors, &head.headers, &mut answer);
    // No two are the same, so HTTP/2 need not remember them for the next answer.
    id.set_sensitive(true);
    answer.headers_mut().insert(X_REQUEST_ID, id);
    answer
}

/// The client's own id if it is sane, otherwise a new one. One that may hold a
/// key would bring it into the log.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    const KEY: &[u8] = ApiKeySecret::PREFIX.as_bytes();
    let sane = |id: &&HeaderValue| {
        (1..=128).contains(&id.len())
            && id
                .as_bytes()
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(b))
            && !id.as_bytes().windows(KEY.len()).any(|part| part == KEY)
    };
    match headers.get(X_REQUEST_ID).filter(sane) {
        Some(id) => id.clone(),
        None => new_request_id(),
    }
}

/// 32 random hexadecimal digits.
pub fn new_request_id() -> HeaderValue {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut id = [0; 32];
    for (pair, byte) in id.chunks_exact_mut(2).zip(rand::random::<[u8; 16]>()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    HeaderValue::from_bytes(&id).expect("hexadecimal digits fit a header")
}

#[derive(Debug, thiserror::Error)]
#[error("a panic: {0}")]
struct Panicked(String);

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").into()
}
