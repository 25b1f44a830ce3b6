//! The encoding of a text file.

use std::{
    fs::File,
    io::{self, Read, Seek},
};

use encoding_rs::{DecoderResult, UTF_16BE, UTF_16LE, WINDOWS_1252};
use encoding_rs_io::DecodeReaderBytesBuilder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// UTF-16 with a byte order mark.
    Utf16,
    /// UTF-16 without a byte order mark, in which every other byte of ASCII characters is zero.
    UnmarkedUtf16(ByteOrder),
    /// The encoding of files that spreadsheets write on Windows, in Western Europe and America.
    Windows1252,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteOrder {
    LittleEndian,
    BigEndian,
}

impl ByteOrder {
    fn encoding(self) -> &'static encoding_rs::Encoding {
        match self {
            Self::LittleEndian => UTF_16LE,
            Self::BigEndian => UTF_16BE,
        }
    }

    /// Fails if a file lacks a part of a character, which would be replaced.
    fn ensure_complete(self, file: &mut File) -> io::Result<()> {
        file.rewind()?;
        let mut decoder = self.encoding().new_decoder_without_bom_handling();
        let mut bytes = vec![0; 1 << 14];
        let mut text = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut bytes)?;
            let is_last = read == 0;
            let (result, ..) =
                decoder.decode_to_utf8_without_replacement(&bytes[..read], &mut text, is_last);
            if let DecoderResult::Malformed(..) = result {
                let reason = "the file is damaged: it is not complete UTF-16";
                return Err(io::Error::other(reason));
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// The length of the start of a file in which zeros are counted.
const START: usize = 1024;

/// Returns the byte order if this is the start of UTF-16 without a mark: at least a quarter of the
/// bytes are zeros, all of them at even or all at odd places. The file must have an even length.
pub fn unmarked_utf16(start: &[u8]) -> Option<ByteOrder> {
    let start = &start[..start.len().min(START)];
    let zeros = |skipped: usize| {
        let bytes = start.iter().skip(skipped).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    match (zeros(0), zeros(1)) {
        (0, 0) => None,
        (0, odd) => (odd * 4 >= start.len()).then_some(ByteOrder::LittleEndian),
        (even, 0) => (even * 4 >= start.len()).then_some(ByteOrder::BigEndian),
        _ => None,
    }
}

impl Encoding {
    /// Reads a file to its end, in bounded memory. A byte order mark decides, or the zeros of
    /// UTF-16 without one; otherwise it is UTF-8 if every byte is valid. Fails if UTF-16 is
    /// incomplete.
    pub fn detect(file: &mut File) -> io::Result<Self> {
        let mut buffer = vec![0; 1 << 16];
        // The start of a character whose rest has not been read yet.
        let mut partial = 0;
        let mut is_start = true;
        loop {
            let read = file.read(&mut buffer[partial..])?;
            let bytes = &buffer[..partial + read];
            let marked = match bytes {
                [0xff, 0xfe, ..] => Some(ByteOrder::LittleEndian),
                [0xfe, 0xff, ..] => Some(ByteOrder::BigEndian),
                _ => None,
            };
            if let Some(order) = marked.filter(|_| is_start) {
                order.ensure_complete(file)?;
                return Ok(Self::Utf16);
            }
            if is_start
                && file.metadata()?.len().is_multiple_of(2)
                && let Some(order) = unmarked_utf16(bytes)
            {
                order.ensure_complete(file)?;
                return Ok(Self::UnmarkedUtf16(order));
            }
            is_start = false;
            let valid = match str::from_utf8(bytes) {
                Ok(_) if read == 0 => return Ok(Self::Utf8),
                Ok(_) => bytes.len(),
                Err(error) if error.error_len().is_none() && read > 0 => error.valid_up_to(),
                Err(_) => return Ok(Self::Windows1252),
            };
            let rest = valid..bytes.len();
            partial = rest.len();
            buffer.copy_within(rest, 0);
        }
    }

    /// Decodes a file lazily, without its byte order mark.
    pub fn decode(self, file: impl Read) -> impl Read {
        let mut decoder = DecodeReaderBytesBuilder::new();
        match self {
            Self::Utf8 => decoder.utf8_passthru(true).strip_bom(true),
            Self::Utf16 => decoder.bom_sniffing(true),
            Self::UnmarkedUtf16(order) => {
                let encoding = order.encoding();
                decoder.encoding(Some(encoding)).bom_sniffing(false)
            }
            Self::Windows1252 => decoder.encoding(Some(WINDOWS_1252)).bom_sniffing(false),
        };
        decoder.build(file)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(bytes: &[u8]) -> (Encoding, String) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let encoding = Encoding::detect(&mut file).unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        encoding.decode(file).read_to_string(&mut text).unwrap();
        (encoding, text)
    }

    #[test]
    fn the_encoding_is_detected() {
        for (bytes, encoding, text) in [
            (&b""[..], Encoding::Utf8, ""),
            (b"Rex", Encoding::Utf8, "Rex"),
            ("Bär".as_bytes(), Encoding::Utf8, "Bär"),
            (b"\xef\xbb\xbfB\xc3\xa4r", Encoding::Utf8, "Bär"),
            (b"B\xe4r", Encoding::Windows1252, "Bär"),
            (b"\x80 \x93x\x94", Encoding::Windows1252, "€ “x”"),
            // The last character is cut off.
            (b"B\xc3", Encoding::Windows1252, "BÃ"),
            (b"\xff\xfeB\0\xe4\0", Encoding::Utf16, "Bä"),
            (b"\xfe\xff\0B\0\xe4", Encoding::Utf16, "Bä"),
            (
                b"B\0\xa3\x03",
                Encoding::UnmarkedUtf16(ByteOrder::LittleEndian),
                "BΣ",
            ),
            (
                b"\0B\x03\xa3",
                Encoding::UnmarkedUtf16(ByteOrder::BigEndian),
                "BΣ",
            ),
            // An odd length, and less than a quarter of zeros.
            (b"B\0C", Encoding::Utf8, "B\0C"),
            (b"B\0CDEF", Encoding::Utf8, "B\0CDEF"),
            (b"B\0\0D", Encoding::Utf8, "B\0\0D"),
        ] {
            assert_eq!(read(bytes), (encoding, text.into()));
        }
    }

    #[test]
    fn incomplete_utf_16_is_refused() {
        for (bytes, is_complete) in [
            (&b"\xff\xfeB\0"[..], true),
            (b"\xff\xfeB\0\xe4", false),
            // A character of two halves, and each of them alone.
            (b"\xff\xfe\x3d\xd8\0\xde", true),
            (b"\xff\xfe\x3d\xd8", false),
            (b"\xfe\xff\xd8\x3d\0B", false),
            (b"B\0\x01\xdeB\0B\0", false),
        ] {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytes).unwrap();
            file.rewind().unwrap();
            let detected = Encoding::detect(&mut file);
            assert_eq!(detected.is_ok(), is_complete, "{bytes:?}");
        }
    }

    /// Characters may be split between two reads.
    #[test]
    fn long_files_are_detected() {
        for ascii in (1 << 16) - 4..(1 << 16) + 4 {
            let mut text = "a".repeat(ascii) + "😀ä";
            assert_eq!(read(text.as_bytes()), (Encoding::Utf8, text.clone()));
            let mut bytes = text.clone().into_bytes();
            bytes.push(0xe4);
            assert_eq!(read(&bytes).0, Encoding::Windows1252);
            text.push_str(&"ä".repeat(1 << 16));
            assert_eq!(read(text.as_bytes()), (Encoding::Utf8, text));
        }
    }
}
