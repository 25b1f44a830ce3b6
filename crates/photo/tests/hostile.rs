//! Images that clients send by mistake or on purpose.

#![allow(clippy::unwrap_used)]

mod fixtures;

use std::time::Duration;

use fixtures::{
    assert_corners, exif,
    jpeg::{Blocks, Scans},
    noise, pixels, prepare, quarters,
};
use image::{Rgb, RgbImage};
use petstore_photo::Rejection;
use png::{BitDepth, ColorType};

fn too_large(width: u32, height: u32) -> Result<petstore_photo::EncodedPhoto, Rejection> {
    Err(Rejection::TooLarge { width, height })
}

#[test]
fn other_formats_are_named() {
    let found = |bytes: &[u8]| match prepare(bytes) {
        Err(Rejection::NotAnImage { found }) => found,
        other => panic!("{other:?}"),
    };
    assert_eq!(found(b"GIF89a\x01\0\x01\0\x80\0\0"), Some("GIF"));
    assert_eq!(
        found(b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
        Some("SVG")
    );
    assert_eq!(found(b"%PDF-1.7\n"), Some("PDF"));
    assert_eq!(found(b""), None);
    assert_eq!(found(&[0; 100]), None);
    // A JPEG behind other bytes is none.
    assert_eq!(
        found(&[b"GIF89a", &fixtures::jpeg::encode(&quarters(8, 8))[..]].concat()),
        Some("GIF")
    );
}

#[test]
fn kinds_of_jpeg_that_no_decoder_takes_are_named() {
    let jpeg = fixtures::jpeg::encode(&quarters(16, 16));
    let frame = fixtures::jpeg::find(&jpeg, 0xc0);
    for (marker, name) in [
        (0xc3, "lossless JPEG"),
        (0xc5, "hierarchical JPEG"),
        (0xc9, "arithmetic-coded JPEG"),
    ] {
        let mut other = jpeg.clone();
        other[frame - 3] = marker;
        assert_eq!(
            prepare(&other),
            Err(Rejection::NotAnImage { found: Some(name) })
        );
    }
    let mut deep = jpeg.clone();
    deep[frame] = 12;
    assert!(matches!(
        prepare(&deep),
        Err(Rejection::NotAnImage { found: Some(_) })
    ));
}

#[test]
fn bombs_are_rejected_by_their_header() {
    let png = fixtures::png::encode_rgb(&quarters(8, 8));
    for (width, height) in [
        (50_001, 50_001),
        (1, 1 << 31),
        (u32::MAX, u32::MAX),
        (65_536, 1),
        (7072, 7072),
    ] {
        let bomb = fixtures::png::with_header(&png, &fixtures::png::header(width, height));
        assert_eq!(prepare(&bomb), too_large(width, height));
    }
    let mut jpeg = fixtures::jpeg::encode(&quarters(8, 8));
    let frame = fixtures::jpeg::find(&jpeg, 0xc0);
    jpeg[frame + 1..frame + 5].copy_from_slice(&[0xff; 4]);
    assert_eq!(prepare(&jpeg), too_large(65_535, 65_535));

    use fixtures::webp::{LOSSY, canvas, chunk, file};
    let canvas_bomb = file(&[canvas(0, 1 << 24, 1 << 24), chunk(b"VP8 ", LOSSY)]);
    assert_eq!(prepare(&canvas_bomb), too_large(1 << 24, 1 << 24));
    let mut large = LOSSY.to_vec();
    large[6..10].copy_from_slice(&[0xff, 0x3f, 0xff, 0x3f]);
    assert_eq!(
        prepare(&file(&[chunk(b"VP8 ", &large)])),
        too_large(16_383, 16_383)
    );
    // The bitstream is larger than the canvas says.
    let inner = file(&[canvas(0, 16, 8), chunk(b"VP8 ", &large)]);
    assert_eq!(prepare(&inner), too_large(16_383, 16_383));
    let animated = [
        canvas(2, 16, 8),
        chunk(b"ANIM", &[0; 6]),
        fixtures::webp::frame((0, 0), (16, 8), &[chunk(b"VP8 ", &large)]),
    ];
    assert_eq!(prepare(&file(&animated)), Err(Rejection::Damaged));
}

/// Within 50 megapixels, but the coefficients of a progressive JPEG take 6 bytes for a pixel.
#[test]
fn images_that_take_too_much_memory_are_rejected_by_their_header() {
    let blocks = vec![vec![1, 2, 3, 4]; 4];
    let image = |scans| {
        let blocks = Blocks {
            width: 16,
            height: 16,
            blocks: &blocks,
            scans,
            adobe: Some(0),
        };
        let mut jpeg = blocks.encode();
        let marker = if scans == Scans::Progressive {
            0xc2
        } else {
            0xc0
        };
        let frame = fixtures::jpeg::find(&jpeg, marker);
        jpeg[frame + 1..frame + 5].copy_from_slice(&[0x1b, 0x58, 0x1b, 0x58]);
        jpeg
    };
    let refused = Err(Rejection::TooMuchMemory {
        width: 7000,
        height: 7000,
    });
    assert_eq!(prepare(&image(Scans::Progressive)), refused);
    assert_eq!(prepare(&image(Scans::Separate)), refused);

    // Huffman tables: 10 bytes may make 4 KiB.
    let mut lossless = fixtures::webp::encode(&quarters(64, 64));
    let length = lossless.len() - 20;
    lossless.truncate(20 + length);
    let chunk = fixtures::webp::chunk(b"VP8L", &[&lossless[20..], &vec![0; 2 << 20][..]].concat());
    let refused = Err(Rejection::TooMuchMemory {
        width: 64,
        height: 64,
    });
    assert_eq!(prepare(&fixtures::webp::file(&[chunk])), refused);
}

/// Hardly any data may be many pixels: the deadline is checked while they are decoded.
#[test]
fn bombs_end_at_the_deadline() {
    let interlaced = fixtures::png::interlaced(4000, 4000);
    let ended = petstore_photo::prepare(&interlaced, Duration::from_millis(1));
    assert_eq!(ended, Err(Rejection::TimedOut));
    prepare(&interlaced).unwrap();
}

#[test]
fn dimensions_that_the_data_does_not_have_are_damaged() {
    let png = fixtures::png::encode_rgb(&quarters(8, 8));
    for (width, height) in [(0, 8), (8, 0), (0, 0), (9, 9), (8, 9)] {
        let wrong = fixtures::png::with_header(&png, &fixtures::png::header(width, height));
        assert_eq!(prepare(&wrong), Err(Rejection::Damaged), "{width} {height}");
    }
    let mut jpeg = fixtures::jpeg::encode(&quarters(8, 8));
    let frame = fixtures::jpeg::find(&jpeg, 0xc0);
    jpeg[frame + 1..frame + 5].fill(0);
    assert_eq!(prepare(&jpeg), Err(Rejection::Damaged));

    use fixtures::webp::{LOSSY, canvas, chunk, file};
    let wrong = file(&[canvas(0, 17, 8), chunk(b"VP8 ", LOSSY)]);
    assert_eq!(prepare(&wrong), Err(Rejection::Damaged));
}

#[test]
fn the_smallest_images_are_decoded() {
    let pixel = RgbImage::from_pixel(1, 1, Rgb([200, 30, 40]));
    for file in [
        fixtures::jpeg::encode(&pixel),
        fixtures::png::encode_rgb(&pixel),
        fixtures::webp::encode(&pixel),
    ] {
        let prepared = prepare(&file).unwrap();
        assert_eq!((prepared.width, prepared.height), (1, 1));
        fixtures::assert_colour(&pixels(&prepared.thumb), 0, 0, [200, 30, 40]);
    }
}

/// Every prefix of a file.
#[test]
fn truncated_files_are_rejected_at_every_byte() {
    let image = noise(24, 20);
    let blocks: Vec<_> = (0..6).map(|n| vec![n * 40, 255 - n * 40, n]).collect();
    let jpeg = |scans| {
        Blocks {
            width: 16,
            height: 24,
            blocks: &blocks,
            scans,
            adobe: None,
        }
        .encode()
    };
    use fixtures::webp::{ALPHA, LOSSY, canvas, chunk, file, frame};
    let files = [
        fixtures::jpeg::with_exif(&fixtures::jpeg::encode(&image), &exif(6)),
        jpeg(Scans::Progressive),
        jpeg(Scans::Separate),
        fixtures::png::encode_rgb(&image),
        fixtures::webp::encode(&image),
        file(&[
            canvas(0x10, 16, 8),
            chunk(b"ALPH", ALPHA),
            chunk(b"VP8 ", LOSSY),
        ]),
        file(&[
            canvas(0x02, 16, 8),
            chunk(b"ANIM", &[0; 6]),
            frame((0, 0), (16, 8), &[chunk(b"VP8 ", LOSSY)]),
            frame((0, 0), (16, 8), &[chunk(b"VP8 ", LOSSY)]),
        ]),
    ];
    for file in files {
        prepare(&file).unwrap();
        for length in 0..file.len() {
            let rejection = prepare(&file[..length]).unwrap_err();
            let expected = if length < 12 {
                matches!(
                    rejection,
                    Rejection::NotAnImage { found: None } | Rejection::Damaged
                )
            } else {
                rejection == Rejection::Damaged
            };
            assert!(expected, "{length} of {}: {rejection:?}", file.len());
        }
    }
}

/// Phones put a second image, a depth map or a video behind the first image.
#[test]
fn data_after_the_image_is_ignored() {
    let jpeg = fixtures::jpeg::encode(&quarters(96, 64));
    let png = fixtures::png::encode_rgb(&quarters(96, 64));
    let webp = fixtures::webp::encode(&quarters(96, 64));
    let other = fixtures::jpeg::encode(&RgbImage::new(64, 64));
    for file in [jpeg, png, webp] {
        let expected = prepare(&file).unwrap();
        for trailer in [
            &other[..],
            &other[..other.len() / 2],
            &[0; 7],
            &[0xff; 3],
            b"\0\0\0\x18ftypmp42",
        ] {
            assert_eq!(prepare(&[&file, trailer].concat()), Ok(expected.clone()));
        }
    }
}

/// A file that is an image and a ZIP or a web page: nothing of the other file comes back.
#[test]
fn polyglots_become_images_only() {
    const PAGE: &[u8] = b"<html><script>alert(1)</script></html>";
    let zip = [b"PK\x03\x04\x14\0", PAGE, b"PK\x05\x06", &[0; 18]].concat();
    let jpeg = fixtures::jpeg::encode(&quarters(96, 64));
    let png = fixtures::png::encode_rgb(&quarters(96, 64));
    let webp = fixtures::webp::lossless_chunk(&fixtures::webp::encode(&quarters(96, 64)));
    let webp = |chunks: &[Vec<u8>]| {
        let all = [&[fixtures::webp::canvas(0, 96, 64), webp.clone()], chunks].concat();
        fixtures::webp::file(&all)
    };
    let files = [
        [&jpeg[..], &zip].concat(),
        [&jpeg[..], PAGE].concat(),
        fixtures::jpeg::with_segment(&jpeg, 0xfe, PAGE),
        fixtures::jpeg::with_segment(&jpeg, 0xe5, &zip),
        // Between two segments, without one of its own.
        [&jpeg[..2], PAGE, &jpeg[2..]].concat(),
        [&png[..], &zip].concat(),
        fixtures::png::with_chunk(&png, b"tEXt", PAGE),
        fixtures::png::with_chunk(&png, b"phPx", &zip),
        webp(&[fixtures::webp::chunk(b"XMP ", PAGE)]),
        [&webp(&[])[..], &zip].concat(),
    ];
    for (number, file) in files.iter().enumerate() {
        // The bytes that say JPEG are three.
        if number == 4 {
            assert!(matches!(prepare(file), Err(Rejection::NotAnImage { .. })));
            continue;
        }
        let prepared = prepare(file).unwrap();
        assert_corners(&pixels(&prepared.full), [0, 1, 2, 3]);
        for output in [&prepared.full, &prepared.thumb] {
            for length in [PAGE, b"PK\x03\x04", b"script"] {
                assert!(
                    !output.windows(length.len()).any(|it| it == length),
                    "{number}"
                );
            }
            assert_eq!(output[output.len() - 2..], [0xff, 0xd9], "{number}");
        }
    }
}

/// The largest segments, many times: they are neither decompressed nor collected.
#[test]
fn huge_metadata_is_skipped() {
    let jpeg = fixtures::jpeg::encode(&quarters(96, 64));
    let filler = vec![b'x'; 65_000];
    let profile = fixtures::jpeg::segment(0xe2, &[b"ICC_PROFILE\0\x01\x02", &filler[..]].concat());
    let xmp = b"http://ns.adobe.com/xmp/extension/\0";
    let xmp = fixtures::jpeg::segment(0xe1, &[xmp, &filler[..]].concat());
    let exif = fixtures::jpeg::segment(0xe1, &[b"Exif\0\0", &filler[..]].concat());
    let segments = [profile, xmp, exif].concat().repeat(20);
    let file = [&jpeg[..2], &segments, &jpeg[2..]].concat();
    assert_eq!(prepare(&file), prepare(&jpeg));

    let png = fixtures::png::encode_rgb(&quarters(96, 64));
    let expected = prepare(&png);
    // Compressed text that is a bomb would be.
    for name in [b"iCCP", b"zTXt", b"iTXt", b"eXIf"] {
        let file = fixtures::png::with_chunk(&png, name, &vec![b'x'; 1 << 20]);
        assert_eq!(prepare(&file), expected);
    }
}

#[test]
fn damaged_structures_are_rejected() {
    let jpeg = fixtures::jpeg::encode(&noise(64, 64));
    let scan = fixtures::jpeg::find(&jpeg, 0xda);
    let frame = fixtures::jpeg::find(&jpeg, 0xc0);
    let end = jpeg.len() - 2;
    let png = fixtures::png::encode_rgb(&quarters(8, 8));
    let mut wrong_checksum = png.clone();
    wrong_checksum[fixtures::png::AFTER_HEADER + 8] ^= 1;
    let frame_segment = fixtures::jpeg::segment(0xc0, &jpeg[frame..frame + 15]);
    let files = [
        // Two frames; no frame; no scan; a start within; no data.
        [&jpeg[..2], &frame_segment, &jpeg[2..]].concat(),
        [&jpeg[..frame - 4], &jpeg[frame + 15..]].concat(),
        [&jpeg[..scan - 4], &jpeg[end..]].concat(),
        [&jpeg[..scan - 4], &jpeg[..]].concat(),
        b"\xff\xd8\xff\xd9".to_vec(),
        b"\xff\xd8\xff\xe0\0\0\xff\xd9".to_vec(),
        b"\xff\xd8\xff\xe0\0\x01\xff\xd9".to_vec(),
        wrong_checksum,
        // Two headers; none; no data.
        fixtures::png::with_chunk(&png, b"IHDR", &png[16..29]),
        [
            fixtures::png::SIGNATURE,
            &png[fixtures::png::AFTER_HEADER..],
        ]
        .concat(),
        [
            &png[..fixtures::png::AFTER_HEADER],
            &fixtures::png::chunk(b"IEND", b""),
        ]
        .concat(),
        fixtures::webp::file(&[]),
        fixtures::webp::file(&[fixtures::webp::canvas(0, 1, 1)]),
        fixtures::webp::file(&[fixtures::webp::chunk(b"VP8 ", b"")]),
        fixtures::webp::file(&[fixtures::webp::chunk(b"VP8L", b"\x2f\0\0\0\0")]),
    ];
    for (number, file) in files.iter().enumerate() {
        assert_eq!(prepare(file), Err(Rejection::Damaged), "{number}");
    }
}

/// Each scan is a pass over the whole image, so their number is limited.
#[test]
fn jpegs_with_very_many_scans_are_damaged() {
    let blocks = vec![vec![1, 2, 3]; 80];
    for scans in [Scans::Progressive, Scans::Separate] {
        let image = Blocks {
            width: 320,
            height: 16,
            blocks: &blocks,
            scans,
            adobe: None,
        };
        let jpeg = image.encode();
        let end = jpeg.len() - 2;
        let is_scan = |it: &[u8]| it == [0xff, 0xda];
        let last = jpeg.windows(2).rposition(is_scan).unwrap();
        let with = |count| [&jpeg[..end], &jpeg[last..end].repeat(count), &jpeg[end..]].concat();
        assert!(prepare(&with(30)).is_ok(), "{scans:?}");
        assert_eq!(prepare(&with(40)), Err(Rejection::Damaged), "{scans:?}");
    }
}

#[test]
fn nothing_is_decoded_after_the_deadline() {
    let png = fixtures::png::encode(8, 8, (ColorType::Grayscale, BitDepth::Eight), &[7; 64]);
    assert_eq!(
        petstore_photo::prepare(&png, Duration::ZERO),
        Err(Rejection::TimedOut)
    );
}
