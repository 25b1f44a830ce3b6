//! Answers that can be kept: their bytes, their tag, and the cache that holds
//! them.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use quick_cache::{Weighter, sync::Cache};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{App, error::ApiError, error::JSON};
use crate::{
    order::OrderStatus,
    page::{Filter, ListKind, ListQuery, Page},
    pet::{PetId, PetStatus},
};

/// The most that the kept answers may take, in bytes.
const CACHE_SIZE: u64 = 8 << 20;

/// How long a request waits for what is to be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Content as it is sent, with a strong tag made from it: the same on every
/// replica and after a restart.
#[derive(Debug)]
pub struct Rendered {
    body: Bytes,
    etag: HeaderValue,
    link: Option<HeaderValue>,
}

impl Rendered {
    pub fn new(body: impl Into<Bytes>, link: Option<String>) -> Self {
        let body = body.into();
        // A link is part of the answer: a page that gets a next one is another.
        let link_text = link.as_deref().unwrap_or("");
        let digest = Sha256::new()
            .chain_update(&body)
            .chain_update(link_text)
            .finalize();
        let tag: String = digest[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let header = |text: String| text.try_into().expect("tags and links are plain ASCII");
        Self {
            body,
            etag: header(format!("\"{tag}\"")),
            link: link.map(header),
        }
    }

    pub fn json(content: &impl Serialize, link: Option<String>) -> Self {
        let body = serde_json::to_vec(content).expect("the domain is plain JSON");
        Self::new(body, link)
    }

    /// A page of a list, with the link to the next one.
    pub fn page<S: Filter, T: Serialize>(base: &str, query: &ListQuery<S>, page: &Page<T>) -> Self {
        let link = page.next.map(|next| {
            let path = match S::LIST {
                ListKind::Pets => "pets",
                ListKind::Orders => "store/orders",
            };
            let status = query
                .status
                .map_or(String::new(), |s| format!("&status={}", s.as_str()));
            let (limit, cursor) = (query.limit.get(), next.encode(S::LIST));
            format!("<{base}/{path}?limit={limit}{status}&cursor={cursor}>; rel=\"next\"")
        });
        Self::json(&page.items, link)
    }

    /// The answer to a request: 304 if the client has this content already.
    pub fn answer(
        &self,
        request: &HeaderMap,
        content_type: HeaderValue,
        cache_control: &'static str,
    ) -> Response {
        let fresh = if_none_match(request, self.etag.as_bytes());
        let body = if fresh {
            Bytes::new()
        } else {
            self.body.clone()
        };
        let mut response = Response::new(Body::from(body));
        let headers = response.headers_mut();
        headers.insert(header::ETAG, self.etag.clone());
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static(cache_control),
        );
        if let Some(link) = &self.link {
            headers.insert(header::LINK, link.clone());
        }
        if fresh {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, content_type);
        }
        response
    }

    /// The same for what belongs to the holder of a key.
    pub fn private_answer(&self, request: &HeaderMap) -> Response {
        self.answer(request, JSON, "private, no-cache")
    }
}

/// Whether the client holds one of the tags; by RFC 9110 a weak tag matches too.
fn if_none_match(request: &HeaderMap, etag: &[u8]) -> bool {
    request.get_all(header::IF_NONE_MATCH).iter().any(|value| {
        let value = value.as_bytes().trim_ascii();
        let mut tags = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        value == b"*" || tags.any(|tag| tag.strip_prefix(b"W/").unwrap_or(tag) == etag)
    })
}

/// What an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum View {
    Pets(ListQuery<PetStatus>),
    Pet(PetId),
    Orders(ListQuery<OrderStatus>),
}

/// Answers that were given before, each with the number of commits at which
/// it was read. One from before the last commit is never found again and falls
/// out in time.
pub struct Pages(Cache<(View, u64), Arc<Rendered>, Weight>);

impl Pages {
    pub fn new() -> Self {
        Self(Cache::with_weighter(1024, CACHE_SIZE, Weight))
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<(View, u64), Arc<Rendered>> for Weight {
    fn weight(&self, _: &(View, u64), rendered: &Arc<Rendered>) -> u64 {
        // The fixed part is what an entry costs without its bytes.
        256 + rendered.body.len() as u64
    }
}

impl App {
    /// Gives an answer that is as new as the last acknowledged write. If many
    /// ask for one that is not there, one of them reads it for all.
    pub async fn rendered(
        &self,
        view: View,
        read: impl Future<Output = Result<Rendered, ApiError>>,
    ) -> Result<Arc<Rendered>, ApiError> {
        // The number is taken before the reading: what is read may be newer
        // than it says, never older.
        let key = (view, self.store.commits());
        if let Some(kept) = self.pages.0.get(&key) {
            return Ok(kept);
        }
        let read = async { read.await.map(Arc::new) };
        let read = self.pages.0.get_or_insert_async(&key, read);
        // If a reading fails, the next one who waits tries; nobody waits for
        // all of them.
        tokio::time::timeout(PATIENCE, read)
            .await
            .unwrap_or_else(|late| {
                let message = "the storage is too slow; nothing was changed, try again later";
                Err(ApiError::Unavailable(message, Arc::new(late)))
            })
    }
}
