//! What every name has in common: it is short, visible text in one line.

use std::borrow::Cow;

use crate::{invalid::Invalid, json::Value};

/// Checks a name.
pub(crate) fn check(name: &str, max_chars: usize) -> Result<(), Invalid> {
    check_prefix(name, max_chars)?;
    match name.chars().all(char::is_whitespace) {
        true => Err(invalid("must not be only whitespace")),
        false => Ok(()),
    }
}

/// Checks the start of a name.
pub(crate) fn check_prefix(text: &str, max_chars: usize) -> Result<(), Invalid> {
    let length = text.chars().count();
    if length == 0 || length > max_chars {
        return Err(invalid(format!(
            "must be 1 to {max_chars} characters long, got {length}"
        )));
    }
    match text.chars().find(|c| c.is_control()) {
        Some(control) => {
            let code = u32::from(control);
            Err(invalid(format!(
                "must not contain control characters, got U+{code:04X}"
            )))
        }
        None => Ok(()),
    }
}

/// The text of the required member `name`.
pub(crate) fn from_json(value: Option<Value<'_>>) -> Result<Cow<'_, str>, Invalid> {
    let value = value.ok_or_else(|| invalid("required; must be a string"))?;
    value
        .as_string()
        .ok_or_else(|| invalid(format!("must be a string, got {}", value.describe())))
}

pub(crate) fn invalid(reason: impl Into<String>) -> Invalid {
    Invalid::new("name", reason)
}
