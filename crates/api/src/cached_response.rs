//! Responses that are sent many times: plain or compressed, or 304 to a client that has the
//! content already.

use std::sync::{LazyLock, OnceLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{
    compression::{self, ACCEPT_ENCODING, Coding, MIN_COMPRESSED, set_coding},
    error::ApiError,
    headers::reserve_common_headers,
    preconditions::{Preconditions, UnmetPrecondition},
    response::Content,
};
use server::{Response, ResponseBody};

/// The writes that invalidate a cached response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invalidation {
    /// Any change of an existing row. An insert leaves the response valid.
    OnUpdate,
    OnAnyWrite,
}

/// A response that can be sent many times.
#[derive(Debug)]
pub struct CachedResponse {
    plain: http::Response<Bytes>,
    etag: Option<HeaderValue>,
    /// `None` if the response is not compressed.
    compressible: Option<Box<CompressibleBody>>,
    pub invalidation: Invalidation,
}

#[derive(Debug)]
struct CompressibleBody {
    plain: Bytes,
    by_coding: [CompressedResponse; Coding::ALL.len()],
}

/// A compressed response, made when the first client needs it. It has its own entity tag,
/// because a strong one stands for one representation.
#[derive(Debug, Default)]
struct CompressedResponse {
    etag: OnceLock<HeaderValue>,
    response: OnceLock<http::Response<Bytes>>,
}

impl CachedResponse {
    pub fn new(response: Response, invalidation: Invalidation) -> Self {
        let mut plain = response.map(|body| match body {
            ResponseBody::Complete(body) => body,
            ResponseBody::Parts(_) | ResponseBody::Stream(_) => {
                unreachable!("a stream cannot be sent twice")
            }
        });
        reserve_common_headers(plain.headers_mut());
        Self {
            etag: plain.headers().get(header::ETAG).cloned(),
            plain,
            compressible: None,
            invalidation,
        }
    }

    /// Creates a response that is compressed for clients that accept it, if it is large enough.
    /// Not for resources that are changed with `If-Match`: the entity tag of a compressed
    /// response differs.
    pub fn compressible(content: Content, invalidation: Invalidation) -> Self {
        let plain = content.body.clone();
        let mut response = Self::new(content.response(), invalidation);
        if plain.len() >= MIN_COMPRESSED {
            let headers = response.plain.headers_mut();
            headers.insert(header::VARY, ACCEPT_ENCODING);
            response.compressible = Some(Box::new(CompressibleBody {
                plain,
                by_coding: Default::default(),
            }));
        }
        response
    }

    /// Responds to a GET: 304 if the client has this content already, 412 if it
    /// wants other content. Preconditions apply to a success only (RFC 9110, section
    /// 13.2.1).
    pub fn respond(&self, request: &HeaderMap) -> Result<Response, ApiError> {
        let compressed = self.compressed(request);
        let etag = match (compressed, self.etag.as_ref()) {
            (Some((coding, _, compressed)), Some(plain)) => {
                let tag = || with_suffix(plain, coding.name());
                Some(compressed.etag.get_or_init(tag))
            }
            (_, plain) => plain,
        };
        let response = match etag.map_or(Ok(()), |etag| Preconditions::new(request).evaluate(etag))
        {
            Ok(()) => match compressed {
                None => self.plain.clone(),
                Some((coding, plain, compressed)) => {
                    let response = || self.in_coding(coding, plain, etag);
                    compressed.response.get_or_init(response).clone()
                }
            },
            Err(UnmetPrecondition::IfMatch) => {
                return Err(ApiError::CONTENT_HAS_OTHER_TAG);
            }
            Err(UnmetPrecondition::IfNoneMatch) => {
                let mut response = self.plain.clone();
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                *response.body_mut() = Bytes::new();
                let headers = response.headers_mut();
                headers.remove(header::CONTENT_TYPE);
                if let Some(etag) = etag.filter(|_| compressed.is_some()) {
                    headers.insert(header::ETAG, etag.clone());
                }
                response
            }
        };
        Ok(response.map(ResponseBody::Complete))
    }

    fn in_coding(
        &self,
        coding: Coding,
        body: &[u8],
        etag: Option<&HeaderValue>,
    ) -> http::Response<Bytes> {
        let mut response = self.plain.clone();
        *response.body_mut() = coding.compress(body);
        let headers = response.headers_mut();
        set_coding(headers, coding);
        if let Some(etag) = etag {
            headers.insert(header::ETAG, etag.clone());
        }
        response
    }

    /// Returns the compressed response, if the client accepts one, with its coding and the plain
    /// body.
    fn compressed(&self, request: &HeaderMap) -> Option<(Coding, &Bytes, &CompressedResponse)> {
        let CompressibleBody { plain, by_coding } = &**self.compressible.as_ref()?;
        let coding = compression::negotiate(request, &Coding::ALL)?;
        Some((coding, plain, &by_coding[coding as usize]))
    }

    /// Returns the size of the body in memory. JSON is compressed to less than half in each
    /// coding.
    pub fn body_size(&self) -> u64 {
        let plain = self.plain.body().len() as u64;
        plain * if self.compressible.is_some() { 2 } else { 1 }
    }
}

/// Returns the entity tag of another representation of the same content.
fn with_suffix(tag: &HeaderValue, suffix: &str) -> HeaderValue {
    let plain = tag.to_str().expect("our entity tags are ASCII");
    let suffixed = format!("{}-{suffix}\"", plain.trim_end_matches('"'));
    HeaderValue::try_from(suffixed).expect("entity tags are printable ASCII")
}

/// A public document that stays the same while the service runs. It is written on the first
/// request for it, not at every start.
pub type Document = LazyLock<CachedResponse, Box<dyn FnOnce() -> CachedResponse + Send>>;

pub fn document(
    body: impl FnOnce() -> String + Send + 'static,
    media_type: &'static str,
) -> Document {
    LazyLock::new(Box::new(move || {
        let content = Content {
            body: body().into(),
            media_type: HeaderValue::from_static(media_type),
            cache_control: HeaderValue::from_static("no-cache"),
            link: None,
        };
        CachedResponse::compressible(content, Invalidation::OnUpdate)
    }))
}
