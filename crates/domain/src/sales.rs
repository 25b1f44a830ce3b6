//! Reports of sales: what was sold and returned in a period, by time, category or API key.

mod day;

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize, Serializer, ser::SerializeMap};

use crate::{
    invalid::Invalid,
    members::Choice,
    page::set_once,
    period::{Period, PeriodParameters, Zone},
    price::{Currency, Price},
};

pub use day::{DayCounter, DaySales};

/// The groups of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    #[default]
    Day,
    /// From Monday to Sunday (ISO 8601).
    Week,
    Month,
    /// The category of the pet when it was sold.
    Category,
    /// The API key that completed the order.
    Key,
}

impl Choice for Grouping {
    const ALL: &[Self] = &[
        Self::Day,
        Self::Week,
        Self::Month,
        Self::Category,
        Self::Key,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Category => "category",
            Self::Key => "key",
        }
    }
}

impl Grouping {
    /// The maximum number of days of a report by day.
    const MAX_DAYS_BY_DAY: i32 = 366;

    fn max_days(self) -> i32 {
        match self {
            Self::Day => Self::MAX_DAYS_BY_DAY,
            _ => Period::MAX_DAYS,
        }
    }

    /// Returns the group of a day, if groups are parts of the period, which starts at `from`.
    fn part_of(self, day: Date, from: Date) -> Option<Group> {
        let first = match self {
            Self::Day => day,
            Self::Week => {
                let days = day.weekday().to_monday_zero_offset();
                let monday = day.checked_sub(jiff::Span::new().days(days));
                monday.unwrap_or(Date::MIN)
            }
            Self::Month => day.first_of_month(),
            Self::Category | Self::Key => return None,
        };
        Some(Group::Start(first.max(from)))
    }
}

/// The query of a report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SalesQuery {
    pub period: Period,
    pub by: Grouping,
}

impl SalesQuery {
    /// Parses a query string. Unknown parameters are ignored.
    pub fn parse(query: &str, now: Timestamp) -> Result<Self, Invalid> {
        let mut by = None;
        let mut parameters = PeriodParameters::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "by" => {
                    let parsed =
                        Grouping::parse(&value).map_err(|reason| Invalid::new("by", reason))?;
                    set_once("by", &mut by, parsed)?;
                }
                _ => parameters.set(&name, &value)?,
            }
        }
        let by: Grouping = by.unwrap_or_default();
        let period = parameters.period(now, by.max_days())?;
        Ok(Self { period, by })
    }
}

/// A sale, or the return of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movement {
    pub kind: MovementKind,
    pub category_id: Option<i64>,
    pub api_key_id: Option<i64>,
    pub price: Option<Price>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovementKind {
    Sold,
    Returned,
}

/// The times at which an order counts in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleTimes {
    pub sold: Option<Timestamp>,
    pub returned: Option<Timestamp>,
}

impl SaleTimes {
    /// Reads the JSON of an order. Returns `None` if that does not tell.
    pub fn of_order(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Times<'a> {
            status: &'a str,
            completed_at: Option<Timestamp>,
            returned_at: Option<Timestamp>,
        }
        let times: Times = serde_json::from_str(json).ok()?;
        let is_known = match times.status {
            "completed" => times.completed_at.is_some(),
            "returned" => times.completed_at.is_some() && times.returned_at.is_some(),
            _ => true,
        };
        is_known.then_some(Self {
            sold: times.completed_at,
            returned: times.returned_at,
        })
    }
}

/// A report of sales, which is added up from days. Returns count when the pet comes back, so that
/// the report of a period that is over does not change.
#[derive(Debug)]
pub struct SalesReport {
    query: SalesQuery,
    groups: BTreeMap<Group, Totals>,
    totals: Totals,
    /// The number of totals of all groups.
    total_count: usize,
}

/// A group. The one for what was not recorded is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Start(Date),
    Id(i64),
    Unknown,
}

/// Sums by currency.
type Totals = BTreeMap<TotalKey, Sums>;

/// The currency of sums. Sales without a price come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TotalKey {
    Currency(Currency),
    Unpriced,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    sold: u64,
    returned: u64,
    sold_amount: i64,
    returned_amount: i64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.sold += other.sold;
        self.returned += other.returned;
        self.sold_amount = self.sold_amount.saturating_add(other.sold_amount);
        self.returned_amount = self.returned_amount.saturating_add(other.returned_amount);
    }
}

/// The reason why there is no report: it would have too many totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyTotals;

impl SalesReport {
    /// The maximum number of totals of all groups.
    pub const MAX_TOTALS: usize = 10_000;

    /// Starts a report without sales.
    pub fn new(query: SalesQuery) -> Self {
        Self {
            query,
            groups: BTreeMap::new(),
            totals: Totals::new(),
            total_count: 0,
        }
    }

    /// Adds a day of the period.
    pub fn add(&mut self, day: Date, sales: &DaySales) -> Result<(), TooManyTotals> {
        for (key, sums) in &sales.totals {
            self.totals.entry(*key).or_default().add(sums);
        }
        let SalesQuery { by, period } = &self.query;
        if let Some(part) = by.part_of(day, period.from) {
            for (key, sums) in &sales.totals {
                self.add_total(part, *key, sums)?;
            }
            return Ok(());
        }
        let groups = match by {
            Grouping::Key => &sales.by_key,
            _ => &sales.by_category,
        };
        for ((group, key), sums) in groups.as_ref().map_err(|too_many| *too_many)? {
            self.add_total(*group, *key, sums)?;
        }
        Ok(())
    }

    fn add_total(&mut self, group: Group, key: TotalKey, sums: &Sums) -> Result<(), TooManyTotals> {
        let totals = self.groups.entry(group).or_default();
        self.total_count += usize::from(!totals.contains_key(&key));
        if self.total_count > Self::MAX_TOTALS {
            return Err(TooManyTotals);
        }
        totals.entry(key).or_default().add(sums);
        Ok(())
    }
}

impl From<TooManyTotals> for Invalid {
    fn from(_: TooManyTotals) -> Self {
        let max = SalesReport::MAX_TOTALS;
        let reason = format!("gives more than {max} totals; choose a shorter period");
        Self::new("by", reason)
    }
}

impl Serialize for SalesReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Report<'a> {
            from: Date,
            to: Date,
            by: Grouping,
            time_zone: &'a Zone,
            groups: Vec<NamedGroup<'a>>,
            totals: Vec<Total>,
        }
        let SalesQuery { period, by } = &self.query;
        let groups = self.groups.iter().map(|(group, totals)| NamedGroup {
            by: *by,
            group: *group,
            totals,
        });
        let report = Report {
            from: period.from,
            to: period.to,
            by: *by,
            time_zone: &period.zone,
            groups: groups.collect(),
            totals: totals_json(&self.totals),
        };
        report.serialize(serializer)
    }
}

struct NamedGroup<'a> {
    by: Grouping,
    group: Group,
    totals: &'a Totals,
}

impl Serialize for NamedGroup<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match (self.group, self.by) {
            (Group::Start(day), _) => map.serialize_entry("start", &day)?,
            (Group::Id(id), Grouping::Key) => map.serialize_entry("keyId", &id)?,
            (Group::Id(id), _) => map.serialize_entry("categoryId", &id)?,
            (Group::Unknown, _) => {}
        }
        map.serialize_entry("totals", &totals_json(self.totals))?;
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Total {
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<Currency>,
    sold: u64,
    returned: u64,
    #[serde(flatten)]
    amounts: Option<Amounts>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Amounts {
    sold_amount: i64,
    returned_amount: i64,
    amount: i64,
}

fn totals_json(totals: &Totals) -> Vec<Total> {
    let all = totals.iter().map(|(key, sums)| {
        let currency = match key {
            TotalKey::Currency(currency) => Some(*currency),
            TotalKey::Unpriced => None,
        };
        Total {
            currency,
            sold: sums.sold,
            returned: sums.returned,
            amounts: currency.map(|_| Amounts {
                sold_amount: sums.sold_amount,
                returned_amount: sums.returned_amount,
                amount: sums.sold_amount.saturating_sub(sums.returned_amount),
            }),
        }
    });
    all.collect()
}
