//! The number of a microchip.

use compact_str::CompactString;
use serde::Serialize;

use crate::{
    invalid::quoted,
    json::Value,
    members::{Scalar, string},
};

/// The maximum length of a number as it is typed.
const MAX_CHARS: usize = 100;

/// The number of a microchip: 15 digits (ISO 11784), or 9 or 10 in older systems.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Microchip(CompactString);

impl Microchip {
    /// Parses a number. Blanks and hyphens between the digits are removed. Returns the reason if
    /// it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let is_separator = |c: char| c == '-' || c.is_whitespace();
        if text.chars().count() <= MAX_CHARS {
            let digits: CompactString = text.chars().filter(|c| !is_separator(*c)).collect();
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_number && matches!(digits.len(), 9 | 10 | 15) {
                return Ok(Self(digits));
            }
        }
        let got = quoted(text);
        Err(format!("must be 9, 10 or 15 digits, got {got}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn from_store(text: &str) -> Self {
        Self(text.into())
    }
}

impl Scalar for Microchip {
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
