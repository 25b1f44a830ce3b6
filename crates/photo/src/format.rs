//! Recognizes formats by their content.

pub const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Jpeg,
    Png,
    WebP,
    /// A format that is not decoded, with its name if it is known.
    Other(Option<&'static str>),
}

impl Format {
    /// Recognizes the format by the first bytes.
    pub fn detect(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"\xff\xd8\xff") {
            Self::Jpeg
        } else if bytes.starts_with(PNG_SIGNATURE) {
            Self::Png
        } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            Self::WebP
        } else {
            Self::Other(other(bytes))
        }
    }
}

/// Formats that start with fixed bytes.
const SIGNATURES: [(&[u8], &str); 26] = [
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
    (b"BM", "BMP"),
    (b"\0\0\x01\0", "ICO"),
    (b"\0\0\x02\0", "CUR"),
    (b"8BPS", "PSD"),
    (b"\xff\x0a", "JPEG XL"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"qoif", "QOI"),
    (b"%PDF-", "PDF"),
    (b"%!PS", "PostScript"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (b"OggS", "Ogg"),
    (b"ID3", "MP3"),
    (b"PK\x03\x04", "ZIP"),
    (b"Rar!\x1a\x07", "RAR"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x1f\x8b", "gzip"),
    (b"\xd0\xcf\x11\xe0", "Microsoft Office document"),
    (b"\x8aMNG\r\n\x1a\n", "MNG"),
];

/// The bytes in which text is recognized.
const TEXT_HEAD: usize = 1024;

fn other(bytes: &[u8]) -> Option<&'static str> {
    let by_signature = SIGNATURES
        .iter()
        .find(|(signature, _)| bytes.starts_with(signature));
    if let Some((_, name)) = by_signature {
        return Some(name);
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return Some(iso_media(bytes.get(8..12).unwrap_or_default()));
    }
    if bytes.starts_with(b"RIFF") {
        return match bytes.get(8..12) {
            Some(b"AVI ") => Some("AVI video"),
            Some(b"WAVE") => Some("WAV"),
            _ => None,
        };
    }
    markup(&bytes[..bytes.len().min(TEXT_HEAD)])
}

/// Names a file of ISO/IEC 14496-12 by its main brand.
fn iso_media(brand: &[u8]) -> &'static str {
    match brand {
        b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"hevx" | b"mif1" | b"msf1" => "HEIC",
        b"avif" | b"avis" => "AVIF",
        b"qt  " => "QuickTime video",
        b"crx " => "CR3 raw image",
        _ => "MP4 video",
    }
}

/// Names a text with markup.
fn markup(head: &[u8]) -> Option<&'static str> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let text = head.trim_ascii_start();
    if text.first() != Some(&b'<') {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let contains = |tag: &[u8]| lower.windows(tag.len()).any(|window| window == tag);
    if contains(b"<svg") {
        Some("SVG")
    } else if contains(b"<!doctype html") || contains(b"<html") || contains(b"<script") {
        Some("HTML")
    } else if lower.starts_with(b"<?xml") {
        Some("XML")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named() {
        let cases: [(&[u8], Option<&str>); 16] = [
            (b"GIF89a\x01\0\x01\0", Some("GIF")),
            (b"\0\0\0\x18ftypheic\0\0\0\0mif1", Some("HEIC")),
            (b"\0\0\0\x18ftypavif", Some("AVIF")),
            (b"\0\0\0\x18ftypisom", Some("MP4 video")),
            (b"\0\0\0\x18ftyp", Some("MP4 video")),
            (b"%PDF-1.7", Some("PDF")),
            (b"BM\x36\0", Some("BMP")),
            (b"MM\0*", Some("TIFF")),
            (b"\0\0\x01\0\x01\0", Some("ICO")),
            (
                b"\xef\xbb\xbf \n<?xml version='1.0'?>\n<!-- --><SVG>",
                Some("SVG"),
            ),
            (b"<!DOCTYPE html><title>", Some("HTML")),
            (b"<?xml version='1.0'?><a/>", Some("XML")),
            (b"RIFF\0\0\0\0AVI ", Some("AVI video")),
            (b"hello", None),
            (b"\xff\xd8", None),
            (b"", None),
        ];
        for (bytes, found) in cases {
            assert_eq!(Format::detect(bytes), Format::Other(found), "{bytes:?}");
        }
        assert_eq!(Format::detect(b"\xff\xd8\xff\xe0"), Format::Jpeg);
        assert_eq!(Format::detect(PNG_SIGNATURE), Format::Png);
        assert_eq!(Format::detect(b"RIFF\0\0\0\0WEBP"), Format::WebP);
    }
}
