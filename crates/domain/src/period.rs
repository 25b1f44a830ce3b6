//! Periods: days of a time zone, from the first to the last.

use std::iter;

use compact_str::CompactString;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use serde::Serialize;

use crate::{
    date::parse_date,
    invalid::{Invalid, quoted},
    page::{Parameters, set_once},
};

/// A time zone of the IANA database, which is part of the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Zone(CompactString);

impl Zone {
    /// Parses a name. Returns the reason if there is no such time zone.
    pub fn parse(name: &str) -> Result<Self, String> {
        let zone = TimeZone::get(name).ok();
        let known = zone.as_ref().and_then(TimeZone::iana_name);
        known.map(|name| Self(name.into())).ok_or_else(|| {
            format!(
                "must be the name of a time zone (IANA), such as Europe/Berlin or UTC, got {}",
                quoted(name)
            )
        })
    }

    pub fn time_zone(&self) -> TimeZone {
        TimeZone::get(&self.0).expect("it was found when it was parsed")
    }
}

/// Returns the day of a time zone in which a time lies, as [`Period::days`] divides time: where
/// clocks that are set back show midnight twice, the day starts with the first.
pub fn day_of(time: Timestamp, zone: &TimeZone) -> Date {
    let shown = zone.to_datetime(time).date();
    match shown.tomorrow() {
        Ok(tomorrow) if start_of(tomorrow, zone) <= time => tomorrow,
        _ => shown,
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self(CompactString::const_new("UTC"))
    }
}

/// The parameters of a period, as far as they are given.
#[derive(Debug, Default)]
pub struct PeriodParameters {
    from: Option<Date>,
    to: Option<Date>,
    time_zone: Option<Zone>,
}

impl PeriodParameters {
    /// Sets a query parameter. Ignores those that do not belong to a period.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Invalid> {
        match name {
            "from" => set_once("from", &mut self.from, read_date("from", value)?),
            "to" => set_once("to", &mut self.to, read_date("to", value)?),
            "timeZone" => {
                let zone = Zone::parse(value).map_err(|reason| Invalid::new("timeZone", reason))?;
                set_once("timeZone", &mut self.time_zone, zone)
            }
            _ => Ok(()),
        }
    }

    /// Returns the period. It ends today, unless it has another end, and starts with the month in
    /// which it ends.
    pub fn period(self, now: Timestamp, max_days: i32) -> Result<Period, Invalid> {
        let zone = self.time_zone.unwrap_or_default();
        let today = || zone.time_zone().to_datetime(now).date();
        let to = self.to.unwrap_or_else(today);
        let from = self.from.unwrap_or_else(|| to.first_of_month());
        let days = from
            .until(to)
            .map_or(i32::MAX, |span| span.get_days())
            .saturating_add(1);
        if days < 1 {
            let reason = format!("must not be after to, which is {to}, got {from}");
            return Err(Invalid::new("from", reason));
        }
        if days > max_days {
            let reason = format!(
                "the period must be at most {max_days} days long; {from} to {to} is {days} days"
            );
            return Err(Invalid::new("from", reason));
        }
        Ok(Period { from, to, zone })
    }
}

fn read_date(name: &'static str, value: &str) -> Result<Date, Invalid> {
    parse_date(value).ok_or_else(|| {
        let got = quoted(value);
        Invalid::new(name, format!("must be a date, as YYYY-MM-DD, got {got}"))
    })
}

/// Days of a time zone, from the first to the last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Period {
    pub from: Date,
    pub to: Date,
    pub zone: Zone,
}

impl Period {
    /// The maximum number of days of a period, about ten years.
    pub const MAX_DAYS: i32 = 3660;

    /// Returns the query parameters that produce this period.
    pub fn parameters(&self) -> Parameters<'_> {
        vec![
            ("from", self.from.to_string().into()),
            ("to", self.to.to_string().into()),
            ("timeZone", self.zone.0.as_str().into()),
        ]
    }

    /// Returns the time at which the period starts, and the first one after it.
    pub fn bounds(&self) -> (Timestamp, Timestamp) {
        let zone = self.zone.time_zone();
        (start_of(self.from, &zone), self.end_of(self.to))
    }

    /// Returns the first time after a day of the period.
    pub fn end_of(&self, day: Date) -> Timestamp {
        let after = day.tomorrow();
        after.map_or(Timestamp::MAX, |after| {
            start_of(after, &self.zone.time_zone())
        })
    }

    /// Returns the days of the period, with the time at which each starts.
    pub fn days(&self) -> Vec<(Timestamp, Date)> {
        let zone = self.zone.time_zone();
        let days = iter::successors(Some(self.from), |day| day.tomorrow().ok());
        days.take_while(|day| *day <= self.to)
            .map(|day| (start_of(day, &zone), day))
            .collect()
    }
}

/// Returns the first moment of a day, which is not midnight if clocks are advanced then.
fn start_of(day: Date, zone: &TimeZone) -> Timestamp {
    let start = day
        .to_zoned(zone.clone())
        .and_then(|midnight| midnight.start_of_day());
    start.map_or(Timestamp::MAX, |start| start.timestamp())
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn period(query: &str) -> Result<Period, String> {
        let mut parameters = PeriodParameters::default();
        let set = form_urlencoded::parse(query.as_bytes())
            .try_for_each(|(name, value)| parameters.set(&name, &value));
        let now = "2026-11-30T23:30:00Z".parse().unwrap();
        set.and_then(|()| parameters.period(now, 366))
            .map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn a_period_is_this_month_by_default() {
        for (query, from, to) in [
            ("", "2026-11-01", "2026-11-30"),
            ("timeZone=europe/berlin", "2026-12-01", "2026-12-01"),
            ("to=2024-02-29", "2024-02-01", "2024-02-29"),
            ("from=2026-11-30", "2026-11-30", "2026-11-30"),
            ("from=2025-11-30", "2025-11-30", "2026-11-30"),
            ("from=9999-12-31&to=9999-12-31", "9999-12-31", "9999-12-31"),
        ] {
            let found = period(query).unwrap();
            let found = (found.from.to_string(), found.to.to_string());
            assert_eq!(found, (from.into(), to.into()), "{query}");
        }
        for (query, message) in [
            (
                "from=2026-12-01",
                "from: must not be after to, which is 2026-11-30, got 2026-12-01",
            ),
            (
                "from=2025-11-29",
                "from: the period must be at most 366 days long; 2025-11-29 to 2026-11-30 is 367 \
                 days",
            ),
            (
                "to=2026-02-29",
                "to: must be a date, as YYYY-MM-DD, got \"2026-02-29\"",
            ),
            ("to=2026-02-28&to=2026-02-28", "to: must not be repeated"),
            (
                "timeZone=Europe/Bielefeld",
                "timeZone: must be the name of a time zone (IANA), such as Europe/Berlin or UTC, \
                 got \"Europe/Bielefeld\"",
            ),
        ] {
            assert_eq!(period(query).unwrap_err(), message);
        }
    }

    /// Days start when the clocks of the time zone show a new date.
    #[test]
    fn days_follow_the_clocks_of_the_time_zone() {
        for (zone, day, start, end) in [
            (
                "UTC",
                "2024-02-29",
                "2024-02-29T00:00:00Z",
                "2024-03-01T00:00:00Z",
            ),
            (
                "Europe/Berlin",
                "2026-03-29",
                "2026-03-28T23:00:00Z",
                "2026-03-29T22:00:00Z",
            ),
            (
                "Asia/Kathmandu",
                "2026-01-01",
                "2025-12-31T18:15:00Z",
                "2026-01-01T18:15:00Z",
            ),
            (
                "Australia/Lord_Howe",
                "2026-04-05",
                "2026-04-04T13:00:00Z",
                "2026-04-05T13:30:00Z",
            ),
            // Clocks are advanced at midnight, and the day starts at one.
            (
                "America/Santiago",
                "2026-09-06",
                "2026-09-06T04:00:00Z",
                "2026-09-07T03:00:00Z",
            ),
        ] {
            let found = period(&format!("timeZone={zone}&from={day}&to={day}")).unwrap();
            let expected = (start.parse().unwrap(), end.parse().unwrap());
            assert_eq!(found.bounds(), expected, "{zone}");
        }
    }

    /// The days of a period, and the day of a time, divide time in the same way, also where clocks
    /// are set across midnight or skip a day.
    #[test]
    fn every_time_lies_in_the_day_that_has_started() {
        for (zone, from, to) in [
            ("Europe/Berlin", "2026-03-27", "2026-03-31"),
            ("Asia/Beirut", "2025-10-24", "2025-10-28"),
            ("America/Havana", "2025-10-31", "2025-11-04"),
            ("America/St_Johns", "2010-11-05", "2010-11-09"),
            ("America/Santiago", "2026-09-04", "2026-09-08"),
            ("Pacific/Apia", "2011-12-28", "2012-01-01"),
        ] {
            let period = period(&format!("timeZone={zone}&from={from}&to={to}")).unwrap();
            let days = period.days();
            let (start, end) = period.bounds();
            let time_zone = period.zone.time_zone();
            let step = SignedDuration::from_secs(30);
            let mut time = start;
            while time < end {
                let after = days.partition_point(|(start, _)| *start <= time);
                assert_eq!(day_of(time, &time_zone), days[after - 1].1, "{zone} {time}");
                time += step;
            }
        }
    }
}
