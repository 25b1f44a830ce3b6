//! Addresses for processes that must be told theirs.

use std::{
    iter,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
};

use rand::RngExt;

/// Ports that the system gives to nothing on its own. Those that it gives to `:0` also serve
/// outgoing connections: between two starts of a process, one of them could take its port.
const PORTS: Range<u16> = 10_000..32_000;

/// A loopback address that nothing listens at, and that stays free while its owner restarts.
pub fn free_address() -> SocketAddr {
    let port = || rand::rng().random_range(PORTS);
    iter::repeat_with(|| SocketAddr::from((Ipv4Addr::LOCALHOST, port())))
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("addresses never run out")
}
