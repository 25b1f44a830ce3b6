//! Validates requests as HTTP messages, as far as their parsers do not (RFC 9110, RFC 9112,
//! RFC 9113).

use std::net::Ipv6Addr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Version, header, request::Parts, uri::Authority,
};

use super::{Rejection, limits::head_exceeds_limits};

/// The values of a request header. A request has few headers, so comparing their names costs
/// less than a lookup, which hashes the name.
pub fn header_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    let values = headers.iter().filter(move |(other, _)| **other == name);
    values.map(|(_, value)| value)
}

/// Rejects a request that a proxy in front could read differently.
pub fn validate(head: &Parts) -> Result<(), Rejection> {
    if head_exceeds_limits(head) {
        return Err(Rejection::HeadTooLarge);
    }
    if !has_valid_target(head) {
        return Err(Rejection::InvalidTarget);
    }
    if !has_valid_host(head) {
        return Err(Rejection::InvalidHost);
    }
    Ok(())
}

/// Returns true if the target is a path or an http or https URL, without userinfo (RFC 9112,
/// section 3.2; RFC 9110, section 4.2.4). OPTIONS may have `*`, and CONNECT has a host and a port.
fn has_valid_target(head: &Parts) -> bool {
    let uri = &head.uri;
    let path = uri.path();
    let has_valid_form = match head.method {
        Method::CONNECT => true,
        Method::OPTIONS if path == "*" => true,
        _ => path.starts_with('/'),
    };
    let has_userinfo = |authority: &Authority| authority.as_str().contains('@');
    has_valid_form
        && matches!(uri.scheme_str(), None | Some("http" | "https"))
        && !uri.authority().is_some_and(has_userinfo)
}

/// Returns true if an HTTP/1.1 request has exactly one valid `Host`, or an HTTP/1.0 request at
/// most one (RFC 9112, section 3.2). In HTTP/2, `:authority` takes its place, and both must
/// agree (RFC 9113, section 8.3.1).
fn has_valid_host(head: &Parts) -> bool {
    let mut hosts = header_values(&head.headers, header::HOST);
    let host = hosts.next().map(|host| host.as_bytes());
    let authority = head
        .uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let is_complete = match (head.version, authority, host) {
        (Version::HTTP_2, Some(authority), Some(host)) => {
            let is_https = head.uri.scheme_str() == Some("https");
            let plain = |host| without_default_port(host, is_https);
            plain(authority).eq_ignore_ascii_case(plain(host))
        }
        (Version::HTTP_2, None, None) => false,
        (Version::HTTP_2 | Version::HTTP_10, ..) => true,
        _ => host.is_some(),
    };
    is_complete && hosts.next().is_none() && [authority, host].into_iter().flatten().all(is_host)
}

fn without_default_port(host: &[u8], is_https: bool) -> &[u8] {
    let port: &[u8] = if is_https { b":443" } else { b":80" };
    host.strip_suffix(port).unwrap_or(host)
}

/// Returns true for a name or an address, with an optional port. Percent-encoded names are not
/// accepted: DNS has none.
fn is_host(host: &[u8]) -> bool {
    // RFC 3986, section 3.2.2.
    let is_name_byte = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'!' | b'$' | b'&'..=b'.' | b';' | b'=' | b'_' | b'~')
    };
    let is_port = |port: &[u8]| port.len() <= 5 && port.iter().all(u8::is_ascii_digit);
    if let Some(rest) = host.strip_prefix(b"[") {
        let text = str::from_utf8(rest).unwrap_or_default();
        return text.split_once(']').is_some_and(|(address, port)| {
            let port = port.as_bytes();
            address.parse::<Ipv6Addr>().is_ok()
                && (port.is_empty() || port.strip_prefix(b":").is_some_and(is_port))
        });
    }
    let end = host
        .iter()
        .position(|byte| *byte == b':')
        .unwrap_or(host.len());
    let (name, port) = host.split_at(end);
    !name.is_empty() && name.iter().all(is_name_byte) && is_port(port.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn hosts_are_a_name_or_an_address_and_an_optional_port() {
        for host in [
            "a",
            "shop.example",
            "my_shop",
            "SHOP:80",
            "a:",
            "127.0.0.1:8080",
            "[::1]",
            "[::1]:443",
            "a:65535",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "a?b", "a#b", "user@a", "a:b", "a:1:2", "a:123456", "[::1",
            "[::1]x", "[::1]:b", "[a]", "::1", "a,b c", "a%41", "ä", "a\\b", "<a>",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
