//! What needs no key: the contract and the page that leads to it.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use http::{HeaderMap, HeaderValue, header};

use super::{App, error::JSON};

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

pub async fn page() -> impl IntoResponse {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'self'",
        ),
    ];
    (headers, include_str!("docs.html"))
}
