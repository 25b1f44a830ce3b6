//! What the service counts, and the listener that gives it to Prometheus.

use std::{
    future::{pending, ready},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Method, Request, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::{net::TcpListener, task::JoinSet};

use super::{App, READ, Response, connection, error::ApiError, exchange, operation::Operation};
use crate::metrics::{Counter, Exposition, Gauge, Histogram};

/// Every status that an answer can have.
const STATUSES: std::ops::Range<u16> = 100..600;

/// Those of the contract, and one for all other requests.
const OPERATIONS: usize = Operation::ALL.len() + 1;

pub struct Metrics {
    /// By operation and status. It is a table, so that counting is one addition.
    requests: Box<[Counter]>,
    durations: [Histogram; OPERATIONS],
    pub connections: Gauge,
    /// Connections for which there was no room.
    pub turned_away: Counter,
    /// Requests without a valid key.
    pub keys_refused: Counter,
    /// Requests beyond the rate of their key, or of an address without one.
    pub rate_limited: [Counter; 2],
    /// Requests that were refused because too many were worked on.
    pub shed: Counter,
    pub pages: PageMetrics,
}

/// Where answers to reads came from.
#[derive(Default)]
pub struct PageMetrics {
    /// From what was kept.
    pub hits: Counter,
    pub misses: Counter,
    /// From a reading that another request had begun.
    pub shared: Counter,
}

impl Metrics {
    pub fn new() -> Self {
        let requests = (0..OPERATIONS * STATUSES.len()).map(|_| Counter::default());
        Self {
            requests: requests.collect(),
            durations: std::array::from_fn(|_| Histogram::of_times()),
            connections: Gauge::default(),
            turned_away: Counter::default(),
            keys_refused: Counter::default(),
            rate_limited: Default::default(),
            shed: Counter::default(),
            pages: PageMetrics::default(),
        }
    }

    pub fn count_request(&self, operation: Option<Operation>, status: u16, took: Duration) {
        let row = operation.map_or(OPERATIONS - 1, |operation| operation as usize);
        self.durations[row].observe_time(took);
        let column = usize::from(status - STATUSES.start);
        if let Some(counter) = self.requests.get(row * STATUSES.len() + column) {
            counter.increment();
        }
    }
}

/// All that is known, as Prometheus reads it.
fn expose(app: &App) -> String {
    let mut text = Exposition::default();
    let metrics = &app.metrics;
    text.family("petstore_build_info", "gauge", "The program that runs.")
        .sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);

    let mut requests = text.family(
        "petstore_requests_total",
        "counter",
        "Requests by operation and status.",
    );
    let ids = Operation::ALL
        .map(Operation::id)
        .into_iter()
        .chain(["other"]);
    let ids: Vec<_> = ids.collect();
    for (row, id) in metrics.requests.chunks(STATUSES.len()).zip(&ids) {
        for (count, status) in row.iter().map(Counter::get).zip(STATUSES) {
            if count > 0 {
                requests.sample(&[("operation", id), ("status", &status)], count);
            }
        }
    }
    let mut durations = text.family(
        "petstore_request_duration_seconds",
        "histogram",
        "From the head of a request to its answer, by operation.",
    );
    for (histogram, id) in metrics.durations.iter().zip(&ids) {
        durations.histogram(&[("operation", id)], histogram);
    }
    text.number(
        "petstore_connections",
        "gauge",
        "Connections of clients that are open.",
        metrics.connections.get(),
    );
    text.number(
        "petstore_connections_turned_away_total",
        "counter",
        "Connections for which there was no room.",
        metrics.turned_away.get(),
    );
    text.number(
        "petstore_requests_in_progress",
        "gauge",
        "Requests with a valid key that are worked on.",
        app.limits.requests - app.places.available_permits(),
    );
    text.number(
        "petstore_requests_shed_total",
        "counter",
        "Requests that were refused because too many were worked on.",
        metrics.shed.get(),
    );
    text.number(
        "petstore_keys_refused_total",
        "counter",
        "Requests refused with 401.",
        metrics.keys_refused.get(),
    );
    let mut limited = text.family(
        "petstore_rate_limited_total",
        "counter",
        "Requests beyond the rate of their key, or of an address without a valid one.",
    );
    for (by, counter) in ["key", "address"].iter().zip(&metrics.rate_limited) {
        limited.sample(&[("by", by)], counter.get());
    }
    let mut pages = text.family(
        "petstore_page_cache_total",
        "counter",
        "Reads by where their answer came from: kept, read, or read for another request too.",
    );
    let PageMetrics {
        hits,
        misses,
        shared,
    } = &metrics.pages;
    for (result, counter) in [("hit", hits), ("miss", misses), ("shared", shared)] {
        pages.sample(&[("result", &result)], counter.get());
    }
    let mut deprecated = text.family(
        "petstore_deprecated_calls_total",
        "counter",
        "Calls of operations that are going to be removed, by the id of the key.",
    );
    for (key_id, calls) in app.keys.deprecated_calls() {
        let operation = Operation::GetPet.id();
        deprecated.sample(&[("operation", &operation), ("key_id", &key_id)], calls);
    }
    app.store.expose(&mut text);
    text.into_text()
}

/// How many may ask at a time; others are just closed.
const CLIENTS: usize = 64;

/// Gives the metrics to whoever asks, until it is dropped.
pub async fn serve(listener: TcpListener, app: Arc<App>) {
    let mut clients = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while clients.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        if clients.len() < CLIENTS {
            let app = app.clone();
            clients.spawn(async move {
                let answer = |request| ready(answer(&app, &request));
                connection::serve_http1(stream, &app.limits, pin!(pending()), answer).await;
            });
        }
    }
}

fn answer(app: &App, request: &Request<Incoming>) -> Response {
    let mut answer = match (request.uri().path(), request.method()) {
        ("/metrics", &Method::GET | &Method::HEAD) => {
            let mut answer = Response::new(Full::new(expose(app).into()));
            let media_type = HeaderValue::from_static(Exposition::MEDIA_TYPE);
            answer
                .headers_mut()
                .insert(header::CONTENT_TYPE, media_type);
            answer
        }
        ("/metrics", _) => ApiError::MethodNotAllowed(READ).answer(),
        _ => ApiError::NotFound("there is no such path; the metrics are at /metrics").answer(),
    };
    let headers = answer.headers_mut();
    headers.insert(exchange::X_REQUEST_ID, exchange::new_request_id());
    answer
}
