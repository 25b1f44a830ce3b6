//! Photos: a file is rejected, or becomes two JPEGs within the limits.

#![no_main]

use std::{
    panic::{self, PanicHookInfo},
    sync::Once,
};

use domain::photo::DECODE_TIMEOUT;
use libfuzzer_sys::fuzz_target;
use photo::{FULL_SIDE, EncodedPhoto, Rejection};

static QUIET: Once = Once::new();

fuzz_target!(|file: &[u8]| {
    // The fuzzer aborts on every panic. That of a decoder is a result here: damaged.
    QUIET.call_once(|| panic::set_hook(Box::new(abort_on_own_panic)));
    match photo::prepare(file, DECODE_TIMEOUT) {
        Ok(prepared) if !is_within_limits(&prepared) => {
            eprintln!("{} x {}", prepared.width, prepared.height);
            std::process::abort();
        }
        Err(Rejection::TimedOut) => std::process::abort(),
        _ => (),
    }
});

fn abort_on_own_panic(panic: &PanicHookInfo<'_>) {
    let file = panic.location().map_or("", |location| location.file());
    if file.contains("crates/photo") {
        eprintln!("{panic}");
        std::process::abort();
    }
}

fn is_within_limits(prepared: &EncodedPhoto) -> bool {
    let is_jpeg = |file: &[u8]| file.starts_with(b"\xff\xd8\xff") && file.ends_with(b"\xff\xd9");
    let longer = prepared.width.max(prepared.height);
    (1..=FULL_SIDE).contains(&longer) && is_jpeg(&prepared.full) && is_jpeg(&prepared.thumb)
}
