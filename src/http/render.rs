//! Answers that can be given again: their tag, and the cache that keeps them.

use std::{convert::Infallible, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body_util::Full;
use hyper::body::Body;
use quick_cache::{
    Weighter,
    sync::{Cache, EntryAction, EntryResult},
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::{
    sync::Mutex,
    time::{Instant, error::Elapsed, timeout},
};

use super::{App, Response, error::ApiError, error::JSON};
use crate::{
    idempotency::Idempotent,
    order::{OrderId, OrderStatus},
    page::{Filter, ListKind, ListQuery, Page},
    pet::{PetId, PetStatus},
    store::Version,
};

/// The most that the kept answers may take, in bytes.
const CACHE_SIZE: u64 = 32 << 20;

/// How long a request waits for what another one reads.
const PATIENCE: Duration = Duration::from_secs(10);

/// An answer that can be given again and again.
#[derive(Debug)]
pub struct Rendered {
    answer: Response,
    /// Whether it stays true when something is added to the store.
    lasting: bool,
}

impl Rendered {
    /// An answer that stays true until something in the store is changed.
    pub fn lasting(answer: Response) -> Self {
        Self {
            answer,
            lasting: true,
        }
    }

    /// An answer that may become untrue when something is added.
    pub fn passing(answer: Response) -> Self {
        Self {
            answer,
            lasting: false,
        }
    }

    /// A page of a list, with the link to the next one. What is added comes
    /// last, so a page that has a next one stays as it is.
    pub fn page<S: Filter, T: Serialize>(base: &str, query: &ListQuery<S>, page: &Page<T>) -> Self {
        let link = page.next.map(|next| {
            let path = match S::LIST {
                ListKind::Pets => "pets",
                ListKind::Orders => "store/orders",
            };
            let (and_status, status) = match query.status {
                Some(status) => ("&status=", status.as_str()),
                None => ("", ""),
            };
            let (limit, cursor) = (query.limit.get(), next.encode(S::LIST));
            format!(
                "<{base}/{path}?limit={limit}{and_status}{status}&cursor={cursor}>; rel=\"next\""
            )
        });
        Self {
            lasting: link.is_some(),
            answer: json(&page.items, link),
        }
    }

    /// The answer to a request: 304 if the client has this content already.
    pub fn answer(&self, request: &HeaderMap) -> Response {
        let mut answer = self.answer.clone();
        if let Some(tag) = answer.headers().get(header::ETAG)
            && if_none_match(request, tag.as_bytes())
        {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
            *answer.body_mut() = Full::default();
            answer.headers_mut().remove(header::CONTENT_TYPE);
        }
        answer
    }
}

/// Content that belongs to the holder of a key.
pub fn json(content: &impl Serialize, link: Option<String>) -> Response {
    let body = serde_json::to_vec(content).expect("the domain is plain JSON");
    let cache_control = HeaderValue::from_static("private, no-cache");
    tagged(body.into(), JSON, cache_control, link)
}

/// What something that was made is, and where.
pub fn created(app: &App, path: &str, id: i64, content: &impl Serialize) -> Response {
    let location = format!("{}/{path}/{id}", app.base);
    let location = HeaderValue::try_from(location).expect("addresses are plain ASCII");
    let mut answer = plain(content);
    *answer.status_mut() = StatusCode::CREATED;
    answer.headers_mut().insert(header::LOCATION, location);
    answer
}

/// Content that answers this request alone.
pub fn plain(content: &impl Serialize) -> Response {
    let body = serde_json::to_vec(content).expect("the domain is plain JSON");
    let mut answer = Response::new(Full::new(body.into()));
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    answer
}

/// The answer to a request that may have been sent before: then it is the same
/// again, and says so.
pub fn once<T>(
    outcome: Idempotent<T>,
    answer: impl FnOnce(T) -> Response,
) -> Result<Response, ApiError> {
    match outcome {
        Idempotent::Executed(value) => Ok(answer(value)),
        Idempotent::Replayed(value) => {
            let mut answer = answer(value);
            let yes = HeaderValue::from_static("true");
            answer.headers_mut().insert(IDEMPOTENT_REPLAYED, yes);
            Ok(answer)
        }
        Idempotent::KeyReused => Err(ApiError::IdempotencyKeyReused),
    }
}

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The tag of content, as `json` gives it.
pub fn tag(content: &impl Serialize) -> HeaderValue {
    etag(
        &serde_json::to_vec(content).expect("the domain is plain JSON"),
        "",
    )
}

/// A strong tag: the same on every replica and after a restart. A link is part
/// of the answer: a page that gets a next one is another.
fn etag(body: &[u8], link: &str) -> HeaderValue {
    let digest = Sha256::new()
        .chain_update(body)
        .chain_update(link)
        .finalize();
    let tag = format!("\"{}\"", URL_SAFE_NO_PAD.encode(&digest[..16]));
    HeaderValue::try_from(tag).expect("tags are plain ASCII")
}

/// Content for everyone, as long as the service runs.
pub fn public(body: String, media_type: &'static str) -> Rendered {
    let cache_control = HeaderValue::from_static("no-cache");
    let media_type = HeaderValue::from_static(media_type);
    Rendered::lasting(tagged(body.into(), media_type, cache_control, None))
}

/// Content with a strong tag made from it.
fn tagged(
    body: Bytes,
    media_type: HeaderValue,
    cache_control: HeaderValue,
    link: Option<String>,
) -> Response {
    let tag = etag(&body, link.as_deref().unwrap_or(""));
    let mut answer = Response::new(Full::new(body));
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    headers.insert(header::CACHE_CONTROL, cache_control);
    headers.insert(header::ETAG, tag);
    if let Some(link) = link {
        let link = HeaderValue::try_from(link).expect("links are plain ASCII");
        headers.insert(header::LINK, link);
    }
    answer
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
    Order(OrderId),
    Inventory,
}

/// Answers that were given before, and readings that are under way.
pub struct Pages {
    kept: Cache<View, Kept, Weight>,
    readings: Cache<View, Arc<Reading>>,
}

/// The last reading of a view: when it began, and what came of it.
type Reading = Mutex<Option<(Instant, Result<Arc<Rendered>, ApiError>)>>;

#[derive(Clone)]
struct Kept {
    rendered: Arc<Rendered>,
    /// How far the store had come, at the least, when it was read.
    at: Version,
}

impl Kept {
    /// Whether it is as new as a store that has come so far.
    fn holds_at(&self, asked: Version) -> bool {
        let lasting = self.rendered.lasting;
        self.at.changed >= asked.changed && (lasting || self.at.added >= asked.added)
    }
}

impl Pages {
    pub fn new() -> Self {
        Self {
            kept: Cache::with_weighter(1024, CACHE_SIZE, Weight),
            readings: Cache::new(256),
        }
    }
}

#[derive(Clone)]
struct Weight;

impl Weighter<View, Kept> for Weight {
    fn weight(&self, _: &View, kept: &Kept) -> u64 {
        let body = kept.rendered.answer.body().size_hint().lower();
        // The rest is mostly the headers.
        1536 + body
    }
}

impl App {
    /// Gives an answer that is as new as the last acknowledged write. If many
    /// ask for one that is not there, one of them reads it for all.
    ///
    /// A reading is in a box, so that answers that are kept do not pay for the
    /// room that it takes.
    pub async fn rendered<F>(
        &self,
        view: View,
        read: impl FnOnce() -> F,
    ) -> Result<Arc<Rendered>, ApiError>
    where
        F: Future<Output = Result<Rendered, ApiError>>,
    {
        let Some(asked) = self.store.version() else {
            return Box::pin(self.read_anew(view, read())).await;
        };
        let kept = self.pages.kept.get(&view);
        if let Some(kept) = kept.filter(|kept| kept.holds_at(asked)) {
            self.metrics.pages.hits.increment();
            return Ok(kept.rendered);
        }
        Box::pin(self.read_and_keep(view, asked, read())).await
    }

    async fn read_and_keep(
        &self,
        view: View,
        asked: Version,
        read: impl Future<Output = Result<Rendered, ApiError>>,
    ) -> Result<Arc<Rendered>, ApiError> {
        let judge = |_: &View, kept: &mut Kept| {
            if kept.holds_at(asked) {
                EntryAction::Retain(kept.rendered.clone())
            } else {
                EntryAction::ReplaceWithGuard
            }
        };
        // If a reading fails, the next one who waits tries; nobody waits for
        // all of them.
        let entry = self.pages.kept.entry_async(&view, judge);
        let place = match timeout(PATIENCE, entry).await {
            Ok(EntryResult::Retained(rendered)) => {
                self.metrics.pages.shared.increment();
                return Ok(rendered);
            }
            Ok(EntryResult::Vacant(place) | EntryResult::Replaced(place, _)) => place,
            Ok(EntryResult::Removed(..) | EntryResult::Timeout) => {
                unreachable!("neither is asked for")
            }
            Err(late) => return Err(too_slow(late)),
        };
        self.metrics.pages.misses.increment();
        // Taken before the reading: what is read may be newer than it says,
        // never older.
        let at = self.store.version().unwrap_or(asked);
        let rendered = Arc::new(read.await?);
        let _ = place.insert(Kept {
            rendered: rendered.clone(),
            at,
        });
        Ok(rendered)
    }

    /// The same where others write too, so that nothing can be kept. Those who
    /// ask while a view is being read share the next reading of it: one that
    /// began after they asked has all that they may expect.
    async fn read_anew(
        &self,
        view: View,
        read: impl Future<Output = Result<Rendered, ApiError>>,
    ) -> Result<Arc<Rendered>, ApiError> {
        let asked = Instant::now();
        let reading = self
            .pages
            .readings
            .get_or_insert_with(&view, || Ok::<_, Infallible>(Arc::new(Reading::default())));
        let reading = reading.unwrap_or_else(|never| match never {});
        let mut last = timeout(PATIENCE, reading.lock()).await.map_err(too_slow)?;
        if let Some((began, outcome)) = &*last
            && *began >= asked
        {
            self.metrics.pages.shared.increment();
            return outcome.clone();
        }
        self.metrics.pages.misses.increment();
        let began = Instant::now();
        let outcome = read.await.map(Arc::new);
        *last = Some((began, outcome.clone()));
        outcome
    }
}

fn too_slow(late: Elapsed) -> ApiError {
    let message = "the storage is too slow; nothing was changed, try again later";
    ApiError::Unavailable(message, Arc::new(late))
}
