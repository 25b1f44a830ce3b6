//! Files of animals: CSV as spreadsheets write it, and a JSON object a line.

use std::{
    ffi::OsStr,
    io::{self, BufRead, BufWriter, Read, Write},
    path::Path,
};

use clap::ValueEnum;
use csv::StringRecord;

use crate::{
    invalid::{Invalid, all, quoted},
    json::{FromObject, Object},
    page::Filter,
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
        match path.extension().and_then(OsStr::to_str)? {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// What a line of a file is: an animal, or what is wrong with it.
pub type Line = Result<NewPet, String>;

/// Reads a file, line by line, as far as it is asked for.
pub fn read(
    format: Format,
    file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Line)>>, String> {
    match format {
        Format::Csv => read_csv(file),
        Format::Jsonl => Ok(read_jsonl(file)),
    }
}

fn read_jsonl(mut file: impl BufRead + 'static) -> Box<dyn Iterator<Item = (u64, Line)>> {
    // More than any animal needs: a file without line ends is not read whole.
    const LONGEST: u64 = 64 << 10;
    let mut number = 0;
    let mut ended = false;
    let next = move || {
        while !ended {
            number += 1;
            let mut bytes = Vec::new();
            let read = file
                .by_ref()
                .take(LONGEST + 1)
                .read_until(b'\n', &mut bytes);
            ended = !matches!(read, Ok(1..)) || bytes.len() as u64 > LONGEST;
            if let Err(cause) = read {
                return Some((number, Err(format!("cannot be read: {cause}"))));
            }
            if bytes.len() as u64 > LONGEST {
                return Some((number, Err(format!("is longer than {LONGEST} bytes"))));
            }
            let line = bytes.trim_ascii();
            let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            if !line.is_empty() {
                return Some((number, pet_from_json(line)));
            }
        }
        None
    };
    Box::new(std::iter::from_fn(next))
}

fn pet_from_json(line: &[u8]) -> Line {
    let object = Object::parse(line).map_err(|wrong| wrong.to_string())?;
    NewPet::from_object(&object).map_err(|wrong| join(&wrong))
}

fn read_csv(
    mut file: impl BufRead + 'static,
) -> Result<Box<dyn Iterator<Item = (u64, Line)>>, String> {
    let start = file.fill_buf().map_err(|cause| cause.to_string())?;
    let has_mark = start.starts_with(b"\xef\xbb\xbf");
    let first_line = start
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    // A spreadsheet separates by what its country uses for decimals.
    let count = |mark: u8| first_line.iter().filter(|byte| **byte == mark).count();
    let delimiter = [b',', b';', b'\t']
        .into_iter()
        .max_by_key(|mark| (count(*mark), *mark == b','));
    if has_mark {
        file.consume(3);
    }
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter.unwrap_or(b','))
        .flexible(true)
        .from_reader(file);
    let headers = reader.headers().map_err(|cause| cause.to_string())?.clone();
    let column = |names: &[&str]| {
        let fits = |header: &str| {
            let plain: String = header.chars().filter(char::is_ascii_alphanumeric).collect();
            names.contains(&&*plain.to_ascii_lowercase())
        };
        headers.iter().position(fits)
    };
    let missing = |name: &str| {
        let found = headers.iter().map(quoted).collect::<Vec<_>>().join(", ");
        format!("the first line must name the columns; there is no {name} among {found}")
    };
    let name = column(&["name"]).ok_or_else(|| missing("name"))?;
    let category = column(&["categoryid", "category"]).ok_or_else(|| missing("categoryId"))?;
    let status = column(&["status"]);
    let mut last = 1;
    Ok(Box::new(reader.into_records().filter_map(move |record| {
        let record = match record {
            Ok(record) => record,
            Err(wrong) => {
                last = wrong.position().map_or(last + 1, csv::Position::line);
                return Some((last, Err(wrong.to_string())));
            }
        };
        last = record.position().map_or(last + 1, csv::Position::line);
        let empty = record.iter().all(|cell| cell.trim().is_empty());
        (!empty).then(|| (last, pet_from_cells(&record, name, category, status)))
    })))
}

fn pet_from_cells(
    record: &StringRecord,
    name: usize,
    category: usize,
    status: Option<usize>,
) -> Line {
    let cell = |column: usize| record.get(column).unwrap_or_default();
    let name = PetName::parse(cell(name));
    let category_id = cell(category).trim().parse::<i64>().map_err(|_| {
        let got = quoted(cell(category));
        let (min, max) = (i64::MIN, i64::MAX);
        let reason = format!("must be a whole number from {min} to {max}, got {got}");
        Invalid::new("categoryId", reason)
    });
    let status = match status.map(|column| cell(column).trim()) {
        None | Some("") => Ok(None),
        Some(text) => PetStatus::parse(&text.to_lowercase()).map(Some),
    };
    let (name, category_id, status) =
        all(name, category_id, status).map_err(|wrong| join(&wrong))?;
    Ok(NewPet {
        name,
        category_id,
        status,
    })
}

fn join(wrong: &[Invalid]) -> String {
    wrong
        .iter()
        .map(Invalid::to_string)
        .collect::<Vec<_>>()
        .join("; ")
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
