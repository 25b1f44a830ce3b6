//! What is wrong with a value that came from outside.

/// One value that breaks a rule: which one, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct Invalid {
    /// The member or parameter, named as the contract names it.
    pub field: &'static str,
    /// What was wrong and what is allowed, to follow the field's name.
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

/// Three values if all are right, otherwise all that is wrong.
pub fn all<A, B, C>(
    a: Result<A, Invalid>,
    b: Result<B, Invalid>,
    c: Result<C, Invalid>,
) -> Result<(A, B, C), Vec<Invalid>> {
    match (a, b, c) {
        (Ok(a), Ok(b), Ok(c)) => Ok((a, b, c)),
        (a, b, c) => Err([a.err(), b.err(), c.err()].into_iter().flatten().collect()),
    }
}

/// All that is wrong, in one line.
pub fn joined(wrong: &[Invalid]) -> String {
    let wrong: Vec<_> = wrong.iter().map(Invalid::to_string).collect();
    wrong.join("; ")
}

/// Quotes what a client sent, so that a message can repeat it: escaped, and
/// short however long it was.
pub fn quoted(value: &str) -> String {
    const SHOWN: usize = 40;
    match value.char_indices().nth(SHOWN) {
        None => format!("{value:?}"),
        Some((end, _)) => format!("{:?}…", &value[..end]),
    }
}
