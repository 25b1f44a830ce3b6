//! The sizes of images that are decoded.

use crate::Rejection;

/// The largest number of pixels: the largest photos that phones take today.
pub const MAX_PIXELS: u64 = 50_000_000;

/// The longest side in pixels: the most that a JPEG can have.
pub const MAX_SIDE: u32 = 65_535;

/// The most memory, in bytes, that the pixels and tables of one decoder may take, as estimated
/// from the header of the image.
///
/// A JPEG of 50 megapixels takes 150 MB, a progressive one with halved colour 300 MB.
pub const MAX_MEMORY: u64 = 320 << 20;

/// The most memory, in bytes, that decoding may take beside another large image. An image that
/// takes more waits until no other does. A photo of 12 megapixels takes 36 MB, a progressive one
/// 72 MB.
pub const MAX_SHARED_MEMORY: u64 = 80 << 20;

/// The memory, in bytes, that preparing an image takes at most in addition: buffers of rows,
/// and the reduced image while it is scaled.
pub const MAX_OVERHEAD: u64 = 96 << 20;

/// Checks the dimensions of an image, before anything is allocated for it.
pub fn check_dimensions(width: u32, height: u32) -> Result<(), Rejection> {
    if width == 0 || height == 0 {
        return Err(Rejection::Damaged);
    }
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MAX_PIXELS || width.max(height) > MAX_SIDE {
        return Err(Rejection::TooLarge { width, height });
    }
    Ok(())
}

/// Checks the memory that decoding an image of these dimensions takes.
pub fn check_memory(bytes: u64, max: u64, width: u32, height: u32) -> Result<(), Rejection> {
    if bytes > max {
        return Err(Rejection::TooMuchMemory { width, height });
    }
    Ok(())
}
