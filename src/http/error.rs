//! What a client sees when something is refused or goes wrong: one variant a
//! public code, turned into an answer in one place.

use std::{borrow::Cow, error, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

use super::{
    Response, extract,
    limits::{MAX_BODY, MAX_HEAD, MAX_HEADERS},
    rate::{Limited, RateLimit},
};
use crate::{api_key::Scope, invalid::Invalid, json::ObjectError, order, pet, store};

/// An answer of 4xx or 5xx.
#[derive(Debug, Clone)]
pub enum ApiError {
    InvalidJson(String),
    InvalidBody(String),
    InvalidParameter(Invalid),
    InvalidRequest(&'static str),
    MissingApiKey,
    InvalidApiKey(&'static str),
    InsufficientScope(Scope),
    NotFound(&'static str),
    /// With the methods that the path takes.
    MethodNotAllowed(&'static str),
    RequestTimeout(&'static str),
    PetNotAvailable,
    OrderNotOpen,
    PetReserved,
    OperationRemoved,
    PreconditionFailed,
    BodyTooLarge,
    /// With the types that the operation takes.
    UnsupportedMediaType(&'static str),
    IdempotencyKeyReused,
    RateLimited {
        limited: Limited,
        limit: RateLimit,
        /// Seconds to wait.
        retry_after: u64,
    },
    HeadTooLarge,
    Internal(Cause),
    Unavailable(&'static str, Cause),
    /// Too much is being worked on already. That is no news for the log.
    Overloaded,
}

/// What really happened. It goes to the log, never to the client.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

/// The body of every error.
#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'static str,
    message: &'a str,
    status: u16,
}

impl ApiError {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::InvalidJson(_)
            | Self::InvalidBody(_)
            | Self::InvalidParameter(_)
            | Self::InvalidRequest(_) => StatusCode::BAD_REQUEST,
            Self::MissingApiKey | Self::InvalidApiKey(_) => StatusCode::UNAUTHORIZED,
            Self::InsufficientScope(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::RequestTimeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::PetNotAvailable | Self::OrderNotOpen | Self::PetReserved => StatusCode::CONFLICT,
            Self::OperationRemoved => StatusCode::GONE,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::IdempotencyKeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable(..) | Self::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::InvalidJson(_) => "invalid_json",
            Self::InvalidBody(_) => "invalid_body",
            Self::InvalidParameter(_) => "invalid_parameter",
            Self::InvalidRequest(_) => "invalid_request",
            Self::MissingApiKey => "missing_api_key",
            Self::InvalidApiKey(_) => "invalid_api_key",
            Self::InsufficientScope(_) => "insufficient_scope",
            Self::NotFound(_) => "not_found",
            Self::MethodNotAllowed(_) => "method_not_allowed",
            Self::RequestTimeout(_) => "request_timeout",
            Self::PetNotAvailable => "pet_not_available",
            Self::OrderNotOpen => "order_not_open",
            Self::PetReserved => "pet_reserved",
            Self::OperationRemoved => "operation_removed",
            Self::PreconditionFailed => "precondition_failed",
            Self::BodyTooLarge => "body_too_large",
            Self::UnsupportedMediaType(_) => "unsupported_media_type",
            Self::IdempotencyKeyReused => "idempotency_key_reused",
            Self::RateLimited { .. } => "rate_limited",
            Self::HeadTooLarge => "head_too_large",
            Self::Internal(_) => "internal_error",
            Self::Unavailable(..) | Self::Overloaded => "unavailable",
        }
    }

    fn message(&self) -> Cow<'_, str> {
        match self {
            Self::InvalidJson(reason) => format!("body: is not valid JSON: {reason}").into(),
            Self::InvalidBody(message) => message.into(),
            Self::InvalidParameter(invalid) => invalid.to_string().into(),
            Self::InvalidRequest(message)
            | Self::InvalidApiKey(message)
            | Self::NotFound(message)
            | Self::RequestTimeout(message)
            | Self::Unavailable(message, _) => (*message).into(),
            Self::Overloaded => OVERLOADED.into(),
            Self::MissingApiKey => "Authorization: is required and must be Bearer <API_KEY>".into(),
            Self::InsufficientScope(scope) => {
                format!("Authorization: the API key lacks the scope {scope}").into()
            }
            Self::MethodNotAllowed(_) => {
                "this path does not take this method; the Allow header lists those it does".into()
            }
            Self::OperationRemoved => {
                "this operation was removed on 5 December 2030; use GET /v1/pets with the status \
                 filter"
                    .into()
            }
            Self::BodyTooLarge => format!("body: must be at most {MAX_BODY} bytes").into(),
            Self::UnsupportedMediaType(types) => format!(
                "Content-Type: must be {}, in UTF-8 if a charset is named, and not encoded",
                types.replace(", ", " or ")
            )
            .into(),
            Self::PetNotAvailable => {
                "petId: this pet is not available; it is held by another order, sold, or not for \
                 sale"
                    .into()
            }
            Self::OrderNotOpen => {
                "this order is not open; it was completed or cancelled, or its hold has lapsed"
                    .into()
            }
            Self::PetReserved => {
                "status: an open order holds this pet; complete or cancel the order to change it"
                    .into()
            }
            Self::PreconditionFailed => {
                "If-Match: the pet has changed since; fetch it again and look before you change it"
                    .into()
            }
            Self::IdempotencyKeyReused => format!(
                "{}: was used for another request; take a new one for each",
                extract::IDEMPOTENCY_KEY
            )
            .into(),
            Self::RateLimited {
                limited,
                limit,
                retry_after,
            } => {
                let whose = match limited {
                    Limited::Key => "of an API key",
                    Limited::Address => "without a valid API key from an address",
                };
                format!("requests {whose} are limited to {limit}; try again in {retry_after}s")
                    .into()
            }
            Self::HeadTooLarge => {
                format!(
                    "the request line and headers must be at most {MAX_HEAD} bytes and {MAX_HEADERS} headers"
                )
                .into()
            }
            Self::Internal(_) => {
                "the service failed; report the X-Request-Id of this answer".into()
            }
        }
    }

    /// What the log should know beyond the answer.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Internal(cause) | Self::Unavailable(_, cause) => Some(cause),
            _ => None,
        }
    }

    pub fn body(&self) -> Vec<u8> {
        let body = ErrorBody {
            code: self.code(),
            message: &self.message(),
            status: self.status().as_u16(),
        };
        serde_json::to_vec(&body).expect("an error body is plain JSON")
    }

    /// The headers that belong to this error.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let challenge = match self {
            Self::MissingApiKey => Some(HeaderValue::from_static("Bearer realm=\"petstore\"")),
            Self::InvalidApiKey(_) => Some(HeaderValue::from_static(
                "Bearer realm=\"petstore\", error=\"invalid_token\"",
            )),
            Self::InsufficientScope(scope) => {
                let challenge = format!(
                    "Bearer realm=\"petstore\", error=\"insufficient_scope\", scope=\"{scope}\""
                );
                Some(challenge.try_into().expect("scopes are plain ASCII"))
            }
            _ => None,
        };
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Self::UnsupportedMediaType(extract::MERGE_PATCH) = self {
            headers.insert(ACCEPT_PATCH, HeaderValue::from_static(extract::MERGE_PATCH));
        }
        let retry_after = match self {
            Self::Unavailable(..) | Self::Overloaded => Some(1),
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            _ => None,
        };
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Self::MethodNotAllowed(allowed) = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allowed));
        }
        headers
    }

    pub fn answer(&self) -> Response {
        let mut answer = Response::new(Full::new(self.body().into()));
        *answer.status_mut() = self.status();
        *answer.headers_mut() = self.headers();
        answer
    }
}

/// RFC 5789.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl From<order::Rejection> for ApiError {
    fn from(refused: order::Rejection) -> Self {
        match refused {
            order::Rejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            order::Rejection::PetNotAvailable => Self::PetNotAvailable,
            order::Rejection::NoSuchOrder => Self::NotFound(NO_SUCH_ORDER),
            order::Rejection::OrderNotOpen => Self::OrderNotOpen,
        }
    }
}

impl From<pet::Rejection> for ApiError {
    fn from(refused: pet::Rejection) -> Self {
        match refused {
            pet::Rejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            pet::Rejection::Outdated => Self::PreconditionFailed,
            pet::Rejection::Reserved => Self::PetReserved,
        }
    }
}

const OVERLOADED: &str = "the service is overloaded; nothing was changed, try again later";
pub const NO_SUCH_PET: &str = "petId: there is no pet with this id";
pub const NO_SUCH_ORDER: &str = "orderId: there is no order with this id";

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        use store::Error::*;
        let message = match &error {
            Internal(_) => return Self::Internal(Arc::new(error)),
            Overloaded => OVERLOADED,
            Unavailable(_) => "the storage is unavailable; nothing was changed, try again later",
            OutcomeUnknown(_) => {
                "the storage failed on the way; the change may have been made or not, so look \
                 before you try again"
            }
        };
        Self::Unavailable(message, Arc::new(error))
    }
}

impl From<ObjectError> for ApiError {
    fn from(refused: ObjectError) -> Self {
        match refused {
            ObjectError::Malformed(reason) => Self::InvalidJson(reason),
            ObjectError::Other(_) => Self::InvalidBody(format!("body: {refused}")),
        }
    }
}
