//! The length and the random numbers of campaigns, which `make test` runs in part and
//! `make torture` in full.

use std::env;

use rand::{Rng, SeedableRng, rngs::StdRng};

/// The random numbers of a campaign. Pass the printed SEED to repeat it.
pub fn random(campaign: &str) -> StdRng {
    let seed = match env::var("SEED") {
        Ok(seed) => seed.parse().expect("SEED is a number"),
        Err(_) => rand::rng().next_u64(),
    };
    eprintln!("{campaign}: SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// The number of repetitions: `short` in `make test`, `long` in `make torture`.
pub fn rounds(short: usize, long: usize) -> usize {
    match env::var_os("TORTURE") {
        None => short,
        Some(_) => long,
    }
}
