//! Typed input from a request, or the answer that says what is wrong with it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use super::{auth::Permit, error::ApiError, limits::MAX_BODY};
use crate::{
    idempotency::{IdempotencyKey, IdempotentRequest},
    invalid::{Invalid, joined},
    json::{FromObject, Object},
    order::OrderId,
    page::{Cursor, Filter, ListQuery, PageLimit},
    pet::PetId,
};

/// The types of a body that operations take, as a message lists them.
pub const JSON: &str = "application/json";
pub const MERGE_PATCH: &str = "application/merge-patch+json, application/json";

pub const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Reads the body of a request that is declared to be of one of those types.
pub async fn body(
    head: &Parts,
    permit: &mut Permit<'_>,
    body: Incoming,
    types: &'static str,
) -> Result<Bytes, ApiError> {
    if !is_one_of(types, &head.headers) || is_encoded(&head.headers) {
        return Err(ApiError::UnsupportedMediaType(types));
    }
    bytes(permit, body).await
}

/// Reads a body, whatever it is.
pub async fn bytes(permit: &mut Permit<'_>, body: Incoming) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    let reading = Limited::new(body, MAX_BODY).collect();
    match permit.wait(reading).await? {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge),
        Err(_) => Err(ApiError::InvalidRequest("body: broke off or is malformed")),
    }
}

/// Reads a JSON object.
pub fn object<T: FromObject>(body: &[u8]) -> Result<T, ApiError> {
    let object = Object::parse(body)?;
    T::from_object(&object).map_err(|wrong| ApiError::InvalidBody(joined(&wrong)))
}

/// Reads the JSON object of a request that may have a name.
pub async fn named_object<T: FromObject>(
    head: &Parts,
    permit: &mut Permit<'_>,
    body: Incoming,
) -> Result<(T, Option<IdempotentRequest>), ApiError> {
    let body = self::body(head, permit, body, JSON).await?;
    Ok((object(&body)?, named(head, permit, &body)?))
}

/// The request under its name, if its client gave it one.
pub fn named(
    head: &Parts,
    permit: &Permit<'_>,
    body: &[u8],
) -> Result<Option<IdempotentRequest>, ApiError> {
    let mut names = head.headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(name) = names.next() else {
        return Ok(None);
    };
    let key = match names.next() {
        None => IdempotencyKey::parse(name.as_bytes()).ok_or_else(|| {
            let max = IdempotencyKey::MAX_CHARS;
            let reason = format!("must have 1 to {max} visible ASCII characters and no spaces");
            Invalid::new(IDEMPOTENCY_KEY, reason)
        }),
        Some(_) => Err(Invalid::new(IDEMPOTENCY_KEY, "may be given only once")),
    };
    let request = Sha256::new()
        .chain_update(head.method.as_str())
        .chain_update([0])
        .chain_update(head.uri.path())
        .chain_update([0])
        .chain_update(body);
    Ok(Some(IdempotentRequest {
        api_key_id: permit.key_id,
        key: key.map_err(ApiError::InvalidParameter)?,
        fingerprint: request.finalize().into(),
        received_at: permit.now,
    }))
}

/// What a change requires of the thing that it changes.
pub struct IfMatch(Vec<HeaderValue>);

impl IfMatch {
    pub fn of(head: &Parts) -> Self {
        Self(
            head.headers
                .get_all(header::IF_MATCH)
                .iter()
                .cloned()
                .collect(),
        )
    }

    /// Whether it has one of the tags; by RFC 9110 a weak one matches nothing.
    /// Without the header anything will do.
    pub fn allows(&self, tag: impl FnOnce() -> HeaderValue) -> bool {
        if self.0.is_empty() || self.0.iter().any(|value| value == "*") {
            return true;
        }
        let tag = tag();
        let mut tags = self
            .0
            .iter()
            .flat_map(|value| value.as_bytes().split(|b| *b == b','));
        tags.any(|given| given.trim_ascii() == tag.as_bytes())
    }
}

/// Whether a body may be read as one of those types. Without a declaration it
/// may.
fn is_one_of(types: &str, headers: &HeaderMap) -> bool {
    let mut declared = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = declared.next() else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
    declared.next().is_none()
        && types
            .split(", ")
            .any(|known| media_type.trim().eq_ignore_ascii_case(known))
        && parameters
            .split(';')
            .all(|parameter| match parameter.split_once('=') {
                Some((name, charset)) if name.trim().eq_ignore_ascii_case("charset") => charset
                    .trim()
                    .trim_matches('"')
                    .eq_ignore_ascii_case("utf-8"),
                _ => true,
            })
}

/// Whether a body is compressed or otherwise wrapped, which is not taken.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Reads the parameters of a list. Those that it does not know are ignored.
pub fn list_query<S: Filter>(head: &Parts) -> Result<ListQuery<S>, ApiError> {
    let query = head.uri.query().unwrap_or("");
    read_list_query(query).map_err(ApiError::InvalidParameter)
}

fn read_list_query<S: Filter>(query: &str) -> Result<ListQuery<S>, Invalid> {
    let (mut limit, mut status, mut cursor) = (None, None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => once("limit", &mut limit, PageLimit::parse(&value)?)?,
            "status" => once("status", &mut status, S::parse(&value)?)?,
            "cursor" => once("cursor", &mut cursor, Cursor::parse(&value, S::LIST)?)?,
            _ => {}
        }
    }
    Ok(ListQuery {
        status,
        limit: limit.unwrap_or(PageLimit::DEFAULT),
        after: cursor.unwrap_or(Cursor::START),
    })
}

fn once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), Invalid> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Invalid::new(name, "may be given only once")),
    }
}

/// The animal that a part of a path names; `None` if nothing can have such an id.
pub fn pet_id(segment: &str) -> Option<PetId> {
    PetId::parse(&percent_decode_str(segment).decode_utf8().ok()?)
}

/// The same for an order.
pub fn order_id(segment: &str) -> Option<OrderId> {
    OrderId::parse(&percent_decode_str(segment).decode_utf8().ok()?)
}
