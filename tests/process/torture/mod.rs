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
