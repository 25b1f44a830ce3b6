//! The API reference: a page that shows the contract in Swagger UI.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::error::ApiError;
use crate::server::Response;

pub fn redirect() -> Response {
    let mut redirect = response(b"", &[(header::LOCATION, "/docs")]);
    *redirect.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    redirect
}

fn response(body: &'static [u8], headers: &[(HeaderName, &'static str)]) -> Response {
    let mut response = Response::new(body.into());
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

/// The page loads from this service only, and cannot be framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

pub fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    response(
        include_bytes!(concat!(env!("OUT_DIR"), "/docs.html")),
        &headers,
    )
}

/// A file of the page. Its name contains a hash of its content, so clients can cache
/// it forever.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/docs_assets.rs"));

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound("no such file");
    let mut assets = ASSETS.iter();
    let asset = assets.find(|asset| asset.name == name).ok_or(NOT_FOUND)?;
    let file_headers = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
    ];
    if !accepts_gzip(headers) {
        return Ok(response(asset.plain, &file_headers));
    }
    let mut response = response(asset.gzip, &file_headers);
    let gzip = HeaderValue::from_static("gzip");
    response
        .headers_mut()
        .insert(header::CONTENT_ENCODING, gzip);
    Ok(response)
}

/// Whether the client accepts gzip; `q=0` means that it does not.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut codings = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|v| v.split(','));
    codings.any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().trim_start_matches("q=").parse::<f32>();
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_ok_and(|weight| weight > 0.0)
    })
}
