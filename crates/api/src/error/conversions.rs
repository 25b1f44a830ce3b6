//! Errors of other layers as [`ApiError`]s.

use std::sync::Arc;

use super::{
    ApiError, AuthFailure, BodyLimit, NO_SUCH_CATEGORY, NO_SUCH_KEY, NO_SUCH_ORDER, NO_SUCH_PET,
    NO_SUCH_PHOTO, NO_SUCH_WEBHOOK,
};
use domain::{
    api_key::KeyRejection, category::CategoryRejection, invalid::join_messages, json::ObjectError,
    order::OrderRejection, pet::PetRejection, photo::PhotoRejection, webhook::WebhookRejection,
};
use server::Rejection;

impl From<AuthFailure> for ApiError {
    fn from(failure: AuthFailure) -> Self {
        Self::Unauthorized(failure)
    }
}

impl From<OrderRejection> for ApiError {
    fn from(rejection: OrderRejection) -> Self {
        match rejection {
            OrderRejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            OrderRejection::PetNotAvailable => Self::PetNotAvailable,
            OrderRejection::NoSuchOrder => Self::NotFound(NO_SUCH_ORDER),
            OrderRejection::OrderNotOpen => Self::OrderNotOpen,
            OrderRejection::OrderNotReturnable => Self::OrderNotReturnable,
            OrderRejection::OrderNotChangeable => Self::OrderNotChangeable,
            OrderRejection::Outdated => Self::ORDER_CHANGED,
            OrderRejection::MicrochipTaken(holder) => Self::MicrochipTaken(holder),
            OrderRejection::Invalid(errors) => Self::InvalidBody(join_messages(&errors)),
        }
    }
}

impl From<PetRejection> for ApiError {
    fn from(rejection: PetRejection) -> Self {
        match rejection {
            PetRejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            PetRejection::Outdated => Self::PET_CHANGED,
            PetRejection::Reserved => Self::PetReserved(
                "status: cannot be changed while an open order reserves this pet; complete or \
                 cancel the order first",
            ),
            PetRejection::Sold => Self::PetSold,
            PetRejection::MicrochipTaken(holder) => Self::MicrochipTaken(holder),
            PetRejection::Invalid(errors) => Self::InvalidBody(join_messages(&errors)),
        }
    }
}

impl From<PhotoRejection> for ApiError {
    fn from(rejection: PhotoRejection) -> Self {
        match rejection {
            PhotoRejection::NoSuchPet => Self::NotFound(NO_SUCH_PET),
            PhotoRejection::Outdated => Self::PET_CHANGED,
            PhotoRejection::TooMany => Self::TooManyPhotos,
            PhotoRejection::NoSuchPhoto => Self::NotFound(NO_SUCH_PHOTO),
            PhotoRejection::UnknownId(id) => Self::InvalidBody(format!(
                "ids: {} is not a photo of this pet; a removed one can be shown again for 24 hours",
                id.get()
            )),
        }
    }
}

impl From<photo::Rejection> for ApiError {
    fn from(rejection: photo::Rejection) -> Self {
        match rejection {
            photo::Rejection::NotAnImage { found } => Self::NotAnImage(found),
            photo::Rejection::TooLarge { width, height } => Self::ImageTooLarge(width, height),
            photo::Rejection::TooMuchMemory { width, height } => {
                Self::ImageTooComplex(width, height)
            }
            photo::Rejection::Damaged => Self::InvalidImage,
            photo::Rejection::TimedOut => Self::ImageTooSlow,
        }
    }
}

impl From<CategoryRejection> for ApiError {
    fn from(rejection: CategoryRejection) -> Self {
        match rejection {
            CategoryRejection::NoSuchCategory => Self::NotFound(NO_SUCH_CATEGORY),
            CategoryRejection::Outdated => Self::CATEGORY_CHANGED,
            CategoryRejection::NameTaken => Self::CategoryNameTaken,
        }
    }
}

impl From<WebhookRejection> for ApiError {
    fn from(rejection: WebhookRejection) -> Self {
        match rejection {
            WebhookRejection::NoSuchWebhook => Self::NotFound(NO_SUCH_WEBHOOK),
            WebhookRejection::TooMany => Self::TooManyWebhooks,
            WebhookRejection::MissingScope(scope) => Self::InsufficientScope(scope.as_slice()),
        }
    }
}

impl From<KeyRejection> for ApiError {
    fn from(rejection: KeyRejection) -> Self {
        match rejection {
            KeyRejection::CallerEnded => Self::Unauthorized(AuthFailure::Revoked),
            KeyRejection::NoSuchKey => Self::NotFound(NO_SUCH_KEY),
            KeyRejection::NotRotatable => Self::KeyNotRotatable,
            KeyRejection::Rotated(newer) => Self::KeyRotated(newer),
            KeyRejection::MissingScope(scope) => Self::InsufficientScope(scope.as_slice()),
            KeyRejection::OutlastsCaller(expiry) => Self::OutlastsCaller(expiry),
            KeyRejection::LastOwner => Self::LastOwner,
            KeyRejection::TooMany => Self::TooManyKeys,
            KeyRejection::NothingToReplace => {
                Self::InvalidBody("replaces: no API key has this id".into())
            }
            KeyRejection::WeakerThanReplaced => Self::InvalidBody(
                "replaces: that key can manage keys, so the invitation must grant all of its \
                 scopes, for at least as long"
                    .into(),
            ),
        }
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        use store::Error::*;
        let message = match &error {
            Internal(_) => return Self::Internal(Arc::new(error)),
            Overloaded => return Self::TOO_MANY_REQUESTS,
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
            Rejection::BodyTooLarge => Self::BodyTooLarge(BodyLimit::Normal),
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
