//! Files of the pages that are embedded in the binary: the console and the API
//! reference. `build.rs` compresses them.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::{
    compression::{self, Coding},
    error::ApiError,
};
use server::Response;

const CROSS_ORIGIN_OPENER_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-opener-policy");

/// Keeps pages of other sites from loading a file, for example as an image or a script.
const SAME_ORIGIN_ONLY: (HeaderName, &str) = (
    HeaderName::from_static("cross-origin-resource-policy"),
    "same-origin",
);

/// A file of a page. Its path contains a hash of the content, so clients can cache it
/// forever.
pub struct Asset {
    pub name: &'static str,
    pub media_type: &'static str,
    pub plain: &'static [u8],
    pub gzip: &'static [u8],
}

pub fn redirect(location: &'static str) -> Response {
    let mut redirect = response(b"", &[(header::LOCATION, location)]);
    *redirect.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    redirect
}

pub fn page(
    html: &'static str,
    content_security_policy: &'static str,
    request: &HeaderMap,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, content_security_policy),
        (header::REFERRER_POLICY, "no-referrer"),
        // No other site gets a reference to the page's window.
        (CROSS_ORIGIN_OPENER_POLICY, "same-origin"),
        SAME_ORIGIN_ONLY,
    ];
    let mut response = response(b"", &headers);
    let plain = Bytes::from_static(html.as_bytes());
    let body = compression::compress(plain, &Coding::ALL, request, response.headers_mut());
    *response.body_mut() = body.into();
    response
}

pub fn find(assets: &[Asset], name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound("no such file");
    let mut assets = assets.iter();
    let asset = assets.find(|asset| asset.name == name).ok_or(NOT_FOUND)?;
    let file_headers = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
        SAME_ORIGIN_ONLY,
    ];
    if compression::negotiate(headers, &[Coding::Gzip]).is_none() {
        return Ok(response(asset.plain, &file_headers));
    }
    let mut response = response(asset.gzip, &file_headers);
    compression::set_coding(response.headers_mut(), Coding::Gzip);
    Ok(response)
}

fn response(body: &'static [u8], headers: &[(HeaderName, &'static str)]) -> Response {
    let mut response = Response::new(body.into());
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
