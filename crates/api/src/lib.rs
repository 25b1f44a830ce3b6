//! The API: the meaning of a request, from its bytes to its response.
//!
//! A request passes `middleware` (request id, panics, CORS, HEAD), `router`,
//! `auth` (authentication and authorization), `admission` (load shedding) and
//! the handler of its operation, such as in `pets` or `orders`. A handler reads typed
//! input from `request`, calls the store, and responds through `response`,
//! `cache` or `error`. `server` handles the sockets.

mod admission;
mod assets;
mod auth;
mod batch_limits;
mod cache;
mod cached_response;
mod categories;
mod compression;
mod console;
mod context;
mod contracts;
mod cors;
mod detached;
mod docs;
mod error;
mod event_feed;
mod events;
mod headers;
mod health;
mod imports;
pub mod key_cache;
mod keys;
mod known_secrets;
mod links;
pub mod metrics;
mod middleware;
mod openapi;
mod operation;
mod orders;
mod path;
mod pet_batches;
mod pets;
mod photos;
mod preconditions;
mod prefer;
mod rate_limit;
mod reports;
mod request;
mod response;
mod router;
mod routes;
mod settings;
mod similar_path;
mod state;
mod undo;
mod unknown_parameters;
mod uploads;
mod webhooks;

use http::{HeaderValue, Request, header};

use error::ApiError;
pub use event_feed::{EventFeed, StreamLimits};
pub use health::Health;
use server::{Client, Rejection, RequestBody, Response, Service};

pub use admission::AdmissionLimits;
pub use cors::Origin;
pub use middleware::with_new_request_id;
pub use openapi::{Contract, PublicUrl, Scheme, loopback_if_unspecified};
pub use operation::DEPRECATED;
pub use rate_limit::RateLimit;
pub use state::{Api, Config};
pub use uploads::UploadLimits;

impl Service for Api {
    fn call<'a>(
        &'a self,
        client: Client<'a>,
        request: Request<RequestBody<'a>>,
    ) -> impl Future<Output = Response> + Send {
        middleware::handle(self, client, request)
    }

    fn is_health_check(&self, path: &str) -> bool {
        Health::is_probe(path)
    }

    fn may_wait(&self, path: &str) -> bool {
        path == events::FEED_PATH
    }

    fn reject(&self, rejection: Rejection) -> Response {
        let mut response = reject(rejection);
        // HSTS is not sent over plain HTTP (RFC 6797, section 7.2).
        if self.is_https && rejection != Rejection::PlainHttpOnTlsPort {
            middleware::require_https(&mut response);
        }
        response
    }
}

/// Responds to a client that the transport rejects. The response closes the connection.
pub fn reject(rejection: Rejection) -> Response {
    let mut response = ApiError::from(rejection).response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    with_new_request_id(response)
}

/// Responds with 404, for listeners beside the API.
pub fn not_found(message: &'static str) -> Response {
    with_new_request_id(ApiError::NotFound(message).response())
}

/// Responds with 405 on a path that allows GET and HEAD, for listeners beside the API.
pub fn method_not_allowed() -> Response {
    with_new_request_id(ApiError::READ_ONLY_PATH.response())
}
