//! JSON Lines: one animal per line, as in the API.

use std::{
    borrow::Cow,
    io::{self, BufRead, Read},
    iter,
};

use super::record::{
    CategoryReference, MAX_RECORD_BYTES, NOT_UTF8, PetRecord, Record, RecordError, Records,
};
use domain::{
    invalid::Invalid,
    json::{Object, ObjectError},
    members::Members,
    pet::PetId,
};

/// Reads a file lazily. Yields each record with its line.
pub fn read_jsonl(file: impl BufRead + 'static) -> Result<Records, String> {
    let mut records = records(file).peekable();
    match records.peek() {
        None => Err("the file is empty; each of its lines must be an animal".into()),
        Some(_) => Ok(Box::new(records)),
    }
}

fn records(mut file: impl BufRead) -> impl Iterator<Item = (u64, Record)> {
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
    let id = object
        .get("id")
        .map(|id| PetId::from_json(Some(id)))
        .transpose();
    let id = id.map_err(|invalid| vec![Invalid::new("id", invalid.reason)]);
    PetRecord::new(id, &object, category, None)
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
