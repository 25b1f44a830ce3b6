//! Preferences of a request (RFC 7240). One is supported: `handling=strict` rejects input that
//! would otherwise be ignored.

use http::{HeaderMap, HeaderName, HeaderValue};

use server::header_values;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Returns true if unknown query parameters and members are to be rejected. If the preference is
/// repeated, the first one counts.
pub fn is_strict(request: &HeaderMap) -> bool {
    header_values(request, PREFER)
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| split_unquoted(value, ','))
        .map(|preference| split_unquoted(preference, ';').next().unwrap_or_default())
        .map(|preference| preference.split_once('=').unwrap_or((preference, "")))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("handling"))
        .is_some_and(|(_, value)| {
            value
                .trim()
                .trim_matches('"')
                .eq_ignore_ascii_case("strict")
        })
}

/// Splits at a separator, unless it is in a quoted string (RFC 9110, section 5.6.4).
fn split_unquoted(value: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    value.split(move |c| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        c == separator && !is_quoted
    })
}

pub fn set_applied(response: &mut HeaderMap) {
    let strict = HeaderValue::from_static("handling=strict");
    response.insert(PREFERENCE_APPLIED, strict);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_handling_preference_counts() {
        for (values, expected) in [
            (&["handling=strict"] as &[_], true),
            (
                &["respond-async, wait=10", "Handling = \"strict\"; a=b"],
                true,
            ),
            (&["handling=strict, handling=lenient"], true),
            (&["handling=lenient, handling=strict"], false),
            (&[r#"note="a, \" b; c", handling=strict"#], true),
            (&[r#"note="a, handling=strict""#], false),
            (&["handling"], false),
            (&["strict"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PREFER, HeaderValue::from_static(value));
            }
            assert_eq!(is_strict(&headers), expected, "{values:?}");
        }
    }
}
