//! Short, visible text on one line, such as a name.

use compact_str::CompactString;
use serde::Serialize;

use crate::{case_fold::fold, json::Value, members::Member};

/// Text with at least one character that is not whitespace, and no control characters. It is kept
/// exactly as sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX_CHARS: usize>(CompactString);

impl<const MAX_CHARS: usize> Text<MAX_CHARS> {
    /// Parses a text. Returns the reason if it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        check(text, MAX_CHARS)?;
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

impl<const MAX_CHARS: usize> Member for Text<MAX_CHARS> {
    const KIND: &str = "a string";
    const IS_FREE_TEXT: bool = true;

    fn from_json(value: Value) -> Result<Self, String> {
        match value.as_string() {
            Some(text) => Self::parse(&text),
            None => Err(format!("must be a string, got {}", value.describe())),
        }
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(cell)
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
    }
}

/// Checks the length and the characters. Returns the reason if they are invalid.
pub(crate) fn check(text: &str, max_chars: usize) -> Result<(), String> {
    let length = text.chars().count();
    if length == 0 || length > max_chars {
        return Err(format!(
            "must be 1 to {max_chars} characters long, got {length}"
        ));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(control) => {
            let code = u32::from(control);
            Err(format!(
                "must not contain control characters, got U+{code:04X}"
            ))
        }
        None => Ok(()),
    }
}
