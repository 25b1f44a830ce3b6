//! Preconditions of a request, `If-Match` and `If-None-Match` (RFC 9110, section 13).
//! Dates are not evaluated: no resource has a modification date.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::error::ApiError;
use server::header_values;

/// The maximum number of attempts of a change whose preconditions depend on the state of its
/// resource. Each failed attempt means that a concurrent change succeeded.
pub const MAX_ATTEMPTS: usize = 100;

/// Returns the error for a change whose attempts all failed.
pub fn contention(message: &'static str) -> ApiError {
    ApiError::Unavailable(message, Arc::new(Contention))
}

#[derive(Debug, thiserror::Error)]
#[error("concurrent changes of the same resource")]
struct Contention;

/// Returns the outcome of the preconditions, unless the resource is missing: they apply only to a
/// request that could succeed without them (RFC 9110, section 13.2.1).
pub async fn unless_missing<T>(
    met: Result<(), ApiError>,
    find: impl Future<Output = Result<T, ApiError>>,
) -> Result<(), ApiError> {
    if met.is_err() {
        find.await?;
    }
    met
}

/// The preconditions of a request.
#[derive(Clone, Copy)]
pub struct Preconditions<'a>(&'a HeaderMap);

/// A precondition that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmetPrecondition {
    IfMatch,
    IfNoneMatch,
}

impl<'a> Preconditions<'a> {
    pub fn new(request: &'a HeaderMap) -> Self {
        Self(request)
    }

    /// Returns true if the preconditions depend on the state of the resource, beyond its
    /// existence.
    pub fn depend_on_state(self) -> bool {
        self.has(header::IF_NONE_MATCH)
            || self.has(header::IF_MATCH) && !self.has_wildcard(header::IF_MATCH)
    }

    /// Evaluates the preconditions for a resource that exists, in the order of RFC 9110, section
    /// 13.2.2.
    pub fn evaluate(self, etag: &HeaderValue) -> Result<(), UnmetPrecondition> {
        // Strong comparison: a weak tag never equals ours.
        let if_match = |tag: &[u8]| tag == etag.as_bytes();
        // Weak comparison.
        let if_none_match = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes();
        if self.has(header::IF_MATCH) && !self.lists(header::IF_MATCH, if_match) {
            return Err(UnmetPrecondition::IfMatch);
        }
        if self.lists(header::IF_NONE_MATCH, if_none_match) {
            return Err(UnmetPrecondition::IfNoneMatch);
        }
        Ok(())
    }

    /// Returns true if the request has no preconditions.
    pub fn is_empty(self) -> bool {
        !self.has(header::IF_MATCH) && !self.has(header::IF_NONE_MATCH)
    }

    /// Evaluates the preconditions for a resource that does not exist.
    pub fn evaluate_absent(self) -> Result<(), UnmetPrecondition> {
        if self.has(header::IF_MATCH) {
            return Err(UnmetPrecondition::IfMatch);
        }
        Ok(())
    }

    /// Evaluates the preconditions for a POST. Its target has no entity tag, so a tag matches
    /// nothing; `*` matches if the target can be fetched, as a list can.
    pub fn evaluate_post(self, target_exists: bool) -> Result<(), ApiError> {
        if self.has(header::IF_MATCH) && !(target_exists && self.has_wildcard(header::IF_MATCH)) {
            let message = "If-Match: a POST has no ETag to match; omit the header";
            return Err(ApiError::PreconditionFailed(message));
        }
        if target_exists && self.has_wildcard(header::IF_NONE_MATCH) {
            let message = "If-None-Match: the list exists, so * never holds; to create a resource \
                           once, send an Idempotency-Key instead";
            return Err(ApiError::PreconditionFailed(message));
        }
        Ok(())
    }

    /// Evaluates the preconditions for a resource that exists and has no entity tag: only `*`
    /// matches it.
    pub fn evaluate_untagged(self) -> Result<(), ApiError> {
        if self.has(header::IF_MATCH) && !self.has_wildcard(header::IF_MATCH) {
            let message = "If-Match: this resource has no ETag to match; omit the header";
            return Err(ApiError::PreconditionFailed(message));
        }
        if self.has_wildcard(header::IF_NONE_MATCH) {
            let message = "If-None-Match: the resource exists, so * never holds; omit the header";
            return Err(ApiError::PreconditionFailed(message));
        }
        Ok(())
    }

    fn has(self, name: HeaderName) -> bool {
        header_values(self.0, name).next().is_some()
    }

    fn has_wildcard(self, name: HeaderName) -> bool {
        header_values(self.0, name).any(|value| value == "*")
    }

    /// Returns true if a header lists a matching tag, or `*`.
    fn lists(self, name: HeaderName, is_match: impl Fn(&[u8]) -> bool) -> bool {
        header_values(self.0, name).any(|value| {
            let mut tags = value.as_bytes().split(|byte| *byte == b',');
            value == "*" || tags.any(|tag| is_match(tag.trim_ascii()))
        })
    }
}
