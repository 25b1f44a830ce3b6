//! Dates of records, such as a date of birth.

use std::fmt;

use jiff::{
    SignedDuration, Timestamp,
    civil::{Date, date},
    tz::TimeZone,
};
use serde::Serialize;

use crate::{
    invalid::quoted,
    json::Value,
    members::{Scalar, string},
};

const EARLIEST: Date = date(1900, 1, 1);

/// A date that has come: from 1900 to tomorrow, because it may be tomorrow already where the
/// client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PastDate(Date);

impl PastDate {
    /// Parses a date. Returns the reason if it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_at(text, Timestamp::now())
    }

    fn parse_at(text: &str, now: Timestamp) -> Result<Self, String> {
        let tomorrow = now + SignedDuration::from_hours(24);
        let latest = TimeZone::UTC.to_datetime(tomorrow).date();
        let invalid = || {
            let got = quoted(text);
            format!("must be a date from {EARLIEST} to {latest}, as YYYY-MM-DD, got {got}")
        };
        let date = Self::from_store(text).ok_or_else(invalid)?;
        (EARLIEST..=latest)
            .contains(&date.0)
            .then_some(date)
            .ok_or_else(invalid)
    }

    pub fn from_store(text: &str) -> Option<Self> {
        let date: Date = text.parse().ok()?;
        // The parser also accepts other forms.
        (date.to_string() == text).then_some(Self(date))
    }
}

impl fmt::Display for PastDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Scalar for PastDate {
    fn from_json(value: Value) -> Result<Self, String> {
        Self::parse(&string(value)?)
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(cell.trim())
    }

    fn to_cell(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_come_somewhere() {
        let now = "2026-02-27T23:59:59Z".parse().unwrap();
        for valid in ["1900-01-01", "2024-02-29", "2026-02-27", "2026-02-28"] {
            let parsed = PastDate::parse_at(valid, now);
            assert_eq!(parsed.unwrap().to_string(), valid);
        }
        for invalid in [
            "1899-12-31",
            "2026-03-01",
            "2026-02-29",
            "2026-2-27",
            "20260227",
            "2026-02-27T00:00:00",
            "",
        ] {
            assert_eq!(
                PastDate::parse_at(invalid, now).unwrap_err(),
                format!(
                    "must be a date from 1900-01-01 to 2026-02-28, as YYYY-MM-DD, got {}",
                    quoted(invalid)
                )
            );
        }
    }
}
