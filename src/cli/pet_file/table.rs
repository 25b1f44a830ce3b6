//! A table: rows of cells, of which one names the columns.

use std::rc::Rc;

use csv::StringRecord;

use super::{
    columns::{Columns, NoHeader, is_blank, list},
    dates::DateRules,
    options::TableOptions,
    prices::PriceColumn,
    record::{RecordError, Records},
    rules::Rules,
};
use crate::cli::shell_quote;

/// Rows that are not blank, each with its line.
pub type Rows = Box<dyn Iterator<Item = (u64, Result<StringRecord, RecordError>)>>;

/// The number of rows among which the header is.
pub const SEARCHED_ROWS: usize = 20;

/// The kind of file that a table is in.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    Csv,
    /// A sheet of a workbook, with the first and the last row of each merged cell that extends
    /// over several.
    Sheet {
        merged: &'a [(u64, u64)],
    },
}

impl Origin<'_> {
    /// Returns the word for a line in messages.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Csv => "line",
            Self::Sheet { .. } => "row",
        }
    }

    /// Returns the last line of a header that starts on this line.
    fn last_line(self, line: u64) -> u64 {
        let merged = match self {
            Self::Csv => &[],
            Self::Sheet { merged } => merged,
        };
        let starting_here = merged.iter().filter(|(first, _)| *first == line);
        starting_here.map(|(_, last)| *last).fold(line, u64::max)
    }
}

/// A table whose header was found.
pub struct Table {
    pub columns: Columns,
    /// The last line of the header.
    pub header_line: u64,
    /// The number of rows above the header.
    pub skipped: usize,
    /// The rows below the header.
    pub rows: Rows,
}

impl Table {
    /// Finds the header: the first row with a name and a category.
    pub fn new(
        mut rows: Rows,
        origin: Origin,
        options: &Rc<TableOptions>,
        rules: &Rules,
    ) -> Result<Self, String> {
        let unit = origin.unit();
        let mut first: Vec<_> = rows.by_ref().take(SEARCHED_ROWS).collect();
        let mut best: Option<Candidate> = None;
        for at in 0..first.len() {
            let (line, row) = match &first[at] {
                (line, Ok(row)) => (*line, row),
                // Rows above the header are skipped, but none of the rest can be read.
                (_, Err(RecordError::Invalid(_))) => continue,
                (line, Err(RecordError::Fatal(reason))) => {
                    return Err(format!("{unit} {line}: {reason}"));
                }
            };
            let last = origin.last_line(line);
            let below = first[at + 1..].iter();
            let merged_rows = below.take_while(|(line, _)| *line <= last);
            let merged_rows: Vec<_> = merged_rows
                .filter_map(|(_, row)| row.as_ref().ok())
                .collect();
            let headings = lowest(row, &merged_rows);
            match Columns::from_headings(&headings, options, rules) {
                Ok(columns) => {
                    let rest = first.split_off(at + 1 + merged_rows.len());
                    let rows = rest.into_iter().chain(rows);
                    let width = columns.headings.len();
                    return Ok(Self {
                        columns,
                        header_line: last,
                        skipped: at,
                        rows: match origin {
                            Origin::Csv => Box::new(rows),
                            Origin::Sheet { .. } => Box::new(without_unnamed(rows, width)),
                        },
                    });
                }
                Err(NoHeader::Invalid(reason)) => return Err(format!("{unit} {line}: {reason}")),
                Err(NoHeader::Missing(missing, recognised)) => {
                    let filled = headings.iter().filter(|cell| !is_blank(cell)).count();
                    let rank = (recognised, filled > 1);
                    if best.as_ref().is_none_or(|best| rank > best.rank) {
                        best = Some(Candidate {
                            rank,
                            line,
                            missing,
                            headings,
                        });
                    }
                }
            }
        }
        let Some(Candidate {
            line,
            missing,
            headings,
            ..
        }) = best
        else {
            return Err("the file is empty; its first line must name the columns".into());
        };
        let member = missing.split(' ').next_back().unwrap_or(missing);
        let first = headings.iter().map(str::trim).find(|cell| !cell.is_empty());
        let example = shell_quote(&format!("{}={member}", first.unwrap_or_default()));
        Err(format!(
            "one of the first rows must name the columns: no {missing} column, found {} in {unit} \
             {line}; to say which one it is, add --column, such as --column {example}",
            list(headings.iter())
        ))
    }

    /// Looks at the prices and the dates in all rows.
    pub fn examine(self, dates: &mut DateRules) -> PriceColumn {
        let mut found = PriceColumn::default();
        let mut is_mixed = false;
        for row in self.rows.filter_map(|(_, row)| row.ok()) {
            for (column, cell) in self.columns.dates(&row) {
                dates.examine(column, cell);
            }
            let (mark, lacks_currency) = self.columns.examine_price(&row);
            found.lacks_currency |= lacks_currency;
            if let Some(mark) = mark {
                is_mixed |= *found.decimal_mark.get_or_insert(mark) != mark;
            }
        }
        found.decimal_mark = found.decimal_mark.filter(|_| !is_mixed);
        found
    }

    /// Reads the animals in the rows.
    pub fn into_records(self) -> Records {
        let Self { columns, rows, .. } = self;
        Box::new(rows.map(move |(line, row)| {
            let pet = row.and_then(|row| columns.pet(&row).map_err(RecordError::Invalid));
            (line, pet)
        }))
    }
}

/// A row that might be meant as the header.
struct Candidate {
    /// The number of recognised columns, and true if there are several cells: a title is one.
    rank: (usize, bool),
    line: u64,
    missing: &'static str,
    headings: StringRecord,
}

/// Leaves out the cells of columns without a heading. In a sheet they are notes; in CSV, a row
/// with more cells than the header rather has a delimiter that is not quoted.
fn without_unnamed(
    rows: impl Iterator<Item = (u64, Result<StringRecord, RecordError>)>,
    width: usize,
) -> impl Iterator<Item = (u64, Result<StringRecord, RecordError>)> {
    rows.map(move |(line, row)| {
        let row = row.map(|mut row| {
            row.truncate(width);
            row
        });
        (line, row)
    })
}

/// Returns the lowest cell of each column that is not blank.
fn lowest(row: &StringRecord, below: &[&StringRecord]) -> StringRecord {
    let rows = || below.iter().rev().copied().chain([row]);
    let width = rows().map(StringRecord::len).max().unwrap_or(0);
    let cells = (0..width).map(|at| {
        let mut column = rows().filter_map(|row| row.get(at));
        column.find(|cell| !is_blank(cell)).unwrap_or_default()
    });
    cells.collect()
}
