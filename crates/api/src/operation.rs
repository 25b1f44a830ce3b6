//! An operation of the contract.

use http::Method;

use super::path::{IdPositions, match_path};
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

    /// Returns the positions of the ids if this is a path of the operation.
    pub fn match_path(&self, path: &str) -> Option<IdPositions> {
        match_path(self.path, path)
    }
}
