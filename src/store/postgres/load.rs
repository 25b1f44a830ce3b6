//! The first round trip of a batch: locks and reads the rows that its commands name.
//!
//! The isolation is READ COMMITTED, so each statement has a snapshot of its own. A statement
//! that locks rows reads nothing else: what other tables say is read by later statements,
//! whose snapshots are taken when the rows are locked. Rows that another transaction has
//! locked are skipped, and commands that would change them deferred.

use std::{convert::Infallible, mem};

use jiff::Timestamp;
use tokio_postgres::Row;

use super::{
    super::{
        Fault,
        error::{Error, MissingRow},
        sql::Sql,
        table::{Columns, Kind, Record, Row as _, Table, Value, columns},
        working_set::{
            Access, ForEachKeys, Keyed, Keys, NewIds, Rows, Sequence, Stored, TableOf, Tables,
            Times, WorkingSet,
        },
    },
    now_micros,
    session::{Failure, Session, Step},
    table_sql::{TableSql, key_arrays, owned_keys},
};
use crate::{
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
pub(super) async fn load(
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
pub(super) fn is_locked(keys: &Keys, tables: &Tables) -> bool {
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
