//! CSV injection: a spreadsheet runs a cell that begins like a formula. Such a name is exported
//! with an apostrophe in front, as OWASP recommends, and imported without it. So is a name that
//! would be taken for an error of a spreadsheet, such as `#N/A`, or lose the blanks around it.
//!
//! In locales whose decimal separator is a comma, spreadsheets split at semicolons, whatever the
//! delimiter of the file; so each part between semicolons is escaped on its own.

use domain::import::words;

/// The characters that a formula can begin with. Spreadsheets treat the full-width forms like the
/// others.
const TRIGGERS: [char; 11] = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n'];

pub fn escape(text: &str) -> String {
    let parts = text.split(';').enumerate().map(|(index, part)| {
        let is_escaped = is_special(part) || index == 0 && has_outer_blanks(text);
        let apostrophe = if is_escaped { "'" } else { "" };
        format!("{apostrophe}{part}")
    });
    parts.collect::<Vec<_>>().join(";")
}

/// Reverts [`escape`]. An apostrophe that is not in front of a formula is kept.
pub fn unescape(cell: &str) -> String {
    let parts = cell.split(';').enumerate().map(|(index, part)| {
        let is_escaped =
            |rest: &&str| is_special(rest) || index == 0 && has_outer_blanks(&cell[1..]);
        part.strip_prefix('\'').filter(is_escaped).unwrap_or(part)
    });
    parts.collect::<Vec<_>>().join(";")
}

/// Returns the text of a cell without the blanks around it, which people rarely intend, unless
/// they were exported.
pub fn unescape_and_trim(cell: &str) -> String {
    let text = unescape(cell);
    if text == cell {
        text.trim().into()
    } else {
        text
    }
}

/// Returns true if there are blanks around a text, or behind apostrophes in front of it.
fn has_outer_blanks(text: &str) -> bool {
    let text = text.trim_start_matches('\'');
    text.trim() != text
}

/// Returns true if a text is a formula or an error, or one behind apostrophes: a name that looks
/// escaped gets one more, so that it is not mistaken for the name without it.
fn is_special(text: &str) -> bool {
    // Spreadsheets skip spaces, and quotes that are not around a whole cell.
    let skipped = |c: char| c == '"' || c.is_whitespace() && !TRIGGERS.contains(&c);
    let text = text.trim_start_matches('\'').trim_start_matches(skipped);
    text.starts_with(TRIGGERS) || words::is_error(text)
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
            ("#N/A", "'#N/A"),
            (" Rex", "' Rex"),
            ("'Rex ", "''Rex "),
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
            assert_eq!(unescape_and_trim(cell), text);
        }
        // Written by hand.
        assert_eq!(unescape("=1+1"), "=1+1");
        assert_eq!(unescape_and_trim("  Rex "), "Rex");
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
