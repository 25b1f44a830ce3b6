//! Listening on an address, and advice if that fails.

use std::{
    error::Error,
    io,
    net::{SocketAddr, TcpListener},
};

/// Listens on an address. Returns the listener with its actual port.
pub fn bind(
    option: &str,
    address: SocketAddr,
) -> Result<(TcpListener, SocketAddr), Box<dyn Error>> {
    let listener = TcpListener::bind(address).map_err(|cause| {
        let reason = explain(&cause, option, address);
        format!("cannot listen on {address} ({option}): {reason}")
    })?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Explains why the service cannot listen, with advice.
fn explain(cause: &io::Error, option: &str, address: SocketAddr) -> String {
    let ip = address.ip();
    let port = address.port();
    let another = |port: u16| match option {
        "--listen" | "--port" => format!("--port {port}"),
        _ => format!("{option} {}", SocketAddr::new(ip, port)),
    };
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            let next = another(port.checked_add(1).unwrap_or(8080));
            format!(
                "port {port} is in use by another program; take another with {next}, or any \
                 that is free with {}",
                another(0)
            )
        }
        io::ErrorKind::PermissionDenied if port < 1024 => format!(
            "this user may not listen on ports below 1024; take a higher one, such as {}, or \
             grant the capability CAP_NET_BIND_SERVICE",
            another(8080)
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "this machine does not have the address {ip}; 127.0.0.1 is for clients on this \
             machine, and 0.0.0.0 for all"
        ),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_explained() {
        let explained = |kind: io::ErrorKind, option, address: &str| {
            explain(&kind.into(), option, address.parse().expect("an address"))
        };
        for (text, part) in [
            (
                explained(io::ErrorKind::AddrInUse, "--listen", "127.0.0.1:8080"),
                "--port 8081",
            ),
            (
                explained(io::ErrorKind::AddrInUse, "--metrics-listen", "[::1]:65535"),
                "--metrics-listen [::1]:8080",
            ),
            (
                explained(io::ErrorKind::PermissionDenied, "--listen", "0.0.0.0:80"),
                "--port 8080",
            ),
            (
                explained(io::ErrorKind::AddrNotAvailable, "--listen", "10.1.2.3:8080"),
                "does not have the address 10.1.2.3",
            ),
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
