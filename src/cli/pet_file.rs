//! Files of animals: CSV as spreadsheets write it, and JSON Lines.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufWriter, Cursor, Read, Write},
    path::Path,
};

use clap::ValueEnum;
use csv::StringRecord;
use serde::Serialize;

use super::formula;
use crate::{
    category::{CategoryName, CategoryNames},
    invalid::{Invalid, combine, join_messages, quoted},
    json::Object,
    page::Status,
    pet::{NewPet, Pet, PetName, PetStatus, category_id},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CSV with a header line: name, categoryId or category, status.
    Csv,
    /// JSON Lines: one JSON object per line, as in the API.
    Jsonl,
}

impl Format {
    /// The format that a file's extension stands for.
    pub fn from_extension(path: &Path) -> Option<Self> {
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
    let (sep_line, header) = read_header(&mut file)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(detect_delimiter(&sep_line, &header))
        .flexible(true)
        .from_reader(RecordLimit::new(Cursor::new(header).chain(file)));
    let columns = Columns::from_headers(reader.headers().map_err(|error| error.to_string())?)?;
    let skipped_lines = u64::from(!sep_line.is_empty());
    let mut line = 1;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            reader.get_mut().reset();
            let mut record = StringRecord::new();
            let read = reader.read_record(&mut record);
            let position = match &read {
                Ok(false) => return None,
                Ok(true) => record.position(),
                Err(error) => error.position(),
            };
            line = position.map_or(line + 1, |position| position.line() + skipped_lines);
            let pet = match read {
                Ok(_) => columns.pet(&record).map_err(RecordError::Invalid),
                Err(error) if error.is_io_error() => Err(RecordError::Fatal(error.to_string())),
                Err(error) => Err(RecordError::Invalid(error.to_string())),
            };
            // Spreadsheets write empty rows; skip them.
            if let Some(record) = pet.transpose() {
                return Some((line, record));
            }
        }
    })))
}

/// Reads the `sep=` line in which Excel names the delimiter (empty if there is
/// none) and the header line.
fn read_header(file: &mut impl BufRead) -> Result<(String, Vec<u8>), String> {
    let mut read_line = || {
        let mut line = Vec::new();
        let read = file
            .take(MAX_RECORD_BYTES as u64)
            .read_until(b'\n', &mut line);
        read.map_err(|cause| format!("cannot be read: {cause}"))?;
        if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") {
            return Err("the file is encoded in UTF-16; save it as CSV in UTF-8".to_string());
        }
        match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => Ok(rest.to_vec()),
            None => Ok(line),
        }
    };
    let first = read_line()?;
    match first.get(..4) {
        Some(start) if start.eq_ignore_ascii_case(b"sep=") => {
            Ok((String::from_utf8_lossy(&first).into(), read_line()?))
        }
        _ => Ok((String::new(), first)),
    }
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

/// Writes animals to a file.
pub struct PetWriter<W: Write> {
    output: Output<W>,
    /// Whether to write the names of categories beside their numbers.
    category_names: bool,
}

enum Output<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(BufWriter<W>),
}

impl<W: Write> PetWriter<W> {
    pub fn new(format: Format, category_names: bool, file: W) -> io::Result<Self> {
        let output = match format {
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(file);
                let columns: &[_] = match category_names {
                    true => &["id", "name", "categoryId", "category", "status"],
                    false => &["id", "name", "categoryId", "status"],
                };
                csv.write_record(columns)?;
                Output::Csv(Box::new(csv))
            }
            Format::Jsonl => Output::Jsonl(BufWriter::new(file)),
        };
        Ok(Self {
            output,
            category_names,
        })
    }

    pub fn write(&mut self, pet: &Pet, names: &CategoryNames) -> io::Result<()> {
        let category = names.name(pet.category_id).map_or("", CategoryName::as_str);
        match &mut self.output {
            Output::Csv(csv) => {
                // Without `..`, so that a new field is not forgotten.
                let Pet {
                    id,
                    name,
                    category_id,
                    status,
                } = pet;
                // A negative number is no formula, so only names are escaped.
                let (id, category_id) = (id.get().to_string(), category_id.to_string());
                let (name, category) = (formula::escape(name.as_str()), formula::escape(category));
                let status = status.map_or("", PetStatus::as_str);
                match self.category_names {
                    true => csv.write_record([&*id, &name, &category_id, &category, status])?,
                    false => csv.write_record([&*id, &name, &category_id, status])?,
                }
                Ok(())
            }
            Output::Jsonl(file) => {
                match self.category_names && !category.is_empty() {
                    true => serde_json::to_writer(&mut *file, &WithCategory { pet, category })?,
                    false => serde_json::to_writer(&mut *file, pet)?,
                }
                file.write_all(b"\n")
            }
        }
    }

    pub fn finish(self) -> io::Result<()> {
        match self.output {
            Output::Csv(mut csv) => csv.flush(),
            Output::Jsonl(mut file) => file.flush(),
        }
    }
}

/// A pet with the name of its category.
#[derive(Serialize)]
struct WithCategory<'a> {
    #[serde(flatten)]
    pet: &'a Pet,
    category: &'a str,
}
