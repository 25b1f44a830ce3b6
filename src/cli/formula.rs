//! CSV injection: a spreadsheet runs a cell that begins like a formula. Such a name is exported
//! with an apostrophe in front, as OWASP recommends, and imported without it.
//!
//! In locales whose decimal separator is a comma, spreadsheets split at semicolons, whatever the
//! delimiter of the file; so each part between semicolons is escaped on its own.

/// The characters that a formula can begin with. Spreadsheets treat the full-width forms like the
/// others.
const TRIGGERS: [char; 11] = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n'];

pub fn escape(text: &str) -> String {
    let parts = text.split(';').map(|part| {
        let apostrophe = if is_formula(part) { "'" } else { "" };
        format!("{apostrophe}{part}")
    });
    parts.collect::<Vec<_>>().join(";")
}

/// Reverts [`escape`]. An apostrophe that is not in front of a formula is kept.
pub fn unescape(cell: &str) -> String {
    let parts = cell.split(';').map(|part| match part.strip_prefix('\'') {
        Some(rest) if is_formula(rest) => rest,
        _ => part,
    });
    parts.collect::<Vec<_>>().join(";")
}

/// Returns true if a text is a formula, or a formula behind apostrophes: a name that looks
/// escaped gets one more, so that it is not mistaken for the name without it.
fn is_formula(text: &str) -> bool {
    // Spreadsheets skip spaces, and quotes that are not around a whole cell.
    let skipped = |c: char| c == '"' || c.is_whitespace() && !TRIGGERS.contains(&c);
    let text = text.trim_start_matches('\'').trim_start_matches(skipped);
    text.starts_with(TRIGGERS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn formulas_get_an_apostrophe() {
        for (text, cell) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\t=1"),
            ("\r=1", "'\r=1"),
            ("＝1+1", "'＝1+1"),
            ("  =1", "'  =1"),
            ("'=1", "''=1"),
            ("''=1", "'''=1"),
            ("Rex;=1+1;b", "Rex;'=1+1;b"),
            ("Rex;\"=1+1;b", "Rex;'\"=1+1;b"),
            // Nothing to neutralise.
            ("Rex", "Rex"),
            ("'n Sync", "'n Sync"),
            ("''", "''"),
            ("O'=Malley", "O'=Malley"),
            ("a=b; c", "a=b; c"),
            ("", ""),
        ] {
            assert_eq!(escape(text), cell);
            assert_eq!(unescape(cell), text);
        }
        // Written by hand.
        assert_eq!(unescape("=1+1"), "=1+1");
    }

    proptest! {
        #[test]
        fn escaping_round_trips(text in r#"[-=+@＝'";, a\t]{0,8}|.*"#) {
            let cell = escape(&text);
            prop_assert_eq!(unescape(&cell), text);
            for part in cell.split(';') {
                let start = part.trim_start_matches([' ', '"']);
                prop_assert!(!start.starts_with(TRIGGERS), "{}", cell);
            }
        }
    }
}
