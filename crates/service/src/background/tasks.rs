//! The tasks. Each runs until it is aborted.

use std::{fmt::Display, sync::Arc, time::Duration};

use tokio::time::{interval, sleep};

use api::{EventFeed, key_cache::KeyCache, metrics::Metrics};
use backups::Backups;
use dispatcher::Dispatcher;
use domain::{
    event::EventRetention, idempotency, import, photo, register::deleted_pet_retention,
    webhook::delivery,
};
use import_socket::ImportServer;
use server::Tls;
use store::{Store, event_tail::EventTail};
use telemetry::error_latch::ErrorLatch;

/// A revoked key must be rejected within a second; this leaves time for the read.
const KEY_REFRESH_INTERVAL: Duration = Duration::from_millis(500);
const KEY_USAGE_FLUSH_INTERVAL: Duration = Duration::from_millis(500);
const ORDER_EXPIRY_INTERVAL: Duration = Duration::from_secs(1);
const IDEMPOTENCY_PURGE_INTERVAL: Duration = Duration::from_secs(1);
const EVENT_PURGE_INTERVAL: Duration = Duration::from_secs(1);
const DELIVERY_PURGE_INTERVAL: Duration = Duration::from_secs(60);
const DELETED_PET_PURGE_INTERVAL: Duration = Duration::from_secs(60);
const PHOTO_PURGE_INTERVAL: Duration = Duration::from_secs(60);
const IMPORT_PURGE_INTERVAL: Duration = Duration::from_secs(3600);
const OPEN_TIME_INTERVAL: Duration = Duration::from_secs(60);
const SHED_REPORT_INTERVAL: Duration = Duration::from_secs(1);

pub async fn refresh_api_keys(keys: Arc<KeyCache>) {
    every(KEY_REFRESH_INTERVAL, "api key refresh", || keys.refresh()).await;
}

/// A separate task, because the refresh must not wait for the writer.
pub async fn flush_api_key_usage(keys: Arc<KeyCache>) {
    let flush = || keys.flush_usage();
    every(KEY_USAGE_FLUSH_INTERVAL, "api key usage flush", flush).await;
}

/// Cancels orders whose reservation has expired.
pub async fn expire_orders(store: Arc<Store>) {
    let expire = || async {
        let orders = in_batches(|| store.order_expire()).await?;
        if orders > 0 {
            tracing::info!(orders, "orders expired");
        }
        Ok::<_, store::Error>(())
    };
    every(ORDER_EXPIRY_INTERVAL, "order expiry", expire).await;
}

pub async fn purge_idempotency_keys(store: Arc<Store>) {
    let purge = || in_batches(|| store.idempotency_purge(idempotency::RETENTION));
    every(IDEMPOTENCY_PURGE_INTERVAL, "idempotency key purge", purge).await;
}

pub async fn purge_events((store, feed, retention): (Arc<Store>, Arc<EventFeed>, EventRetention)) {
    let purge = || async {
        let events = in_batches(|| store.event_purge(retention)).await?;
        feed.metrics.purged.add(events);
        Ok::<_, store::Error>(())
    };
    every(EVENT_PURGE_INTERVAL, "event purge", purge).await;
}

/// Deletes deliveries that were given up. They are kept for as long as events, up to 30 days.
pub async fn purge_deliveries((store, retention): (Arc<Store>, EventRetention)) {
    let purge = || in_batches(|| store.delivery_purge(retention.age.min(delivery::MAX_RETENTION)));
    every(DELIVERY_PURGE_INTERVAL, "delivery purge", purge).await;
}

/// Removes deleted pets from the register, which keeps them for as long as events, but at least for
/// three years.
pub async fn purge_deleted_pets((store, retention): (Arc<Store>, EventRetention)) {
    let purge = || in_batches(|| store.deleted_pet_purge(deleted_pet_retention(retention.age)));
    every(DELETED_PET_PURGE_INTERVAL, "deleted pet purge", purge).await;
}

/// Deletes photos that no pet has shown for a while.
pub async fn purge_photos(store: Arc<Store>) {
    let purge = || in_batches(|| store.photo_purge(photo::RETENTION));
    every(PHOTO_PURGE_INTERVAL, "photo purge", purge).await;
}

/// Deletes the records of imports whose last activity is long ago, complete or not.
pub async fn purge_imports(store: Arc<Store>) {
    let purge = || in_batches(|| store.import_purge(import::RETENTION));
    every(IMPORT_PURGE_INTERVAL, "import purge", purge).await;
}

/// Regularly records that the store is open, for a process that starts after a crash.
pub async fn record_open_time(store: Arc<Store>) {
    sleep(OPEN_TIME_INTERVAL).await;
    let record = || store.record_open_time();
    every(OPEN_TIME_INTERVAL, "recording of the open time", record).await;
}

/// Accepts animals from `petstore import` and `petstore seed`.
pub async fn accept_imports(imports: Arc<ImportServer>) {
    imports.run().await;
}

/// Moves the head of the event log.
pub async fn poll_event_log(store: Arc<Store>) {
    store.poll_event_head().await;
}

/// Caches the newest events in memory.
pub async fn cache_newest_events(tail: Arc<EventTail>) {
    tail.follow().await;
}

/// Delivers events to webhooks.
pub async fn deliver_webhooks(dispatcher: Arc<Dispatcher>) {
    dispatcher.run().await;
}

/// Takes backups of an SQLite file.
pub async fn take_backups(backups: Arc<Backups>) {
    backups.run().await;
}

/// Logs the number of requests that were shed and of streams that were rejected: one event
/// each would add to the overload.
pub async fn report_shed_requests(metrics: Arc<Metrics>) {
    let mut ticks = interval(SHED_REPORT_INTERVAL);
    let count_streams = || metrics.rejected_streams().map(|(_, count)| count).sum();
    let mut shed = metrics.shed.get();
    let mut streams: u64 = count_streams();
    loop {
        ticks.tick().await;
        let requests = metrics.shed.get() - shed;
        if requests > 0 {
            tracing::warn!(requests, "requests shed");
            shed += requests;
        }
        let rejected = count_streams() - streams;
        if rejected > 0 {
            tracing::warn!(streams = rejected, "event streams rejected");
            streams += rejected;
        }
    }
}

/// Reloads a renewed certificate. The same error is logged once.
pub async fn reload_certificate(tls: Arc<Tls>) {
    let mut logged = None;
    loop {
        sleep(tls.reload_interval).await;
        let error = tls.reload().await.err().map(|error| error.to_string());
        if let Some(error) = error.as_ref().filter(|_| error != logged) {
            tracing::warn!(error, "certificate reload failed; keeping the current one");
        }
        logged = error;
    }
}

/// Repeats an activity, the first time immediately, and logs when it starts to fail and when it
/// recovers.
async fn every<T, E: Display, F>(period: Duration, activity: &'static str, run: impl Fn() -> F)
where
    F: Future<Output = Result<T, E>>,
{
    let mut ticks = interval(period);
    let mut latch = ErrorLatch::new(activity);
    loop {
        ticks.tick().await;
        latch.observe(run().await);
    }
}

/// Repeats a batch until nothing is left, and returns the total. Batches are small, so
/// that client writes can run in between.
async fn in_batches<F>(batch: impl Fn() -> F) -> Result<u64, store::Error>
where
    F: Future<Output = Result<u64, store::Error>>,
{
    let mut total = 0;
    loop {
        match batch().await? {
            0 => return Ok(total),
            count => total += count,
        }
    }
}
