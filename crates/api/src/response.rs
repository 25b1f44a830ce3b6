//! Responses: JSON bodies, entity tags, links, and cacheable responses.

use std::sync::{LazyLock, OnceLock};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;
use hyper::body::Body;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    compression::{self, ACCEPT_ENCODING, Coding, MIN_COMPRESSED, set_coding},
    error::ApiError,
    headers::{JSON, reserve_common_headers},
    openapi::PublicUrl,
    preconditions::{Preconditions, Unmet},
};
use domain::{
    idempotency::Idempotent,
    page::{Filter, ListQuery, Page, Position, Sort},
};
use server::{Response, ResponseBody};

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The header of RFC 9745.
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// The header of RFC 8594.
const SUNSET: HeaderName = HeaderName::from_static("sunset");

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
    plain: http::Response<Full<Bytes>>,
    etag: Option<HeaderValue>,
    /// `None` if the response is not compressed.
    compressible: Option<Box<Compressible>>,
    pub invalidation: Invalidation,
}

#[derive(Debug)]
struct Compressible {
    plain: Bytes,
    by_coding: [Compressed; Coding::ALL.len()],
}

/// A compressed response, made when the first client needs it. It has its own entity tag,
/// because a strong one stands for one representation.
#[derive(Debug, Default)]
struct Compressed {
    etag: OnceLock<HeaderValue>,
    response: OnceLock<http::Response<Full<Bytes>>>,
}

impl CachedResponse {
    pub fn new(response: Response, invalidation: Invalidation) -> Self {
        let mut plain = response.map(|body| match body {
            ResponseBody::Complete(body) => body,
            ResponseBody::Stream(_) => unreachable!("a stream cannot be sent twice"),
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
    fn compressible(content: Content, invalidation: Invalidation) -> Self {
        let plain = content.body.clone();
        let mut response = Self::new(content.response(), invalidation);
        if plain.len() >= MIN_COMPRESSED {
            let headers = response.plain.headers_mut();
            headers.insert(header::VARY, ACCEPT_ENCODING);
            response.compressible = Some(Box::new(Compressible {
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
            Err(Unmet::IfMatch) => {
                let message = "If-Match: the content has another ETag; omit the header to fetch it";
                return Err(ApiError::PreconditionFailed(message));
            }
            Err(Unmet::IfNoneMatch) => {
                let mut response = self.plain.clone();
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                *response.body_mut() = Full::default();
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
    ) -> http::Response<Full<Bytes>> {
        let mut response = self.plain.clone();
        *response.body_mut() = coding.compress(body).into();
        let headers = response.headers_mut();
        set_coding(headers, coding);
        if let Some(etag) = etag {
            headers.insert(header::ETAG, etag.clone());
        }
        response
    }

    /// Returns the compressed response, if the client accepts one, with its coding and the plain
    /// body.
    fn compressed(&self, request: &HeaderMap) -> Option<(Coding, &Bytes, &Compressed)> {
        let Compressible { plain, by_coding } = &**self.compressible.as_ref()?;
        let coding = compression::negotiate(request, &Coding::ALL)?;
        Some((coding, plain, &by_coding[coding as usize]))
    }

    /// Returns the size of the body in memory. JSON is compressed to less than half in each
    /// coding.
    pub fn body_size(&self) -> u64 {
        let plain = self.plain.body().size_hint().lower();
        plain * if self.compressible.is_some() { 2 } else { 1 }
    }
}

/// The URLs that responses refer to.
pub struct Links {
    /// The public URL, or just its path.
    base: String,
    deprecation: HeaderValue,
}

impl Links {
    /// Creates the links. Without docs, the contract documents the deprecation.
    pub fn new(public_url: Option<&PublicUrl>, docs: bool) -> Self {
        let base = public_url.map_or("/v1".into(), PublicUrl::to_string);
        let root = base.strip_suffix("/v1").unwrap_or_default();
        let (documentation, media_type) = match docs {
            true => (format!("{root}/docs"), "text/html"),
            false => (format!("{base}/openapi.yaml"), "application/yaml"),
        };
        let deprecation = format!(
            "<{base}/pets>; rel=\"successor-version\", \
             <{documentation}>; rel=\"deprecation\"; type=\"{media_type}\""
        );
        Self {
            // Leaked, because clones of a static value share no reference count.
            deprecation: HeaderValue::from_static(deprecation.leak()),
            base,
        }
    }

    /// Returns the link to the next page of the list at `path`, if there is one (RFC 8288).
    pub fn next_page<F: Filter>(
        &self,
        path: &str,
        query: &ListQuery<F>,
        next: Option<&Position>,
    ) -> Option<HeaderValue> {
        Some(self.next_link(path, &query.next(next?.clone())))
    }

    /// Returns a page of the list at `path`, with a link to the next one.
    pub fn page<F: Filter, T: Serialize>(
        &self,
        path: &str,
        query: &ListQuery<F>,
        page: &Page<T>,
    ) -> CachedResponse {
        let link = self.next_page(path, query, page.next.as_ref());
        // New items have the highest id, so an insert does not change a page that has a
        // next one.
        let is_before_new_items = query.sort == Sort::Asc && link.is_some();
        let invalidation = match query.filter.is_sorted_by_id() && is_before_new_items {
            true => Invalidation::OnUpdate,
            false => Invalidation::OnAnyWrite,
        };
        CachedResponse::compressible(private_json(&page.items, link), invalidation)
    }

    /// Returns the link to the next page of the event log.
    pub fn events(&self, query: &str) -> HeaderValue {
        self.next_link("events", query)
    }

    fn next_link(&self, path: &str, query: &str) -> HeaderValue {
        let link = ["<", &self.base, "/", path, "?", query, ">; rel=\"next\""].concat();
        HeaderValue::try_from(link).expect("links are printable ASCII")
    }

    /// Responds with 201 and the location of the new resource.
    pub fn created(&self, path: &str, id: i64, resource: &impl Serialize) -> Response {
        let location = [&self.base, "/", path, "/", &id.to_string()].concat();
        let location = HeaderValue::try_from(location).expect("URLs are printable ASCII");
        let mut response = json(resource);
        *response.status_mut() = StatusCode::CREATED;
        response.headers_mut().insert(header::LOCATION, location);
        response
    }

    /// Announces the removal of a deprecated operation (RFC 9745, RFC 8594).
    pub fn deprecated(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        headers.insert(DEPRECATION, HeaderValue::from_static("@1764892800"));
        let sunset = HeaderValue::from_static("Thu, 05 Dec 2030 00:00:00 GMT");
        headers.insert(SUNSET, sunset);
        headers.insert(header::LINK, self.deprecation.clone());
        response
    }
}

/// Responds with a JSON body without an entity tag, for the response to a write.
pub fn json(content: &impl Serialize) -> Response {
    let mut response = Response::new(to_json(content).into());
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// Responds with a page of a list that no cache may store. It is compressed for each request, so
/// only with zstd: gzip would cost as much as the page itself.
pub fn unstored_page(body: Bytes, link: Option<HeaderValue>, request: &HeaderMap) -> Response {
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

/// Responds with the state of a resource. The client may cache it, if it revalidates.
pub fn resource(content: &impl Serialize) -> Response {
    private_json(content, None).response()
}

fn private_json(content: &impl Serialize, link: Option<HeaderValue>) -> Content {
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

/// A public document that stays the same while the service runs. Its entity tag is computed
/// on the first request for it, not at every start.
pub type Document = LazyLock<CachedResponse, Box<dyn FnOnce() -> CachedResponse + Send>>;

pub fn document(body: String, media_type: &'static str) -> Document {
    LazyLock::new(Box::new(move || {
        let content = Content {
            body: body.into(),
            media_type: HeaderValue::from_static(media_type),
            cache_control: HeaderValue::from_static("no-cache"),
            link: None,
        };
        CachedResponse::compressible(content, Invalidation::OnUpdate)
    }))
}

/// Returns the entity tag of a resource, as `resource` sends it.
pub fn etag(content: &impl Serialize) -> HeaderValue {
    etag_of(&to_json(content), None)
}

/// Returns a strong entity tag made from the content, so it is the same on every replica and
/// after a restart. It covers the link: a page that gets a next one changes.
fn etag_of(body: &[u8], link: Option<&HeaderValue>) -> HeaderValue {
    let digest = Sha256::new()
        .chain_update(body)
        .chain_update(link.map_or(&b""[..], HeaderValue::as_bytes))
        .finalize();
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]));
    HeaderValue::try_from(tag).expect("base64 is printable ASCII")
}

/// Returns the entity tag of another representation of the same content.
fn with_suffix(tag: &HeaderValue, suffix: &str) -> HeaderValue {
    let tag = tag.to_str().expect("our entity tags are ASCII");
    let tag = format!("{}-{suffix}\"", tag.trim_end_matches('"'));
    HeaderValue::try_from(tag).expect("entity tags are printable ASCII")
}

/// The parts of a response with an entity tag.
struct Content {
    body: Bytes,
    media_type: HeaderValue,
    cache_control: HeaderValue,
    link: Option<HeaderValue>,
}

impl Content {
    fn response(self) -> Response {
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
