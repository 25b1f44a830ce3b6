//! Files of animals: CSV as spreadsheets write it, and a JSON object a line.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufWriter, Cursor, Read, Write},
    path::Path,
};

use clap::ValueEnum;
use csv::StringRecord;

use crate::{
    invalid::{Invalid, combine, join_messages, quoted},
    json::{FromObject, Object},
    page::StatusFilter,
    pet::{NewPet, Pet, PetName, PetStatus},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table with a line of headers: name, categoryId, status.
    Csv,
    /// A JSON object a line, as the service takes and gives them.
    Jsonl,
}

impl Format {
    /// What a file's name says.
    pub fn of(path: &Path) -> Option<Self> {
        let end = path.extension().and_then(OsStr::to_str)?;
        match &*end.to_ascii_lowercase() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// Why a line gives no animal.
pub enum Fault {
    /// It is invalid; the next may be another thing.
    Invalid(String),
    /// The file cannot be read further.
    Fatal(String),
}

pub type Line = Result<NewPet, Fault>;

/// The longest line of JSON, and the longest record of CSV: far more than an
/// animal needs.
const LONGEST: usize = 64 << 10;

/// Reads a file, line by line, as far as it is asked for.
pub fn read(
    format: Format,
    file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Line)>>, String> {
    match format {
        Format::Csv => read_csv(file),
        Format::Jsonl => Ok(Box::new(read_jsonl(file))),
    }
}

fn read_jsonl(mut file: impl BufRead) -> impl Iterator<Item = (u64, Line)> {
    let mut numbers = 1..;
    let fatal = |cause: io::Error| Err(Fault::Fatal(format!("cannot be read: {cause}")));
    std::iter::from_fn(move || {
        loop {
            let number = numbers.next()?;
            let mut bytes = Vec::new();
            let mut limited = file.by_ref().take(LONGEST as u64 + 1);
            match limited.read_until(b'\n', &mut bytes) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(cause) => return Some((number, fatal(cause))),
            }
            if bytes.len() > LONGEST {
                let rest = match bytes.ends_with(b"\n") {
                    true => Ok(0),
                    false => file.skip_until(b'\n'),
                };
                let fault = match rest {
                    Ok(_) => Err(Fault::Invalid(format!("is longer than {LONGEST} bytes"))),
                    Err(cause) => fatal(cause),
                };
                return Some((number, fault));
            }
            let line = bytes.trim_ascii();
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            if !line.is_empty() {
                return Some((number, pet_from_json(line).map_err(Fault::Invalid)));
            }
        }
    })
}

fn pet_from_json(line: &[u8]) -> Result<NewPet, String> {
    let object = Object::parse(line).map_err(|wrong| wrong.to_string())?;
    NewPet::from_object(&object).map_err(|wrong| join_messages(&wrong))
}

fn read_csv(
    mut file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Line)>>, String> {
    let (start, first_line) = first_line(&mut file)?;
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter(&start, &first_line))
        .flexible(true)
        .from_reader(Budget::new(Cursor::new(first_line).chain(file)));
    let columns = Columns::of(reader.headers().map_err(|wrong| wrong.to_string())?)?;
    let above = u64::from(!start.is_empty());
    let mut last = 1;
    Ok(Box::new(std::iter::from_fn(move || {
        loop {
            reader.get_mut().renew();
            let mut record = StringRecord::new();
            let read = reader.read_record(&mut record);
            let position = match &read {
                Ok(false) => return None,
                Ok(true) => record.position(),
                Err(wrong) => wrong.position(),
            };
            last = position.map_or(last + 1, |position| position.line() + above);
            let pet = match read {
                Ok(_) => columns.pet(&record).map_err(Fault::Invalid),
                Err(wrong) if wrong.is_io_error() => Err(Fault::Fatal(wrong.to_string())),
                Err(wrong) => Err(Fault::Invalid(wrong.to_string())),
            };
            // A record without content is no animal, and no fault.
            if let Some(line) = pet.transpose() {
                return Some((last, line));
            }
        }
    })))
}

/// A line with which Excel names the delimiter, if there is one, and the line of
/// headers.
fn first_line(file: &mut impl BufRead) -> Result<(String, Vec<u8>), String> {
    let mut line = || {
        let mut line = Vec::new();
        let read = file.take(LONGEST as u64).read_until(b'\n', &mut line);
        read.map_err(|cause| format!("cannot be read: {cause}"))?;
        if line.starts_with(b"\xff\xfe") || line.starts_with(b"\xfe\xff") {
            return Err("the file is in UTF-16; save it as CSV in UTF-8".to_string());
        }
        match line.strip_prefix(b"\xef\xbb\xbf") {
            Some(rest) => Ok(rest.to_vec()),
            None => Ok(line),
        }
    };
    let first = line()?;
    match first.get(..4) {
        Some(start) if start.eq_ignore_ascii_case(b"sep=") => {
            Ok((String::from_utf8_lossy(&first).into(), line()?))
        }
        _ => Ok((String::new(), first)),
    }
}

/// A spreadsheet separates by what its country does not use for decimals.
fn delimiter(named: &str, headers: &[u8]) -> u8 {
    if let Some(named) = named.as_bytes().get(4).filter(|byte| byte.is_ascii()) {
        return *named;
    }
    let count = |mark: u8| headers.iter().filter(|byte| **byte == mark).count();
    let by_count = |mark: &u8| (count(*mark), *mark == b',');
    [b',', b';', b'\t']
        .into_iter()
        .max_by_key(by_count)
        .unwrap_or(b',')
}

/// Where the headers say that things are.
struct Columns {
    count: usize,
    name: usize,
    category: usize,
    status: Option<usize>,
}

impl Columns {
    fn of(headers: &StringRecord) -> Result<Self, String> {
        let found = || headers.iter().map(quoted).collect::<Vec<_>>().join(", ");
        let column = |name: &str| {
            let fits = |header: &str| {
                let plain: String = header.chars().filter(char::is_ascii_alphanumeric).collect();
                plain.eq_ignore_ascii_case(name)
            };
            let mut fitting = headers
                .iter()
                .enumerate()
                .filter(|(_, header)| fits(header));
            match (fitting.next(), fitting.next()) {
                (Some(_), Some(_)) => Err(format!("there are two columns {name}: {}", found())),
                (column, _) => Ok(column.map(|(number, _)| number)),
            }
        };
        let missing = |name: &str| {
            let found = found();
            format!("the first line must name the columns; there is no {name} among {found}")
        };
        let category = match column("categoryId")? {
            None => column("category")?,
            found => found,
        };
        Ok(Self {
            count: headers.len(),
            name: column("name")?.ok_or_else(|| missing("name"))?,
            category: category.ok_or_else(|| missing("categoryId"))?,
            status: column("status")?,
        })
    }

    /// The animal of a record, unless that is empty.
    fn pet(&self, record: &StringRecord) -> Result<Option<NewPet>, String> {
        let is_empty = |cell: &str| cell.trim().is_empty();
        if record.iter().all(is_empty) {
            return Ok(None);
        }
        if !record.iter().skip(self.count).all(is_empty) {
            let count = self.count;
            return Err(format!("has more cells than the {count} of the first line"));
        }
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let name = PetName::parse(cell(self.name));
        let category = cell(self.category);
        let category_id = category.trim().parse::<i64>().map_err(|_| {
            let (min, max, got) = (i64::MIN, i64::MAX, quoted(category));
            let reason = format!("must be a whole number from {min} to {max}, got {got}");
            Invalid::new("categoryId", reason)
        });
        let status = match self.status.map(|column| cell(column).trim()) {
            None | Some("") => Ok(None),
            Some(text) => PetStatus::parse(&text.to_lowercase()).map(Some),
        };
        let pet = combine(name, category_id, status).map_err(|wrong| join_messages(&wrong))?;
        let (name, category_id, status) = pet;
        Ok(Some(NewPet {
            name,
            category_id,
            status,
        }))
    }
}

/// Ends a file in which a record does not: a quote that is not closed would have
/// all of it read.
struct Budget<R> {
    file: R,
    left: usize,
}

impl<R> Budget<R> {
    fn new(file: R) -> Self {
        let mut budget = Self { file, left: 0 };
        budget.renew();
        budget
    }

    /// With what is read ahead.
    fn renew(&mut self) {
        self.left = 2 * LONGEST;
    }
}

impl<R: Read> Read for Budget<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let why = format!("a record is longer than {LONGEST} bytes; is a quote not closed?");
            return Err(io::Error::other(why));
        }
        let most = buffer.len().min(self.left);
        let read = self.file.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}

/// A file of animals that is being written.
pub enum Writing<W: Write> {
    Csv(Box<csv::Writer<W>>),
    Jsonl(BufWriter<W>),
}

impl<W: Write> Writing<W> {
    pub fn new(format: Format, file: W) -> io::Result<Self> {
        Ok(match format {
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(file);
                csv.write_record(["id", "name", "categoryId", "status"])?;
                Self::Csv(Box::new(csv))
            }
            Format::Jsonl => Self::Jsonl(BufWriter::new(file)),
        })
    }

    pub fn write(&mut self, pet: &Pet) -> io::Result<()> {
        match self {
            Self::Csv(csv) => {
                let (id, category) = (pet.id.get().to_string(), pet.category_id.to_string());
                let status = pet.status.map_or("", PetStatus::as_str);
                Ok(csv.write_record([&*id, pet.name.as_str(), &category, status])?)
            }
            Self::Jsonl(file) => {
                serde_json::to_writer(&mut *file, pet)?;
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
