//! Images as people have them: every format, depth and orientation.

#![allow(clippy::unwrap_used)]

mod fixtures;

use fixtures::{
    CORNERS, assert_colour, assert_corners, exif,
    jpeg::{Blocks, Scans},
    pixels, prepare, quarters,
};
use image::{RgbImage, metadata::Orientation};
use petstore_photo::{FULL_SIDE, Rejection, THUMB_SIDE};
use png::{BitDepth, ColorType};

/// The order of the corners that each EXIF orientation shows.
const TURNS: [[usize; 4]; 8] = [
    [0, 1, 2, 3],
    [1, 0, 3, 2],
    [3, 2, 1, 0],
    [2, 3, 0, 1],
    [0, 2, 1, 3],
    [2, 0, 3, 1],
    [3, 1, 2, 0],
    [1, 3, 0, 2],
];

#[test]
fn every_format_is_decoded() {
    let image = quarters(96, 64);
    for file in [
        fixtures::jpeg::encode(&image),
        fixtures::png::encode_rgb(&image),
        fixtures::webp::encode(&image),
    ] {
        let prepared = prepare(&file).unwrap();
        assert_eq!((prepared.width, prepared.height), (96, 64));
        assert_corners(&pixels(&prepared.full), TURNS[0]);
        assert_eq!(pixels(&prepared.thumb).dimensions(), (96, 64));
    }
}

#[test]
fn large_images_are_scaled_in_proportion() {
    for (width, height, expected, thumb) in [
        (3200, 1800, (1600, 900), (320, 180)),
        (1000, 4100, (390, 1600), (78, 320)),
        (1600, 1600, (1600, 1600), (320, 320)),
        (6001, 2, (1600, 1), (320, 1)),
    ] {
        let prepared = prepare(&fixtures::png::encode_rgb(&quarters(width, height))).unwrap();
        let full = pixels(&prepared.full);
        assert_eq!((prepared.width, prepared.height), expected);
        assert_eq!(full.dimensions(), expected);
        assert_eq!(pixels(&prepared.thumb).dimensions(), thumb);
        assert_eq!(full.width().max(full.height()), FULL_SIDE);
        assert_eq!(thumb.0.max(thumb.1), THUMB_SIDE);
        if height > 2 {
            assert_corners(&full, TURNS[0]);
            assert_corners(&pixels(&prepared.thumb), TURNS[0]);
        }
    }
}

#[test]
fn every_orientation_is_turned_upright() {
    let image = quarters(96, 64);
    let jpeg = fixtures::jpeg::encode(&image);
    let png = fixtures::png::encode_rgb(&image);
    let lossless = fixtures::webp::lossless_chunk(&fixtures::webp::encode(&image));
    for (orientation, corners) in (1..).zip(TURNS) {
        let exif = exif(orientation);
        let webp = fixtures::webp::file(&[
            fixtures::webp::canvas(0x08, 96, 64),
            lossless.clone(),
            fixtures::webp::chunk(b"EXIF", &exif),
        ]);
        for file in [
            fixtures::jpeg::with_exif(&jpeg, &exif),
            fixtures::png::with_chunk(&png, b"eXIf", &exif),
            webp,
        ] {
            let prepared = prepare(&file).unwrap();
            let dimensions = if orientation < 5 { (96, 64) } else { (64, 96) };
            assert_eq!(
                (prepared.width, prepared.height),
                dimensions,
                "{orientation}"
            );
            assert_corners(&pixels(&prepared.full), corners);
            assert_corners(&pixels(&prepared.thumb), corners);
        }
        // The table above is not made up.
        let mut turned = image::DynamicImage::ImageRgb8(image.clone());
        turned.apply_orientation(Orientation::from_exif(orientation as u8).unwrap());
        assert_corners(&turned.into_rgb8(), corners);
    }
}

#[test]
fn invalid_orientations_are_ignored() {
    let jpeg = fixtures::jpeg::encode(&quarters(96, 64));
    for exif in [
        exif(0),
        exif(9),
        exif(0xffff),
        exif(6)[..12].to_vec(),
        b"MM\0*\xff\xff\xff\xff".to_vec(),
        // A directory that is its own next one, and has the most entries.
        [
            &b"II*\0\x08\0\0\0\xff\xff"[..],
            &b"\x69\x87\x04\0\x01\0\0\0\x08\0\0\0".repeat(100),
        ]
        .concat(),
        Vec::new(),
    ] {
        let prepared = prepare(&fixtures::jpeg::with_exif(&jpeg, &exif)).unwrap();
        assert_corners(&pixels(&prepared.full), TURNS[0]);
    }
}

#[test]
fn the_first_valid_exif_counts() {
    let jpeg = fixtures::jpeg::encode(&quarters(96, 64));
    let twice = fixtures::jpeg::with_exif(&fixtures::jpeg::with_exif(&jpeg, &exif(6)), &exif(3));
    let prepared = prepare(&twice).unwrap();
    assert_corners(&pixels(&prepared.full), TURNS[2]);
}

/// Samples of 16, 8, 4, 2 and 1 bits, with and without colour and transparency.
#[test]
fn every_depth_of_png_is_decoded() {
    let cases: [(ColorType, BitDepth, &[u8], [u8; 3]); 9] = [
        (
            ColorType::Rgb,
            BitDepth::Sixteen,
            &[200, 7, 30, 8, 40, 9],
            [200, 30, 40],
        ),
        (
            ColorType::Rgba,
            BitDepth::Sixteen,
            &[200, 7, 30, 8, 40, 9, 0, 0],
            [255; 3],
        ),
        (ColorType::Rgba, BitDepth::Eight, &[0, 0, 0, 128], [127; 3]),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Eight,
            &[90, 255],
            [90; 3],
        ),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Sixteen,
            &[0, 0, 128, 0],
            [127; 3],
        ),
        (ColorType::Grayscale, BitDepth::Sixteen, &[90, 1], [90; 3]),
        (ColorType::Grayscale, BitDepth::Eight, &[90], [90; 3]),
        (ColorType::Grayscale, BitDepth::Four, &[0x60], [102; 3]),
        (ColorType::Grayscale, BitDepth::One, &[0x80], [255; 3]),
    ];
    for (colour, depth, pixel, expected) in cases {
        let file = fixtures::png::encode(1, 1, (colour, depth), pixel);
        let prepared = prepare(&file).unwrap();
        assert_eq!((prepared.width, prepared.height), (1, 1));
        assert_colour(&pixels(&prepared.full), 0, 0, expected);
    }
}

#[test]
fn palettes_with_transparency_are_decoded() {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 16, 1);
    encoder.set_color(ColorType::Indexed);
    encoder.set_depth(BitDepth::One);
    encoder.set_palette(vec![200, 30, 40, 1, 2, 3]);
    encoder.set_trns(vec![255, 0]);
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[0x00, 0xff]).unwrap();
    writer.finish().unwrap();
    let full = pixels(&prepare(&file).unwrap().full);
    assert_colour(&full, 0, 0, [200, 30, 40]);
    assert_colour(&full, 15, 0, [255; 3]);
}

/// Passes of one pixel each: an image of 2 by 1 pixels has the first and the sixth.
#[test]
fn interlaced_pngs_are_decoded() {
    let mut header = fixtures::png::header(2, 1);
    // The method of interlacing, before the checksum.
    header[8 + 12] = 1;
    let header = fixtures::png::chunk(b"IHDR", &header[8..8 + 13]);
    // Stored without compression: filter and pixel of each pass.
    let passes = [0, 200, 30, 40, 0, 20, 200, 30];
    let file = [
        fixtures::png::SIGNATURE,
        &header,
        &fixtures::png::chunk(b"IDAT", &stored(&passes)),
        &fixtures::png::chunk(b"IEND", b""),
    ];
    let full = pixels(&prepare(&file.concat()).unwrap().full);
    assert_eq!(full.dimensions(), (2, 1));
    // JPEG mixes neighbours.
    assert!(full.get_pixel(0, 0).0[0] > full.get_pixel(1, 0).0[0]);
}

/// A zlib stream with one block that is not compressed.
fn stored(data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16;
    let mut low = 1_u32;
    let mut high = 0_u32;
    for byte in data {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    let mut stream = vec![0x78, 0x01, 0x01];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(data);
    stream.extend((high << 16 | low).to_be_bytes());
    stream
}

#[test]
fn the_first_image_of_an_animated_png_is_shown() {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 96, 64);
    encoder.set_color(ColorType::Rgb);
    encoder.set_animated(2, 0).unwrap();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&quarters(96, 64)).unwrap();
    writer.write_image_data(&[7; 96 * 64 * 3]).unwrap();
    writer.finish().unwrap();
    let prepared = prepare(&file).unwrap();
    assert_corners(&pixels(&prepared.full), TURNS[0]);
}

#[test]
fn lossy_webps_are_decoded() {
    use fixtures::webp::{ALPHA, LOSSY, canvas, chunk, file};
    let opaque = file(&[chunk(b"VP8 ", LOSSY)]);
    let full = pixels(&prepare(&opaque).unwrap().full);
    assert_eq!(full.dimensions(), (16, 8));
    assert_colour(&full, 4, 4, [200, 30, 40]);

    let transparent = [
        canvas(0x10, 16, 8),
        chunk(b"ALPH", ALPHA),
        chunk(b"VP8 ", LOSSY),
    ];
    let full = pixels(&prepare(&file(&transparent)).unwrap().full);
    assert_colour(&full, 1, 4, [255; 3]);
    assert_colour(&full, 14, 4, [200, 30, 40]);
}

#[test]
fn transparent_lossless_webps_show_white() {
    let data = [[200, 30, 40, 255].repeat(4), [0, 0, 0, 0].repeat(4)].concat();
    let file = fixtures::webp::encode_as(&data, 8, 1, image_webp::ColorType::Rgba8);
    let full = pixels(&prepare(&file).unwrap().full);
    assert_colour(&full, 0, 0, [200, 30, 40]);
    assert_colour(&full, 7, 0, [255; 3]);
}

/// The frame does not fill the canvas: the rest is white.
#[test]
fn the_first_frame_of_an_animated_webp_is_shown() {
    use fixtures::webp::{LOSSY, canvas, chunk, encode, file, frame, lossless_chunk};
    let second = lossless_chunk(&encode(&RgbImage::new(48, 24)));
    let animation = file(&[
        canvas(0x02, 48, 24),
        chunk(b"ANIM", &[0; 6]),
        frame((24, 10), (16, 8), &[chunk(b"VP8 ", LOSSY)]),
        frame((0, 0), (48, 24), &[second]),
    ]);
    let full = pixels(&prepare(&animation).unwrap().full);
    assert_eq!(full.dimensions(), (48, 24));
    assert_colour(&full, 32, 14, [200, 30, 40]);
    for (x, y) in [(1, 1), (8, 14), (46, 14), (32, 1), (32, 22)] {
        assert_colour(&full, x, y, [255; 3]);
    }
    let outside = frame((34, 0), (16, 8), &[chunk(b"VP8 ", LOSSY)]);
    let outside = file(&[canvas(0x02, 48, 24), chunk(b"ANIM", &[0; 6]), outside]);
    assert_eq!(prepare(&outside), Err(Rejection::Damaged));
}

/// Three rows of two colours.
const ROWS: [[[u8; 3]; 2]; 3] = [
    [CORNERS[0], CORNERS[1]],
    [CORNERS[2], CORNERS[3]],
    [[0; 3], [255; 3]],
];

/// The blocks of an image with these rows. The second colour fills the row: the decoder loses
/// rows of a few bits at the end of a scan that is not the last one.
fn rows_of_blocks(columns: usize, of: impl Fn([u8; 3]) -> Vec<u8>) -> Vec<Vec<u8>> {
    let rows = ROWS.iter();
    rows.flat_map(|[first, second]| {
        let second = std::iter::repeat_n(second, columns - 1);
        std::iter::once(first).chain(second)
    })
    .map(|rgb| of(*rgb))
    .collect()
}

#[track_caller]
fn assert_rows(jpeg: &[u8], of: impl Fn([u8; 3]) -> [u8; 3]) {
    let full = pixels(&prepare(jpeg).unwrap().full);
    for (number, [first, second]) in (0..).zip(ROWS) {
        assert_colour(&full, 3, number * 8 + 3, of(first));
        assert_colour(&full, 11, number * 8 + 3, of(second));
    }
}

#[test]
fn jpegs_of_every_kind_are_decoded() {
    let luma = |rgb: [u8; 3]| {
        let [r, g, b] = rgb.map(f32::from);
        (0.299 * r + 0.587 * g + 0.114 * b).round() as u8
    };
    let grey = |rgb| [luma(rgb); 3];
    for scans in [Scans::Baseline, Scans::Separate, Scans::Progressive] {
        let columns = if scans == Scans::Separate { 80 } else { 2 };
        let encode = |adobe, of: &dyn Fn([u8; 3]) -> Vec<u8>| {
            let blocks = Blocks {
                width: columns * 8 - 3,
                height: 22,
                blocks: &rows_of_blocks(columns.into(), of),
                scans,
                adobe,
            };
            blocks.encode()
        };
        assert_rows(&encode(Some(0), &|it| it.to_vec()), |it| it);
        assert_rows(&encode(None, &|it| vec![luma(it), 128, 128]), grey);
        assert_rows(&encode(None, &|it| vec![luma(it)]), grey);
        // CMYK as Adobe writes it, inverted: 255 is no ink.
        assert_rows(&encode(Some(0), &|it| [&it[..], &[255]].concat()), |it| it);
        assert_rows(&encode(Some(0), &|it| vec![255, 255, 255, luma(it)]), grey);
        // The inks, inverted once more (ITU-T T.872, 6.5.2), as luma and chroma.
        let ycck = |it| vec![255 - luma(it), 128, 128, 255];
        assert_rows(&encode(Some(2), &ycck), grey);
    }
}

/// Nothing but the header that the encoder writes and what is needed for the pixels.
#[test]
fn no_metadata_is_kept() {
    let exif = exif(1);
    let picture = quarters(640, 480);
    let located = fixtures::jpeg::with_exif(&fixtures::jpeg::encode(&picture), &exif);
    let commented = fixtures::jpeg::with_segment(&located, 0xfe, b"GPS in a comment");
    let jpeg = fixtures::jpeg::with_segment(&commented, 0xe2, b"ICC_PROFILE\0\x01\x01GPS");
    let located = fixtures::png::with_chunk(&fixtures::png::encode_rgb(&picture), b"eXIf", &exif);
    let png = fixtures::png::with_chunk(&located, b"tEXt", b"Comment\0GPS");
    for file in [jpeg, png] {
        let prepared = prepare(&file).unwrap();
        for output in [prepared.full, prepared.thumb] {
            assert!(!output.windows(3).any(|it| it == b"GPS"));
            let mut position = 2;
            let mut markers = Vec::new();
            while markers.last() != Some(&0xda) {
                assert_eq!(output[position], 0xff);
                markers.push(output[position + 1]);
                let length = [output[position + 2], output[position + 3]];
                position += 2 + usize::from(u16::from_be_bytes(length));
            }
            markers.dedup();
            assert_eq!(markers, [0xe0, 0xc0, 0xdb, 0xc4, 0xda].as_slice());
        }
    }
}
