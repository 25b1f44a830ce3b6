//! Runs a batch of commands on SQLite, within a transaction. There is one writer, so what it
//! reads cannot change before it commits.

use rusqlite::{
    CachedStatement, Connection, OptionalExtension, ToSql,
    types::{ToSqlOutput, Value as Owned, ValueRef},
};

use super::{
    super::{
        admin::{ExplainTables, NamedSql},
        command::PendingCommand,
        rows::{ForEachTable, Keyed, Rows, Stored},
        sql::Memo,
        table::{Value, columns, names},
        tables::{EventRow, ForEachKeys, Keys, Sequence, TableOf, Tables},
        working_set::{NewIds, Times, WorkingSet},
    },
    events::last_sequence,
    read_row,
};
use crate::{category::Category, order::OrderStatus, pet::PetId};

statements! {
    /// The last id that was given to a row of a table.
    LAST_ID(Text) = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = $1";
    COUNT_WEBHOOKS() = "SELECT count(*) FROM webhooks";
    /// The status of the order that claims a pet.
    CLAIM(Int) = "SELECT status FROM orders
                  WHERE pet_id = $1 AND status IN ('placed', 'completed')";
    CATEGORY_BY_NAME(Text) = format!(
        "SELECT {} FROM categories WHERE folded_name = $1",
        columns::<Category>()
    );
}

/// The statements that read and write the rows of a table by their key.
pub(super) struct TableSql {
    get: String,
    insert: String,
    delete: String,
}

impl TableSql {
    /// They are assembled once.
    pub(super) fn of<T: Keyed>() -> &'static Self {
        static ALL: Memo<&str, TableSql> = Memo::new();
        ALL.get(&T::NAME, Self::assemble::<T>)
    }

    /// The statement that updates some columns of a row: a bit for each. Few sets of columns
    /// change together.
    fn update_of<T: Keyed>(changed: u64) -> &'static str {
        static ALL: Memo<(&str, u64), String> = Memo::new();
        ALL.get(&(T::NAME, changed), || {
            let mut key = assignments::<T>();
            let values = key.split_off(T::KEY_COLUMNS).into_iter();
            let values = (T::KEY_COLUMNS..).zip(values);
            let values = values.filter(|(column, _)| changed >> column & 1 == 1);
            let values: Vec<_> = values.map(|(_, assignment)| assignment).collect();
            let (table, values, key) = (T::NAME, values.join(", "), key.join(" AND "));
            format!("UPDATE OR ROLLBACK {table} SET {values} WHERE {key}")
        })
    }

    fn assemble<T: Keyed>() -> Self {
        let all = T::all_columns();
        let parameters = vec!["?"; all.len()].join(", ");
        let (table, key) = (T::NAME, assignments::<T>()[..T::KEY_COLUMNS].join(" AND "));
        Self {
            get: format!("SELECT {} FROM {table} WHERE {key}", columns::<T>()),
            // OR ROLLBACK saves the copies of pages that would undo this statement alone. If a
            // constraint fails, the batch is undone, and its halves run again.
            insert: format!(
                "INSERT OR ROLLBACK INTO {table} ({}) VALUES ({parameters})",
                names(&all)
            ),
            delete: format!("DELETE FROM {table} WHERE {key}"),
        }
    }
}

/// Each column, and the parameter that has its value.
fn assignments<T: Keyed>() -> Vec<String> {
    let columns = (1..).zip(T::all_columns());
    let assignments = columns.map(|(n, column)| format!("{} = ?{n}", column.name));
    assignments.collect()
}

impl ExplainTables for TableSql {
    fn named<T: Keyed>() -> Vec<NamedSql> {
        let all_columns = (1 << T::all_columns().len()) - (1 << T::KEY_COLUMNS);
        let update = String::from(Self::update_of::<T>(all_columns));
        let sql = Self::of::<T>();
        [
            ("get", &sql.get),
            ("insert", &sql.insert),
            ("update", &update),
            ("delete", &sql.delete),
        ]
        .map(|(name, text)| NamedSql {
            name: format!("{} {name}", T::NAME),
            text: text.clone(),
            kinds: Vec::new(),
        })
        .into()
    }
}

/// Decides the commands of a batch and writes what they change. Returns the working set.
pub(in super::super) fn run(
    db: &Connection,
    commands: &mut [Box<dyn PendingCommand>],
    times: Times,
) -> rusqlite::Result<WorkingSet> {
    let mut keys = Keys::default();
    for command in commands.iter() {
        command.keys(&mut keys);
    }
    let mut set = WorkingSet::new(times);
    let mut ids = load(db, &keys, &mut set)?;
    for command in commands {
        command.decide(&mut set, &mut ids, false);
    }
    write(db, &set)?;
    Ok(set)
}

fn load(db: &Connection, keys: &Keys, set: &mut WorkingSet) -> rusqlite::Result<NewIds> {
    set.last_event = last_sequence(db)?;
    keys.each(&mut LoadRows(db, &mut set.tables))?;
    let ordered: Vec<PetId> = set.tables.orders.iter().map(|order| order.pet_id).collect();
    load_rows(db, &ordered, &mut set.tables.pets)?;
    for id in &keys.pets {
        let claim = query_one(db, CLAIM.text(), [id.get()], read_row::<(OrderStatus,)>)?;
        let claim = claim.and_then(|(status,)| status.claim());
        set.claims.extend(claim.map(|claim| (*id, claim)));
    }
    for name in &keys.category_names {
        let named: Option<Category> = query_one(db, CATEGORY_BY_NAME.text(), [name], read_row)?;
        set.category_names
            .extend(named.map(|category| (name.clone(), category.id)));
    }
    if keys.counts_webhooks {
        let mut count = db.prepare_cached(COUNT_WEBHOOKS.text())?;
        set.webhook_count = count.query_row([], |row| row.get(0))?;
    }
    let mut ids = NewIds::default();
    for (sequence, count) in Sequence::ALL.into_iter().zip(keys.new_ids) {
        if count > 0 {
            let mut last = db.prepare_cached(LAST_ID.text())?;
            let last: i64 = last.query_row([sequence.table()], |row| row.get(0))?;
            let new = last + 1..=last + count as i64;
            ids.0[sequence as usize] = new.rev().collect();
        }
    }
    Ok(ids)
}

fn query_one<T>(
    db: &Connection,
    sql: &str,
    parameters: impl rusqlite::Params,
    read: impl FnOnce(&rusqlite::Row) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    db.prepare_cached(sql)?
        .query_row(parameters, read)
        .optional()
}

struct LoadRows<'a>(&'a Connection, &'a mut Tables);

impl<'a> ForEachKeys<'a> for LoadRows<'_> {
    type Error = rusqlite::Error;

    fn visit<T: Stored>(&mut self, keys: &'a [T::Key], table: TableOf<T>) -> rusqlite::Result<()> {
        load_rows(self.0, keys, (table.rows_mut)(self.1))
    }
}

fn load_rows<T: Keyed>(
    db: &Connection,
    keys: &[T::Key],
    rows: &mut Rows<T>,
) -> rusqlite::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut select = db.prepare_cached(&TableSql::of::<T>().get)?;
    for key in keys {
        bind(&mut select, |put| T::write_key(key, put))?;
        if let Some(row) = select.raw_query().next()? {
            rows.load(read_row(row)?);
        }
    }
    Ok(())
}

fn write(db: &Connection, set: &WorkingSet) -> rusqlite::Result<()> {
    set.tables.each(&mut WriteRows(db))?;
    let events: Vec<_> = set.events.iter().collect();
    write_each(db, &TableSql::of::<EventRow>().insert, &events)
}

struct WriteRows<'a>(&'a Connection);

impl<'a> ForEachTable<'a> for WriteRows<'_> {
    type Error = rusqlite::Error;

    /// Deletes, updates and inserts rows, in this order: a row that ceases to be active makes
    /// room for another in a unique index.
    fn visit<T: Stored>(&mut self, rows: &'a Rows<T>) -> rusqlite::Result<()> {
        let Self(db) = self;
        let set = rows.write_set();
        let sql = TableSql::of::<T>();
        for key in set.deletes {
            let mut delete = db.prepare_cached(&sql.delete)?;
            bind(&mut delete, |put| T::write_key(key, put))?;
            delete.raw_execute()?;
        }
        for (stored, row) in set.updates {
            update(db, stored, row)?;
        }
        write_each(db, &sql.insert, &set.inserts)
    }
}

/// Updates the columns that have changed: SQLite would also write the indexes of the others.
fn update<T: Keyed>(db: &Connection, stored: &T, row: &T) -> rusqlite::Result<()> {
    let mut before = Vec::new();
    stored.write_all(&mut |value| before.push(value));
    let mut after = Vec::new();
    row.write_all(&mut |value| after.push(value));
    let columns = before.iter().zip(&after).enumerate();
    let changed = columns.filter(|(_, (before, after))| before != after);
    let changed = changed.fold(0, |columns, (column, _)| columns | 1 << column);
    // They may differ in what is not stored, such as nanoseconds.
    if changed == 0 {
        return Ok(());
    }
    let mut update = db.prepare_cached(TableSql::update_of::<T>(changed))?;
    for (column, value) in after.iter().enumerate() {
        if column < T::KEY_COLUMNS || changed >> column & 1 == 1 {
            update.raw_bind_parameter(column + 1, value)?;
        }
    }
    update.raw_execute().map(drop)
}

fn write_each<T: Keyed>(db: &Connection, sql: &str, rows: &[&T]) -> rusqlite::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut statement = db.prepare_cached(sql)?;
    for row in rows {
        bind(&mut statement, |put| row.write_all(put))?;
        statement.raw_execute()?;
    }
    Ok(())
}

/// Binds the values that `write` puts to the parameters of a statement.
fn bind<'a>(
    statement: &mut CachedStatement<'_>,
    write: impl FnOnce(&mut dyn FnMut(Value<'a>)),
) -> rusqlite::Result<()> {
    let mut parameter = 0;
    let mut bound = Ok(());
    write(&mut |value| {
        parameter += 1;
        if bound.is_ok() {
            bound = statement.raw_bind_parameter(parameter, value);
        }
    });
    bound
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Owned::Null),
            Self::Int(int) => ToSqlOutput::Owned(Owned::Integer(*int)),
            Self::Bool(bool) => ToSqlOutput::Owned(Owned::Integer(i64::from(*bool))),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}
