//! Photos that clients send, as small JPEGs without metadata.
//!
//! [`Pool::prepare`] decodes a JPEG, PNG or WebP, whatever it claims to be, and encodes it again
//! in two sizes, on threads of its own. [`prepare`] does so on the thread of the caller, for tests
//! and tools. Neither does I/O.
//!
//! An image comes from the network, so nothing in it is trusted. First the structure of the
//! file is read (`codec`): its dimensions, from which the memory that decoding takes is
//! known before it is allocated, and its end, without which it is truncated. A decoder then
//! gets only the parts that pixels depend on. Of the metadata nothing but the EXIF orientation
//! is read, and nothing is kept: a phone writes the address of its owner there.
//!
//! # Limits
//!
//! - 50 megapixels, and 65,535 pixels on a side.
//! - [`MAX_MEMORY`] for the pixels and tables of a decoder, estimated from the header. The
//!   file itself (twice) and [`MAX_OVERHEAD`] come on top. A pool decodes one image at a time that
//!   takes more than [`MAX_SHARED_MEMORY`].
//! - A deadline, which the decoders' reader and the loops over rows check. A decoder that has
//!   read all its input continues until the image is complete, at 50 megapixels for about a
//!   second, and scaling and encoding the result are not interrupted either.

mod codec;
mod deadline;
mod format;
mod limits;
mod pool;
mod shrink;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use image::{
    DynamicImage, ImageEncoder, RgbImage,
    codecs::jpeg::JpegEncoder,
    imageops::{self, FilterType},
};

pub use limits::{MAX_MEMORY, MAX_OVERHEAD, MAX_PIXELS, MAX_SHARED_MEMORY, MAX_SIDE};
pub use pool::Pool;

use deadline::Deadline;

/// The longer side of the full size, in pixels.
pub const FULL_SIDE: u32 = 1600;

/// The longer side of the thumbnail, in pixels.
pub const THUMB_SIDE: u32 = 320;

const FULL_QUALITY: u8 = 82;
const THUMB_QUALITY: u8 = 76;

/// A photo in two sizes, upright, as JPEGs without metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedPhoto {
    /// The width of the full size.
    pub width: u32,
    /// The height of the full size.
    pub height: u32,
    /// At most [`FULL_SIDE`] on the longer side, and never larger than the original.
    pub full: Vec<u8>,
    /// At most [`THUMB_SIDE`] on the longer side.
    pub thumb: Vec<u8>,
}

/// The reason why a photo was not prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// Not a JPEG, PNG or WebP that can be decoded.
    NotAnImage {
        /// The format, if it was recognized: `GIF`, `arithmetic-coded JPEG`.
        found: Option<&'static str>,
    },
    /// More pixels than [`MAX_PIXELS`] or [`MAX_SIDE`] allow.
    TooLarge {
        /// The width in pixels, as the header has it.
        width: u32,
        /// The height in pixels, as the header has it.
        height: u32,
    },
    /// An encoding in which these pixels cannot be decoded in [`MAX_MEMORY`].
    TooMuchMemory {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// Truncated, or not valid in its format.
    Damaged,
    /// Not decoded in the time that it may take.
    TimedOut,
}

/// Decodes an image and encodes it in both sizes.
///
/// Gives up after `limit` of the CPU time of this thread. A panic is logged and reported as
/// [`Rejection::Damaged`].
pub fn prepare(bytes: &[u8], limit: Duration) -> Result<EncodedPhoto, Rejection> {
    let deadline = Deadline::after(limit);
    catch_panic(bytes, || prepare_within(bytes, &deadline, MAX_MEMORY))
}

/// Runs a conversion of an image. A decoder that panics must not end its thread.
fn catch_panic(
    bytes: &[u8],
    convert: impl FnOnce() -> Result<EncodedPhoto, Rejection>,
) -> Result<EncodedPhoto, Rejection> {
    catch_unwind(AssertUnwindSafe(convert)).unwrap_or_else(|_| {
        tracing::error!(bytes = bytes.len(), "converting an image panicked");
        Err(Rejection::Damaged)
    })
}

fn prepare_within(
    bytes: &[u8],
    deadline: &Deadline,
    max_memory: u64,
) -> Result<EncodedPhoto, Rejection> {
    let source = codec::decode(bytes, deadline, max_memory)?;
    deadline.check()?;
    let (width, height) = fit(source.width, source.height, FULL_SIDE);
    let mut upright = DynamicImage::ImageRgb8(resize(source.pixels, width, height));
    upright.apply_orientation(source.orientation);
    let full = upright.into_rgb8();
    let (width, height) = full.dimensions();
    deadline.check()?;
    let full_jpeg = encode(&full, FULL_QUALITY)?;
    deadline.check()?;
    let (thumb_width, thumb_height) = fit(width, height, THUMB_SIDE);
    let thumb = resize(full, thumb_width, thumb_height);
    Ok(EncodedPhoto {
        width,
        height,
        full: full_jpeg,
        thumb: encode(&thumb, THUMB_QUALITY)?,
    })
}

/// The dimensions with at most `side` on the longer side, in the same proportion.
fn fit(width: u32, height: u32, side: u32) -> (u32, u32) {
    let longer = width.max(height);
    if longer <= side {
        return (width, height);
    }
    let scale = |length: u32| {
        let rounded =
            (u64::from(length) * u64::from(side) + u64::from(longer) / 2) / u64::from(longer);
        u32::try_from(rounded).unwrap_or(side).max(1)
    };
    (scale(width), scale(height))
}

fn resize(image: RgbImage, width: u32, height: u32) -> RgbImage {
    if image.dimensions() == (width, height) {
        return image;
    }
    imageops::resize(&image, width, height, FilterType::CatmullRom)
}

fn encode(image: &RgbImage, quality: u8) -> Result<Vec<u8>, Rejection> {
    let mut jpeg = Vec::new();
    let encoder = JpegEncoder::new_with_quality(&mut jpeg, quality);
    let (width, height) = image.dimensions();
    encoder
        .write_image(image, width, height, image::ExtendedColorType::Rgb8)
        .map_err(|error| {
            tracing::error!(%error, "encoding a photo failed");
            Rejection::Damaged
        })?;
    Ok(jpeg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_their_proportion_and_never_grow() {
        assert_eq!(fit(4032, 3024, 1600), (1600, 1200));
        assert_eq!(fit(3024, 4032, 1600), (1200, 1600));
        assert_eq!(fit(1600, 1, 1600), (1600, 1));
        assert_eq!(fit(7, 5, 320), (7, 5));
        assert_eq!(fit(65_535, 1, 320), (320, 1));
        assert_eq!(fit(1601, 1601, 1600), (1600, 1600));
    }
}
