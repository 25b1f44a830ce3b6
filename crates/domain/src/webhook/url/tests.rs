use proptest::prelude::*;

use super::*;

fn url(text: &str) -> WebhookUrl {
    WebhookUrl::parse(text).unwrap()
}

fn reason(text: &str) -> String {
    WebhookUrl::parse(text).unwrap_err().reason
}

#[test]
fn a_url_is_kept_and_taken_apart() {
    for (text, host, port, authority, target) in [
        (
            "https://example.com",
            "example.com",
            443,
            "example.com",
            "/",
        ),
        (
            "https://example.com/",
            "example.com",
            443,
            "example.com",
            "/",
        ),
        (
            "https://example.com?a=b",
            "example.com",
            443,
            "example.com",
            "/?a=b",
        ),
        (
            "https://example.com/?",
            "example.com",
            443,
            "example.com",
            "/?",
        ),
        (
            "HTTPS://Example.COM/A",
            "Example.COM",
            443,
            "Example.COM",
            "/A",
        ),
        (
            "https://a_b.example.:8443/x/../y",
            "a_b.example.",
            8443,
            "a_b.example.:8443",
            "/x/../y",
        ),
        (
            "https://xn--bcher-kva.example/%C3%BC?q=a/b?c:d@e",
            "xn--bcher-kva.example",
            443,
            "xn--bcher-kva.example",
            "/%C3%BC?q=a/b?c:d@e",
        ),
        (
            "http://localhost:65535//x",
            "localhost",
            65535,
            "localhost:65535",
            "//x",
        ),
        ("http://1.example", "1.example", 80, "1.example", "/"),
        ("https://4x", "4x", 443, "4x", "/"),
        ("https://0xfg", "0xfg", 443, "0xfg", "/"),
    ] {
        let url = url(text);
        assert_eq!(url.as_str(), text);
        assert_eq!(url.host(), &Host::Name(host.into()), "{text}");
        assert_eq!(url.port(), port, "{text}");
        assert_eq!(url.authority(), authority);
        assert_eq!(url.path_and_query(), target, "{text}");
        assert_eq!(url.is_https(), !text.starts_with("http:"));
    }
    let long = format!("https://example.com/{}", "a".repeat(1980));
    assert_eq!(url(&long).as_str(), long);
}

#[test]
fn every_spelling_of_an_address_is_recognised() {
    for (host, address) in [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("127.65535", "127.0.255.255"),
        ("0x7f.1", "127.0.0.1"),
        ("0X7F.0x0.0x0.0x1", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x000000007f000001", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0177.0x0.1", "127.0.0.1"),
        ("4294967295", "255.255.255.255"),
        ("255.16777215", "255.255.255.255"),
        ("1.2.3.4", "1.2.3.4"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("10.0x", "10.0.0.0"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
        ("[::FFFF:7f00:1]", "::ffff:127.0.0.1"),
        ("[::127.0.0.1]", "::127.0.0.1"),
        ("[64:ff9b::a00:1]", "64:ff9b::10.0.0.1"),
    ] {
        let address = address.parse().unwrap();
        for (suffix, port) in [("", 443), (":8443", 8443), ("/a", 443), ("?a", 443)] {
            let url = url(&format!("https://{host}{suffix}"));
            assert_eq!(url.host(), &Host::Address(address), "{host}{suffix}");
            assert_eq!(url.port(), port);
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let scheme = |got: &str| format!("must start with https://, got {got:?}");
    let ipv4 = |got: &str| format!("must have a valid IPv4 address or a host name, got {got:?}");
    let ipv6 = |got: &str| format!("must have a valid IPv6 address in brackets, got {got:?}");
    let port = |got: &str| format!("must have a port from 1 to 65535, got {got:?}");
    let escape = || "must have two hexadecimal digits after every %; write % as %25".to_string();
    let name = |got: &str| {
        format!(
            "must have a host name of labels of 1 to 63 letters, digits, hyphens and underscores, \
             at most 253 characters long, got {got:?}"
        )
    };
    let character = |got: &str| {
        format!(
            "must contain only characters of RFC 3986, got {got:?}; percent-encode others in the \
             path and query, and write the host in Punycode (xn--)"
        )
    };
    let credentials = || "must not contain a user name or password (@ before the path)".to_string();
    let no_host = || "must contain a host".to_string();
    let brackets =
        || "must have an IPv6 address in brackets, such as https://[2001:db8::1]/".to_string();
    let zone = || "must not contain an IPv6 zone (%)".to_string();
    let fragment = || "must not contain a fragment (#)".to_string();
    for (text, expected) in [
        ("", scheme("")),
        ("example.com", scheme("example.com")),
        ("//example.com", scheme("//example.com")),
        ("https:example.com", scheme("https:example.com")),
        ("https:/example.com", scheme("https:/example.com")),
        ("ftp://example.com", scheme("ftp://example.com")),
        ("file:///etc/passwd", scheme("file:///etc/passwd")),
        ("https://", no_host()),
        ("https:///path", no_host()),
        ("https://?a", no_host()),
        ("https://:443/", no_host()),
        ("https://user@example.com", credentials()),
        ("https://user:secret@example.com/", credentials()),
        ("https://@example.com/", credentials()),
        ("https://example.com:80@127.0.0.1/", credentials()),
        ("https://example.com#", fragment()),
        ("https://example.com/#a@b", fragment()),
        ("https://example.com#@127.0.0.1/", fragment()),
        ("https://example.com\\@127.0.0.1/", character("\\")),
        ("https://exa\tmple.com/", character("\t")),
        (" https://example.com/", character(" ")),
        ("https://example.com/\r\nHost: a", character("\r")),
        ("https://bücher.example/", character("ü")),
        ("https://127。0。0。1/", character("。")),
        ("https://①27.0.0.1/", character("①")),
        ("https://example.com/\"", character("\"")),
        ("https://example.com/\0", character("\0")),
        ("https://example.com:0/", port("0")),
        ("https://example.com:/", port("")),
        ("https://example.com:65536/", port("65536")),
        ("https://example.com:+80/", port("+80")),
        ("https://example.com:a/", port("a")),
        ("https://2001:db8::1/", brackets()),
        ("https://[::1", ipv6("[::1")),
        ("https://[]", ipv6("[]")),
        ("https://[127.0.0.1]", ipv6("[127.0.0.1]")),
        ("https://[v1.a]", ipv6("[v1.a]")),
        (
            "https://[[::1]]",
            "must have nothing but a port after ], got \"]\"".into(),
        ),
        (
            "https://[::1]example.com",
            "must have nothing but a port after ], got \"example.com\"".into(),
        ),
        ("https://[fe80::1%25eth0]/", zone()),
        ("https://[fe80::1%eth0]/", zone()),
        ("https://256.0.0.1", ipv4("256.0.0.1")),
        ("https://1.2.3.256", ipv4("1.2.3.256")),
        ("https://1.2.3.4.5", ipv4("1.2.3.4.5")),
        ("https://1.2.65536", ipv4("1.2.65536")),
        ("https://1.16777216", ipv4("1.16777216")),
        ("https://4294967296", ipv4("4294967296")),
        ("https://0x100000000", ipv4("0x100000000")),
        ("https://127.0.0.08", ipv4("127.0.0.08")),
        ("https://example.1", ipv4("example.1")),
        ("https://example.0x7f", ipv4("example.0x7f")),
        ("https://127..1", ipv4("127..1")),
        ("https://.1", ipv4(".1")),
        ("https://127.0.0.1..", name("127.0.0.1..")),
        ("https://.", name(".")),
        ("https://a..b", name("a..b")),
        ("https://-a.example", name("-a.example")),
        ("https://a-.example", name("a-.example")),
        ("https://%31%32%37.0.0.1.a", name("%31%32%37.0.0.1.a")),
        ("https://a,b", name("a,b")),
        (
            "https://example.com/[a]",
            "must not contain [ in the path or query; percent-encode it".into(),
        ),
        (
            "https://example.com/?a]",
            "must not contain ] in the path or query; percent-encode it".into(),
        ),
        ("https://example.com/%", escape()),
        ("https://example.com/%1", escape()),
        ("https://example.com/?%ag", escape()),
        ("https://example.com/%25%2", escape()),
    ] {
        assert_eq!(reason(text), expected, "{text:?}");
    }
    let long = format!("https://example.com/{}", "a".repeat(1981));
    assert_eq!(
        reason(&long),
        "must be at most 2000 characters long, got 2001"
    );
    let label = |length| format!("https://{}.example", "a".repeat(length));
    assert!(WebhookUrl::parse(&label(63)).is_ok());
    assert!(WebhookUrl::parse(&label(64)).is_err());
    let name = |last: &str| format!("https://{}{last}", "aaaaaaaaa.".repeat(25));
    assert!(WebhookUrl::parse(&name("abc")).is_ok());
    assert!(WebhookUrl::parse(&name("abc.")).is_ok());
    assert!(WebhookUrl::parse(&name("abcd")).is_err());
}

#[test]
fn the_operator_decides_about_http_and_addresses() {
    let strict = UrlPolicy::default();
    let http = UrlPolicy {
        allow_http: true,
        ..UrlPolicy::default()
    };
    let local = UrlPolicy {
        allow_http: false,
        networks: ["127.0.0.0/8".parse().unwrap()].into_iter().collect(),
    };
    let check = |policy: &UrlPolicy, text| policy.check(&url(text)).map_err(|e| e.to_string());
    let no_http = |options: &str| {
        Err(format!(
            "url: must start with https://, got http://; to allow it, the operator starts the \
             service with {options}"
        ))
    };
    let only_http = no_http("--webhook-allow-http");
    let http_and_network = no_http("--webhook-allow-http and --webhook-allow-net CIDR");
    let refused = |network: &str| {
        Err(format!(
            "url: an address in {network} is not allowed; use one on the public internet, or ask \
             the operator to allow it with --webhook-allow-net CIDR"
        ))
    };
    let loopback = refused("127.0.0.0/8 (loopback)");
    let localhost = Err(
        "url: localhost is the machine of the service, which is not allowed; use \
         one on the public internet, or ask the operator to allow it with --webhook-allow-net \
         127.0.0.0/8,::1/128"
            .to_string(),
    );
    let invalid = Err(
        "url: a host in .invalid never exists (RFC 6761); use one on the public \
         internet"
            .to_string(),
    );
    let mapped = refused("::ffff:0.0.0.0/96 (IPv4-mapped)");
    for (policy, text, expected) in [
        (&strict, "https://example.com", &Ok(())),
        (&strict, "https://8.8.8.8", &Ok(())),
        (&strict, "http://example.com", &only_http),
        (&strict, "http://localhost:9000", &http_and_network),
        (&strict, "https://localhost", &localhost),
        (&strict, "https://A.LocalHost.", &localhost),
        (&strict, "https://localhost.example", &Ok(())),
        (&strict, "https://a.invalid", &invalid),
        (&strict, "https://2130706433", &loopback),
        (&strict, "https://[::ffff:7f00:1]", &mapped),
        (&http, "http://example.com", &Ok(())),
        (&http, "http://127.1", &loopback),
        (&local, "https://0x7f.1", &Ok(())),
        (&local, "http://0x7f.1", &only_http),
        (&local, "https://localhost", &Ok(())),
        (&local, "https://a.invalid", &invalid),
    ] {
        assert_eq!(&check(policy, text), expected, "{text}");
    }
}

#[test]
fn path_and_query_are_not_logged() {
    let url = url("https://example.com:8443/secret?token=secret");
    assert_eq!(format!("{url:?}"), "WebhookUrl(https://example.com:8443/…)");
    assert_eq!(url.origin(), "https://example.com:8443");
    let json = serde_json::to_string(&url).unwrap();
    assert_eq!(json, "\"https://example.com:8443/secret?token=secret\"");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// hyper accepts every URL that the parser accepts, and understands it in the same way.
    #[test]
    fn hyper_agrees(text in "https?://[a-z0-9.:@\\[\\]%_x-]{0,12}[/?]?[ -~é]{0,12}") {
        if let Ok(url) = WebhookUrl::parse(&text) {
            let uri: http::Uri = text.parse().unwrap();
            prop_assert_eq!(uri.authority().unwrap().as_str(), url.authority());
            let query = uri.query().map_or(String::new(), |query| format!("?{query}"));
            prop_assert_eq!(format!("{}{query}", uri.path()), url.path_and_query());
            prop_assert_eq!(uri.scheme_str() == Some("https"), url.is_https());
        }
    }

    /// A host that the standard library's resolver takes for an address is never parsed as a
    /// name.
    #[test]
    fn an_address_is_never_a_name(
        parts in prop::collection::vec((0..3u8, 0..=u32::MAX, 0..32u32), 1..=4),
    ) {
        let parts = parts.iter().map(|(form, number, shift)| {
            let number = number >> shift;
            match form {
                0 => format!("{number}"),
                1 => format!("0{number:o}"),
                _ => format!("0x{number:x}"),
            }
        });
        let host = parts.collect::<Vec<_>>().join(".");
        if let Ok(url) = WebhookUrl::parse(&format!("https://{host}/")) {
            prop_assert!(matches!(url.host(), Host::Address(_)), "{}", host);
        }
    }
}
