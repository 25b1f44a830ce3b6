//! The state that all handlers share, assembled once.

use std::{net::SocketAddr, sync::Arc};

use jiff::SignedDuration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    admission::{Admission, AdmissionLimits},
    auth::Authenticator,
    cache::{self, ResponseCache},
    contracts::Contracts,
    cors::Origin,
    event_feed::{EventFeed, SSE_FRAMING, StreamLimits},
    health::Health,
    key_cache::KeyCache,
    links::Links,
    metrics::Metrics,
    openapi::{PublicUrl, Scheme},
    rate_limit::{FailedAuthLimiter, RateLimit},
    uploads::{UploadLimits, Uploads},
};
use dispatcher::Dispatcher;
use domain::clock::Clock;
use store::{Store, event_tail::EventTail, sales::SalesReports};
use telemetry::access_log::AccessLog;

/// The configuration of the API.
#[derive(Debug, Clone)]
pub struct Config {
    /// The URL that clients use, for links and the contract.
    pub public_url: Option<PublicUrl>,
    pub staging_url: Option<PublicUrl>,
    /// The duration of a reservation by an order; `None` means until the order is closed.
    pub reserve_for: Option<SignedDuration>,
    pub cors_origins: Vec<Origin>,
    /// Serves the console.
    pub console: bool,
    /// Serves the API reference.
    pub docs: bool,
    /// Logs every request, not only failed and slow ones.
    pub access_log: bool,
    /// The rate limit of each API key, if any.
    pub rate_limit: Option<RateLimit>,
    /// The rate limit of requests without a valid API key, per address.
    pub failed_auth_limit: RateLimit,
    pub streams: StreamLimits,
    pub webhooks: dispatcher::Config,
    /// The state of the backups that the service takes, if it does.
    pub backups: Option<Arc<backups::Status>>,
    pub clock: Clock,
    pub limits: AdmissionLimits,
    pub uploads: UploadLimits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            public_url: None,
            staging_url: None,
            reserve_for: None,
            cors_origins: Vec::new(),
            console: true,
            docs: true,
            access_log: false,
            rate_limit: None,
            failed_auth_limit: RateLimit::FAILED_AUTH,
            streams: StreamLimits::default(),
            webhooks: dispatcher::Config::default(),
            backups: None,
            clock: Clock::system(),
            limits: AdmissionLimits::default(),
            uploads: UploadLimits::default(),
        }
    }
}

/// The maximum number of concurrent test deliveries. A receiver may take 15 seconds to respond.
const MAX_WEBHOOK_TESTS: usize = 16;

/// The maximum number of batches that are worked on at a time. Each may take as much memory and
/// time as a thousand requests.
const MAX_BATCHES: usize = 16;

/// Everything a handler can reach. Each part owns one concern.
pub struct Api {
    pub(super) store: Arc<Store>,
    pub(super) clock: Clock,
    pub(super) auth: Authenticator,
    pub(super) admission: Admission,
    pub(super) cache: ResponseCache,
    pub(super) contracts: Contracts,
    pub(super) links: Links,
    pub(super) reserve_for: Option<SignedDuration>,
    pub(super) cors_origins: Vec<Origin>,
    /// True if the console is served.
    pub(super) console: bool,
    /// True if the API reference is served.
    pub(super) docs: bool,
    /// True if clients connect over TLS.
    pub(super) is_https: bool,
    pub(super) access_log: AccessLog,
    draining: CancellationToken,
    pub event_tail: Arc<EventTail>,
    pub event_feed: Arc<EventFeed>,
    pub dispatcher: Arc<Dispatcher>,
    /// Limits test deliveries, which do not count as requests in flight.
    pub(super) webhook_tests: Semaphore,
    /// Limits batches.
    pub(super) batches: Arc<Semaphore>,
    pub(super) reports: SalesReports,
    pub(super) uploads: Uploads,
    pub(super) photos: photo::Pool,
    pub health: Health,
    pub metrics: Arc<Metrics>,
}

impl Api {
    /// Creates the state. Clients connect to `address` with `scheme`; the contract names them if
    /// no public URL is configured and a client names no other host.
    pub fn new(store: Arc<Store>, config: Config, scheme: Scheme, address: SocketAddr) -> Self {
        let contracts = match &config.public_url {
            Some(url) => Contracts::with_public_url(url.clone(), config.staging_url.clone()),
            None => Contracts::by_host(scheme, address, config.staging_url.clone()),
        };
        let clock = config.clock;
        let keys = KeyCache::new(store.clone(), config.rate_limit, clock.clone());
        let draining = CancellationToken::new();
        let event_tail = Arc::new(EventTail::new(store.clone(), SSE_FRAMING));
        let dispatcher = Dispatcher::new(
            store.clone(),
            event_tail.clone(),
            config.webhooks,
            clock.clone(),
        );
        let decode_timeout = config.uploads.decode_timeout;
        let failed_auth = FailedAuthLimiter::new(config.failed_auth_limit);
        Self {
            auth: Authenticator::new(Arc::new(keys), failed_auth),
            admission: Admission::new(config.limits),
            cache: ResponseCache::new(store.clone()),
            event_feed: Arc::new(EventFeed::new(
                store.clone(),
                event_tail.clone(),
                config.streams,
                draining.clone(),
            )),
            reports: SalesReports::new(store.clone(), event_tail.scans().clone(), None),
            uploads: Uploads::new(config.uploads),
            photos: photo::Pool::start(decode_timeout).expect("the system can start a thread"),
            event_tail,
            dispatcher: Arc::new(dispatcher),
            webhook_tests: Semaphore::new(MAX_WEBHOOK_TESTS),
            batches: Arc::new(Semaphore::new(MAX_BATCHES)),
            health: Health::new(store.clone(), draining.clone(), config.backups),
            draining,
            contracts,
            links: Links::new(config.public_url.as_ref(), config.docs),
            reserve_for: config.reserve_for,
            cors_origins: config.cors_origins,
            console: config.console,
            docs: config.docs,
            is_https: matches!(scheme, Scheme::Https),
            access_log: AccessLog {
                log_all: config.access_log,
            },
            metrics: Arc::default(),
            clock,
            store,
        }
    }

    /// Starts draining: from then on, the service is not ready, and event streams end.
    pub fn start_draining(&self) {
        self.draining.cancel();
    }

    /// Returns the API keys in memory, which background tasks keep fresh.
    pub fn keys(&self) -> &Arc<KeyCache> {
        self.auth.keys()
    }

    pub fn requests_in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    pub fn cache_metrics(&self) -> &cache::Metrics {
        self.cache.metrics()
    }
}
