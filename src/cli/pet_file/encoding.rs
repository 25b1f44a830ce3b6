//! The encoding of a text file.

use std::{
    fs::File,
    io::{self, Read},
};

use encoding_rs::WINDOWS_1252;
use encoding_rs_io::DecodeReaderBytesBuilder;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// UTF-16 with a byte order mark.
    Utf16,
    /// The encoding of files that spreadsheets write on Windows, in Western Europe and America.
    Windows1252,
}

impl Encoding {
    /// Reads a file to its end, in bounded memory. A byte order mark decides; without one, it is
    /// UTF-8 if every byte is valid.
    pub fn detect(file: &mut File) -> io::Result<Self> {
        let mut buffer = vec![0; 1 << 16];
        // The start of a character whose rest has not been read yet.
        let mut partial = 0;
        let mut is_start = true;
        loop {
            let read = file.read(&mut buffer[partial..])?;
            let bytes = &buffer[..partial + read];
            if is_start && matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
                return Ok(Self::Utf16);
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
            Self::Windows1252 => decoder.encoding(Some(WINDOWS_1252)).bom_sniffing(false),
        };
        decoder.build(file)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

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
        ] {
            assert_eq!(read(bytes), (encoding, text.into()));
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
