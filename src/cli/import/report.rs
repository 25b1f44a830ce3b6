//! The report about the layout of a table: the sheet, the encoding and the columns.

use std::array;

use super::{
    super::{
        counted,
        pet_file::{Table, list},
        status,
        table::{cut, table},
    },
    file::ImportFile,
};

/// The number of rows that are shown.
const SHOWN_ROWS: usize = 3;
/// The width of a cell that is shown.
const MAX_WIDTH: usize = 20;

impl ImportFile {
    /// Reports what was left out of a table and, with `has_rows`, its columns with the first rows.
    pub fn report(&self, has_rows: bool) -> Result<(), String> {
        if !self.layout.is_table() {
            return Ok(());
        }
        let name = &self.name;
        if self.layout.is_windows_1252() {
            status!(
                "{name} is not in UTF-8, so it was read as Windows-1252; check the names with \
                 accents."
            );
        }
        if let Some((sheet, others)) = self.layout.sheet()
            && !others.is_empty()
        {
            let sheet = list([sheet].into_iter());
            let others = list(others.iter().map(String::as_str));
            status!("Read sheet {sheet}; not read: {others}. To read one of these, use --sheet.");
        }
        if let Some(currency) = self.currency {
            status!(
                "Prices without a currency are in {}; to choose another one, use --currency.",
                currency.as_str()
            );
        }
        for (column, example, order) in self.layout.ordered_dates() {
            let part = order.first_part();
            status!("Read dates such as {example} in {column} with the {part} first.");
        }
        let table = self.table()?;
        let unit = self.layout.unit();
        if table.skipped > 0 {
            let skipped = counted(table.skipped as u64, unit);
            status!(
                "The header is in {unit} {}; skipped {skipped} above it.",
                table.header_line
            );
        }
        let headings = &table.columns.headings;
        let ignored = headings.iter().filter(|(_, column)| column.is_none());
        let ignored = list(ignored.map(|(heading, _)| &**heading));
        if !ignored.is_empty() {
            status!("Ignored columns: {ignored}. To read one, use --column HEADING=MEMBER.");
        }
        if has_rows {
            status!("{}", preview(table, unit).trim_end());
        }
        Ok(())
    }
}

/// Returns the columns of a table, each with its member and its first cells.
fn preview(read: Table, unit: &str) -> String {
    let rows: Vec<_> = read
        .rows
        .filter_map(|(line, row)| Some((line, row.ok()?)))
        .take(SHOWN_ROWS)
        .collect();
    let title = |at: usize| rows.get(at).map(|(line, _)| format!("{unit} {line}"));
    let titles: [String; SHOWN_ROWS] = array::from_fn(|at| title(at).unwrap_or_default());
    let [first, second, third] = &titles;
    let header = ["column", "read as", first, second, third];
    let columns = read
        .columns
        .headings
        .into_iter()
        .enumerate()
        .filter(|(_, (heading, _))| !heading.is_empty());
    let lines = columns.map(|(position, (heading, column))| {
        let cell = |at: usize| {
            let (_, row) = rows.get(at)?;
            Some(cut(row.get(position)?, MAX_WIDTH))
        };
        let [first, second, third] = array::from_fn(|at| cell(at).unwrap_or_default());
        let member = column.unwrap_or_else(|| "(ignored)".into());
        [cut(&heading, MAX_WIDTH), member, first, second, third]
    });
    table(header, lines)
}
