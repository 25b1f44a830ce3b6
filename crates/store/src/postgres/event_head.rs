//! The head of the event log on PostgreSQL: the number up to which the log may be read, found by
//! polling the server (see `watermark`).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use super::{
    super::{error::Error, metrics::EventMetrics, table::Record},
    Postgres,
    connect::{Connector, SchemaTooNew},
    migrate::SCHEMA,
    pool::{LOCK, Pool},
    read_first,
    watermark::{Holders, Watermark},
};
use single_flight::SingleFlight;
use telemetry::error_latch::ErrorLatch;

/// The poll interval while the log is followed, if this process changes nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The poll interval once the head has not moved for a second.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum interval between polls.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The pause after a poll has failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time that a caller waits for transactions in progress, unless one of them has
/// been open for longer.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);
/// The lag at which a transaction that holds back the log is reported.
const LAG_WARNING: Duration = Duration::from_secs(5);

/// The event log, as far as this process knows it.
#[derive(Debug)]
pub(super) struct EventLog {
    /// The `source` member of every event: it identifies this store.
    source: String,
    /// The connection that polls, so that polls do not wait for other statements.
    pub(super) pool: Pool,
    /// Concurrent callers share a poll.
    polls: SingleFlight<Result<(i64, bool), Error>>,
    /// The state between polls. The poll that is running holds the lock.
    poller: tokio::sync::Mutex<Poller>,
    /// The head as of the last poll, which statements that read the log have as parameters.
    stable: Mutex<StableHead>,
    /// The same head, for callers that wait until it moves.
    head: watch::Sender<i64>,
    /// The lag as of the last poll, in microseconds.
    lag: AtomicU64,
    /// Notified when this process has committed a change.
    committed: Arc<Notify>,
    /// Notified when a caller starts to follow the head.
    followed: Notify,
}

#[derive(Debug, Default)]
struct Poller {
    watermark: Watermark,
    /// True if the current lag was reported.
    warned: bool,
}

/// The number up to which the order of events is final, on one server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StableHead {
    /// Identifies the run of the server, as `SERVER` returns it.
    pub(super) server: i64,
    pub(super) head: i64,
}

impl EventLog {
    pub(super) fn new(connector: &Connector, source: String, committed: Arc<Notify>) -> Self {
        Self {
            source,
            pool: Pool::new(connector, 1),
            polls: SingleFlight::default(),
            poller: tokio::sync::Mutex::default(),
            stable: Mutex::default(),
            head: watch::Sender::new(0),
            lag: AtomicU64::new(0),
            committed,
            followed: Notify::new(),
        }
    }

    pub(super) fn metrics(&self) -> EventMetrics {
        EventMetrics {
            head: *self.head.borrow(),
            lag: Duration::from_micros(self.lag.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn stable(&self) -> StableHead {
        *self.stable.lock().expect(LOCK)
    }

    /// Polls the server, once for all concurrent callers. Returns the last number drawn, and true
    /// if every number up to it is stable.
    async fn poll(&self) -> Result<(i64, bool), Error> {
        let poll = async {
            let mut poller = self.poller.lock().await;
            let advanced = self.advance(&mut poller.watermark).await;
            // Publishes even if only the first step succeeded: the server may be another one.
            self.publish(&mut poller);
            advanced?;
            let watermark = &poller.watermark;
            Ok((watermark.last, watermark.stable >= watermark.last))
        };
        self.polls.run(poll).await
    }

    /// Advances the watermark by one poll.
    async fn advance(&self, watermark: &mut Watermark) -> Result<(), Error> {
        loop {
            let rows = self.pool.read(&LAST, &[]).await?;
            let ((server, last, stable), oldest) = read_first(&rows)?;
            self.check_schema(oldest)?;
            if !watermark.begin(server, last, stable) {
                return Ok(());
            }
            let rows = self.pool.read(&HOLDERS, &[]).await?;
            let mut holders = Holders::new();
            let mut is_same_server = true;
            for row in &rows {
                let (read_from, holder, pid) = <(i64, Option<_>, _)>::from_row(row)?;
                is_same_server &= read_from == server;
                holders.extend(holder.map(|holder| (holder, pid)));
            }
            // The two steps must not read from different servers.
            if rows.is_empty() || !is_same_server {
                continue;
            }
            watermark.finish(&holders, Instant::now());
            return Ok(());
        }
    }

    /// Takes this replica out of service if a newer version has changed the schema so that this one
    /// cannot use it any more.
    fn check_schema(&self, min_compatible_version: i64) -> Result<(), Error> {
        if min_compatible_version <= SCHEMA.version() {
            return Ok(());
        }
        let too_new = SchemaTooNew {
            needed: min_compatible_version,
        };
        tracing::error!(error = %too_new, "replica taken out of service");
        self.pool.refuse_all(too_new);
        Err(Error::Unavailable(Arc::new(too_new)))
    }

    /// Makes the new head visible to readers, and reports a transaction that holds it back.
    fn publish(&self, poller: &mut Poller) {
        let watermark = &poller.watermark;
        let head = watermark.stable;
        *self.stable.lock().expect(LOCK) = StableHead {
            server: watermark.server,
            head,
        };
        self.head
            .send_if_modified(|published| std::mem::replace(published, head) != head);
        let lag = watermark.lag(Instant::now());
        let lag_micros = lag.map_or(0, |(lag, _)| lag.as_micros() as u64);
        self.lag.store(lag_micros, Ordering::Relaxed);
        match lag {
            Some((lag, pid)) if lag >= LAG_WARNING && !poller.warned => {
                tracing::warn!(?lag, pid, "an open transaction holds back the event log");
                poller.warned = true;
            }
            Some((lag, _)) if lag >= LAG_WARNING => {}
            _ if poller.warned => {
                tracing::info!("the event log is no longer held back");
                poller.warned = false;
            }
            _ => {}
        }
    }
}

impl Postgres {
    pub(crate) fn event_source(&self) -> &str {
        &self.events.source
    }

    pub(crate) fn event_head(&self) -> watch::Receiver<i64> {
        let head = self.events.head.subscribe();
        self.events.followed.notify_one();
        head
    }

    /// Moves the head past what is stable now, without waiting for transactions in progress.
    pub(super) async fn event_poll(&self) -> Result<(), Error> {
        self.events.poll().await.map(drop)
    }

    pub(crate) async fn event_sync(&self) -> Result<(), Error> {
        let deadline = Instant::now() + SYNC_TIMEOUT;
        let (target, mut is_stable) = self.events.poll().await?;
        let is_held = || self.events.metrics().lag >= SYNC_TIMEOUT;
        while !is_stable && !is_held() && Instant::now() < deadline {
            sleep(MIN_POLL_INTERVAL).await;
            let (last, all_stable) = self.events.poll().await?;
            // Numbers drawn since the first poll do not matter.
            is_stable = all_stable || (last >= target && self.events.stable().head >= target);
        }
        Ok(())
    }

    pub(crate) async fn poll_event_head(&self) {
        let events = &self.events;
        let mut latch = ErrorLatch::new("event log poll");
        let mut head = 0;
        let mut moved_at = Instant::now();
        loop {
            if events.head.receiver_count() == 0 {
                events.followed.notified().await;
                continue;
            }
            let polled = events.poll().await;
            let failed = polled.is_err();
            latch.observe(polled);
            if failed {
                sleep(RETRY_INTERVAL).await;
                continue;
            }
            let new = *events.head.borrow();
            if head != new {
                head = new;
                moved_at = Instant::now();
            }
            let interval = if moved_at.elapsed() < Duration::from_secs(1) {
                POLL_INTERVAL
            } else {
                IDLE_POLL_INTERVAL
            };
            sleep(MIN_POLL_INTERVAL).await;
            let committed = events.committed.notified();
            let _ = timeout(interval - MIN_POLL_INTERVAL, committed).await;
        }
    }
}

/// An expression that identifies the run of the server to which a watermark belongs: the time when
/// the server was started, combined with the time of its last crash recovery, which resets its
/// statistics. An operator may reset them, too; then the watermark is only computed again.
pub(super) const SERVER: &str = "(SELECT ((extract(epoch FROM pg_postmaster_start_time())
           + coalesce(extract(epoch FROM stats_reset), 0)) * 1000000)::bigint
      FROM pg_stat_bgwriter)";

/// Returns an expression for the head. On server `$1` it is `$2`; on another server, which may have
/// given the same numbers to other events, it is the last number that was saved as stable.
pub(super) fn head() -> String {
    format!(
        "(SELECT CASE WHEN {SERVER} = $1 THEN $2 ELSE stable_through END
          FROM event_log WHERE id = 1)"
    )
}

statements! {
    /// The last number drawn, and the oldest program that works with the schema. A sequence is not
    /// transactional: this is its current state.
    LAST() = format!(
        "SELECT {SERVER}, CASE WHEN is_called THEN last_value ELSE 0 END, stable_through,
                (SELECT min_compatible_version::bigint FROM schema_version)
         FROM events_sequence_seq, event_log WHERE id = 1"
    );
    /// The transactions that may have drawn a number. Returns at least one row. Every role
    /// sees all locks, including those of prepared transactions.
    HOLDERS() = format!(
        "SELECT server, virtualtransaction, pid::bigint
         FROM (SELECT {SERVER} AS server) AS this
         LEFT JOIN pg_locks ON locktype = 'relation' AND relation = 'events'::regclass
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
             AND mode = 'RowExclusiveLock' AND granted"
    );
}
