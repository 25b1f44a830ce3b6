//! The headers that describe the body of a request.

use http::{HeaderMap, HeaderName, header};

use crate::error::{ApiError, UnsupportedContent};
use domain::invalid::quoted;
use server::header_values;

/// Checks that a body has one of the media types, and no content coding. Fails with `other_type` if
/// it has another media type.
pub fn check_content(
    headers: &HeaderMap,
    accepted: &'static [&'static str],
    other_type: fn(UnsupportedContent) -> ApiError,
) -> Result<(), ApiError> {
    let unsupported = |name| UnsupportedContent {
        accepted,
        got: quoted_header(headers, name),
    };
    if !has_media_type(headers, accepted) {
        return Err(other_type(unsupported(header::CONTENT_TYPE)));
    }
    if is_encoded(headers) {
        let content = unsupported(header::CONTENT_ENCODING);
        return Err(ApiError::UnsupportedContentEncoding(content));
    }
    Ok(())
}

/// Returns true if the body has one of the media types. A missing Content-Type is accepted.
fn has_media_type(headers: &HeaderMap, types: &[&str]) -> bool {
    let mut declared = header_values(headers, header::CONTENT_TYPE);
    let Some(value) = declared.next() else {
        return true;
    };
    let Ok(value) = value.to_str() else {
        return false;
    };
    let (media_type, parameters) = value.split_once(';').unwrap_or((value, ""));
    let media_type = match media_type.trim() {
        // Not registered, but sent by clients that derive it from the name of a file.
        alias if alias.eq_ignore_ascii_case("image/jpg") => "image/jpeg",
        media_type => media_type,
    };
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
            .any(|known| media_type.eq_ignore_ascii_case(known))
        && parameters.split(';').all(is_utf8)
}

/// Quotes the values of a header for use in a message.
fn quoted_header(headers: &HeaderMap, name: HeaderName) -> String {
    let values = header_values(headers, name).map(|value| value.as_bytes());
    let values: Vec<_> = values.map(String::from_utf8_lossy).collect();
    quoted(&values.join(", "))
}

/// Returns true if the body has a content coding. None is supported.
fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = header_values(headers, header::CONTENT_ENCODING);
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}
