//! JPEG (ITU-T T.81): baseline and progressive, grey, colour, and CMYK as Adobe writes it.
//!
//! The decoder gets a file with nothing but tables, frame and scans, which ends with the first
//! image. In files of phones, a depth map, a video or a second image follows (MPO, Ultra HDR).

use image::metadata::Orientation;
use zune_core::{colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

use super::{DecodedImage, exif, take, take_slice};
use crate::{
    Rejection,
    deadline::{Deadline, Source},
    limits::{check_dimensions, check_memory},
    shrink::{Samples, Shrinker},
};

/// The most scans of a progressive image. Encoders write about ten; each one is a pass over all
/// blocks, even if it has no data.
const MAX_SCANS: usize = 40;

/// The rows after which the deadline is checked.
const ROWS: usize = 256;

const SOI: u8 = 0xd8;
const EOI: u8 = 0xd9;
const SOS: u8 = 0xda;
const DQT: u8 = 0xdb;
const DHT: u8 = 0xc4;
const DRI: u8 = 0xdd;
const APP1: u8 = 0xe1;
const APP14: u8 = 0xee;

/// The header of a frame.
#[derive(Debug, Clone)]
struct Frame {
    is_progressive: bool,
    width: u32,
    height: u32,
    /// The horizontal and vertical sampling factors of each component.
    sampling: Vec<(u8, u8)>,
}

impl Frame {
    fn parse(marker: u8, mut segment: &[u8]) -> Result<Self, Rejection> {
        let segment = &mut segment;
        let [precision] = take(segment)?;
        if precision != 8 {
            return Err(unsupported("JPEG with more than 8 bits"));
        }
        let height = u16::from_be_bytes(take(segment)?);
        let width = u16::from_be_bytes(take(segment)?);
        let [components] = take(segment)?;
        if !matches!(components, 1 | 3 | 4) {
            return Err(Rejection::Damaged);
        }
        let sampling = (0..components).map(|_| {
            let [_id, factors, _table] = take(segment)?;
            let horizontal = factors >> 4;
            let vertical = factors & 15;
            if !matches!((horizontal, vertical), (1..=4, 1..=4)) {
                return Err(Rejection::Damaged);
            }
            Ok((horizontal, vertical))
        });
        Ok(Self {
            is_progressive: marker == 0xc2,
            width: width.into(),
            height: height.into(),
            sampling: sampling.collect::<Result<_, _>>()?,
        })
    }

    /// The bytes that the coefficients of the whole image take.
    fn coefficients(&self) -> u64 {
        let horizontal = self.sampling.iter().map(|it| u64::from(it.0));
        let vertical = self.sampling.iter().map(|it| u64::from(it.1));
        // In units of 8 by 8 pixels for each sampling factor.
        let columns = u64::from(self.width).div_ceil(8 * horizontal.max().unwrap_or(1));
        let rows = u64::from(self.height).div_ceil(8 * vertical.max().unwrap_or(1));
        let factors = self.sampling.iter();
        let blocks: u64 = factors.map(|(h, v)| u64::from(*h) * u64::from(*v)).sum();
        columns * rows * blocks * 64 * 2
    }
}

/// A file with only what the decoder needs.
#[derive(Debug)]
struct DecoderInput {
    file: Vec<u8>,
    frame: Frame,
    orientation: Option<Orientation>,
    /// The components of the image are in different scans.
    has_partial_scans: bool,
}

fn unsupported(found: &'static str) -> Rejection {
    Rejection::NotAnImage { found: Some(found) }
}

impl DecoderInput {
    fn parse(mut rest: &[u8]) -> Result<Self, Rejection> {
        let rest = &mut rest;
        let mut file = take::<2>(rest)?.to_vec();
        let mut frame: Option<Frame> = None;
        let mut orientation = None;
        let mut scans = 0;
        let mut has_partial_scans = false;
        loop {
            let marker = next_marker(rest)?;
            // Markers without a segment: TEM, and restarts in the wrong place.
            if matches!(marker, 0x01 | 0xd0..=0xd7) {
                continue;
            }
            if marker == EOI {
                break;
            }
            if marker == SOI {
                return Err(Rejection::Damaged);
            }
            let length = usize::from(u16::from_be_bytes(take(rest)?));
            let segment = take_slice(rest, length.checked_sub(2).ok_or(Rejection::Damaged)?)?;
            let is_kept = match marker {
                DQT | DHT | DRI => true,
                APP14 => segment.starts_with(b"Adobe"),
                APP1 if orientation.is_none() && exif::is_exif(segment) => {
                    orientation = exif::orientation(segment);
                    false
                }
                0xc0..=0xc2 => {
                    let parsed = Frame::parse(marker, segment)?;
                    check_dimensions(parsed.width, parsed.height)?;
                    if frame.replace(parsed).is_some() {
                        return Err(Rejection::Damaged);
                    }
                    true
                }
                0xc3 | 0xc7 | 0xcb | 0xcf => return Err(unsupported("lossless JPEG")),
                0xc5 | 0xc6 | 0xcd | 0xce => return Err(unsupported("hierarchical JPEG")),
                0xc8..=0xca | 0xcc => return Err(unsupported("arithmetic-coded JPEG")),
                SOS => {
                    let components = frame.as_ref().map(|frame| frame.sampling.len());
                    let in_scan = segment.first().map(|count| usize::from(*count));
                    has_partial_scans |= in_scan < components;
                    scans += 1;
                    if components.is_none() || scans > MAX_SCANS {
                        return Err(Rejection::Damaged);
                    }
                    true
                }
                _ => false,
            };
            if is_kept {
                file.extend([0xff, marker]);
                file.extend((length as u16).to_be_bytes());
                file.extend(segment);
            }
            if marker == SOS {
                let data = take_slice(rest, entropy_coded_length(rest)?)?;
                file.extend(data);
            }
        }
        file.extend([0xff, EOI]);
        let frame = frame.filter(|_| scans > 0).ok_or(Rejection::Damaged)?;
        Ok(Self {
            file,
            frame,
            orientation,
            has_partial_scans,
        })
    }
}

/// Finds the next marker. Bytes before it are skipped, as libjpeg does.
fn next_marker(rest: &mut &[u8]) -> Result<u8, Rejection> {
    loop {
        let [byte] = take(rest)?;
        if byte != 0xff {
            continue;
        }
        let mut marker = 0xff;
        while marker == 0xff {
            [marker] = take(rest)?;
        }
        if marker != 0 {
            return Ok(marker);
        }
    }
}

/// The length of the data of a scan, up to the marker behind it. Restarts belong to the data,
/// and so does 0xff before a zero.
fn entropy_coded_length(data: &[u8]) -> Result<usize, Rejection> {
    let mut from = 0;
    loop {
        let start = data[from..].iter().position(|byte| *byte == 0xff);
        let start = from + start.ok_or(Rejection::Damaged)?;
        let fill = data[start..].iter().position(|byte| *byte != 0xff);
        let code = start + fill.ok_or(Rejection::Damaged)?;
        if !matches!(data[code], 0 | 0xd0..=0xd7) {
            return Ok(start);
        }
        from = code + 1;
    }
}

/// Decodes the first image in a JPEG file.
pub fn decode(
    bytes: &[u8],
    deadline: &Deadline,
    max_memory: u64,
) -> Result<DecodedImage, Rejection> {
    let input = DecoderInput::parse(bytes)?;
    let Frame { width, height, .. } = input.frame;
    let samples = if input.frame.sampling.len() == 1 {
        Samples::Grey
    } else {
        Samples::Rgb
    };
    let row_length = width as usize * samples.count();
    let mut memory = (row_length * height as usize) as u64;
    if input.frame.is_progressive || input.has_partial_scans {
        memory += input.frame.coefficients();
    }
    check_memory(memory, max_memory, width, height)?;

    let colours = if samples == Samples::Grey {
        ColorSpace::Luma
    } else {
        ColorSpace::RGB
    };
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_max_width(width as usize)
        .set_max_height(height as usize)
        .jpeg_set_max_scans(MAX_SCANS)
        .jpeg_set_out_colorspace(colours);
    let source = Source::new(&input.file, deadline);
    let mut decoder = JpegDecoder::new_with_options(source, options);
    let failed = |error| {
        tracing::debug!(?error, "JPEG rejected");
        deadline.rejection()
    };
    decoder.decode_headers().map_err(failed)?;
    if decoder.output_buffer_size() != Some(row_length * height as usize) {
        return Err(Rejection::Damaged);
    }
    let mut pixels = vec![0; row_length * height as usize];
    decoder.decode_into(&mut pixels).map_err(failed)?;
    drop(decoder);

    let mut rows = Shrinker::new(width, height);
    for (number, row) in pixels.chunks_exact(row_length).enumerate() {
        if number % ROWS == 0 {
            deadline.check()?;
        }
        rows.push(row, samples);
    }
    let orientation = input.orientation.unwrap_or(Orientation::NoTransforms);
    DecodedImage::new(width, height, rows, orientation)
}
