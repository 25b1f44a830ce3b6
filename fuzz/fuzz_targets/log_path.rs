//! Paths in the access log: printable, bounded, and without anything that looks like a
//! secret, however it is encoded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use percent_encoding::percent_decode_str;
use telemetry::access_log::sanitize;

/// 256 characters of at most 10 (`\u{10ffff}`), and what stands for the rest.
const MAX_BYTES: usize = 2600;

fuzz_target!(|path: &str| {
    let mut logged = sanitize(path);
    assert!(logged.len() <= MAX_BYTES, "{} bytes", logged.len());
    let printable = |c: char| matches!(c, ' '..='~' | '…');
    assert!(logged.chars().all(printable), "{logged:?}");
    // Decoding shortens a text, so this ends.
    loop {
        let rest = logged.replace("psk_…", "").replace("whsec_…", "");
        let rest = rest.to_ascii_lowercase();
        for prefix in ["psk_", "whsec_"] {
            assert!(!rest.contains(prefix), "{path:?} is logged as {logged:?}");
        }
        let decoded = percent_decode_str(&logged).decode_utf8_lossy().into_owned();
        if decoded == logged {
            break;
        }
        logged = decoded;
    }
});
