//! Pictures in the PNG format.

use std::io::Write;

use flate2::{Compression, Crc, write::ZlibEncoder};
use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// A picture of random pixels, which depend on `seed`. As a JPEG it takes about two bytes for
/// each pixel.
pub fn noise(width: u32, height: u32, seed: u64) -> Vec<u8> {
    let mut random = SmallRng::seed_from_u64(seed);
    uncompressed(width, height, || random.random())
}

/// A black PNG that is as large, and takes less time to decode and to encode as a JPEG.
pub fn large_black(width: u32, height: u32) -> Vec<u8> {
    uncompressed(width, height, || 0)
}

fn uncompressed(width: u32, height: u32, mut next: impl FnMut() -> u8) -> Vec<u8> {
    let mut rows = Vec::new();
    for _ in 0..height {
        // The row is not filtered.
        rows.push(0);
        rows.extend((0..width * 3).map(|_| next()));
    }
    let mut pixels = ZlibEncoder::new(Vec::new(), Compression::none());
    pixels.write_all(&rows).unwrap();
    let mut png = png_of_size(width, height);
    push_chunk(&mut png, b"IDAT", &pixels.finish().unwrap());
    push_chunk(&mut png, b"IEND", b"");
    png
}

/// The start of a picture of this size, without its pixels.
pub fn png_of_size(width: u32, height: u32) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    // 8 bits, RGB.
    header.extend([8, 2, 0, 0, 0]);
    push_chunk(&mut png, b"IHDR", &header);
    png
}

fn push_chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    let mut checksum = Crc::new();
    checksum.update(kind);
    checksum.update(data);
    png.extend((data.len() as u32).to_be_bytes());
    png.extend(kind);
    png.extend(data);
    png.extend(checksum.sum().to_be_bytes());
}
