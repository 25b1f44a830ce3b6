//! The members of resources and of objects in them: each is declared once, by its name and
//! type, and read from and written to JSON and CSV.

use std::{borrow::Cow, cell, fmt::Debug};

use crate::{
    invalid::{Invalid, quoted},
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

/// A member that is one value. Errors are reasons, which complete a sentence that starts with
/// the name of the member.
pub trait Scalar: Clone + Debug + PartialEq + Eq {
    /// The kind of JSON value, with an article.
    const KIND: &str = "a string";
    /// True if clients choose the characters, so that a spreadsheet might run them as a formula.
    const IS_FREE_TEXT: bool = false;

    fn from_json(value: Value) -> Result<Self, String>;

    /// Reads a cell of a CSV file that is not empty.
    fn from_cell(cell: &str) -> Result<Self, String>;

    fn to_cell(&self) -> String;
}

impl<T: Scalar> Member for T {
    const KIND: &str = T::KIND;

    type Change = Self;

    fn from_json(value: Value) -> Result<Self, Errors> {
        <T as Scalar>::from_json(value).map_err(|reason| vec![Invalid::new("", reason)])
    }

    fn change_from_json(value: Value) -> Result<Self, Errors> {
        <T as Member>::from_json(value)
    }

    fn changed(_: Option<&Self>, change: &Self) -> Result<Self, Errors> {
        Ok(change.clone())
    }
}

impl<T: Scalar> CellMember for T {
    fn from_cells(cells: &impl Cells, name: &'static str) -> Result<Option<Self>, Errors> {
        let cell = cells.get(name, T::IS_FREE_TEXT);
        let value = cell.map(|cell| T::from_cell(&cell)).transpose();
        value.map_err(|reason| vec![Invalid::new("", reason)])
    }

    fn columns(name: &'static str, _: &[String]) -> Vec<Cow<'static, str>> {
        vec![name.into()]
    }

    fn write_cells(value: Option<&Self>, _: &[String], put: &mut dyn FnMut(Cell)) {
        put(Cell {
            text: value.map(T::to_cell).unwrap_or_default(),
            is_free_text: T::IS_FREE_TEXT,
        });
    }
}

/// An integer in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Integer<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Integer<MIN, MAX> {
    pub fn new(integer: i64) -> Option<Self> {
        (MIN..=MAX).contains(&integer).then_some(Self(integer))
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

impl<const MIN: i64, const MAX: i64> Scalar for Integer<MIN, MAX> {
    const KIND: &str = "an integer";

    fn from_json(value: Value) -> Result<Self, String> {
        let integer = value.as_int64().and_then(Self::new);
        integer.ok_or_else(|| not_an_integer(MIN, MAX, &value.describe()))
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        let integer = cell.trim().parse().ok().and_then(Self::new);
        integer.ok_or_else(|| not_an_integer(MIN, MAX, &quoted(cell.trim())))
    }

    fn to_cell(&self) -> String {
        self.0.to_string()
    }
}

impl Scalar for i64 {
    const KIND: &str = "an integer (int64)";

    fn from_json(value: Value) -> Result<Self, String> {
        let integer = value.as_int64();
        integer.ok_or_else(|| not_an_integer(i64::MIN, i64::MAX, &value.describe()))
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        let integer = cell.trim().parse();
        integer.map_err(|_| not_an_integer(i64::MIN, i64::MAX, &quoted(cell.trim())))
    }

    fn to_cell(&self) -> String {
        self.to_string()
    }
}

fn not_an_integer(min: i64, max: i64, got: &str) -> String {
    format!("must be an integer from {min} to {max}, got {got}")
}

/// A value from a short list.
pub trait Choice: Copy + Debug + Eq + 'static {
    const ALL: &[Self];

    fn as_str(self) -> &'static str;

    /// Parses a value. Returns the reason if it is not in the list.
    fn parse(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|choice| choice.as_str() == text);
        found.copied().ok_or_else(|| Self::invalid(&quoted(text)))
    }

    /// Returns the reason why a value is not in the list.
    fn invalid(got: &str) -> String {
        let all: Vec<_> = Self::ALL.iter().map(|choice| choice.as_str()).collect();
        format!("must be one of {}, got {got}", all.join(", "))
    }
}

impl<T: Choice> Scalar for T {
    fn from_json(value: Value) -> Result<Self, String> {
        match value.as_string() {
            Some(text) => Self::parse(&text),
            None => Err(Self::invalid(&value.describe())),
        }
    }

    fn from_cell(cell: &str) -> Result<Self, String> {
        Self::parse(&cell.trim().to_lowercase())
    }

    fn to_cell(&self) -> String {
        self.as_str().into()
    }
}

/// Returns the text of a JSON value, or the reason why it is none.
pub(crate) fn string<'a>(value: Value<'a>) -> Result<Cow<'a, str>, String> {
    let text = value.as_string();
    text.ok_or_else(|| format!("must be a string, got {}", value.describe()))
}

/// The members that a client has sent.
pub trait Members {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors>;

    fn required<T: CellMember>(&self, name: &'static str) -> Result<T, Errors> {
        self.optional(name)?.ok_or_else(|| missing::<T>(name))
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

/// Returns errors of a member as errors of the whole.
pub(crate) fn within(name: &'static str, errors: Errors) -> Errors {
    let errors = errors.into_iter().map(|error| error.within(name));
    errors.collect()
}

/// The effect of a merge patch (RFC 7396) on an optional member.
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

    /// Reads the change of a member.
    pub(crate) fn read_member<M: Member<Change = T>>(
        object: &Object,
        name: &'static str,
    ) -> Result<Self, Errors> {
        let patch = Self::read(object.get(name), M::change_from_json);
        patch.map_err(|errors| within(name, errors))
    }

    /// Returns a member after the patch, which may change only parts of it.
    pub(crate) fn merge<M: Member<Change = T>>(
        &self,
        before: Option<&M>,
        name: &'static str,
    ) -> Result<Option<M>, Errors> {
        match self {
            Self::Keep => Ok(before.cloned()),
            Self::Remove => Ok(None),
            Self::Set(change) => match M::changed(before, change) {
                Ok(after) => Ok(Some(after).filter(|after| !after.is_empty())),
                Err(errors) => Err(within(name, errors)),
            },
        }
    }
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

impl<C: Cells> Members for C {
    fn optional<T: CellMember>(&self, name: &'static str) -> Result<Option<T>, Errors> {
        T::from_cells(self, name).map_err(|errors| within(name, errors))
    }
}

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

/// The value of a member as a cell of a CSV file.
pub struct Cell {
    pub text: String,
    /// See [`Scalar::IS_FREE_TEXT`].
    pub is_free_text: bool,
}

/// Declares a resource, a new one, and a merge patch of it, by their members.
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
            $(pub $optional: $crate::members::Patch<
                <$Optional as $crate::members::Member>::Change
            >,)*
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
                $resource { id, $($required: self.$required,)* $($optional: self.$optional,)* }
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
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $change {
            $(pub $required: Option<$Required>,)*
            $(pub $optional: $crate::members::Patch<$Optional>,)*
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
