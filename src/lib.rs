//! A store inventory for animals: an HTTP and JSON service over an embedded
//! database or PostgreSQL.
//!
//! The modules stand in reading order, and imports only run downwards.

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
