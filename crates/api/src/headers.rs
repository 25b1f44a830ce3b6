//! Headers that every response has, or may have.

use http::{HeaderMap, HeaderName, HeaderValue, header};

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub const PETSTORE_UNKNOWN_PARAMETERS: HeaderName =
    HeaderName::from_static("petstore-unknown-parameters");
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Sets the headers. A browser must not guess another media type: a name in a JSON body may look
/// like HTML.
pub fn set_common_headers(headers: &mut HeaderMap, request_id: HeaderValue) {
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    headers.insert(X_REQUEST_ID, request_id);
}

/// Reserves room for the headers in a response that is cloned for each request. The middleware
/// sets the request id.
pub fn reserve_common_headers(headers: &mut HeaderMap) {
    set_common_headers(headers, HeaderValue::from_static(""));
}
