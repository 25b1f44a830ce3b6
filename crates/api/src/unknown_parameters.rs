//! Query parameters that an operation does not have. They are ignored, so a misspelt filter would
//! go unnoticed and list everything; a header of the response names them.

use std::borrow::Cow;

use http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The maximum number of names in the header.
const MAX_NAMES: usize = 10;
/// The maximum length of a name in the header, before it is encoded.
const MAX_CHARS: usize = 40;
/// The characters that are encoded: all but the unreserved ones of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The names, decoded and sorted, each once.
pub struct UnknownParameters<'a>(Vec<Cow<'a, str>>);

impl<'a> UnknownParameters<'a> {
    /// Finds the names in a query that are not known. Allocates nothing if there are none.
    pub fn find(query: Option<&'a str>, known: &[&str]) -> Self {
        let is_known = |pair: &str| {
            let name = pair.split('=').next().unwrap_or_default();
            pair.is_empty() || known.contains(&name)
        };
        let Some(query) = query.filter(|query| !query.split('&').all(is_known)) else {
            return Self(Vec::new());
        };
        let mut names: Vec<_> = form_urlencoded::parse(query.as_bytes())
            .map(|(name, _)| name)
            .filter(|name| !known.contains(&&**name))
            .collect();
        names.sort_unstable();
        names.dedup();
        Self(names)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Returns the value of the header, if any name can be shown. Names are percent-encoded, and
    /// long ones are cut.
    pub fn header(&self) -> Option<HeaderValue> {
        if self.0.is_empty() {
            return None;
        }
        let names = self.names().filter(|name| !name.is_empty());
        let shown: Vec<_> = names.take(MAX_NAMES).map(encode).collect();
        let value = HeaderValue::try_from(shown.join(", ")).expect("printable ASCII");
        (!value.is_empty()).then_some(value)
    }
}

fn encode(name: &str) -> String {
    let end = name.char_indices().nth(MAX_CHARS);
    let start = end.map_or(name, |(end, _)| &name[..end]);
    utf8_percent_encode(start, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(query: &str) -> Option<String> {
        let unknown = UnknownParameters::find(Some(query), &["limit", "status"]);
        let header = unknown.header();
        header.map(|value| value.to_str().expect("ASCII").into())
    }

    #[test]
    fn unknown_names_are_listed_once_and_encoded() {
        for (query, expected) in [
            ("", None),
            ("limit=1&status=sold", None),
            ("lim%69t=1&&status", None),
            ("=1", None),
            ("limt=1", Some("limt")),
            ("stauts=sold&limit=1&limt=1&limt=2", Some("limt, stauts")),
            (
                "a%0D%0AX:+b&%C3%BC=1&a,b",
                Some("a%0D%0AX%3A%20b, a%2Cb, %C3%BC"),
            ),
            ("%FF", Some("%EF%BF%BD")),
        ] {
            assert_eq!(header(query).as_deref(), expected, "{query}");
        }
    }

    #[test]
    fn the_header_is_bounded() {
        let query: String = (0..4000).map(|n| format!("&{n:04}")).collect();
        assert_eq!(header(&query).map(|names| names.len()), Some(10 * 6 - 2));
        assert_eq!(header(&"🐈".repeat(2000)), Some("%F0%9F%90%88".repeat(40)));
    }
}
