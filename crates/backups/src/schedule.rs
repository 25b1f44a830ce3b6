//! The times of the next backup.

use std::{future::pending, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::sleep;

use super::folder::BackupFile;

/// The delay before the first repetition of a failed backup. Each further one is twice as long.
const FIRST_RETRY: SignedDuration = SignedDuration::from_secs(60);
const MAX_RETRY: SignedDuration = SignedDuration::from_hours(1);

/// A backup may be this much newer than the clock, which was set in the meantime.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);

/// The longest sleep: the clock may be set, and a suspended machine does not count the time.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The schedule of one destination.
#[derive(Debug, Clone)]
pub struct Schedule {
    every: SignedDuration,
    /// The time at which the current interval began. The next ones follow from it, so a backup
    /// that takes long delays none of them.
    anchor: Option<Timestamp>,
    retry_at: Option<Timestamp>,
}

impl Schedule {
    pub fn new(every: SignedDuration) -> Self {
        Self {
            every,
            anchor: None,
            retry_at: None,
        }
    }

    /// Waits until the next attempt.
    pub async fn wait(&self) {
        while let Some(at) = self.next(Timestamp::now())
            && sleep_towards(at).await
        {}
    }

    /// Waits until a failed attempt is to be repeated.
    pub async fn wait_for_retry(&self) {
        while let Some(at) = self.retry(Timestamp::now()) {
            if !sleep_towards(at).await {
                return;
            }
        }
        pending().await
    }

    /// Returns the time of the next attempt. `None` means at once.
    fn next(&self, now: Timestamp) -> Option<Timestamp> {
        self.retry(now).or_else(|| self.after_anchor(now))
    }

    fn retry(&self, now: Timestamp) -> Option<Timestamp> {
        // A time farther away was computed with a wrong clock.
        let bounded = |at: Timestamp| {
            if at.duration_since(now) <= MAX_RETRY {
                at
            } else {
                now
            }
        };
        self.retry_at.map(bounded)
    }

    fn after_anchor(&self, now: Timestamp) -> Option<Timestamp> {
        let anchor = self.anchor.filter(|anchor| is_past(*anchor, now))?;
        anchor.checked_add(self.every).ok()
    }

    /// Returns true if the next backup is due, with the newest one from this time.
    pub fn is_due(&self, newest: Timestamp, now: Timestamp) -> bool {
        let due = self.after_anchor(now).filter(|due| newest < *due);
        let due = due.or_else(|| newest.checked_add(self.every).ok());
        due.is_none_or(|due| due <= now)
    }

    /// Continues from the newest backup, after which none is due yet.
    pub fn wait_after(&mut self, newest: Timestamp, now: Timestamp) {
        self.retry_at = None;
        self.anchor = self.anchor.filter(|anchor| is_past(*anchor, now));
        // It may have been stored although its attempt failed.
        if self.anchor.is_none_or(|anchor| anchor <= newest) {
            self.succeed(newest);
        }
    }

    /// Records a successful backup that was started at this time.
    pub fn succeed(&mut self, started: Timestamp) {
        self.retry_at = None;
        let begun = self.anchor.map(|anchor| {
            let passed = started.duration_since(anchor);
            let intervals = passed.as_secs().div_euclid(self.every.as_secs().max(1));
            let whole = i32::try_from(intervals).ok()?;
            anchor.checked_add(self.every * whole).ok()
        });
        self.anchor = begun.flatten().or(Some(started));
    }

    /// Records a failed attempt, the given number in a row.
    pub fn fail(&mut self, failures: u32, now: Timestamp) {
        let doublings = failures.saturating_sub(1).min(16);
        let delay = (FIRST_RETRY * (1 << doublings))
            .min(MAX_RETRY)
            .min(self.every);
        self.retry_at = now.checked_add(delay).ok();
    }
}

/// Sleeps until a time, or for a part of the time until then. Returns false if it has come.
async fn sleep_towards(at: Timestamp) -> bool {
    let left = Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default();
    sleep(left.min(MAX_SLEEP)).await;
    !left.is_zero()
}

/// Returns the backups that are from the past, in their order. One from the future was made with
/// a wrong clock: it says nothing about the schedule, and is not the newest.
pub fn past(
    backups: &[BackupFile],
    now: Timestamp,
) -> impl DoubleEndedIterator<Item = &BackupFile> {
    backups.iter().filter(move |it| is_past(it.name.time, now))
}

fn is_past(time: Timestamp, now: Timestamp) -> bool {
    time.duration_since(now) <= CLOCK_TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: SignedDuration = SignedDuration::from_hours(24);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn the_newest_backup_decides_at_the_start() {
        let schedule = Schedule::new(DAY);
        assert_eq!(schedule.next(at(0)), None);
        assert!(!schedule.is_due(at(0), at(86_399)));
        assert!(schedule.is_due(at(0), at(86_400)));
        assert!(is_past(at(5), at(0)) && !is_past(at(6), at(0)));
    }

    #[test]
    fn backups_do_not_drift() {
        let mut schedule = Schedule::new(DAY);
        schedule.wait_after(at(0), at(0));
        for day in 1..4 {
            let due = at(day * 86_400);
            assert_eq!(schedule.next(due), Some(due));
            // Each is a bit late.
            schedule.succeed(at(day * 86_400 + 70));
        }
        // The machine was off for three days.
        schedule.succeed(at(7 * 86_400 + 3600));
        assert_eq!(schedule.next(at(8 * 86_400)), Some(at(8 * 86_400)));
        // The clock was set back.
        let now = at(-100 * 86_400);
        assert_eq!(schedule.next(now), None);
        let mut waiting = schedule.clone();
        waiting.wait_after(at(-101 * 86_400 + 1), now);
        assert_eq!(waiting.next(now), Some(at(-100 * 86_400 + 1)));
        schedule.succeed(at(-100 * 86_400 + 10));
        assert_eq!(schedule.next(now), Some(at(-99 * 86_400)));
    }

    #[test]
    fn failures_are_repeated_within_bounds() {
        let mut schedule = Schedule::new(DAY);
        schedule.wait_after(at(0), at(0));
        let delays = [60, 120, 240, 480, 960, 1920, 3600, 3600];
        for (failures, delay) in (1..).zip(delays) {
            schedule.fail(failures, at(86_400));
            assert_eq!(schedule.next(at(86_400)), Some(at(86_400 + delay)));
            assert!(schedule.is_due(at(0), at(86_400 + delay)));
        }
        schedule.fail(u32::MAX, at(86_400));
        assert_eq!(schedule.next(at(86_400)), Some(at(86_400 + 3600)));
        schedule.succeed(at(90_000));
        assert_eq!(schedule.next(at(90_000)), Some(at(2 * 86_400)));
        // One that had seemed to fail was stored.
        schedule.fail(1, at(3 * 86_400));
        let stored = at(3 * 86_400 - 30);
        assert!(schedule.is_due(at(90_000), at(3 * 86_400)));
        assert!(!schedule.is_due(stored, at(3 * 86_400)));
        schedule.wait_after(stored, at(3 * 86_400));
        assert_eq!(schedule.next(at(3 * 86_400)), Some(at(3 * 86_400)));
        let mut often = Schedule::new(SignedDuration::from_secs(1));
        often.fail(9, at(0));
        assert_eq!(often.next(at(0)), Some(at(1)));
    }
}
