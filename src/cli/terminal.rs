//! The terminal: escapes untrusted text, such as the name of a file, so that it is harmless there,
//! and asks for secrets.

use std::{io, path::Path};

use console::Term;

/// Asks for a secret, which the terminal does not show.
pub fn read_secret(prompt: &str) -> io::Result<Vec<u8>> {
    let terminal = Term::stderr();
    terminal.write_str(prompt)?;
    let secret = terminal.read_secure_line()?;
    Ok(secret.into_bytes())
}

/// Returns the text on one line, with escapes for characters that control a terminal.
pub fn escape_for_terminal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_terminal_control(character) {
            escaped.extend(character.escape_debug());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

pub fn escape_path(path: &Path) -> String {
    escape_for_terminal(&path.to_string_lossy())
}

/// Escapes each line separately, and ends each with a line break.
pub fn escape_lines(text: &str) -> String {
    let lines = text.split('\n');
    lines.map(|line| escape_for_terminal(line) + "\n").collect()
}

/// Returns true for control characters, line separators, and characters that change the direction
/// of the text.
fn is_terminal_control(character: char) -> bool {
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
            escape_for_terminal("a\u{1b}[31m\n\u{9b}2J\u{202e}\u{2066}\u{7f}"),
            r"a\u{1b}[31m\n\u{9b}2J\u{202e}\u{2066}\u{7f}"
        );
        let harmless = "Zoë's 犬 👩\u{200d}🌾 \\ \"e\u{301}\"";
        assert_eq!(escape_for_terminal(harmless), harmless);
        assert_eq!(escape_lines("a\tb\nc"), "a\\tb\nc\n");
    }
}
