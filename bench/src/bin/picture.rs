//! Makes a picture for uploads: `picture WIDTH HEIGHT FILE` writes a JPEG with shades and grain,
//! which takes about as many bytes as a photo of a phone.

use std::{env, error::Error, fs::File, io::BufWriter};

use image::{ExtendedColorType, ImageEncoder, codecs::jpeg::JpegEncoder};
use petstore_bench::mix;

/// The quality at which phones write photos.
const QUALITY: u8 = 92;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [width, height, file] = arguments.as_slice() else {
        return Err("usage: picture WIDTH HEIGHT FILE".into());
    };
    let width: u32 = width.parse()?;
    let height: u32 = height.parse()?;
    let mut pixels = Vec::with_capacity(width as usize * height as usize * 3);
    for y in 0..height {
        for x in 0..width {
            let grain = (mix(u64::from(y) << 32 | u64::from(x)) % 12) as f32;
            let shade = 90.0 + 60.0 * ((x as f32 / 97.0).sin() + (y as f32 / 61.0).cos());
            let colour = [shade, shade * 0.8 + 20.0, shade * 0.6 + 40.0];
            pixels.extend(colour.map(|value| (value + grain).clamp(0.0, 255.0) as u8));
        }
    }
    let file = BufWriter::new(File::create(file)?);
    let encoder = JpegEncoder::new_with_quality(file, QUALITY);
    encoder.write_image(&pixels, width, height, ExtendedColorType::Rgb8)?;
    Ok(())
}
