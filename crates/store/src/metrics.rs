//! Metrics of the store. Rendering is up to the caller.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use telemetry::metrics::{Counter, Gauge, Histogram};

/// A snapshot of the store's queues, pools and commits.
#[derive(Debug)]
pub struct StoreMetrics<'a> {
    pub queues: Vec<QueueMetrics>,
    /// Empty on SQLite.
    pub pools: Vec<PoolMetrics>,
    pub commits: &'a CommitMetrics,
    /// `None` on PostgreSQL.
    pub wal: Option<&'a WalMetrics>,
    pub events: EventMetrics,
}

#[derive(Debug)]
pub struct EventMetrics {
    /// The last sequence number up to which the order of events is final.
    pub head: i64,
    /// The time for which a transaction in progress has held back the head; 0 on SQLite.
    pub lag: Duration,
}

#[derive(Debug)]
pub struct QueueMetrics {
    pub name: &'static str,
    /// Requests waiting in the queue.
    pub depth: usize,
}

#[derive(Debug)]
pub struct PoolMetrics {
    pub name: &'static str,
    /// Open connections.
    pub connections: i64,
    /// Statements that were sent, or that wait for a connection.
    pub statements_in_flight: i64,
}

/// Commits of commands since the store was opened. Only a command that logs an event counts as a
/// write, and a commit without one is not recorded. All failures are counted.
#[derive(Debug)]
pub struct CommitMetrics {
    /// Writes that shared a commit.
    pub group_sizes: Histogram,
    /// Time from the first statement until the commit was durable.
    pub durations: Histogram,
    /// Commits that failed or whose outcome is unknown.
    pub failures: Counter,
}

impl Default for CommitMetrics {
    fn default() -> Self {
        Self {
            group_sizes: Histogram::sizes(),
            durations: Histogram::durations(),
            failures: Counter::default(),
        }
    }
}

impl CommitMetrics {
    /// Records a commit of `writes` writes.
    pub fn record(&self, writes: usize, started: Instant, succeeded: bool) {
        if succeeded {
            self.group_sizes.observe(writes as u64);
            self.durations.observe_duration(started.elapsed());
        } else {
            self.failures.increment();
        }
    }
}

/// The write-ahead log of an SQLite file.
#[derive(Debug, Default)]
pub struct WalMetrics {
    /// Bytes written since it was last reset.
    pub size: Gauge,
    pub checkpoints: Counter,
    pub checkpoint_failures: Counter,
    /// True if the last checkpoint failed.
    pub failing: AtomicBool,
}
