//! What a store counts of its commits.

use std::time::Instant;

use crate::telemetry::{
    metrics::{Counter, Histogram},
    prometheus::Exposition,
};

#[derive(Debug)]
pub struct Commits {
    /// How many writes shared one.
    writes: Histogram,
    durations: Histogram,
    failed: Counter,
}

impl Default for Commits {
    fn default() -> Self {
        Self {
            writes: Histogram::sizes(),
            durations: Histogram::durations(),
            failed: Counter::default(),
        }
    }
}

impl Commits {
    /// Counts a commit of so many writes.
    pub fn count(&self, writes: usize, began: Instant, succeeded: bool) {
        if succeeded {
            self.writes.observe(writes as u64);
            self.durations.observe_duration(began.elapsed());
        } else {
            self.failed.increment();
        }
    }

    pub fn expose(&self, text: &mut Exposition) {
        text.family(
            "petstore_commit_batch_size",
            "histogram",
            "Writes of requests that shared a commit.",
        )
        .histogram(&[], &self.writes);
        text.family(
            "petstore_commit_duration_seconds",
            "histogram",
            "From the first statement of a commit until it was on disk.",
        )
        .histogram(&[], &self.durations);
        text.number(
            "petstore_commit_failures_total",
            "counter",
            "Commits that failed, or whose outcome is unknown.",
            self.failed.get(),
        );
    }
}
