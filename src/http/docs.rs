//! What needs no key: the contract, and the page that shows it.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;

use super::{Response, error::ApiError};

pub fn index() -> Response {
    let mut answer = answer(b"", &[(header::LOCATION, "/docs")]);
    *answer.status_mut() = StatusCode::TEMPORARY_REDIRECT;
    answer
}

fn answer(body: &'static [u8], headers: &[(HeaderName, &'static str)]) -> Response {
    let mut answer = Response::new(Full::new(Bytes::from_static(body)));
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// The page may load from this service and from nowhere else, and no other
/// page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

pub fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    answer(
        include_bytes!(concat!(env!("OUT_DIR"), "/docs.html")),
        &headers,
    )
}

/// A file of the page. Its name holds a hash of its content, so it never
/// changes.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
}

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/docs_assets.rs"));

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound("there is no such file");
    let mut assets = ASSETS.iter();
    let asset = assets.find(|asset| asset.name == name).ok_or(NOT_FOUND)?;
    let headers_of_all = [
        (header::CONTENT_TYPE, asset.media_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::VARY, "accept-encoding"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    if !accepts_gzip(headers) {
        return Ok(answer(asset.plain, &headers_of_all));
    }
    let mut answer = answer(asset.gzip, &headers_of_all);
    let gzip = HeaderValue::from_static("gzip");
    answer.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    Ok(answer)
}

/// Whether the client takes gzip; `q=0` means that it does not.
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
