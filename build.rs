//! Passes the build settings on to the test that compares instruction counts.

use std::env;

/// Each gets the prefix `BUILD_`.
const SETTINGS: [&str; 4] = ["TARGET", "OPT_LEVEL", "DEBUG", "CARGO_ENCODED_RUSTFLAGS"];

fn main() -> Result<(), env::VarError> {
    println!("cargo::rerun-if-changed=build.rs");
    for name in SETTINGS {
        println!("cargo::rustc-env=BUILD_{name}={}", env::var(name)?);
    }
    Ok(())
}
