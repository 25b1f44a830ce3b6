//! Typed input from a request, or the answer that says what is wrong with it.

use http::{HeaderMap, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use percent_encoding::percent_decode_str;

use super::{App, error::ApiError, limits::MAX_BODY};
use crate::{
    invalid::Invalid,
    json::{FromObject, Object},
    page::{Cursor, Filter, ListQuery, PageLimit},
    pet::PetId,
};

/// Reads the JSON body of a request.
pub async fn json<T: FromObject>(app: &App, head: &Parts, body: Incoming) -> Result<T, ApiError> {
    if !is_json(&head.headers) || is_encoded(&head.headers) {
        return Err(ApiError::UnsupportedMediaType);
    }
    if body.size_hint().lower() > MAX_BODY as u64 {
        return Err(ApiError::BodyTooLarge);
    }
    let reading = Limited::new(body, MAX_BODY).collect();
    let bytes = match tokio::time::timeout(app.limits.body, reading).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(e)) if e.is::<LengthLimitError>() => return Err(ApiError::BodyTooLarge),
        Ok(Err(_)) => return Err(ApiError::InvalidRequest("body: broke off or is malformed")),
        Err(_) => return Err(ApiError::RequestTimeout("body: did not arrive in time")),
    };
    let object = Object::parse(&bytes)?;
    T::from_object(&object).map_err(|wrong| {
        let wrong: Vec<_> = wrong.iter().map(Invalid::to_string).collect();
        ApiError::InvalidBody(wrong.join("; "))
    })
}

/// Whether a body may be read as JSON. Without a declaration it is.
fn is_json(headers: &HeaderMap) -> bool {
    let mut declared = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(value) = declared.next() else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
    declared.next().is_none()
        && media_type.trim().eq_ignore_ascii_case("application/json")
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
    let id = percent_decode_str(segment).decode_utf8().ok()?;
    PetId::parse(&id)
}
