//! Writes exported records: CSV with a header line, or JSON Lines.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::{formula, pet_file::Format};
use domain::{order::Order, page::Status, pet::Pet};

pub enum RecordWriter<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(BufWriter<W>),
}

impl<W: Write> RecordWriter<W> {
    /// Creates a writer. `columns` are for CSV.
    pub fn new(format: Format, columns: &[&str], file: W) -> io::Result<Self> {
        Ok(match format {
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(file);
                csv.write_record(columns).map_err(into_io)?;
                Self::Csv(Box::new(csv))
            }
            Format::Jsonl => Self::Jsonl(BufWriter::new(file)),
        })
    }

    /// Writes a record. `cells` are for CSV, in the order of the columns.
    pub fn write(
        &mut self,
        record: &impl Serialize,
        cells: impl FnOnce() -> Vec<String>,
    ) -> io::Result<()> {
        match self {
            Self::Csv(csv) => csv.write_record(cells()).map_err(into_io),
            Self::Jsonl(file) => {
                serde_json::to_writer(&mut *file, record)?;
                file.write_all(b"\n")
            }
        }
    }

    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Csv(mut csv) => csv.flush(),
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

/// A pet as it is exported.
#[derive(Serialize)]
pub struct PetRow<'a> {
    #[serde(flatten)]
    pub pet: &'a Pet,
    /// The name of its category, if that is exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<&'a str>,
}

impl PetRow<'_> {
    const CATEGORY_COLUMN: usize = 3;

    /// Returns the members of a pet, with the name of its category after the number.
    pub fn columns(with_category: bool) -> Vec<&'static str> {
        let mut columns = vec!["id"];
        columns.extend(Pet::MEMBERS);
        if with_category {
            columns.insert(Self::CATEGORY_COLUMN, "category");
        }
        columns
    }

    pub fn cells(&self, with_category: bool) -> Vec<String> {
        let mut cells = vec![self.pet.id.get().to_string()];
        for cell in self.pet.cells() {
            // A negative number is not a formula, so only free text is escaped.
            cells.push(if cell.is_free_text {
                formula::escape(&cell.text)
            } else {
                cell.text
            });
        }
        if with_category {
            let name = formula::escape(self.category.unwrap_or_default());
            cells.insert(Self::CATEGORY_COLUMN, name);
        }
        cells
    }
}

pub const ORDER_COLUMNS: [&str; 6] = [
    "id",
    "petId",
    "status",
    "createdAt",
    "updatedAt",
    "expiresAt",
];

/// Returns the cells of an order: numbers, words of ours and times, none of which a spreadsheet
/// runs.
pub fn order_cells(order: &Order) -> Vec<String> {
    vec![
        order.id.get().to_string(),
        order.pet_id.get().to_string(),
        order.status.as_str().into(),
        order.created_at.to_string(),
        order.updated_at.to_string(),
        order
            .expires_at
            .map_or(String::new(), |time| time.to_string()),
    ]
}
