//! CSV files of animals, as spreadsheets write them.

use std::io::{self, BufRead, Cursor, Read};

use csv::StringRecord;

use super::{
    formula,
    line_numbers::LineNumbers,
    pet_record::{CategoryReference, MAX_RECORD_BYTES, NOT_UTF8, PetRecord, RecordError, Records},
};
use domain::{
    invalid::{Invalid, quoted},
    members::{Member, Members},
    pet::Pet,
};

/// Reads a file lazily. Yields each record with the number of its first line.
pub fn read_csv(mut file: impl BufRead + 'static) -> Result<Records, String> {
    let Header {
        line,
        sep_line,
        text,
    } = Header::read(&mut file)?;
    let delimiter = detect_delimiter(&sep_line, &text);
    let lines = LineNumbers::new(Cursor::new(text).chain(file), line, delimiter);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(RecordLimit::new(lines));
    let headers = reader.headers().cloned();
    if let Some(line) = open_quote(&reader) {
        return Err(format!("line {line}: {OPEN_QUOTE}"));
    }
    let headers = headers.map_err(|error| format!("line {line}: {}", reason(&error)))?;
    let columns = Columns::from_headers(&headers)?;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            reader.get_mut().reset();
            let start = reader.position().byte();
            let mut record = StringRecord::new();
            let read = reader.read_record(&mut record);
            if let Some(line) = open_quote(&reader) {
                return Some((line, Err(RecordError::Fatal(OPEN_QUOTE.into()))));
            }
            let pet = match read {
                Ok(false) => return None,
                Ok(true) => columns.pet(&record).map_err(RecordError::Invalid),
                Err(error) if error.is_io_error() => {
                    let lines = &mut reader.get_mut().file;
                    return Some(match lines.current_quote() {
                        Some(line) => (line, Err(RecordError::Fatal(OPEN_QUOTE.into()))),
                        None => (
                            lines.line_from(start),
                            Err(RecordError::Fatal(reason(&error))),
                        ),
                    });
                }
                Err(error) => Err(RecordError::Invalid(reason(&error))),
            };
            let line = reader.get_mut().file.line_from(start);
            // Spreadsheets write empty rows; skip them.
            if let Some(record) = pet.transpose() {
                return Some((line, record));
            }
        }
    })))
}

const OPEN_QUOTE: &str = "the quote that is opened here is not closed, so it is not known where \
                          the cell ends; close it, or remove it";

/// Returns the line of a quote that swallows the lines after it, if the record that was just read
/// has one.
fn open_quote<R: Read>(reader: &csv::Reader<RecordLimit<LineNumbers<R>>>) -> Option<u64> {
    let lines = &reader.get_ref().file;
    lines.open_quote_before(reader.position().byte())
}

/// Returns the cause without the position, because we number lines differently.
fn reason(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(cause) => cause.to_string(),
        csv::ErrorKind::Utf8 { .. } => NOT_UTF8.into(),
        _ => error.to_string(),
    }
}

/// The start of a CSV file.
struct Header {
    /// The number of the line that names the columns.
    line: u64,
    /// The line before it in which Excel names the delimiter; empty if there is none.
    sep_line: String,
    text: Vec<u8>,
}

impl Header {
    fn read(file: &mut impl BufRead) -> Result<Self, String> {
        let mut sep_line = String::new();
        for line in 1.. {
            let text = read_line(file).map_err(|cause| format!("cannot be read: {cause}"))?;
            let is_end = text.is_empty();
            let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
            let is_sep = |start: &[u8]| start.eq_ignore_ascii_case(b"sep=");
            if is_end {
                break;
            } else if sep_line.is_empty() && text.get(..4).is_some_and(is_sep) {
                sep_line = String::from_utf8_lossy(text).into();
            } else if !text.trim_ascii().is_empty() {
                let text = text.to_vec();
                return Ok(Self {
                    line,
                    sep_line,
                    text,
                });
            }
        }
        Err("the file is empty; its first line must name the columns".into())
    }
}

/// Reads a line with its end, which is LF, CRLF or CR, or the start of a very long one.
fn read_line(file: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.len() < MAX_RECORD_BYTES {
        let buffer = file.fill_buf()?;
        let after_cr = line.ends_with(b"\r");
        if buffer.is_empty() || after_cr && buffer[0] != b'\n' {
            break;
        }
        let end = memchr::memchr2(b'\r', b'\n', buffer).map(|end| end + 1);
        let length = end.unwrap_or(buffer.len());
        line.extend(&buffer[..length]);
        file.consume(length);
        if line.ends_with(b"\n") {
            break;
        }
    }
    Ok(line)
}

/// Takes the delimiter from the `sep=` line, or else the most frequent candidate in the
/// header. Where the decimal separator is a comma, spreadsheets separate with semicolons.
fn detect_delimiter(sep_line: &str, header: &[u8]) -> u8 {
    if let Some(named) = sep_line.as_bytes().get(4).filter(|byte| byte.is_ascii()) {
        return *named;
    }
    let count = |mark: u8| header.iter().filter(|byte| **byte == mark).count();
    let by_count = |mark: &u8| (count(*mark), *mark == b',');
    [b',', b';', b'\t']
        .into_iter()
        .max_by_key(by_count)
        .unwrap_or(b',')
}

/// The positions of the columns, taken from the header line.
struct Columns {
    count: usize,
    /// The positions of the members of an animal.
    members: Vec<(&'static str, usize)>,
    /// The position of the category's name.
    category: Option<usize>,
}

impl Columns {
    fn from_headers(headers: &StringRecord) -> Result<Self, String> {
        let found = || match headers.len() {
            0 => "none".into(),
            _ => headers.iter().map(quoted).collect::<Vec<_>>().join(", "),
        };
        let column = |name: &str| {
            let matches = |header: &str| {
                let plain: String = header.chars().filter(char::is_ascii_alphanumeric).collect();
                plain.eq_ignore_ascii_case(name)
            };
            let mut matching = headers
                .iter()
                .enumerate()
                .filter(|(_, header)| matches(header));
            match (matching.next(), matching.next()) {
                (Some(_), Some(_)) => {
                    Err(format!("more than one {name} column, found {}", found()))
                }
                (column, _) => Ok(column.map(|(number, _)| number)),
            }
        };
        let missing = |name: &str| {
            let found = found();
            Err(format!(
                "the first line must name the columns: no {name} column, found {found}"
            ))
        };
        let mut columns = Self {
            count: headers.len(),
            members: Vec::new(),
            category: column("category")?,
        };
        for name in Pet::MEMBERS {
            columns
                .members
                .extend(column(name)?.map(|number| (*name, number)));
        }
        if columns.member("name").is_none() {
            return missing("name");
        }
        if columns.member("categoryId").or(columns.category).is_none() {
            return missing("categoryId or category");
        }
        Ok(columns)
    }

    fn member(&self, name: &str) -> Option<usize> {
        let found = self.members.iter().find(|(member, _)| *member == name);
        found.map(|(_, number)| *number)
    }

    /// Parses a record. Returns `None` if all of its cells are empty.
    fn pet(&self, record: &StringRecord) -> Result<Option<PetRecord>, String> {
        let is_empty = |cell: &str| cell.trim().is_empty();
        if record.iter().all(is_empty) {
            return Ok(None);
        }
        if !record.iter().skip(self.count).all(is_empty) {
            let count = self.count;
            return Err(format!(
                "has more cells than the {count} columns of the first line"
            ));
        }
        let row = Row {
            columns: self,
            record,
        };
        let category_name = self
            .category
            .map(|column| formula::unescape(row.cell(column)));
        let number = self.member("categoryId").map(|column| row.cell(column));
        let category = CategoryReference::parse(number, category_name.as_deref());
        PetRecord::new(&row, category).map(Some)
    }
}

/// A record with its columns.
struct Row<'a> {
    columns: &'a Columns,
    record: &'a StringRecord,
}

impl<'a> Row<'a> {
    fn cell(&self, column: usize) -> &'a str {
        self.record.get(column).unwrap_or_default()
    }
}

impl Members for Row<'_> {
    fn optional<T: Member>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        let cell = self.columns.member(name).map(|column| self.cell(column));
        match cell.is_some_and(|cell| !cell.trim().is_empty()) {
            true => self.required(name).map(Some),
            false => Ok(None),
        }
    }

    fn required<T: Member>(&self, name: &'static str) -> Result<T, Invalid> {
        let cell = self.columns.member(name).map(|column| self.cell(column));
        let cell = cell.unwrap_or_default();
        let value = match T::IS_FREE_TEXT {
            true => T::from_cell(&formula::unescape(cell)),
            false => T::from_cell(cell),
        };
        value.map_err(|reason| Invalid::new(name, reason))
    }
}

/// Fails when a record is too long. Otherwise an unclosed quote would make the
/// parser read the rest of the file into memory.
struct RecordLimit<R> {
    file: R,
    remaining: usize,
}

impl<R> RecordLimit<R> {
    fn new(file: R) -> Self {
        let mut limit = Self { file, remaining: 0 };
        limit.reset();
        limit
    }

    /// Starts the next record. Allows twice the limit, because the parser reads ahead.
    fn reset(&mut self) {
        self.remaining = 2 * MAX_RECORD_BYTES;
    }
}

impl<R: Read> Read for RecordLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.remaining == 0 {
            let reason = format!("is longer than {MAX_RECORD_BYTES} bytes");
            return Err(io::Error::other(reason));
        }
        let max = buffer.len().min(self.remaining);
        let read = self.file.read(&mut buffer[..max])?;
        self.remaining -= read;
        Ok(read)
    }
}
