use proptest::prelude::*;

use super::*;

/// The first and the last address of every range, written out, and its name.
const EXPECTED: &[(&str, &str, &str)] = &[
    ("0.0.0.0", "0.255.255.255", "this network"),
    ("10.0.0.0", "10.255.255.255", "private use"),
    ("100.64.0.0", "100.127.255.255", "shared, for CGNAT"),
    ("127.0.0.0", "127.255.255.255", "loopback"),
    ("169.254.0.0", "169.254.255.255", "link-local"),
    ("172.16.0.0", "172.31.255.255", "private use"),
    ("192.0.0.0", "192.0.0.255", "IETF protocols"),
    ("192.0.2.0", "192.0.2.255", "documentation"),
    ("192.31.196.0", "192.31.196.255", "AS112"),
    ("192.52.193.0", "192.52.193.255", "AMT"),
    ("192.88.99.0", "192.88.99.255", "6to4 relay"),
    ("192.168.0.0", "192.168.255.255", "private use"),
    ("192.175.48.0", "192.175.48.255", "AS112"),
    ("198.18.0.0", "198.19.255.255", "benchmarking"),
    ("198.51.100.0", "198.51.100.255", "documentation"),
    ("203.0.113.0", "203.0.113.255", "documentation"),
    ("224.0.0.0", "239.255.255.255", "multicast"),
    ("240.0.0.0", "255.255.255.254", "reserved"),
    ("255.255.255.255", "255.255.255.255", "broadcast"),
    ("::", "::", "unspecified"),
    ("::1", "::1", "loopback"),
    ("::2", "::ffff:ffff", "IPv4-compatible"),
    ("::ffff:0:0", "::ffff:255.255.255.255", "IPv4-mapped"),
    (
        "::ffff:0:0:0",
        "::ffff:0:255.255.255.255",
        "IPv4-translated",
    ),
    ("64:ff9b::", "64:ff9b::255.255.255.255", "NAT64"),
    (
        "64:ff9b:1::",
        "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
        "local NAT64",
    ),
    ("100::", "100::ffff:ffff:ffff:ffff", "discard-only"),
    (
        "100:0:0:1::",
        "100:0:0:1:ffff:ffff:ffff:ffff",
        "dummy prefix",
    ),
    ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "Teredo"),
    (
        "2001:1::",
        "2001:1:ffff:ffff:ffff:ffff:ffff:ffff",
        "IETF protocols",
    ),
    (
        "2001:2::",
        "2001:2:0:ffff:ffff:ffff:ffff:ffff",
        "benchmarking",
    ),
    ("2001:3::", "2001:3:ffff:ffff:ffff:ffff:ffff:ffff", "AMT"),
    (
        "2001:4:112::",
        "2001:4:112:ffff:ffff:ffff:ffff:ffff",
        "AS112",
    ),
    (
        "2001:10::",
        "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff",
        "ORCHID",
    ),
    (
        "2001:20::",
        "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff",
        "ORCHIDv2",
    ),
    (
        "2001:30::",
        "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff",
        "drone remote id",
    ),
    (
        "2001:40::",
        "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
        "IETF protocols",
    ),
    (
        "2001:db8::",
        "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
        "documentation",
    ),
    ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "6to4"),
    (
        "2620:4f:8000::",
        "2620:4f:8000:ffff:ffff:ffff:ffff:ffff",
        "AS112",
    ),
    (
        "3fff::",
        "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
        "documentation",
    ),
    (
        "5f00::",
        "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "SRv6 SIDs",
    ),
    (
        "fc00::",
        "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "unique local",
    ),
    (
        "fe80::",
        "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "link-local",
    ),
    (
        "fec0::",
        "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "site-local",
    ),
    (
        "ff00::",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "multicast",
    ),
    (
        "::1:0:0:0:0",
        "64:ff9a:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
    (
        "64:ff9b:2::",
        "ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
    (
        "100:0:0:2::",
        "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
    (
        "4000::",
        "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
    (
        "5f01::",
        "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
    (
        "fe00::",
        "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "reserved",
    ),
];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn step(address: IpAddr, by: i8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(a) => a
            .to_bits()
            .checked_add_signed(by.into())
            .map(|n| Ipv4Addr::from_bits(n).into()),
        IpAddr::V6(a) => a
            .to_bits()
            .checked_add_signed(by.into())
            .map(|n| Ipv6Addr::from_bits(n).into()),
    }
}

fn allowed(networks: &[&str]) -> AllowedNetworks {
    networks
        .iter()
        .map(|text| text.parse::<Network>().unwrap())
        .collect()
}

#[test]
fn every_range_is_refused_from_its_first_to_its_last_address() {
    let name_of = |address| special_range(address).map(|range| range.name);
    let in_expected = |address: IpAddr| {
        let same_family = EXPECTED
            .iter()
            .filter(|(first, ..)| ip(first).is_ipv4() == address.is_ipv4());
        let mut found =
            same_family.filter(|(first, last, _)| (ip(first)..=ip(last)).contains(&address));
        found.next().map(|(.., name)| *name)
    };
    for (first, last, name) in EXPECTED {
        let first = ip(first);
        let last = ip(last);
        assert_eq!(name_of(first), Some(*name), "{first}");
        assert_eq!(name_of(last), Some(*name), "{last}");
        for neighbour in [step(first, -1), step(last, 1)].into_iter().flatten() {
            let got = AllowedNetworks::default().check([neighbour]);
            let expected = independent_is_public(neighbour);
            assert_eq!(got.is_ok(), expected, "{neighbour}");
            if let Some(expected) = in_expected(neighbour) {
                assert_eq!(name_of(neighbour), Some(expected), "{neighbour}");
            }
        }
    }
    for range in SPECIAL_RANGES {
        let is_expected = EXPECTED.iter().any(|(.., name)| *name == range.name);
        assert!(is_expected, "{range:?}");
    }
}

/// Returns true if an address belongs to the public internet, determined without prefixes or the
/// table.
fn independent_is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_special = address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || address.is_documentation()
                || address.is_multicast()
                || address.is_broadcast()
                || matches!(
                    address.octets(),
                    [0 | 240..=255, ..]
                        | [100, 64..=127, ..]
                        | [192, 0, 0, _]
                        | [192, 31, 196, _]
                        | [192, 52, 193, _]
                        | [192, 88, 99, _]
                        | [192, 175, 48, _]
                        | [198, 18 | 19, ..]
                );
            !is_special
        }
        IpAddr::V6(address) => match address.segments() {
            [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x2620, 0x4f, 0x8000, ..] => false,
            [0x3fff, 0..=0xfff, ..] => false,
            [first, ..] => (0x2000..0x4000).contains(&first),
        },
    }
}

/// Generates any address, and often one near the edge of a range.
fn any_address() -> impl Strategy<Value = IpAddr> {
    let edges = (
        proptest::sample::select(EXPECTED),
        any::<bool>(),
        any::<i8>(),
    );
    let near_edge = edges.prop_filter_map("overflow", |((first, last, _), is_first, by)| {
        step(ip(if is_first { first } else { last }), by)
    });
    let v6 = proptest::sample::select(&[0x2000, 0x2001, 0x2002, 0x2620, 0x3fff, 0x2a00][..]);
    let global_unicast = (v6, 0..0x2000u16, any::<u128>()).prop_map(|(first, second, rest)| {
        let bits = (first as u128) << 112 | (second as u128) << 96 | rest >> 32;
        IpAddr::V6(Ipv6Addr::from_bits(bits))
    });
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
        near_edge,
        global_unicast,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn an_address_is_allowed_if_and_only_if_it_is_public(address in any_address()) {
        let checked = AllowedNetworks::default().check([address]);
        prop_assert_eq!(checked.is_ok(), independent_is_public(address), "{}", address);
    }

    /// Even an operator who opens all of IPv6 does not open the way to private IPv4 addresses.
    #[test]
    fn no_private_address_is_reached_through_ipv6(private in any::<u16>(), form in 0..6usize) {
        let [c, d] = private.to_be_bytes();
        let inner = u128::from(Ipv4Addr::new(10, 0, c, d).to_bits());
        let public = u128::from(Ipv4Addr::new(8, 8, 8, 8).to_bits());
        let not = |bits: u128| bits ^ 0xffff_ffff;
        let make = |inner: u128| match form {
            0 => 0xffff << 32 | inner,
            1 => inner,
            2 => 0x64_ff9b << 96 | inner,
            3 => 0x2002 << 112 | inner << 80,
            4 => 0x2001 << 112 | inner << 64 | not(public),
            _ => 0x2001 << 112 | public << 64 | not(inner),
        };
        let check = |networks, inner| allowed(networks).check([Ipv6Addr::from_bits(make(inner)).into()]);
        prop_assert!(check(&["::/0"], inner).is_err());
        prop_assert!(check(&["::/0"], public).is_ok());
        prop_assert!(check(&["::/0", "10.0.0.0/8"], inner).is_ok());
        prop_assert!(check(&["10.0.0.0/8"], inner).is_err());
        prop_assert!(check(&[], public).is_err());
    }
}

#[test]
fn one_refused_address_refuses_all() {
    let none = AllowedNetworks::default();
    let public = ip("8.8.8.8");
    let private = ip("10.1.2.3");
    for addresses in [[public, private], [private, public]] {
        let refused = none.check(addresses).unwrap_err();
        let message = "an address in 10.0.0.0/8 (private use) is not allowed";
        assert_eq!(refused.to_string(), message);
    }
    let checked = none.check([public, ip("2606:4700::1111")]).unwrap();
    assert_eq!(checked[0].get(), public);
    assert_eq!(checked.len(), 2);
}

#[test]
fn an_operator_opens_exactly_the_named_networks() {
    let some = allowed(&["10.1.0.0/16", "127.0.0.1/32", "fd00:1::/32", "0.0.0.0/32"]);
    for (address, is_open) in [
        ("10.1.0.0", true),
        ("10.1.255.255", true),
        ("10.0.255.255", false),
        ("10.2.0.0", false),
        ("127.0.0.1", true),
        ("127.0.0.2", false),
        ("0.0.0.0", true),
        ("0.0.0.1", false),
        ("fd00:1:ffff::", true),
        ("fd00:2::", false),
        ("::ffff:127.0.0.1", false),
        ("8.8.8.8", true),
    ] {
        assert_eq!(some.check([ip(address)]).is_ok(), is_open, "{address}");
    }
    let everything = allowed(&["0.0.0.0/0", "::/0"]);
    for (first, last, name) in EXPECTED {
        let is_open = *name != "local NAT64";
        assert_eq!(
            everything.check([ip(first), ip(last)]).is_ok(),
            is_open,
            "{first}"
        );
    }
}

/// RFC 8215 does not define the place of the IPv4 address; a /96 prefix does.
#[test]
fn local_nat64_is_opened_with_a_prefix_of_96_bits() {
    let nat64 = allowed(&["64:ff9b:1:fffe::/96"]);
    for (address, is_open) in [
        ("64:ff9b:1:fffe::8.8.8.8", true),
        ("64:ff9b:1:fffe::10.0.0.1", false),
        ("64:ff9b:1:ffff::8.8.8.8", false),
    ] {
        assert_eq!(nat64.check([ip(address)]).is_ok(), is_open, "{address}");
    }
    let wider = allowed(&["64:ff9b::/32"]);
    assert!(wider.check([ip("64:ff9b:1:fffe::8.8.8.8")]).is_err());
    assert!(wider.check([ip("64:ff9b::8.8.8.8")]).is_ok());
}

#[test]
fn networks_are_parsed_strictly() {
    for text in [
        "10.0.0.0/8",
        "0.0.0.0/0",
        "8.8.8.8/32",
        "::/0",
        "fd00::/8",
        "::1/128",
    ] {
        assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
    }
    let form = "must be a network such as 10.0.0.0/8 or fd00::/8";
    let host_bits = "must have no bits set after its prefix";
    let nat64 = "must have a prefix of at least 96 bits within 64:ff9b:1::/48";
    for (text, reason) in [
        ("", form),
        ("10.0.0.0", form),
        ("10.0.0.0/", form),
        ("10.0.0.0/33", form),
        ("10.0.0.0/+8", form),
        ("10.0.0.0/-1", form),
        ("10.0/8", form),
        ("::/129", form),
        ("localhost/8", form),
        ("10.0.0.1/8", host_bits),
        ("0.0.0.1/0", host_bits),
        ("fd00::1/64", host_bits),
        ("64:ff9b:1::/48", nat64),
        ("64:ff9b:1:1::/64", nat64),
    ] {
        let invalid = text.parse::<Network>().unwrap_err();
        assert_eq!(invalid.reason, format!("{reason}, got {text:?}"));
    }
}
