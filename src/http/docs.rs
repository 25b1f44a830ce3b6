//! What needs no key: the contract, and the page that shows it.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Path, State},
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, header};

use super::{
    App,
    error::{ApiError, JSON},
};

pub async fn index() -> Redirect {
    Redirect::temporary("/docs")
}

pub async fn openapi_yaml(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let yaml = HeaderValue::from_static("application/yaml");
    app.contract_yaml.answer(&headers, yaml, "no-cache")
}

pub async fn openapi_json(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    app.contract_json.answer(&headers, JSON, "no-cache")
}

/// The page may load from this service and from nowhere else, and no other
/// page may frame it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

pub async fn page() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (
        headers,
        include_str!(concat!(env!("OUT_DIR"), "/docs.html")),
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

pub async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, ApiError> {
    const NOT_FOUND: ApiError = ApiError::NotFound("there is no such file");
    let asset = ASSETS
        .iter()
        .find(|asset| asset.name == name)
        .ok_or(NOT_FOUND)?;
    let gzip = accepts_gzip(&headers);
    let mut response = Response::new(Body::from(if gzip { asset.gzip } else { asset.plain }));
    let mut set = |name, value| {
        drop(
            response
                .headers_mut()
                .insert(name, HeaderValue::from_static(value)),
        )
    };
    set(header::CONTENT_TYPE, asset.media_type);
    set(header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    set(header::VARY, "accept-encoding");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    if gzip {
        set(header::CONTENT_ENCODING, "gzip");
    }
    Ok(response)
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
