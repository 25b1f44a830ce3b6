//! What every name has in common: it is short, visible text in one line.

use crate::json::Value;

/// Checks a name. Returns what is wrong with it, as the end of a sentence that starts with
/// the field.
pub(crate) fn check(name: &str, max_chars: usize) -> Result<(), String> {
    check_text(name, max_chars)?;
    match name.chars().all(char::is_whitespace) {
        true => Err("must not be only whitespace".into()),
        false => Ok(()),
    }
}

/// Like [`check`], for the start of a name.
pub(crate) fn check_text(text: &str, max_chars: usize) -> Result<(), String> {
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

/// The text of a required member.
pub(crate) fn from_json(value: Option<Value>) -> Result<String, String> {
    let value = value.ok_or("required; must be a string")?;
    value
        .as_string()
        .ok_or_else(|| format!("must be a string, got {}", value.describe()))
}
