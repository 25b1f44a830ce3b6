//! Code that the programs share: CPU time, and reproducible, spread-out numbers.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this process.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Spreads consecutive numbers (SplitMix64).
pub fn mix(mut n: u64) -> u64 {
    n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Returns a pronounceable name of three syllables. Many pets share one.
pub fn name(random: u64) -> String {
    let syllable = |n: u64| {
        let first = b"bdfglmnprst"[n as usize % 11];
        let second = b"aeiou"[n as usize / 11 % 5];
        [char::from(first), char::from(second)]
    };
    let mut name: Vec<char> = [8, 16, 24]
        .map(|shift| syllable(random >> shift & 0xff))
        .concat();
    name[0].make_ascii_uppercase();
    name.into_iter().collect()
}
