//! Files of animals: CSV as spreadsheets write it, and JSON Lines.

use std::{
    borrow::Cow,
    ffi::OsStr,
    io::{self, BufRead, Read},
    path::Path,
};

use clap::ValueEnum;

use super::{pet_csv::read_csv, visible_path};
use crate::{
    category::{Category, CategoryId, CategoryName, CategoryNames},
    invalid::{Invalid, join_messages, quoted},
    json::{Object, ObjectError},
    members::{Member, Members},
    pet::NewPet,
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
                visible_path(path)
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
pub type Records = Box<dyn Iterator<Item = (u64, Record)>>;

pub const NOT_UTF8: &str =
    "is not UTF-8; save the file in UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8";

/// An animal in a file.
pub struct PetRecord {
    /// Its category is not known yet.
    pet: NewPet,
    category: CategoryReference,
}

/// A category by its number, its name, or both.
pub enum CategoryReference {
    Id(i64),
    Name(String),
    Both(i64, String),
}

/// An animal, and a name for its category if that has none yet.
pub type ResolvedPet = (NewPet, Option<Category>);

impl PetRecord {
    /// Returns what is invalid.
    pub fn new(
        members: &impl Members,
        category: Result<CategoryReference, Invalid>,
    ) -> Result<Self, String> {
        let members = UnknownCategory {
            members,
            category: &category,
        };
        let pet = NewPet::from_members(&members).map_err(|invalid| join_messages(&invalid))?;
        let category = category.map_err(|invalid| invalid.to_string())?;
        Ok(Self { pet, category })
    }

    /// The pet, if its category is known. Adds a name for its category to `names`, and returns
    /// it, if the record has one and they have none.
    pub fn resolve(mut self, names: &mut CategoryNames) -> Result<ResolvedPet, String> {
        let (category_id, new_category) = self.category.resolve(names)?;
        self.pet.category_id = category_id;
        Ok((self.pet, new_category))
    }
}

/// The members of an animal whose category may be given by its name.
struct UnknownCategory<'a, M> {
    members: &'a M,
    category: &'a Result<CategoryReference, Invalid>,
}

impl<M: Members> Members for UnknownCategory<'_, M> {
    fn optional<T: Member>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        self.members.optional(name)
    }

    fn required<T: Member>(&self, name: &'static str) -> Result<T, Invalid> {
        match (name, self.category) {
            ("categoryId", Err(invalid)) => Err(invalid.clone()),
            // A placeholder until the category is found by its name.
            ("categoryId", Ok(_)) => T::from_cell("0").map_err(|reason| Invalid::new(name, reason)),
            _ => self.members.required(name),
        }
    }
}

impl CategoryReference {
    /// From cells or members with a number and a name.
    pub fn parse(number: Option<&str>, name: Option<&str>) -> Result<Self, Invalid> {
        let is_filled = |text: &&str| !text.trim().is_empty();
        let name = name.filter(is_filled).map(String::from);
        match number.filter(is_filled) {
            Some(number) => match i64::from_cell(number) {
                Ok(id) => Ok(Self::new(id, name)),
                Err(reason) => Err(Invalid::new("categoryId", reason)),
            },
            None => name.map(Self::Name).ok_or_else(|| {
                let reason = "required; must be an integer, or the name of a category in category";
                Invalid::new("categoryId", reason)
            }),
        }
    }

    fn new(id: i64, name: Option<String>) -> Self {
        match name {
            None => Self::Id(id),
            Some(name) => Self::Both(id, name),
        }
    }

    fn resolve(self, names: &mut CategoryNames) -> Result<(i64, Option<Category>), String> {
        // A name may begin or end with spaces; in a table they are rarely meant.
        let find = |text: &str| names.id(text).or_else(|| names.id(text.trim()));
        match self {
            Self::Id(id) => Ok((id, None)),
            // It may also be a number.
            Self::Name(text) => {
                let name = text.trim();
                let found = find(&text).or_else(|| name.parse().ok());
                let unknown = || {
                    let name = quoted(name);
                    format!(
                        "category: no category is named {name}; name it first, or add its number"
                    )
                };
                Ok((found.ok_or_else(unknown)?, None))
            }
            Self::Both(id, text) => match (find(&text), names.name(id)) {
                (Some(found), _) if found == id => Ok((id, None)),
                (None, None) => {
                    let name = CategoryName::parse(text.trim());
                    let name = name.map_err(|reason| format!("category: {reason}"))?;
                    let id = CategoryId::from_store(id);
                    let category = Category { id, name };
                    names.insert(category.clone());
                    Ok((id.get(), Some(category)))
                }
                (Some(found), _) => Err(format!(
                    "categoryId {id} and category {} contradict each other: that category is \
                     {found}; correct one of them",
                    quoted(text.trim())
                )),
                (None, Some(name)) => Err(format!(
                    "categoryId {id} and category {} contradict each other: {id} is {}; correct \
                     one of them",
                    quoted(text.trim()),
                    quoted(name.as_str())
                )),
            },
        }
    }
}

/// Size limit of a JSON line or CSV record: far more than an animal needs.
pub const MAX_RECORD_BYTES: usize = 64 << 10;

/// Reads a file lazily. Yields each record with the number of its first line.
pub fn read(format: Format, mut file: impl BufRead + 'static) -> Result<Records, String> {
    let start = file.fill_buf();
    let start = start.map_err(|cause| format!("cannot be read: {cause}"))?;
    if let Some(reason) = other_format(format, start) {
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

/// What a file is that is evidently not in the format, and what to do about it.
fn other_format(format: Format, start: &[u8]) -> Option<&'static str> {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let text = text.trim_ascii_start();
    let line = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next()?);
    let cell = |cell: &str| {
        cell.trim_matches(['"', ' ', '\r'])
            .eq_ignore_ascii_case("name")
    };
    let is_header = line.split([',', ';', '\t']).any(cell);
    match (start, text, format) {
        ([b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..], ..) => Some(
            "the file is a spreadsheet or an archive, whatever its name; open it with the program \
             that it is for, and save the table as CSV in UTF-8",
        ),
        ([0x1f, 0x8b, ..], ..) => Some("the file is compressed; unpack it first with gunzip"),
        // With a byte order mark, or a NUL in the first character.
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
            let line = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
            let line = line.trim_ascii_end();
            if !line.is_empty() {
                return Some((number, pet_from_json(line).map_err(RecordError::Invalid)));
            }
        }
    })
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
                Err(Invalid::new("category", reason))
            }
        },
        (_, name) => {
            let name = name.and_then(|name| name.as_string());
            let name = name.filter(|name| !name.trim().is_empty());
            let id = object.required("categoryId");
            id.map(|id| CategoryReference::new(id, name.map(Cow::into_owned)))
        }
    };
    PetRecord::new(&object, category)
}

/// What is wrong with a line, without the words of the JSON parser.
fn malformed(error: &ObjectError) -> String {
    let text = error.to_string();
    // The line has a number of its own in the file.
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
