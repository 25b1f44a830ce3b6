//! The console: the page on which a person runs the shop. It uses only the operations of the
//! contract.

use std::sync::LazyLock;

use http::HeaderMap;

use super::{
    assets::{self, Asset},
    error::ApiError,
};
use server::Response;

static ASSETS: &[Asset] = &include!(concat!(env!("OUT_DIR"), "/console_assets.rs"));

/// The page loads from this service only, cannot be framed, and cannot turn text into
/// markup or code (trusted types). Photos are fetched with the API key and shown from memory
/// (`blob:`).
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                      img-src 'self' blob:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = include_str!(concat!(env!("OUT_DIR"), "/console.html"));
const DOCS_LINK: &str = "<a href=\"docs\">API reference</a>";
static WITHOUT_DOCS: LazyLock<String> = LazyLock::new(|| HTML.replace(DOCS_LINK, ""));

/// Returns the page. It links to the API reference, if that is served.
pub fn page(has_docs: bool, request: &HeaderMap) -> Response {
    let html = if has_docs { HTML } else { &WITHOUT_DOCS };
    assets::page(html, CONTENT_SECURITY_POLICY, request)
}

pub fn asset(name: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    assets::find(ASSETS, name, headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes are in bytes, as files are sent. The first screen consists of the files that the page
    /// names.
    #[test]
    fn the_console_stays_small() {
        let size = |is_counted: &dyn Fn(&Asset) -> bool| {
            let files = ASSETS.iter().filter(|asset| is_counted(asset));
            files.map(|asset| asset.gzip.len()).sum::<usize>()
        };
        let first = size(&|asset| HTML.contains(asset.name));
        let all = size(&|_| true);
        assert!(first <= 50_000, "the first screen has {first} bytes");
        assert!(all <= 240_000, "the console has {all} bytes");
        assert!(HTML.contains("screens/animals.js"));
        for later in [
            "screens/import.js",
            "js/many/bar.js",
            "js/photos/uploads.js",
            "js/photos/viewer.js",
            "js/qr.js",
        ] {
            assert!(!HTML.contains(later), "{later}");
        }
    }
}
