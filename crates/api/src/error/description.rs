//! The status, the code and the message of every error.

use std::borrow::Cow;

use http::StatusCode;

use super::{ApiError, AuthFailure, BodyLimit, StreamLimit, UnsupportedContent};
use crate::rate_limit::{LimitKind, Quota};
use domain::{
    api_key::{MAX_KEYS, Scope},
    event::Gone,
    import::StoppedImport,
    photo::{MAX_IMAGE_BYTES, MAX_PHOTOS},
    webhook::MAX_WEBHOOKS,
};
use photo::{MAX_PIXELS, MAX_SIDE};
use server::{MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_HEADERS, MAX_LARGE_BODY_BYTES};

impl ApiError {
    /// Describes the response. A new error is a variant and its line here.
    pub fn describe(&self) -> Description<'_> {
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
            Self::TooManyPhotos => conflict(
                "too_many_photos",
                format!(
                    "this pet has {MAX_PHOTOS} photos, the most there can be; delete one first"
                ),
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
            Self::ImportStopped(StoppedImport::Undone) => conflict(
                "import_stopped",
                "import: this import was undone, so no more of it is made; to import the file \
                 again, choose another batchId",
            ),
            Self::ImportStopped(StoppedImport::Replaced) => conflict(
                "import_stopped",
                "import: the current import of this file has another batchId, or none has \
                 started; send the batch with row 0 first; GET /v1/imports?file=… finds it",
            ),
            Self::ImportStopped(reason @ StoppedImport::CategoryTaken(_)) => {
                conflict("import_stopped", reason.to_string())
            }
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
                    BodyLimit::Image => format!(
                        "body: an image must be at most {MAX_IMAGE_BYTES} bytes, or \
                         {MAX_BODY_BYTES} without a Content-Length"
                    ),
                };
                Description::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", message)
            }
            Self::UnsupportedMediaType(UnsupportedContent { accepted, got }) => {
                unsupported_media_type(format!(
                    "Content-Type: must be {}, got {got}; a charset, if given, must be utf-8",
                    accepted.join(" or ")
                ))
            }
            Self::UnsupportedContentEncoding(UnsupportedContent { got, .. }) => {
                unsupported_media_type(format!(
                    "Content-Encoding: must be identity or absent, got {got}; send the body \
                     uncompressed"
                ))
            }
            Self::UnsupportedImageType(UnsupportedContent { accepted, got }) => {
                unsupported_media_type(format!(
                    "Content-Type: must be {} or absent, got {got}; the body is the image itself",
                    accepted.join(", ")
                ))
            }
            Self::NotAnImage(found) => {
                let got = found.map(|it| format!(", got {it}")).unwrap_or_default();
                unsupported_media_type(format!("body: must be a JPEG, PNG or WebP image{got}"))
            }
            Self::ImageTooLarge(width, height) => Description::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "image_too_large",
                format!(
                    "body: the image has {width} × {height} pixels; at most {} megapixels and \
                     {MAX_SIDE} pixels on a side are possible",
                    MAX_PIXELS / 1_000_000
                ),
            ),
            Self::ImageTooComplex(width, height) => Description::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "image_too_large",
                format!(
                    "body: the image with {width} × {height} pixels takes too much memory to \
                     decode in this encoding; save it as a JPEG that is not progressive"
                ),
            ),
            Self::ImageTooSlow => Description::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "image_too_large",
                "body: the image takes too long to decode; save it as a smaller JPEG",
            ),
            Self::InvalidImage => {
                bad_request("invalid_image", "body: the image is truncated or damaged")
            }
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
            Self::Unavailable(message, _)
            | Self::ShuttingDown(message)
            | Self::Overloaded(message) => unavailable(*message),
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
        }
    }
}

impl AuthFailure {
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

/// The status, the code and the message of a response.
pub struct Description<'a> {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: Cow<'a, str>,
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

fn unsupported_media_type<'a>(message: String) -> Description<'a> {
    let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    Description::new(status, "unsupported_media_type", message)
}

fn gone(code: &'static str, message: &'static str) -> Description<'static> {
    Description::new(StatusCode::GONE, code, message)
}

fn unavailable<'a>(message: impl Into<Cow<'a, str>>) -> Description<'a> {
    Description::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}

pub fn join_scopes(scopes: &[Scope], separator: &str) -> String {
    let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    scopes.join(separator)
}
