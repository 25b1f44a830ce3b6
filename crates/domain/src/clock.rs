//! Clocks: the wall clock, injected so that tests can set the time; a steady clock for retention
//! and expiry; and the trust in either, which is missing at first.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// Limits the adjustment of a steady clock to a tenth of the time that passes.
const SLEW_DIVISOR: i32 = 10;

/// A source of the current time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// Returns the system clock.
    pub fn system() -> Self {
        Self::new(Timestamp::now)
    }

    /// Returns a clock that starts at the time of the system clock and advances steadily. If the
    /// system clock is set forward or back, this clock does not jump, but runs faster or slower
    /// until they agree again.
    pub fn steady() -> Self {
        Self::slewed(Timestamp::now, time_since_boot)
    }

    fn slewed(
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
        uptime: impl Fn() -> SignedDuration + Send + Sync + 'static,
    ) -> Self {
        let last = Mutex::new((uptime(), wall()));
        Self::new(move || {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            let uptime = uptime();
            let (last_uptime, last_time) = *last;
            let elapsed = (uptime - last_uptime).max(SignedDuration::ZERO);
            let steady = last_time + elapsed;
            let max_slew = elapsed / SLEW_DIVISOR;
            let slew = wall().duration_since(steady).clamp(-max_slew, max_slew);
            *last = (uptime, steady + slew);
            last.1
        })
    }

    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The trust of a process in its system clock, which is established an hour after its start.
///
/// A machine may start with a fast clock, which is set a little later. From the store, that looks
/// the same as a store that was closed for as long. Until the clock is trusted, [`limit`] therefore
/// returns a *trusted time*, which cannot be ahead of the real one: the last time that the store is
/// known to have been open, plus the time that has passed since the start.
///
/// [`limit`]: Self::limit
#[derive(Debug)]
pub struct ClockTrust {
    last_open: Timestamp,
    /// The time after the start at which the clock is trusted.
    delay: SignedDuration,
    /// The time since boot at the start.
    started: SignedDuration,
}

impl ClockTrust {
    /// Long enough for a machine to set its clock after it has started.
    pub const DELAY: SignedDuration = SignedDuration::from_hours(1);

    /// Starts without trust.
    pub fn start(last_open: Timestamp, delay: SignedDuration) -> Self {
        Self {
            last_open,
            delay,
            started: time_since_boot(),
        }
    }

    /// Returns true once the system clock can be trusted.
    pub fn is_established(&self) -> bool {
        self.elapsed() >= self.delay
    }

    /// Limits a time to the trusted time.
    pub fn limit(&self, time: Timestamp) -> Timestamp {
        self.limit_after(self.elapsed(), time)
    }

    fn limit_after(&self, elapsed: SignedDuration, time: Timestamp) -> Timestamp {
        if elapsed >= self.delay {
            return time;
        }
        let seen = self.last_open.checked_add(elapsed);
        time.min(seen.unwrap_or(Timestamp::MAX))
    }

    fn elapsed(&self) -> SignedDuration {
        (time_since_boot() - self.started).max(SignedDuration::ZERO)
    }
}

/// Returns the time since boot, which is monotonic and, unlike [`std::time::Instant`], includes
/// the time in suspend.
fn time_since_boot() -> SignedDuration {
    let time = clock_gettime(ClockId::Boottime);
    SignedDuration::new(time.tv_sec, time.tv_nsec as i32)
}

/// Truncates a time to the precision of timestamps in both databases.
pub(crate) fn truncate_to_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).expect("truncation stays in range")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    use super::*;

    /// Sets the wall clock by `step`, lets `elapsed` seconds pass in the given number of
    /// readings, and returns the time by which the steady clock has advanced.
    fn advance_after(step: i64, elapsed: i64, readings: i64) -> SignedDuration {
        let uptime = Arc::new(AtomicI64::new(0));
        let wall = Arc::new(AtomicI64::new(0));
        let start = Timestamp::constant(1_800_000_000, 0);
        let clock = Clock::slewed(
            {
                let uptime = uptime.clone();
                let wall = wall.clone();
                move || start + SignedDuration::from_secs(uptime.load(Relaxed) + wall.load(Relaxed))
            },
            {
                let uptime = uptime.clone();
                move || SignedDuration::from_secs(uptime.load(Relaxed))
            },
        );
        wall.store(step, Relaxed);
        let mut last = clock.now();
        for _ in 0..readings {
            uptime.fetch_add(elapsed / readings, Relaxed);
            let now = clock.now();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        last.duration_since(start)
    }

    #[test]
    fn time_that_was_not_seen_to_pass_counts_after_an_hour() {
        let second = |second| Timestamp::from_second(second).unwrap();
        let day = 86_400;
        let hour = 3600;
        let trust = ClockTrust::start(second(10 * day), ClockTrust::DELAY);
        for (elapsed, time, expected) in [
            // The store was closed for eight days, or the clock is fast.
            (0, 18 * day, 10 * day),
            (60, 18 * day + 60, 10 * day + 60),
            (hour, 18 * day + hour, 18 * day + hour),
            // The clock was set.
            (60, 10 * day + 30, 10 * day + 30),
            (hour, 10 * day + hour, 10 * day + hour),
            // The clock is slow.
            (60, 60, 60),
        ] {
            let limited = trust.limit_after(SignedDuration::from_secs(elapsed), second(time));
            assert_eq!(limited, second(expected), "{time} after {elapsed}");
        }
    }

    #[test]
    fn a_steady_clock_slews_over_steps_of_the_system_clock() {
        let day = 86_400;
        for readings in [1, 100] {
            for (step, elapsed, expected) in [
                (0, 1000, 1000),
                // The clocks differ too much to agree yet.
                (day, 1000, 1100),
                (-day, 1000, 900),
                // The clocks agree.
                (day, 11 * day, 12 * day),
                (-day, 11 * day, 10 * day),
            ] {
                let advanced = advance_after(step, elapsed, readings);
                let off = advanced - SignedDuration::from_secs(expected);
                assert!(
                    off.abs() < SignedDuration::from_secs(1),
                    "{step}: {advanced}"
                );
            }
        }
    }
}
