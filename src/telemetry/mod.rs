//! Telemetry: metrics, and the log with its access and audit events.
//!
//! These are the building blocks. What is counted belongs to the part that
//! counts it; `service/metrics.rs` gives every metric its name.

pub mod access_log;
pub mod audit_log;
pub mod error_latch;
pub mod log;
pub mod metrics;
pub mod prometheus;
