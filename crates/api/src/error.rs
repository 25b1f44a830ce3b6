//! [`ApiError`]: every failure of a request, with its status, code and message.

mod conversions;
mod description;
mod messages;
mod response;

use std::{borrow::Cow, error, sync::Arc};

use jiff::Timestamp;

use super::rate_limit::{LimitKind, Quota};
use domain::{api_key::Scope, event::Gone, import::StoppedImport, invalid::Invalid, pet::PetId};
pub use messages::*;
pub use response::ErrorBody;

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
    TooManyPhotos,
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
    ImportStopped(StoppedImport),
    PreconditionFailed(&'static str),
    BodyTooLarge(BodyLimit),
    UnsupportedMediaType(UnsupportedContent),
    UnsupportedContentEncoding(UnsupportedContent),
    /// A body whose `Content-Type` is not that of an image.
    UnsupportedImageType(UnsupportedContent),
    /// The bytes are no image of a supported format. Carries what they are, if that is known.
    NotAnImage(Option<&'static str>),
    /// Carries the width and the height in pixels.
    ImageTooLarge(u32, u32),
    /// Its encoding takes too much memory to decode. Carries the width and the height in pixels.
    ImageTooComplex(u32, u32),
    /// Decoding took longer than it may.
    ImageTooSlow,
    InvalidImage,
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
    /// Shed: a limit on work in flight is reached. Carries a message that names the work.
    Overloaded(&'static str),
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
    /// The limit of operations that take many resources at a time.
    Large,
    Image,
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
}

/// The cause of an error. It goes to the log, never to the client.
pub type Cause = Arc<dyn error::Error + Send + Sync>;

impl ApiError {
    /// Fails if a request is not within a rate limit.
    pub fn ensure_granted(quota: Quota, kind: LimitKind) -> Result<(), Self> {
        if quota.granted {
            Ok(())
        } else {
            Err(Self::RateLimited { kind, quota })
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
            Self::ShuttingDown(_) | Self::TooManyStreams { .. } | Self::Overloaded(_)
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
