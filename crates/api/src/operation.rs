//! An operation of the contract, and the matching of its path.

use http::Method;

use domain::api_key::Scope;

/// An upper bound on the number of operations.
pub const MAX_OPERATIONS: usize = 64;

/// An operation of the contract.
#[derive(Debug)]
pub struct Operation {
    /// Its position among all operations, below [`MAX_OPERATIONS`].
    pub number: usize,
    pub method: Method,
    /// The path template, as in the contract.
    pub path: &'static str,
    /// The operation id, as in the contract.
    pub id: &'static str,
    /// The scopes of which an API key needs one; empty if it needs none.
    pub scopes: &'static [Scope],
    pub query_parameters: &'static [&'static str],
}

/// The deprecated operation. Its requests are counted per API key, so that an operator knows
/// which clients still call it.
pub const DEPRECATED: &str = "getPet";

impl Operation {
    pub fn is_deprecated(&self) -> bool {
        self.id == DEPRECATED
    }

    /// Returns the values of the path parameters if this is a path of the operation.
    pub fn match_path<'a>(&self, path: &'a str) -> Option<PathParameters<'a>> {
        match_path(self.path, path)
    }
}

/// The values of path parameters, in the order of the path. Unused ones are empty.
pub type PathParameters<'a> = [&'a str; 2];

/// Matches a path against a template with at most two parameters, each of which takes one
/// segment that is not empty, and returns their values.
fn match_path<'a>(template: &str, path: &'a str) -> Option<PathParameters<'a>> {
    if template == path {
        return Some(["", ""]);
    }
    let (before, rest) = template.split_once('{')?;
    let (_, after) = rest.split_once('}')?;
    let path = path.strip_prefix(before)?;
    let (value, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
    let [next, _] = match_path(after, rest)?;
    (!value.is_empty()).then_some([value, next])
}
