//! Writes exported records: CSV with a header line, or JSON Lines.

mod order;
mod pet;
mod register;

use std::{
    borrow::Cow,
    collections::HashSet,
    ffi::OsStr,
    io::{self, BufWriter, Write},
    path::Path,
};

use clap::ValueEnum;
use serde::Serialize;

use super::{escape_path, formula};
use domain::members::Cell;
pub use order::{REQUIRED_ORDER_COLUMNS, order_cells, order_columns};
pub use pet::PetRow;
pub use register::{register_cells, register_columns};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// CSV with a header line.
    Csv,
    /// JSON Lines: one JSON object per line, as in the API.
    Jsonl,
}

impl ExportFormat {
    /// Returns the chosen format, or else that of the file's extension.
    pub fn of(path: &Path, chosen: Option<Self>) -> Result<Self, String> {
        let extension = path
            .extension()
            .and_then(OsStr::to_str)
            .map(str::to_ascii_lowercase);
        let format = chosen.or(match extension.as_deref() {
            Some("csv") => Some(Self::Csv),
            Some("jsonl" | "ndjson") => Some(Self::Jsonl),
            _ => None,
        });
        format.ok_or_else(|| {
            format!(
                "{} is neither .csv nor .jsonl; use one of these, or add --format csv or --format \
                 jsonl",
                escape_path(path)
            )
        })
    }
}

pub enum RecordWriter<W: Write> {
    Csv {
        file: Box<csv::Writer<W>>,
        /// For each column, true if it is written.
        is_written: Vec<bool>,
    },
    Jsonl(BufWriter<W>),
}

impl<W: Write> RecordWriter<W> {
    pub fn new(format: ExportFormat, file: W) -> Self {
        match format {
            ExportFormat::Csv => Self::Csv {
                file: Box::new(csv::Writer::from_writer(file)),
                is_written: Vec::new(),
            },
            ExportFormat::Jsonl => Self::Jsonl(BufWriter::new(file)),
        }
    }

    /// Writes the header line of a CSV file, with the first columns, and of the optional ones
    /// those in which a record has a value.
    pub fn write_header(
        &mut self,
        columns: &[Cow<'static, str>],
        required: usize,
        used_columns: &HashSet<&str>,
    ) -> io::Result<()> {
        let Self::Csv { file, is_written } = self else {
            return Ok(());
        };
        let is_used = |column: &str| {
            column.starts_with("metadata.") || used_columns.contains(&*database_column(column))
        };
        let numbered = columns.iter().enumerate();
        *is_written = numbered
            .map(|(number, column)| number < required || is_used(column))
            .collect();
        let written = columns.iter().zip(&*is_written).filter(|(_, is)| **is);
        file.write_record(written.map(|(column, _)| column.as_bytes()))
            .map_err(into_io)
    }

    /// Writes a record. `cells` are for CSV, in the order of the columns.
    pub fn write(
        &mut self,
        record: &impl Serialize,
        cells: impl FnOnce() -> Vec<String>,
    ) -> io::Result<()> {
        match self {
            Self::Csv { file, is_written } => {
                let cells = cells();
                let written = cells.iter().zip(&*is_written).filter(|(_, is)| **is);
                file.write_record(written.map(|(cell, _)| cell))
                    .map_err(into_io)
            }
            Self::Jsonl(file) => {
                serde_json::to_writer(&mut *file, record)?;
                file.write_all(b"\n")
            }
        }
    }

    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv { mut file, .. } => file.flush(),
            Self::Jsonl(mut file) => file.flush(),
        }
    }
}

/// Returns the I/O error itself, so that a closed pipe is recognised.
fn into_io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(cause) => cause,
        kind => io::Error::other(format!("{kind:?}")),
    }
}

/// Returns the column of the database that a column of a table is read from.
fn database_column(column: &str) -> String {
    match column {
        "price" => "price_amount".into(),
        "currency" => "price_currency".into(),
        _ => {
            let mut name = String::new();
            for c in column.replace('.', "_").chars() {
                if c.is_ascii_uppercase() {
                    name.push('_');
                }
                name.push(c.to_ascii_lowercase());
            }
            name
        }
    }
}

/// Returns the text of a cell. A negative number is not a formula, so only free text is escaped.
fn text_of(cell: Cell) -> String {
    if cell.is_free_text {
        formula::escape(&cell.text)
    } else {
        cell.text
    }
}
