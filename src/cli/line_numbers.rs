//! Line numbers for a parser that reports byte offsets, and quotes that are not closed. The
//! CSV parser counts LF only, and counts that of CRLF to the line after it. To a quote that is
//! not closed, it takes all lines up to the next one for a single cell.

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
    /// Where it shows that a quote was not closed, and the line of that quote.
    open_quote: Option<(u64, u64)>,
    /// Offset of the next byte, and the number of its line.
    offset: u64,
    line: u64,
    /// Whether the next byte is the first of its line, and whether it follows a CR.
    at_start: bool,
    after_cr: bool,
    /// Offsets and numbers of lines that are not empty.
    starts: VecDeque<(u64, u64)>,
}

/// The part of a cell that a byte follows.
#[derive(Clone, Copy)]
enum Cell {
    Start,
    Plain,
    Quoted,
    /// A quote within quotes, which ends the cell unless another follows.
    AfterQuote,
}

impl<R> LineNumbers<R> {
    /// `line` is the number of the first line.
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

    /// The number of the first line that starts at an offset or after it and is not empty.
    /// Offsets ascend from call to call.
    pub fn line_from(&mut self, offset: u64) -> u64 {
        while self.starts.front().is_some_and(|start| start.0 < offset) {
            self.starts.pop_front();
        }
        self.starts.front().map_or(self.line, |start| start.1)
    }

    /// The line of the first quote that is not closed, if that shows before an offset.
    pub fn open_quote_before(&self, offset: u64) -> Option<u64> {
        let open_quote = self.open_quote.filter(|(shows, _)| *shows <= offset);
        open_quote.map(|(_, line)| line)
    }

    /// The line of the quote within which the last byte is that was read.
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
                // Text after the end of a cell of several lines: this is the start of another.
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
