//! The clock of a store on SQLite, and the decisions that may depend on it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::super::working_set::Times;
use domain::clock::{Clock, Settling};

#[derive(Debug, Clone)]
pub(super) struct StoreClock {
    /// The steady clock of orders, events and idempotency keys.
    pub(super) clock: Clock,
    settling: Arc<Settling>,
    /// The last order that an earlier process has stored. That process had another clock, so
    /// [`certain_time`](Self::certain_time) decides whether its reservation has expired.
    last_earlier_order: i64,
}

impl StoreClock {
    pub(super) fn new(
        clock: Clock,
        last_open: Option<Timestamp>,
        settling: SignedDuration,
        last_earlier_order: i64,
    ) -> Self {
        let last_open = last_open.unwrap_or_else(|| clock.now());
        Self {
            clock,
            settling: Arc::new(Settling::start(last_open, settling)),
            last_earlier_order,
        }
    }

    /// Returns a time that has certainly come, by which rows of earlier processes are purged
    /// and expire. If the system clock was wrong at startup and set afterwards, it differs
    /// from the steady clock for a long time: the one that is behind decides.
    pub(super) fn certain_time(&self) -> Timestamp {
        self.settling.limit(self.clock.now().min(Timestamp::now()))
    }

    pub(super) fn times(&self) -> Times {
        Times {
            now: self.clock.now(),
            certain: self.certain_time(),
            last_earlier_order: self.last_earlier_order,
        }
    }
}
