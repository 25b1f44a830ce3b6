//! PNG (W3C PNG, third edition). Of an animation, the image that programs show which know
//! nothing of animations.
//!
//! The decoder gets the chunks that pixels depend on, and decompresses nothing else. Rows are
//! reduced as they are decoded, unless they are interlaced.

use std::ops::ControlFlow;

use image::metadata::Orientation;
use png::{BitDepth, ColorType, Decoder, Limits, Reader, Transformations};

use super::{DecodedImage, exif, take, take_slice};
use crate::{
    Rejection,
    deadline::{Deadline, Source},
    format::PNG_SIGNATURE,
    limits::{check_dimensions, check_memory},
    shrink::{Samples, Shrinker},
};

/// The limit, in bytes, of the decoder's own buffers: a few rows and the palette.
const BUFFERS: usize = 16 << 20;

/// The rows after which the deadline is checked.
const ROWS: u32 = 64;

/// A file with only what the decoder needs.
#[derive(Debug)]
struct DecoderInput {
    file: Vec<u8>,
    width: u32,
    height: u32,
    orientation: Option<Orientation>,
}

impl DecoderInput {
    fn parse(mut rest: &[u8]) -> Result<Self, Rejection> {
        let rest = &mut rest;
        let mut file = take_slice(rest, PNG_SIGNATURE.len())?.to_vec();
        let mut dimensions = None;
        let mut orientation = None;
        while parse_chunk(rest, &mut file, &mut dimensions, &mut orientation)?.is_continue() {}
        let (width, height) = dimensions.ok_or(Rejection::Damaged)?;
        Ok(Self {
            file,
            width,
            height,
            orientation,
        })
    }
}

/// Reads a chunk and copies it if the decoder needs it. Breaks after the last one.
fn parse_chunk(
    rest: &mut &[u8],
    file: &mut Vec<u8>,
    dimensions: &mut Option<(u32, u32)>,
    orientation: &mut Option<Orientation>,
) -> Result<ControlFlow<()>, Rejection> {
    let start = *rest;
    let length = u32::from_be_bytes(take(rest)?) as usize;
    let name: [u8; 4] = take(rest)?;
    let mut data = take_slice(rest, length)?;
    let _checksum: [u8; 4] = take(rest)?;
    match (&name, &dimensions) {
        (b"IHDR", None) => {
            let width = u32::from_be_bytes(take(&mut data)?);
            let height = u32::from_be_bytes(take(&mut data)?);
            check_dimensions(width, height)?;
            *dimensions = Some((width, height));
        }
        (b"IHDR", Some(_)) | (_, None) => return Err(Rejection::Damaged),
        (b"PLTE" | b"tRNS" | b"IDAT" | b"IEND", _) => (),
        (b"eXIf", _) => {
            *orientation = orientation.or_else(|| exif::orientation(data));
            return Ok(ControlFlow::Continue(()));
        }
        _ => return Ok(ControlFlow::Continue(())),
    }
    file.extend(&start[..start.len() - rest.len()]);
    Ok(if &name == b"IEND" {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    })
}

/// Decodes a PNG file.
pub fn decode(
    bytes: &[u8],
    deadline: &Deadline,
    max_memory: u64,
) -> Result<DecodedImage, Rejection> {
    let input = DecoderInput::parse(bytes)?;
    let DecoderInput { width, height, .. } = input;
    let failed = |error| {
        tracing::debug!(%error, "PNG rejected");
        deadline.rejection()
    };
    let source = Source::new(&input.file, deadline);
    let mut decoder = Decoder::new_with_limits(source, Limits { bytes: BUFFERS });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(failed)?;
    let samples = match reader.output_color_type() {
        (ColorType::Grayscale, BitDepth::Eight) => Samples::Grey,
        (ColorType::GrayscaleAlpha, BitDepth::Eight) => Samples::GreyAlpha,
        (ColorType::Rgb, BitDepth::Eight) => Samples::Rgb,
        (ColorType::Rgba, BitDepth::Eight) => Samples::Rgba,
        _ => return Err(Rejection::Damaged),
    };
    let row_length = width as usize * samples.count();
    if reader.info().size() != (width, height) || reader.output_line_size(width) != Some(row_length)
    {
        return Err(Rejection::Damaged);
    }
    let rows = if reader.info().interlaced {
        decode_interlaced(&mut reader, samples, deadline, max_memory)?
    } else {
        decode_rows(&mut reader, samples, deadline)?
    };
    let orientation = input.orientation.unwrap_or(Orientation::NoTransforms);
    DecodedImage::new(width, height, rows, orientation)
}

fn decode_rows(
    reader: &mut Reader<Source<'_>>,
    samples: Samples,
    deadline: &Deadline,
) -> Result<Shrinker, Rejection> {
    let (width, height) = reader.info().size();
    let mut rows = Shrinker::new(width, height);
    let mut row = vec![0; width as usize * samples.count()];
    for number in 0..height {
        if number % ROWS == 0 {
            deadline.check()?;
        }
        let read = reader.read_row(&mut row);
        if read.map_err(|_| deadline.rejection())?.is_none() {
            return Err(Rejection::Damaged);
        }
        rows.push(&row, samples);
    }
    Ok(rows)
}

fn decode_interlaced(
    reader: &mut Reader<Source<'_>>,
    samples: Samples,
    deadline: &Deadline,
    max_memory: u64,
) -> Result<Shrinker, Rejection> {
    let (width, height) = reader.info().size();
    let row_length = width as usize * samples.count();
    let memory = (row_length * height as usize) as u64;
    check_memory(memory, max_memory, width, height)?;
    let mut pixels = vec![0; row_length * height as usize];
    let decoded = reader.next_frame(&mut pixels);
    decoded.map_err(|_| deadline.rejection())?;
    let mut rows = Shrinker::new(width, height);
    for row in pixels.chunks_exact(row_length) {
        rows.push(row, samples);
    }
    Ok(rows)
}
