//! WebP (RFC 9649): lossy, lossless, with transparency, and the first frame of an animation.
//!
//! The decoder gets a file with one still image, whose dimensions are those of its bitstream.

use image::metadata::Orientation;
use image_webp::WebPDecoder;

use super::{DecodedImage, exif, take, take_slice};
use crate::{
    Rejection,
    deadline::{Deadline, Source},
    limits::{check_dimensions, check_memory},
    shrink::{Samples, Shrinker},
};

/// The bytes that one Huffman table of a lossless image takes at most.
const TABLE: u64 = 4200;

/// The shortest description of such a table, in bytes.
const MIN_TABLE_CODE: u64 = 10;

/// The most Huffman tables: five in each of 65,536 groups.
const MAX_TABLES: u64 = 5 << 16;

/// The rows after which the deadline is checked.
const ROWS: u32 = 256;

/// An image in its two encodings.
#[derive(Debug, Clone, Copy)]
enum Bitstream<'a> {
    Lossy {
        data: &'a [u8],
        alpha: Option<&'a [u8]>,
    },
    Lossless {
        data: &'a [u8],
        has_alpha: bool,
    },
}

/// The image that is shown, or shown first.
#[derive(Debug)]
struct Frame<'a> {
    width: u32,
    height: u32,
    bitstream: Bitstream<'a>,
}

/// The structure of a file.
#[derive(Debug)]
struct Layout<'a> {
    width: u32,
    height: u32,
    /// The position of the frame, if it does not fill the canvas.
    left: u32,
    top: u32,
    frame: Frame<'a>,
    orientation: Option<Orientation>,
}

/// Reads a chunk, which is padded to an even length except at the end of some files.
fn take_chunk<'a>(rest: &mut &'a [u8]) -> Result<([u8; 4], &'a [u8]), Rejection> {
    let name = take(rest)?;
    let length = u32::from_le_bytes(take(rest)?) as usize;
    let data = take_slice(rest, length)?;
    if length % 2 == 1 && !rest.is_empty() {
        take::<1>(rest)?;
    }
    Ok((name, data))
}

fn take_u24(rest: &mut &[u8]) -> Result<u32, Rejection> {
    let [low, middle, high] = take(rest)?;
    Ok(u32::from_le_bytes([low, middle, high, 0]))
}

impl<'a> Frame<'a> {
    /// Reads the chunks of a still image, or of a frame of an animation.
    fn parse(mut chunks: &'a [u8]) -> Result<Self, Rejection> {
        let mut alpha = None;
        loop {
            let (name, data) = take_chunk(&mut chunks)?;
            match &name {
                b"ALPH" => alpha = alpha.or(Some(data)),
                b"VP8 " => return Self::lossy(data, alpha),
                b"VP8L" => return Self::lossless(data),
                _ => (),
            }
        }
    }

    fn lossy(data: &'a [u8], alpha: Option<&'a [u8]>) -> Result<Self, Rejection> {
        let mut header = data;
        let _tag: [u8; 3] = take(&mut header)?;
        let [0x9d, 0x01, 0x2a] = take(&mut header)? else {
            return Err(Rejection::Damaged);
        };
        Ok(Self {
            width: u32::from(u16::from_le_bytes(take(&mut header)?) & 0x3fff),
            height: u32::from(u16::from_le_bytes(take(&mut header)?) & 0x3fff),
            bitstream: Bitstream::Lossy { data, alpha },
        })
    }

    fn lossless(data: &'a [u8]) -> Result<Self, Rejection> {
        let mut header = data;
        let [0x2f] = take(&mut header)? else {
            return Err(Rejection::Damaged);
        };
        let packed = u32::from_le_bytes(take(&mut header)?);
        Ok(Self {
            width: (packed & 0x3fff) + 1,
            height: (packed >> 14 & 0x3fff) + 1,
            bitstream: Bitstream::Lossless {
                data,
                has_alpha: packed >> 28 & 1 == 1,
            },
        })
    }

    /// The meaning of the samples that the decoder returns.
    fn samples(&self) -> Samples {
        match self.bitstream {
            Bitstream::Lossy { alpha: None, .. } => Samples::Rgb,
            Bitstream::Lossless {
                has_alpha: false, ..
            } => Samples::RgbUnused,
            _ => Samples::Rgba,
        }
    }

    /// The memory that decoding takes: pixels, planes, and Huffman tables, of which a lossless
    /// image can have very many.
    fn memory(&self) -> u64 {
        let pixels = u64::from(self.width) * u64::from(self.height);
        let tables = |data: &[u8]| (data.len() as u64 / MIN_TABLE_CODE).min(MAX_TABLES) * TABLE;
        match self.bitstream {
            Bitstream::Lossy { alpha: None, .. } => pixels * 5,
            // Alpha is a lossless image of its own.
            Bitstream::Lossy {
                alpha: Some(alpha), ..
            } => pixels * 11 + tables(alpha),
            Bitstream::Lossless { data, .. } => pixels * 9 / 2 + tables(data),
        }
    }

    /// A file with only this image.
    fn to_file(&self) -> Vec<u8> {
        let mut body = b"WEBP".to_vec();
        match self.bitstream {
            Bitstream::Lossy { data, alpha: None } => push_chunk(&mut body, b"VP8 ", data),
            Bitstream::Lossy {
                data,
                alpha: Some(alpha),
            } => {
                let mut header = vec![0x10, 0, 0, 0];
                header.extend(&(self.width - 1).to_le_bytes()[..3]);
                header.extend(&(self.height - 1).to_le_bytes()[..3]);
                push_chunk(&mut body, b"VP8X", &header);
                push_chunk(&mut body, b"ALPH", alpha);
                push_chunk(&mut body, b"VP8 ", data);
            }
            Bitstream::Lossless { data, .. } => {
                let start = body.len() + 8;
                push_chunk(&mut body, b"VP8L", data);
                // The bit that says that alpha is used: without it, the decoder would return
                // three samples, from a second buffer with four.
                body[start + 4] |= 0x10;
            }
        }
        let mut file = Vec::with_capacity(body.len() + 8);
        push_chunk(&mut file, b"RIFF", &body);
        file
    }
}

fn push_chunk(file: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    file.extend(name);
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(data);
    if data.len() % 2 == 1 {
        file.push(0);
    }
}

impl<'a> Layout<'a> {
    fn parse(mut file: &'a [u8]) -> Result<Self, Rejection> {
        let (_, mut body) = take_chunk(&mut file)?;
        let _webp: [u8; 4] = take(&mut body)?;
        let mut rest = body;
        let (name, mut header) = take_chunk(&mut rest)?;
        if &name != b"VP8X" {
            let frame = Frame::parse(body)?;
            return Self::of_still(frame, None);
        }
        let _flags: [u8; 4] = take(&mut header)?;
        let width = take_u24(&mut header)? + 1;
        let height = take_u24(&mut header)? + 1;
        check_dimensions(width, height)?;
        let mut exif = None;
        let mut animated = None;
        // All chunks are read, so that a truncated file is rejected.
        let mut chunks = rest;
        while !chunks.is_empty() {
            match take_chunk(&mut chunks)? {
                ([b'E', b'X', b'I', b'F'], data) => exif = exif.or(Some(data)),
                ([b'A', b'N', b'M', b'F'], data) => animated = animated.or(Some(data)),
                _ => (),
            }
        }
        let orientation = exif.and_then(exif::orientation);
        let Some(mut animated) = animated else {
            let layout = Self::of_still(Frame::parse(rest)?, orientation)?;
            let is_filled = (layout.width, layout.height) == (width, height);
            return is_filled.then_some(layout).ok_or(Rejection::Damaged);
        };
        let left = take_u24(&mut animated)? * 2;
        let top = take_u24(&mut animated)? * 2;
        let _dimensions_and_duration: [u8; 10] = take(&mut animated)?;
        let frame = Frame::parse(animated)?;
        let fits = left + frame.width <= width && top + frame.height <= height;
        let layout = Self {
            width,
            height,
            left,
            top,
            frame,
            orientation,
        };
        fits.then_some(layout).ok_or(Rejection::Damaged)
    }

    fn of_still(frame: Frame<'a>, orientation: Option<Orientation>) -> Result<Self, Rejection> {
        check_dimensions(frame.width, frame.height)?;
        Ok(Self {
            width: frame.width,
            height: frame.height,
            left: 0,
            top: 0,
            frame,
            orientation,
        })
    }
}

/// Decodes a WebP file.
pub fn decode(
    bytes: &[u8],
    deadline: &Deadline,
    max_memory: u64,
) -> Result<DecodedImage, Rejection> {
    let layout = Layout::parse(bytes)?;
    let frame = &layout.frame;
    check_dimensions(frame.width, frame.height)?;
    check_memory(frame.memory(), max_memory, layout.width, layout.height)?;
    let samples = frame.samples();
    let row_length = frame.width as usize * samples.count();

    let file = frame.to_file();
    let failed = |error| {
        tracing::debug!(%error, "WebP rejected");
        deadline.rejection()
    };
    let mut decoder = WebPDecoder::new(Source::new(&file, deadline)).map_err(failed)?;
    let size = row_length * frame.height as usize;
    if decoder.output_buffer_size() != Some(size) {
        return Err(Rejection::Damaged);
    }
    let mut pixels = vec![0; size];
    decoder.read_image(&mut pixels).map_err(failed)?;
    drop(decoder);

    let mut rows = Shrinker::new(layout.width, layout.height);
    let mut frame_rows = pixels.chunks_exact(row_length);
    for number in 0..layout.height {
        if number % ROWS == 0 {
            deadline.check()?;
        }
        let row = if number >= layout.top {
            frame_rows.next()
        } else {
            None
        };
        match row {
            Some(row) => rows.push_on_white(row, samples, layout.left as usize),
            None => rows.push_white(),
        }
    }
    let orientation = layout.orientation.unwrap_or(Orientation::NoTransforms);
    DecodedImage::new(layout.width, layout.height, rows, orientation)
}
