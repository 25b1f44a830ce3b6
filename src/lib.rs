//! A pet store inventory service: HTTP and JSON over SQLite or PostgreSQL.
//!
//! Modules are listed top-down: each imports only from those below it.

#![forbid(unsafe_code)]

pub mod cli;

pub mod service;

pub mod api;
mod background;
pub mod server;

pub mod store;

pub mod api_key;
mod idempotency;
mod order;
pub mod page;
pub mod pet;

pub mod clock;
mod invalid;
pub mod json;
mod telemetry;
mod tls;
