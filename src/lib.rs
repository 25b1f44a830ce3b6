//! A pet store inventory service: HTTP and JSON over SQLite or PostgreSQL.
//!
//! Modules are listed top-down: each imports only from those below it.

#![forbid(unsafe_code)]

pub mod cli;

pub mod service;

mod background;

pub mod api;

pub mod server;

pub mod dispatcher;
mod event_tail;

pub mod store;

mod import_socket;

mod telemetry;

// The domain.
pub mod webhook;

pub mod event;
mod import;

mod category;
pub mod order;
pub mod pet;

pub mod api_key;
pub mod page;

pub mod idempotency;
mod text;

mod case_fold;
mod members;

pub mod json;

mod atomic_file;
mod bounded_stream;
pub mod clock;
mod invalid;
mod privileges;
mod single_flight;
mod tls;

/// Items beyond the public interface for the fuzz targets and the test of their seeds.
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::{
        category::CategoryFilter, order::OrderFilter, telemetry::access_log::sanitize,
    };
}
