//! The first round trip of a commit group: locks and reads the rows that its commands name.
//!
//! The isolation is READ COMMITTED, so each statement has a snapshot of its own. A statement
//! that locks rows reads nothing else: other tables are read by later statements, whose
//! snapshots are taken when the rows are locked. Rows that another transaction has locked are
//! skipped, unless they are waited for.

use std::{convert::Infallible, mem};

use tokio_postgres::Row;

use super::{
    super::{
        Fault,
        error::{Error, MissingRow},
        row_keys::{ForEachKeys, Keys, Sequence, TableOf, Tables},
        rows::{Access, Keyed, Rows, Stored},
        sql::Sql,
        table::{Record, Row as _, Table, Value, columns},
        tables::StoredPhoto,
        working_set::{NewIds, Times, WorkingSet},
    },
    read_first,
    session::{ALLOW_PAUSE, BEGIN, DISCARD_PLANS, Failure, Session, Step},
    table_sql::{PETS_AND_THOSE_OF_ORDERS, TableSql, key_arrays, owned_keys},
};
use domain::{
    category::Category,
    order::{Order, OrderId, OrderStatus},
    pet::{Pet, PetId},
};

/// The number of pets up to which changes are decided quickly even on a busy machine.
const QUICK_GROUP: usize = 50;

statements! {
    /// The time, the newest event, and new ids of every sequence. The transaction may have
    /// waited since it began, so its own time may be before that of the rows that it changes.
    /// From now on it holds rows, so it waits only briefly for a unique index or an advisory lock.
    DRAW(Ints) = {
        let ids = (1..).zip(Sequence::ALL).map(|(number, sequence)| {
            format!(
                "ARRAY(SELECT nextval('{}_id_seq') FROM generate_series(1, $1[{number}]))",
                sequence.table()
            )
        }).collect::<Vec<_>>().join(", ");
        format!(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
                    CASE WHEN is_called THEN last_value ELSE 0 END, {ids},
                    set_config('lock_timeout', '100ms', true)
             FROM events_sequence_seq"
        )
    };
    /// Limits each wait for a lock: a stopped replica may have locked a row, and others should
    /// get their turn.
    LIMIT_WAIT() = "SELECT set_config('lock_timeout', '300ms', true)";
    /// Pets that could not be locked, and those of orders that could not, with the orders that
    /// claim them, in one snapshot: a command that is rejected in any case need not wait for them.
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
    /// Categories, and whether a pet has them. There is one index of the pets with a status, and
    /// one of those without.
    USED_CATEGORIES(Ints) = "SELECT named.id,
             EXISTS (SELECT 1 FROM pets WHERE category_id = named.id AND status IS NOT NULL)
             OR EXISTS (SELECT 1 FROM pets WHERE category_id = named.id AND status IS NULL)
         FROM unnest($1) AS named (id)";
    /// The pets that have a microchip and are not sold: of microchips, of pets that are sold,
    /// and of the pets of orders.
    MICROCHIP_HOLDERS(Texts, Ints, Ints) = "SELECT microchip, id FROM pets
         WHERE status IS DISTINCT FROM 'sold' AND microchip = ANY($1 || ARRAY(
             SELECT microchip FROM pets
             WHERE status = 'sold' AND microchip IS NOT NULL
                   AND id = ANY($2 || ARRAY(SELECT pet_id FROM orders WHERE id = ANY($3)))))";
    SHOWN_PHOTOS(Ints) = format!(
        "SELECT {} FROM photos WHERE pet_id = ANY($1) AND removed_at IS NULL",
        columns::<StoredPhoto>()
    );
    COUNT_WEBHOOKS() = "SELECT count_webhooks()";
}

/// The time that other transactions have to commit in with [`Fault::EarlyClaims`].
static PAUSE: Sql = Sql::new("pause", &[], || "SELECT pg_sleep(0.01)".into());

/// Reads the result of [`DRAW`].
fn start_set(rows: &[Row]) -> Result<(WorkingSet, NewIds), Error> {
    let row = rows.first().ok_or(MissingRow)?;
    let (now, last_event) = Record::from_row(row)?;
    let mut set = WorkingSet::new(Times::of_one_clock(now));
    set.last_event = last_event;
    let mut ids = NewIds::default();
    for (index, ids) in ids.0.iter_mut().enumerate() {
        let drawn = row.try_get::<_, Vec<i64>>(index + 2);
        *ids = drawn.map_err(|error| Row::corrupt(index, error))?;
        ids.reverse();
    }
    Ok((set, ids))
}

/// The statements of a round trip that reads, and functions that take the rows of each.
#[derive(Default)]
struct Reads<'a> {
    steps: Vec<Step<'a>>,
    apply: Vec<Apply>,
    row_lock: RowLock,
    /// The orders whose pets are locked with them.
    orders: &'a [OrderId],
}

/// The way in which rows are locked.
#[derive(Debug, Clone, Copy, Default)]
enum RowLock {
    /// Rows that another transaction has locked are not read.
    #[default]
    Skip,
    /// A row that another transaction has locked is waited for. The rows of each table are
    /// locked in the order of their ids, so that two that wait cause no deadlock.
    Wait,
    /// No row is locked ([`Fault::UnlockedRows`]).
    Fault,
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

    /// Locks and loads the rows that commands name, in the same order for every group.
    fn lock(&mut self, keys: &'a Keys, row_lock: RowLock) {
        self.row_lock = row_lock;
        self.orders = &keys.orders;
        let Ok(()) = keys.each(self);
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

impl<'a> ForEachKeys<'a> for Reads<'a> {
    type Error = Infallible;

    fn visit<T: Stored>(
        &mut self,
        keys: &'a [T::Key],
        table: TableOf<T>,
    ) -> Result<(), Infallible> {
        let mut found = key_arrays::<T>(keys);
        if T::NAME == Pet::NAME {
            found.extend(key_arrays::<Order>(self.orders));
        }
        if found.iter().any(|keys| !keys.is_empty()) {
            let sql = TableSql::of::<T>();
            let select = match (T::ACCESS, self.row_lock) {
                (Access::Unlocked, _) | (_, RowLock::Fault) => &sql.find,
                (Access::Locked, RowLock::Skip) => &sql.lock,
                (Access::Locked, RowLock::Wait) => &sql.wait,
            };
            self.load(Step::arrays(select, found), table.rows_mut);
        }
        Ok(())
    }
}

/// Runs the first round trip. It waits for the rows of `awaited`, and then locks those of
/// `keys` that no other transaction has locked.
pub(super) async fn load(
    session: &Session<'_>,
    awaited: Option<&Keys>,
    keys: &Keys,
    fault: Option<Fault>,
) -> Result<(WorkingSet, NewIds), Failure> {
    let counts = keys.new_ids.map(|count| Value::Int(count as i64)).to_vec();
    let mut wait = Reads::default();
    if let Some(awaited) = awaited {
        wait.steps.push(Step::query(&LIMIT_WAIT, []));
        wait.lock(awaited, RowLock::Wait);
    }
    let mut reads = Reads::default();
    if fault == Some(Fault::EarlyClaims) {
        reads.claims(&keys.pets);
        reads.push(Step::query(&PAUSE, []), |_, _| Ok(()));
    }
    reads.lock(
        keys,
        match fault {
            Some(Fault::UnlockedRows) => RowLock::Fault,
            _ => RowLock::Skip,
        },
    );
    if fault != Some(Fault::EarlyClaims) {
        reads.claims(&keys.pets);
    }
    if !keys.photos_of.is_empty() {
        let shown = Step::arrays(&SHOWN_PHOTOS, key_arrays::<Pet>(&keys.photos_of));
        reads.load(shown, |tables| &mut tables.photos);
    }
    if !keys.category_names.is_empty() {
        let names = keys
            .category_names
            .iter()
            .map(|name| Value::text(name.as_str()))
            .collect();
        let find = Step::arrays(&CATEGORIES_BY_NAME, vec![names]);
        reads.push(find, |rows, set| {
            for row in rows {
                let (name, id) = Record::from_row(row)?;
                set.category_names.insert(name, id);
            }
            Ok(())
        });
    }
    if !keys.used_categories.is_empty() {
        let find = Step::arrays(
            &USED_CATEGORIES,
            key_arrays::<Category>(&keys.used_categories),
        );
        reads.push(find, |rows, set| {
            for row in rows {
                let (id, is_used) = Record::from_row(row)?;
                set.used_categories.insert(id, is_used);
            }
            Ok(())
        });
    }
    if !keys.microchips.is_empty()
        || !keys.unsold_pets.is_empty()
        || !keys.returned_orders.is_empty()
    {
        let microchips = keys.microchips.iter();
        let microchips = microchips.map(|it| Value::text(it.as_str())).collect();
        let mut named = vec![microchips];
        named.extend(key_arrays::<Pet>(&keys.unsold_pets));
        named.extend(key_arrays::<Order>(&keys.returned_orders));
        reads.push(Step::arrays(&MICROCHIP_HOLDERS, named), |rows, set| {
            for row in rows {
                let (microchip, id) = Record::from_row(row)?;
                set.microchips.insert(microchip, id);
            }
            Ok(())
        });
    }
    if keys.counts_webhooks {
        reads.push(Step::query(&COUNT_WEBHOOKS, []), |rows, set| {
            set.webhook_count = read_first(rows)?;
            Ok(())
        });
    }
    let mut steps = Vec::new();
    if session.connection.should_replan() {
        steps.push(Step::query(&DISCARD_PLANS, []));
    }
    steps.push(Step::query(&BEGIN, []));
    if keys.pets.len() + keys.new_ids[Sequence::Pets as usize] > QUICK_GROUP {
        steps.push(Step::query(&ALLOW_PAUSE, []));
    }
    steps.append(&mut wait.steps);
    let before_draw = steps.len();
    steps.push(Step::arrays(&DRAW, vec![counts]));
    steps.append(&mut reads.steps);
    let all_results = session.pipeline(steps).await.map_err(Failure::RolledBack)?;
    let mut results = all_results.into_iter().skip(before_draw);
    let drawn = results.next().unwrap_or_default();
    let (mut set, ids) = start_set(&drawn).map_err(Failure::Corrupt)?;
    reads.apply(results, &mut set)?;
    find_locked(session, keys, &mut set).await?;
    Ok((set, ids))
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
    let pets: Vec<_> = ordered
        .chain(keys.pets.iter().copied())
        .filter(|id| !tables.pets.is_loaded(id))
        .collect();
    let orders: Vec<_> = keys
        .orders
        .iter()
        .filter(|id| !tables.orders.is_loaded(id))
        .copied()
        .collect();
    if !pets.is_empty() || !orders.is_empty() {
        let pets_and_orders = [owned_keys::<Pet>(&pets), owned_keys::<Order>(&orders)].concat();
        let select = Step::arrays(&LOCKED_PETS, pets_and_orders);
        reads.push(select, |rows, set| {
            for row in rows {
                let (pet, claim) = <(Pet, Option<OrderStatus>)>::from_row(row)?;
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
    let results = session
        .pipeline(mem::take(&mut reads.steps))
        .await
        .map_err(Failure::RolledBack)?;
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

/// Returns true if another transaction has locked a row that a command reads, or the next group
/// has to decide about it.
pub(super) fn is_locked(keys: &Keys, tables: &Tables) -> bool {
    let mut orders = keys.orders.iter().filter_map(|id| tables.orders.get(id));
    keys.must_wait(tables) || orders.any(|order| tables.pets.must_wait(&order.pet_id))
}
