//! Around every request: its id, and what must not escape.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use axum::{
    extract::Request,
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::error::{ApiError, Logged};

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers a request whatever happens on the way, under its id.
pub async fn answer(request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = handled.unwrap_or_else(|panic| {
        ApiError::Internal(Arc::new(Panicked(message(&*panic)))).into_response()
    });
    if let Some(Logged(cause)) = response.extensions_mut().remove() {
        let status = response.status().as_u16();
        let (path, request_id) = (uri.path(), id.to_str().unwrap_or_default());
        tracing::error!(request_id, %method, path, status, %cause, "request failed");
    }
    response.headers_mut().insert(X_REQUEST_ID, id);
    response
}

/// The client's own id if it is sane, otherwise a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sane = |id: &&HeaderValue| {
        (1..=128).contains(&id.len())
            && id
                .as_bytes()
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(b))
    };
    match headers.get(X_REQUEST_ID).filter(sane) {
        Some(id) => id.clone(),
        None => new_request_id(),
    }
}

pub fn new_request_id() -> HeaderValue {
    let id = format!("{:032x}", rand::random::<u128>());
    id.try_into().expect("hexadecimal digits fit a header")
}

#[derive(Debug, thiserror::Error)]
#[error("a panic: {0}")]
struct Panicked(String);

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message").into()
}
