//! The address that a service listens on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::Args;

pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

#[derive(Args)]
pub struct Listen {
    /// Address and port of the service; port 0 picks a free port.
    ///
    /// A port alone is one of 127.0.0.1, which only this machine can reach; 0.0.0.0:8080 is
    /// port 8080 of all addresses.
    #[arg(
        long,
        env = "PETSTORE_LISTEN",
        value_parser = socket_address,
        default_value_t = DEFAULT_LISTEN,
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    listen: SocketAddr,
    // There is no variable: in Kubernetes, a Service named petstore sets PETSTORE_PORT to a URL.
    /// Port of the service, instead of the one in --listen.
    #[arg(long, value_parser = port, value_name = "PORT", allow_hyphen_values = true)]
    port: Option<u16>,
}

impl Listen {
    pub fn address(&self) -> SocketAddr {
        let port = self.port.unwrap_or(self.listen.port());
        SocketAddr::new(self.listen.ip(), port)
    }

    /// Returns the option that determines the port.
    pub fn option(&self) -> &'static str {
        self.port.map_or("--listen", |_| "--port")
    }
}

/// Parses an IP address or `localhost` and a port, or a port of the loopback address.
pub fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    let host = text.strip_prefix("localhost");
    let number = host.filter(|port| port.starts_with(':')).unwrap_or(text);
    match port(number) {
        Ok(port) => Ok((Ipv4Addr::LOCALHOST, port).into()),
        Err(_) => text
            .parse()
            .map_err(|_| "must be an IP address and a port, such as 127.0.0.1:8080, or a port"),
    }
}

/// Parses a port, with or without the colon that it has in an address.
pub fn port(text: &str) -> Result<u16, &'static str> {
    let text = text.strip_prefix(':').unwrap_or(text);
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|_| digits);
    port.ok_or("must be a number from 0 to 65535, such as 8080")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_address() {
        for (text, address) in [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(socket_address(text), Ok(address.parse().expect("valid")));
        }
        for text in [
            "",
            ":",
            "+80",
            "-1",
            "65536",
            "127.0.0.1",
            "::1",
            "::",
            "here",
            "http://x:1",
        ] {
            assert!(socket_address(text).is_err(), "{text}");
        }
    }
}
