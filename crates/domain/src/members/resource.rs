//! The declaration of a resource by its members.

/// Declares a resource, a new one, and a merge patch of it, by their members. Assigned ones are
/// never set by these.
macro_rules! resource {
    (
        $(#[$resource_doc:meta])* $resource:ident($id:ty)
        $(#[$new_doc:meta])* $new:ident
        $(#[$change_doc:meta])* $change:ident
        required { $($required:ident $required_name:literal: $Required:ty,)* }
        optional { $($optional:ident $optional_name:literal: $Optional:ty,)* }
        assigned { $($assigned:ident $assigned_name:literal: $Assigned:ty,)* }
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
            $(
                #[serde(rename = $assigned_name, skip_serializing_if = "Option::is_none")]
                pub $assigned: Option<$Assigned>,
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
                pub $optional: $crate::members::Patch<
                    <$Optional as $crate::members::Member>::Change
                >,
            )*
        }

        impl $resource {
            /// The members that clients set.
            const MEMBERS: &[$crate::json::KnownMember] = &[
                $($crate::json::KnownMember::of::<$Required>($required_name),)*
                $($crate::json::KnownMember::of::<$Optional>($optional_name),)*
            ];

            /// Returns the names of the columns of a CSV file.
            pub fn columns(keys: &[String]) -> Vec<std::borrow::Cow<'static, str>> {
                use $crate::members::CellMember;
                let mut columns = Vec::new();
                $(columns.extend(<$Required>::columns($required_name, keys));)*
                $(columns.extend(<$Optional>::columns($optional_name, keys));)*
                columns
            }

            /// Returns the cells of these columns, in the same order.
            pub fn cells(&self, keys: &[String]) -> Vec<$crate::members::Cell> {
                use $crate::members::CellMember;
                let mut cells = Vec::new();
                let mut put = |cell| cells.push(cell);
                $(CellMember::write_cells(Some(&self.$required), keys, &mut put);)*
                $(CellMember::write_cells(self.$optional.as_ref(), keys, &mut put);)*
                cells
            }
        }

        impl $new {
            /// Creates one with only the required members.
            pub fn new($($required: $Required),*) -> Self {
                Self { $($required,)* $($optional: None,)* }
            }

            pub fn with_id(self, id: $id) -> $resource {
                $resource {
                    id,
                    $($required: self.$required,)*
                    $($optional: self.$optional,)*
                    $($assigned: None,)*
                }
            }

            /// Reads all members, or returns every validation error.
            pub fn from_members(
                members: &impl $crate::members::Members,
            ) -> Result<Self, $crate::members::Errors> {
                $crate::members::all_valid! { Self;
                    $($required: members.required($required_name),)*
                    $($optional: members.optional($optional_name),)*
                }
            }
        }

        impl $crate::json::FromObject for $new {
            const MEMBERS: &[$crate::json::KnownMember] = $resource::MEMBERS;

            fn from_object(object: &$crate::json::Object) -> Result<Self, $crate::members::Errors> {
                Self::from_members(&$crate::members::UnreadMembers::of(object))
            }
        }

        $crate::members::change! { $change
            required { $($required $required_name: $Required,)* }
            optional { $($optional $optional_name: $Optional,)* }
        }

        impl $change {
            /// Returns the resource after the change.
            fn apply(&self, before: &$resource) -> Result<$resource, $crate::members::Errors> {
                Ok($resource {
                    id: before.id,
                    $($required: match &self.$required {
                        Some(value) => value.clone(),
                        None => before.$required.clone(),
                    },)*
                    $($optional: self
                        .$optional
                        .merge(before.$optional.as_ref(), $optional_name)?,)*
                    $($assigned: before.$assigned.clone(),)*
                })
            }
        }

        impl $crate::json::FromObject for $change {
            const MEMBERS: &[$crate::json::KnownMember] = $resource::MEMBERS;

            fn from_object(object: &$crate::json::Object) -> Result<Self, $crate::members::Errors> {
                Self::read(object)
            }
        }
    };
}
pub(crate) use resource;

/// Reads a merge patch of a struct.
macro_rules! change {
    (
        $change:ident
        required { $($required:ident $required_name:literal: $Required:ty,)* }
        optional { $($optional:ident $optional_name:literal: $Optional:ty,)* }
    ) => {
        impl $change {
            fn read(object: &$crate::json::Object) -> Result<Self, $crate::members::Errors> {
                #[allow(unused_imports, reason = "there may be no optional member")]
                use $crate::members::{Member, Members, Patch};
                $crate::members::all_valid! { Self;
                    $($required: object.optional($required_name),)*
                    $($optional: Patch::read_member::<$Optional>(object, $optional_name),)*
                }
            }
        }
    };
}
pub(crate) use change;

/// Evaluates to a struct with these fields if all are valid, or else to every error.
macro_rules! all_valid {
    ($type:ident; $($field:ident: $read:expr,)*) => {{
        let mut errors = Vec::new();
        $(let $field = match $read {
            Ok(value) => Some(value),
            Err(error) => {
                errors.extend($crate::members::Errors::from(error));
                None
            }
        };)*
        match ($($field,)*) {
            ($(Some($field),)*) => Ok($type { $($field,)* }),
            _ => Err(errors),
        }
    }};
}
pub(crate) use all_valid;
