//! Images with random changes.

#![allow(clippy::unwrap_used)]

mod fixtures;

use fixtures::{
    exif,
    jpeg::{Blocks, Scans},
    noise, pixels, prepare,
};
use petstore_photo::Rejection;
use png::{BitDepth, ColorType};
use proptest::{prelude::*, sample::Index};

/// Images with a change in each kind of place.
fn seeds() -> Vec<Vec<u8>> {
    let image = noise(40, 24);
    let blocks: Vec<_> = (0..6).map(|n| vec![n * 40, 255 - n * 40, n, 99]).collect();
    let jpeg = |scans| {
        Blocks {
            width: 16,
            height: 24,
            blocks: &blocks,
            scans,
            adobe: Some(2),
        }
        .encode()
    };
    use fixtures::webp::{ALPHA, LOSSY, canvas, chunk, file, frame};
    vec![
        fixtures::jpeg::with_exif(&fixtures::jpeg::encode(&image), &exif(6)),
        jpeg(Scans::Baseline),
        jpeg(Scans::Progressive),
        jpeg(Scans::Separate),
        fixtures::png::encode_rgb(&image),
        fixtures::png::encode(5, 5, (ColorType::Rgba, BitDepth::Sixteen), &[77; 200]),
        fixtures::webp::encode(&image),
        file(&[
            canvas(0x10, 16, 8),
            chunk(b"ALPH", ALPHA),
            chunk(b"VP8 ", LOSSY),
        ]),
        file(&[
            canvas(0x02, 64, 32),
            chunk(b"ANIM", &[0; 6]),
            frame(
                (2, 4),
                (16, 8),
                &[chunk(b"ALPH", ALPHA), chunk(b"VP8 ", LOSSY)],
            ),
        ]),
    ]
}

/// Gives the chunks of a PNG the checksums that they should have, so that changes get further.
fn with_checksums(png: &[u8]) -> Vec<u8> {
    let mut fixed = png.to_vec();
    let mut position = 8;
    while let Some(header) = png.get(position..position + 8) {
        let length = u32::from_be_bytes(header[..4].try_into().unwrap()) as usize;
        let end = position + 8 + length;
        if end + 4 > png.len() {
            break;
        }
        let checksum = crc32fast::hash(&png[position + 4..end]);
        fixed[end..end + 4].copy_from_slice(&checksum.to_be_bytes());
        position = end + 4;
    }
    fixed
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A mutated image is rejected, or a photo within the limits. Decoders that panic are
    /// reported as damage.
    #[test]
    fn mutated_images_never_exceed_the_limits(
        seed in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6),
        cut in prop::option::of((any::<Index>(), any::<Index>())),
    ) {
        let seeds = seeds();
        let mut file = seeds[seed.index(seeds.len())].clone();
        for (position, byte) in changes {
            let position = position.index(file.len());
            file[position] = byte;
        }
        if let Some((from, to)) = cut {
            let from = from.index(file.len());
            let to = to.index(file.len());
            file.drain(from.min(to)..from.max(to));
        }
        if file.starts_with(fixtures::png::SIGNATURE) {
            file = with_checksums(&file);
        }
        match prepare(&file) {
            Ok(prepared) => {
                let full = pixels(&prepared.full);
                prop_assert_eq!(full.dimensions(), (prepared.width, prepared.height));
                prop_assert!(prepared.width.max(prepared.height) <= petstore_photo::FULL_SIDE);
                let thumb = pixels(&prepared.thumb);
                prop_assert!(thumb.width().max(thumb.height()) <= petstore_photo::THUMB_SIDE);
            }
            Err(rejection) => prop_assert_ne!(rejection, Rejection::TimedOut),
        }
    }
}
