//! Files of animals: CSV as spreadsheets write it, and JSON Lines.

use std::{
    borrow::Cow,
    ffi::OsStr,
    io::{self, BufRead, Read},
    iter,
    path::Path,
};

use clap::ValueEnum;

use super::{
    escape_path,
    pet_csv::read_csv,
    pet_record::{
        CategoryReference, MAX_RECORD_BYTES, NOT_UTF8, PetRecord, Record, RecordError, Records,
    },
};
use domain::{
    invalid::Invalid,
    json::{Object, ObjectError},
    members::Members,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CSV with a header line: name, categoryId or category, status and others.
    Csv,
    /// JSON Lines: one JSON object per line, as in the API.
    Jsonl,
}

impl Format {
    /// Returns the chosen format, or else that of the file's extension.
    pub fn of(path: &Path, chosen: Option<Self>) -> Result<Self, String> {
        let format = chosen.or_else(|| Self::from_extension(path));
        format.ok_or_else(|| match path.as_os_str().as_encoded_bytes() {
            b"-" => "the format of standard input is not known; add --format csv or --format \
                     jsonl"
                .into(),
            _ => format!(
                "{} is neither .csv nor .jsonl; use one of these, or add --format csv or \
                 --format jsonl",
                escape_path(path)
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

/// Reads a file lazily. Yields each record with the number of its first line.
pub fn read(format: Format, mut file: impl BufRead + 'static) -> Result<Records, String> {
    let start = file.fill_buf();
    let unreadable = |cause| format!("cannot be read: {cause}");
    if let Some(reason) = other_format(format, start.map_err(unreadable)?) {
        return Err(reason.into());
    }
    match format {
        Format::Csv => read_csv(file),
        Format::Jsonl => {
            let mut records = read_jsonl(file).peekable();
            match records.peek() {
                None => Err("the file is empty; each of its lines must be an animal".into()),
                Some(_) => Ok(Box::new(records)),
            }
        }
    }
}

/// Describes a file that is evidently not in the format, with advice.
fn other_format(format: Format, start: &[u8]) -> Option<&'static str> {
    let without_mark = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = without_mark.trim_ascii_start();
    let line = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next()?);
    let is_name = |cell: &str| {
        let cell = cell.trim_matches(['"', ' ', '\r']);
        cell.eq_ignore_ascii_case("name")
    };
    let is_header = line.split([',', ';', '\t']).any(is_name);
    match (start, text, format) {
        ([b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..], ..) => Some(
            "the file is a spreadsheet or an archive, whatever its name; open it with the program \
             that it is for, and save the table as CSV in UTF-8",
        ),
        ([0x1f, 0x8b, ..], ..) => Some("the file is compressed; unpack it first with gunzip"),
        // UTF-16 has a byte order mark, or a NUL in the first character.
        ([0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [0, _, ..] | [_, 0, ..], ..) => {
            Some("the file is encoded in UTF-16; save it in UTF-8")
        }
        (_, [b'[', ..], _) => Some(
            "the file is a JSON array; JSON Lines has an object on each line, without brackets \
             around them or commas between them; convert it with: jq -c '.[]'",
        ),
        (_, [b'{', ..], Format::Csv) => Some("the file is not CSV but JSON; add --format jsonl"),
        (_, _, Format::Jsonl) if is_header => {
            Some("the file is not JSON Lines but CSV; add --format csv")
        }
        _ => None,
    }
}

fn read_jsonl(mut file: impl BufRead) -> impl Iterator<Item = (u64, Record)> {
    let mut numbers = 1..;
    iter::from_fn(move || {
        loop {
            let number = numbers.next()?;
            let line = match read_json_line(&mut file) {
                Ok(line) if line.is_empty() => return None,
                Ok(line) => line,
                Err(cause) => {
                    let reason = format!("cannot be read: {cause}");
                    return Some((number, Err(RecordError::Fatal(reason))));
                }
            };
            if line.len() > MAX_RECORD_BYTES {
                let reason = format!("is longer than {MAX_RECORD_BYTES} bytes");
                return Some((number, Err(RecordError::Invalid(reason))));
            }
            let without_mark = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
            let json = without_mark.trim_ascii_end();
            if !json.is_empty() {
                return Some((number, pet_from_json(json).map_err(RecordError::Invalid)));
            }
        }
    })
}

/// Reads a line. Of one that is too long, skips the rest.
fn read_json_line(file: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut limited = file.by_ref().take(MAX_RECORD_BYTES as u64 + 1);
    limited.read_until(b'\n', &mut line)?;
    if line.len() > MAX_RECORD_BYTES && !line.ends_with(b"\n") {
        file.skip_until(b'\n')?;
    }
    Ok(line)
}

fn pet_from_json(line: &[u8]) -> Result<PetRecord, String> {
    if str::from_utf8(line).is_err() {
        return Err(NOT_UTF8.into());
    }
    let object = Object::parse(line).map_err(|error| malformed(&error))?;
    let category = match (object.get("categoryId"), object.get("category")) {
        (None, Some(category)) => match category.as_string() {
            Some(name) => CategoryReference::parse(None, Some(&name)),
            None => {
                let got = category.describe();
                let reason = format!("must be a string, the name of a category, got {got}");
                Err(vec![Invalid::new("category", reason)])
            }
        },
        (_, name) => {
            let text = name.and_then(|name| name.as_string());
            let name = text.filter(|name| !name.trim().is_empty());
            let id = object.required("categoryId");
            id.map(|id| CategoryReference::new(id, name.map(Cow::into_owned)))
        }
    };
    PetRecord::new(&object, category)
}

/// Describes the fault in a line, without the words of the JSON parser.
fn malformed(error: &ObjectError) -> String {
    let text = error.to_string();
    // The line has its own number in the file.
    let (reason, column) = text.split_once(" at line 1 column ").unwrap_or((&text, ""));
    if reason.starts_with("EOF ") {
        "the JSON object is not complete; put all of it on one line".into()
    } else if reason.starts_with("trailing characters") {
        format!("there is more after the JSON object, at column {column}; remove it")
    } else if reason.starts_with("duplicate ") || column.is_empty() {
        text.replace(" at line 1 column ", " at column ")
    } else {
        let example = r#"{"name":"Biscuit","categoryId":3}"#;
        format!("is not JSON, see column {column}; each line must be an object such as {example}")
    }
}
