//! Delivers events to webhooks.

mod client;
mod metrics;
mod resolver;
mod tracker;
mod worker;

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use tokio::{
    sync::{Notify, Semaphore, watch},
    time::{Instant, MissedTickBehavior, interval, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use client::{Client, Connections, Message};
use domain::{
    clock::Clock,
    webhook::{
        WebhookId,
        delivery::{AttemptError, LeasedWebhook},
        schedule::Outcome,
        secret::SigningSecrets,
        url::{UrlPolicy, WebhookUrl},
    },
};
use metrics::Lag;
use store::{RENEW_BEFORE, Store, event_tail::EventTail, scan_queue::ScanQueue};
use telemetry::error_latch::ErrorLatch;
use worker::Worker;

pub use metrics::Metrics;
pub use resolver::Resolver;

/// The configuration of webhook delivery.
#[derive(Debug, Clone)]
pub struct Config {
    pub urls: UrlPolicy,
    pub resolver: Resolver,
    /// Certificate authorities to trust besides the system's.
    pub tls_roots: Vec<CertificateDer<'static>>,
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            urls: UrlPolicy::default(),
            resolver: Resolver::system(),
            tls_roots: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// Size limits and timeouts.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time from the start of an attempt to the head of the response.
    pub attempt_timeout: Duration,
    /// The time to resolve the name, connect, and negotiate TLS.
    pub connect_timeout: Duration,
    /// The time to read the body of a response, which is dropped. After that, the connection is
    /// closed.
    pub drain_timeout: Duration,
    /// The maximum number of bytes to read from the body of a response.
    pub max_response: usize,
    /// The time for which an idle connection is kept for the next request.
    pub idle_timeout: Duration,
    /// The maximum number of attempts in flight in this process.
    pub max_attempts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            attempt_timeout: Duration::from_secs(15),
            connect_timeout: Duration::from_secs(5),
            drain_timeout: Duration::from_secs(1),
            max_response: 16 << 10,
            idle_timeout: Duration::from_secs(30),
            max_attempts: 1024,
        }
    }
}

/// The interval between attempts to lease webhooks that no replica has, and to notice changes
/// that were made through another replica.
const LEASE_INTERVAL: Duration = Duration::from_secs(1);
/// Deliveries stop after this time without a renewal, before a lease can expire.
const MAX_LEASE_AGE: Duration = Duration::from_secs(10);
const _: () = assert!((MAX_LEASE_AGE.as_secs() as i64) < RENEW_BEFORE.as_secs());
/// The maximum number of store operations in flight: requests of clients must not wait for
/// hundreds of webhooks.
const MAX_STORE_OPERATIONS: usize = 64;

/// Delivers events to the webhooks that this replica has leased.
pub struct Dispatcher {
    shared: Arc<WorkerContext>,
    urls: UrlPolicy,
    changed: Notify,
    stop: CancellationToken,
    stopped: CancellationToken,
}

/// The state that all workers share.
struct WorkerContext {
    store: Arc<Store>,
    tail: Arc<EventTail>,
    client: Client,
    /// The clock of deliveries: the server's on PostgreSQL, the system clock on SQLite.
    clock: Clock,
    /// The owner of the leases, different in every process.
    owner: String,
    attempts: Semaphore,
    store_operations: Semaphore,
    /// The queue in which workers wait to skip events.
    scans: ScanQueue,
    /// The last error of the store, to be logged.
    store_error: Mutex<Option<store::Error>>,
    metrics: Arc<Metrics>,
}

impl WorkerContext {
    /// Runs an operation of the store. Leaves its error to the dispatcher, which logs it.
    async fn store<T, F>(&self, operation: impl FnOnce(Arc<Store>) -> F) -> Result<T, StoreFailure>
    where
        F: Future<Output = Result<T, store::Error>>,
    {
        let _permit = self.store_operations.acquire().await;
        let result = operation(self.store.clone()).await;
        result.map_err(|error| {
            *self.store_error.lock().expect(LOCK) = Some(error);
            StoreFailure
        })
    }
}

/// An operation of the store failed.
struct StoreFailure;

/// Handle to a worker task. Dropping it aborts the task.
struct Handle {
    epoch: i64,
    revision: watch::Sender<i64>,
    connections: Arc<Connections>,
    lag: Arc<Lag>,
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

type Workers = HashMap<WebhookId, Handle>;

/// The result of an attempt to deliver a message.
#[derive(Debug)]
pub struct Attempt {
    pub outcome: Outcome,
    pub status: Option<u16>,
    /// `None` if the message was delivered.
    pub error: Option<AttemptError>,
    pub duration: Duration,
}

impl Dispatcher {
    pub fn new(store: Arc<Store>, tail: Arc<EventTail>, config: Config, clock: Clock) -> Self {
        let metrics = Arc::<Metrics>::default();
        let clock = Clock::new({
            let store = store.clone();
            move || clock.now() + store.clock_offset()
        });
        let shared = WorkerContext {
            store,
            tail,
            owner: format!("{:032x}", rand::random::<u128>()),
            attempts: Semaphore::new(config.limits.max_attempts),
            store_operations: Semaphore::new(MAX_STORE_OPERATIONS),
            scans: ScanQueue::default(),
            store_error: Mutex::default(),
            client: Client::new(config.clone(), clock.clone(), metrics.clone()),
            clock,
            metrics,
        };
        Self {
            shared: Arc::new(shared),
            urls: config.urls,
            changed: Notify::new(),
            stop: CancellationToken::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Returns the policy for the URLs of webhooks.
    pub fn url_policy(&self) -> &UrlPolicy {
        &self.urls
    }

    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Notifies the dispatcher that a client has changed a webhook. This replica picks the change
    /// up immediately, others within a second.
    pub fn notify_changed(&self) {
        self.changed.notify_one();
    }

    /// Sends a message once.
    pub fn attempt<'a>(
        &'a self,
        url: &'a WebhookUrl,
        secrets: &'a SigningSecrets,
        message_id: &'a str,
        body: Bytes,
    ) -> BoxFuture<'a, Attempt> {
        Box::pin(async move {
            let message = Message {
                url,
                secrets,
                id: message_id,
                body,
            };
            let connections = Connections::default();
            self.shared.client.attempt(&message, &connections).await
        })
    }

    /// Delivers events, until [`shutdown`](Self::shutdown). Never returns.
    pub fn run(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.deliver())
    }

    async fn deliver(&self) {
        let mut workers = Workers::new();
        let mut latch = ErrorLatch::new("webhook delivery");
        let mut ticks = interval(LEASE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leased_until = Instant::now() + MAX_LEASE_AGE;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.changed.notified() => {}
                () = self.stop.cancelled() => break,
            }
            let start = Instant::now();
            let lease = self.shared.store.webhook_lease(&self.shared.owner);
            match timeout_at(leased_until, lease).await {
                Ok(Ok(leased)) => {
                    leased_until = start + MAX_LEASE_AGE;
                    self.update(&mut workers, leased);
                    let error = self.shared.store_error.lock().expect(LOCK).take();
                    latch.observe(error.map_or(Ok(()), Err));
                }
                Ok(Err(error)) => latch.observe(Err::<(), _>(error)),
                Err(_) => {}
            }
            if leased_until <= Instant::now() {
                // Another replica may deliver to these webhooks now.
                tracing::warn!(webhooks = workers.len(), "leases of webhooks expired");
                self.update(&mut workers, Vec::new());
                leased_until = Instant::now() + MAX_LEASE_AGE;
            }
        }
        self.stop_workers(workers).await;
        self.stopped.cancel();
        pending().await
    }

    /// Starts and stops workers, so that there is one for every leased webhook.
    fn update(&self, workers: &mut Workers, leased: Vec<LeasedWebhook>) {
        let epochs: HashMap<_, _> = leased.iter().map(|it| (it.id, it.epoch)).collect();
        workers.retain(|id, worker| {
            epochs.get(id) == Some(&worker.epoch) && !worker.task.is_finished()
        });
        for webhook in leased {
            let worker = workers
                .entry(webhook.id)
                .or_insert_with(|| self.start_worker(webhook));
            let new = webhook.revision;
            let is_new = |known: &mut i64| std::mem::replace(known, new) != new;
            worker.revision.send_if_modified(is_new);
        }
        workers
            .values()
            .for_each(|worker| worker.connections.close_expired());
        let lags = workers.iter().map(|(id, worker)| (*id, worker.lag.clone()));
        self.shared.metrics.set_leased(lags.collect());
    }

    fn start_worker(&self, webhook: LeasedWebhook) -> Handle {
        let LeasedWebhook { id, epoch, .. } = webhook;
        let (revision, revisions) = watch::channel(webhook.revision);
        let connections = Arc::<Connections>::default();
        let lag = Arc::<Lag>::default();
        let stop = CancellationToken::new();
        let worker = Worker {
            shared: self.shared.clone(),
            id,
            epoch,
            connections: connections.clone(),
            lag: lag.clone(),
            revision: revisions,
            stop: stop.clone(),
        };
        Handle {
            epoch,
            revision,
            connections,
            lag,
            stop,
            task: AbortOnDropHandle::new(tokio::spawn(worker.run())),
        }
    }

    async fn stop_workers(&self, mut workers: Workers) {
        workers.values().for_each(|worker| worker.stop.cancel());
        for worker in workers.values_mut() {
            let _ = (&mut worker.task).await;
        }
        let owner = &self.shared.owner;
        if let Err(error) = self.shared.store.webhook_release(owner).await {
            tracing::warn!(%error, "release of webhooks failed");
        }
    }

    /// Ends all deliveries, saves their progress, and lets other replicas continue. Waits until
    /// [`run`](Self::run) has finished this.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }
}

const LOCK: &str = "no task panics while holding the lock";
