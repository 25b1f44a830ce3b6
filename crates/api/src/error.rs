//! [`ApiError`]: every failure of a request, with its status, code and message.

mod conversions;
mod response;

use std::{borrow::Cow, error, sync::Arc};

use http::StatusCode;
use jiff::Timestamp;

use super::rate_limit::{LimitKind, Quota};
use domain::{
    api_key::{MAX_KEYS, Scope},
    event::Gone,
    invalid::Invalid,
    pet::PetId,
    webhook::MAX_WEBHOOKS,
};
pub use response::ErrorBody;
use server::{MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_LARGE_BODY_BYTES};

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
    /// Carries the path of the API that is most similar, if one is.
    NoSuchPath(Option<&'static str>),
    /// Carries the methods that the path allows.
    MethodNotAllowed(Cow<'static, str>),
    RequestTimeout(&'static str),
    PetNotAvailable,
    OrderNotOpen,
    OrderNotReturnable,
    OrderNotChangeable,
    /// Carries the pet that has the microchip.
    MicrochipTaken(PetId),
    /// Carries a message that names the change that the reservation prevents.
    PetReserved(&'static str),
    PetSold,
    CategoryNameTaken,
    TooManyWebhooks,
    WebhookDisabled,
    KeyNotRotatable,
    /// Carries the key that has replaced it.
    KeyRotated(i64),
    /// Carries the time at which the key of the caller expires.
    OutlastsCaller(Timestamp),
    LastOwner,
    TooManyKeys,
    OperationRemoved,
    /// The log cannot be read from the requested position.
    PositionGone(Gone),
    /// The log no longer has the event of a delivery.
    DeliveryEventGone(Gone),
    /// A change of an atomic batch was rejected. Carries its index and the reason.
    BatchRejected(usize, Box<Self>),
    PreconditionFailed(&'static str),
    BodyTooLarge(BodyLimit),
    UnsupportedMediaType(UnsupportedContent),
    UnsupportedContentEncoding(UnsupportedContent),
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
    /// The limit on batches is reached.
    TooManyBatches,
    /// Shed: too many requests are in flight.
    Overloaded,
}

/// A body that an operation does not accept.
#[derive(Debug, Clone)]
pub struct UnsupportedContent {
    /// The media types that the operation accepts.
    pub accepted: &'static [&'static str],
    /// The header of the request, quoted.
    pub got: String,
}

/// The limit on the size of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLimit {
    Normal,
    /// That of operations that take many resources at a time.
    Large,
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

    /// Returns the code and the message of the response.
    fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::Missing => (
                "missing_api_key",
                "Authorization: required; send \"Bearer <API_KEY>\"",
            ),
            Self::Repeated => ("invalid_api_key", "Authorization: must not be repeated"),
            Self::Malformed => (
                "invalid_api_key",
                "Authorization: malformed API key; a key starts with psk_ and has 42 characters",
            ),
            Self::Unknown | Self::Revoked | Self::Expired => (
                "invalid_api_key",
                "Authorization: the API key is unknown, revoked or expired",
            ),
        }
    }
}

/// The cause of an error. It goes to the log, never to the client.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

impl ApiError {
    pub const READ_ONLY_PATH: Self = Self::MethodNotAllowed(Cow::Borrowed("GET, HEAD"));
    pub const PET_CHANGED: Self = Self::PreconditionFailed(
        "If-Match: the pet has changed; fetch it again and reapply your change",
    );
    pub const ORDER_CHANGED: Self = Self::PreconditionFailed(
        "If-Match: the order has changed; fetch it again and reapply your change",
    );
    pub const ORDER_EXISTS: Self = Self::PreconditionFailed(
        "If-None-Match: the order has this ETag, or just exists if you sent *; nothing was changed",
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

    /// Fails if a request is not within a rate limit.
    pub fn ensure_granted(quota: Quota, kind: LimitKind) -> Result<(), Self> {
        if quota.granted {
            Ok(())
        } else {
            Err(Self::RateLimited { kind, quota })
        }
    }

    /// Describes the response. A new error is a variant and its line here.
    fn describe(&self) -> Description<'_> {
        match self {
            Self::InvalidJson(reason) => {
                bad_request("invalid_json", format!("body: invalid JSON: {reason}"))
            }
            Self::InvalidBody(message) => bad_request("invalid_body", message),
            Self::InvalidParameter(invalid) => {
                bad_request("invalid_parameter", invalid.to_string())
            }
            Self::UnknownParameter(message) => bad_request("invalid_parameter", message),
            Self::InvalidRequest(message) => bad_request("invalid_request", *message),
            Self::Unauthorized(failure) => {
                let (code, message) = failure.describe();
                Description::new(StatusCode::UNAUTHORIZED, code, message)
            }
            Self::InsufficientScope(scopes) => {
                let scopes = join_scopes(scopes, " or ");
                let message =
                    format!("Authorization: this API key lacks the required scope {scopes}");
                Description::new(StatusCode::FORBIDDEN, "insufficient_scope", message)
            }
            Self::NotFound(message) => {
                Description::new(StatusCode::NOT_FOUND, "not_found", *message)
            }
            Self::NoSuchPath(similar) => {
                let hint = match similar {
                    Some(path) => format!("did you mean {path}? See"),
                    None => "see".into(),
                };
                let message = format!("no such path; {hint} /v1/openapi.yaml for the API");
                Description::new(StatusCode::NOT_FOUND, "not_found", message)
            }
            Self::MethodNotAllowed(methods) => Description::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                format!("method not allowed; this path has {methods}"),
            ),
            Self::RequestTimeout(message) => {
                Description::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", *message)
            }
            Self::PetNotAvailable => conflict(
                "pet_not_available",
                "petId: this pet is not available; it is reserved by another order, sold, or not \
                 for sale",
            ),
            Self::OrderNotOpen => conflict(
                "order_not_open",
                "this order is not open; it was completed, cancelled or returned, or has expired; \
                 fetch it to see which",
            ),
            Self::OrderNotReturnable => conflict(
                "order_not_returnable",
                "this order cannot be returned; only a completed order can, while its pet exists",
            ),
            Self::OrderNotChangeable => conflict(
                "order_not_changeable",
                "this order was cancelled or returned and can no longer be corrected; its buyer \
                 can still be erased with {\"buyer\":null}",
            ),
            Self::MicrochipTaken(holder) => conflict(
                "microchip_taken",
                format!(
                    "microchip: pet {} has this number, and a number belongs to one pet until \
                     that pet is sold; GET /v1/pets?microchip=… finds it",
                    holder.get()
                ),
            ),
            Self::PetReserved(message) => conflict("pet_reserved", *message),
            Self::PetSold => conflict(
                "pet_sold",
                "status: this pet was sold by an order; return that order to put the pet back on \
                 sale; GET /v1/store/orders?petId=… finds it",
            ),
            Self::CategoryNameTaken => conflict(
                "category_name_taken",
                "name: another category has this name, ignoring case; choose another name, or \
                 rename or delete that category first",
            ),
            Self::TooManyWebhooks => conflict(
                "too_many_webhooks",
                format!(
                    "the limit of {MAX_WEBHOOKS} webhooks is reached; delete one to create another"
                ),
            ),
            Self::WebhookDisabled => conflict(
                "webhook_disabled",
                "this webhook is disabled, so nothing is sent to it; enable it first: PATCH it \
                 with {\"state\":\"enabled\"}",
            ),
            Self::KeyNotRotatable => conflict(
                "key_not_rotatable",
                "this key is revoked, expired or an invitation, so it cannot be rotated; create \
                 another one",
            ),
            Self::KeyRotated(newer) => conflict(
                "key_rotated",
                format!("key {newer} has replaced this key; rotate that one"),
            ),
            Self::OutlastsCaller(expiry) => Description::new(
                StatusCode::FORBIDDEN,
                "expiry_too_late",
                format!(
                    "a key gives access for no longer than it lasts itself, and the key of this \
                     request expires at {expiry}"
                ),
            ),
            Self::LastOwner => conflict(
                "last_owner",
                "no other key could take the place of this one, which can manage keys; let \
                 another owner in first, or revoke it where the service runs: petstore keys revoke",
            ),
            Self::TooManyKeys => conflict(
                "too_many_keys",
                format!(
                    "the limit of {MAX_KEYS} valid keys is reached; revoke one to create another"
                ),
            ),
            Self::OperationRemoved => gone(
                "operation_removed",
                "this operation was removed on 5 December 2030; use GET /v1/pets with the id filter",
            ),
            Self::PositionGone(Gone::Expired) => gone(
                "cursor_expired",
                "events are no longer kept as far back as this position; to follow the log, start \
                 over: take the position of after=now, list everything, and follow from there",
            ),
            Self::PositionGone(Gone::Unknown) => gone(
                "cursor_unknown",
                "this store does not have the event of this position: a backup was restored, a \
                 failover lost it, or it is from another store; start over: take the position of \
                 after=now, list everything, and follow from there",
            ),
            Self::DeliveryEventGone(Gone::Expired) => gone(
                "cursor_expired",
                "eventId: this event is no longer kept, so it cannot be sent again; fetch the \
                 resource that it is about instead",
            ),
            Self::DeliveryEventGone(Gone::Unknown) => gone(
                "cursor_unknown",
                "eventId: this store does not have this event; take the id from the list of \
                 deliveries",
            ),
            Self::BatchRejected(index, reason) => conflict(
                "batch_rejected",
                format!(
                    "changes[{index}]: {}; nothing was changed, because the batch is atomic",
                    reason.describe().message
                ),
            ),
            Self::PreconditionFailed(message) => Description::new(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                *message,
            ),
            Self::BodyTooLarge(limit) => {
                let message = match limit {
                    BodyLimit::Normal => format!("body: must be at most {MAX_BODY_BYTES} bytes"),
                    BodyLimit::Large => format!(
                        "body: must be at most {MAX_LARGE_BODY_BYTES} bytes, or {MAX_BODY_BYTES} \
                         without a Content-Length"
                    ),
                };
                Description::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
            }
            Self::UnsupportedMediaType(UnsupportedContent { accepted, got }) => Description::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                format!(
                    "Content-Type: must be {}, got {got}; a charset, if given, must be utf-8",
                    accepted.join(" or ")
                ),
            ),
            Self::UnsupportedContentEncoding(UnsupportedContent { got, .. }) => Description::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                format!(
                    "Content-Encoding: must be identity or absent, got {got}; send the body \
                     uncompressed"
                ),
            ),
            Self::IdempotencyKeyReused => Description::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "Idempotency-Key: already used for a different request; use a new key for each \
                 request",
            ),
            Self::RateLimited { kind, quota } => {
                let Quota {
                    limit, retry_after, ..
                } = quota;
                let exceeded = match kind {
                    LimitKind::ApiKey => "per API key exceeded",
                    LimitKind::Address => {
                        "for requests without a valid API key exceeded for this address"
                    }
                };
                let message = format!("rate limit of {limit} {exceeded}; retry in {retry_after}s");
                Description::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", message)
            }
            Self::HeadTooLarge => Description::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "head_too_large",
                format!(
                    "request head too large; the request line and headers are limited to \
                     {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers"
                ),
            ),
            Self::HttpVersionNotSupported => Description::new(
                StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                "http_version_not_supported",
                "HTTP version not supported; use HTTP/1.1, HTTP/1.0 or HTTP/2",
            ),
            Self::Internal(_) => Description::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "internal error; report it with the X-Request-Id of this response",
            ),
            Self::Unavailable(message, _) | Self::ShuttingDown(message) => unavailable(*message),
            Self::TooManyStreams { limit, max } => {
                let message = |whose| {
                    format!(
                        "the limit of {max} open event streams and long polls {whose}is reached; \
                         close one, retry later, or poll without wait"
                    )
                };
                match limit {
                    StreamLimit::ApiKey => Description::new(
                        StatusCode::TOO_MANY_REQUESTS,
                        "rate_limited",
                        message("of this API key "),
                    ),
                    StreamLimit::Address => unavailable(message("of this address ")),
                    StreamLimit::All => unavailable(message("")),
                }
            }
            Self::TooManyBatches => unavailable(
                "too many batches are being worked on; nothing was changed, retry later",
            ),
            Self::TooManyTests => {
                unavailable("too many test deliveries are waiting for their receivers; retry later")
            }
            Self::Overloaded => {
                unavailable("the service is overloaded; nothing was changed, retry later")
            }
        }
    }

    /// Returns true if the HTTP/1.1 connection must be closed: the start of the next request is
    /// unknown, or too far away.
    pub fn closes_connection(&self) -> bool {
        matches!(
            self,
            Self::InvalidRequest(_) | Self::BodyTooLarge(_) | Self::RequestTimeout(_)
        )
    }

    /// Returns true if the service works as intended and rejects the request because of a limit,
    /// or because it shuts down. Such responses are counted rather than logged: one log event
    /// each would add to an overload.
    pub fn is_load_shedding(&self) -> bool {
        matches!(
            self,
            Self::ShuttingDown(_)
                | Self::TooManyStreams { .. }
                | Self::TooManyTests
                | Self::TooManyBatches
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
}

/// The status, the code and the message of a response.
struct Description<'a> {
    status: StatusCode,
    code: &'static str,
    message: Cow<'a, str>,
}

impl<'a> Description<'a> {
    fn new(status: StatusCode, code: &'static str, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }
}

fn bad_request<'a>(code: &'static str, message: impl Into<Cow<'a, str>>) -> Description<'a> {
    Description::new(StatusCode::BAD_REQUEST, code, message)
}

fn conflict<'a>(code: &'static str, message: impl Into<Cow<'a, str>>) -> Description<'a> {
    Description::new(StatusCode::CONFLICT, code, message)
}

fn gone(code: &'static str, message: &'static str) -> Description<'static> {
    Description::new(StatusCode::GONE, code, message)
}

fn unavailable<'a>(message: impl Into<Cow<'a, str>>) -> Description<'a> {
    Description::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}

fn join_scopes(scopes: &[Scope], separator: &str) -> String {
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(separator)
}

pub const NO_SUCH_PET: &str = "petId: no pet has this id";
pub const NO_SUCH_BATCH: &str = "batchId: the log has no changes of animals with this batchid; events are kept for a limited time";
pub const INVALID_CATEGORY_ID: &str =
    "categoryId: must be an integer (int64), without plus sign or leading zeros";
pub const NO_SUCH_CATEGORY: &str = "categoryId: no category with this id has a name";
pub const NO_SUCH_ORDER: &str = "orderId: no order has this id";
pub const NO_SUCH_WEBHOOK: &str = "webhookId: no webhook has this id";
pub const NO_SUCH_KEY: &str = "keyId: no API key has this id";
pub const NO_SUCH_DELIVERY: &str = "eventId: this webhook has no failed delivery of this event; list \
     its deliveries to see those it has";
