//! Line numbers for a parser that reports byte offsets, and detection of unclosed quotes. The CSV
//! parser counts only LF, and counts the LF of CRLF as part of the next line. After an unclosed
//! quote, it takes all lines up to the next quote for a single cell.

use std::{
    collections::VecDeque,
    io::{self, Read},
};

/// Reads a file and remembers where its lines start.
pub struct LineNumbers<R> {
    file: R,
    delimiter: u8,
    cell: Cell,
    /// The line of the last quote that was opened.
    quote_line: u64,
    /// The offset at which an unclosed quote is detected, and the line of that quote.
    open_quote: Option<(u64, u64)>,
    /// The offset of the next byte, and the number of its line.
    offset: u64,
    line: u64,
    /// True if the next byte is the first of its line, and true if it follows a CR.
    at_start: bool,
    after_cr: bool,
    /// The offsets and numbers of lines that are not empty.
    starts: VecDeque<(u64, u64)>,
}

/// The part of a cell that precedes a byte.
#[derive(Clone, Copy)]
enum Cell {
    Start,
    Plain,
    Quoted,
    /// A quote within quotes, which ends the cell unless another follows.
    AfterQuote,
}

impl<R> LineNumbers<R> {
    /// Creates a reader. `line` is the number of the first line.
    pub fn new(file: R, line: u64, delimiter: u8) -> Self {
        Self {
            file,
            delimiter,
            cell: Cell::Start,
            quote_line: line,
            open_quote: None,
            offset: 0,
            line,
            at_start: true,
            after_cr: false,
            starts: VecDeque::new(),
        }
    }

    /// Returns the number of the first line that starts at an offset or after it and is not
    /// empty. Offsets must ascend from call to call.
    pub fn line_from(&mut self, offset: u64) -> u64 {
        while self.starts.front().is_some_and(|start| start.0 < offset) {
            self.starts.pop_front();
        }
        self.starts.front().map_or(self.line, |start| start.1)
    }

    /// Returns the line of the first unclosed quote, if it is detected up to this offset.
    pub fn open_quote_before(&self, offset: u64) -> Option<u64> {
        let open_quote = self.open_quote.filter(|(shows, _)| *shows <= offset);
        open_quote.map(|(_, line)| line)
    }

    /// Returns the line of the quote that contains the last byte that was read.
    pub fn current_quote(&self) -> Option<u64> {
        matches!(self.cell, Cell::Quoted).then_some(self.quote_line)
    }

    fn follow_cell(&mut self, byte: u8) {
        self.cell = match (self.cell, byte) {
            (Cell::Start, b'"') => {
                self.quote_line = self.line;
                Cell::Quoted
            }
            (Cell::Quoted, b'"') => Cell::AfterQuote,
            (Cell::Quoted, _) | (Cell::AfterQuote, b'"') => Cell::Quoted,
            (_, b'\r' | b'\n') => Cell::Start,
            (_, byte) if byte == self.delimiter => Cell::Start,
            (Cell::AfterQuote, _) => {
                // Text follows a quoted cell of several lines: the closing quote was meant to
                // open another cell.
                if self.quote_line < self.line {
                    self.open_quote
                        .get_or_insert((self.offset, self.quote_line));
                }
                Cell::Plain
            }
            _ => Cell::Plain,
        };
    }

    fn count(&mut self, byte: u8) {
        self.follow_cell(byte);
        match byte {
            b'\n' if self.after_cr => {}
            b'\r' | b'\n' => {
                self.line += 1;
                self.at_start = true;
            }
            _ if self.at_start => {
                self.starts.push_back((self.offset, self.line));
                self.at_start = false;
            }
            _ => {}
        }
        self.after_cr = byte == b'\r';
        self.offset += 1;
    }
}

impl<R: Read> Read for LineNumbers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if let (0, Some(line)) = (read, self.current_quote()) {
            self.open_quote.get_or_insert((self.offset, line));
        }
        buffer[..read].iter().for_each(|byte| self.count(*byte));
        Ok(read)
    }
}
