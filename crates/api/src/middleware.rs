//! Middleware: the processing that surrounds every request, whatever its outcome.

use std::{
    any::Any,
    cell::RefCell,
    future::{Ready, ready},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use data_encoding::HEXLOWER;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Either},
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version, header, request::Parts};
use hyper::body::Body;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

use super::{
    context::{RequestContext, RequestGuard},
    cors,
    error::ApiError,
    headers::{PETSTORE_UNKNOWN_PARAMETERS, X_REQUEST_ID, set_common_headers},
    prefer,
    router::{self, Dispatch, Pending},
    state::Api,
};
use server::{Client, RequestBody, Response};
use telemetry::redaction::find_secret;

/// Responds to a request: request id, CORS, panics, rate limit and security headers, HEAD. If
/// there is nothing to wait for, as for cached reads, it responds immediately, without a future
/// to poll.
pub fn handle<'a>(
    api: &'a Api,
    client: Client<'a>,
    request: Request<RequestBody<'a>>,
) -> Either<Ready<Response>, BoxFuture<'a, Response>> {
    let (head, body) = request.into_parts();
    let request_id = request_id(&head.headers);
    let mut guard = RequestGuard::new(
        &api.metrics,
        api.access_log,
        client.address(),
        head,
        request_id,
    );
    let route = AssertUnwindSafe(|| route(api, &guard.head, &mut guard.context));
    let dispatch = catch_unwind(route).unwrap_or_else(panicked);
    identify(client, &guard.context);
    let (mut response, error) = match dispatch {
        Ok(Dispatch::Response(response)) => (response, None),
        Ok(Dispatch::Pending(pending)) => {
            return Either::Right(Box::pin(resume(api, client, guard, pending, body)));
        }
        Err(error) => (error.response(), Some(error)),
    };
    finish(api, guard, &mut response, error.as_ref());
    Either::Left(ready(response))
}

fn route<'a>(
    api: &'a Api,
    head: &Parts,
    context: &mut RequestContext,
) -> Result<Dispatch<'a>, ApiError> {
    server::validate(head)?;
    match cors::preflight(&api.cors_origins, head) {
        Some(response) => Ok(Dispatch::Response(response)),
        None => router::route(api, head, context),
    }
}

/// Tells the transport which principal the client is: its API key.
fn identify(client: Client<'_>, context: &RequestContext) {
    if let Some(id) = context.api_key_id {
        client.authenticated(id);
    }
}

async fn resume(
    api: &Api,
    client: Client<'_>,
    mut guard: RequestGuard<'_>,
    pending: Pending<'_>,
    body: RequestBody<'_>,
) -> Response {
    let resumed = pending.resume(api, &guard.head, body, &mut guard.context, client);
    let result = AssertUnwindSafe(resumed).catch_unwind().await;
    // A key that was not cached is known only from here on.
    identify(client, &guard.context);
    let (mut response, error) = match result.unwrap_or_else(panicked) {
        Ok(response) => (response, None),
        Err(error) => (error.response(), Some(error)),
    };
    finish(api, guard, &mut response, error.as_ref());
    response
}

fn finish(
    api: &Api,
    mut guard: RequestGuard<'_>,
    response: &mut Response,
    error: Option<&ApiError>,
) {
    if let Some(quota) = &guard.context.quota {
        quota.set_headers(response.headers_mut());
    }
    if guard.context.is_strict {
        prefer::set_applied(response.headers_mut());
    }
    if let Some(names) = guard.context.unknown_parameters.take() {
        let headers = response.headers_mut();
        headers.insert(PETSTORE_UNKNOWN_PARAMETERS, names);
    }
    let mut request_id = guard.end(response.status(), error);
    let head = &guard.head;
    if head.method == Method::HEAD && response.status() != StatusCode::NOT_MODIFIED {
        if let Some(length) = response.body().size_hint().exact() {
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_LENGTH, length.into());
        }
        *response.body_mut() = Default::default();
    }
    let closes = error.is_some_and(ApiError::closes_connection);
    if closes && head.version != Version::HTTP_2 {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(header::CONNECTION, close);
    }
    cors::set_headers(&api.cors_origins, &head.headers, response);
    if api.is_https {
        require_https(response);
    }
    // The id is unique, so keep it out of HPACK's dynamic table.
    request_id.set_sensitive(true);
    set_common_headers(response.headers_mut(), request_id);
}

/// Returns the client's request id if it is well-formed, otherwise a new one. An id that may
/// contain a secret is replaced, because it is logged.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let well_formed = |id: &&HeaderValue| {
        let id = id.as_bytes();
        (1..=128).contains(&id.len())
            && id
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(b))
            && find_secret(id).is_none()
    };
    let id = server::header_values(headers, X_REQUEST_ID).next();
    match id.filter(well_formed) {
        Some(id) => id.clone(),
        None => new_request_id(),
    }
}

thread_local! {
    /// Faster than a cryptographic generator: a request id is unique, not secret.
    static RANDOM: RefCell<SmallRng> = RefCell::new(SmallRng::from_rng(&mut rand::rng()));
}

/// Generates 32 random hexadecimal digits.
fn new_request_id() -> HeaderValue {
    let random: [u8; 16] = RANDOM.with_borrow_mut(SmallRng::random);
    let mut digits = [0; 32];
    HEXLOWER.encode_mut(&random, &mut digits);
    HeaderValue::from_bytes(&digits).expect("hexadecimal digits are valid in a header")
}

/// Adds the common headers to a response that does not pass through [`handle`].
pub fn with_new_request_id(mut response: Response) -> Response {
    set_common_headers(response.headers_mut(), new_request_id());
    response
}

/// Forbids a browser to use plain HTTP again (HSTS).
pub fn require_https(response: &mut Response) {
    let one_year = HeaderValue::from_static("max-age=31536000");
    let headers = response.headers_mut();
    headers.insert(header::STRICT_TRANSPORT_SECURITY, one_year);
}

fn panicked<T>(payload: Box<dyn Any + Send>) -> Result<T, ApiError> {
    let literal = payload.downcast_ref::<&str>().copied();
    let message = literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let panic = Panic(message.unwrap_or("no message").into());
    Err(ApiError::Internal(Arc::new(panic)))
}

#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
struct Panic(String);
