//! The response of an [`ApiError`].

use std::{borrow::Cow, sync::LazyLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::{
    ApiError, AuthFailure,
    description::{Description, join_scopes},
};
use crate::headers::{JSON, reserve_common_headers};
use server::{Response, ResponseBody};

/// The header of RFC 5789.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");

/// The body of every error.
#[derive(Serialize)]
pub struct ErrorBody<'a> {
    code: &'static str,
    message: Cow<'a, str>,
    pub status: u16,
}

impl ApiError {
    pub fn response(&self) -> Response {
        let response = match self {
            Self::Unauthorized(failure) => UNAUTHORIZED[*failure as usize].clone(),
            _ => self.render(),
        };
        response.map(ResponseBody::Complete)
    }

    pub fn body(&self) -> ErrorBody<'_> {
        let Description {
            status,
            code,
            message,
        } = self.describe();
        ErrorBody {
            code,
            message,
            status: status.as_u16(),
        }
    }

    fn render(&self) -> http::Response<Bytes> {
        let status = self.describe().status;
        let json = serde_json::to_vec(&self.body()).expect("an error body serializes to JSON");
        let mut response = http::Response::new(json.into());
        *response.status_mut() = status;
        *response.headers_mut() = self.headers(status);
        response
    }

    /// Returns the headers of the response.
    fn headers(&self, status: StatusCode) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let challenge = match self {
            Self::Unauthorized(AuthFailure::Missing) => {
                Some(HeaderValue::from_static("Bearer realm=\"petstore\""))
            }
            Self::Unauthorized(_) => Some(HeaderValue::from_static(
                "Bearer realm=\"petstore\", error=\"invalid_token\"",
            )),
            Self::InsufficientScope(scopes) => {
                let scopes = join_scopes(scopes, " ");
                let challenge = format!(
                    "Bearer realm=\"petstore\", error=\"insufficient_scope\", scope=\"{scopes}\""
                );
                Some(challenge.try_into().expect("scopes are printable ASCII"))
            }
            _ => None,
        };
        if let Some(challenge) = challenge {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Self::UnsupportedMediaType(content) | Self::UnsupportedContentEncoding(content) =
            self
            && content.accepted.contains(&"application/merge-patch+json")
        {
            let types = HeaderValue::try_from(content.accepted.join(", "));
            headers.insert(
                ACCEPT_PATCH,
                types.expect("media types are printable ASCII"),
            );
        }
        if let Self::UnsupportedContentEncoding(_) = self {
            // This header is only for an unsupported coding (RFC 9110, section 12.5.3).
            let identity = HeaderValue::from_static("identity");
            headers.insert(header::ACCEPT_ENCODING, identity);
        }
        let retry_after = match self {
            Self::RateLimited { quota, .. } => Some(quota.retry_after),
            Self::TooManyStreams { .. } => Some(1),
            _ => (status == StatusCode::SERVICE_UNAVAILABLE).then_some(1),
        };
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Self::MethodNotAllowed(methods) = self {
            let methods = HeaderValue::from_str(methods).expect("methods are printable ASCII");
            headers.insert(header::ALLOW, methods);
        }
        headers
    }
}

/// The responses to requests without a valid key, rendered once, so that a flood of them costs
/// little.
static UNAUTHORIZED: LazyLock<[http::Response<Bytes>; AuthFailure::ALL.len()]> =
    LazyLock::new(|| {
        AuthFailure::ALL.map(|failure| {
            let mut response = ApiError::Unauthorized(failure).render();
            reserve_common_headers(response.headers_mut());
            response
        })
    });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_for_401_has_its_own_response() {
        for failure in AuthFailure::ALL {
            let prepared = &UNAUTHORIZED[failure as usize];
            let rendered = ApiError::Unauthorized(failure).render();
            assert_eq!(prepared.status(), rendered.status());
            assert_eq!(
                format!("{:?}", prepared.body()),
                format!("{:?}", rendered.body())
            );
            for (name, value) in rendered.headers() {
                assert_eq!(prepared.headers().get(name), Some(value));
            }
        }
    }
}
