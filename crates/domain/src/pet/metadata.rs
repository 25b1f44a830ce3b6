//! Pairs of strings that clients attach to a pet.

use std::{borrow::Cow, collections::BTreeMap};

use compact_str::CompactString;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    invalid::{Invalid, quoted},
    json::Value,
    members::{Cell, CellMember, Cells, Errors, Member, Patch, Scalar, object_of},
    text::Text,
};

const MAX_PAIRS: usize = 20;
const MAX_KEY_CHARS: usize = 40;
const MAX_TEXT_CHARS: usize = 500;

/// 1 to 40 ASCII letters, digits, hyphens and underscores.
type Key = CompactString;

/// A [`Text`] of at most 500 characters.
type Content = CompactString;

/// At most 20 pairs of a key and a text, as JSON: sorted by their keys, and on one line. A page
/// copies it from the database, without looking at the pairs.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Metadata(Box<RawValue>);

impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for Metadata {}

type Pairs = BTreeMap<Key, Content>;

fn parse_key(text: &str) -> Result<Key, Errors> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=MAX_KEY_CHARS).contains(&text.len()) && text.bytes().all(is_allowed) {
        return Ok(text.into());
    }
    let got = quoted(text);
    let reason = format!(
        "a key must be 1 to {MAX_KEY_CHARS} letters (A to Z), digits, hyphens or underscores, \
         got {got}"
    );
    Err(vec![Invalid::new("", reason)])
}

fn parse_content(value: Value) -> Result<Content, Errors> {
    let text = <Text<MAX_TEXT_CHARS> as Member>::from_json(value)?;
    Ok(text.as_str().into())
}

impl Metadata {
    /// Returns the pairs as JSON, as they are stored.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// Reads the JSON that was stored. Returns `None` if it is not an object.
    pub fn from_store(json: &str) -> Option<Self> {
        let is_one_line = !json.bytes().any(|byte| byte.is_ascii_control());
        if is_one_line && json.starts_with('{') {
            return RawValue::from_string(json.into()).ok().map(Self);
        }
        // Another program has written it.
        let pairs: Pairs = serde_json::from_str(json).ok()?;
        Some(Self::of(&pairs))
    }

    fn new(pairs: &Pairs) -> Result<Self, Errors> {
        let count = pairs.len();
        if count > MAX_PAIRS {
            let reason = format!("must have at most {MAX_PAIRS} members, got {count}");
            return Err(vec![Invalid::new("", reason)]);
        }
        Ok(Self::of(pairs))
    }

    fn of(pairs: &Pairs) -> Self {
        let json = serde_json::value::to_raw_value(pairs);
        Self(json.expect("keys and values are text"))
    }

    /// Returns the pairs. Leaves out values of other programs that are not text.
    fn pairs(&self) -> Pairs {
        let pairs: BTreeMap<Key, serde_json::Value> =
            serde_json::from_str(self.as_json()).unwrap_or_default();
        let pairs = pairs.into_iter();
        pairs
            .filter_map(|(key, value)| Some((key, value.as_str()?.into())))
            .collect()
    }
}

/// Reads the pairs of a JSON object, or returns every validation error.
fn read<T>(
    value: Value,
    read: impl Fn(Value) -> Result<T, Errors>,
) -> Result<BTreeMap<Key, T>, Errors> {
    let object = object_of(value)?;
    let mut pairs = BTreeMap::new();
    let mut errors = Vec::new();
    for (name, value) in object.iter() {
        match (parse_key(name), read(value)) {
            (Ok(key), Ok(value)) => _ = pairs.insert(key, value),
            (Ok(_), Err(invalid)) => errors.extend(at_key(name, invalid)),
            (Err(invalid), _) => errors.extend(invalid),
        }
        if errors.len() >= MAX_PAIRS {
            break;
        }
    }
    if errors.is_empty() {
        Ok(pairs)
    } else {
        Err(errors)
    }
}

/// Returns the errors of a value as errors of the whole, with its key.
fn at_key(key: &str, errors: Errors) -> impl Iterator<Item = Invalid> {
    let field = key.to_string();
    let errors = errors.into_iter();
    errors.map(move |error| Invalid::new(field.clone(), error.reason))
}

impl Member for Metadata {
    const KIND: &str = "an object";

    type Change = BTreeMap<Key, Patch<Content>>;

    fn from_json(value: Value) -> Result<Self, Errors> {
        Self::new(&read(value, parse_content)?)
    }

    fn is_empty(&self) -> bool {
        self.as_json() == "{}"
    }

    fn change_from_json(value: Value) -> Result<Self::Change, Errors> {
        read(value, |value| Patch::read(Some(value), parse_content))
    }

    fn changed(before: Option<&Self>, change: &Self::Change) -> Result<Self, Errors> {
        let mut pairs = before.map(Self::pairs).unwrap_or_default();
        for (key, patch) in change {
            match patch {
                Patch::Keep => {}
                Patch::Remove => _ = pairs.remove(key),
                Patch::Set(text) => _ = pairs.insert(key.clone(), text.clone()),
            }
        }
        Self::new(&pairs)
    }
}

impl CellMember for Metadata {
    fn from_cells(cells: &impl Cells, name: &'static str) -> Result<Option<Self>, Errors> {
        let mut pairs = BTreeMap::new();
        let mut errors = Vec::new();
        for (key, cell) in cells.with_prefix(&format!("{name}.")) {
            match (parse_key(key), Text::<MAX_TEXT_CHARS>::from_cell(&cell)) {
                (Ok(key), Ok(text)) => _ = pairs.insert(key, text.as_str().into()),
                (Ok(_), Err(reason)) => errors.push(Invalid::new(key.to_string(), reason)),
                (Err(invalid), _) => errors.extend(invalid),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let metadata = (!pairs.is_empty()).then(|| Self::new(&pairs));
        metadata.transpose()
    }

    fn columns(name: &'static str, keys: &[String]) -> Vec<Cow<'static, str>> {
        let columns = keys.iter().map(|key| format!("{name}.{key}").into());
        columns.collect()
    }

    fn write_cells(value: Option<&Self>, keys: &[String], put: &mut dyn FnMut(Cell)) {
        let pairs = value.map(Self::pairs).unwrap_or_default();
        for key in keys {
            let text = pairs.get(key.as_str());
            put(Cell {
                text: text.map(|text| text.as_str().into()).unwrap_or_default(),
                is_free_text: true,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_json_is_copied() {
        let json = r#"{"feed":"puppy \"small\"","litter":"2026-07"}"#;
        let stored = Metadata::from_store(json).unwrap();
        assert_eq!(serde_json::to_string(&stored).unwrap(), json);
        assert_eq!(Metadata::of(&stored.pairs()), stored);
        // A stream of events and a file of JSON Lines need it on one line.
        let by_hand = json.replace(',', ",\n\t");
        assert_eq!(Metadata::from_store(&by_hand), Some(stored));
        for invalid in ["", "[]", "null", "{", "{\n\"a\":1}"] {
            assert_eq!(Metadata::from_store(invalid), None, "{invalid}");
        }
        let other = Metadata::from_store(r#"{"a":1,"b":"c"}"#).unwrap();
        assert_eq!(other.pairs().into_keys().collect::<Vec<_>>(), ["b"]);
    }
}
