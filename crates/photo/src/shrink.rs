//! Reduces an image by a whole factor while its rows arrive, so that a large one is never in
//! memory as a whole where its decoder does without that.

use image::RgbImage;

/// The length of the longer side from which the number of pixels is reduced first. The exact
/// size, with a better filter, takes a fifth of these pixels away at least, so that it decides
/// how sharp the result is.
const SIDE: u32 = 2000;

/// The samples of a pixel, 8 bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    Grey,
    GreyAlpha,
    Rgb,
    Rgba,
    /// Three colours, and a fourth sample without a meaning.
    RgbUnused,
}

impl Samples {
    /// The number of samples, and of bytes, in a pixel.
    pub fn count(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::GreyAlpha => 2,
            Self::Rgb => 3,
            Self::Rgba | Self::RgbUnused => 4,
        }
    }
}

/// Takes the rows of an image from top to bottom, and averages squares of pixels.
#[derive(Debug)]
pub struct Shrinker {
    factor: usize,
    width: usize,
    height: usize,
    /// The sums of the squares in a row of them, three for each.
    sums: Vec<u32>,
    /// The rows that were added to the sums.
    summed_rows: usize,
    rows: usize,
    /// A row in red, green and blue.
    rgb: Vec<u8>,
    pixels: Vec<u8>,
}

impl Shrinker {
    /// Reduces an image of these dimensions.
    pub fn new(width: u32, height: u32) -> Self {
        let factor = (width.max(height) / SIDE).max(1) as usize;
        let width = width as usize;
        let height = height as usize;
        let columns = width.div_ceil(factor);
        Self {
            factor,
            width,
            height,
            sums: vec![0; columns * 3],
            summed_rows: 0,
            rows: 0,
            rgb: vec![0; width * 3],
            pixels: Vec::with_capacity(columns * height.div_ceil(factor) * 3),
        }
    }

    /// Adds a row. Transparent pixels show white.
    pub fn push(&mut self, row: &[u8], samples: Samples) {
        convert(row, samples, &mut self.rgb);
        self.add_row();
    }

    /// Adds a white row that has the row of a smaller image after `left` pixels.
    pub fn push_on_white(&mut self, row: &[u8], samples: Samples, left: usize) {
        self.rgb.fill(255);
        convert(
            row,
            samples,
            self.rgb.get_mut(left * 3..).unwrap_or_default(),
        );
        self.add_row();
    }

    /// Adds a white row.
    pub fn push_white(&mut self) {
        self.rgb.fill(255);
        self.add_row();
    }

    fn add_row(&mut self) {
        self.rows += 1;
        if self.factor == 1 {
            self.pixels.extend_from_slice(&self.rgb);
            return;
        }
        for (sums, square) in self
            .sums
            .chunks_exact_mut(3)
            .zip(self.rgb.chunks(3 * self.factor))
        {
            for pixel in square.chunks_exact(3) {
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    *sum += u32::from(*sample);
                }
            }
        }
        self.summed_rows += 1;
        if self.summed_rows == self.factor || self.rows == self.height {
            self.average();
        }
    }

    /// Turns the sums into a row of pixels. At the right and lower edge fewer pixels are in one.
    fn average(&mut self) {
        let columns = self.sums.len() / 3;
        for (column, sums) in self.sums.chunks_exact_mut(3).enumerate() {
            let summed_columns = if column + 1 == columns {
                self.width - column * self.factor
            } else {
                self.factor
            };
            let count = (summed_columns * self.summed_rows) as u32;
            for sum in sums {
                self.pixels.push(((*sum + count / 2) / count) as u8);
                *sum = 0;
            }
        }
        self.summed_rows = 0;
    }

    /// The reduced image, if all rows have been added.
    pub fn finish(self) -> Option<RgbImage> {
        let width = (self.sums.len() / 3) as u32;
        let height = self.height.div_ceil(self.factor) as u32;
        if self.rows != self.height {
            return None;
        }
        RgbImage::from_raw(width, height, self.pixels)
    }
}

/// Writes the pixels of a row in red, green and blue.
fn convert(row: &[u8], samples: Samples, rgb: &mut [u8]) {
    let colours = rgb.chunks_exact_mut(3);
    let pixels = row.chunks_exact(samples.count());
    match samples {
        Samples::Grey => colours.zip(row).for_each(|(rgb, grey)| rgb.fill(*grey)),
        Samples::GreyAlpha => colours
            .zip(pixels)
            .for_each(|(rgb, pixel)| rgb.fill(on_white(pixel[0], pixel[1]))),
        Samples::Rgb | Samples::RgbUnused => colours
            .zip(pixels)
            .for_each(|(rgb, pixel)| rgb.copy_from_slice(&pixel[..3])),
        Samples::Rgba => {
            for (rgb, pixel) in colours.zip(pixels) {
                for (colour, sample) in rgb.iter_mut().zip(pixel) {
                    *colour = on_white(*sample, pixel[3]);
                }
            }
        }
    }
}

/// A colour with an alpha value on white paper.
fn on_white(colour: u8, alpha: u8) -> u8 {
    let weighted = u32::from(colour) * u32::from(alpha) + 255 * (255 - u32::from(alpha));
    ((weighted + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_averaged_up_to_the_edge() {
        let mut shrinker = Shrinker::new(4001, 3);
        assert_eq!(shrinker.factor, 2);
        let row: Vec<u8> = (0..4001)
            .map(|x| if x % 2 == 0 { 10 } else { 31 })
            .collect();
        for _ in 0..2 {
            shrinker.push(&row, Samples::Grey);
        }
        assert!(
            shrinker.pixels.len() == 2001 * 3,
            "a row of squares is complete"
        );
        shrinker.push(&vec![90; 4001], Samples::Grey);
        let image = shrinker.finish().unwrap();
        assert_eq!(image.dimensions(), (2001, 2));
        assert_eq!(image.get_pixel(0, 0).0, [21; 3]);
        // One pixel wide.
        assert_eq!(image.get_pixel(2000, 0).0, [10; 3]);
        // One pixel high.
        assert_eq!(image.get_pixel(7, 1).0, [90; 3]);
    }

    #[test]
    fn transparency_shows_white() {
        assert_eq!(on_white(0, 0), 255);
        assert_eq!(on_white(40, 255), 40);
        assert_eq!(on_white(0, 128), 127);
        let mut shrinker = Shrinker::new(2, 3);
        shrinker.push(&[0, 0, 50, 255], Samples::GreyAlpha);
        shrinker.push(&[1, 2, 3, 255, 9, 9, 9, 0], Samples::Rgba);
        shrinker.push_on_white(&[1, 2, 3, 0], Samples::RgbUnused, 1);
        let image = shrinker.finish().unwrap();
        let expected = [
            255, 255, 255, 50, 50, 50, 1, 2, 3, 255, 255, 255, 255, 255, 255, 1, 2, 3,
        ];
        assert_eq!(image.into_raw(), expected);
    }

    #[test]
    fn missing_rows_are_noticed() {
        let mut shrinker = Shrinker::new(1, 2);
        shrinker.push_white();
        assert!(shrinker.finish().is_none());
    }
}
