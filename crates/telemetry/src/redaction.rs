//! Secrets in text that others choose: paths, request ids, names. They are recognised by the
//! prefix that every secret of this program has, in any case.

use std::borrow::Cow;

use domain::{api_key::ApiKeySecret, webhook::secret::WebhookSecret};

const PREFIXES: [&str; 2] = [ApiKeySecret::PREFIX, WebhookSecret::PREFIX];

/// Finds the first secret. Returns the position where it starts, and its prefix.
pub fn find_secret(text: &[u8]) -> Option<(usize, &'static str)> {
    let underscores = (0..text.len()).filter(|at| text[*at] == b'_');
    underscores.into_iter().find_map(|last| {
        let is_before = |prefix: &&str| {
            let end = last + 1;
            let length = prefix.len();
            end >= length && text[end - length..end].eq_ignore_ascii_case(prefix.as_bytes())
        };
        let prefix = PREFIXES.into_iter().find(|prefix| is_before(prefix))?;
        Some((last + 1 - prefix.len(), prefix))
    })
}

/// Cuts the text after the prefix of its first secret, if it has one.
pub(crate) fn redact(text: &str) -> Cow<'_, str> {
    match find_secret(text.as_bytes()) {
        Some((start, prefix)) => format!("{}{prefix}…", &text[..start]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_by_their_prefix() {
        for (text, expected) in [
            ("", ""),
            ("_sk_ p_sk whsec psk", "_sk_ p_sk whsec psk"),
            ("psk_a", "psk_…"),
            ("a PsK_b psk_c", "a psk_…"),
            ("ä_WHSEC_b", "ä_whsec_…"),
            ("whsec_psk_", "whsec_…"),
        ] {
            assert_eq!(redact(text), expected);
        }
    }
}
