//! A store inventory for animals: an HTTP and JSON service over an embedded
//! database.
//!
//! The modules stand in reading order, and imports only run downwards: the
//! command line starts the HTTP service, the service asks the store, and both
//! speak in the plain types of the domain.

#![forbid(unsafe_code)]

pub mod cli;

pub mod http;

pub mod store;

pub mod api_key;
pub mod idempotency;
pub mod order;
pub mod page;
pub mod pet;

pub mod clock;
pub mod invalid;
pub mod json;
pub mod metrics;
pub mod tls;
