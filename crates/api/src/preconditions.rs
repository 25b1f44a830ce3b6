//! Preconditions of a request, `If-Match` and `If-None-Match` (RFC 9110, section 13).
//! Dates are not evaluated: no resource has a modification date.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::error::ApiError;
use server::header_values;

/// The maximum number of attempts of a change whose preconditions depend on the state of its
/// resource. Each failed attempt means that a concurrent change succeeded.
const MAX_ATTEMPTS: usize = 100;

/// Makes a change whose preconditions depend on the state of its resource. `attempt` returns `None`
/// if the resource has changed since it was read; the preconditions may still hold. The error after
/// the last attempt has `message`.
pub async fn retry<T, F>(message: &'static str, attempt: impl Fn() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<Option<T>, ApiError>>,
{
    for _ in 0..MAX_ATTEMPTS {
        if let Some(changed) = attempt().await? {
            return Ok(changed);
        }
    }
    Err(ApiError::Unavailable(message, Arc::new(Contention)))
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

/// Returns true if a list of entity tags has this one, or is `*`. The comparison is strong: a weak
/// tag never equals ours.
pub fn has_tag(tags: &[u8], etag: &HeaderValue) -> bool {
    lists(tags, |tag| tag == etag.as_bytes())
}

fn lists(tags: &[u8], is_match: impl Fn(&[u8]) -> bool) -> bool {
    let mut listed = tags.split(|byte| *byte == b',');
    tags == b"*" || listed.any(|tag| is_match(tag.trim_ascii()))
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

    /// Returns the resource, if the preconditions depend on it. It meets them, and must not change
    /// before the request is executed.
    pub async fn expected<T>(
        self,
        find: impl Future<Output = Result<T, ApiError>>,
        etag: impl FnOnce(&T) -> HeaderValue,
        error: impl FnOnce(UnmetPrecondition) -> ApiError,
    ) -> Result<Option<T>, ApiError> {
        if !self.depend_on_state() {
            return Ok(None);
        }
        let resource = find.await?;
        self.evaluate(&etag(&resource)).map_err(error)?;
        Ok(Some(resource))
    }

    /// Evaluates the preconditions for a resource that exists, in the order of RFC 9110, section
    /// 13.2.2.
    pub fn evaluate(self, etag: &HeaderValue) -> Result<(), UnmetPrecondition> {
        let is_if_match_met = |value: &HeaderValue| has_tag(value.as_bytes(), etag);
        // Weak comparison.
        let is_same = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag) == etag.as_bytes();
        let is_listed = |value: &HeaderValue| lists(value.as_bytes(), is_same);
        if self.has(header::IF_MATCH)
            && !header_values(self.0, header::IF_MATCH).any(is_if_match_met)
        {
            return Err(UnmetPrecondition::IfMatch);
        }
        if header_values(self.0, header::IF_NONE_MATCH).any(is_listed) {
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
}
