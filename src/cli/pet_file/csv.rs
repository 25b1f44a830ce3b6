//! CSV files, as spreadsheets write them.

use std::{
    io::{BufRead, Cursor, Read},
    iter,
};

use csv::StringRecord;

use super::{
    columns::is_blank,
    record::{NOT_UTF8, RecordError},
    record_splitter::{RecordSplitter, read_line},
    table::Rows,
};

/// Reads the rows of a file in UTF-8 lazily. Spreadsheets write empty ones, which are skipped.
pub fn read_csv(mut file: impl BufRead + 'static) -> Result<Rows, String> {
    let FirstLine {
        line,
        delimiter,
        text,
    } = FirstLine::read(&mut file)?;
    let file = Cursor::new(text).chain(file);
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false)
        .from_reader(RecordSplitter::new(file, line, delimiter));
    let mut row = StringRecord::new();
    Ok(Box::new(iter::from_fn(move || {
        loop {
            let read = match reader.read_record(&mut row) {
                Ok(false) => return None,
                Ok(true) if row.iter().all(is_blank) => continue,
                Ok(true) => Ok(row.clone()),
                Err(error) if error.is_io_error() => Err(RecordError::Fatal(reason(&error))),
                Err(error) => Err(RecordError::Invalid(reason(&error))),
            };
            return Some((reader.get_ref().line, read));
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

/// The first line that is not empty.
struct FirstLine {
    line: u64,
    delimiter: u8,
    text: Vec<u8>,
}

impl FirstLine {
    fn read(file: &mut impl BufRead) -> Result<Self, String> {
        // Excel names the delimiter in a line of its own.
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

/// Returns the most frequent candidate in a line. Where the decimal separator is a comma,
/// spreadsheets separate with semicolons.
fn guess_delimiter(line: &[u8]) -> u8 {
    let count = |mark: u8| line.iter().filter(|byte| **byte == mark).count();
    // Of several that are equally frequent, the last is taken.
    let candidates = [b';', b'\t', b','].into_iter();
    candidates.max_by_key(|mark| count(*mark)).unwrap_or(b',')
}
