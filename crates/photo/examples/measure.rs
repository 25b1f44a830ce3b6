//! Prepares an image and prints the time and the peak of memory.
//!
//! `cargo run --release -p petstore-photo --example measure -- FILE`

use std::{
    env, fs,
    time::{Duration, Instant},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = env::args().nth(1).ok_or("usage: measure FILE")?;
    let bytes = fs::read(&path)?;
    let start = Instant::now();
    let result = petstore_photo::prepare(&bytes, Duration::from_secs(60));
    let elapsed = start.elapsed();
    match result {
        Ok(prepared) => println!(
            "{} x {}, {} and {} bytes",
            prepared.width,
            prepared.height,
            prepared.full.len(),
            prepared.thumb.len(),
        ),
        Err(rejection) => println!("{rejection:?}"),
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{} bytes in {elapsed:.2?}; {}",
        bytes.len(),
        peak.unwrap_or_default()
    );
    Ok(())
}
