//! The orientation of a photo, the only metadata that is read.

use image::metadata::Orientation;

/// Stands before the TIFF structure in a JPEG, and in some WebP files.
const PREFIX: &[u8] = b"Exif\0\0";

/// The orientation in a block of EXIF, if it has a valid one. Reads the first directory only,
/// and follows no links.
pub fn orientation(exif: &[u8]) -> Option<Orientation> {
    Orientation::from_exif_chunk(exif.strip_prefix(PREFIX).unwrap_or(exif))
}

/// Tests whether a segment of a JPEG is EXIF, and not XMP, which uses the same marker.
pub fn is_exif(segment: &[u8]) -> bool {
    segment.starts_with(PREFIX)
}
