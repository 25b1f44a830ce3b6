//! The parts that the test suites share: waiting, processes, databases, a PostgreSQL server,
//! HTTP clients and webhook receivers. It uses nothing of petstore itself.

#![allow(clippy::unwrap_used)]

mod campaign;
mod client;
mod command;
mod database;
mod event_stream;
mod free_address;
mod golden;
pub mod http2;
mod identity;
pub mod object_store;
mod picture;
pub mod postgres;
mod raw_connection;
mod receiver;
mod response;
mod service;
pub mod suite;
mod wait;

pub use campaign::{random, rounds};
pub use client::{Duplex, HttpClient, RequestError, Stream, tls_handshake};
pub use command::{CommandResult, command, note_skipped, signal};
pub use database::{Database, Lock};
pub use event_stream::{EventStream, field};
pub use free_address::free_address;
pub use golden::Golden;
pub use identity::{Identity, self_signed};
pub use object_store::ObjectStore;
pub use picture::{large_black, noise, png_of_size};
pub use postgres::Cluster;
pub use raw_connection::RawConnection;
pub use receiver::{Receiver, Reply, WebhookRequest};
pub use response::Response;
pub use service::{Service, without_colors};
pub use suite::Backend;
pub use wait::{TIMEOUT, eventually, wait_for};
