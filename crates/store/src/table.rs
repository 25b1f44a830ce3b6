//! Tables: declared once, for both databases.
//!
//! A declaration lists the columns of a table, one per line. Column lists, row mapping and
//! every generated statement derive from it; a field that is missing does not compile.

use std::{borrow::Cow, error, marker::PhantomData};

/// The type of a column or of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Bool,
    Text,
    Bytes,
    /// Parameters of PostgreSQL, with a value for each row.
    Ints,
    Bools,
    Texts,
    ByteStrings,
}

impl Kind {
    /// Returns the type of an array of this type.
    pub(super) fn array(self) -> Self {
        match self {
            Self::Int | Self::Ints => Self::Ints,
            Self::Bool | Self::Bools => Self::Bools,
            Self::Text | Self::Texts => Self::Texts,
            Self::Bytes | Self::ByteStrings => Self::ByteStrings,
        }
    }
}

/// The value of a column, or of a parameter, of either database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Null,
    Int(i64),
    Bool(bool),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Value<'a> {
    pub(super) fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(int) => Value::Int(int),
            Self::Bool(bool) => Value::Bool(bool),
            Self::Text(text) => Value::Text(text.into_owned().into()),
            Self::Bytes(bytes) => Value::Bytes(bytes.into_owned().into()),
        }
    }

    /// Returns the type of a parameter; an integer for null.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Null | Self::Int(_) => Kind::Int,
            Self::Bool(_) => Kind::Bool,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
        }
    }

    pub(super) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

/// A stored value that this program would not have written. It is not shown, because it may
/// be a secret.
#[derive(Debug, thiserror::Error)]
#[error("a stored value is not valid; was it written by another program or a newer version?")]
pub(super) struct CorruptValue;

/// A type that is stored in one column.
pub(super) trait Field: Sized {
    const KIND: Kind;

    fn to_value(&self) -> Value<'_>;

    fn from_value(value: Value<'_>) -> Result<Self, CorruptValue>;
}

/// A row of either database.
pub(super) trait Row {
    type Error;

    fn value(&self, column: usize, kind: Kind) -> Result<Value<'_>, Self::Error>;

    fn corrupt(column: usize, cause: impl error::Error + Send + Sync + 'static) -> Self::Error;
}

/// Reads the columns of a row one after the other.
pub(super) struct Columns<'r, R> {
    row: &'r R,
    next: usize,
}

impl<'r, R: Row> Columns<'r, R> {
    pub(super) fn of(row: &'r R) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn next<F: Field>(&mut self) -> Result<F, R::Error> {
        let column = self.next;
        self.next += 1;
        let value = self.row.value(column, F::KIND)?;
        F::from_value(value).map_err(|corrupt| R::corrupt(column, corrupt))
    }

    /// Reads an [`OuterJoin`] that other columns follow.
    pub(super) fn next_joined<T: ColumnGroup, K: Field>(&mut self) -> Result<Option<T>, R::Error> {
        let start = self.next;
        let OuterJoin(record, _) = OuterJoin::<T, K>::read(self)?;
        self.next = start + T::columns("").len();
        Ok(record)
    }
}

/// A value that is read from the first columns of a row.
pub(super) trait Record: Sized {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error>;

    fn from_row<R: Row>(row: &R) -> Result<Self, R::Error> {
        Self::read(&mut Columns::of(row))
    }
}

/// Reads no column: the row only has to exist.
impl Record for () {
    fn read<R: Row>(_: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(())
    }
}

impl<A: Record> Record for (A,) {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok((A::read(columns)?,))
    }
}

impl<A: Record, B: Record> Record for (A, B) {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok((A::read(columns)?, B::read(columns)?))
    }
}

impl<A: Record, B: Record, C: Record> Record for (A, B, C) {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok((A::read(columns)?, B::read(columns)?, C::read(columns)?))
    }
}

/// The right side of an outer join, in the last columns of a row: no record if the first of them,
/// of type `K`, is null.
pub(super) struct OuterJoin<T, K>(pub(super) Option<T>, PhantomData<K>);

impl<T: Record, K: Field> Record for OuterJoin<T, K> {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let is_null = columns.row.value(columns.next, K::KIND)? == Value::Null;
        let record = (!is_null).then(|| T::read(columns)).transpose()?;
        Ok(Self(record, PhantomData))
    }
}

/// The last record of a row, unless its values cannot be read.
pub(super) struct Readable<T>(pub(super) Option<T>);

impl<T: Record> Record for Readable<T> {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        Ok(Self(T::read(columns).ok()))
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
}

/// A value that is stored in one or more columns.
pub(super) trait ColumnGroup: Record {
    /// Returns the columns. `names` comes from the declaration: the name of the field, or
    /// names that are separated by commas.
    fn columns(names: &'static str) -> Vec<Column>;

    /// Calls `put` with the value of every column.
    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>));
}

impl<F: Field> Record for F {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        columns.next()
    }
}

impl<F: Field> ColumnGroup for F {
    fn columns(name: &'static str) -> Vec<Column> {
        vec![Column {
            name,
            kind: F::KIND,
        }]
    }

    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        put(self.to_value());
    }
}

/// Two values that are both present or both absent.
impl<A: Field, B: Field> Record for Option<(A, B)> {
    fn read<R: Row>(columns: &mut Columns<'_, R>) -> Result<Self, R::Error> {
        let first: Option<A> = columns.next()?;
        Ok(first.zip(columns.next()?))
    }
}

impl<A: Field, B: Field> ColumnGroup for Option<(A, B)> {
    fn columns(names: &'static str) -> Vec<Column> {
        let names = names.split(", ");
        let columns = names.zip([A::KIND, B::KIND]);
        columns.map(|(name, kind)| Column { name, kind }).collect()
    }

    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        let values = self.as_ref();
        put(values.map_or(Value::Null, |(first, _)| first.to_value()));
        put(values.map_or(Value::Null, |(_, second)| second.to_value()));
    }
}

/// The key of a row: the values of the first column or columns of its table.
pub(super) trait Key: Ord + Clone + Send + Sync {
    const COLUMNS: usize;

    /// Calls `put` with the value of each column.
    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>));
}

impl<F: Field + Ord + Clone + Send + Sync> Key for F {
    const COLUMNS: usize = 1;

    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        put(self.to_value());
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    const COLUMNS: usize = A::COLUMNS + B::COLUMNS;

    fn write<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        self.0.write(put);
        self.1.write(put);
    }
}

/// A struct that is stored as a row.
pub(super) trait Table: ColumnGroup {
    const NAME: &'static str;

    /// Columns that are computed from the others, to be searched or compared by the
    /// database. They are written and never read.
    fn derived() -> Vec<Column> {
        Vec::new()
    }

    /// Calls `put` with the value of every derived column.
    fn write_derived<'a>(&'a self, _put: &mut dyn FnMut(Value<'a>)) {}

    /// Returns every column, the derived ones last.
    fn all_columns() -> Vec<Column> {
        let mut all = Self::columns("");
        all.extend(Self::derived());
        all
    }

    /// Calls `put` with the value of every column, the derived ones last.
    fn write_all<'a>(&'a self, put: &mut dyn FnMut(Value<'a>)) {
        self.write(put);
        self.write_derived(put);
    }
}

/// Returns the columns of a table that are read, as a list for a statement.
pub(super) fn columns<T: ColumnGroup>() -> String {
    names(&T::columns(""))
}

/// Returns the same list, with the name of the table or an alias before each column.
pub(super) fn columns_of<T: ColumnGroup>(alias: &str) -> String {
    let columns = T::columns("").into_iter();
    let names = columns.map(|column| format!("{alias}.{}", column.name));
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn names(columns: &[Column]) -> String {
    let names = columns.iter().map(|column| column.name);
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the columns of the field that `field` returns.
pub(super) fn columns_of_field<S, G: ColumnGroup>(
    _field: fn(&S) -> &G,
    names: &'static str,
) -> Vec<Column> {
    G::columns(names)
}

/// The column of a field has its name, unless `as` gives another.
macro_rules! column_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $columns:literal) => {
        $columns
    };
}

/// Declares the columns of a struct: one line for each field, in the order of the columns.
macro_rules! columns {
    ($type:ty { $($field:ident $(as $columns:literal)?,)+ }) => {
        impl $crate::table::Record for $type {
            fn read<R: $crate::table::Row>(
                columns: &mut $crate::table::Columns<'_, R>,
            ) -> Result<Self, R::Error> {
                Ok(Self { $($field: $crate::table::Record::read(columns)?,)+ })
            }
        }

        impl $crate::table::ColumnGroup for $type {
            fn columns(_: &'static str) -> Vec<$crate::table::Column> {
                [$($crate::table::columns_of_field(
                    |row: &Self| &row.$field,
                    column_name!($field $($columns)?),
                ),)+]
                .concat()
            }

            fn write<'a>(&'a self, put: &mut dyn FnMut($crate::table::Value<'a>)) {
                $($crate::table::ColumnGroup::write(&self.$field, put);)+
            }
        }
    };
}

/// Declares how an object that may be absent is stored: a column for each of its members. If it
/// is absent, they are null.
macro_rules! optional_object {
    ($(
        $type:ident
        required { $($required:ident: $Required:ty,)+ }
        optional { $($optional:ident: $Optional:ty,)* }
    )+) => {$(
        impl $crate::table::Record for Option<$type> {
            fn read<R: $crate::table::Row>(
                columns: &mut $crate::table::Columns<'_, R>,
            ) -> Result<Self, R::Error> {
                $(let $required: Option<$Required> = columns.next()?;)+
                $(let $optional: Option<$Optional> = columns.next()?;)*
                match ($($required,)+) {
                    ($(Some($required),)+) => Ok(Some($type { $($required,)+ $($optional,)* })),
                    _ => Ok(None),
                }
            }
        }

        impl $crate::table::ColumnGroup for Option<$type> {
            fn columns(names: &'static str) -> Vec<$crate::table::Column> {
                let kinds = [
                    $(<$Required as $crate::table::Field>::KIND,)+
                    $(<$Optional as $crate::table::Field>::KIND,)*
                ];
                let columns = names.split(", ").zip(kinds);
                columns.map(|(name, kind)| $crate::table::Column { name, kind }).collect()
            }

            fn write<'a>(&'a self, put: &mut dyn FnMut($crate::table::Value<'a>)) {
                use $crate::table::{Field, Value};
                $(put(self.as_ref().map_or(Value::Null, |it| it.$required.to_value()));)+
                $(put(self.as_ref().map_or(Value::Null, |it| it.$optional.to_value()));)*
            }
        }
    )+};
}

/// Declares the table of a struct.
macro_rules! table {
    (
        $type:ty: $name:literal { $($fields:tt)+ }
        $(derived { $($derived:ident: $kind:ident = $derive:expr,)+ })?
    ) => {
        columns!($type { $($fields)+ });

        impl $crate::table::Table for $type {
            const NAME: &'static str = $name;
            $(
                fn derived() -> Vec<$crate::table::Column> {
                    vec![$($crate::table::Column {
                        name: stringify!($derived),
                        kind: $crate::table::Kind::$kind,
                    },)+]
                }

                fn write_derived<'a>(
                    &'a self,
                    put: &mut dyn FnMut($crate::table::Value<'a>),
                ) {
                    $(put($crate::table::Value::text($derive(self)));)+
                }
            )?
        }
    };
}

impl<F: Field> Field for Option<F> {
    const KIND: Kind = F::KIND;

    fn to_value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, F::to_value)
    }

    fn from_value(value: Value<'_>) -> Result<Self, CorruptValue> {
        match value {
            Value::Null => Ok(None),
            value => F::from_value(value).map(Some),
        }
    }
}
