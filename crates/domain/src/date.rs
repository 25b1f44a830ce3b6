//! Dates of records, such as a date of birth.

use compact_str::CompactString;
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
/// client is. It is kept as text, YYYY-MM-DD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PastDate(CompactString);

impl PastDate {
    /// Parses a date. Returns the reason if it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_at(text, Timestamp::now())
    }

    fn parse_at(text: &str, now: Timestamp) -> Result<Self, String> {
        let tomorrow = now + SignedDuration::from_hours(24);
        let latest = TimeZone::UTC.to_datetime(tomorrow).date();
        match parse_date(text) {
            Some(date) if (EARLIEST..=latest).contains(&date) => Ok(Self(text.into())),
            _ => {
                let got = quoted(text);
                Err(format!(
                    "must be a date from {EARLIEST} to {latest}, as YYYY-MM-DD, got {got}"
                ))
            }
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads a date that was stored. Returns `None` if it is not one.
    pub fn from_store(text: &str) -> Option<Self> {
        parse_date(text).map(|_| Self(text.into()))
    }
}

/// Parses YYYY-MM-DD. The parser of dates also accepts other forms, and is far slower.
pub(crate) fn parse_date(text: &str) -> Option<Date> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else {
        return None;
    };
    let two_digits = |tens: &u8, ones: &u8| {
        let is_number = tens.is_ascii_digit() && ones.is_ascii_digit();
        is_number.then(|| (tens - b'0') * 10 + (ones - b'0'))
    };
    let century = i16::from(two_digits(y1, y2)?);
    let year = century * 100 + i16::from(two_digits(y3, y4)?);
    let month = two_digits(m1, m2)?.cast_signed();
    let day = two_digits(d1, d2)?.cast_signed();
    Date::new(year, month, day).ok()
}

impl Scalar for PastDate {
    fn from_json(value: Value) -> Result<Self, String> {
        Self::parse(&string(value)?)
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(cell.trim())
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
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
            assert_eq!(parsed.unwrap().as_str(), valid);
        }
        for invalid in [
            "1899-12-31",
            "2026-03-01",
            "2026-02-29",
            "2026-2-27",
            "20260227",
            "2026-13-01",
            "2026-0a-27",
            "2026-02-27 ",
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
