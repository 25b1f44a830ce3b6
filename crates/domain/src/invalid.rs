//! Validation errors for untrusted input.

/// A value that breaks a rule: which field, and what is allowed instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The JSON member, parameter or command-line value.
    pub field: &'static str,
    /// The fault and the allowed values. Completes a sentence that starts with the field.
    pub reason: String,
}

impl Invalid {
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self {
            field,
            reason: reason.into(),
        }
    }
}

/// Joins the messages of several errors into one line.
pub fn join_messages(errors: &[Invalid]) -> String {
    let messages: Vec<_> = errors.iter().map(Invalid::to_string).collect();
    messages.join("; ")
}

/// Quotes client input for use in a message: escaped, and truncated to 40
/// characters.
pub fn quoted(value: &str) -> String {
    const MAX_CHARS: usize = 40;
    match value.char_indices().nth(MAX_CHARS) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}…", &value[..end]),
    }
}
