//! Runs a commit group on SQLite, within a transaction. There is one writer, so the rows
//! that it reads cannot change before it commits.

use rusqlite::{
    CachedStatement, Connection, OptionalExtension, ToSql,
    types::{ToSqlOutput, Value as Owned, ValueRef},
};

use super::{
    super::{
        command::PendingCommand,
        row_keys::{ForEachKeys, Keys, Sequence, TableOf, Tables},
        rows::{ForEachTable, Keyed, Rows, Stored},
        table::{Value, columns},
        tables::StoredPhoto,
        working_set::{NewIds, Times, WorkingSet},
    },
    events::last_sequence,
    read_row,
    table_sql::TableSql,
};
use domain::{
    category::Category,
    order::OrderStatus,
    pet::{PetId, PetStatus},
};

statements! {
    /// Marks an id of a table as taken, though no row has it: ids are never reused.
    TAKE_ID(Int, Text) = "INSERT OR REPLACE INTO sqlite_sequence (seq, name, rowid)
                          SELECT max($1, coalesce(max(seq), 0)), $2, max(rowid)
                          FROM sqlite_sequence WHERE name = $2";
    COUNT_WEBHOOKS() = "SELECT count(*) FROM webhooks";
    /// The status of the order that claims a pet.
    CLAIM(Int) = "SELECT status FROM orders
                  WHERE pet_id = $1 AND status IN ('placed', 'completed')";
    MICROCHIP_HOLDER(Text) = "SELECT id FROM pets
                              WHERE microchip = $1 AND status IS NOT 'sold'";
    SHOWN_PHOTOS(Int) = format!(
        "SELECT {} FROM photos WHERE pet_id = $1 AND removed_at IS NULL",
        columns::<StoredPhoto>()
    );
    IS_CATEGORY_USED(Int) = "SELECT EXISTS (SELECT 1 FROM pets WHERE category_id = $1)";
    CATEGORY_BY_NAME(Text) = format!(
        "SELECT {} FROM categories WHERE folded_name = $1",
        columns::<Category>()
    );
}

/// Decides the commands of a group and writes their changes. Returns the working set.
pub(crate) fn run(
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
    let next_ids = ids.0.each_ref().map(|ids| ids.last().copied());
    for command in commands {
        command.decide(&mut set, &mut ids, false);
    }
    set.tables.each(&mut WriteRows { db, next_ids })?;
    insert(db, &set.events, None)?;
    Ok(set)
}

fn load(db: &Connection, keys: &Keys, set: &mut WorkingSet) -> rusqlite::Result<NewIds> {
    set.last_event = last_sequence(db)?;
    let mut ids = NewIds::default();
    keys.each(&mut LoadRows {
        db,
        tables: &mut set.tables,
        new_ids: keys.new_ids,
        ids: &mut ids,
    })?;
    let ordered: Vec<PetId> = set.tables.orders.iter().map(|order| order.pet_id).collect();
    load_rows(db, &ordered, &mut set.tables.pets)?;
    for id in &keys.pets {
        let claim = query_one(db, CLAIM.text(), [id.get()], read_row::<(OrderStatus,)>)?
            .and_then(|(status,)| status.claim());
        set.claims.extend(claim.map(|claim| (*id, claim)));
    }
    for id in &keys.photos_of {
        let mut select = db.prepare_cached(SHOWN_PHOTOS.text())?;
        for photo in select.query_map([id.get()], read_row)? {
            set.tables.photos.load(photo?);
        }
    }
    for name in &keys.category_names {
        let named: Option<Category> = query_one(db, CATEGORY_BY_NAME.text(), [name], read_row)?;
        set.category_names
            .extend(named.map(|category| (name.clone(), category.id)));
    }
    for id in &keys.used_categories {
        let mut is_used = db.prepare_cached(IS_CATEGORY_USED.text())?;
        let is_used = is_used.query_row([id.get()], |row| row.get(0))?;
        set.used_categories.insert(*id, is_used);
    }
    let mut microchips = keys.microchips.clone();
    for pet in set.tables.pets.iter() {
        // It may claim its microchip again.
        if pet.status == Some(PetStatus::Sold) {
            microchips.extend(pet.microchip.clone());
        }
    }
    for microchip in microchips {
        let text = MICROCHIP_HOLDER.text();
        let holder = query_one(db, text, [microchip.as_str()], read_row::<(PetId,)>)?;
        set.microchips
            .extend(holder.map(|(holder,)| (microchip, holder)));
    }
    if keys.counts_webhooks {
        let mut count = db.prepare_cached(COUNT_WEBHOOKS.text())?;
        set.webhook_count = count.query_row([], |row| row.get(0))?;
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

struct LoadRows<'a> {
    db: &'a Connection,
    tables: &'a mut Tables,
    new_ids: [usize; Sequence::ALL.len()],
    ids: &'a mut NewIds,
}

impl<'a> ForEachKeys<'a> for LoadRows<'_> {
    type Error = rusqlite::Error;

    fn visit<T: Stored>(&mut self, keys: &'a [T::Key], table: TableOf<T>) -> rusqlite::Result<()> {
        if let Some(sequence) = Sequence::of::<T>()
            && self.new_ids[sequence as usize] > 0
            && let Some(last_id) = &TableSql::of::<T>().last_id
        {
            let mut last_id = self.db.prepare_cached(last_id)?;
            let last: i64 = last_id.query_row([], |row| row.get(0))?;
            let count = self.new_ids[sequence as usize] as i64;
            let new = last.saturating_add(1)..=last.saturating_add(count);
            self.ids.0[sequence as usize] = new.rev().collect();
        }
        load_rows(self.db, keys, (table.rows_mut)(self.tables))
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

struct WriteRows<'a> {
    db: &'a Connection,
    /// The next id of each sequence, if the group draws ids from it.
    next_ids: [Option<i64>; Sequence::ALL.len()],
}

impl<'a> ForEachTable<'a> for WriteRows<'_> {
    type Error = rusqlite::Error;

    /// Deletes, updates and inserts rows, in this order: a row that ceases to be active makes
    /// room for another in a unique index.
    fn visit<T: Stored>(&mut self, rows: &'a Rows<T>) -> rusqlite::Result<()> {
        let set = rows.write_set();
        for key in set.deletes {
            let mut delete = self.db.prepare_cached(&TableSql::of::<T>().delete)?;
            bind(&mut delete, |put| T::write_key(key, put))?;
            delete.raw_execute()?;
        }
        for (stored, row) in set.updates {
            update(self.db, stored, row)?;
        }
        let sequence = Sequence::of::<T>();
        let next_id = sequence.and_then(|sequence| self.next_ids[sequence as usize]);
        insert(self.db, set.inserts, next_id)?;
        if let (Some(sequence), Some(key)) = (sequence, set.last_withdrawn) {
            let mut take = self.db.prepare_cached(TAKE_ID.text())?;
            bind(&mut take, |put| T::write_key(key, put))?;
            take.raw_bind_parameter(2, sequence.table())?;
            take.raw_execute()?;
        }
        Ok(())
    }
}

/// Updates the columns that have changed: SQLite would also write the indexes of the others.
fn update<T: Keyed>(db: &Connection, stored: &T, row: &T) -> rusqlite::Result<()> {
    let mut before = Vec::new();
    stored.write_all(&mut |value| before.push(value));
    let mut after = Vec::new();
    row.write_all(&mut |value| after.push(value));
    let columns = before.iter().zip(&after).enumerate();
    let changed = columns
        .filter(|(_, (before, after))| before != after)
        .fold(0, |columns, (column, _)| columns | 1 << column);
    // The rows may differ in what is not stored, such as nanoseconds.
    if changed == 0 {
        return Ok(());
    }
    let text = TableSql::of::<T>().update_of::<T>(changed);
    let mut update = db.prepare_cached(&text)?;
    for (column, value) in after.iter().enumerate() {
        if column < T::KEY_COLUMNS || changed >> column & 1 == 1 {
            update.raw_bind_parameter(column + 1, value)?;
        }
    }
    update.raw_execute().map(drop)
}

/// Inserts rows, by ascending key. `next_id` is the next id of their sequence, if they have one.
fn insert<'a, T: Keyed>(
    db: &Connection,
    rows: impl IntoIterator<Item = &'a T>,
    mut next_id: Option<i64>,
) -> rusqlite::Result<()> {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let sql = TableSql::of::<T>();
    let derived = sql.insert.len() - 1;
    let mut last: Option<(&str, CachedStatement)> = None;
    for row in rows {
        let is_next = next_id.is_some_and(|next| has_id(row, next));
        let (statements, skipped) = match &sql.append {
            Some(append) if is_next => (append, 1),
            _ => (&sql.insert, 0),
        };
        let mut values = Vec::with_capacity(sql.assignments.len());
        row.write_all(&mut |value| values.push(value));
        let mut used = derived;
        while used > 0 && matches!(values[used - 1], Value::Null) {
            used -= 1;
        }
        let text = statements[used].as_str();
        if last.as_ref().is_none_or(|(last, _)| *last != text) {
            last = Some((text, db.prepare_cached(text)?));
        }
        let (_, statement) = last.as_mut().expect("it was prepared");
        let bound = values[skipped..used].iter().chain(&values[derived..]);
        for (parameter, value) in (1..).zip(bound) {
            statement.raw_bind_parameter(parameter, value)?;
        }
        statement.raw_execute()?;
        if is_next {
            let assigned = Some(db.last_insert_rowid());
            assert_eq!(assigned, next_id, "there is no other writer");
            next_id = next_id.map(|id| id.saturating_add(1));
        }
    }
    Ok(())
}

fn has_id<T: Keyed>(row: &T, id: i64) -> bool {
    let mut is_equal = false;
    T::write_key(&row.key(), &mut |value| is_equal = value == Value::Int(id));
    is_equal
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
