//! Files that are no tables, recognised by their content, whatever their name.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
};

use zip::ZipArchive;

use super::encoding::unmarked_utf16;

/// The kind of a file.
pub enum Kind {
    Text,
    /// A workbook that can be read (.xlsx).
    Workbook,
    /// Another kind of file, with an article, and advice.
    Other(&'static str, &'static str),
}

const NO_TABLE: &str = "name a file with a table, .csv or .xlsx";
const SAVE_AS: &str = "open it, and save the table as .xlsx or CSV";

/// The beginnings of files.
const SIGNATURES: [(&[u8], &str); 12] = [
    (b"\x89PNG", "a picture (PNG)"),
    (b"\xff\xd8\xff", "a picture (JPEG)"),
    (b"GIF8", "a picture (GIF)"),
    (b"BM", "a picture (BMP)"),
    (b"II*\0", "a picture (TIFF)"),
    (b"MM\0*", "a picture (TIFF)"),
    (b"%PDF", "a PDF document"),
    (b"{\\rtf", "a text document (RTF)"),
    (b"SQLite format 3\0", "a database (SQLite)"),
    (b"Rar!", "an archive (RAR)"),
    (b"7z\xbc\xaf", "an archive (7z)"),
    (b"(\xb5/\xfd", "an archive (Zstandard)"),
];

/// The files in archives that tell what they are, as the beginnings of their paths.
const IN_ARCHIVES: [(&str, Kind); 7] = [
    ("xl/workbook.xml", Kind::Workbook),
    (
        "xl/workbook.bin",
        Kind::Other("a binary workbook (.xlsb)", SAVE_AS),
    ),
    ("word/", Kind::Other("a Word document", NO_TABLE)),
    ("ppt/", Kind::Other("a presentation (PowerPoint)", NO_TABLE)),
    (
        "Index/Document.iwa",
        Kind::Other("a Numbers document, or another one of Apple", SAVE_AS),
    ),
    (
        "Index.zip",
        Kind::Other("a Numbers document, or another one of Apple", SAVE_AS),
    ),
    (
        "content.xml",
        Kind::Other("an OpenDocument file, such as .ods", SAVE_AS),
    ),
];

/// The names in OLE compound files that tell what they are.
const IN_OLE_FILES: [(&str, &str, &str); 4] = [
    (
        "EncryptedPackage",
        "a workbook with a password",
        "open it, and save it without the password",
    ),
    ("WordDocument", "a Word document (.doc)", NO_TABLE),
    ("Workbook", "a workbook in an old format (.xls)", SAVE_AS),
    ("Book", "a workbook in an old format (.xls)", SAVE_AS),
];

impl Kind {
    /// Reads what tells the kind of a file, and rewinds it.
    pub fn of(file: &mut File) -> io::Result<Self> {
        file.rewind()?;
        let mut start = Vec::new();
        file.take(1024).read_to_end(&mut start)?;
        let kind = if start.starts_with(b"PK\x03\x04") {
            Self::of_archive(file)
        } else if start.starts_with(b"\xd0\xcf\x11\xe0") {
            Self::of_ole_file(file, &start)?
        } else {
            let is_even = file.metadata()?.len().is_multiple_of(2);
            Self::of_start(&start, is_even)
        };
        file.rewind()?;
        Ok(kind)
    }

    fn of_start(start: &[u8], is_even: bool) -> Self {
        let mut signatures = SIGNATURES.into_iter();
        if let Some((_, kind)) = signatures.find(|(signature, _)| {
            // Two letters can also begin a text.
            start.starts_with(signature) && (signature.len() > 2 || start.contains(&0))
        }) {
            return Self::Other(kind, NO_TABLE);
        }
        if start.starts_with(b"\x1f\x8b") {
            return Self::Other("compressed", "unpack it first with gunzip");
        }
        if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
            return Self::Other("a picture (WebP)", NO_TABLE);
        }
        if start.starts_with(b"\0") && start.get(4..8) == Some(b"ftyp") {
            return Self::Other("a picture or a video (HEIC, AVIF, MP4)", NO_TABLE);
        }
        let text = start
            .strip_prefix(b"\xef\xbb\xbf")
            .unwrap_or(start)
            .trim_ascii_start()
            .to_ascii_lowercase();
        let is_html = [
            &b"<!doctype html"[..],
            b"<html",
            b"<head",
            b"<body",
            b"<table",
        ]
        .iter()
        .any(|tag| text.starts_with(tag));
        if is_html {
            // Some programs export web pages as .xls.
            return Self::Other("a web page (HTML)", SAVE_AS);
        }
        if text.starts_with(b"<?xml") {
            return Self::Other("an XML file", SAVE_AS);
        }
        let is_marked_utf16 = matches!(start, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
        if is_marked_utf16 || is_even && unmarked_utf16(start).is_some() {
            return Self::Text;
        }
        let mut lines = start.split(|byte| *byte == b'\n');
        if lines.next().is_some_and(|line| line.contains(&0)) {
            return Self::Other("not text, as it has NUL characters", NO_TABLE);
        }
        Self::Text
    }

    fn of_archive(file: &mut File) -> Self {
        let archive = ZipArchive::new(BufReader::new(file));
        let unknown = Self::Other("an archive (ZIP)", NO_TABLE);
        let Ok(archive) = archive else {
            return unknown;
        };
        let mut kinds = IN_ARCHIVES.into_iter();
        let names: Vec<_> = archive.file_names().flatten().collect();
        let found = kinds.find(|(path, _)| names.iter().any(|name| name.starts_with(path)));
        found.map_or(unknown, |(_, kind)| kind)
    }

    /// Finds names in the first part of the directory of an OLE compound file
    /// (\[MS-CFB\], sections 2.2 and 2.6).
    fn of_ole_file(file: &mut File, start: &[u8]) -> io::Result<Self> {
        let shift = if start.get(30) == Some(&12) { 12 } else { 9 };
        let sector = start.get(48..52).map_or(0, |bytes| {
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        });
        file.seek(SeekFrom::Start((u64::from(sector) + 1) << shift))?;
        let mut directory = Vec::new();
        file.take(4096).read_to_end(&mut directory)?;
        let has = |name: &str| {
            let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
            memchr::memmem::find(&directory, &name).is_some()
        };
        let mut names = IN_OLE_FILES.into_iter();
        let found = names.find(|(name, ..)| has(name));
        let (_, kind, advice) = found.unwrap_or(("", "a document in an old format", NO_TABLE));
        Ok(Self::Other(kind, advice))
    }
}
