//! The address at which other devices reach the service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Returns the address of a service that listens on all addresses of this machine, for the devices
/// in its network: the one from which it would send. `None` if it listens on one address, or has no
/// network.
pub fn reachable_address(listening: SocketAddr) -> Option<SocketAddr> {
    if !listening.ip().is_unspecified() {
        return None;
    }
    // Addresses for documentation.
    let by_ipv4 = || source_address(Ipv4Addr::new(192, 0, 2, 1).into());
    let by_ipv6 = || source_address(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    // A service on all IPv6 addresses also listens on those of IPv4, which are easier to type.
    let ip = match listening.ip() {
        IpAddr::V4(_) => by_ipv4(),
        IpAddr::V6(_) => by_ipv4().or_else(by_ipv6),
    };
    Some(SocketAddr::new(ip?, listening.port()))
}

/// Returns the address from which this machine would send to another one. Connecting a UDP socket
/// only selects a route.
fn source_address(other: IpAddr) -> Option<IpAddr> {
    let any: IpAddr = match other {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((other, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_service_on_all_addresses_has_another() {
        for listening in ["127.0.0.1:80", "192.0.2.7:80", "[::1]:80"] {
            let listening = listening.parse().expect("an address");
            assert_eq!(reachable_address(listening), None);
        }
        let all = "0.0.0.0:8080".parse().expect("an address");
        // A machine without a network has none.
        if let Some(address) = reachable_address(all) {
            assert_eq!(address.port(), 8080);
            assert!(!address.ip().is_loopback() && !address.ip().is_unspecified());
        }
    }
}
