//! The clock of a store on SQLite, and the decisions that may depend on it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::super::working_set::Times;
use domain::clock::{Clock, ClockTrust};

#[derive(Debug, Clone)]
pub(super) struct StoreClock {
    /// The steady clock of orders, events and idempotency keys.
    pub(super) clock: Clock,
    trust: Arc<ClockTrust>,
    /// The last order that an earlier process has stored. That process had another clock, so
    /// [`trusted_time`](Self::trusted_time) decides whether its reservation has expired.
    last_earlier_order: i64,
}

impl StoreClock {
    pub(super) fn new(
        clock: Clock,
        last_open: Option<Timestamp>,
        trust_clock_after: SignedDuration,
        last_earlier_order: i64,
    ) -> Self {
        let last_open = last_open.unwrap_or_else(|| clock.now());
        Self {
            clock,
            trust: Arc::new(ClockTrust::start(last_open, trust_clock_after)),
            last_earlier_order,
        }
    }

    /// Returns the trusted time, by which rows of earlier processes are purged and expire. After a
    /// clock that was wrong at startup was set, it differs from the steady clock for a long time;
    /// the one that is behind decides.
    pub(super) fn trusted_time(&self) -> Timestamp {
        self.trust.limit(self.clock.now().min(Timestamp::now()))
    }

    pub(super) fn times(&self) -> Times {
        Times {
            now: self.clock.now(),
            trusted: self.trusted_time(),
            last_earlier_order: self.last_earlier_order,
        }
    }
}
