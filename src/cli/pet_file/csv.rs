//! CSV files of animals, as spreadsheets write them.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{BufRead, Cursor, Read},
    iter,
};

use csv::StringRecord;

use super::{
    formula,
    pet_record::{CategoryReference, NOT_UTF8, PetRecord, RecordError, Records},
    record_splitter::{RecordSplitter, read_line},
};
use domain::{invalid::quoted, members::Cells, pet::Pet};

/// Reads a file lazily. Yields each record with the number of its first line.
pub fn read_csv(mut file: impl BufRead + 'static) -> Result<Records, String> {
    let Header {
        line,
        delimiter,
        text,
    } = Header::read(&mut file)?;
    let file = Cursor::new(text).chain(file);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(RecordSplitter::new(file, line, delimiter));
    let columns = match reader.headers() {
        Ok(headers) => Columns::from_headers(headers)?,
        Err(error) => {
            return Err(format!(
                "line {}: {}",
                reader.get_ref().line,
                reason(&error)
            ));
        }
    };
    let mut record = StringRecord::new();
    Ok(Box::new(iter::from_fn(move || {
        loop {
            let pet = match reader.read_record(&mut record) {
                Ok(false) => return None,
                Ok(true) => columns.pet(&record).map_err(RecordError::Invalid),
                Err(error) if error.is_io_error() => Err(RecordError::Fatal(reason(&error))),
                Err(error) => Err(RecordError::Invalid(reason(&error))),
            };
            // Spreadsheets write empty rows; skip them.
            if let Some(record) = pet.transpose() {
                return Some((reader.get_ref().line, record));
            }
        }
    })))
}

/// Returns the cause without the position, because we number lines differently.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(cause) => cause.to_string(),
        csv::ErrorKind::Utf8 { .. } => NOT_UTF8.into(),
        _ => error.to_string(),
    }
}

/// The line that names the columns.
struct Header {
    line: u64,
    delimiter: u8,
    text: Vec<u8>,
}

impl Header {
    fn read(file: &mut impl BufRead) -> Result<Self, String> {
        // Excel names the delimiter in a line before the header.
        let mut sep_line = None;
        for line in 1.. {
            let bytes = read_line(file).map_err(|cause| format!("cannot be read: {cause}"))?;
            if bytes.is_empty() {
                break;
            }
            let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
            let is_sep = |start: &[u8]| start.eq_ignore_ascii_case(b"sep=");
            if sep_line.is_none() && text.get(..4).is_some_and(is_sep) {
                sep_line = Some(text.to_vec());
            } else if !text.trim_ascii().is_empty() {
                let named = sep_line.and_then(|line| line.get(4).copied());
                return Ok(Self {
                    line,
                    delimiter: named
                        .filter(u8::is_ascii)
                        .unwrap_or_else(|| guess_delimiter(text)),
                    text: text.to_vec(),
                });
            }
        }
        Err("the file is empty; its first line must name the columns".into())
    }
}

/// Returns the most frequent candidate in the header. Where the decimal separator is a comma,
/// spreadsheets separate with semicolons.
fn guess_delimiter(header: &[u8]) -> u8 {
    let count = |mark: u8| header.iter().filter(|byte| **byte == mark).count();
    // Of several that are equally frequent, the last is taken.
    let candidates = [b';', b'\t', b','].into_iter();
    candidates.max_by_key(|mark| count(*mark)).unwrap_or(b',')
}

/// The positions of the columns, taken from the header line.
struct Columns {
    count: usize,
    /// The positions of the members of an animal, and of the name of its category.
    positions: BTreeMap<String, usize>,
}

impl Columns {
    fn from_headers(headers: &StringRecord) -> Result<Self, String> {
        let found = headers.iter().map(quoted).collect::<Vec<_>>().join(", ");
        let mut positions = BTreeMap::new();
        for (position, header) in headers.iter().enumerate() {
            if let Some(name) = column_name(header) {
                let duplicate = format!("more than one {name} column, found {found}");
                if positions.insert(name, position).is_some() {
                    return Err(duplicate);
                }
            }
        }
        let has = |name| positions.contains_key(name);
        let missing = if !has("name") {
            "name"
        } else if !has("categoryId") && !has("category") {
            "categoryId or category"
        } else {
            let count = headers.len();
            return Ok(Self { count, positions });
        };
        Err(format!(
            "the first line must name the columns: no {missing} column, found {found}"
        ))
    }

    /// Parses a record. Returns `None` if all of its cells are empty.
    fn pet(&self, record: &StringRecord) -> Result<Option<PetRecord>, String> {
        let is_empty = |cell: &str| cell.trim().is_empty();
        if record.iter().all(is_empty) {
            return Ok(None);
        }
        let count = self.count;
        if !record.iter().skip(count).all(is_empty) {
            return Err(format!(
                "has more cells than the {count} columns of the first line"
            ));
        }
        let row = Row {
            columns: self,
            record,
        };
        let category_name = row.cell("category").map(formula::unescape);
        let category = CategoryReference::parse(row.cell("categoryId"), category_name.as_deref());
        PetRecord::new(&row, category).map(Some)
    }
}

/// A record with its columns.
struct Row<'a> {
    columns: &'a Columns,
    record: &'a StringRecord,
}

impl<'a> Row<'a> {
    /// Returns the cell in a column, if there is such a column. Cells at the end may be left out.
    fn cell(&self, column: &str) -> Option<&'a str> {
        let position = self.columns.positions.get(column)?;
        Some(self.record.get(*position).unwrap_or_default())
    }
}

impl Cells for Row<'_> {
    fn get(&self, column: &str, is_free_text: bool) -> Option<Cow<'_, str>> {
        let cell = self.cell(column).filter(|cell| !cell.trim().is_empty())?;
        Some(if is_free_text {
            formula::unescape(cell).into()
        } else {
            cell.into()
        })
    }

    fn with_prefix(&self, prefix: &str) -> Vec<(&str, Cow<'_, str>)> {
        let columns = self.columns.positions.keys();
        let columns = columns.filter_map(|column| {
            let key = column.strip_prefix(prefix)?;
            Some((key, self.get(column, true)?))
        });
        columns.collect()
    }
}

/// Returns the name of the column that a header stands for, if it is one of an animal. Case,
/// blanks and punctuation do not matter, but clients choose the keys of metadata.
fn column_name(header: &str) -> Option<String> {
    const METADATA: &str = "metadata.";
    let header = header.trim();
    if let Some((prefix, key)) = header.split_at_checked(METADATA.len())
        && prefix.eq_ignore_ascii_case(METADATA)
    {
        return Some(format!("{METADATA}{key}"));
    }
    let plain = |text: &str| -> String {
        let text = text.chars().filter(char::is_ascii_alphanumeric);
        text.map(|c| c.to_ascii_lowercase()).collect()
    };
    let mut names = Pet::columns(&[]).into_iter().chain(["category".into()]);
    let found = names.find(|name| plain(name) == plain(header));
    found.map(Cow::into_owned)
}
