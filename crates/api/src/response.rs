//! Responses: JSON bodies and entity tags.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;

use super::{
    compression::{self, Coding},
    error::ApiError,
    headers::JSON,
};
use domain::idempotency::Idempotent;
use server::Response;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Responds with a JSON body without an entity tag, for the response to a write.
pub fn json(content: &impl Serialize) -> Response {
    let mut response = Response::new(to_json(content).into());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Responds with a page of a list that no cache may store. It is compressed for each request, so
/// only with zstd: gzip would cost as much as the page itself.
pub fn no_store_page(body: Bytes, link: Option<HeaderValue>, request: &HeaderMap) -> Response {
    let mut headers = HeaderMap::new();
    let body = compression::compress(body, &[Coding::Zstd], request, &mut headers);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.extend(link.map(|link| (header::LINK, link)));
    let mut response = Response::new(body.into());
    *response.headers_mut() = headers;
    no_store(response)
}

/// Forbids every cache to store the response.
pub fn no_store(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

/// Responds with 204.
pub fn no_content() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Responds with the state of a resource.
pub fn resource(content: &impl Serialize) -> Response {
    private_json(content, None).response()
}

/// Returns JSON that a client may cache, if it revalidates.
pub fn private_json(content: &impl Serialize, link: Option<HeaderValue>) -> Content {
    Content {
        body: to_json(content),
        media_type: JSON,
        cache_control: HeaderValue::from_static("private, no-cache"),
        link,
    }
}

/// Responds to a request that may have an idempotency key. A replayed response has the header
/// `Idempotent-Replayed`.
pub fn idempotent<T>(
    result: Idempotent<T>,
    response: impl FnOnce(T) -> Response,
) -> Result<Response, ApiError> {
    match result {
        Idempotent::Executed(value) => Ok(response(value)),
        Idempotent::Replayed(value) => {
            let mut response = response(value);
            let replayed = HeaderValue::from_static("true");
            response.headers_mut().insert(IDEMPOTENT_REPLAYED, replayed);
            Ok(response)
        }
        Idempotent::KeyReused => Err(ApiError::IdempotencyKeyReused),
    }
}

/// Returns the entity tag of a resource, as `resource` sends it.
pub fn etag(content: &impl Serialize) -> HeaderValue {
    etag_of(&to_json(content), None)
}

/// Returns a strong entity tag made from the content, so it is the same on every replica and
/// after a restart. It covers the link: a page that gets a next one changes.
fn etag_of(body: &[u8], link: Option<&HeaderValue>) -> HeaderValue {
    let digest = blake3::Hasher::new()
        .update(body)
        .update(link.map_or(&b""[..], HeaderValue::as_bytes))
        .finalize();
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest.as_bytes()[..16]));
    HeaderValue::try_from(tag).expect("base64 is printable ASCII")
}

/// Returns a strong entity tag for one of several representations, given the digest of all.
pub fn etag_of_digest(digest: &[u8; 32], representation: &str) -> HeaderValue {
    let digest = URL_SAFE_NO_PAD.encode(&digest[..16]);
    let tag = format!("\"{digest}-{representation}\"");
    HeaderValue::try_from(tag).expect("base64 is printable ASCII")
}

/// The parts of a response with an entity tag.
pub struct Content {
    pub body: Bytes,
    pub media_type: HeaderValue,
    pub cache_control: HeaderValue,
    pub link: Option<HeaderValue>,
}

impl Content {
    pub fn response(self) -> Response {
        let etag = etag_of(&self.body, self.link.as_ref());
        let mut response = Response::new(self.body.into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.media_type);
        headers.insert(header::CACHE_CONTROL, self.cache_control);
        headers.insert(header::ETAG, etag);
        headers.extend(self.link.map(|link| (header::LINK, link)));
        response
    }
}

pub fn to_json(content: &impl Serialize) -> Bytes {
    serde_json::to_vec(content)
        .expect("the domain serializes to JSON")
        .into()
}
