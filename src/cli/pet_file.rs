//! Files of animals: CSV as spreadsheets write it, and JSON Lines.

use std::{
    ffi::OsStr,
    io::{self, BufRead, Cursor, Read},
    path::Path,
};

use clap::ValueEnum;
use csv::StringRecord;

use super::{formula, line_numbers::LineNumbers};
use crate::{
    category::CategoryNames,
    invalid::{Invalid, combine, join_messages, quoted},
    json::Object,
    page::Status,
    pet::{NewPet, PetName, PetStatus, category_id},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CSV with a header line: name, categoryId or category, status.
    Csv,
    /// JSON Lines: one JSON object per line, as in the API.
    Jsonl,
}

impl Format {
    /// The format that was chosen, or else that of the file's extension.
    pub fn of(path: &Path, chosen: Option<Self>) -> Result<Self, String> {
        let format = chosen.or_else(|| Self::from_extension(path));
        format.ok_or_else(|| match path.as_os_str().as_encoded_bytes() {
            b"-" => "the format of standard input is not known; add --format csv or --format \
                     jsonl"
                .into(),
            _ => format!(
                "{} is neither .csv nor .jsonl; use one of these, or add --format csv or \
                 --format jsonl",
                path.display()
            ),
        })
    }

    fn from_extension(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(OsStr::to_str)?;
        match &*extension.to_ascii_lowercase() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// Why a record could not be read.
pub enum RecordError {
    /// This record is invalid; the ones after it may be valid.
    Invalid(String),
    /// The rest of the file cannot be read.
    Fatal(String),
}

pub type Record = Result<PetRecord, RecordError>;

/// An animal in a file.
pub struct PetRecord {
    name: PetName,
    category: CategoryReference,
    status: Option<PetStatus>,
}

enum CategoryReference {
    Id(i64),
    Name(String),
}

impl PetRecord {
    /// The pet, if its category is known.
    pub fn resolve(self, names: &CategoryNames) -> Result<NewPet, String> {
        let category_id = match self.category {
            CategoryReference::Id(id) => id,
            // A name may begin or end with spaces; in a table they are rarely meant. It may
            // also be a number.
            CategoryReference::Name(text) => {
                let name = text.trim();
                let found = names.id(&text).or_else(|| names.id(name));
                found.or_else(|| name.parse().ok()).ok_or_else(|| {
                    let name = quoted(name);
                    format!(
                        "category: no category is named {name}; name it first, or use its number"
                    )
                })?
            }
        };
        Ok(NewPet {
            name: self.name,
            category_id,
            status: self.status,
        })
    }
}

impl CategoryReference {
    /// From cells or members with a number and a name; the number counts.
    fn parse(number: Option<&str>, name: Option<&str>) -> Result<Self, Invalid> {
        let is_filled = |text: &&str| !text.trim().is_empty();
        let int64 = |text: &str| text.trim().parse::<i64>().ok();
        match (number.filter(is_filled), name.filter(is_filled)) {
            (Some(number), _) => int64(number).map(Self::Id).ok_or_else(|| {
                let (min, max, got) = (i64::MIN, i64::MAX, quoted(number.trim()));
                let reason = format!("must be an integer from {min} to {max}, got {got}");
                Invalid::new("categoryId", reason)
            }),
            (None, Some(name)) => Ok(Self::Name(name.into())),
            (None, None) => Err(Invalid::new(
                "categoryId",
                "required; must be an integer, or the name of a category in category",
            )),
        }
    }
}

/// Size limit of a JSON line or CSV record: far more than an animal needs.
const MAX_RECORD_BYTES: usize = 64 << 10;

/// Reads a file lazily. Yields each record with the number of its first line.
pub fn read(
    format: Format,
    file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Record)>>, String> {
    match format {
        Format::Csv => read_csv(file),
        Format::Jsonl => Ok(Box::new(read_jsonl(file))),
    }
}

fn read_jsonl(mut file: impl BufRead) -> impl Iterator<Item = (u64, Record)> {
    let mut numbers = 1..;
    let fatal = |cause: io::Error| Err(RecordError::Fatal(format!("cannot be read: {cause}")));
    std::iter::from_fn(move || {
        loop {
            let number = numbers.next()?;
            let mut bytes = Vec::new();
            let mut limited = file.by_ref().take(MAX_RECORD_BYTES as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(cause) => return Some((number, fatal(cause))),
            }
            if bytes.len() > MAX_RECORD_BYTES {
                let rest = match bytes.ends_with(b"\n") {
                    true => Ok(0),
                    false => file.skip_until(b'\n'),
                };
                let error = match rest {
                    Ok(_) => Err(RecordError::Invalid(format!(
                        "is longer than {MAX_RECORD_BYTES} bytes"
                    ))),
                    Err(cause) => fatal(cause),
                };
                return Some((number, error));
            }
            let line = bytes.trim_ascii();
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            if !line.is_empty() {
                return Some((number, pet_from_json(line).map_err(RecordError::Invalid)));
            }
        }
    })
}

fn pet_from_json(line: &[u8]) -> Result<PetRecord, String> {
    let object = Object::parse(line).map_err(|error| error.to_string())?;
    let category = match (object.get("categoryId"), object.get("category")) {
        (None, Some(category)) => match category.as_string() {
            Some(name) => CategoryReference::parse(None, Some(&name)),
            None => {
                let got = category.describe();
                let reason = format!("must be a string, the name of a category, got {got}");
                Err(Invalid::new("category", reason))
            }
        },
        (number, _) => category_id(number).map(CategoryReference::Id),
    };
    let (name, status) = NewPet::name_and_status(&object);
    let pet = combine(name, category, status).map_err(|invalid| join_messages(&invalid))?;
    let (name, category, status) = pet;
    Ok(PetRecord {
        name,
        category,
        status,
    })
}

fn read_csv(
    mut file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Record)>>, String> {
    let Header {
        line,
        sep_line,
        text,
    } = Header::read(&mut file)?;
    let delimiter = detect_delimiter(&sep_line, &text);
    let lines = LineNumbers::new(Cursor::new(text).chain(file), line);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(RecordLimit::new(lines));
    let columns = Columns::from_headers(reader.headers().map_err(|error| error.to_string())?)?;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            reader.get_mut().reset();
            let start = reader.position().byte();
            let mut record = StringRecord::new();
            let read = reader.read_record(&mut record);
            let pet = match read {
                Ok(false) => return None,
                Ok(true) => columns.pet(&record).map_err(RecordError::Invalid),
                Err(error) if error.is_io_error() => Err(RecordError::Fatal(error.to_string())),
                Err(error) => Err(RecordError::Invalid(error.to_string())),
            };
            let line = reader.get_mut().file.line_from(start);
            // Spreadsheets write empty rows; skip them.
            if let Some(record) = pet.transpose() {
                return Some((line, record));
            }
        }
    })))
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
            if text.starts_with(b"\xff\xfe") || text.starts_with(b"\xfe\xff") {
                return Err("the file is encoded in UTF-16; save it as CSV in UTF-8".into());
            }
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
    name: usize,
    category_id: Option<usize>,
    category: Option<usize>,
    status: Option<usize>,
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
            format!("the first line must name the columns: no {name} column, found {found}")
        };
        let name = column("name")?.ok_or_else(|| missing("name"))?;
        let (category_id, category) = (column("categoryId")?, column("category")?);
        if category_id.or(category).is_none() {
            return Err(missing("categoryId or category"));
        }
        Ok(Self {
            count: headers.len(),
            name,
            category_id,
            category,
            status: column("status")?,
        })
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
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let name = PetName::parse(&formula::unescape(cell(self.name)));
        let category_name = self.category.map(|column| formula::unescape(cell(column)));
        let category =
            CategoryReference::parse(self.category_id.map(cell), category_name.as_deref());
        let status = match self.status.map(|column| cell(column).trim()) {
            None | Some("") => Ok(None),
            Some(text) => PetStatus::parse(&text.to_lowercase()).map(Some),
        };
        let pet = combine(name, category, status).map_err(|invalid| join_messages(&invalid))?;
        let (name, category, status) = pet;
        Ok(Some(PetRecord {
            name,
            category,
            status,
        }))
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
            let reason =
                format!("record longer than {MAX_RECORD_BYTES} bytes; is a quote unclosed?");
            return Err(io::Error::other(reason));
        }
        let max = buffer.len().min(self.remaining);
        let read = self.file.read(&mut buffer[..max])?;
        self.remaining -= read;
        Ok(read)
    }
}
