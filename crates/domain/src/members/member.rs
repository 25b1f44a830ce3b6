//! The members that a client has sent, in JSON or in a CSV file.

use std::{borrow::Cow, cell, fmt::Debug};

use crate::{
    invalid::Invalid,
    json::{KnownMember, Object, Value},
};

/// Every validation error of a value. The field of an error is relative to the value.
pub type Errors = Vec<Invalid>;

impl From<Invalid> for Errors {
    fn from(error: Invalid) -> Self {
        vec![error]
    }
}

/// The type of a member.
pub trait Member: Clone {
    /// The kind of JSON value, with an article.
    const KIND: &str;

    /// The names of its own members. Empty if it has none, or if clients choose them.
    const MEMBERS: &'static [&'static str] = &[];

    /// A change of the member by a merge patch: its new value, or a change of its own members.
    type Change: Clone + Debug + PartialEq + Eq;

    fn from_json(value: Value) -> Result<Self, Errors>;

    /// Returns true for a value that is the same as none.
    fn is_empty(&self) -> bool {
        false
    }

    fn change_from_json(value: Value) -> Result<Self::Change, Errors>;

    /// Returns the value after a change.
    fn changed(before: Option<&Self>, change: &Self::Change) -> Result<Self, Errors>;
}

impl KnownMember {
    pub(crate) const fn of<M: Member>(name: &'static str) -> Self {
        let members = M::MEMBERS;
        Self { name, members }
    }
}

/// A member that is written to one or more columns of a CSV file.
pub trait CellMember: Member {
    /// Reads the cells of a record. Returns `None` if they are all empty.
    fn from_cells(cells: &impl Cells, name: &'static str) -> Result<Option<Self>, Errors>;

    /// Returns the names of the columns. `keys` are the keys that the file has columns for, if
    /// clients choose the names of the member's own members.
    fn columns(name: &'static str, keys: &[String]) -> Vec<Cow<'static, str>>;

    /// Calls `put` with the cell of each column.
    fn write_cells(value: Option<&Self>, keys: &[String], put: &mut dyn FnMut(Cell));
}

/// The cells of a record of a CSV file.
pub trait Cells {
    /// Returns the cell of a column, unless it is empty. Free text may have been escaped, so
    /// that a spreadsheet does not run it as a formula.
    fn get(&self, column: &str, is_free_text: bool) -> Option<Cow<'_, str>>;

    /// Returns the columns whose name starts with `prefix`: the rest of the name, and the cell,
    /// unless it is empty.
    fn with_prefix(&self, prefix: &str) -> Vec<(&str, Cow<'_, str>)>;
}

/// The value of a member as a cell of a CSV file.
pub struct Cell {
    pub text: String,
    /// See [`Scalar::IS_FREE_TEXT`].
    pub is_free_text: bool,
}

/// The members that a client has sent.
pub trait Members {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors>;

    fn required<T: CellMember>(&self, name: &'static str) -> Result<T, Errors> {
        self.optional(name)?.ok_or_else(|| missing::<T>(name))
    }
}

impl Members for Object<'_> {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        match T::from_json(value) {
            Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
            Err(errors) => Err(within(name, errors)),
        }
    }
}

impl<C: Cells> Members for C {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors> {
        T::from_cells(self, name).map_err(|errors| within(name, errors))
    }
}

/// The members of an object, of which each is read at most once. Once all have been read, no other
/// is looked for: most clients send few of the optional ones.
pub(crate) struct UnreadMembers<'a> {
    object: &'a Object<'a>,
    unread: cell::Cell<usize>,
}

impl<'a> UnreadMembers<'a> {
    pub(crate) fn of(object: &'a Object<'a>) -> Self {
        let unread = cell::Cell::new(object.len());
        Self { object, unread }
    }
}

impl Members for UnreadMembers<'_> {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors> {
        if self.unread.get() == 0 {
            return Ok(None);
        }
        let member = self.object.optional(name);
        if !matches!(member, Ok(None)) {
            self.unread.set(self.unread.get() - 1);
        }
        member
    }
}

/// Returns the object that a JSON value is.
pub(crate) fn object_of<'a>(value: Value<'a>) -> Result<Object<'a>, Errors> {
    value.as_object().ok_or_else(|| {
        let reason = format!("must be an object, got {}", value.describe());
        vec![Invalid::new("", reason)]
    })
}

/// Returns the error of a required member that is absent.
pub(crate) fn missing<T: Member>(name: &'static str) -> Errors {
    let reason = format!("required; must be {}", T::KIND);
    vec![Invalid::new(name, reason)]
}

/// Returns errors of a member as errors of the whole.
pub(crate) fn within(name: &'static str, errors: Errors) -> Errors {
    let errors = errors.into_iter().map(|error| error.within(name));
    errors.collect()
}
