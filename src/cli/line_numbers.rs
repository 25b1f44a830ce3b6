//! Line numbers for a parser that reports byte offsets. The CSV parser counts LF only, and
//! counts that of CRLF to the line after it.

use std::{
    collections::VecDeque,
    io::{self, Read},
};

/// Reads a file and remembers where its lines start.
pub struct LineNumbers<R> {
    file: R,
    /// Offset of the next byte, and the number of its line.
    offset: u64,
    line: u64,
    /// Whether the next byte is the first of its line, and whether it follows a CR.
    at_start: bool,
    after_cr: bool,
    /// Offsets and numbers of lines that are not empty.
    starts: VecDeque<(u64, u64)>,
}

impl<R> LineNumbers<R> {
    /// `line` is the number of the first line.
    pub fn new(file: R, line: u64) -> Self {
        Self {
            file,
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

    fn count(&mut self, byte: u8) {
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
        buffer[..read].iter().for_each(|byte| self.count(*byte));
        Ok(read)
    }
}
