//! Torture campaigns: faults at random moments, and afterwards one question: is
//! every acknowledged change there, once?
//!
//! `make test` runs a short part of each campaign, `make torture` all of it. Runs
//! are seeded; pass the printed SEED to repeat one. Each campaign has a control, a
//! service or a result that is broken on purpose, which its check must find.

mod clocks;
pub mod disk;
mod exhaustion;
mod fuzz;
mod io_faults;
mod kills;
mod postgres;
mod power_cuts;
mod rolling_restarts;
mod unread;

use std::env;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The random numbers of a campaign.
pub fn random(campaign: &str) -> StdRng {
    let seed = match env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => rand::rng().next_u64(),
    };
    eprintln!("{campaign}: SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// How often a campaign repeats: `short` times in `make test`, `long` times in
/// `make torture`.
pub fn rounds(short: usize, long: usize) -> usize {
    match env::var_os("TORTURE") {
        None => short,
        Some(_) => long,
    }
}
