//! Events: the feed and the live stream over one log.

mod query;
mod reader;
mod stream;

use http::{HeaderValue, Method, header};

use super::{
    error::ApiError, event_feed::SHUTTING_DOWN, request::ApiRequest, response, state::Api,
};
use domain::{event::After, page::Sort};
use query::{EventQuery, last_event_id};
use reader::{Next, Reader};
use server::Response;
use store::event_tail::{Events, Page, ReadFrom};

/// The path of the feed, whose requests may wait for a long time.
pub const FEED_PATH: &str = "/v1/events";

/// Responds with a page of the log. With `wait`, holds the response back until there is an event
/// on it.
pub async fn list_events(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = EventQuery::parse(&request)?;
    let visible = request.visible_events(query.filter.clone())?;
    let feed = &api.event_feed;
    let limit = query.limit.get();
    let queue = api.keys().scan_queue(&request.key_hash());
    let reading = match queue.try_read_page() {
        Some(reading) => reading,
        None => request.wait(queue.read_page()).await,
    };
    feed.store.event_sync().await?;
    let from = match query.sort {
        Sort::Asc => ReadFrom::Store,
        Sort::Desc => ReadFrom::StoreDesc,
    };
    let mut page = match query.after {
        Some(After::Id(id)) => feed.read(from, Some(id), &visible, limit, &queue).await?,
        Some(After::Now) if query.sort == Sort::Asc => Page {
            events: Events::new(),
            end: feed.newest().await?,
            is_complete: true,
        },
        None | Some(After::Now) => feed.read(from, None, &visible, limit, &queue).await?,
    };
    drop(reading);
    let may_wait = request.head.method != Method::HEAD && !query.wait.is_zero();
    if page.events.is_empty() && may_wait {
        let slot = feed.admit(&request)?;
        let mut reader = Reader::new(api, &request, visible.clone(), page.end, slot);
        reader.is_scanning = !page.is_complete;
        let _open = feed.metrics.long_polls.track();
        let next = request.wait(reader.next(limit, query.wait)).await?;
        page = match next {
            Next::Page(next) => next,
            Next::Timeout(end) => Page { end, ..page },
            Next::Stopped => return Err(SHUTTING_DOWN),
            Next::Unauthorized(failure) => return Err(failure.into()),
        };
    }
    // The log grows at one end only.
    let has_next =
        query.sort == Sort::Asc || !page.is_complete && feed.has_older(page.end, &visible).await?;
    let link = has_next.then(|| api.links.events(&query.next(page.end)));
    Ok(response::no_store_page(
        json_array(&page.events).into(),
        link,
        request.headers(),
    ))
}

fn json_array(events: &Events) -> Vec<u8> {
    let lengths = events.iter().map(|event| event.json.len() + 1);
    // The exact size, because the body stays in memory until the client has read it.
    let mut body = Vec::with_capacity(lengths.sum::<usize>() + 2);
    body.push(b'[');
    for event in events {
        body.extend_from_slice(&event.json);
        body.push(b',');
    }
    if body.len() > 1 {
        body.pop();
    }
    body.push(b']');
    body
}

/// Responds with the log as it grows, as Server-Sent Events.
pub async fn stream_events(api: &Api, mut request: ApiRequest<'_>) -> Result<Response, ApiError> {
    let query = EventQuery::parse(&request)?;
    let after = last_event_id(request.headers())?.or(query.after);
    let visible = request.visible_events(query.filter)?;
    let feed = &api.event_feed;
    feed.store.event_sync().await?;
    let position = match after {
        None | Some(After::Now) => feed.newest().await?,
        Some(After::Id(id)) => {
            // The position is verified before the stream starts.
            let read = feed.store.event_read(Some(id), Sort::Asc, 1).await?;
            read.map_err(ApiError::PositionGone)?;
            id
        }
    };
    let slot = feed.admit(&request)?;
    request.release();
    let reader = Reader::new(api, &request, visible, position, slot);
    let mut response = Response::new(stream::body(api, &request, reader));
    let headers = response.headers_mut();
    let event_stream = HeaderValue::from_static("text/event-stream");
    headers.insert(header::CONTENT_TYPE, event_stream);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would otherwise buffer events until its buffer is full.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}
