//! Durations on the command line.

use std::ops::RangeInclusive;

use domain::api_key::Rotation;
use jiff::{SignedDuration, Span, SpanRelativeTo};

pub fn reservation(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 1..=3660 * 24 * 3600)
        .ok_or("must be a duration from 1s to 3660d, such as 30m, 12h or 2d")
}

pub fn event_age(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 1..=3660 * 24 * 3600)
        .ok_or("must be a duration from 1s to 3660d, such as 12h, 30d or 1095d")
}

pub fn backup_interval(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 1..=366 * 24 * 3600)
        .ok_or("must be a duration from 1s to 366d, such as 1h, 24h or 7d")
}

pub fn drain_delay(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 0..=600).ok_or("must be a duration from 0s to 10m, such as 5s")
}

pub fn grace(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 0..=Rotation::MAX_GRACE.as_secs())
        .ok_or("must be a duration from 0s to 366d, such as 1h, 24h or 7d")
}

/// Parses a duration within a range of seconds. A day has 24 hours: the duration
/// is not relative to a calendar date.
fn duration(text: &str, seconds: RangeInclusive<i64>) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let in_range = seconds.contains(&duration.as_secs()) && !duration.is_negative();
    in_range.then_some(duration)
}
