//! The console: the page on which a person runs the shop. It uses only the operations
//! of the contract.

use std::sync::LazyLock;

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

const HTML: &str = include_str!(concat!(env!("OUT_DIR"), "/console.html"));
const DOCS_LINK: &str = "<a href=\"docs\">API reference</a>";
static WITHOUT_DOCS: LazyLock<String> = LazyLock::new(|| HTML.replace(DOCS_LINK, ""));

/// The page. It links to the API reference, if there is one.
pub fn page(has_docs: bool) -> Response {
    let html = match has_docs {
        true => HTML,
        false => &WITHOUT_DOCS,
    };
    assets::page(html.as_bytes(), CONTENT_SECURITY_POLICY)
}

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    assets::find(ASSETS, name, headers)
}
