//! Connections to other servers.

pub mod bounded_stream;
pub mod tls;
