//! The statements that read and write the rows of a table, and the arrays of values that are
//! their parameters.

use super::super::{
    event_row::EventRow,
    rows::Keyed,
    sql::{Memo, Sql},
    statements::{ExplainTables, NamedSql},
    table::{Column, Table, Value, columns, names},
};
use domain::pet::Pet;

/// The condition for the pets with the ids `$1`, and those of the orders `$2`: the pet of an
/// order never changes.
pub(super) const PETS_AND_THOSE_OF_ORDERS: &str = "id = ANY(ARRAY(
             SELECT unnest($1) UNION SELECT pet_id FROM orders WHERE id = ANY($2)))";

/// The statements that read and write the rows of a table by their key. Pets are read with
/// those of orders.
pub(super) struct TableSql {
    /// Reads and locks rows, but not those that another transaction has locked.
    pub(super) lock: Sql,
    /// Locks rows, and waits for those that another transaction has locked.
    pub(super) wait: Sql,
    /// Reads rows, locked or not.
    pub(super) find: Sql,
    pub(super) insert: Sql,
    pub(super) update: Sql,
    pub(super) delete: Sql,
}

impl TableSql {
    /// Returns the statements of a table, which are assembled once.
    pub(super) fn of<T: Keyed>() -> &'static Self {
        static ALL: Memo<&str, TableSql> = Memo::new();
        ALL.get(&T::NAME, Self::assemble::<T>)
    }

    fn assemble<T: Keyed>() -> Self {
        let all = T::all_columns();
        let (key, values) = all.split_at(T::KEY_COLUMNS);
        let table = T::NAME;
        let read = columns::<T>();
        // The server numbers events.
        let inserted = if table == EventRow::NAME {
            values
        } else {
            &all
        };
        let equal = |column: &Column| format!("{table}.{0} = new.{0}", column.name);
        let same_key = key.iter().map(equal).collect::<Vec<_>>().join(" AND ");
        let set = values
            .iter()
            .map(|it| format!("{0} = new.{0}", it.name))
            .collect::<Vec<_>>()
            .join(", ");
        let has_key = match key {
            [id] => format!("{} = ANY($1)", id.name),
            _ => format!(
                "({}) IN (SELECT * FROM unnest({}))",
                names(key),
                parameters(key.len())
            ),
        };
        let (read_key, is_read) = if table == Pet::NAME {
            (&[key, key].concat()[..], PETS_AND_THOSE_OF_ORDERS)
        } else {
            (key, has_key.as_str())
        };
        // A row that was deleted after it was read fails the commit group, so that it is decided
        // again.
        let of_all = |change: String| {
            format!(
                "WITH changed AS ({change} RETURNING 1)
                 SELECT 1 / (count(*) = cardinality($1))::integer FROM changed"
            )
        };
        let sql = |text: String, columns: &[Column]| {
            let kinds = columns.iter().map(|column| column.kind.array());
            Sql::owned(table, text, kinds)
        };
        Self {
            lock: sql(
                format!("SELECT {read} FROM {table} WHERE {is_read} FOR NO KEY UPDATE SKIP LOCKED"),
                read_key,
            ),
            wait: sql(
                format!(
                    "SELECT FROM {table} WHERE {is_read} ORDER BY {} FOR NO KEY UPDATE",
                    names(key)
                ),
                read_key,
            ),
            find: sql(
                format!("SELECT {read} FROM {table} WHERE {is_read}"),
                read_key,
            ),
            insert: sql(
                format!(
                    "INSERT INTO {table} ({0}) SELECT {0} FROM unnest({1}) WITH ORDINALITY
                     AS new ({0}, ordinal) ORDER BY ordinal",
                    names(inserted),
                    parameters(inserted.len())
                ),
                inserted,
            ),
            update: sql(
                of_all(format!(
                    "UPDATE {table} SET {set} FROM unnest({}) AS new ({}) WHERE {same_key}",
                    parameters(all.len()),
                    names(&all)
                )),
                &all,
            ),
            delete: sql(of_all(format!("DELETE FROM {table} WHERE {has_key}")), key),
        }
    }
}

impl ExplainTables for TableSql {
    fn named<T: Keyed>() -> Vec<NamedSql> {
        let sql = Self::of::<T>();
        [
            ("lock", &sql.lock),
            ("wait", &sql.wait),
            ("find", &sql.find),
            ("insert", &sql.insert),
            ("update", &sql.update),
            ("delete", &sql.delete),
        ]
        .map(|(name, sql)| NamedSql {
            name: format!("{} {name}", T::NAME),
            ..NamedSql::of(sql)
        })
        .into()
    }
}

/// Returns `$1, $2, …`.
pub(super) fn parameters(count: usize) -> String {
    let parameters = (1..=count).map(|number| format!("${number}"));
    parameters.collect::<Vec<_>>().join(", ")
}

/// Returns an array for each of `count` columns, with the values that `write` puts for each row.
pub(super) fn arrays<'a, R: 'a>(
    rows: impl IntoIterator<Item = &'a R>,
    count: usize,
    write: impl Fn(&'a R, &mut dyn FnMut(Value<'a>)),
) -> Vec<Vec<Value<'a>>> {
    let mut arrays = vec![Vec::new(); count];
    for row in rows {
        let mut array = arrays.iter_mut();
        write(row, &mut |value| {
            array.next().expect("as many values as columns").push(value);
        });
    }
    arrays
}

pub(super) fn key_arrays<'a, T: Keyed>(
    keys: impl IntoIterator<Item = &'a T::Key>,
) -> Vec<Vec<Value<'a>>> {
    arrays(keys, T::KEY_COLUMNS, T::write_key)
}

pub(super) fn owned_keys<'a, T: Keyed>(
    keys: impl IntoIterator<Item = &'a T::Key>,
) -> Vec<Vec<Value<'static>>> {
    let arrays = key_arrays::<T>(keys).into_iter();
    let owned = |array: Vec<Value<'_>>| array.into_iter().map(Value::into_owned).collect();
    arrays.map(owned).collect()
}
