//! Connections to other servers.

pub mod bounded_stream;
pub mod http1;
pub mod tls;
