//! The dates of a table, as people and spreadsheets of several countries write them.
//!
//! The console reads them in the same way; tests/import-files has the rule and its cases.

use std::{borrow::Cow, collections::BTreeMap};

use clap::ValueEnum;

use domain::{date::PastDate, invalid::quoted};

/// The columns that have dates.
pub const DATES: [&str; 2] = ["birthDate", "acquiredOn"];

/// The order of a day and a month, where either could be the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DateOrder {
    /// The day first: 5/6/2020 is in June.
    Dmy,
    /// The month first: 5/6/2020 is in May.
    Mdy,
}

impl DateOrder {
    /// Returns the name of the part that is first.
    pub fn first_part(self) -> &'static str {
        match self {
            Self::Dmy => "day",
            Self::Mdy => "month",
        }
    }
}

/// The rules by which the dates of a table are read.
#[derive(Debug, Clone, Default)]
pub struct DateRules {
    /// The order that a person has chosen for dates that nothing else tells.
    chosen: Option<DateOrder>,
    columns: BTreeMap<&'static str, DateColumn>,
}

/// A column, after its cells were looked at.
#[derive(Debug, Clone, Default)]
struct DateColumn {
    /// The order of the dates that are possible in only one, until they differ.
    order: Option<DateOrder>,
    is_mixed: bool,
    /// The first date that is possible in both orders.
    ambiguous: Option<String>,
}

/// A date as it is written in a cell.
enum WrittenDate<'a> {
    Clear {
        year: &'a str,
        month: u8,
        day: u8,
        /// The order, if the date tells the one of others.
        order: Option<DateOrder>,
    },
    Ambiguous {
        year: &'a str,
        first: u8,
        second: u8,
    },
}

impl DateRules {
    pub fn new(chosen: Option<DateOrder>) -> Self {
        let columns = BTreeMap::new();
        Self { chosen, columns }
    }

    /// Looks at a cell of a column, to learn the order of the others.
    pub fn examine(&mut self, column: &'static str, cell: &str) {
        let state = self.columns.entry(column).or_default();
        match WrittenDate::parse(cell.trim()) {
            Some(WrittenDate::Clear {
                order: Some(order), ..
            }) => state.is_mixed |= *state.order.get_or_insert(order) != order,
            Some(WrittenDate::Ambiguous { .. }) => {
                state.ambiguous.get_or_insert_with(|| cell.trim().into());
            }
            _ => {}
        }
    }

    fn order(&self, column: &str) -> Option<DateOrder> {
        let column = self.columns.get(column).filter(|column| !column.is_mixed);
        column.and_then(|column| column.order).or(self.chosen)
    }

    /// Returns the columns with dates that only the order tells, each with the first of them.
    pub fn ordered(&self) -> impl Iterator<Item = (&'static str, &str, DateOrder)> {
        self.columns.iter().filter_map(|(column, state)| {
            let example = state.ambiguous.as_deref()?;
            Some((*column, example, self.order(column)?))
        })
    }

    /// Returns a date as YYYY-MM-DD, or the cell if it is no date that exists.
    pub fn read<'a>(&self, column: &str, cell: &'a str) -> Result<Cow<'a, str>, String> {
        let (year, month, day) = match WrittenDate::parse(cell.trim()) {
            None => return Ok(cell.into()),
            Some(WrittenDate::Clear {
                year, month, day, ..
            }) => (year, month, day),
            Some(WrittenDate::Ambiguous {
                year,
                first,
                second,
            }) => match self.order(column) {
                Some(DateOrder::Dmy) => (year, second, first),
                Some(DateOrder::Mdy) => (year, first, second),
                None => return Err(self.ambiguous(column, cell)),
            },
        };
        let date = format!("{year}-{month:02}-{day:02}");
        Ok(if PastDate::from_store(&date).is_some() {
            date.into()
        } else {
            cell.into()
        })
    }

    /// Returns the same reason for all dates of a column, which are then reported together.
    fn ambiguous(&self, column: &str, cell: &str) -> String {
        let state = self.columns.get(column);
        let example = state.and_then(|state| state.ambiguous.as_deref());
        format!(
            "{column}: dates such as {} may have the day or the month first, and the other dates \
             of the column do not tell; say which with --date-order dmy or --date-order mdy",
            quoted(example.unwrap_or(cell.trim()))
        )
    }
}

impl<'a> WrittenDate<'a> {
    /// Parses three numbers with the same mark between them. Returns `None` if they are no date.
    fn parse(cell: &'a str) -> Option<Self> {
        let mark = cell.chars().find(|c| !c.is_ascii_digit())?;
        let parts: Vec<_> = cell.split(mark).collect();
        let [first, second, third] = parts[..] else {
            return None;
        };
        let number = |part: &str| {
            let is_short = part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse::<u8>().ok().filter(|_| is_short)
        };
        let is_year = |part: &str| part.len() == 4 && part.bytes().all(|it| it.is_ascii_digit());
        let clear = |year, month, day, order| Self::Clear {
            year,
            month,
            day,
            order,
        };
        if !matches!(mark, '.' | '/' | '-') {
            return None;
        }
        if is_year(first) {
            return Some(clear(first, number(second)?, number(third)?, None));
        }
        let year = Some(third).filter(|third| is_year(third))?;
        let first = number(first)?;
        let second = number(second)?;
        let is_possible = |day, month| (1..=31).contains(&day) && (1..=12).contains(&month);
        match (is_possible(first, second), is_possible(second, first)) {
            _ if mark == '.' => Some(clear(year, second, first, None)),
            (true, true) if first != second => Some(Self::Ambiguous {
                year,
                first,
                second,
            }),
            (true, true) => Some(clear(year, first, first, None)),
            (true, false) => Some(clear(year, second, first, Some(DateOrder::Dmy))),
            (false, true) => Some(clear(year, first, second, Some(DateOrder::Mdy))),
            (false, false) => None,
        }
    }
}
