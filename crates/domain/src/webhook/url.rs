//! The URL that a webhook is delivered to.
//!
//! The URL is parsed once, here, and the request is made from the parts: checks against forged
//! requests are bypassed where two parsers disagree about the host. The parser accepts less than
//! the URL standard of browsers (WHATWG), which repairs its input and maps Unicode, and less than
//! RFC 3986: it accepts no percent-encoded hosts.
//!
//! A host that could be an IPv4 address is one. `getaddrinfo` takes every spelling that
//! `inet_aton` does (`127.1`, `0x7f.1`, `017700000001`, `2130706433`), and never sees them
//! because they are recognised here, by the rule of WHATWG: a host whose last label is a
//! number is an IPv4 address, or invalid. No top-level domain is a number.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use serde::{Serialize, Serializer};

use super::address::AllowedNetworks;
use crate::{
    invalid::{Invalid, quoted},
    json::Value,
};

/// The URL of a receiver: http or https, kept exactly as sent.
///
/// Its path and query may contain credentials, so `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    text: String,
    /// The offset at which the path or query starts.
    target_start: usize,
    is_https: bool,
    host: Host,
    port: u16,
}

/// The host of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name to resolve. It is never the spelling of an address.
    Name(String),
    Address(IpAddr),
}

/// The operator's rules for URLs. They must be checked before every delivery, because the
/// configuration may have changed since the URL was stored.
#[derive(Debug, Clone, Default)]
pub struct UrlPolicy {
    pub allow_http: bool,
    pub networks: AllowedNetworks,
}

impl UrlPolicy {
    pub fn check(&self, url: &WebhookUrl) -> Result<(), Invalid> {
        if !url.is_https && !self.allow_http {
            let options = match self.check_host(&url.host) {
                Ok(()) => "--webhook-allow-http",
                Err(_) => "--webhook-allow-http and --webhook-allow-net CIDR",
            };
            return Err(invalid(format!(
                "must start with https://, got http://; to allow it, the operator starts the \
                 service with {options}"
            )));
        }
        self.check_host(&url.host).map_err(invalid)
    }

    /// Checks that the host may be delivered to, as far as that is known without resolving it.
    fn check_host(&self, host: &Host) -> Result<(), String> {
        const ADVICE: &str = "use one on the public internet, or ask the operator to allow it with";
        match host {
            Host::Address(address) => match self.networks.check([*address]) {
                Ok(_) => Ok(()),
                Err(refused) => Err(format!("{refused}; {ADVICE} --webhook-allow-net CIDR")),
            },
            Host::Name(name) => match ReservedName::of(name) {
                Some(ReservedName::Localhost) if !self.allows_loopback() => Err(format!(
                    "localhost is the machine of the service, which is not allowed; {ADVICE} \
                     --webhook-allow-net 127.0.0.0/8,::1/128"
                )),
                Some(ReservedName::Invalid) => Err(
                    "a host in .invalid never exists (RFC 6761); use one on the public internet"
                        .into(),
                ),
                _ => Ok(()),
            },
        }
    }

    fn allows_loopback(&self) -> bool {
        let loopback = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        let mut allowed = loopback
            .map(|address| self.networks.check([address]).is_ok())
            .into_iter();
        allowed.any(|is_allowed| is_allowed)
    }
}

/// A name that means the same on every machine (RFC 6761, sections 6.3 and 6.4).
enum ReservedName {
    Localhost,
    Invalid,
}

impl ReservedName {
    fn of(name: &str) -> Option<Self> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let top_level = name.rsplit('.').next().unwrap_or_default();
        match &*top_level.to_ascii_lowercase() {
            "localhost" => Some(Self::Localhost),
            "invalid" => Some(Self::Invalid),
            _ => None,
        }
    }
}

impl WebhookUrl {
    pub const MAX_CHARS: usize = 2000;

    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse(text).map_err(invalid)
    }

    pub(super) fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let value = value.ok_or_else(|| invalid("required; must be a URL"))?;
        let text = value.as_string().ok_or_else(|| {
            invalid(format!(
                "must be a string with a URL, got {}",
                value.describe()
            ))
        })?;
        Self::parse(&text)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn is_https(&self) -> bool {
        self.is_https
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the host and port as sent, for the `Host` header.
    pub fn authority(&self) -> &str {
        let start = self.text.find("://").map_or(0, |end| end + 3);
        &self.text[start..self.target_start]
    }

    /// Returns the target of the request.
    pub fn path_and_query(&self) -> Cow<'_, str> {
        let target = &self.text[self.target_start..];
        if target.starts_with('/') {
            target.into()
        } else {
            format!("/{target}").into()
        }
    }

    /// Returns the scheme, host and port, for logs.
    pub fn origin(&self) -> &str {
        &self.text[..self.target_start]
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({}/…)", self.origin())
    }
}

impl Serialize for WebhookUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

fn invalid(reason: impl Into<String>) -> Invalid {
    Invalid::new("url", reason)
}

fn parse(text: &str) -> Result<WebhookUrl, String> {
    let length = text.chars().count();
    if length > WebhookUrl::MAX_CHARS {
        let max = WebhookUrl::MAX_CHARS;
        return Err(format!(
            "must be at most {max} characters long, got {length}"
        ));
    }
    if let Some(other) = text.chars().find(|c| !is_uri_char(*c)) {
        return Err(format!(
            "must contain only characters of RFC 3986, got {}; percent-encode others in the path \
             and query, and write the host in Punycode (xn--)",
            quoted(&other.to_string())
        ));
    }
    let is_https = has_scheme(text, "https://");
    let start = if is_https {
        "https://".len()
    } else if has_scheme(text, "http://") {
        "http://".len()
    } else {
        return Err(format!("must start with https://, got {}", quoted(text)));
    };
    if text.contains('#') {
        return Err("must not contain a fragment (#)".into());
    }
    let target_start = text[start..]
        .find(['/', '?'])
        .map_or(text.len(), |n| start + n);
    let authority = &text[start..target_start];
    let target = &text[target_start..];
    if authority.contains('@') {
        return Err("must not contain a user name or password (@ before the path)".into());
    }
    let (host, port) = split_port(authority)?;
    let port = match port {
        Some(port) => parse_port(port)?,
        None if is_https => 443,
        None => 80,
    };
    check_target(target)?;
    Ok(WebhookUrl {
        text: text.into(),
        target_start,
        is_https,
        host: parse_host(host)?,
        port,
    })
}

/// Returns true for unreserved and reserved characters and the percent sign (RFC 3986, section
/// 2).
fn is_uri_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&'()*+,;=%".contains(c)
}

fn has_scheme(text: &str, scheme: &str) -> bool {
    let start = text.get(..scheme.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), String> {
    let host_end = if authority.starts_with('[') {
        authority.find(']').map_or(authority.len(), |end| end + 1)
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at(host_end);
    match rest.strip_prefix(':') {
        Some(port) if port.contains(':') => {
            Err("must have an IPv6 address in brackets, such as https://[2001:db8::1]/".into())
        }
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(format!(
            "must have nothing but a port after ], got {}",
            quoted(rest)
        )),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let is_decimal = text.bytes().all(|b| b.is_ascii_digit());
    let port = text.parse().ok().filter(|port| is_decimal && *port > 0);
    port.ok_or_else(|| format!("must have a port from 1 to 65535, got {}", quoted(text)))
}

/// Checks the path and query.
fn check_target(target: &str) -> Result<(), String> {
    if let Some(n) = target.find(['[', ']']) {
        let bracket = &target[n..=n];
        return Err(format!(
            "must not contain {bracket} in the path or query; percent-encode it"
        ));
    }
    let escapes = target.split('%').skip(1);
    for escape in escapes {
        let digits = escape.as_bytes().first_chunk::<2>();
        if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
            return Err("must have two hexadecimal digits after every %; write % as %25".into());
        }
    }
    Ok(())
}

fn parse_host(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Err("must contain a host".into());
    }
    if let Some(rest) = text.strip_prefix('[') {
        let literal = rest.strip_suffix(']').unwrap_or(rest);
        if literal.contains('%') {
            return Err("must not contain an IPv6 zone (%)".into());
        }
        let address: Option<Ipv6Addr> = literal.parse().ok().filter(|_| text.ends_with(']'));
        return address
            .map(|address| Host::Address(address.into()))
            .ok_or_else(|| {
                format!(
                    "must have a valid IPv6 address in brackets, got {}",
                    quoted(text)
                )
            });
    }
    // A name that ends in a dot is absolute.
    let name = text.strip_suffix('.').unwrap_or(text);
    let last_label = name.rsplit('.').next().unwrap_or_default();
    if is_number(last_label) {
        return parse_ipv4(name)
            .map(|address| Host::Address(address.into()))
            .ok_or_else(|| {
                format!(
                    "must have a valid IPv4 address or a host name, got {}",
                    quoted(text)
                )
            });
    }
    if name.len() <= 253 && name.split('.').all(is_label) {
        Ok(Host::Name(text.into()))
    } else {
        Err(format!(
            "must have a host name of labels of 1 to 63 letters, digits, hyphens and underscores, \
             at most 253 characters long, got {}",
            quoted(text)
        ))
    }
}

/// Returns true for a label of a host name. RFC 1123 does not allow underscores, but they are in
/// use.
fn is_label(label: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns true if a resolver might take the label for a part of an IPv4 address.
fn is_number(label: &str) -> bool {
    match hexadecimal(label) {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()),
    }
}

fn hexadecimal(label: &str) -> Option<&str> {
    label
        .strip_prefix("0x")
        .or_else(|| label.strip_prefix("0X"))
}

/// Parses an IPv4 address as `inet_aton` does: up to four numbers, each decimal, octal
/// (`0…`) or hexadecimal (`0x…`), the last of which fills the remaining bytes.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u32> = text.split('.').map(parse_number).collect::<Option<_>>()?;
    let (last, leading) = parts.split_last()?;
    let last_bits = 32_u32.checked_sub(8 * u32::try_from(leading.len()).ok()?)?;
    if last_bits == 0 || last.checked_shr(last_bits).unwrap_or(0) != 0 {
        return None;
    }
    let mut bits = *last;
    for (n, part) in leading.iter().enumerate() {
        bits |= u32::from(u8::try_from(*part).ok()?) << (24 - 8 * n);
    }
    Some(Ipv4Addr::from_bits(bits))
}

fn parse_number(label: &str) -> Option<u32> {
    let (digits, radix) = match hexadecimal(label) {
        Some("") => ("0", 16),
        Some(digits) => (digits, 16),
        None if label.len() > 1 && label.starts_with('0') => (label, 8),
        None => (label, 10),
    };
    let is_alphanumeric = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    u32::from_str_radix(digits, radix)
        .ok()
        .filter(|_| is_alphanumeric)
}

#[cfg(test)]
mod tests;
