//! The parts that the test suites share: waiting, processes, databases, a PostgreSQL server,
//! HTTP clients and webhook receivers. It uses nothing of petstore itself.

#![allow(clippy::unwrap_used)]

mod campaign;
mod command;
mod database;
mod identity;
pub mod postgres;
mod receiver;
mod response;
pub mod suite;
mod wait;

pub use campaign::{random, rounds};
pub use command::{Finished, command, note_skipped, signal};
pub use database::{Database, Lock};
pub use identity::{Identity, self_signed};
pub use postgres::Cluster;
pub use receiver::{Received, Receiver, Reply};
pub use response::Response;
pub use suite::Backend;
pub use wait::{TIMEOUT, eventually, wait_for};
