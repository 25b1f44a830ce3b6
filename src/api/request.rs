//! Typed input from a request, or the error that says what is wrong with it.

use bytes::Bytes;
use http::{HeaderMap, header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};

use super::{
    admission::InFlight,
    auth::Authorized,
    context::BodyWait,
    error::{ApiError, NO_SUCH_ORDER, NO_SUCH_PET},
    preconditions::Preconditions,
};
use crate::{
    idempotency::{IdempotencyKey, IdempotentRequest},
    invalid::{Invalid, join_messages},
    json::{FromObject, Object},
    order::OrderId,
    page::{Cursor, ListQuery, PageLimit, Status},
    pet::PetId,
    server::MAX_BODY_BYTES,
};

/// The media types of a request body.
const JSON: &[&str] = &["application/json"];
/// RFC 7396.
const MERGE_PATCH: &[&str] = &["application/merge-patch+json", "application/json"];

const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// A request that is authorized and holds an in-flight permit.
pub struct ApiRequest<'a> {
    pub head: &'a Parts,
    authorized: Authorized,
    in_flight: InFlight<'a>,
    body: Option<Incoming>,
    body_wait: &'a mut BodyWait,
    path_parameter: &'a str,
}

impl<'a> ApiRequest<'a> {
    pub fn new(
        authorized: Authorized,
        in_flight: InFlight<'a>,
        head: &'a Parts,
        body: Incoming,
        path_parameter: &'a str,
        body_wait: &'a mut BodyWait,
    ) -> Self {
        Self {
            head,
            authorized,
            in_flight,
            body: Some(body),
            body_wait,
            path_parameter,
        }
    }

    /// When the request arrived.
    pub fn now(&self) -> Timestamp {
        self.authorized.now
    }

    /// Reads a JSON object, and the idempotency key if there is one.
    pub async fn json_with_idempotency_key<T: FromObject>(
        &mut self,
    ) -> Result<(T, Option<IdempotentRequest>), ApiError> {
        let body = self.body_of_type(JSON).await?;
        Ok((parse_object(&body)?, self.parse_idempotency_key(&body)?))
    }

    /// Reads a JSON merge patch (RFC 7396).
    pub async fn merge_patch<T: FromObject>(&mut self) -> Result<T, ApiError> {
        parse_object(&self.body_of_type(MERGE_PATCH).await?)
    }

    /// Reads the idempotency key of an operation without input. The body is not
    /// interpreted, but it is part of the request's fingerprint.
    pub async fn idempotency_key(&mut self) -> Result<Option<IdempotentRequest>, ApiError> {
        let body = self.body().await?;
        self.parse_idempotency_key(&body)
    }

    async fn body_of_type(&mut self, types: &'static [&'static str]) -> Result<Bytes, ApiError> {
        if !has_media_type(&self.head.headers, types) {
            return Err(ApiError::UnsupportedMediaType(types));
        }
        if is_encoded(&self.head.headers) {
            return Err(ApiError::UnsupportedContentEncoding(types));
        }
        self.body().await
    }

    async fn body(&mut self) -> Result<Bytes, ApiError> {
        let Some(body) = self.body.take() else {
            return Ok(Bytes::new());
        };
        if body.size_hint().lower() > MAX_BODY_BYTES as u64 {
            return Err(ApiError::BodyTooLarge);
        }
        self.in_flight
            .receive(collect(body), self.body_wait)
            .await?
    }

    fn parse_idempotency_key(&self, body: &[u8]) -> Result<Option<IdempotentRequest>, ApiError> {
        let mut keys = self.head.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else {
            return Ok(None);
        };
        let invalid =
            |reason: &str| ApiError::InvalidParameter(Invalid::new(IDEMPOTENCY_KEY, reason));
        if keys.next().is_some() {
            return Err(invalid("must not be repeated"));
        }
        let key = IdempotencyKey::parse(key.as_bytes()).ok_or_else(|| {
            let max = IdempotencyKey::MAX_CHARS;
            invalid(&format!(
                "must be 1 to {max} visible ASCII characters, without spaces"
            ))
        })?;
        let fingerprint = Sha256::new()
            .chain_update(self.head.method.as_str())
            .chain_update([0])
            .chain_update(self.head.uri.path())
            .chain_update([0])
            .chain_update(body);
        Ok(Some(IdempotentRequest {
            api_key_id: self.authorized.api_key_id,
            key,
            fingerprint: fingerprint.finalize().into(),
        }))
    }

    /// Reads the query parameters of a list. Unknown ones are ignored.
    pub fn list_query<S: Status>(&self) -> Result<ListQuery<S>, ApiError> {
        let query = self.head.uri.query().unwrap_or("");
        parse_list_query(query).map_err(ApiError::InvalidParameter)
    }

    /// The pet in the path. A malformed id is treated as unknown.
    pub fn pet_id(&self) -> Result<PetId, ApiError> {
        self.parse_path_parameter(PetId::parse)
            .ok_or(ApiError::NotFound(NO_SUCH_PET))
    }

    /// The order in the path. A malformed id is treated as unknown.
    pub fn order_id(&self) -> Result<OrderId, ApiError> {
        self.parse_path_parameter(OrderId::parse)
            .ok_or(ApiError::NotFound(NO_SUCH_ORDER))
    }

    fn parse_path_parameter<T>(&self, parse: fn(&str) -> Option<T>) -> Option<T> {
        parse(&percent_decode_str(self.path_parameter).decode_utf8().ok()?)
    }

    pub fn preconditions(&self) -> Preconditions<'a> {
        Preconditions::new(&self.head.headers)
    }
}

/// Collects a body into one buffer. `BodyExt::collect` would keep every frame: 32 bytes
/// for a chunk of one.
async fn collect(mut body: Incoming) -> Result<Bytes, ApiError> {
    let mut collected = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::InvalidRequest("body: incomplete or malformed"))?;
        let data = frame.into_data().unwrap_or_default(); // or trailers
        if collected.len() + data.len() > MAX_BODY_BYTES {
            return Err(ApiError::BodyTooLarge);
        }
        collected.extend_from_slice(&data);
    }
    Ok(collected.into())
}

fn parse_object<T: FromObject>(body: &[u8]) -> Result<T, ApiError> {
    let object = Object::parse(body)?;
    T::from_object(&object).map_err(|invalid| ApiError::InvalidBody(join_messages(&invalid)))
}

/// Whether the body has one of the media types. A missing Content-Type is accepted.
fn has_media_type(headers: &HeaderMap, types: &[&str]) -> bool {
    let mut declared = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = declared.next() else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
    let is_utf8 = |parameter: &str| match parameter.split_once('=') {
        Some((name, charset)) if name.trim().eq_ignore_ascii_case("charset") => charset
            .trim()
            .trim_matches('"')
            .eq_ignore_ascii_case("utf-8"),
        _ => true,
    };
    declared.next().is_none()
        && types
            .iter()
            .any(|known| media_type.trim().eq_ignore_ascii_case(known))
        && parameters.split(';').all(is_utf8)
}

/// Whether a body has a content coding. None is supported.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn parse_list_query<S: Status>(query: &str) -> Result<ListQuery<S>, Invalid> {
    let (mut limit, mut status, mut cursor) = (None, None, None);
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => set_once("limit", &mut limit, PageLimit::parse(&value)?)?,
            "status" => set_once("status", &mut status, S::parse(&value)?)?,
            "cursor" => set_once("cursor", &mut cursor, Cursor::parse(&value, S::LIST)?)?,
            _ => {}
        }
    }
    Ok(ListQuery {
        status,
        limit: limit.unwrap_or(PageLimit::DEFAULT),
        after: cursor.unwrap_or(Cursor::START),
    })
}

fn set_once<T>(name: &'static str, parameter: &mut Option<T>, value: T) -> Result<(), Invalid> {
    match parameter.replace(value) {
        None => Ok(()),
        Some(_) => Err(Invalid::new(name, "must not be repeated")),
    }
}
