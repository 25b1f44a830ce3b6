//! Splits a CSV file into records for a parser, to know on which line each of them starts, and to
//! find quotes that are not closed. The parser counts only LF, and takes all lines from such a
//! quote to the next one for a single cell.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Read},
};

use super::record::MAX_RECORD_BYTES;

/// Reads a file. A read never crosses the end of a record.
pub struct RecordSplitter<R> {
    file: R,
    delimiter: u8,
    /// The rest of the current record.
    record: VecDeque<u8>,
    /// The first line of the current record or, after an error, the line that it is about.
    pub line: u64,
    next_line: u64,
}

/// The part of a cell that precedes a byte.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Start,
    Plain,
    Quoted,
    /// A quote within quotes, which ends the cell unless another follows.
    AfterQuote,
}

impl<R: BufRead> RecordSplitter<R> {
    /// Creates a reader. `line` is the number of the first line.
    pub fn new(file: R, line: u64, delimiter: u8) -> Self {
        Self {
            file,
            delimiter,
            record: VecDeque::new(),
            line,
            next_line: line,
        }
    }

    /// Reads the lines of the next record, which are none at the end of the file.
    fn next_record(&mut self) -> io::Result<Vec<u8>> {
        let mut record = Vec::new();
        let mut cell = Cell::Start;
        let mut quote_line = 0;
        loop {
            if record.is_empty() {
                self.line = self.next_line;
            }
            let text = read_line(&mut self.file)?;
            let line = self.next_line;
            self.next_line += 1;
            if record.is_empty() {
                match &text[..] {
                    b"" => return Ok(record),
                    b"\n" | b"\r" | b"\r\n" => continue,
                    _ => {}
                }
            }
            for byte in &text {
                cell = match (cell, *byte) {
                    (Cell::Start, b'"') => {
                        quote_line = line;
                        Cell::Quoted
                    }
                    (Cell::Quoted, b'"') => Cell::AfterQuote,
                    (Cell::Quoted, _) | (Cell::AfterQuote, b'"') => Cell::Quoted,
                    (_, b'\r' | b'\n') => Cell::Start,
                    (_, byte) if byte == self.delimiter => Cell::Start,
                    // Text follows a quoted cell of several lines: the closing quote was meant to
                    // open another cell.
                    (Cell::AfterQuote, _) if quote_line < line => {
                        return Err(self.open_quote(quote_line));
                    }
                    _ => Cell::Plain,
                };
            }
            record.extend(&text);
            let is_too_long = record.len() > MAX_RECORD_BYTES;
            if cell == Cell::Quoted {
                if text.is_empty() || is_too_long {
                    return Err(self.open_quote(quote_line));
                }
            } else if is_too_long {
                let reason = format!("is longer than {MAX_RECORD_BYTES} bytes");
                return Err(io::Error::other(reason));
            } else {
                // The parser returns a record when it has read LF.
                if !record.ends_with(b"\n") {
                    record.push(b'\n');
                }
                return Ok(record);
            }
        }
    }

    /// Returns the error about a quote that is opened on this line.
    fn open_quote(&mut self, line: u64) -> io::Error {
        self.line = line;
        io::Error::other(
            "the quote that is opened here is not closed, so it is not known where the cell ends; \
             close it, or remove it",
        )
    }
}

impl<R: BufRead> Read for RecordSplitter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.record.is_empty() {
            self.record = self.next_record()?.into();
        }
        self.record.read(buffer)
    }
}

/// Reads a line with its end, which is LF, CRLF or CR, or the start of a very long one.
pub fn read_line(file: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    while line.len() <= MAX_RECORD_BYTES {
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
