//! The query parameters of the feed and the stream.

use std::time::Duration;

use http::HeaderMap;

use super::super::{error::ApiError, request::RequestHead};
use domain::{
    event::{After, EventFilter, EventId, EventLimit},
    invalid::{Invalid, quoted},
    page::{Sort, parse_decimal, set_once},
};

const LAST_EVENT_ID: &str = "Last-Event-ID";

/// The longest wait, below the timeouts of common proxies.
const MAX_WAIT_SECONDS: i64 = 50;

pub struct EventQuery {
    /// `None` if the parameter is absent.
    pub after: Option<After>,
    pub limit: EventLimit,
    pub sort: Sort,
    pub filter: EventFilter,
    /// The maximum time to hold back a page without events. Zero if the newest events come first.
    pub wait: Duration,
}

impl EventQuery {
    /// Parses the parameters that the operation has. Others are ignored.
    pub fn parse(request: &RequestHead) -> Result<Self, ApiError> {
        let query = request.head.uri.query().unwrap_or("");
        Self::parse_query(request.operation.query_parameters, query)
            .map_err(ApiError::InvalidParameter)
    }

    fn parse_query(known: &[&str], query: &str) -> Result<Self, Invalid> {
        let mut after = None;
        let mut limit = None;
        let mut sort = None;
        let mut wait = None;
        let mut filter = EventFilter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                other if !known.contains(&other) => {}
                "after" => set_once("after", &mut after, After::parse("after", &value)?)?,
                "limit" => set_once("limit", &mut limit, EventLimit::parse(&value)?)?,
                "sort" => set_once("sort", &mut sort, Sort::parse(&value)?)?,
                "wait" => set_once("wait", &mut wait, parse_wait(&value)?)?,
                _ => filter.set(&name, &value)?,
            }
        }
        let sort = sort.unwrap_or_default();
        let wait = wait.unwrap_or_default();
        if sort == Sort::Desc && wait != Duration::ZERO {
            let reason = "cannot be combined with sort=desc, which reads back from the newest \
                          event; to wait for new events, leave sort out";
            return Err(Invalid::new("wait", reason));
        }
        Ok(Self {
            after,
            limit: limit.unwrap_or(EventLimit::DEFAULT),
            sort,
            filter,
            wait,
        })
    }

    /// Returns the query string of the page after a position.
    pub fn next(&self, position: EventId) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("after", &position.to_string());
        query.append_pair("limit", &self.limit.get().to_string());
        if self.sort == Sort::Desc {
            query.append_pair("sort", "desc");
        }
        query.extend_pairs(self.filter.parameters());
        if !self.wait.is_zero() {
            query.append_pair("wait", &self.wait.as_secs().to_string());
        }
        query.finish()
    }
}

fn parse_wait(text: &str) -> Result<Duration, Invalid> {
    let seconds = parse_decimal(text).filter(|seconds| (0..=MAX_WAIT_SECONDS).contains(seconds));
    let wait = seconds.map(|seconds| Duration::from_secs(seconds.unsigned_abs()));
    wait.ok_or_else(|| {
        let got = quoted(text);
        let reason =
            format!("must be an integer from 0 to {MAX_WAIT_SECONDS} (seconds), got {got}");
        Invalid::new("wait", reason)
    })
}

/// Returns the position in `Last-Event-ID`, after which a client wants to resume a stream.
pub fn last_event_id(headers: &HeaderMap) -> Result<Option<After>, ApiError> {
    let mut values = headers.get_all(LAST_EVENT_ID).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let invalid = |reason: &str| ApiError::InvalidParameter(Invalid::new(LAST_EVENT_ID, reason));
    if values.next().is_some() {
        return Err(invalid("must not be repeated"));
    }
    if value.is_empty() {
        return Ok(None);
    }
    match value.to_str().ok().and_then(EventId::parse) {
        Some(id) => Ok(Some(After::Id(id))),
        None => Err(invalid("must be the id of an event")),
    }
}
