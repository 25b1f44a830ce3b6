//! Errors and messages that several operations have.

use std::borrow::Cow;

use super::ApiError;

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
    pub const SETTINGS_CHANGED: Self = Self::PreconditionFailed(
        "If-Match: the settings have changed; fetch them again and reapply your change",
    );
    pub const SETTINGS_EXIST: Self = Self::PreconditionFailed(
        "If-None-Match: the settings have this ETag, or just exist if you sent *; nothing was \
         changed",
    );
    pub const PET_EXISTS: Self = Self::PreconditionFailed(
        "If-None-Match: the pet has this ETag, or just exists if you sent *; nothing was changed",
    );
    pub const TOO_MANY_REQUESTS: Self =
        Self::Overloaded("the service is overloaded; nothing was changed, retry later");
    pub const TOO_MANY_BATCHES: Self =
        Self::Overloaded("too many batches are being worked on; nothing was changed, retry later");
    pub const TOO_MANY_UPLOADS: Self = Self::Overloaded(
        "too many photos are being sent and decoded; nothing was changed, retry later",
    );
    pub const PHOTO_HAS_OTHER_TAG: Self = Self::PreconditionFailed(
        "If-Match: the photo has another ETag, which never changes; omit the header",
    );
    pub const PHOTO_EXISTS: Self = Self::PreconditionFailed(
        "If-None-Match: the photo has this ETag, or just exists if you sent *; nothing was changed",
    );
    pub const CONTENT_HAS_OTHER_TAG: Self = Self::PreconditionFailed(
        "If-Match: the content has another ETag; omit the header to fetch it",
    );
    pub const TOO_MANY_TESTS: Self =
        Self::Overloaded("too many test deliveries are waiting for their receivers; retry later");
}

pub const NO_SUCH_PET: &str = "petId: no pet has this id";
pub const NO_SUCH_PHOTO: &str = "photoId: the pet has no photo with this id";
pub const NO_SUCH_BATCH: &str =
    "batchId: the log has no changes with this batch id; events are kept for a limited time";
pub const INVALID_CATEGORY_ID: &str =
    "categoryId: must be an integer (int64), without plus sign or leading zeros";
pub const NO_SUCH_CATEGORY: &str = "categoryId: no category with this id has a name";
pub const NO_SUCH_ORDER: &str = "orderId: no order has this id";
pub const NO_SUCH_WEBHOOK: &str = "webhookId: no webhook has this id";
pub const NO_SUCH_KEY: &str = "keyId: no API key has this id";
pub const NO_SUCH_DELIVERY: &str = "eventId: this webhook has no failed delivery of this event; list \
     its deliveries to see those it has";
