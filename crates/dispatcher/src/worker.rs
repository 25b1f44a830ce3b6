//! Delivers events to one webhook, while this replica has its lease.

mod job;

use std::{future::pending, sync::Arc, time::Duration};

use futures_util::future::OptionFuture;
use jiff::Timestamp;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{StoreFailure, WorkerContext, client::Connections, metrics::Lag, tracker::Tracker};
use domain::{
    event::{EventId, Gone, VisibleEvents},
    webhook::{DisabledReason, WebhookId, WebhookState, delivery::StoredWebhook},
};
use job::JobOutcome;
use store::{
    Store,
    event_tail::{MAX_READ, Page, ReadFrom},
};

/// The number of events that are read at a time.
const PAGE: usize = 100;
/// The number of deliveries to retry that are read at a time.
const RETRY_PAGE: usize = 100;
/// The pause after the store has failed.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The interval at which to check the clock, which may be set, while waiting for a point in time.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time that requests in flight may take when the service shuts down.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Delivers events to one webhook. Dropping a running worker closes its connections immediately.
pub struct Worker {
    pub shared: Arc<WorkerContext>,
    pub id: WebhookId,
    pub epoch: i64,
    pub connections: Arc<Connections>,
    pub lag: Arc<Lag>,
    /// Changes with the webhook. The worker continues unless the epoch changes.
    pub revision: watch::Receiver<i64>,
    /// Asks the worker to save its progress and end.
    pub stop: CancellationToken,
}

impl Worker {
    /// Delivers events until there is nothing left to do: the webhook was disabled, deleted or
    /// changed. The caller starts a new worker if the webhook is still leased.
    pub async fn run(self) {
        let id = self.id;
        let get = async move |store: Arc<Store>| store.webhook_get(id).await;
        let Ok(Some(stored)) = self.shared.store(get).await else {
            return;
        };
        let is_enabled = stored.webhook.state == WebhookState::Enabled;
        if !is_enabled || stored.epoch != self.epoch {
            return;
        }
        let store = self.shared.store.clone();
        let limit_to_trusted = Box::new(move |time| store.limit_to_trusted(time));
        let delivery_loop = DeliveryLoop {
            tracker: Tracker::new(&stored, limit_to_trusted),
            stored: Arc::new(stored),
            changes: self.shared.tail.subscribe(),
            attempts: JoinSet::new(),
            reading: None,
            has_more: true,
            is_scanning: false,
            is_outdated: false,
            store_failed_at: None,
            worker: self,
        };
        delivery_loop.run().await;
    }
}

/// A worker whose webhook is loaded.
struct DeliveryLoop {
    worker: Worker,
    /// The webhook as the store last returned it.
    stored: Arc<StoredWebhook>,
    tracker: Tracker,
    /// Notified when there may be events to read.
    changes: watch::Receiver<()>,
    /// The requests in flight, and reads of the events that retries need.
    attempts: JoinSet<JobOutcome>,
    /// The read of further events that is in progress. It is a task, so that the worker does
    /// everything else while the read waits for its turn to scan.
    reading: Option<AbortOnDropHandle<ReadResult>>,
    /// True if there may be events that were not read.
    has_more: bool,
    /// True if the last read found no event to deliver, and there are more.
    is_scanning: bool,
    /// True if the webhook has to be read again.
    is_outdated: bool,
    /// The time of the last failure of the store, which is not used for a while afterwards.
    store_failed_at: Option<Instant>,
}

type ReadResult = Result<Result<Page, Gone>, StoreFailure>;

/// Ends the worker, because it was stopped or has to start over.
struct WorkerExit;

impl DeliveryLoop {
    async fn run(mut self) {
        while let Ok(()) = self.step().await {}
    }

    async fn step(&mut self) -> Result<(), WorkerExit> {
        if self.is_store_usable() {
            self.reload().await?;
            self.read_retries().await;
            self.read_events();
        }
        self.start_attempts();
        self.worker.lag.set(self.tracker.oldest());
        if self.is_store_usable()
            && self
                .tracker
                .save_at()
                .is_some_and(|at| at <= Instant::now())
        {
            self.save().await?;
        }
        let wake_at = self.wake_at();
        let wake = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            Some(finished) = self.attempts.join_next() => {
                // The task panicked: start over.
                self.finish(finished.map_err(|_| WorkerExit)?);
            }
            Some(read) = OptionFuture::from(self.reading.as_mut()) => {
                self.reading = None;
                self.finish_read(read.map_err(|_| WorkerExit)?).await;
            }
            _ = self.changes.changed(), if !self.has_more => self.has_more = true,
            Ok(()) = self.worker.revision.changed() => self.is_outdated = true,
            () = wake => {}
            () = self.worker.stop.cancelled() => {
                self.stop().await;
                return Err(WorkerExit);
            }
        }
        Ok(())
    }

    fn is_store_usable(&mut self) -> bool {
        let until = self.store_failed_at.map(|at| at + STORE_RETRY_DELAY);
        if until.is_some_and(|until| until <= Instant::now()) {
            self.store_failed_at = None;
        }
        self.store_failed_at.is_none()
    }

    fn now(&self) -> Timestamp {
        self.worker.shared.clock.now()
    }

    async fn store<T, F>(
        &mut self,
        operation: impl FnOnce(Arc<Store>) -> F,
    ) -> Result<T, StoreFailure>
    where
        F: Future<Output = Result<T, store::Error>>,
    {
        let result = self.worker.shared.store(operation).await;
        if result.is_err() {
            self.store_failed_at = Some(Instant::now());
        }
        result
    }

    /// Loads the changes that a client has made, such as new secrets.
    async fn reload(&mut self) -> Result<(), WorkerExit> {
        let id = self.worker.id;
        if !self.is_outdated {
            return Ok(());
        }
        let stored = self.store(|store| async move { store.webhook_get(id).await });
        match stored.await {
            Err(StoreFailure) => Ok(()),
            Ok(Some(stored)) if stored.epoch == self.worker.epoch => {
                self.is_outdated = false;
                self.tracker.request_retries(stored.paused_until);
                self.stored = Arc::new(stored);
                // The read in progress may look for other types.
                self.reading = None;
                Ok(())
            }
            Ok(_) => Err(WorkerExit),
        }
    }

    async fn read_retries(&mut self) {
        let id = self.worker.id;
        let now = self.now();
        if !self.tracker.needs_retries(now) {
            return;
        }
        let retries =
            self.store(|store| async move { store.delivery_retries(id, now, RETRY_PAGE).await });
        if let Ok(retries) = retries.await {
            self.tracker.set_retries(retries, RETRY_PAGE);
        }
    }

    fn needs_events(&self) -> bool {
        self.has_more && self.reading.is_none() && self.tracker.needs_events()
    }

    /// Starts a read, unless the events are in memory. A worker that skips events takes turns
    /// with the others.
    fn read_events(&mut self) {
        if !self.needs_events() || !self.is_store_usable() {
            return;
        }
        // Marked before the read: a later change is signalled again.
        self.changes.mark_unchanged();
        let shared = self.worker.shared.clone();
        let position = self.tracker.read_position();
        let wanted = self.wanted();
        if let Some(page) = shared.tail.cached(position, &wanted, MAX_READ, PAGE) {
            self.add_page(page);
            return;
        }
        let is_scanning = self.is_scanning;
        let read = async move {
            let size = if is_scanning { MAX_READ } else { PAGE };
            let _turn = if is_scanning {
                Some(shared.tail.turn(&shared.scans).await)
            } else {
                None
            };
            let tail = &shared.tail;
            let page = tail.examine(ReadFrom::Store, Some(position), &wanted, size, PAGE);
            shared.store(|_| page).await
        };
        self.reading = Some(AbortOnDropHandle::new(tokio::spawn(read)));
    }

    async fn finish_read(&mut self, read: ReadResult) {
        match read {
            Err(StoreFailure) => self.store_failed_at = Some(Instant::now()),
            Ok(Ok(page)) => self.add_page(page),
            Ok(Err(_)) => self.read_oldest(self.tracker.read_position()).await,
        }
    }

    fn wanted(&self) -> VisibleEvents {
        VisibleEvents::of_types(self.stored.webhook.types)
    }

    fn add_page(&mut self, page: Page) {
        self.has_more = !page.is_complete;
        self.is_scanning = self.has_more && page.events.is_empty();
        self.tracker.add_events(page.events, page.end);
    }

    /// Continues after a position whose event was purged, if no later one was: then nothing had
    /// happened for longer than events are kept.
    async fn read_oldest(&mut self, position: EventId) {
        let tail = self.worker.shared.tail.clone();
        let wanted = self.wanted();
        let read = self.store(|store| async move {
            let page = tail
                .examine(ReadFrom::Store, None, &wanted, PAGE, PAGE)
                .await?;
            // This is read after the page, so it covers everything that was purged when the page
            // was read.
            Ok((page, store.event_purged_through().await?))
        });
        match read.await {
            Err(StoreFailure) => {}
            Ok((Ok(mut page), purged_through)) if purged_through == position.sequence => {
                if page.end == EventId::START {
                    page.end = position; // Nothing was read.
                }
                self.add_page(page);
            }
            Ok(_) => {
                self.has_more = false;
                self.tracker.disable(DisabledReason::EventsExpired);
            }
        }
    }

    fn start_attempts(&mut self) {
        while let Some(job) = self.tracker.next_job(self.now()) {
            let shared = self.worker.shared.clone();
            let stored = self.stored.clone();
            let connections = self.worker.connections.clone();
            let run = async move { job::run(job, &shared, &stored, &connections).await };
            self.attempts.spawn(run);
        }
    }

    fn finish(&mut self, job: JobOutcome) {
        let now = self.now();
        let was_backing_off = self.tracker.is_backing_off();
        let tracker = &mut self.tracker;
        let outcome = match job {
            JobOutcome::Event(event, attempt) => tracker.finish_event(event.id, &attempt, now),
            JobOutcome::Retry(delivery, attempt) => {
                Some(tracker.finish_retry(&delivery, &attempt, now))
            }
            JobOutcome::Expired(delivery) => Some(tracker.expire_retry(delivery, now)),
            JobOutcome::Unwanted(delivery) => {
                tracker.drop_retry(&delivery);
                None
            }
            JobOutcome::StoreFailed(delivery) => {
                tracker.return_retry(delivery);
                self.store_failed_at = Some(Instant::now());
                None
            }
        };
        let metrics = &self.worker.shared.metrics;
        outcome.inspect(|outcome| metrics.deliveries.count(*outcome));
        let webhook = self.worker.id.get();
        let url = self.stored.webhook.url.origin();
        let is_backing_off = self.tracker.is_backing_off();
        if is_backing_off && !was_backing_off {
            tracing::warn!(webhook, url, "webhook receiver failing; backing off");
        } else if was_backing_off && !is_backing_off {
            tracing::info!(webhook, url, "webhook receiver recovered");
        }
    }

    async fn save(&mut self) -> Result<(), WorkerExit> {
        let Worker { id, epoch, .. } = self.worker;
        let owner = self.worker.shared.owner.clone();
        let progress = self.tracker.progress();
        let saved = self
            .store(|store| async move { store.webhook_save(id, &owner, epoch, progress).await });
        match saved.await {
            // The save is tried again later.
            Err(StoreFailure) => return Ok(()),
            // The lease was lost, or a client has changed the webhook.
            Ok(false) => return Err(WorkerExit),
            Ok(true) => self.tracker.saved(),
        }
        let Some(reason) = self.tracker.disabled() else {
            return Ok(());
        };
        let webhook = id.get();
        let url = self.stored.webhook.url.origin();
        tracing::info!(webhook, url, reason = reason.as_str(), "webhook disabled");
        Err(WorkerExit)
    }

    /// Returns the time at which to continue, unless something happens before.
    fn wake_at(&self) -> Option<Instant> {
        if let Some(failed_at) = self.store_failed_at {
            return Some(failed_at + STORE_RETRY_DELAY);
        }
        if self.needs_events() {
            return Some(Instant::now());
        }
        let now = self.now();
        let wake_at = self.tracker.wake_at(now).map(|at| {
            let delay = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Instant::now() + delay.min(CLOCK_INTERVAL)
        });
        self.tracker.save_at().into_iter().chain(wake_at).min()
    }

    /// Waits for the requests in flight, so that they are not sent again, and saves the progress.
    async fn stop(&mut self) {
        self.reading = None;
        let finish = async {
            while let Some(Ok(finished)) = self.attempts.join_next().await {
                self.finish(finished);
            }
        };
        let _ = timeout(STOP_TIMEOUT, finish).await;
        if self.tracker.save_at().is_some() {
            let _ = self.save().await;
        }
    }
}

#[cfg(test)]
mod tests;
