//! The memory that decoding takes at its peak. A process of its own, with one test.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

mod fixtures;

use std::fs;

use fixtures::{
    jpeg::{Blocks, Scans},
    prepare,
};
use petstore_photo::{MAX_MEMORY, MAX_OVERHEAD};
use png::{BitDepth, ColorType};

/// The bytes of physical memory that the process has had at most.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

/// An image of a size that is just allowed, which has hardly any data.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let jpeg = |width: u16, height: u16, scans, pixel: Vec<u8>| {
        let blocks = usize::from(width).div_ceil(8) * usize::from(height).div_ceil(8);
        let blocks = vec![pixel; blocks];
        Blocks {
            width,
            height,
            blocks: &blocks,
            scans,
            adobe: Some(0),
        }
        .encode()
    };
    let png = |colour, samples: usize| {
        let row = vec![7; 7071 * samples * 2];
        fixtures::png::encode_rows(7071, 7071, (colour, BitDepth::Sixteen), &row)
    };
    vec![
        ("JPEG", jpeg(7071, 7071, Scans::Baseline, vec![1, 2, 3])),
        (
            "JPEG, progressive",
            jpeg(6000, 6000, Scans::Progressive, vec![1, 2, 3]),
        ),
        (
            "JPEG, CMYK",
            jpeg(5400, 5400, Scans::Progressive, vec![1, 2, 3, 4]),
        ),
        (
            "JPEG, wide",
            jpeg(65_535, 700, Scans::Baseline, vec![1, 2, 3]),
        ),
        (
            "JPEG, before it is scaled",
            jpeg(3999, 3999, Scans::Baseline, vec![1, 2, 3]),
        ),
        ("PNG, 16 bits", png(ColorType::Rgba, 4)),
        ("PNG, interlaced", fixtures::png::interlaced(7071, 7071)),
        ("WebP, lossless", fixtures::webp::flat(7071, 7071)),
    ]
}

#[test]
fn the_peak_of_memory_is_bounded() {
    for (name, file) in bombs() {
        // Resets the peak to what is used now (proc_pid_clear_refs(5)).
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = peak();
        prepare(&file).unwrap();
        let used = peak() - before;
        let limit = MAX_MEMORY + MAX_OVERHEAD + 2 * file.len() as u64;
        println!("{name}: {} MiB", used >> 20);
        assert!(used <= limit, "{name}: {used} bytes");
    }
}
