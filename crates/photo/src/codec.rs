//! Reads the structure of a file and decodes its pixels, reduced to about the size that is
//! needed.

mod exif;
mod jpeg;
mod png;
mod webp;

use image::{RgbImage, metadata::Orientation};

use crate::{Rejection, deadline::Deadline, format::Format, shrink::Shrinker};

/// A decoded image.
#[derive(Debug)]
pub struct DecodedImage {
    /// The width of the original, before it is turned.
    pub width: u32,
    /// The height of the original, before it is turned.
    pub height: u32,
    /// The image, reduced by a whole factor if it is large.
    pub pixels: RgbImage,
    /// The turn that makes it upright.
    pub orientation: Orientation,
}

impl DecodedImage {
    fn new(
        width: u32,
        height: u32,
        rows: Shrinker,
        orientation: Orientation,
    ) -> Result<Self, Rejection> {
        Ok(Self {
            width,
            height,
            pixels: rows.finish().ok_or(Rejection::Damaged)?,
            orientation,
        })
    }
}

/// Decodes an image in the format that its first bytes say.
pub fn decode(
    bytes: &[u8],
    deadline: &Deadline,
    max_memory: u64,
) -> Result<DecodedImage, Rejection> {
    deadline.check()?;
    match Format::detect(bytes) {
        Format::Jpeg => jpeg::decode(bytes, deadline, max_memory),
        Format::Png => png::decode(bytes, deadline, max_memory),
        Format::WebP => webp::decode(bytes, deadline, max_memory),
        Format::Other(found) => Err(Rejection::NotAnImage { found }),
    }
}

/// The next `N` bytes, which are cut off the front of `bytes`.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], Rejection> {
    let (array, rest) = bytes.split_first_chunk().ok_or(Rejection::Damaged)?;
    *bytes = rest;
    Ok(*array)
}

/// The next `length` bytes, which are cut off the front of `bytes`.
fn take_slice<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Rejection> {
    let (slice, rest) = bytes.split_at_checked(length).ok_or(Rejection::Damaged)?;
    *bytes = rest;
    Ok(slice)
}
