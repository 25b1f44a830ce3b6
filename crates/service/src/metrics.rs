//! The metrics endpoint: every metric with its name, type and meaning. It also
//! answers health checks, whatever happens on the API's listener.

use std::{
    fmt::Display,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use http::{HeaderValue, Method, Request, header};
use jiff::Timestamp;
use tokio::time::timeout;

use api::{Api, Health};
use backups::Status;
use server::{Client, Limits, Rejection, RequestBody, Response, Server, Service};
use store::{Counts, Store, StoreMetrics};
use telemetry::prometheus::Exposition;

/// Concurrent scrapers and probes; further connections are rejected.
const MAX_CONNECTIONS: usize = 64;

/// The maximum time that a scrape waits for the database.
const COUNTS_TIMEOUT: Duration = Duration::from_secs(1);

/// Short, because the API has drained already and a scrape takes milliseconds.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

pub struct MetricsEndpoint {
    pub api: Arc<Api>,
    pub store: Arc<Store>,
    pub server: Arc<server::Metrics>,
    pub backups: Option<Arc<Status>>,
}

impl MetricsEndpoint {
    pub fn into_server(self, limits: &Limits) -> Server<Self> {
        Server {
            service: Arc::new(self),
            limits: Limits {
                max_connections: MAX_CONNECTIONS,
                max_connections_per_address: None,
                drain_delay: Duration::ZERO,
                drain_timeout: DRAIN_TIMEOUT,
                ..limits.clone()
            },
            tls: None,
            metrics: Arc::default(),
        }
    }

    async fn scrape(&self) -> String {
        let counts = timeout(COUNTS_TIMEOUT, self.store.counts()).await;
        let mut text = Exposition::default();
        text.gauges("petstore_build_info", "The running version.")
            .sample(&[("version", &env!("CARGO_PKG_VERSION"))], 1);
        self.http(&mut text);
        self.cache(&mut text);
        self.events(&mut text);
        self.deprecated_requests(&mut text);
        webhooks(&mut text, self.api.dispatcher.metrics());
        store(&mut text, &self.store.metrics());
        if let Some(status) = &self.backups {
            backups(&mut text, status);
        }
        // Omitted while the database is unavailable.
        if let Ok(Ok(counts)) = counts {
            inventory(&mut text, &counts);
        }
        text.into_text()
    }

    /// Names and labels of `http_server_*` follow OpenTelemetry's semantic
    /// conventions for HTTP.
    fn http(&self, text: &mut Exposition) {
        let api = &self.api;
        let metrics = &api.metrics;
        let server = &self.server;
        let mut durations = text.histograms(
            "http_server_request_duration_seconds",
            "Time from the request head to the response, excluding the wait for the request body.",
        );
        for (operation, status, histogram) in metrics.durations() {
            let status = ("http_response_status_code", &status as &dyn Display);
            match operation {
                Some(operation) => durations.histogram(
                    &[
                        ("operation", &operation.id),
                        ("http_request_method", &operation.method),
                        ("http_route", &operation.path),
                        status,
                    ],
                    histogram,
                ),
                None => durations.histogram(&[("operation", &"other"), status], histogram),
            }
        }
        text.gauge(
            "petstore_requests_in_flight",
            "Authorized requests in flight.",
            api.requests_in_flight(),
        );
        text.counter(
            "petstore_shed_requests_total",
            "Requests rejected because too many were in flight or queued, or because a limit on \
             batches, reports or test deliveries was reached.",
            metrics.shed.get(),
        );
        text.gauge(
            "petstore_open_connections",
            "Open client connections.",
            server.open_connections.get(),
        );
        text.counter(
            "petstore_rejected_connections_total",
            "Connections rejected because of the connection limit.",
            server.rejected_connections.get(),
        );
        text.counter(
            "petstore_evicted_connections_total",
            "Idle or slow connections closed to make room for others.",
            server.evicted_connections.get(),
        );
        text.gauge(
            "petstore_held_memory_bytes",
            "Memory of requests and unsent responses, beyond 16 KiB for each connection.",
            server.held_bytes.load(Relaxed).max(0),
        );
        text.counter(
            "petstore_memory_evictions_total",
            "Connections closed because requests and unsent responses took too much memory.",
            server.reset_connections.get(),
        );
        let mut auth_failures = text.counters(
            "petstore_auth_failures_total",
            "Requests rejected with 401, by what is wrong with the API key.",
        );
        for (reason, count) in metrics.auth_failures() {
            auth_failures.sample(&[("reason", &reason)], count);
        }
        let mut rate_limited = text.counters(
            "petstore_rate_limited_requests_total",
            "Requests rejected with 429, by whose limit was exceeded.",
        );
        rate_limited.sample(&[("limit", &"api_key")], metrics.rate_limited_keys.get());
        rate_limited.sample(
            &[("limit", &"address")],
            metrics.rate_limited_addresses.get(),
        );
    }

    fn cache(&self, text: &mut Exposition) {
        let mut cache = text.counters(
            "petstore_response_cache_requests_total",
            "Reads by result: a cache hit, a miss, or coalesced with another request's read.",
        );
        let cached = self.api.cache_metrics();
        cache.sample(&[("result", &"hit")], cached.hits.get());
        cache.sample(&[("result", &"miss")], cached.misses.get());
        cache.sample(&[("result", &"coalesced")], cached.coalesced.get());
    }

    fn events(&self, text: &mut Exposition) {
        let mut streams = text.gauges(
            "petstore_event_streams",
            "Open event streams and long polls.",
        );
        let events = &self.api.event_feed.metrics;
        streams.sample(&[("kind", &"stream")], events.streams.get());
        streams.sample(&[("kind", &"long_poll")], events.long_polls.get());
        let mut rejected = text.counters(
            "petstore_rejected_event_streams_total",
            "Event streams and long polls rejected, by whose limit was reached.",
        );
        for (limit, count) in self.api.metrics.rejected_streams() {
            rejected.sample(&[("limit", &limit)], count);
        }
        text.counter(
            "petstore_skipped_events_total",
            "Events read and left out by a filter, of a client or of a webhook.",
            self.api.event_tail.skipped.get(),
        );
        text.counter(
            "petstore_purged_events_total",
            "Events that this process deleted because of their age or number.",
            events.purged.get(),
        );
    }

    fn deprecated_requests(&self, text: &mut Exposition) {
        let mut deprecated = text.counters(
            "petstore_deprecated_requests_total",
            "Requests for deprecated operations, by API key.",
        );
        let operation = api::DEPRECATED;
        for (id, calls) in self.api.keys().deprecated_calls() {
            deprecated.sample(&[("operation", &operation), ("api_key_id", &id)], calls);
        }
    }
}

fn webhooks(text: &mut Exposition, metrics: &dispatcher::Metrics) {
    text.gauge(
        "petstore_webhooks_leased",
        "Webhooks that this process delivers to.",
        metrics.leased(),
    );
    text.gauge(
        "petstore_webhook_attempts_in_flight",
        "Requests to the receivers of webhooks in flight.",
        metrics.attempts_in_flight.get(),
    );
    let attempts = &metrics.attempts;
    let mut counters = text.counters(
        "petstore_webhook_attempts_total",
        "Requests to the receivers of webhooks: delivered, failed, or no longer wanted (410).",
    );
    counters.sample(&[("outcome", &"delivered")], attempts.delivered.get());
    counters.sample(&[("outcome", &"failed")], attempts.failed.get());
    counters.sample(&[("outcome", &"gone")], attempts.gone.get());
    let deliveries = &metrics.deliveries;
    let mut counters = text.counters(
        "petstore_webhook_deliveries_total",
        "Deliveries of events to webhooks: succeeded, scheduled for a retry, or given up.",
    );
    counters.sample(&[("outcome", &"delivered")], deliveries.delivered.get());
    counters.sample(&[("outcome", &"retrying")], deliveries.retrying.get());
    counters.sample(&[("outcome", &"failed")], deliveries.failed.get());
    let mut lags = text.gauges(
        "petstore_webhook_lag_seconds",
        "Age of the oldest event that is neither delivered nor scheduled for a retry, for the \
         webhooks that lag most.",
    );
    for (id, seconds) in metrics.lags(Timestamp::now()) {
        lags.sample(&[("webhook", &id.get())], seconds);
    }
}

fn inventory(text: &mut Exposition, Counts { pets, orders }: &Counts) {
    let mut gauges = text.gauges("petstore_pets", "Animals by status.");
    let without_status = pets.total - pets.available - pets.pending - pets.sold;
    for (status, count) in [
        ("available", pets.available),
        ("pending", pets.pending),
        ("sold", pets.sold),
        ("none", without_status),
    ] {
        gauges.sample(&[("status", &status)], count);
    }
    let mut gauges = text.gauges("petstore_orders", "Orders by status.");
    for (status, count) in [
        ("placed", orders.placed),
        ("completed", orders.completed),
        ("cancelled", orders.cancelled),
        ("returned", orders.returned),
    ] {
        gauges.sample(&[("status", &status)], count);
    }
}

fn store(text: &mut Exposition, store: &StoreMetrics) {
    let mut queues = text.gauges(
        "petstore_store_queue_depth",
        "Requests waiting in a queue of the store.",
    );
    for queue in &store.queues {
        queues.sample(&[("queue", &queue.name)], queue.depth);
    }
    if !store.pools.is_empty() {
        let mut connections = text.gauges("petstore_db_connections", "Open database connections.");
        for pool in &store.pools {
            connections.sample(&[("pool", &pool.name)], pool.connections);
        }
        let mut statements = text.gauges(
            "petstore_db_statements_in_flight",
            "Statements in flight or waiting for a connection.",
        );
        for pool in &store.pools {
            statements.sample(&[("pool", &pool.name)], pool.statements_in_flight);
        }
    }
    let commits = store.commits;
    text.histograms("petstore_commit_group_size", "Writes that shared a commit.")
        .histogram(&[], &commits.group_sizes);
    text.histograms(
        "petstore_commit_duration_seconds",
        "Time from the first statement of a commit until it was durable.",
    )
    .histogram(&[], &commits.durations);
    text.counter(
        "petstore_commit_failures_total",
        "Commits that failed or whose outcome is unknown.",
        commits.failures.get(),
    );
    text.gauge(
        "petstore_event_head",
        "The last sequence number of the event log that may be read.",
        store.events.head,
    );
    text.gauge(
        "petstore_event_lag_seconds",
        "For how long an open transaction has held back the event log.",
        store.events.lag.as_secs_f64(),
    );
    if let Some(wal) = store.wal {
        text.gauge(
            "petstore_wal_bytes",
            "Bytes in the write-ahead log since it was last reset.",
            wal.size.get(),
        );
        text.counter(
            "petstore_checkpoints_total",
            "Checkpoints of the write-ahead log, failed ones included.",
            wal.checkpoints.get(),
        );
        text.counter(
            "petstore_checkpoint_failures_total",
            "Checkpoints of the write-ahead log that failed.",
            wal.checkpoint_failures.get(),
        );
    }
}

fn backups(text: &mut Exposition, status: &Status) {
    let destinations = status.destinations();
    let newest = || {
        destinations
            .iter()
            .filter_map(|it| Some((it.destination, it.newest.as_ref()?)))
    };
    let mut gauges = text.gauges(
        "petstore_backup_newest_timestamp_seconds",
        "Time of the newest backup that was checked, by destination.",
    );
    for (destination, backup) in newest() {
        let labels = [("destination", &destination as &dyn Display)];
        gauges.sample(&labels, backup.name.time.as_second());
    }
    let mut gauges = text.gauges("petstore_backup_bytes", "Size of the newest backup.");
    for (destination, backup) in newest() {
        gauges.sample(&[("destination", &destination)], backup.bytes);
    }
    let mut gauges = text.gauges("petstore_backup_pets", "Animals in the newest backup.");
    for (destination, backup) in newest() {
        gauges.sample(&[("destination", &destination)], backup.name.pets);
    }
    let mut gauges = text.gauges(
        "petstore_backup_consecutive_failures",
        "Attempts to take a backup that failed since the last one that succeeded.",
    );
    for it in &destinations {
        gauges.sample(&[("destination", &it.destination)], it.consecutive_failures);
    }
}

impl Service for MetricsEndpoint {
    async fn call<'a>(&'a self, _: Client<'a>, request: Request<RequestBody<'a>>) -> Response {
        let (request, _) = request.into_parts();
        if let Err(rejection) = server::validate(&request) {
            return api::reject(rejection);
        }
        let path = request.uri.path();
        if path != "/metrics" && !Health::is_probe(path) {
            return api::not_found("no such path; there are /metrics, /healthz and /readyz");
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return api::method_not_allowed();
        }
        if path != "/metrics" {
            return api::with_new_request_id(self.api.health.probe(path).await);
        }
        let mut response = Response::new(self.scrape().await.into());
        let media_type = HeaderValue::from_static(Exposition::MEDIA_TYPE);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, media_type);
        api::with_new_request_id(response)
    }

    fn is_health_check(&self, path: &str) -> bool {
        Health::is_probe(path)
    }

    fn reject(&self, rejection: Rejection) -> Response {
        api::reject(rejection)
    }
}
