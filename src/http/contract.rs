//! The contract, `openapi.yaml`, with this service's addresses filled in.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use http::Uri;

use super::tls::Tls;
use crate::invalid::{Invalid, quoted};

const YAML: &str = include_str!("../../openapi.yaml");
/// The same as JSON, made when the program is built.
const JSON: &str = include_str!(concat!(env!("OUT_DIR"), "/openapi.json"));

const PRODUCTION: &str = "https://petstore.example/v1";
const STAGING: &str = "https://staging.petstore.example/v1";

/// An address under which clients reach the service; it ends in `/v1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The address of a service that is not told another one.
    pub fn local(scheme: Scheme, address: SocketAddr) -> Self {
        Self(format!("{scheme}://{}/v1", reachable(address)))
    }
}

/// What the address of the service begins with.
#[derive(Debug, Clone, Copy)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub fn of(tls: Option<&Tls>) -> Self {
        tls.map_or(Self::Http, |_| Self::Https)
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

/// Where a service that listens there is reached from the same machine.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
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
                let reason = format!("must be an http or https address ending in /v1, got {got}");
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

/// The contract in both of its forms.
#[derive(Debug, Clone)]
pub struct Contract {
    pub yaml: String,
    pub json: String,
}

impl Contract {
    /// Without a staging address the contract lists none.
    pub fn new(production: &PublicUrl, staging: Option<&PublicUrl>) -> Self {
        let fill = |text: &str, staging_entry: &str| {
            let text = match staging {
                Some(url) => text.replace(STAGING, &url.0),
                None => text.replace(staging_entry, ""),
            };
            text.replace(PRODUCTION, &production.0)
        };
        Self {
            yaml: fill(
                YAML,
                &format!("  - url: {STAGING}\n    description: Staging\n"),
            ),
            json: fill(
                JSON,
                &format!(r#",{{"url":"{STAGING}","description":"Staging"}}"#),
            ),
        }
    }
}
