//! Metrics of the store. Rendering is up to the caller.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use crate::telemetry::metrics::{Counter, Gauge, Histogram};

/// A snapshot of the store's queues, pools and commits.
#[derive(Debug)]
pub(crate) struct StoreMetrics<'a> {
    pub(crate) queues: Vec<QueueMetrics>,
    /// Empty on SQLite.
    pub(crate) pools: Vec<PoolMetrics>,
    pub(crate) commits: &'a CommitMetrics,
    /// `None` on PostgreSQL.
    pub(crate) wal: Option<&'a WalMetrics>,
    pub(crate) events: EventMetrics,
}

#[derive(Debug)]
pub(crate) struct EventMetrics {
    /// The last sequence number up to which the order of events is final.
    pub(crate) head: i64,
    /// The time for which a transaction in progress has held back the head; 0 on SQLite.
    pub(crate) lag: Duration,
}

#[derive(Debug)]
pub(crate) struct QueueMetrics {
    pub(crate) name: &'static str,
    /// Requests waiting in the queue.
    pub(crate) depth: usize,
}

#[derive(Debug)]
pub(crate) struct PoolMetrics {
    pub(crate) name: &'static str,
    /// Open connections.
    pub(crate) connections: i64,
    /// Statements that were sent, or that wait for a connection.
    pub(crate) statements_in_flight: i64,
}

/// Commits of client writes since the store was opened. On SQLite, writes that
/// change nothing cached (API keys, replays, the purge) are not counted; on
/// PostgreSQL, background statements are not.
#[derive(Debug)]
pub(crate) struct CommitMetrics {
    /// Writes that shared a commit.
    pub(crate) batch_sizes: Histogram,
    /// Time from the first statement until the commit was durable.
    pub(crate) durations: Histogram,
    /// Commits that failed or whose outcome is unknown.
    pub(crate) failures: Counter,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        Self {
            batch_sizes: Histogram::sizes(),
            durations: Histogram::durations(),
            failures: Counter::default(),
        }
    }
}

impl CommitMetrics {
    /// Records a commit of `writes` writes.
    pub(crate) fn record(&self, writes: usize, started: Instant, succeeded: bool) {
        if succeeded {
            self.batch_sizes.observe(writes as u64);
            self.durations.observe_duration(started.elapsed());
        } else {
            self.failures.increment();
        }
    }
}

/// The write-ahead log of an SQLite file.
#[derive(Debug, Default)]
pub(crate) struct WalMetrics {
    /// Bytes written since it was last reset.
    pub(crate) size: Gauge,
    pub(crate) checkpoints: Counter,
    pub(crate) checkpoint_failures: Counter,
    /// True if the last checkpoint failed.
    pub(crate) failing: AtomicBool,
}
