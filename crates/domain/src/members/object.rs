//! Objects in a resource, such as a price.

use std::borrow::Cow;

use super::member::{Cell, Cells, Errors, Member, Members};

/// An object in a resource.
pub(crate) trait Nested: Member {
    fn from_members(members: &impl Members) -> Result<Self, Errors>;

    /// Calls `put` with the cell of each member.
    fn write_members(value: Option<&Self>, put: &mut dyn FnMut(Cell));
}

/// The cells of the members of an object, in columns such as `source.name`.
struct DottedCells<'a, C> {
    cells: &'a C,
    name: &'static str,
}

impl<C: Cells> Cells for DottedCells<'_, C> {
    fn get(&self, column: &str, is_free_text: bool) -> Option<Cow<'_, str>> {
        self.cells
            .get(&format!("{}.{column}", self.name), is_free_text)
    }

    fn with_prefix(&self, prefix: &str) -> Vec<(&str, Cow<'_, str>)> {
        self.cells.with_prefix(&format!("{}.{prefix}", self.name))
    }
}

/// Reads an object from columns such as `source.name`.
pub(crate) fn read_dotted<T: Nested>(
    cells: &impl Cells,
    name: &'static str,
) -> Result<Option<T>, Errors> {
    let cells = DottedCells { cells, name };
    let is_filled = |member: &&str| cells.get(member, false).is_some();
    let is_present = T::MEMBERS.iter().any(is_filled);
    is_present.then(|| T::from_members(&cells)).transpose()
}

/// Declares an object in a resource, and a merge patch of it, by their members.
macro_rules! object {
    (
        $(#[$object_doc:meta])* $object:ident
        $(#[$change_doc:meta])* $change:ident
        required { $($required:ident $required_name:literal: $Required:ty,)* }
        optional { $($optional:ident $optional_name:literal: $Optional:ty,)* }
    ) => {
        $(#[$object_doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        pub struct $object {
            $(#[serde(rename = $required_name)] pub $required: $Required,)*
            $(
                #[serde(rename = $optional_name, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$Optional>,
            )*
        }

        $(#[$change_doc])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
        pub struct $change {
            $(
                #[serde(rename = $required_name, skip_serializing_if = "Option::is_none")]
                pub $required: Option<$Required>,
            )*
            $(
                #[serde(
                    rename = $optional_name,
                    skip_serializing_if = "crate::members::Patch::is_keep"
                )]
                pub $optional: $crate::members::Patch<$Optional>,
            )*
        }

        $crate::members::change! { $change
            required { $($required $required_name: $Required,)* }
            optional { $($optional $optional_name: $Optional,)* }
        }

        impl $crate::members::Nested for $object {
            fn from_members(
                members: &impl $crate::members::Members,
            ) -> Result<Self, $crate::members::Errors> {
                $crate::members::all_valid! { Self;
                    $($required: members.required($required_name),)*
                    $($optional: members.optional($optional_name),)*
                }
            }

            fn write_members(
                value: Option<&Self>,
                put: &mut dyn FnMut($crate::members::Cell),
            ) {
                use $crate::members::CellMember;
                $(<$Required>::write_cells(value.map(|it| &it.$required), &[], put);)*
                $(<$Optional>::write_cells(value.and_then(|it| it.$optional.as_ref()), &[], put);)*
            }
        }

        impl $crate::members::Member for $object {
            const KIND: &str = "an object";
            const MEMBERS: &[&str] = &[$($required_name,)* $($optional_name,)*];

            type Change = $change;

            fn from_json(value: $crate::json::Value) -> Result<Self, $crate::members::Errors> {
                $crate::members::Nested::from_members(&$crate::members::object_of(value)?)
            }

            fn change_from_json(
                value: $crate::json::Value,
            ) -> Result<$change, $crate::members::Errors> {
                $change::read(&$crate::members::object_of(value)?)
            }

            fn changed(
                before: Option<&Self>,
                change: &$change,
            ) -> Result<Self, $crate::members::Errors> {
                $crate::members::all_valid! { Self;
                    $($required: change
                        .$required
                        .clone()
                        .or_else(|| before.map(|before| before.$required.clone()))
                        .ok_or_else(|| {
                            $crate::members::missing::<$Required>($required_name)
                        }),)*
                    $($optional: change.$optional.merge(
                        before.and_then(|before| before.$optional.as_ref()),
                        $optional_name,
                    ),)*
                }
            }
        }
    };
}
pub(crate) use object;

/// Gives each member of an object a column of its own in a CSV file, such as `source.name`.
macro_rules! dotted_columns {
    ($object:ident) => {
        impl $crate::members::CellMember for $object {
            fn from_cells(
                cells: &impl $crate::members::Cells,
                name: &'static str,
            ) -> Result<Option<Self>, $crate::members::Errors> {
                $crate::members::read_dotted(cells, name)
            }

            fn columns(name: &'static str, _: &[String]) -> Vec<std::borrow::Cow<'static, str>> {
                let members = <Self as $crate::members::Member>::MEMBERS.iter();
                members
                    .map(|member| format!("{name}.{member}").into())
                    .collect()
            }

            fn write_cells(
                value: Option<&Self>,
                _: &[String],
                put: &mut dyn FnMut($crate::members::Cell),
            ) {
                $crate::members::Nested::write_members(value, put);
            }
        }
    };
}
pub(crate) use dotted_columns;
