//! The API reference: a page that shows the contract in Swagger UI.

use std::sync::LazyLock;

use http::HeaderMap;

use super::{
    assets::{self, Asset},
    error::ApiError,
};
use server::Response;

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/docs_assets.rs"));

/// The page loads from this service only, and cannot be framed.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

const HTML: &str = include_str!(concat!(env!("OUT_DIR"), "/docs.html"));
const CONSOLE_LINK: &str = "<a href=\"console\">Console</a>\n";
static WITHOUT_CONSOLE: LazyLock<String> = LazyLock::new(|| HTML.replace(CONSOLE_LINK, ""));

/// Returns the page. It links to the console, if that is served.
pub fn page(has_console: bool, request: &HeaderMap) -> Response {
    let html = if has_console { HTML } else { &WITHOUT_CONSOLE };
    assets::page(html, CONTENT_SECURITY_POLICY, request)
}

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    assets::find(ASSETS, name, headers)
}
