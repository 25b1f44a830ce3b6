//! The event log on PostgreSQL. How far it may be read is stable by polling (see `watermark`).

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
    super::{
        error::Error,
        metrics::EventMetrics,
        table::{Joined, Record, columns, columns_of},
        tables::EventRow,
    },
    Postgres,
    connect::Connector,
    now_micros,
    pool::{LOCK, Parameters, Pool},
    read_first,
    watermark::{Holders, Watermark},
};
use domain::{
    event::{Event, EventId, EventRetention, Gone},
    page::Sort,
};
use single_flight::SingleFlight;
use telemetry::error_latch::ErrorLatch;

/// The poll interval while the log is followed, if this process changes nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The same, if the head has not moved for a second.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The minimum interval between polls.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(5);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum time that a caller waits for transactions in progress, unless one of them has
/// been open for longer.
const SYNC_TIMEOUT: Duration = Duration::from_secs(1);
/// The lag at which a transaction that holds back the log is reported.
const LAG_WARNING: Duration = Duration::from_secs(5);

/// The state of the event log: how far it may be read.
#[derive(Debug)]
pub(super) struct EventLog {
    source: String,
    pub(super) pool: Pool,
    polls: SingleFlight<Result<(i64, bool), Error>>,
    /// Locked by the poll that is running.
    poller: tokio::sync::Mutex<Poller>,
    /// The parameters of the statements that read.
    stable: Mutex<StableHead>,
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
    warned: bool,
}

/// The last number whose order is final, on a certain server.
#[derive(Debug, Clone, Copy, Default)]
struct StableHead {
    server: i64,
    head: i64,
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

    fn stable(&self) -> StableHead {
        *self.stable.lock().expect(LOCK)
    }

    /// Polls once for all concurrent callers. Returns the last number drawn, and whether it
    /// is stable.
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

    async fn advance(&self, watermark: &mut Watermark) -> Result<(), Error> {
        loop {
            let rows = self.pool.read(&LAST, &[]).await?;
            let (server, last, stable) = read_first(&rows)?;
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

    fn publish(&self, poller: &mut Poller) {
        let watermark = &poller.watermark;
        let (server, head) = (watermark.server, watermark.stable);
        *self.stable.lock().expect(LOCK) = StableHead { server, head };
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

    pub(crate) async fn event_newest(&self) -> Result<Option<Event>, Error> {
        let StableHead { server, head } = self.events.stable();
        let rows = self.reads.read(&NEWEST, &[&server, &head]).await?;
        rows.first().map(Event::from_row).transpose()
    }

    pub(crate) async fn event_read(
        &self,
        after: Option<EventId>,
        sort: Sort,
        limit: usize,
    ) -> Result<Result<Vec<Event>, Gone>, Error> {
        let (start, limit) = EventId::read_range(after, limit);
        let StableHead { server, head } = self.events.stable();
        let statement = match sort {
            Sort::Asc => &READ,
            Sort::Desc => &READ_DESC,
        };
        let parameters: Parameters = &[&server, &head, &start, &limit];
        let rows = self.reads.read(statement, parameters).await?;
        let (is_same_server, purged_through): (bool, i64) = read_first(&rows)?;
        let mut events = Vec::with_capacity(rows.len());
        for row in &rows {
            let (_, _, event) = <(bool, i64, Joined<_, i64>)>::from_row(row)?;
            events.extend(event.0);
        }
        let Some(id) = after else {
            return Ok(Ok(events));
        };
        match id.verify(&mut events, purged_through) {
            // During a failover, this connection may still lead to the old server.
            Err(Gone::Unknown) if !is_same_server => Err(Error::Unavailable(Arc::new(OtherServer))),
            verified => Ok(verified.map(|()| events)),
        }
    }

    pub(crate) async fn event_get(&self, id: EventId) -> Result<Option<Event>, Error> {
        for _ in 0..2 {
            let StableHead { server, .. } = self.events.stable();
            let rows = self.reads.read(&GET, &[&server, &id.sequence]).await?;
            let (is_same_server, event): (_, Joined<Event, i64>) = read_first(&rows)?;
            let event = event.0.filter(|event| event.id() == id);
            if event.is_some() || is_same_server {
                return Ok(event);
            }
            // The connection may lead to another server since the last poll.
            self.event_sync().await?;
        }
        Err(Error::Unavailable(Arc::new(OtherServer)))
    }

    pub(crate) async fn event_purge(&self, retention: EventRetention) -> Result<u64, Error> {
        self.event_sync().await?;
        let StableHead { server, head } = self.events.stable();
        let age = self.max_age(retention.age);
        let count = i64::try_from(retention.count).unwrap_or(i64::MAX);
        self.background
            .write(&SAVE_STABLE, &[&server, &head])
            .await?;
        let parameters: Parameters = &[&server, &head, &age, &count];
        let purged: i64 = read_first(&self.background.write(&PURGE, parameters).await?)?;
        Ok(purged as u64)
    }

    pub(crate) async fn event_follow(&self) {
        let events = &self.events;
        let mut latch = ErrorLatch::new("event log poll");
        let (mut head, mut moved_at) = (0, Instant::now());
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
                (head, moved_at) = (new, Instant::now());
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

/// The time when the server was started, and when it last recovered from a crash, which resets
/// its statistics: this identifies the run of a server to which the watermark belongs. It may
/// change without a reason; then the watermark is reset.
const SERVER: &str = "(SELECT ((extract(epoch FROM pg_postmaster_start_time())
           + coalesce(extract(epoch FROM stats_reset), 0)) * 1000000)::bigint
      FROM pg_stat_bgwriter)";

/// Returns the head: `$2`, which was stable on server `$1`; on another server, the last
/// number that is known to be stable.
fn head() -> String {
    format!(
        "(SELECT CASE WHEN {SERVER} = $1 THEN $2 ELSE stable_through END
          FROM event_log WHERE id = 1)"
    )
}

statements! {
    /// The last number drawn. A sequence is not transactional: this is its current state.
    LAST() = format!(
        "SELECT {SERVER}, CASE WHEN is_called THEN last_value ELSE 0 END, stable_through
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
    NEWEST(Int, Int) = format!(
        "SELECT {} FROM events WHERE sequence <= {} ORDER BY sequence DESC LIMIT 1",
        columns::<EventRow>(),
        head()
    );
    /// Returns one row, with whether this is server `$1`.
    GET(Int, Int) = format!(
        "SELECT this.is_same, {} FROM (SELECT {SERVER} = $1 AS is_same) AS this
         LEFT JOIN events ON sequence = $2",
        columns_of::<EventRow>("events")
    );
    /// Returns at least one row, with whether this is server `$1`, and `purged_through`.
    /// Starts at the event of the position `$3`, even if it is beyond the head: another
    /// replica may have stable more. Purged events are skipped, because their index entries
    /// remain until a vacuum.
    ///
    /// The walk along the index has no upper bound, and the row of `event_log` is found by its
    /// key: otherwise PostgreSQL expects more rows than there are, sorts them, and compiles the
    /// statement (JIT).
    READ(Int, Int, Int, Int) = format!(
        "SELECT {SERVER} = $1, purged_through, {} FROM event_log LEFT JOIN LATERAL (
             SELECT {} FROM events WHERE sequence >= greatest($3, purged_through + 1)
             ORDER BY sequence LIMIT $4
         ) AS page ON page.sequence <= greatest($3, {}) WHERE event_log.id = 1",
        columns_of::<EventRow>("page"),
        columns::<EventRow>(),
        head()
    );
    /// Like [`READ`], in descending order: from the event of the position `$3`, and without
    /// one, from the head. The events before a position were stable when a client received it.
    READ_DESC(Int, Int, Int, Int) = format!(
        "SELECT {SERVER} = $1, purged_through, {} FROM event_log LEFT JOIN LATERAL (
             SELECT {} FROM events WHERE sequence > purged_through AND sequence <= coalesce($3, {})
             ORDER BY sequence DESC LIMIT $4
         ) AS page ON true WHERE event_log.id = 1",
        columns_of::<EventRow>("page"),
        columns::<EventRow>(),
        head()
    );
    /// Does nothing if another replica is saving it. Locks nothing if there is nothing to save.
    SAVE_STABLE(Int, Int) = format!(
        "UPDATE event_log SET stable_through = $2 WHERE id = (
             SELECT id FROM event_log WHERE stable_through < $2 AND {SERVER} = $1
             FOR NO KEY UPDATE SKIP LOCKED)"
    );
    /// Keeps the newest event up to the head. One replica purges at a time; nothing is locked
    /// if there is nothing to purge.
    PURGE(Int, Int, Int, Int) = format!(
        "WITH newest AS MATERIALIZED (
             SELECT max(sequence) AS sequence FROM events WHERE sequence <= {}
         ), oldest AS MATERIALIZED (
             SELECT events.sequence, at FROM event_log, newest, LATERAL (
                 SELECT sequence, at FROM events WHERE sequence > purged_through
                 ORDER BY sequence LIMIT 1000
             ) AS events
             WHERE event_log.id = 1 AND events.sequence < newest.sequence
         ), last AS MATERIALIZED (
             SELECT max(sequence) AS sequence FROM oldest
             WHERE sequence < coalesce((
                 SELECT min(oldest.sequence) FROM oldest, newest
                 WHERE at >= {} - $3 AND oldest.sequence > newest.sequence - $4
             ), 9223372036854775807)
         ), log AS MATERIALIZED (
             SELECT purged_through FROM event_log, last
             WHERE event_log.id = 1 AND purged_through < last.sequence
             FOR NO KEY UPDATE OF event_log SKIP LOCKED
         ), purged AS (
             UPDATE event_log SET purged_through = last.sequence FROM log, last
             WHERE event_log.id = 1
         ), deleted AS (
             DELETE FROM events USING log, last
             WHERE events.sequence > log.purged_through AND events.sequence <= last.sequence
             RETURNING 1
         )
         SELECT count(*) FROM deleted",
        head(),
        now_micros()
    );
}

#[derive(Debug, thiserror::Error)]
#[error("this connection leads to another server than the one whose log is read")]
struct OtherServer;
