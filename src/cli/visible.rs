//! Escapes untrusted text, such as the name of a file, so that it is harmless on a terminal.

use std::path::Path;

/// Returns the text on one line, with escapes for characters that control a terminal.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match is_obeyed(character) {
            true => visible.extend(character.escape_debug()),
            false => visible.push(character),
        }
    }
    visible
}

pub fn visible_path(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

/// Escapes each line separately, and ends each with a line break.
pub fn lines(text: &str) -> String {
    let lines = text.split('\n');
    lines.map(|line| visible(line) + "\n").collect()
}

/// Returns true for control characters, line separators, and characters that change the direction
/// of the text.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing() {
        assert_eq!(
            visible("a\u{1b}[31m\n\u{9b}2J\u{202e}\u{2066}\u{7f}"),
            r"a\u{1b}[31m\n\u{9b}2J\u{202e}\u{2066}\u{7f}"
        );
        let harmless = "Zoë's 犬 👩\u{200d}🌾 \\ \"e\u{301}\"";
        assert_eq!(visible(harmless), harmless);
        assert_eq!(lines("a\tb\nc"), "a\\tb\nc\n");
    }
}
