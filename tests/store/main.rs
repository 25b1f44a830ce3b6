//! The store without the service: the promises that both databases keep, PostgreSQL with several
//! replicas, and stores under contention.
//!
//! Every case is a test of its own, on a new database.

#![allow(clippy::unwrap_used)]

mod clocks;
mod event_parts;
mod events;
mod fixture;
mod imports;
mod photos;
mod reports;
mod stress;
mod webhooks;

use std::process::ExitCode;

use support::suite::{self, Case};

/// The files that have cases.
const FILES: &[&[Case]] = &[
    clocks::CASES,
    event_parts::CASES,
    events::CASES,
    imports::CASES,
    photos::CASES,
    reports::CASES,
    stress::CASES,
    webhooks::changes::CASES,
    webhooks::commands::CASES,
    webhooks::deliveries::CASES,
    webhooks::leases::CASES,
];

fn main() -> ExitCode {
    suite::main(FILES, None)
}
