//! The contract, `openapi.yaml`, with this service's URLs filled in.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use http::Uri;

use domain::invalid::{Invalid, quoted};

const YAML: &str = include_str!("../../../openapi.yaml");
/// The contract in JSON, converted at build time.
const JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

const PRODUCTION_PLACEHOLDER: &str = "https://petstore.example/v1";
const STAGING_PLACEHOLDER: &str = "https://staging.petstore.example/v1";
/// The URL in the examples.
const EXAMPLE_URL: &str = "http://127.0.0.1:8080/v1";

/// A URL under which clients reach the service; it ends in `/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// Returns the URL of a service without a configured public one.
    pub fn local(scheme: Scheme, address: SocketAddr) -> Self {
        Self::of_host(scheme, &loopback_if_unspecified(address).to_string())
    }

    /// Returns the URL of a service that clients reach at this host and port.
    pub fn of_host(scheme: Scheme, host: &str) -> Self {
        Self(format!("{scheme}://{host}/v1"))
    }
}

/// The scheme of the service's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn new(tls: bool) -> Self {
        if tls { Self::Https } else { Self::Http }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// Returns the address under which a listener is reached from the same machine: loopback, if it
/// listens on all addresses.
pub fn loopback_if_unspecified(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

impl FromStr for PublicUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.path().ends_with("/v1")
                && uri.query().is_none()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._~:/[]%".contains(&b))
        });
        match uri {
            Some(_) => Ok(Self(text.into())),
            None => {
                let got = quoted(text);
                let reason = format!("must be an http or https URL that ends in /v1, got {got}");
                Err(Invalid::new("url", reason))
            }
        }
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The contract with the URLs of a service.
#[derive(Debug, Clone)]
pub struct Contract {
    production: PublicUrl,
    staging: Option<PublicUrl>,
}

impl Contract {
    /// Creates the contract, with examples that use the production URL. Without a staging URL it
    /// lists none.
    pub fn new(production: PublicUrl, staging: Option<PublicUrl>) -> Self {
        Self {
            production,
            staging,
        }
    }

    pub fn yaml(&self) -> String {
        let staging = format!("  - url: {STAGING_PLACEHOLDER}\n    description: Staging\n");
        self.fill(YAML, &staging)
    }

    pub fn json(&self) -> String {
        let staging = format!(r#",{{"url":"{STAGING_PLACEHOLDER}","description":"Staging"}}"#);
        self.fill(JSON, &staging)
    }

    fn fill(&self, text: &str, staging_entry: &str) -> String {
        let text = match &self.staging {
            Some(url) => text.replace(STAGING_PLACEHOLDER, &url.0),
            None => text.replace(staging_entry, ""),
        };
        text.replace(EXAMPLE_URL, &self.production.0)
            .replace(PRODUCTION_PLACEHOLDER, &self.production.0)
    }
}
