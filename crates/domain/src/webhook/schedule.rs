//! The schedule of retries, and the rules for disabling a receiver.

use jiff::{SignedDuration, Timestamp, fmt::strtime::BrokenDownTime, tz::TimeZone};

use super::DisabledReason;

/// The delays before each attempt, as Standard Webhooks suggests: ten attempts in 75 hours.
const ATTEMPT_DELAYS: [SignedDuration; 10] = [
    SignedDuration::ZERO,
    SignedDuration::from_secs(5),
    SignedDuration::from_mins(5),
    SignedDuration::from_mins(30),
    SignedDuration::from_hours(2),
    SignedDuration::from_hours(5),
    SignedDuration::from_hours(10),
    SignedDuration::from_hours(14),
    SignedDuration::from_hours(20),
    SignedDuration::from_hours(24),
];

/// The furthest that an attempt is scheduled ahead: the longest delay with its jitter.
const MAX_ATTEMPT_DELAY: SignedDuration = SignedDuration::from_hours(29);

/// The longest delay that a receiver can ask for.
const MAX_RETRY_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// After this many consecutive failures the receiver is considered down.
const BACKOFF_AFTER_FAILURES: u32 = 5;
const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(5);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_hours(1);

/// The time after which a receiver that keeps failing is disabled.
const DISABLE_AFTER: SignedDuration = SignedDuration::from_hours(5 * 24);

/// The result of one attempt to deliver an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Delivered,
    /// Any other response, or none.
    Failed {
        retry_after: Option<SignedDuration>,
    },
    /// The receiver wants no more deliveries.
    Gone,
}

impl Outcome {
    /// Interprets a response. Redirects are failures, as they are not followed.
    pub fn of_response(status: u16, retry_after: Option<&str>, now: Timestamp) -> Self {
        match status {
            200..=299 => Self::Delivered,
            410 => Self::Gone,
            _ => Self::Failed {
                retry_after: retry_after.and_then(|value| parse_retry_after(value, now)),
            },
        }
    }
}

/// Returns the delay before the next attempt, after this many failures; `None` if that was the
/// last attempt.
pub fn retry_delay(
    failed_attempts: usize,
    retry_after: Option<SignedDuration>,
) -> Option<SignedDuration> {
    let delay = jittered(*ATTEMPT_DELAYS.get(failed_attempts)?);
    Some(delay.max(retry_after.unwrap_or_default()))
}

/// Returns the latest time for which an attempt can have been scheduled. A later time comes from
/// a clock that was fast, and its attempt is due.
pub fn latest_attempt(now: Timestamp) -> Timestamp {
    now.checked_add(MAX_ATTEMPT_DELAY).unwrap_or(Timestamp::MAX)
}

/// The health of a receiver, across all events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndpointHealth {
    pub consecutive_failures: u32,
    /// The time of the first failure since the last success.
    pub failing_since: Option<Timestamp>,
}

/// The consequence of an attempt for the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    Continue,
    /// Send nothing for this duration.
    BackOff(SignedDuration),
    Disable(DisabledReason),
}

impl EndpointHealth {
    /// Records the result of an attempt. `trusted` is a time that has passed even if the clock is
    /// fast ([`ClockTrust`](crate::clock::ClockTrust)), so that a fast clock disables no receiver.
    pub fn record(&mut self, outcome: Outcome, now: Timestamp, trusted: Timestamp) -> NextStep {
        let retry_after = match outcome {
            Outcome::Delivered => {
                *self = Self::default();
                return NextStep::Continue;
            }
            Outcome::Gone => return NextStep::Disable(DisabledReason::ReceiverGone),
            Outcome::Failed { retry_after } => retry_after.unwrap_or_default(),
        };
        self.consecutive_failures = self.consecutive_failures.saturating_add(1);
        let since = *self.failing_since.get_or_insert(now);
        // A single failure long after the first does not show that it failed in between.
        if self.is_backing_off() && trusted.duration_since(since) >= DISABLE_AFTER {
            return NextStep::Disable(DisabledReason::ReceiverFailing);
        }
        match jittered(self.backoff()).max(retry_after) {
            SignedDuration::ZERO => NextStep::Continue,
            pause => NextStep::BackOff(pause),
        }
    }

    /// Returns true if the receiver has failed so often that it is not the fault of an event.
    pub fn is_backing_off(&self) -> bool {
        self.consecutive_failures >= BACKOFF_AFTER_FAILURES
    }

    /// Returns the backoff, which doubles with every failure.
    fn backoff(&self) -> SignedDuration {
        match self
            .consecutive_failures
            .checked_sub(BACKOFF_AFTER_FAILURES)
        {
            None => SignedDuration::ZERO,
            Some(doublings) => (MIN_BACKOFF * (1 << doublings.min(16))).min(MAX_BACKOFF),
        }
    }
}

/// Varies a delay by up to 20 % either way, so that retries do not come in waves.
fn jittered(delay: SignedDuration) -> SignedDuration {
    delay * rand::random_range(800..=1200) / 1000
}

/// Parses the delay that a `Retry-After` asks for: a number of seconds, or a date in one of the
/// three formats of RFC 9110, section 5.6.7.
fn parse_retry_after(value: &str, now: Timestamp) -> Option<SignedDuration> {
    let value = value.trim_matches([' ', '\t']);
    let is_number = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    let delay = if is_number {
        // A number that does not fit stands for a long time.
        SignedDuration::from_secs(value.parse().unwrap_or(i64::MAX))
    } else {
        parse_http_date(value)?.duration_since(now)
    };
    Some(delay.clamp(SignedDuration::ZERO, MAX_RETRY_AFTER))
}

fn parse_http_date(value: &str) -> Option<Timestamp> {
    let formats = [
        "%a, %d %b %Y %H:%M:%S GMT",
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a %b %e %H:%M:%S %Y",
    ];
    let parsed = formats
        .iter()
        .find_map(|format| BrokenDownTime::parse(format, value).ok())?;
    let timestamp = TimeZone::UTC.to_timestamp(parsed.to_datetime().ok()?);
    // The last day of the year 9999 is beyond the range of a timestamp.
    Some(timestamp.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: SignedDuration = SignedDuration::from_secs(1);
    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    impl EndpointHealth {
        fn record_at(&mut self, outcome: Outcome, now: Timestamp) -> NextStep {
            self.record(outcome, now, now)
        }
    }

    fn failed(retry_after: Option<SignedDuration>) -> Outcome {
        Outcome::Failed { retry_after }
    }

    fn assert_is_about(delay: SignedDuration, expected: SignedDuration) {
        let range = expected * 8 / 10..=expected * 12 / 10;
        assert!(range.contains(&delay), "{delay:?} {expected:?}");
    }

    #[test]
    fn ten_attempts_are_made_in_three_days() {
        let expected = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
        for (failures, seconds) in (1..).zip(expected) {
            let delay = retry_delay(failures, None).unwrap();
            assert_is_about(delay, SECOND * seconds);
        }
        assert_eq!(retry_delay(0, None), Some(SignedDuration::ZERO));
        assert_eq!(retry_delay(10, None), None);
        assert_eq!(retry_delay(10, Some(SECOND)), None);
        assert_eq!(retry_delay(usize::MAX, None), None);
        let total: SignedDuration = ATTEMPT_DELAYS.iter().sum();
        assert_eq!(total, HOUR * 75 + SECOND * (35 * 60 + 5));
    }

    #[test]
    fn retries_come_no_earlier_than_the_receiver_asks() {
        assert_eq!(retry_delay(1, Some(HOUR)), Some(HOUR));
        assert_is_about(retry_delay(4, Some(SECOND)).unwrap(), HOUR * 2);
    }

    #[test]
    fn jitter_is_a_fifth_either_way() {
        let delays: Vec<_> = (0..1000).map(|_| jittered(HOUR)).collect();
        delays
            .iter()
            .for_each(|delay| assert_is_about(*delay, HOUR));
        assert!(delays.iter().any(|delay| *delay < HOUR * 85 / 100));
        assert!(delays.iter().any(|delay| *delay > HOUR * 115 / 100));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: Timestamp = "1994-11-06T08:49:07Z".parse().unwrap();
        let seconds = |n: i32| Some(SECOND * n);
        for (value, expected) in [
            ("0", seconds(0)),
            ("120", seconds(120)),
            (" 120\t", seconds(120)),
            ("86400", seconds(86_400)),
            ("86401", seconds(86_400)),
            ("99999999999999999999999", seconds(86_400)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", seconds(30)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", seconds(30)),
            ("Sun Nov  6 08:49:37 1994", seconds(30)),
            ("Sun, 06 Nov 1994 08:49:06 GMT", seconds(0)),
            ("Fri, 31 Dec 1999 23:59:59 GMT", seconds(86_400)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", seconds(86_400)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("+5", None),
            ("soon", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT, 5", None),
        ] {
            assert_eq!(parse_retry_after(value, now), expected, "{value:?}");
        }
    }

    #[test]
    fn a_response_is_interpreted_by_its_status() {
        let now = Timestamp::UNIX_EPOCH;
        for (status, expected) in [
            (200, Outcome::Delivered),
            (204, Outcome::Delivered),
            (299, Outcome::Delivered),
            (199, failed(Some(SECOND * 7))),
            (301, failed(Some(SECOND * 7))),
            (404, failed(Some(SECOND * 7))),
            (410, Outcome::Gone),
            (429, failed(Some(SECOND * 7))),
            (503, failed(Some(SECOND * 7))),
        ] {
            let outcome = Outcome::of_response(status, Some("7"), now);
            assert_eq!(outcome, expected, "{status}");
        }
        assert_eq!(Outcome::of_response(500, Some("x"), now), failed(None));
        assert_eq!(Outcome::of_response(500, None, now), failed(None));
    }

    #[test]
    fn a_receiver_backs_off_after_consecutive_failures() {
        let now = Timestamp::UNIX_EPOCH;
        let mut health = EndpointHealth::default();
        for _ in 0..4 {
            assert_eq!(health.record_at(failed(None), now), NextStep::Continue);
        }
        let expected = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
        for seconds in expected {
            let NextStep::BackOff(pause) = health.record_at(failed(None), now) else {
                panic!("{health:?}");
            };
            assert_is_about(pause, SECOND * seconds);
        }
        health.consecutive_failures = u32::MAX;
        assert!(matches!(
            health.record_at(failed(None), now),
            NextStep::BackOff(_)
        ));
        assert_eq!(
            health.record_at(Outcome::Delivered, now),
            NextStep::Continue
        );
        assert_eq!(health, EndpointHealth::default());
        let retry_after = health.record_at(failed(Some(HOUR * 3)), now);
        assert_eq!(retry_after, NextStep::BackOff(HOUR * 3));
    }

    #[test]
    fn a_receiver_is_disabled_by_a_410_and_by_five_days_of_failures() {
        let start = Timestamp::UNIX_EPOCH;
        let gone = EndpointHealth::default().record_at(Outcome::Gone, start);
        assert_eq!(gone, NextStep::Disable(DisabledReason::ReceiverGone));
        let mut health = EndpointHealth::default();
        for _ in 0..3 {
            health.record_at(failed(None), start);
        }
        // Nothing was sent in the meantime.
        let few = health.record_at(failed(None), start + HOUR * 120);
        assert_eq!(few, NextStep::Continue);
        let almost = health.record_at(failed(None), start + HOUR * 120 - SECOND);
        assert!(matches!(almost, NextStep::BackOff(_)));
        let mut recovered = health;
        // The clock is fast.
        let doubtful = health.record(failed(None), start + HOUR * 200, start + HOUR);
        assert!(matches!(doubtful, NextStep::BackOff(_)));
        let disabled = health.record_at(failed(None), start + HOUR * 120);
        assert_eq!(disabled, NextStep::Disable(DisabledReason::ReceiverFailing));
        // A success restarts the five days.
        recovered.record_at(Outcome::Delivered, start + HOUR * 120);
        let failed_again = recovered.record_at(failed(None), start + HOUR * 121);
        assert_eq!(failed_again, NextStep::Continue);
        assert_eq!(recovered.failing_since, Some(start + HOUR * 121));
        // The clock of another replica may be behind.
        assert_eq!(recovered.record_at(failed(None), start), NextStep::Continue);
    }
}
