//! Runs a commit group on PostgreSQL, in one transaction of two round trips: the first
//! locks and reads the rows that the commands name, the second writes what they decided, and
//! commits. Commands that only create pets take one.

use std::{
    convert::Infallible,
    slice,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    super::{
        Fault,
        command::PendingCommand,
        error::Error,
        event_row::EventRow,
        row_keys::{Keys, Sequence},
        rows::{ForEachTable, Rows, Stored, WriteSet},
        sql::Sql,
        table::{Field, Kind, Record, Table, Value, names},
        working_set::{NewIds, Times, WorkingSet},
    },
    load::{is_locked, load},
    now_micros,
    session::{Failure, Session, Step},
    table_sql::{TableSql, arrays, key_arrays, parameters},
};
use domain::{event::EventType, pet::Pet};

/// Creates pets, with ids that the server draws, and logs their creation, in one statement: this
/// saves creates the round trip that would draw the ids. It contains no business rule. `data` is
/// the part of a pet's JSON after the id, which the caller does not know yet.
pub(super) static CREATE_PETS: LazyLock<Sql> = LazyLock::new(|| {
    let columns = Pet::all_columns().split_off(1);
    let text = format!(
        "WITH new AS MATERIALIZED (
             SELECT nextval('pets_id_seq') AS id, new.*
             FROM unnest({parameters}) WITH ORDINALITY AS new ({names}, api_key_id, data, ordinal),
                  set_config('petstore.logs', 'on', true)
         ), created AS (
             INSERT INTO pets (id, {names}) SELECT id, {names} FROM new ORDER BY ordinal
         ), logged AS (
             INSERT INTO events (at, type, api_key_id, resource_id, data)
             SELECT {now}, '{created}', api_key_id, id, concat('{{\"id\":', id, data)
             FROM new ORDER BY ordinal
         )
         SELECT id FROM new ORDER BY ordinal",
        parameters = parameters(columns.len() + 2),
        names = names(&columns),
        now = now_micros(),
        created = EventType::PetCreated.as_str()
    );
    let kinds = columns
        .iter()
        .map(|column| column.kind)
        .chain([Kind::Int, Kind::Text])
        .map(Kind::array);
    Sql::owned("create_pets", text, kinds)
});

/// A command in the queue of a writer, and its attempts so far.
pub(super) struct QueueEntry {
    pub(super) command: Box<dyn PendingCommand>,
    /// The start of the first group that found one of its rows locked.
    pub(super) locked_since: Option<Instant>,
    /// The time at which the lock-queue writer last gave up waiting for its rows.
    pub(super) last_timeout: Option<Instant>,
    /// True if the last group was committed without this command, because another transaction
    /// has locked one of its rows.
    pub(super) is_deferred: bool,
}

/// Returns the rows and ids that commands need.
pub(super) fn keys_of(group: &[QueueEntry]) -> Keys {
    let mut keys = Keys::default();
    for queued in group {
        queued.command.keys(&mut keys);
    }
    keys
}

/// Runs a group and commits it. With `waits_for_locks`, it first waits for the rows of its first
/// command, and locks the rows of the other commands only afterwards. Returns the number of
/// commands that have changed what clients see.
pub(super) async fn run(
    session: &Session<'_>,
    group: &mut [QueueEntry],
    waits_for_locks: bool,
    fault: Option<Fault>,
) -> Result<usize, Failure> {
    let keys = keys_of(group);
    let new_pets = keys.new_ids[Sequence::Pets as usize];
    if keys.is_empty() && new_pets == group.len() {
        return create_pets(session, group).await;
    }
    let awaited = waits_for_locks.then(|| keys_of(&group[..1]));
    let loaded = load(session, awaited.as_ref(), &keys, fault).await;
    let (mut set, mut ids) = match loaded {
        Ok(loaded) => loaded,
        Err(failure) => {
            session.roll_back(&failure).await;
            return Err(failure);
        }
    };
    for queued in group {
        let is_locked = is_locked(&keys_of(slice::from_ref(queued)), &set.tables);
        queued.is_deferred = !queued.command.decide(&mut set, &mut ids, is_locked);
    }
    write(session, &set).await?;
    Ok(set.writes)
}

/// Runs commands that create pets and read nothing, in one round trip. Each command is decided
/// twice: first with a provisional id, to learn what to store, and after the commit with the id
/// that the server has assigned, for its result.
async fn create_pets(session: &Session<'_>, group: &mut [QueueEntry]) -> Result<usize, Failure> {
    let decide = |group: &mut [QueueEntry], pets: Vec<i64>, is_stored| {
        let mut ids = NewIds::default();
        ids.0[Sequence::Pets as usize] = pets;
        let mut set = WorkingSet::new(Times::of_one_clock(Timestamp::now()));
        set.is_stored = is_stored;
        for queued in group {
            queued.is_deferred = !queued.command.decide(&mut set, &mut ids, false);
        }
        set
    };
    let set = decide(group, (1..=group.len() as i64).rev().collect(), false);
    let pets = set.tables.pets.write_set().inserts;
    let mut arrays = arrays(pets, Pet::all_columns().len(), Pet::write_all);
    arrays.remove(0);
    let api_keys = set.events.iter().map(|event| event.api_key_id.to_value());
    arrays.push(api_keys.collect());
    let data = set.events.iter().map(|event| {
        let start = format!("{{\"id\":{}", event.resource_id);
        let rest = event.data.strip_prefix(&start);
        Value::text(rest.expect("the id is the first member of a pet"))
    });
    arrays.push(data.collect());
    let mut rows = session
        .commit(vec![Step::arrays(&CREATE_PETS, arrays)])
        .await?;
    let created = rows.pop().unwrap_or_default();
    let ids: Vec<i64> = created
        .iter()
        .rev()
        .map(|row| Record::from_row(row).map(|(id,)| id))
        .collect::<Result<_, Error>>()
        .unwrap_or_default();
    if ids.len() != group.len() {
        // An operator's trigger may have skipped rows. It is impossible to know which.
        return Err(Failure::Final(Error::OutcomeUnknown(Arc::new(
            RowCountMismatch,
        ))));
    }
    decide(group, ids, true);
    Ok(set.writes)
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not return a row for every new pet; was a trigger or rule added?")]
struct RowCountMismatch;

/// Runs the second round trip: writes the changes and commits.
async fn write(session: &Session<'_>, set: &WorkingSet) -> Result<(), Failure> {
    let mut writes = Writes(Vec::new());
    let Ok(()) = set.tables.each(&mut writes);
    if !set.events.is_empty() {
        let insert = &TableSql::of::<EventRow>().insert;
        let count = EventRow::all_columns().len();
        let mut arrays = arrays(&set.events, count, EventRow::write_all);
        arrays.remove(0);
        writes.0.push(Step::arrays(insert, arrays));
    }
    writes.0.push(Step::commit());
    session.commit(writes.0).await.map(drop)
}

/// The statements that write the rows of all tables.
struct Writes<'a>(Vec<Step<'a>>);

impl<'a> ForEachTable<'a> for Writes<'a> {
    type Error = Infallible;

    /// Deletes, updates and inserts rows, in this order: a row that ceases to be active makes
    /// room for another in a unique index.
    fn visit<T: Stored>(&mut self, rows: &'a Rows<T>) -> Result<(), Infallible> {
        let WriteSet {
            inserts,
            updates,
            deletes,
            last_withdrawn: _,
        } = rows.write_set();
        let sql = TableSql::of::<T>();
        let mut push = |sql, arrays| self.0.push(Step::arrays(sql, arrays));
        let count = T::all_columns().len();
        if !deletes.is_empty() {
            push(&sql.delete, key_arrays::<T>(deletes));
        }
        if !updates.is_empty() {
            let updates = updates.into_iter().map(|(_, row)| row);
            push(&sql.update, arrays(updates, count, T::write_all));
        }
        if !inserts.is_empty() {
            push(&sql.insert, arrays(inserts, count, T::write_all));
        }
        Ok(())
    }
}
