//! Error responses: every failure is an [`ApiError`], which becomes a response in
//! one place.

use std::{
    borrow::Cow,
    error,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

use super::{
    headers::reserve_common_headers,
    rate_limit::{LimitKind, Quota},
};
use domain::{
    api_key::Scope,
    category,
    event::Gone,
    invalid::Invalid,
    json::ObjectError,
    order, pet,
    webhook::{self, MAX_WEBHOOKS},
};
use server::{MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, Rejection, Response, ResponseBody};

/// A 4xx or 5xx response.
#[derive(Debug, Clone)]
pub enum ApiError {
    InvalidJson(String),
    InvalidBody(String),
    InvalidParameter(Invalid),
    /// Rejected by strict handling.
    UnknownParameter(String),
    InvalidRequest(&'static str),
    Unauthorized(AuthFailure),
    /// Carries the scopes of which the key needs one.
    InsufficientScope(&'static [Scope]),
    NotFound(&'static str),
    /// Carries the methods that the path allows.
    MethodNotAllowed(Cow<'static, str>),
    RequestTimeout(&'static str),
    PetNotAvailable,
    OrderNotOpen,
    OrderNotReturnable,
    /// Carries a message that names the change that the reservation prevents.
    PetReserved(&'static str),
    PetSold,
    CategoryNameTaken,
    TooManyWebhooks,
    WebhookDisabled,
    OperationRemoved,
    /// The log cannot be read from the requested position.
    EventsGone(Gone),
    /// The log no longer has the event of a delivery.
    EventGone(Gone),
    PreconditionFailed(&'static str),
    BodyTooLarge,
    /// Carries the media types that the operation accepts.
    UnsupportedMediaType(&'static [&'static str]),
    /// Carries the same media types, for the headers of the response.
    UnsupportedContentEncoding(&'static [&'static str]),
    IdempotencyKeyReused,
    RateLimited {
        kind: LimitKind,
        quota: Quota,
    },
    HeadTooLarge,
    HttpVersionNotSupported,
    Internal(Cause),
    Unavailable(&'static str, Cause),
    ShuttingDown(&'static str),
    /// A limit on streams and long polls is reached.
    TooManyStreams {
        limit: StreamLimit,
        max: usize,
    },
    /// The limit on test deliveries is reached.
    TooManyTests,
    /// Shed: too many requests are in flight.
    Overloaded,
}

/// The limit on streams and long polls that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamLimit {
    ApiKey,
    Address,
    All,
}

impl StreamLimit {
    pub const ALL: [Self; 3] = [Self::ApiKey, Self::Address, Self::All];
}

/// The reason why a request has no valid API key. Clients are told less than the metrics: not
/// which keys exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthFailure {
    /// No key, or another authentication scheme.
    Missing,
    /// More than one `Authorization` header.
    Repeated,
    /// Not in the format of a key, or the checksum is wrong.
    Malformed,
    Unknown,
    Revoked,
    Expired,
}

impl AuthFailure {
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Repeated,
        Self::Malformed,
        Self::Unknown,
        Self::Revoked,
        Self::Expired,
    ];

    fn message(self) -> &'static str {
        match self {
            Self::Missing => "Authorization: required; send \"Bearer <API_KEY>\"",
            Self::Repeated => "Authorization: must not be repeated",
            Self::Malformed => {
                "Authorization: malformed API key; a key starts with psk_ and has 42 characters"
            }
            Self::Unknown | Self::Revoked | Self::Expired => {
                "Authorization: the API key is unknown, revoked or expired"
            }
        }
    }
}

/// The cause of an error. It goes to the log, never to the client.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

/// The body of every error.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'static str,
    message: &'a str,
    status: u16,
}

impl ApiError {
    pub const READ_ONLY_PATH: Self = Self::MethodNotAllowed(Cow::Borrowed("GET, HEAD"));
    pub const PET_CHANGED: Self = Self::PreconditionFailed(
        "If-Match: the pet has changed; fetch it again and reapply your change",
    );
    pub const CATEGORY_CHANGED: Self = Self::PreconditionFailed(
        "If-Match: the category has changed or has no name; list the categories and reapply your \
         change",
    );
    pub const CATEGORY_EXISTS: Self = Self::PreconditionFailed(
        "If-None-Match: the category has this ETag, or just a name if you sent *; nothing was \
         changed",
    );
    pub const PET_EXISTS: Self = Self::PreconditionFailed(
        "If-None-Match: the pet has this ETag, or just exists if you sent *; nothing was changed",
    );

    fn status(&self) -> StatusCode {
        match self {
            Self::InvalidJson(_)
            | Self::InvalidBody(_)
            | Self::InvalidParameter(_)
            | Self::UnknownParameter(_)
            | Self::InvalidRequest(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::InsufficientScope(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::PetNotAvailable
            | Self::OrderNotOpen
            | Self::OrderNotReturnable
            | Self::PetReserved(_)
            | Self::PetSold
            | Self::CategoryNameTaken
            | Self::TooManyWebhooks
            | Self::WebhookDisabled => StatusCode::CONFLICT,
            Self::OperationRemoved | Self::EventsGone(_) | Self::EventGone(_) => StatusCode::GONE,
            Self::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType(_) | Self::UnsupportedContentEncoding(_) => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            Self::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited { .. }
            | Self::TooManyStreams {
                limit: StreamLimit::ApiKey,
                ..
            } => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::HttpVersionNotSupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable(..)
            | Self::ShuttingDown(_)
            | Self::TooManyStreams { .. }
            | Self::TooManyTests
            | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::InvalidJson(_) => "invalid_json",
            Self::InvalidBody(_) => "invalid_body",
            Self::InvalidParameter(_) | Self::UnknownParameter(_) => "invalid_parameter",
            Self::InvalidRequest(_) => "invalid_request",
            Self::Unauthorized(AuthFailure::Missing) => "missing_api_key",
            Self::Unauthorized(_) => "invalid_api_key",
            Self::InsufficientScope(_) => "insufficient_scope",
            Self::NotFound(_) => "not_found",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::RequestTimeout(_) => "request_timeout",
            Self::PetNotAvailable => "pet_not_available",
            Self::OrderNotOpen => "order_not_open",
            Self::OrderNotReturnable => "order_not_returnable",
            Self::PetReserved(_) => "pet_reserved",
            Self::PetSold => "pet_sold",
            Self::CategoryNameTaken => "category_name_taken",
            Self::TooManyWebhooks => "too_many_webhooks",
            Self::WebhookDisabled => "webhook_disabled",
            Self::OperationRemoved => "operation_removed",
            Self::EventsGone(Gone::Expired) | Self::EventGone(Gone::Expired) => "cursor_expired",
            Self::EventsGone(Gone::Unknown) | Self::EventGone(Gone::Unknown) => "cursor_unknown",
            Self::PreconditionFailed(_) => "precondition_failed",
            Self::BodyTooLarge => "body_too_large",
            Self::UnsupportedMediaType(_) | Self::UnsupportedContentEncoding(_) => {
                "unsupported_media_type"
            }
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::RateLimited { .. }
            | Self::TooManyStreams {
                limit: StreamLimit::ApiKey,
                ..
            } => "rate_limited",
            Self::HeadTooLarge => "head_too_large",
            Self::HttpVersionNotSupported => "http_version_not_supported",
            Self::Internal(_) => "internal_error",
            Self::Unavailable(..)
            | Self::ShuttingDown(_)
            | Self::TooManyStreams { .. }
            | Self::TooManyTests
            | Self::Overloaded => "unavailable",
        }
    }

    fn message(&self) -> Cow<'_, str> {
        match self {
            Self::InvalidJson(reason) => format!("body: invalid JSON: {reason}").into(),
            Self::InvalidBody(message) | Self::UnknownParameter(message) => message.into(),
            Self::InvalidParameter(invalid) => invalid.to_string().into(),
            Self::InvalidRequest(message)
            | Self::NotFound(message)
            | Self::RequestTimeout(message)
            | Self::PreconditionFailed(message)
            | Self::ShuttingDown(message)
            | Self::Unavailable(message, _) => (*message).into(),
            Self::TooManyStreams { limit, max } => {
                let whose = match limit {
                    StreamLimit::ApiKey => "of this API key ",
                    StreamLimit::Address => "of this address ",
                    StreamLimit::All => "",
                };
                format!(
                    "the limit of {max} open event streams and long polls {whose}is reached; close \
                     one, retry later, or poll without wait"
                )
                .into()
            }
            Self::TooManyTests => {
                "too many test deliveries are waiting for their receivers; retry later".into()
            }
            Self::Overloaded => OVERLOADED.into(),
            Self::Unauthorized(failure) => failure.message().into(),
            Self::InsufficientScope(scopes) => {
                let scopes = join_scopes(scopes, " or ");
                format!("Authorization: this API key lacks the required scope {scopes}").into()
            }
            Self::MethodNotAllowed(_) => {
                "method not allowed; see the Allow header for the supported methods".into()
            }
            Self::OperationRemoved => {
                "this operation was removed on 5 December 2030; use GET /v1/pets with the id filter"
                    .into()
            }
            Self::EventsGone(Gone::Expired) => {
                "events are no longer kept as far back as this position; to follow the log, start \
                 over: take the position of after=now, list everything, and follow from there"
                    .into()
            }
            Self::EventsGone(Gone::Unknown) => {
                "this store does not have the event of this position: a backup was restored, a \
                 failover lost it, or it is from another store; start over: take the position of \
                 after=now, list everything, and follow from there"
                    .into()
            }
            Self::EventGone(Gone::Expired) => {
                "eventId: this event is no longer kept, so it cannot be sent again; fetch the \
                 resource that it is about instead"
                    .into()
            }
            Self::EventGone(Gone::Unknown) => {
                "eventId: this store does not have this event; take the id from the list of \
                 deliveries"
                    .into()
            }
            Self::BodyTooLarge => format!("body: must be at most {MAX_BODY_BYTES} bytes").into(),
            Self::UnsupportedMediaType(types) => format!(
                "Content-Type: must be {}; a charset, if given, must be utf-8",
                types.join(" or ")
            )
            .into(),
            Self::UnsupportedContentEncoding(_) => {
                "Content-Encoding: must be identity or absent; send the body uncompressed".into()
            }
            Self::PetNotAvailable => {
                "petId: this pet is not available; it is reserved by another order, sold, or not \
                 for sale"
                    .into()
            }
            Self::OrderNotOpen => {
                "this order is not open; it was completed, cancelled or returned, or has expired; fetch it \
                 to see which"
                    .into()
            }
            Self::OrderNotReturnable => {
                "this order cannot be returned; only a completed order can, while its pet exists"
                    .into()
            }
            Self::PetReserved(message) => (*message).into(),
            Self::PetSold => {
                "status: this pet was sold by an order; return that order to put the pet back on sale; \
                 GET /v1/store/orders?petId=… finds it"
                    .into()
            }
            Self::CategoryNameTaken => {
                "name: another category has this name, ignoring case; choose another name, or rename \
                 or delete that category first"
                    .into()
            }
            Self::TooManyWebhooks => format!(
                "there are {MAX_WEBHOOKS} webhooks, the most that a store can have; delete one that \
                 is no longer needed"
            )
            .into(),
            Self::WebhookDisabled => {
                "this webhook is disabled, so nothing is sent to it; enable it first: PATCH it with \
                 {\"state\":\"enabled\"}"
                    .into()
            }
            Self::IdempotencyKeyReused => {
                "Idempotency-Key: already used for a different request; use a new key for each request"
                    .into()
            }
            Self::RateLimited { kind, quota } => {
                let Quota { limit, retry_after, .. } = quota;
                let exceeded = match kind {
                    LimitKind::ApiKey => "per API key exceeded",
                    LimitKind::Address => {
                        "for requests without a valid API key exceeded for this address"
                    }
                };
                format!("rate limit of {limit} {exceeded}; retry in {retry_after}s").into()
            }
            Self::HeadTooLarge => {
                format!(
                    "request head too large; the request line and headers are limited to \
                     {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers"
                )
                .into()
            }
            Self::HttpVersionNotSupported => {
                "HTTP version not supported; use HTTP/1.1, HTTP/1.0 or HTTP/2".into()
            }
            Self::Internal(_) => {
                "internal error; report it with the X-Request-Id of this response".into()
            }
        }
    }

    /// Returns true if the HTTP/1.1 connection must be closed: the start of the next request is
    /// unknown, or too far away.
    pub fn closes_connection(&self) -> bool {
        matches!(
            self,
            Self::InvalidRequest(_) | Self::BodyTooLarge | Self::RequestTimeout(_)
        )
    }

    /// Returns true if the service works as intended and rejects the request because of a limit,
    /// or because it shuts down. Such responses are counted rather than logged: one log event
    /// each would add to an overload.
    pub fn is_rejection(&self) -> bool {
        matches!(
            self,
            Self::ShuttingDown(_)
                | Self::TooManyStreams { .. }
                | Self::TooManyTests
                | Self::Overloaded
        )
    }

    /// Returns the cause, which only the log shows.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Internal(cause) | Self::Unavailable(_, cause) => Some(cause),
            _ => None,
        }
    }

    fn body(&self) -> Vec<u8> {
        let body = ErrorBody {
            code: self.code(),
            message: &self.message(),
            status: self.status().as_u16(),
        };
        serde_json::to_vec(&body).expect("an error body serializes to JSON")
    }

    /// Returns the headers of the response.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let challenge = match self {
            Self::Unauthorized(AuthFailure::Missing) => {
                Some(HeaderValue::from_static("Bearer realm=\"petstore\""))
            }
            Self::Unauthorized(_) => Some(HeaderValue::from_static(
                "Bearer realm=\"petstore\", error=\"invalid_token\"",
            )),
            Self::InsufficientScope(scopes) => {
                let scopes = join_scopes(scopes, " ");
                let challenge = format!(
                    "Bearer realm=\"petstore\", error=\"insufficient_scope\", scope=\"{scopes}\""
                );
                Some(challenge.try_into().expect("scopes are printable ASCII"))
            }
            _ => None,
        };
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Self::UnsupportedMediaType(types) | Self::UnsupportedContentEncoding(types) = self
            && types.contains(&"application/merge-patch+json")
        {
            let types = HeaderValue::try_from(types.join(", "));
            headers.insert(
                ACCEPT_PATCH,
                types.expect("media types are printable ASCII"),
            );
        }
        if let Self::UnsupportedContentEncoding(_) = self {
            // This header is only for an unsupported coding (RFC 9110, section 12.5.3).
            let identity = HeaderValue::from_static("identity");
            headers.insert(header::ACCEPT_ENCODING, identity);
        }
        let retry_after = match self {
            Self::Unavailable(..)
            | Self::ShuttingDown(_)
            | Self::TooManyStreams { .. }
            | Self::TooManyTests
            | Self::Overloaded => Some(1),
            Self::RateLimited { quota, .. } => Some(quota.retry_after),
            _ => None,
        };
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Self::MethodNotAllowed(methods) = self {
            let methods = HeaderValue::from_str(methods).expect("methods are printable ASCII");
            headers.insert(header::ALLOW, methods);
        }
        headers
    }

    pub fn response(&self) -> Response {
        let response = match self {
            Self::Unauthorized(failure) => UNAUTHORIZED[*failure as usize].clone(),
            _ => self.render(),
        };
        response.map(ResponseBody::Complete)
    }

    fn render(&self) -> http::Response<Full<Bytes>> {
        let mut response = http::Response::new(self.body().into());
        *response.status_mut() = self.status();
        *response.headers_mut() = self.headers();
        response
    }
}

/// The responses to requests without a valid key, rendered once, so that a flood of them costs
/// little.
static UNAUTHORIZED: LazyLock<[http::Response<Full<Bytes>>; AuthFailure::ALL.len()]> =
    LazyLock::new(|| {
        AuthFailure::ALL.map(|failure| {
            let mut response = ApiError::Unauthorized(failure).render();
            reserve_common_headers(response.headers_mut());
            response
        })
    });

fn join_scopes(scopes: &[Scope], separator: &str) -> String {
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(separator)
}

/// The header of RFC 5789.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl From<AuthFailure> for ApiError {
    fn from(failure: AuthFailure) -> Self {
        Self::Unauthorized(failure)
    }
}

impl From<order::OrderRejection> for ApiError {
    fn from(rejection: order::OrderRejection) -> Self {
        match rejection {
            order::OrderRejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            order::OrderRejection::PetNotAvailable => Self::PetNotAvailable,
            order::OrderRejection::NoSuchOrder => Self::NotFound(NO_SUCH_ORDER),
            order::OrderRejection::OrderNotOpen => Self::OrderNotOpen,
            order::OrderRejection::OrderNotReturnable => Self::OrderNotReturnable,
        }
    }
}

impl From<pet::PetRejection> for ApiError {
    fn from(rejection: pet::PetRejection) -> Self {
        match rejection {
            pet::PetRejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            pet::PetRejection::Outdated => Self::PET_CHANGED,
            pet::PetRejection::Reserved => Self::PetReserved(
                "status: cannot be changed while an open order reserves this pet; complete or \
                 cancel the order first",
            ),
            pet::PetRejection::Sold => Self::PetSold,
        }
    }
}

impl From<category::CategoryRejection> for ApiError {
    fn from(rejection: category::CategoryRejection) -> Self {
        match rejection {
            category::CategoryRejection::NoSuchCategory => Self::NotFound(NO_SUCH_CATEGORY),
            category::CategoryRejection::Outdated => Self::CATEGORY_CHANGED,
            category::CategoryRejection::NameTaken => Self::CategoryNameTaken,
        }
    }
}

impl From<webhook::WebhookRejection> for ApiError {
    fn from(rejection: webhook::WebhookRejection) -> Self {
        match rejection {
            webhook::WebhookRejection::NoSuchWebhook => Self::NotFound(NO_SUCH_WEBHOOK),
            webhook::WebhookRejection::TooMany => Self::TooManyWebhooks,
            webhook::WebhookRejection::MissingScope(scope) => {
                Self::InsufficientScope(scope.as_slice())
            }
        }
    }
}

const OVERLOADED: &str = "the service is overloaded; nothing was changed, retry later";
pub const NO_SUCH_PET: &str = "petId: no pet has this id";
pub const INVALID_CATEGORY_ID: &str =
    "categoryId: must be an integer (int64), without plus sign or leading zeros";
pub const NO_SUCH_CATEGORY: &str = "categoryId: no category with this id has a name";
pub const NO_SUCH_ORDER: &str = "orderId: no order has this id";
pub const NO_SUCH_WEBHOOK: &str = "webhookId: no webhook has this id";
pub const NO_SUCH_DELIVERY: &str = "eventId: this webhook has no failed delivery of this event; list \
     its deliveries to see those it has";

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        use store::Error::*;
        let message = match &error {
            Internal(_) => return Self::Internal(Arc::new(error)),
            Overloaded => return Self::Overloaded,
            Unavailable(_) => "the database is unavailable; nothing was changed, retry later",
            OutcomeUnknown(_) => {
                "the database failed during the request; the change may or may not have been made, so \
                 check before you retry"
            }
        };
        Self::Unavailable(message, Arc::new(error))
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> Self {
        match error {
            ObjectError::Malformed(reason) => Self::InvalidJson(reason),
            ObjectError::NotAnObject(_) => Self::InvalidBody(format!("body: {error}")),
        }
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::MalformedRequest => Self::InvalidRequest("invalid HTTP/1.1 request"),
            Rejection::UnsupportedVersion => Self::HttpVersionNotSupported,
            Rejection::InvalidTarget => Self::InvalidRequest(
                "request target: must be a path, or an http or https URL, without user name, \
                 password or fragment",
            ),
            Rejection::InvalidHost => Self::InvalidRequest(
                "Host: must be sent once, as a host and an optional port; in HTTP/2 it must equal \
                 :authority, if both are sent",
            ),
            Rejection::InvalidFraming => Self::InvalidRequest(
                "body: its length must be given once, by Content-Length or by \
                 Transfer-Encoding: chunked",
            ),
            Rejection::BodyTooLarge => Self::BodyTooLarge,
            Rejection::HeadTooLarge => Self::HeadTooLarge,
            Rejection::HeadTimeout => {
                Self::RequestTimeout("request line and headers not received in time")
            }
            Rejection::TooManyConnections => Self::Unavailable(
                "connection limit reached; retry later",
                Arc::new(TooManyConnections),
            ),
            Rejection::PlainHttpOnTlsPort => {
                Self::InvalidRequest("this port requires TLS; use https://")
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("too many connections")]
struct TooManyConnections;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_for_401_has_its_own_response() {
        for failure in AuthFailure::ALL {
            let prepared = &UNAUTHORIZED[failure as usize];
            let rendered = ApiError::Unauthorized(failure).render();
            assert_eq!(prepared.status(), rendered.status());
            assert_eq!(
                format!("{:?}", prepared.body()),
                format!("{:?}", rendered.body())
            );
            for (name, value) in rendered.headers() {
                assert_eq!(prepared.headers().get(name), Some(value));
            }
        }
    }
}
