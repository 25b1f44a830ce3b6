//! Members that are one value.

use std::{borrow::Cow, fmt::Debug};

use super::member::{Cell, CellMember, Cells, Errors, Member};
use crate::{
    invalid::{Invalid, quoted},
    json::Value,
};

/// A member that is one value. Errors are reasons, which complete a sentence that starts with
/// the name of the member.
pub trait Scalar: Clone + Debug + PartialEq + Eq {
    /// The kind of JSON value, with an article.
    const KIND: &str = "a string";
    /// True if clients choose the characters, so that a spreadsheet might run them as a formula.
    const IS_FREE_TEXT: bool = false;

    fn from_json(value: Value) -> Result<Self, String>;

    /// Reads a cell of a CSV file that is not empty.
    fn from_cell(cell: &str) -> Result<Self, String>;

    fn to_cell(&self) -> String;
}

impl<T: Scalar> Member for T {
    const KIND: &str = T::KIND;

    type Change = Self;

    fn from_json(value: Value) -> Result<Self, Errors> {
        <T as Scalar>::from_json(value).map_err(|reason| vec![Invalid::new("", reason)])
    }

    fn change_from_json(value: Value) -> Result<Self, Errors> {
        <T as Member>::from_json(value)
    }

    fn changed(_: Option<&Self>, change: &Self) -> Result<Self, Errors> {
        Ok(change.clone())
    }
}

impl<T: Scalar> CellMember for T {
    fn from_cells(cells: &impl Cells, name: &'static str) -> Result<Option<Self>, Errors> {
        let cell = cells.get(name, T::IS_FREE_TEXT);
        let value = cell.map(|cell| T::from_cell(&cell)).transpose();
        value.map_err(|reason| vec![Invalid::new("", reason)])
    }

    fn columns(name: &'static str, _: &[String]) -> Vec<Cow<'static, str>> {
        vec![name.into()]
    }

    fn write_cells(value: Option<&Self>, _: &[String], put: &mut dyn FnMut(Cell)) {
        put(Cell {
            text: value.map(T::to_cell).unwrap_or_default(),
            is_free_text: T::IS_FREE_TEXT,
        });
    }
}

/// An integer in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Integer<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Integer<MIN, MAX> {
    pub fn new(integer: i64) -> Option<Self> {
        (MIN..=MAX).contains(&integer).then_some(Self(integer))
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> Scalar for Integer<MIN, MAX> {
    const KIND: &str = "an integer";

    fn from_json(value: Value) -> Result<Self, String> {
        let integer = value.as_int64().and_then(Self::new);
        integer.ok_or_else(|| not_an_integer(MIN, MAX, &value.describe()))
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        let integer = cell.trim().parse().ok().and_then(Self::new);
        integer.ok_or_else(|| not_an_integer(MIN, MAX, &quoted(cell.trim())))
    }

    fn to_cell(&self) -> String {
        self.0.to_string()
    }
}

impl Scalar for i64 {
    const KIND: &str = "an integer (int64)";

    fn from_json(value: Value) -> Result<Self, String> {
        let integer = value.as_int64();
        integer.ok_or_else(|| not_an_integer(i64::MIN, i64::MAX, &value.describe()))
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        let integer = cell.trim().parse();
        integer.map_err(|_| not_an_integer(i64::MIN, i64::MAX, &quoted(cell.trim())))
    }

    fn to_cell(&self) -> String {
        self.to_string()
    }
}

fn not_an_integer(min: i64, max: i64, got: &str) -> String {
    format!("must be an integer from {min} to {max}, got {got}")
}

/// A value from a short list.
pub trait Choice: Copy + Debug + Eq + 'static {
    const ALL: &[Self];

    fn as_str(self) -> &'static str;

    /// Parses a value. Returns the reason if it is not in the list.
    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|choice| choice.as_str() == text);
        found.copied().ok_or_else(|| Self::invalid(&quoted(text)))
    }

    /// Returns the reason why a value is not in the list.
    fn invalid(got: &str) -> String {
        let all: Vec<_> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
        format!("must be one of {}, got {got}", all.join(", "))
    }
}

impl<T: Choice> Scalar for T {
    fn from_json(value: Value) -> Result<Self, String> {
        match value.as_string() {
            Some(text) => Self::parse(&text),
            None => Err(Self::invalid(&value.describe())),
        }
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(&cell.trim().to_lowercase())
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
    }
}

/// Returns the text of a JSON value, or the reason why it is none.
pub(crate) fn string<'a>(value: Value<'a>) -> Result<Cow<'a, str>, String> {
    let text = value.as_string();
    text.ok_or_else(|| format!("must be a string, got {}", value.describe()))
}
