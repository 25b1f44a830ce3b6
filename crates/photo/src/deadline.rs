//! The time that decoding may take, and a reader that checks it.

use std::{
    io::{self, BufRead, Read, Seek, SeekFrom},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use system::cpu_time;

use crate::Rejection;

/// The CPU time of a thread after which an image is given up, or the moment at which its caller is
/// gone. On a busy machine, where a thread of low priority waits, an image has as much of it as
/// on any other.
#[derive(Debug, Clone)]
pub struct Deadline {
    at: Duration,
    is_cancelled: Arc<AtomicBool>,
}

impl Deadline {
    /// A deadline after a CPU time of this thread, which decodes the image.
    pub fn after(limit: Duration) -> Self {
        Self::or_cancelled(limit, Arc::default())
    }

    /// A deadline that is also reached when `is_cancelled` is set.
    pub fn or_cancelled(limit: Duration, is_cancelled: Arc<AtomicBool>) -> Self {
        let at = cpu_time::of_this_thread() + limit;
        Self { at, is_cancelled }
    }

    /// Fails after the deadline.
    pub fn check(&self) -> Result<(), Rejection> {
        if self.is_cancelled.load(Ordering::Relaxed) || cpu_time::of_this_thread() >= self.at {
            return Err(Rejection::TimedOut);
        }
        Ok(())
    }

    /// The rejection for an error of a decoder, which does not say that its reader failed.
    pub fn rejection(&self) -> Rejection {
        self.check().err().unwrap_or(Rejection::Damaged)
    }
}

/// The most that is read, in bytes, until the clock is read again.
const BLOCK: usize = 8192;

/// Reads of a few bytes until the clock is read again. A decoder of JPEG reads four at a time.
const READS: u32 = 1024;

/// The bytes of the length of a segment of a JPEG. The clock is read at each one: a scan may be
/// a pass over all blocks without data.
const LENGTH: usize = 2;

/// A file in memory, which cannot be read after a deadline.
#[derive(Debug)]
pub struct Source<'a> {
    bytes: &'a [u8],
    position: usize,
    deadline: &'a Deadline,
    /// Reads until the clock is read again.
    unchecked_reads: u32,
}

impl<'a> Source<'a> {
    /// A reader from the start of the file.
    pub fn new(bytes: &'a [u8], deadline: &'a Deadline) -> Self {
        Self {
            bytes,
            position: 0,
            deadline,
            unchecked_reads: 0,
        }
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    #[cold]
    fn check(&mut self) -> io::Result<()> {
        self.unchecked_reads = READS;
        self.deadline
            .check()
            .map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Source<'_> {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.unchecked_reads == 0 || buffer.len() == LENGTH || buffer.len() > BLOCK {
            self.check()?;
        }
        self.unchecked_reads -= 1;
        let rest = self.rest();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.position += length;
        Ok(length)
    }
}

impl BufRead for Source<'_> {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.unchecked_reads == 0 {
            self.check()?;
        }
        self.unchecked_reads -= 1;
        let rest = self.rest();
        Ok(&rest[..rest.len().min(BLOCK)])
    }

    #[inline]
    fn consume(&mut self, amount: usize) {
        // A whole block may have been a thousand times as large when it was decompressed.
        if amount >= BLOCK / 2 {
            self.unchecked_reads = 0;
        }
        self.position += amount;
    }
}

impl Seek for Source<'_> {
    #[inline]
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => usize::try_from(position).ok(),
            SeekFrom::Current(offset) => isize::try_from(offset)
                .ok()
                .and_then(|offset| self.position.checked_add_signed(offset)),
            SeekFrom::End(offset) => isize::try_from(offset)
                .ok()
                .and_then(|offset| self.bytes.len().checked_add_signed(offset)),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::{hint, thread, time::Instant};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn reads_fail_after_the_deadline() {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::or_cancelled(HOUR, is_cancelled.clone());
        let bytes = vec![7; 1 << 20];
        let mut source = Source::new(&bytes, &deadline);
        let mut four = [0; 4];
        source.read_exact(&mut four).unwrap();
        assert_eq!(four, [7; 4]);
        is_cancelled.store(true, Ordering::Relaxed);
        source.read_exact(&mut four).unwrap();
        source.read_exact(&mut [0; LENGTH]).unwrap_err();
        source.unchecked_reads = READS - 1;
        let reads = (0..=READS).take_while(|_| source.read_exact(&mut four).is_ok());
        assert!(reads.count() < READS as usize);

        let mut blocks = Source::new(&bytes, &deadline);
        assert_eq!(
            blocks.fill_buf().unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(deadline.rejection(), Rejection::TimedOut);
    }

    /// The time during which the thread does not run does not count.
    #[test]
    fn only_cpu_time_counts() {
        let limit = Duration::from_millis(20);
        let deadline = Deadline::after(limit);
        let begun = Instant::now();
        while begun.elapsed() < 5 * limit {
            thread::sleep(limit);
        }
        deadline.check().unwrap();
        while deadline.check().is_ok() {
            hint::spin_loop();
        }
    }

    #[test]
    fn large_blocks_are_checked_one_by_one() {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::or_cancelled(HOUR, is_cancelled.clone());
        let bytes = vec![7; 1 << 20];
        let mut source = Source::new(&bytes, &deadline);
        let length = source.fill_buf().unwrap().len();
        assert_eq!(length, BLOCK);
        source.consume(length);
        is_cancelled.store(true, Ordering::Relaxed);
        assert!(source.fill_buf().is_err());
    }

    #[test]
    fn positions_outside_of_the_file_are_its_end() {
        let deadline = Deadline::after(HOUR);
        let mut source = Source::new(&[1, 2, 3], &deadline);
        source.seek(SeekFrom::End(-1)).unwrap();
        assert_eq!(source.fill_buf().unwrap(), [3]);
        source.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert!(source.fill_buf().unwrap().is_empty());
        source.seek(SeekFrom::Start(0)).unwrap();
        assert!(source.seek(SeekFrom::Current(-1)).is_err());
    }
}
