//! Strict parsing of JSON objects.
//!
//! A body is one object in UTF-8. Member names are unique at every depth, and
//! strings have no lone surrogates. Numbers keep their digits, so that an int64
//! is exact however it is written.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fmt,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::invalid::{Invalid, quoted};

/// The maximum depth of the value of a member: that of the parser.
const MAX_DEPTH: usize = 127;

/// Returns the number of levels of the objects and arrays of a JSON value.
fn depth(json: &str) -> usize {
    let mut depth: usize = 0;
    let mut deepest = 0;
    let mut is_in_string = false;
    let mut is_escaped = false;
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_in_string = !is_in_string,
            b'{' | b'[' if !is_in_string => depth += 1,
            b'}' | b']' if !is_in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The reason why the bytes are not a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The bytes are not JSON, or JSON that is not accepted, for example because of duplicate
    /// members.
    #[error("{0}")]
    Malformed(String),
    /// The bytes are JSON, but not an object.
    #[error("must be a JSON object, got {0}")]
    NotAnObject(&'static str),
}

/// A JSON object whose member names are unique.
#[derive(Debug)]
pub struct Object<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Object<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ObjectError> {
        let malformed = |reason: String| ObjectError::Malformed(reason);
        if bytes.is_empty() {
            return Err(malformed("empty body".into()));
        }
        let text = str::from_utf8(bytes)
            .map_err(|e| malformed(format!("invalid UTF-8 at byte {}", e.valid_up_to())))?;
        if text.starts_with('\u{feff}') {
            return Err(malformed("must not start with a byte order mark".into()));
        }
        let start = text.trim_start_matches([' ', '\t', '\r', '\n']);
        if !start.is_empty() && !start.starts_with('{') {
            let other: &RawValue =
                serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
            return Err(ObjectError::NotAnObject(Value(other.get()).kind()));
        }
        let object: Self = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
        for (name, value) in &object.0 {
            let text = value.get();
            // `RawValue` skips over nested values without checking escapes or duplicate members.
            // Only the following values can hide such errors.
            let needs_check = match text.as_bytes()[0] {
                b'"' => text.contains('\\'),
                first => first == b'{' || first == b'[',
            };
            if needs_check {
                serde_json::from_str::<StrictValue>(text).map_err(|e| {
                    // Drop the position: it counts from the start of the member.
                    let message = e.to_string();
                    let reason = message.split(" at line ").next().unwrap_or_default();
                    let reason = if depth(text) > MAX_DEPTH {
                        format!("must not be nested deeper than {MAX_DEPTH} levels")
                    } else {
                        reason.into()
                    };
                    malformed(format!("in member {}: {reason}", quoted(name)))
                })?;
            }
        }
        Ok(object)
    }

    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.0.get(name).map(|raw| Value(raw.get()))
    }

    /// Returns the bytes that the object was parsed from if it has no member of this name, or else
    /// its other members.
    pub fn without<'b>(&self, name: &str, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if !self.0.contains_key(name) {
            return bytes.into();
        }
        let others = self.iter().filter(|(other, _)| *other != name);
        let others = others.map(|(name, value)| format!("{name:?}:{}", value.0));
        others.collect::<Vec<_>>().join(",").into_bytes().into()
    }

    /// Returns the number of members.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the members, sorted by their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'a>)> {
        self.0.iter().map(|(name, raw)| (&**name, Value(raw.get())))
    }

    /// Returns the names of the members, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(|name| &**name).collect()
    }
}

/// A member that is not ignored.
#[derive(Debug, Clone, Copy)]
pub struct KnownMember {
    pub name: &'static str,
    /// The names of its own members. Empty if it has none, or if clients choose them.
    pub members: &'static [&'static str],
}

impl KnownMember {
    pub(crate) const fn scalar(name: &'static str) -> Self {
        Self { name, members: &[] }
    }
}

/// A type that can be parsed from a JSON object.
pub trait FromObject: Sized {
    /// The members that are not ignored.
    const MEMBERS: &[KnownMember];

    /// The name of a member with personal data. No trace of it is kept, not even in the
    /// fingerprint of a request with an idempotency key.
    const PERSONAL: Option<&str> = None;

    /// True if the body may be empty, which then stands for an empty object.
    const IS_OPTIONAL: bool = false;

    /// Parses the object, or returns every validation error. Unknown members
    /// are ignored.
    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>>;
}

/// One JSON value, as its source text.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a>(&'a str);

impl<'a> Value<'a> {
    /// Returns the kind of value, with an article.
    fn kind(self) -> &'static str {
        match self.0.as_bytes()[0] {
            b'"' => "a string",
            b'{' => "an object",
            b'[' => "an array",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            _ => "a number",
        }
    }

    /// Describes the value for an error message: a number itself, or the kind of
    /// any other value.
    pub fn describe(self) -> String {
        match self.kind() {
            "a number" if self.0.len() <= 40 => self.0.into(),
            "a number" => format!("a number of {} characters", self.0.len()),
            other => other.into(),
        }
    }

    pub fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub fn as_string(self) -> Option<Cow<'a, str>> {
        let quoted = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if quoted.contains('\\') {
            serde_json::from_str(self.0).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(quoted))
        }
    }

    pub fn as_bool(self) -> Option<bool> {
        self.0.parse().ok()
    }

    /// Returns the source text.
    pub(crate) fn as_json(self) -> &'a str {
        self.0
    }

    /// Returns an object. Its member names are unique, as in every value of a parsed body.
    pub fn as_object(self) -> Option<Object<'a>> {
        serde_json::from_str(self.0).ok()
    }

    pub fn as_array(self) -> Option<Vec<Value<'a>>> {
        let values: Vec<&RawValue> = serde_json::from_str(self.0).ok()?;
        Some(values.into_iter().map(|raw| Value(raw.get())).collect())
    }

    /// Reads a member that is an array of one or more names, each of them once.
    pub fn as_choices<T: Copy + PartialEq>(
        self,
        field: &'static str,
        all: &[T],
        name: fn(T) -> &'static str,
    ) -> Result<Vec<T>, Invalid> {
        let invalid = |got: &str| {
            let all = all.iter().copied().map(name).collect::<Vec<_>>().join(", ");
            let reason = format!("must be an array of one or more of {all}, got {got}");
            Invalid::new(field, reason)
        };
        let Some(values) = self.as_array() else {
            return Err(invalid(&self.describe()));
        };
        let mut chosen = Vec::new();
        for value in values {
            let Some(text) = value.as_string() else {
                return Err(invalid(&format!("an array with {}", value.describe())));
            };
            let mut named = all.iter().filter(|choice| name(**choice) == text);
            let choice = named.next().ok_or_else(|| invalid(&quoted(&text)))?;
            if chosen.contains(choice) {
                let reason = format!("must not contain {text} more than once");
                return Err(Invalid::new(field, reason));
            }
            chosen.push(*choice);
        }
        if chosen.is_empty() {
            return Err(invalid("an empty array"));
        }
        Ok(chosen)
    }

    /// Returns the exact value of a number that is a whole int64. `1`, `1.0` and `10e-1` are
    /// equal, as in JSON Schema.
    pub fn as_int64(self) -> Option<i64> {
        // JSON has neither a plus sign nor leading zeros.
        if let Ok(integer) = self.0.parse() {
            return Some(integer);
        }
        let (negative, text) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.0),
        };
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.is_empty() {
            return Some(0);
        }
        // Saturate an exponent that does not fit into an i64.
        let exponent = exponent
            .parse::<i64>()
            .unwrap_or(match exponent.as_bytes()[0] {
                b'-' => i64::MIN,
                _ => i64::MAX,
            });
        let trailing = digits.len() - digits.trim_end_matches('0').len();
        let zeros = exponent
            .saturating_sub(fraction.len() as i64)
            .saturating_add(trailing as i64);
        let shift = u32::try_from(zeros).ok().filter(|shift| *shift < 20)?;
        let magnitude = significant
            .parse::<i128>()
            .ok()?
            .checked_mul(10_i128.pow(shift))?;
        i64::try_from(if negative { -magnitude } else { magnitude }).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = BTreeMap<Cow<'de, str>, &'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some(MemberName(name)) = map.next_key()? {
                    match members.entry(name) {
                        Entry::Vacant(entry) => entry.insert(map.next_value()?),
                        Entry::Occupied(entry) => return Err(duplicate_member(entry.key())),
                    };
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Members).map(Self)
    }
}

/// The name of a member, copied only if it is escaped. serde always copies a bare `Cow`.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

/// Any JSON value. Deserializing it checks every nested string and member name.
struct StrictValue;

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictValue)
    }
}

impl<'de> Visitor<'de> for StrictValue {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(MemberName(name)) = map.next_key()? {
            map.next_value::<Self>()?;
            if let Some(name) = names.replace(name) {
                return Err(duplicate_member(&name));
            }
        }
        Ok(self)
    }
}

fn duplicate_member<E: de::Error>(name: &str) -> E {
    E::custom(format_args!("duplicate member {}", quoted(name)))
}
