//! Writes exported records: CSV with a header line, or JSON Lines.

use std::{
    borrow::Cow,
    io::{self, BufWriter, Write},
};

use serde::Serialize;

use super::{formula, pet_file::Format};
use domain::{
    members::{Cell, CellMember, Choice},
    order::{Order, Reference},
    party::Buyer,
    pet::Pet,
    price::Price,
};

pub enum RecordWriter<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(BufWriter<W>),
}

impl<W: Write> RecordWriter<W> {
    pub fn new(format: Format, file: W) -> Self {
        match format {
            Format::Csv => Self::Csv(Box::new(csv::Writer::from_writer(file))),
            Format::Jsonl => Self::Jsonl(BufWriter::new(file)),
        }
    }

    /// Writes the header line of a CSV file.
    pub fn write_header(&mut self, columns: &[Cow<'static, str>]) -> io::Result<()> {
        match self {
            Self::Csv(csv) => {
                let columns = columns.iter().map(|column| column.as_bytes());
                csv.write_record(columns).map_err(into_io)
            }
            Self::Jsonl(_) => Ok(()),
        }
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

    /// Returns the members of a pet, with the name of its category after the number. `keys` are
    /// the keys of all metadata.
    pub fn columns(with_category: bool, keys: &[String]) -> Vec<Cow<'static, str>> {
        let mut columns = vec!["id".into()];
        columns.extend(Pet::columns(keys));
        if with_category {
            columns.insert(Self::CATEGORY_COLUMN, "category".into());
        }
        columns
    }

    pub fn cells(&self, with_category: bool, keys: &[String]) -> Vec<String> {
        let mut cells = vec![self.pet.id.get().to_string()];
        cells.extend(self.pet.cells(keys).into_iter().map(text_of));
        if with_category {
            let name = formula::escape(self.category.unwrap_or_default());
            cells.insert(Self::CATEGORY_COLUMN, name);
        }
        cells
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

/// Returns the columns of an order.
pub fn order_columns() -> Vec<Cow<'static, str>> {
    let mut columns: Vec<Cow<_>> = [
        "id",
        "petId",
        "status",
        "createdAt",
        "updatedAt",
        "expiresAt",
    ]
    .map(Cow::Borrowed)
    .into();
    columns.extend(Price::columns("price", &[]));
    columns.push("reference".into());
    columns.extend(Buyer::columns("buyer", &[]));
    columns
}

pub fn order_cells(order: &Order) -> Vec<String> {
    let mut cells = vec![
        order.id.get().to_string(),
        order.pet_id.get().to_string(),
        order.status.as_str().into(),
        order.created_at.to_string(),
        order.updated_at.to_string(),
        order
            .expires_at
            .map_or(String::new(), |time| time.to_string()),
    ];
    let mut put = |cell| cells.push(text_of(cell));
    Price::write_cells(order.price.as_ref(), &[], &mut put);
    Reference::write_cells(order.reference.as_ref(), &[], &mut put);
    Buyer::write_cells(order.buyer.as_ref(), &[], &mut put);
    cells
}
