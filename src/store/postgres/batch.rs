//! Runs a batch of commands on PostgreSQL, in one transaction of two round trips: the first
//! locks and reads the rows that the commands name, the second writes what they decided, and
//! commits. Commands that only create pets take one.
//!
//! The isolation is READ COMMITTED, so each statement has a snapshot of its own. A statement
//! that locks rows reads nothing else: what other tables say is read by later statements,
//! whose snapshots are taken when the rows are locked. Rows that another transaction has
//! locked are skipped, and commands that would change them deferred.

use std::{
    convert::Infallible,
    mem,
    sync::{Arc, LazyLock},
};

use jiff::Timestamp;
use tokio_postgres::Row;

use super::{
    super::{
        Fault,
        admin::{ExplainTables, NamedSql},
        command::PendingCommand,
        error::{Error, MissingRow},
        sql::{Memo, Sql},
        table::{Column, Columns, Field, Kind, Record, Row as _, Table, Value, columns, names},
        tables::EventRow,
        working_set::{
            Access, ForEachKeys, ForEachTable, Keyed, Keys, NewIds, Rows, Sequence, Stored,
            TableOf, Tables, Times, WorkingSet, WriteSet,
        },
    },
    error::PostgresError,
    now_micros,
    session::{Session, Step},
};
use crate::{
    event::EventType,
    order::{Order, OrderStatus},
    pet::{Pet, PetId},
};

statements! {
    /// The time, the newest event, and new ids of every sequence.
    DRAW(Int, Int, Int, Int) = {
        let ids = (1..).zip(Sequence::ALL).map(|(parameter, sequence)| {
            format!(
                "ARRAY(SELECT nextval('{}_id_seq') FROM generate_series(1, ${parameter}))",
                sequence.table()
            )
        });
        let ids = ids.collect::<Vec<_>>().join(", ");
        format!(
            "SELECT {}, CASE WHEN is_called THEN last_value ELSE 0 END, {ids}
             FROM events_sequence_seq",
            now_micros()
        )
    };
    LOCK_PETS(Ints, Ints) = format!("{} FOR NO KEY UPDATE SKIP LOCKED", select_pets());
    /// Pets that could not be locked, and those of orders that could not, with the orders that
    /// claim them, in one snapshot: what is rejected whatever happens to them need not wait.
    LOCKED_PETS(Ints, Ints) = format!(
        "SELECT {}, (SELECT status FROM orders
                     WHERE pet_id = pets.id AND status IN ('placed', 'completed'))
         FROM pets WHERE {PETS_AND_THOSE_OF_ORDERS}",
        columns::<Pet>()
    );
    /// The orders that claim pets.
    CLAIMS(Ints) = "SELECT pet_id, status FROM orders
         WHERE pet_id = ANY($1) AND status IN ('placed', 'completed')";
    CATEGORIES_BY_NAME(Texts) =
        "SELECT folded_name, id FROM categories WHERE folded_name = ANY($1)";
    COUNT_WEBHOOKS() = "SELECT count_webhooks()";
}

/// The statement that takes the place of [`LOCK_PETS`] with [`Fault::UnlockedRows`].
static READ_PETS: Sql = Sql::new("read_pets", &[Kind::Ints, Kind::Ints], select_pets);
/// The time that other transactions have to commit in with [`Fault::EarlyClaims`].
static PAUSE: Sql = Sql::new("pause", &[], || "SELECT pg_sleep(0.002)".into());

/// The condition for the pets with the ids `$1`, and those of the orders `$2`: the pet of an
/// order never changes.
const PETS_AND_THOSE_OF_ORDERS: &str = "id = ANY(ARRAY(
             SELECT unnest($1) UNION SELECT pet_id FROM orders WHERE id = ANY($2)))";

fn select_pets() -> String {
    format!(
        "SELECT {} FROM pets WHERE {PETS_AND_THOSE_OF_ORDERS}",
        columns::<Pet>()
    )
}

/// Creates pets, whose ids are drawn here, and logs it. There is no rule in it: it saves creates
/// a round trip. `data` is the JSON of a pet after its id.
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
    let kinds = columns.iter().map(|column| column.kind);
    let kinds = kinds.chain([Kind::Int, Kind::Text]).map(Kind::array);
    Sql::owned("create_pets", text, kinds)
});

/// The statements that read and write the rows of a table by their key.
pub(super) struct TableSql {
    /// Reads and locks rows, but not those that another transaction has locked.
    lock: Sql,
    /// Reads rows, locked or not.
    find: Sql,
    insert: Sql,
    update: Sql,
    delete: Sql,
}

impl TableSql {
    /// They are assembled once.
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
            .map(|column| format!("{0} = new.{0}", column.name));
        let set = set.collect::<Vec<_>>().join(", ");
        let has_key = match key {
            [id] => format!("{} = ANY($1)", id.name),
            _ => format!(
                "({}) IN (SELECT * FROM unnest({}))",
                names(key),
                parameters(key.len())
            ),
        };
        let sql = |text: String, columns: &[Column]| {
            Sql::owned(
                table,
                text,
                columns.iter().map(|column| column.kind.array()),
            )
        };
        Self {
            lock: sql(
                format!("SELECT {read} FROM {table} WHERE {has_key} FOR NO KEY UPDATE SKIP LOCKED"),
                key,
            ),
            find: sql(format!("SELECT {read} FROM {table} WHERE {has_key}"), key),
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
                format!(
                    "UPDATE {table} SET {set} FROM unnest({}) AS new ({}) WHERE {same_key}",
                    parameters(all.len()),
                    names(&all)
                ),
                &all,
            ),
            delete: sql(format!("DELETE FROM {table} WHERE {has_key}"), key),
        }
    }
}

impl ExplainTables for TableSql {
    fn named<T: Keyed>() -> Vec<NamedSql> {
        let sql = Self::of::<T>();
        [
            ("lock", &sql.lock),
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

/// `$1, $2, …`
fn parameters(count: usize) -> String {
    let numbers = 1..=count;
    let parameters = numbers.map(|number| format!("${number}"));
    parameters.collect::<Vec<_>>().join(", ")
}

/// An array for each of `count` columns, with the values that `write` puts for each row.
fn arrays<'a, R: 'a>(
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

fn key_arrays<'a, T: Keyed>(keys: impl IntoIterator<Item = &'a T::Key>) -> Vec<Vec<Value<'a>>> {
    arrays(keys, T::KEY_COLUMNS, T::write_key)
}

fn owned_keys<'a, T: Keyed>(
    keys: impl IntoIterator<Item = &'a T::Key>,
) -> Vec<Vec<Value<'static>>> {
    let arrays = key_arrays::<T>(keys).into_iter();
    let owned = |array: Vec<Value<'_>>| array.into_iter().map(Value::into_owned).collect();
    arrays.map(owned).collect()
}

/// The result of [`DRAW`].
struct Drawn {
    now: Timestamp,
    last_event: i64,
    ids: NewIds,
}

impl Drawn {
    fn read(rows: &[Row]) -> Result<Self, Error> {
        let row = rows.first().ok_or(MissingRow)?;
        let (now, last_event) = Record::from_row(row)?;
        let mut ids = NewIds::default();
        for (index, ids) in ids.0.iter_mut().enumerate() {
            let drawn = row.try_get::<_, Vec<i64>>(index + 2);
            *ids = drawn.map_err(|error| Row::corrupt(index, error))?;
            ids.reverse();
        }
        Ok(Self {
            now,
            last_event,
            ids,
        })
    }
}

/// The reason why a batch was not committed.
pub(super) enum Failure {
    /// Nothing was changed.
    RolledBack(PostgresError),
    /// A row is not valid. Nothing was changed.
    Corrupt(Error),
    /// The outcome of COMMIT is not known.
    Unknown(Error),
}

/// The outcome of a committed batch.
pub(super) struct Outcome {
    /// For each command, whether it was not executed, because another transaction has locked
    /// one of its rows.
    pub(super) deferred: Vec<bool>,
    /// The number of commands that have changed what clients see.
    pub(super) writes: usize,
}

/// Runs a batch and commits it.
pub(super) async fn run(
    session: &Session<'_>,
    commands: &mut [Box<dyn PendingCommand>],
    fault: Option<Fault>,
) -> Result<Outcome, Failure> {
    let mut keys = Keys::default();
    for command in commands.iter() {
        command.keys(&mut keys);
    }
    let new_pets = keys.new_ids[Sequence::Pets as usize];
    if keys.is_empty() && new_pets == commands.len() {
        return create_pets(session, commands).await;
    }
    let (mut set, mut ids) = match load(session, &keys, fault).await {
        Ok(loaded) => loaded,
        Err(failure) => {
            match &failure {
                Failure::RolledBack(error) => session.roll_back(error).await,
                Failure::Corrupt(_) | Failure::Unknown(_) => session.end_transaction().await,
            }
            return Err(failure);
        }
    };
    let mut deferred = Vec::with_capacity(commands.len());
    for command in commands {
        let mut keys = Keys::default();
        command.keys(&mut keys);
        let is_locked = is_locked(&keys, &set.tables);
        deferred.push(!command.decide(&mut set, &mut ids, is_locked));
    }
    write(session, &set).await?;
    Ok(Outcome {
        deferred,
        writes: set.writes,
    })
}

/// Runs commands that create pets and read nothing, in one round trip. They are decided twice:
/// to learn what is stored, with ids that stand for the order of the pets, and then with the
/// ids that the server has assigned.
async fn create_pets(
    session: &Session<'_>,
    commands: &mut [Box<dyn PendingCommand>],
) -> Result<Outcome, Failure> {
    let decide = |commands: &mut [Box<dyn PendingCommand>], pets: Vec<i64>| {
        let mut ids = NewIds::default();
        ids.0[Sequence::Pets as usize] = pets;
        let mut set = WorkingSet::new(Times::of_one_clock(Timestamp::now()));
        for command in commands {
            command.decide(&mut set, &mut ids, false);
        }
        set
    };
    let set = decide(commands, (1..=commands.len() as i64).rev().collect());
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
    let ids = rows.pop().unwrap_or_default();
    let ids = ids
        .iter()
        .rev()
        .map(|row| Record::from_row(row).map(|(id,)| id));
    let ids: Vec<i64> = ids.collect::<Result<_, Error>>().unwrap_or_default();
    if ids.len() != commands.len() {
        // An operator's trigger may have skipped rows. There is no telling which.
        return Err(Failure::Unknown(Error::OutcomeUnknown(Arc::new(
            RowCountMismatch,
        ))));
    }
    let set = decide(commands, ids);
    Ok(Outcome {
        deferred: vec![false; commands.len()],
        writes: set.writes,
    })
}

#[derive(Debug, thiserror::Error)]
#[error("the server did not return a row for every new pet; was a trigger or rule added?")]
struct RowCountMismatch;

/// The statements of a round trip that reads, and what is done with the rows of each.
#[derive(Default)]
struct Reads<'a> {
    steps: Vec<Step<'a>>,
    apply: Vec<Apply>,
    fault: Option<Fault>,
}

type Apply = Box<dyn FnOnce(&[Row], &mut WorkingSet) -> Result<(), Error> + Send>;

impl<'a> Reads<'a> {
    fn push(
        &mut self,
        step: Step<'a>,
        apply: impl FnOnce(&[Row], &mut WorkingSet) -> Result<(), Error> + Send + 'static,
    ) {
        self.steps.push(step);
        self.apply.push(Box::new(apply));
    }

    /// Adds the rows that a statement returns to a table.
    fn load<T: Keyed>(&mut self, step: Step<'a>, rows_mut: fn(&mut Tables) -> &mut Rows<T>) {
        self.push(step, move |rows, set| {
            for row in rows {
                rows_mut(&mut set.tables).load(T::from_row(row)?);
            }
            Ok(())
        });
    }

    /// Reads the orders that claim pets.
    fn claims(&mut self, pets: &'a [PetId]) {
        if !pets.is_empty() {
            let claims = Step::arrays(&CLAIMS, key_arrays::<Pet>(pets));
            self.push(claims, |rows, set| {
                for row in rows {
                    let (pet, status) = <(PetId, OrderStatus)>::from_row(row)?;
                    set.claims.extend(status.claim().map(|claim| (pet, claim)));
                }
                Ok(())
            });
        }
    }

    fn apply(
        self,
        results: impl Iterator<Item = Vec<Row>>,
        set: &mut WorkingSet,
    ) -> Result<(), Failure> {
        for (apply, rows) in self.apply.into_iter().zip(results) {
            apply(&rows, set).map_err(Failure::Corrupt)?;
        }
        Ok(())
    }
}

/// Locks and loads the rows of all tables but pets.
impl<'a> ForEachKeys<'a> for Reads<'a> {
    type Error = Infallible;

    fn visit<T: Stored>(
        &mut self,
        keys: &'a [T::Key],
        table: TableOf<T>,
    ) -> Result<(), Infallible> {
        if !keys.is_empty() && T::NAME != Pet::NAME {
            let sql = TableSql::of::<T>();
            let select = match (T::ACCESS, self.fault) {
                (Access::Unlocked, _) | (_, Some(Fault::UnlockedRows)) => &sql.find,
                (Access::Locked, _) => &sql.lock,
            };
            self.load(Step::arrays(select, key_arrays::<T>(keys)), table.rows_mut);
        }
        Ok(())
    }
}

/// The first round trip. Rows are locked in the same order by every batch.
async fn load(
    session: &Session<'_>,
    keys: &Keys,
    fault: Option<Fault>,
) -> Result<(WorkingSet, NewIds), Failure> {
    let counts = keys.new_ids.map(|count| Value::Int(count as i64));
    let mut reads = Reads {
        fault,
        ..Reads::default()
    };
    if fault == Some(Fault::EarlyClaims) {
        reads.claims(&keys.pets);
        reads.push(Step::query(&PAUSE, []), |_, _| Ok(()));
    }
    if !keys.pets.is_empty() || !keys.orders.is_empty() {
        let lock = match fault {
            Some(Fault::UnlockedRows) => &READ_PETS,
            _ => &LOCK_PETS,
        };
        let mut pets_and_orders = key_arrays::<Pet>(&keys.pets);
        pets_and_orders.extend(key_arrays::<Order>(&keys.orders));
        reads.load(Step::arrays(lock, pets_and_orders), |tables| {
            &mut tables.pets
        });
    }
    let Ok(()) = keys.each(&mut reads);
    if fault != Some(Fault::EarlyClaims) {
        reads.claims(&keys.pets);
    }
    if !keys.category_names.is_empty() {
        let names = keys.category_names.iter();
        let names = names.map(|name| Value::text(name.as_str())).collect();
        let find = Step::arrays(&CATEGORIES_BY_NAME, vec![names]);
        reads.push(find, |rows, set| {
            for row in rows {
                let (name, id) = Record::from_row(row)?;
                set.category_names.insert(name, id);
            }
            Ok(())
        });
    }
    if keys.counts_webhooks {
        reads.push(Step::query(&COUNT_WEBHOOKS, []), |rows, set| {
            (set.webhook_count,) = Record::from_row(rows.first().ok_or(MissingRow)?)?;
            Ok(())
        });
    }
    let discard = session.connection.should_replan().then(Step::discard_plans);
    let before_draw = 1 + usize::from(discard.is_some());
    let steps = discard
        .into_iter()
        .chain([Step::begin(), Step::query(&DRAW, counts)])
        .chain(mem::take(&mut reads.steps))
        .collect();
    let results = session.pipeline(steps).await.map_err(Failure::RolledBack)?;
    let mut results = results.into_iter().skip(before_draw);
    let drawn = Drawn::read(&results.next().unwrap_or_default()).map_err(Failure::Corrupt)?;
    let mut set = WorkingSet::new(Times::of_one_clock(drawn.now));
    set.last_event = drawn.last_event;
    reads.apply(results, &mut set)?;
    find_locked(session, keys, &mut set).await?;
    Ok((set, drawn.ids))
}

/// Loads the rows that exist although they could not be locked, in another round trip, and
/// remembers that they are locked.
async fn find_locked(
    session: &Session<'_>,
    keys: &Keys,
    set: &mut WorkingSet,
) -> Result<(), Failure> {
    let mut find = FindLocked {
        tables: &set.tables,
        reads: Reads::default(),
    };
    let Ok(()) = keys.each(&mut find);
    let mut reads = find.reads;
    let tables = &set.tables;
    let ordered = tables.orders.iter().map(|order| order.pet_id);
    let pets = ordered.chain(keys.pets.iter().copied());
    let pets: Vec<_> = pets.filter(|id| !tables.pets.is_loaded(id)).collect();
    let orders = keys.orders.iter().filter(|id| !tables.orders.is_loaded(id));
    let orders: Vec<_> = orders.copied().collect();
    if !pets.is_empty() || !orders.is_empty() {
        let pets_and_orders = [owned_keys::<Pet>(&pets), owned_keys::<Order>(&orders)].concat();
        let select = Step::arrays(&LOCKED_PETS, pets_and_orders);
        reads.push(select, |rows, set| {
            for row in rows {
                let mut columns = Columns::of(row);
                let pet = Pet::read(&mut columns)?;
                let claim = columns.next::<Option<OrderStatus>>()?;
                // This transaction has locked it.
                if set.tables.pets.is_loaded(&pet.id) {
                    continue;
                }
                set.claims.remove(&pet.id);
                let claim = claim.and_then(OrderStatus::claim);
                set.claims.extend(claim.map(|claim| (pet.id, claim)));
                set.tables.pets.load_locked(pet);
            }
            Ok(())
        });
    }
    if reads.steps.is_empty() {
        return Ok(());
    }
    let results = session.pipeline(mem::take(&mut reads.steps)).await;
    let results = results.map_err(Failure::RolledBack)?;
    reads.apply(results.into_iter(), set)
}

/// Collects the rows that should be locked, and were not loaded, of all tables but pets.
struct FindLocked<'t> {
    tables: &'t Tables,
    reads: Reads<'static>,
}

impl<'a> ForEachKeys<'a> for FindLocked<'_> {
    type Error = Infallible;

    fn visit<T: Stored>(
        &mut self,
        keys: &'a [T::Key],
        table: TableOf<T>,
    ) -> Result<(), Infallible> {
        let rows = (table.rows)(self.tables);
        let missing: Vec<_> = keys.iter().filter(|key| !rows.is_loaded(key)).collect();
        if missing.is_empty() || T::ACCESS == Access::Unlocked || T::NAME == Pet::NAME {
            return Ok(());
        }
        let find = &TableSql::of::<T>().find;
        let select = Step::arrays(find, owned_keys::<T>(missing));
        self.reads.push(select, move |rows, set| {
            for row in rows {
                (table.rows_mut)(&mut set.tables).load_locked(T::from_row(row)?);
            }
            Ok(())
        });
        Ok(())
    }
}

/// Returns true if another transaction has locked a row that a command reads, or the next batch
/// has to decide about it.
fn is_locked(keys: &Keys, tables: &Tables) -> bool {
    struct AnyLocked<'t>(&'t Tables, bool);
    impl<'a> ForEachKeys<'a> for AnyLocked<'_> {
        type Error = Infallible;

        fn visit<T: Stored>(
            &mut self,
            keys: &'a [T::Key],
            table: TableOf<T>,
        ) -> Result<(), Infallible> {
            let rows = (table.rows)(self.0);
            let must_wait =
                |key| rows.is_locked(key) || (T::IS_DECIDED_BY_INDEX && rows.is_changed(key));
            self.1 |= keys.iter().any(must_wait);
            Ok(())
        }
    }
    let mut any = AnyLocked(tables, false);
    let Ok(()) = keys.each(&mut any);
    let mut orders = keys.orders.iter().filter_map(|id| tables.orders.get(id));
    any.1 || orders.any(|order| tables.pets.is_locked(&order.pet_id))
}

/// The second round trip.
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
