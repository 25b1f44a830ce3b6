//! An operation of the contract.

use http::Method;
use jiff::Timestamp;

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
    /// An API key needs one scope of each list.
    pub scopes: &'static [&'static [Scope]],
    pub query_parameters: &'static [&'static str],
}

/// The deprecated operation. Its requests are counted per API key, so that an operator knows
/// which clients still call it.
pub const DEPRECATED: &str = "getPet";
/// The time of its deprecation, 5 December 2025, as in the header `Deprecation`.
pub const DEPRECATED_SINCE: &str = "@1764892800";
/// The time of its removal, 5 December 2030. `ApiError::OperationRemoved` names it, too.
pub const REMOVAL: Timestamp = Timestamp::constant(1_922_659_200, 0);
/// The same as in the header `Sunset`.
pub const REMOVAL_HTTP_DATE: &str = "Thu, 05 Dec 2030 00:00:00 GMT";

impl Operation {
    pub fn is_deprecated(&self) -> bool {
        self.id == DEPRECATED
    }

    /// Returns the positions of the ids if this is a path of the operation.
    pub fn match_path(&self, path: &str) -> Option<IdPositions> {
        match_path(self.path, path)
    }
}
