//! The members of a resource that clients set: each is declared once, by its name and type, and
//! read from JSON or from a row of a table.

use crate::{
    invalid::{Invalid, quoted},
    json::{Object, Value},
};

/// The type of a member. Errors are reasons, which complete a sentence that starts with the name
/// of the member.
pub trait Member: Sized {
    /// The kind of JSON value, with an article.
    const KIND: &str;
    /// True if clients choose the characters, so that a spreadsheet might run them as a formula.
    const IS_FREE_TEXT: bool = false;

    fn from_json(value: Value) -> Result<Self, String>;

    /// Reads a cell of a CSV file that is not empty.
    fn from_cell(cell: &str) -> Result<Self, String>;

    fn to_cell(&self) -> String;
}

impl Member for i64 {
    const KIND: &str = "an integer (int64)";

    fn from_json(value: Value) -> Result<Self, String> {
        value
            .as_int64()
            .ok_or_else(|| not_an_integer(&value.describe()))
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        let cell = cell.trim();
        cell.parse().map_err(|_| not_an_integer(&quoted(cell)))
    }

    fn to_cell(&self) -> String {
        self.to_string()
    }
}

fn not_an_integer(got: &str) -> String {
    format!(
        "must be an integer from {} to {}, got {got}",
        i64::MIN,
        i64::MAX
    )
}

/// The members that a client has sent.
pub trait Members {
    fn optional<T: Member>(&self, name: &'static str) -> Result<Option<T>, Invalid>;

    fn required<T: Member>(&self, name: &'static str) -> Result<T, Invalid> {
        let missing = || Invalid::new(name, format!("required; must be {}", T::KIND));
        self.optional(name)?.ok_or_else(missing)
    }
}

impl Members for Object<'_> {
    fn optional<T: Member>(&self, name: &'static str) -> Result<Option<T>, Invalid> {
        let value = self.get(name).map(T::from_json);
        value
            .transpose()
            .map_err(|reason| Invalid::new(name, reason))
    }
}

/// The effect of a merge patch (RFC 7396) on an optional member of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The patch does not have the member.
    #[default]
    Keep,
    /// The patch has `null` for the member.
    Remove,
    Set(T),
}

impl<T: Clone> Patch<T> {
    /// Reads a member of a patch. Only a value that is not `null` is parsed.
    pub(crate) fn read<E>(
        value: Option<Value>,
        parse: impl FnOnce(Value) -> Result<T, E>,
    ) -> Result<Self, E> {
        match value {
            None => Ok(Self::Keep),
            Some(value) if value.is_null() => Ok(Self::Remove),
            Some(value) => parse(value).map(Self::Set),
        }
    }

    /// Returns the member after the patch.
    pub(crate) fn apply(&self, before: Option<&T>) -> Option<T> {
        match self {
            Self::Keep => before.cloned(),
            Self::Remove => None,
            Self::Set(value) => Some(value.clone()),
        }
    }
}

/// The value of a member as a cell of a table.
pub struct Cell {
    pub text: String,
    /// See [`Member::IS_FREE_TEXT`].
    pub is_free_text: bool,
}

impl Cell {
    pub(crate) fn new<T: Member>(value: Option<&T>) -> Self {
        Self {
            text: value.map(T::to_cell).unwrap_or_default(),
            is_free_text: T::IS_FREE_TEXT,
        }
    }
}

/// Declares a resource, a new one, and a merge patch (RFC 7396) of it, by their members.
macro_rules! resource {
    (
        $(#[$resource_doc:meta])* $resource:ident($id:ty)
        $(#[$new_doc:meta])* $new:ident
        $(#[$change_doc:meta])* $change:ident
        required { $($required:ident $required_name:literal: $Required:ty,)* }
        optional { $($optional:ident $optional_name:literal: $Optional:ty,)* }
    ) => {
        $(#[$resource_doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        pub struct $resource {
            pub id: $id,
            $(#[serde(rename = $required_name)] pub $required: $Required,)*
            $(
                #[serde(rename = $optional_name, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$Optional>,
            )*
        }

        $(#[$new_doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        pub struct $new {
            $(#[serde(rename = $required_name)] pub $required: $Required,)*
            $(
                #[serde(rename = $optional_name, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$Optional>,
            )*
        }

        $(#[$change_doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $change {
            $(pub $required: Option<$Required>,)*
            $(pub $optional: $crate::members::Patch<$Optional>,)*
        }

        impl $resource {
            /// The names of the members that clients set.
            pub const MEMBERS: &[&str] = &[$($required_name,)* $($optional_name,)*];

            /// Returns the values of these members, in the same order.
            pub fn cells(&self) -> Vec<$crate::members::Cell> {
                use $crate::members::Cell;
                vec![
                    $(Cell::new(Some(&self.$required)),)*
                    $(Cell::new(self.$optional.as_ref()),)*
                ]
            }
        }

        impl $new {
            /// Creates one with only the required members.
            pub fn new($($required: $Required),*) -> Self {
                Self { $($required,)* $($optional: None,)* }
            }

            pub fn with_id(self, id: $id) -> $resource {
                $resource { id, $($required: self.$required,)* $($optional: self.$optional,)* }
            }

            /// Reads all members, or returns every validation error.
            pub fn from_members(
                members: &impl $crate::members::Members,
            ) -> Result<Self, Vec<$crate::invalid::Invalid>> {
                $crate::members::all_valid! {
                    $($required: members.required($required_name),)*
                    $($optional: members.optional($optional_name),)*
                }
            }
        }

        impl $crate::json::FromObject for $new {
            const MEMBERS: &[&str] = $resource::MEMBERS;

            fn from_object(
                object: &$crate::json::Object,
            ) -> Result<Self, Vec<$crate::invalid::Invalid>> {
                Self::from_members(object)
            }
        }

        impl $crate::json::FromObject for $change {
            const MEMBERS: &[&str] = $resource::MEMBERS;

            fn from_object(
                object: &$crate::json::Object,
            ) -> Result<Self, Vec<$crate::invalid::Invalid>> {
                use $crate::{
                    invalid::Invalid,
                    members::{Member, Members, Patch},
                };
                $crate::members::all_valid! {
                    $($required: object.optional($required_name),)*
                    $($optional: Patch::read(object.get($optional_name), Member::from_json)
                        .map_err(|reason| Invalid::new($optional_name, reason)),)*
                }
            }
        }

        impl $change {
            fn apply(&self, before: &$resource) -> $resource {
                $resource {
                    id: before.id,
                    $($required: self.$required.as_ref().unwrap_or(&before.$required).clone(),)*
                    $($optional: self.$optional.apply(before.$optional.as_ref()),)*
                }
            }
        }
    };
}
pub(crate) use resource;

/// Evaluates to `Self` with these fields if all are valid, or else to every error.
macro_rules! all_valid {
    ($($field:ident: $read:expr,)*) => {{
        let mut invalid = Vec::new();
        $(let $field = $read.map_err(|error| invalid.push(error)).ok();)*
        match ($($field,)*) {
            ($(Some($field),)*) => Ok(Self { $($field,)* }),
            _ => Err(invalid),
        }
    }};
}
pub(crate) use all_valid;
