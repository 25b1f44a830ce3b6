//! Validation errors for untrusted input.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A value that breaks a rule: which field, and what is allowed instead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The JSON member, parameter or command-line value. A member of an object in another is
    /// named with its path, such as `source.name`.
    pub field: Cow<'static, str>,
    /// The fault and the allowed values. Completes a sentence that starts with the field.
    pub reason: String,
}

impl Invalid {
    pub fn new(field: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            reason: reason.into(),
        }
    }

    /// Returns the error of a member as an error of the object that contains it.
    pub fn within(self, parent: &'static str) -> Self {
        let field = match &*self.field {
            "" => parent.into(),
            field => format!("{parent}.{field}").into(),
        };
        Self { field, ..self }
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
