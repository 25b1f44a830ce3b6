//! The path of an operation: a template, and the ids in a request's path.

use std::{array, ops::Range};

use percent_encoding::percent_decode_str;

use super::error::{
    ApiError, INVALID_CATEGORY_ID, NO_SUCH_BATCH, NO_SUCH_DELIVERY, NO_SUCH_KEY, NO_SUCH_ORDER,
    NO_SUCH_PET, NO_SUCH_PHOTO, NO_SUCH_WEBHOOK,
};
use domain::{
    category::CategoryId,
    event::EventId,
    order::OrderId,
    page::parse_positive_decimal,
    pet::{PetId, batch::BatchId},
    photo::PhotoId,
    webhook::WebhookId,
};

/// An id in a path. A malformed one is treated like an unknown one, so it is an error that the
/// handler returns after those of the request's body.
pub type PathId<T> = Result<T, ApiError>;

/// The type of an id in a path, and the message of the 404 for a malformed one.
pub struct PathParameter<T> {
    parse: fn(&str) -> Option<T>,
    not_found: &'static str,
}

impl<T> PathParameter<T> {
    pub fn parse(&self, id: Option<&str>) -> PathId<T> {
        let decoded = percent_decode_str(id.unwrap_or_default()).decode_utf8();
        let parsed = decoded.ok().and_then(|id| (self.parse)(&id));
        parsed.ok_or(ApiError::NotFound(self.not_found))
    }
}

pub const PET_ID: PathParameter<PetId> = PathParameter {
    parse: PetId::parse,
    not_found: NO_SUCH_PET,
};
pub const PHOTO_ID: PathParameter<PhotoId> = PathParameter {
    parse: PhotoId::parse,
    not_found: NO_SUCH_PHOTO,
};
pub const BATCH_ID: PathParameter<BatchId> = PathParameter {
    parse: BatchId::parse,
    not_found: NO_SUCH_BATCH,
};
pub const CATEGORY_ID: PathParameter<CategoryId> = PathParameter {
    parse: CategoryId::parse,
    not_found: INVALID_CATEGORY_ID,
};
pub const ORDER_ID: PathParameter<OrderId> = PathParameter {
    parse: OrderId::parse,
    not_found: NO_SUCH_ORDER,
};
pub const WEBHOOK_ID: PathParameter<WebhookId> = PathParameter {
    parse: WebhookId::parse,
    not_found: NO_SUCH_WEBHOOK,
};
pub const KEY_ID: PathParameter<i64> = PathParameter {
    parse: parse_positive_decimal,
    not_found: NO_SUCH_KEY,
};
/// The event of a delivery.
pub const EVENT_ID: PathParameter<EventId> = PathParameter {
    parse: EventId::parse,
    not_found: NO_SUCH_DELIVERY,
};

/// The positions of the ids in a path, in its order. Unused ones are empty. They stay valid while
/// the request is moved, as slices would not.
#[derive(Debug)]
pub struct IdPositions([Range<usize>; 2]);

impl IdPositions {
    /// Returns the ids in the path that was matched.
    pub fn ids(self, path: &str) -> PathIds<'_> {
        PathIds {
            path,
            positions: self.0.into_iter(),
        }
    }
}

/// The ids in a path, as they were sent.
pub struct PathIds<'a> {
    path: &'a str,
    positions: array::IntoIter<Range<usize>, 2>,
}

impl<'a> Iterator for PathIds<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let id = &self.path[self.positions.next()?];
        (!id.is_empty()).then_some(id)
    }
}

/// Matches a path against a template with at most two parameters, each of which takes one
/// segment that is not empty, and returns the positions of their values.
pub fn match_path(template: &str, path: &str) -> Option<IdPositions> {
    match_from(0, template, path).map(IdPositions)
}

/// Matches the rest of a path, from an offset.
fn match_from(offset: usize, template: &str, path: &str) -> Option<[Range<usize>; 2]> {
    let rest = &path[offset..];
    if template == rest {
        return Some(Default::default());
    }
    let (before, parameter) = template.split_once('{')?;
    let (_, after) = parameter.split_once('}')?;
    let from_value = rest.strip_prefix(before)?;
    let start = offset + before.len();
    let end = start + from_value.find('/').unwrap_or(from_value.len());
    let [next, _] = match_from(end, after, path)?;
    (start < end).then_some([start..end, next])
}
