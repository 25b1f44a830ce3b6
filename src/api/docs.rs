//! The API reference: a page that shows the contract in Swagger UI.

use http::HeaderMap;

use super::{
    assets::{self, Asset},
    error::ApiError,
};
use crate::server::Response;

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/docs_assets.rs"));

/// The page loads from this service only, and cannot be framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

pub fn page() -> Response {
    let html = include_bytes!(concat!(env!("OUT_DIR"), "/docs.html"));
    assets::page(html, CONTENT_SECURITY_POLICY)
}

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    assets::find(ASSETS, name, headers)
}
