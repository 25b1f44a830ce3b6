//! The program as its operator meets it: the real binary, started, killed,
//! starved of its disk and started again.
//!
//! Tests that need a tool from outside are ignored unless asked for; asked
//! for, they fail where the tool is missing.

#![allow(clippy::unwrap_used)]

mod backup;
mod bulk;
mod cli;
mod client;
mod copy;
mod crash;
mod disk;
mod durability;
mod first_start;
mod hang_up;
mod harness;
mod health;
mod history;
mod holds;
#[path = "../support/identity.rs"]
mod identity;
mod keys;
mod log;
mod opening;
mod overload;
mod packaging;
mod pooler;
#[path = "../support/postgres.rs"]
mod postgres;
mod replicas;
mod sales;
mod shutdown;
mod tls;
mod trace;
