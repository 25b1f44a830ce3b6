//! The statements of each table, on SQLite.

use crate::{
    row_keys::Sequence,
    rows::Keyed,
    sql::Memo,
    statements::{ExplainTables, NamedSql},
    table::{columns, names},
};

/// The statements that read and write the rows of a table by their key.
pub struct TableSql {
    pub get: String,
    /// Inserts a row without the columns after its last value, which are null. There is a statement
    /// for each number of columns.
    pub insert: Vec<String>,
    /// Like `insert`, for a row that has the next id of its sequence, which SQLite then assigns.
    /// Given an id, SQLite would check that it is an integer, and copy every page that the
    /// statement and its triggers change, to undo them if it is none.
    pub append: Option<Vec<String>>,
    /// Each column, and the parameter that has its value.
    pub assignments: Vec<String>,
    /// The condition that finds a row by its key.
    has_key: String,
    /// Reads the last id that was given to a row, by the service or by hand.
    pub last_id: Option<String>,
    pub delete: String,
}

impl TableSql {
    /// Returns the statements of a table, which are assembled once.
    pub fn of<T: Keyed>() -> &'static Self {
        static ALL: Memo<&str, TableSql> = Memo::new();
        ALL.get(&T::NAME, Self::assemble::<T>)
    }

    /// Returns the statement that updates some columns of a row: `changed` has a bit for each.
    pub fn update_of<T: Keyed>(&self, changed: u64) -> String {
        let mut set = String::new();
        for (column, assignment) in self.assignments.iter().enumerate() {
            if changed >> column & 1 == 1 {
                set.push_str(if set.is_empty() { "" } else { ", " });
                set.push_str(assignment);
            }
        }
        let table = T::NAME;
        let has_key = &self.has_key;
        format!("UPDATE OR ROLLBACK {table} SET {set} WHERE {has_key}")
    }

    fn assemble<T: Keyed>() -> Self {
        let table = T::NAME;
        let all = T::all_columns();
        let derived = T::columns("").len();
        let insert = |skipped: usize| {
            let statements = (0..=derived).map(|used| {
                let used = &all[skipped..used.max(skipped)];
                let columns = [used, &all[derived..]].concat();
                let parameters = vec!["?"; columns.len()].join(", ");
                let columns = names(&columns);
                // OR ROLLBACK saves the copies of pages that would undo this statement alone. If
                // a constraint fails, the group is undone, and its halves run again.
                format!("INSERT OR ROLLBACK INTO {table} ({columns}) VALUES ({parameters})")
            });
            statements.collect()
        };
        let assignments = (1..)
            .zip(&all)
            .map(|(n, column)| format!("{} = ?{n}", column.name));
        let assignments: Vec<_> = assignments.collect();
        let key = assignments[..T::KEY_COLUMNS].join(" AND ");
        Self {
            get: format!("SELECT {} FROM {table} WHERE {key}", columns::<T>()),
            insert: insert(0),
            append: Sequence::of::<T>().map(|_| insert(1)),
            assignments,
            has_key: key.clone(),
            last_id: Sequence::of::<T>().map(|_| {
                format!(
                    "SELECT max(coalesce((SELECT max(id) FROM {table}), 0),
                                coalesce((SELECT max(seq) FROM sqlite_sequence
                                          WHERE name = '{table}'), 0))"
                )
            }),
            delete: format!("DELETE FROM {table} WHERE {key}"),
        }
    }
}

impl ExplainTables for TableSql {
    fn named<T: Keyed>() -> Vec<NamedSql> {
        let sql = Self::of::<T>();
        let all_columns = (1 << T::all_columns().len()) - (1 << T::KEY_COLUMNS);
        let update = sql.update_of::<T>(all_columns);
        let all = [
            ("get", Some(&sql.get)),
            ("insert", sql.insert.last()),
            ("append", sql.append.as_ref().and_then(|all| all.last())),
            ("last id", sql.last_id.as_ref()),
            ("update", Some(&update)),
            ("delete", Some(&sql.delete)),
        ];
        let named = all.into_iter().filter_map(|(name, text)| {
            Some(NamedSql {
                name: format!("{} {name}", T::NAME),
                text: text?.clone(),
                kinds: Vec::new(),
            })
        });
        named.collect()
    }
}
