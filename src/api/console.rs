//! The console: the page on which a person runs the shop. It uses only the operations
//! of the contract.

use http::HeaderMap;

use super::{
    assets::{self, Asset},
    error::ApiError,
};
use crate::server::Response;

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/console_assets.rs"));

/// The page loads from this service only, cannot be framed, and cannot turn text into
/// markup or code (trusted types).
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self'; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

pub fn page() -> Response {
    let html = include_bytes!(concat!(env!("OUT_DIR"), "/console.html"));
    assets::page(html, CONTENT_SECURITY_POLICY)
}

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    assets::find(ASSETS, name, headers)
}
