//! The addresses that a webhook may be delivered to.
//!
//! Clients choose the URLs, so a request to an address inside the operator's network
//! would be a server-side request forgery (SSRF). Webhooks are delivered to the public
//! internet only, and to networks that the operator opens.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use crate::invalid::{Invalid, quoted};

/// A block of addresses in CIDR notation, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix: u32,
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let differing = first.to_bits() ^ address.to_bits();
                differing.checked_shr(32 - self.prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let differing = first.to_bits() ^ address.to_bits();
                differing.checked_shr(128 - self.prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// Returns true if the last 32 bits of a NAT64 address are known to be the IPv4 address. With
    /// a shorter prefix it is elsewhere (RFC 6052, section 2.2).
    fn shows_ipv4(self) -> bool {
        self.prefix >= 96
    }
}

impl FromStr for Network {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |reason: &str| {
            let got = quoted(text);
            Invalid::new("network", format!("{reason}, got {got}"))
        };
        let parsed = text.split_once('/').and_then(|(first, prefix)| {
            let first: IpAddr = first.parse().ok()?;
            let max = if first.is_ipv4() { 32 } else { 128 };
            let is_decimal = prefix.bytes().all(|b| b.is_ascii_digit());
            let prefix = prefix.parse().ok().filter(|n| is_decimal && *n <= max)?;
            Some(Self { first, prefix })
        });
        let network =
            parsed.ok_or_else(|| invalid("must be a network such as 10.0.0.0/8 or fd00::/8"))?;
        let has_host_bits = match network.first {
            IpAddr::V4(first) => first.to_bits().checked_shl(network.prefix).unwrap_or(0) != 0,
            IpAddr::V6(first) => first.to_bits().checked_shl(network.prefix).unwrap_or(0) != 0,
        };
        if has_host_bits {
            return Err(invalid("must have no bits set after its prefix"));
        }
        if LOCAL_NAT64.contains(network.first) && !network.shows_ipv4() {
            let reason = "must have a prefix of at least 96 bits within 64:ff9b:1::/48";
            return Err(invalid(reason));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

/// Addresses that do not belong to a host on the public internet.
#[derive(Debug, PartialEq, Eq)]
struct SpecialRange {
    network: Network,
    name: &'static str,
}

const fn v4(octets: [u8; 4], prefix: u32, name: &'static str) -> SpecialRange {
    let [a, b, c, d] = octets;
    let first = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    let network = Network { first, prefix };
    SpecialRange { network, name }
}

/// Defines an IPv6 range. `start` has the first segments; the others are zero.
const fn v6<const N: usize>(start: [u16; N], prefix: u32, name: &'static str) -> SpecialRange {
    let mut bits = 0;
    let mut n = 0;
    while n < N {
        bits |= (start[n] as u128) << (112 - 16 * n);
        n += 1;
    }
    let first = IpAddr::V6(Ipv6Addr::from_bits(bits));
    let network = Network { first, prefix };
    SpecialRange { network, name }
}

const LOCAL_NAT64: Network = v6([0x64, 0xff9b, 1], 48, "").network;

/// The special-purpose address registries of IANA (RFC 6890), including the ranges that they mark
/// as globally reachable, because no receiver is there; multicast; and unassigned ranges. The
/// longest prefix that matches gives the name.
const SPECIAL_RANGES: &[SpecialRange] = &[
    v4([0, 0, 0, 0], 8, "this network"), // RFC 791, section 3.2
    v4([10, 0, 0, 0], 8, "private use"), // RFC 1918
    v4([100, 64, 0, 0], 10, "shared, for CGNAT"), // RFC 6598
    v4([127, 0, 0, 0], 8, "loopback"),   // RFC 1122, section 3.2.1.3
    v4([169, 254, 0, 0], 16, "link-local"), // RFC 3927; cloud metadata
    v4([172, 16, 0, 0], 12, "private use"), // RFC 1918
    v4([192, 0, 0, 0], 24, "IETF protocols"), // RFC 6890; all of its assignments
    v4([192, 0, 2, 0], 24, "documentation"), // RFC 5737, TEST-NET-1
    v4([192, 31, 196, 0], 24, "AS112"),  // RFC 7535
    v4([192, 52, 193, 0], 24, "AMT"),    // RFC 7450
    v4([192, 88, 99, 0], 24, "6to4 relay"), // RFC 7526, deprecated
    v4([192, 168, 0, 0], 16, "private use"), // RFC 1918
    v4([192, 175, 48, 0], 24, "AS112"),  // RFC 7534
    v4([198, 18, 0, 0], 15, "benchmarking"), // RFC 2544
    v4([198, 51, 100, 0], 24, "documentation"), // RFC 5737, TEST-NET-2
    v4([203, 0, 113, 0], 24, "documentation"), // RFC 5737, TEST-NET-3
    v4([224, 0, 0, 0], 4, "multicast"),  // RFC 5771
    v4([240, 0, 0, 0], 4, "reserved"),   // RFC 1112, section 4
    v4([255, 255, 255, 255], 32, "broadcast"), // RFC 919
    v6([], 128, "unspecified"),          // RFC 4291, section 2.5.2
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, "loopback"), // RFC 4291, section 2.5.3
    v6([], 96, "IPv4-compatible"),       // RFC 4291, section 2.5.5.1, deprecated
    v6([0, 0, 0, 0, 0, 0xffff], 96, "IPv4-mapped"), // RFC 4291, section 2.5.5.2
    v6([0, 0, 0, 0, 0xffff], 96, "IPv4-translated"), // RFC 2765, obsolete
    v6([0x64, 0xff9b], 96, "NAT64"),     // RFC 6052
    v6([0x64, 0xff9b, 1], 48, "local NAT64"), // RFC 8215
    v6([0x100], 64, "discard-only"),     // RFC 6666
    v6([0x100, 0, 0, 1], 64, "dummy prefix"), // RFC 9780
    v6([0x2001], 23, "IETF protocols"),  // RFC 2928; all of its assignments
    v6([0x2001], 32, "Teredo"),          // RFC 4380
    v6([0x2001, 2], 48, "benchmarking"), // RFC 5180
    v6([0x2001, 3], 32, "AMT"),          // RFC 7450
    v6([0x2001, 4, 0x112], 48, "AS112"), // RFC 7535
    v6([0x2001, 0x10], 28, "ORCHID"),    // RFC 4843, deprecated
    v6([0x2001, 0x20], 28, "ORCHIDv2"),  // RFC 7343
    v6([0x2001, 0x30], 28, "drone remote id"), // RFC 9374
    v6([0x2001, 0xdb8], 32, "documentation"), // RFC 3849
    v6([0x2002], 16, "6to4"),            // RFC 3056
    v6([0x2620, 0x4f, 0x8000], 48, "AS112"), // RFC 7534
    v6([0x3fff], 20, "documentation"),   // RFC 9637
    v6([0x5f00], 16, "SRv6 SIDs"),       // RFC 9602
    v6([0xfc00], 7, "unique local"),     // RFC 4193
    v6([0xfe80], 10, "link-local"),      // RFC 4291, section 2.5.6
    v6([0xfec0], 10, "site-local"),      // RFC 3879, deprecated
    v6([0xff00], 8, "multicast"),        // RFC 4291, section 2.7
    // Global unicast addresses are assigned from 2000::/3 only (RFC 4291, section 4).
    v6([], 3, "reserved"),
    v6([0x4000], 2, "reserved"),
    v6([0x8000], 1, "reserved"),
];

fn special_range(address: IpAddr) -> Option<&'static SpecialRange> {
    let ranges = SPECIAL_RANGES.iter();
    ranges
        .filter(|range| range.network.contains(address))
        .max_by_key(|range| range.network.prefix)
}

/// Returns the IPv4 addresses to which a packet to this address may be translated or tunnelled.
fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bits = address.to_bits();
    let at = |shift: u32| Ipv4Addr::from_bits((bits >> shift) as u32);
    match address.segments() {
        // Teredo: the server, and the client with all bits inverted.
        [0x2001, 0, ..] => vec![at(64), Ipv4Addr::from_bits(!at(0).to_bits())],
        // 6to4.
        [0x2002, ..] => vec![at(80)],
        // Unspecified and loopback.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // IPv4-compatible, IPv4-mapped, IPv4-translated, NAT64.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, 0, 0, 0, 0, ..]
        | [0x64, 0xff9b, 1, ..] => vec![at(0)],
        _ => Vec::new(),
    }
}

/// The special-purpose networks that the operator opens to webhooks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedNetworks(Vec<Network>);

impl AllowedNetworks {
    /// Checks every address that a name resolved to, or the one in a URL. If any is refused, all
    /// are: the choice among them must not depend on chance, or on a receiver that fails on
    /// purpose.
    pub fn check(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Vec<CheckedAddress>, RefusedAddress> {
        let checked = addresses.into_iter().map(|address| {
            self.check_one(address)?;
            Ok(CheckedAddress(address))
        });
        checked.collect()
    }

    /// Checks one address. If it leads to an IPv4 address, both must be allowed.
    fn check_one(&self, address: IpAddr) -> Result<(), RefusedAddress> {
        let Some(range) = special_range(address) else {
            return Ok(());
        };
        let is_open = self.0.iter().any(|network| {
            network.contains(address) && (network.shows_ipv4() || !LOCAL_NAT64.contains(address))
        });
        match address {
            _ if !is_open => Err(RefusedAddress(range)),
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(address) => {
                let mut inner = embedded(address).into_iter().map(IpAddr::V4);
                inner.try_for_each(|address| self.check_one(address))
            }
        }
    }
}

impl FromIterator<Network> for AllowedNetworks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(networks.into_iter().collect())
    }
}

/// An address that may be connected to. Connecting to another one, resolved later, would allow
/// DNS rebinding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedAddress(IpAddr);

impl CheckedAddress {
    pub fn get(self) -> IpAddr {
        self.0
    }
}

/// The error for an address that may not be connected to. It names the range and not the address,
/// which would tell a client the addresses of internal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address in {} ({}) is not allowed", .0.network, .0.name)]
pub struct RefusedAddress(&'static SpecialRange);

#[cfg(test)]
mod tests;
