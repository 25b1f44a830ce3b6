//! Telemetry: metrics, and the log with its access and audit events.
//!
//! These are the building blocks. Each module owns the metrics that it records;
//! `crates/service/src/metrics.rs` gives them their names.

pub mod access_log;
pub mod audit_log;
pub mod error_latch;
pub mod log;
pub mod metrics;
pub mod prometheus;
mod public_file;
pub mod redaction;

pub use public_file::warn_if_public;
