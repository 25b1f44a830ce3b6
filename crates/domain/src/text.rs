//! Visible text: one line, such as a name, or several.

use compact_str::CompactString;
use serde::Serialize;

use crate::{
    case_fold::fold,
    json::Value,
    members::{Scalar, string},
};

/// Text with at least one character that is not whitespace, and no control characters, apart from
/// tabs and line breaks if `HAS_LINES` is true. It is kept exactly as sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX_CHARS: usize, const HAS_LINES: bool = false>(CompactString);

/// Text that may have several lines.
pub type Lines<const MAX_CHARS: usize> = Text<MAX_CHARS, true>;

impl<const MAX_CHARS: usize, const HAS_LINES: bool> Text<MAX_CHARS, HAS_LINES> {
    /// Parses a text. Returns the reason if it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        if HAS_LINES {
            check_chars(text, MAX_CHARS, |c| {
                c.is_control() && !matches!(c, '\t' | '\n' | '\r')
            })?;
        } else {
            check(text, MAX_CHARS)?;
        }
        if text.chars().all(char::is_whitespace) {
            return Err("must not be only whitespace".into());
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the folded text, which is equal for texts that differ only in case.
    pub fn folded(&self) -> String {
        fold(&self.0)
    }

    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }
}

impl<const MAX_CHARS: usize, const HAS_LINES: bool> Scalar for Text<MAX_CHARS, HAS_LINES> {
    const IS_FREE_TEXT: bool = true;

    fn from_json(value: Value) -> Result<Self, String> {
        Self::parse(&string(value)?)
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(cell)
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
    }
}

/// Checks the length and the characters of a line. Returns the reason if they are invalid.
pub(crate) fn check(text: &str, max_chars: usize) -> Result<(), String> {
    check_chars(text, max_chars, char::is_control)
}

fn check_chars(
    text: &str,
    max_chars: usize,
    is_forbidden: impl Fn(char) -> bool,
) -> Result<(), String> {
    let length = text.chars().count();
    if length == 0 || length > max_chars {
        return Err(format!(
            "must be 1 to {max_chars} characters long, got {length}"
        ));
    }
    check_controls(text, is_forbidden)
}

/// Checks that a text has no control characters. Returns the reason if it has one.
pub(crate) fn check_controls(
    text: &str,
    is_forbidden: impl Fn(char) -> bool,
) -> Result<(), String> {
    match text.chars().find(|c| is_forbidden(*c)) {
        Some(control) => {
            let code = u32::from(control);
            Err(format!(
                "must not contain control characters, got U+{code:04X}"
            ))
        }
        None => Ok(()),
    }
}
