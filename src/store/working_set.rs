//! The working set of a batch: the rows that its commands read, and what they change.
//!
//! Both databases load it, have the commands decide on it, and write what has changed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use compact_str::CompactString;
use jiff::Timestamp;
use serde::Serialize;

use super::{
    table::{Key, Table, Value},
    tables::{ApiKeyRow, DeliveryRow, EventRow, IdempotencyRecord, to_json},
};
use crate::{
    category::{Category, CategoryId},
    event::EventType,
    import::{Import, ImportId},
    order::{Order, OrderId},
    pet::{Claim, Pet, PetId},
    webhook::{WebhookId, delivery::StoredWebhook},
};

/// A row that is found by its key.
pub(super) trait Keyed: Table + Clone + PartialEq + Send + Sync + 'static {
    type Key: Key;

    const KEY_COLUMNS: usize = Self::Key::COLUMNS;

    fn key(&self) -> Self::Key;

    /// Calls `put` with the value of each column of a key.
    fn write_key<'a>(key: &'a Self::Key, put: &mut dyn FnMut(Value<'a>)) {
        key.write(put);
    }
}

/// The protection of the rows that commands name, from their load to the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// They are locked, so that they stay what they are until the commit.
    Locked,
    /// They are protected by the lock of another row, or by a unique index.
    Unlocked,
}

/// A row that commands change.
pub(super) trait Stored: Keyed {
    const ACCESS: Access = Access::Locked;

    /// True if a unique index decides about rows that do not exist. Then the index must see
    /// every change: of several in one batch it would see only the last one, or none if the row
    /// is created and deleted.
    const IS_DECIDED_BY_INDEX: bool = false;

    /// The event that logs a change, if clients see the row: a row that does not exist is
    /// `None`.
    fn event(_before: Option<&Self>, _after: Option<&Self>) -> Option<LoggedChange> {
        None
    }
}

/// The content of the event of a change.
pub(super) struct LoggedChange {
    kind: EventType,
    resource_id: i64,
    data: String,
    /// True if a row was added that has the highest id.
    is_append: bool,
}

impl LoggedChange {
    fn new<T: Serialize>(kind: EventType, resource_id: i64, resource: &T) -> Option<Self> {
        Some(Self {
            kind,
            resource_id,
            data: to_json(resource),
            is_append: false,
        })
    }
}

/// The rows of one table.
pub(super) struct Rows<T: Keyed> {
    rows: BTreeMap<T::Key, Versions<T>>,
    /// The keys of rows that another transaction has locked.
    locked: BTreeSet<T::Key>,
}

/// The new state of a row; `None` if it is deleted.
pub(super) struct RowChange<T: Keyed> {
    pub(super) key: T::Key,
    pub(super) row: Option<T>,
}

/// A row as it is stored, and as the commands decided so far have left it.
struct Versions<T> {
    stored: Option<T>,
    current: Option<T>,
}

/// The rows of a table that a batch inserts, updates and deletes, by ascending key.
pub(super) struct WriteSet<'a, T: Keyed> {
    pub(super) inserts: Vec<&'a T>,
    /// Each as it is stored, and as it is to be.
    pub(super) updates: Vec<(&'a T, &'a T)>,
    pub(super) deletes: Vec<&'a T::Key>,
}

impl<T: Keyed> Default for Rows<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            locked: BTreeSet::new(),
        }
    }
}

impl<T: Stored> Rows<T> {
    fn change(&mut self, change: RowChange<T>) -> Option<LoggedChange> {
        let RowChange { key, row } = change;
        let versions = self.rows.entry(key).or_insert(Versions {
            stored: None,
            current: None,
        });
        if versions.current == row {
            return None;
        }
        let logged = T::event(versions.current.as_ref(), row.as_ref());
        versions.current = row;
        logged
    }
}

impl<T: Keyed> Rows<T> {
    /// Adds a row as it is stored.
    pub(super) fn load(&mut self, row: T) {
        self.rows.entry(row.key()).or_insert_with(|| Versions {
            current: Some(row.clone()),
            stored: Some(row),
        });
    }

    /// Adds a row that another transaction has locked, as it is committed.
    pub(super) fn load_locked(&mut self, row: T) {
        self.locked.insert(row.key());
        self.load(row);
    }

    /// Returns true if the batch has changed the row.
    pub(super) fn is_changed(&self, key: &T::Key) -> bool {
        let versions = self.rows.get(key);
        versions.is_some_and(|versions| versions.stored != versions.current)
    }

    pub(super) fn is_locked(&self, key: &T::Key) -> bool {
        self.locked.contains(key)
    }

    pub(super) fn get(&self, key: &T::Key) -> Option<&T> {
        self.rows.get(key)?.current.as_ref()
    }

    pub(super) fn is_loaded(&self, key: &T::Key) -> bool {
        self.rows.contains_key(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.values().filter_map(|row| row.current.as_ref())
    }

    pub(super) fn write_set(&self) -> WriteSet<'_, T> {
        let mut set = WriteSet {
            inserts: Vec::new(),
            updates: Vec::new(),
            deletes: Vec::new(),
        };
        for (key, Versions { stored, current }) in &self.rows {
            match (stored, current) {
                (None, Some(row)) => set.inserts.push(row),
                (Some(stored), Some(row)) if stored != row => set.updates.push((stored, row)),
                (Some(_), None) => set.deletes.push(key),
                _ => {}
            }
        }
        set
    }
}

/// A visitor of the rows of every table.
pub(super) trait ForEachTable<'a> {
    type Error;

    fn visit<T: Stored>(&mut self, rows: &'a Rows<T>) -> Result<(), Self::Error>;
}

/// Finds the rows of one table among those of all.
pub(super) struct TableOf<T: Keyed> {
    pub(super) rows: fn(&Tables) -> &Rows<T>,
    pub(super) rows_mut: fn(&mut Tables) -> &mut Rows<T>,
}

/// A visitor of the keys of every table.
pub(super) trait ForEachKeys<'a> {
    type Error;

    fn visit<T: Stored>(
        &mut self,
        keys: &'a [T::Key],
        table: TableOf<T>,
    ) -> Result<(), Self::Error>;
}

/// Declares the tables that commands change: the name of each in the working set, and the type
/// of its rows.
macro_rules! tables {
    ($($table:ident: $type:ident,)+) => {
        /// The rows of all tables.
        #[derive(Default)]
        pub(super) struct Tables {
            $(pub(super) $table: Rows<$type>,)+
        }

        /// The rows that commands read, and the new ids that they need.
        #[derive(Default)]
        pub(super) struct Keys {
            $(pub(super) $table: Vec<<$type as Keyed>::Key>,)+
            /// Folded names, to find the categories that have them.
            pub(super) category_names: Vec<String>,
            /// The number of webhooks stays what it is, as for a locked row.
            pub(super) counts_webhooks: bool,
            /// The number of new ids of each [`Sequence`].
            pub(super) new_ids: [usize; Sequence::ALL.len()],
        }

        impl Keys {
            /// Returns true if nothing is read.
            pub(super) fn is_empty(&self) -> bool {
                $(self.$table.is_empty() &&)+
                self.category_names.is_empty() && !self.counts_webhooks
            }

            /// Visits the keys of every table, in the order in which rows are locked.
            pub(super) fn each<'a, V: ForEachKeys<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table, TableOf {
                    rows: |tables| &tables.$table,
                    rows_mut: |tables| &mut tables.$table,
                })?;)+
                Ok(())
            }
        }

        /// A change of a row. Boxed, because some rows are large.
        pub(super) enum Change {
            $($type(Box<RowChange<$type>>),)+
        }

        $(impl From<RowChange<$type>> for Change {
            fn from(change: RowChange<$type>) -> Self {
                Self::$type(Box::new(change))
            }
        })+

        impl Tables {
            fn apply(&mut self, change: Change) -> Option<LoggedChange> {
                match change {
                    $(Change::$type(change) => self.$table.change(*change),)+
                }
            }

            /// Visits every table, in the order in which rows are written.
            pub(super) fn each<'a, V: ForEachTable<'a>>(
                &'a self,
                visitor: &mut V,
            ) -> Result<(), V::Error> {
                $(visitor.visit(&self.$table)?;)+
                Ok(())
            }
        }
    };
}

impl Keys {
    /// Asks for new ids.
    pub(super) fn draw(&mut self, sequence: Sequence, count: usize) {
        self.new_ids[sequence as usize] += count;
    }
}

// Records come last: once a row is locked, the record of the transaction that had it before is
// visible.
tables! {
    pets: Pet,
    orders: Order,
    categories: Category,
    imports: Import,
    api_keys: ApiKeyRow,
    webhooks: StoredWebhook,
    deliveries: DeliveryRow,
    records: IdempotencyRecord,
}

/// The times that commands are decided by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) now: Timestamp,
    /// The time that is certain to have come, for the orders of earlier processes: their
    /// clock was another one.
    pub(super) certain: Timestamp,
    /// The last order that an earlier process has placed.
    pub(super) last_earlier_order: i64,
}

impl Times {
    /// All orders follow one clock.
    pub(super) fn of_one_clock(now: Timestamp) -> Self {
        Self {
            now,
            certain: now,
            last_earlier_order: 0,
        }
    }

    /// The time by which it is decided whether a reservation has expired.
    pub(super) fn expiry(&self, order: OrderId) -> Timestamp {
        if order.get() > self.last_earlier_order {
            self.now
        } else {
            self.certain
        }
    }
}

/// The source of the ids of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sequence {
    Pets,
    Orders,
    ApiKeys,
    Webhooks,
}

impl Sequence {
    pub(super) const ALL: [Self; 4] = [Self::Pets, Self::Orders, Self::ApiKeys, Self::Webhooks];

    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Pets => Pet::NAME,
            Self::Orders => Order::NAME,
            Self::ApiKeys => ApiKeyRow::NAME,
            Self::Webhooks => StoredWebhook::NAME,
        }
    }
}

/// New ids of each sequence, in descending order.
#[derive(Debug, Default)]
pub(super) struct NewIds(pub(super) [Vec<i64>; Sequence::ALL.len()]);

impl NewIds {
    pub(super) fn take(&mut self, sequence: Sequence) -> i64 {
        let id = self.0[sequence as usize].pop();
        id.expect("a command asks for the ids that it uses")
    }
}

pub(super) struct WorkingSet {
    pub(super) times: Times,
    /// The sequence number of the newest event before the batch.
    pub(super) last_event: i64,
    pub(super) tables: Tables,
    /// The claims of active orders on the pets that were loaded.
    pub(super) claims: HashMap<PetId, Claim>,
    /// The categories that have the names that were asked for, by their folded names. They
    /// are not locked: a unique index has the last word.
    pub(super) category_names: HashMap<String, CategoryId>,
    /// The number of webhooks, if it was asked for.
    pub(super) webhook_count: i64,
    pub(super) events: Vec<EventRow>,
    /// The number of commands that have changed what clients see.
    pub(super) writes: usize,
    /// True if rows with a new, highest id were added.
    pub(super) has_inserts: bool,
    /// True if other rows were changed or added.
    pub(super) has_updates: bool,
}

impl WorkingSet {
    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            last_event: 0,
            tables: Tables::default(),
            claims: HashMap::new(),
            category_names: HashMap::new(),
            webhook_count: 0,
            events: Vec::new(),
            writes: 0,
            has_inserts: false,
            has_updates: false,
        }
    }

    /// Makes a change and logs it: there is no change without its event.
    pub(super) fn apply(&mut self, change: Change, api_key_id: Option<i64>) {
        match &change {
            Change::Order(change) => {
                if let Some(order) = &change.row {
                    match order.status.claim() {
                        Some(claim) => self.claims.insert(order.pet_id, claim),
                        None => self.claims.remove(&order.pet_id),
                    };
                }
            }
            Change::Category(change) => {
                self.category_names.retain(|_, named| *named != change.key);
                let name = change.row.as_ref().map(|category| category.name.folded());
                self.category_names
                    .extend(name.map(|name| (name, change.key)));
            }
            Change::StoredWebhook(change) => {
                let before = self.tables.webhooks.get(&change.key);
                self.webhook_count += i64::from(change.row.is_some());
                self.webhook_count -= i64::from(before.is_some());
            }
            _ => {}
        }
        let Some(logged) = self.tables.apply(change) else {
            return;
        };
        self.has_inserts |= logged.is_append;
        self.has_updates |= !logged.is_append;
        self.events.push(EventRow {
            sequence: self.last_event + self.events.len() as i64 + 1,
            at: self.times.now,
            kind: logged.kind,
            api_key_id,
            resource_id: logged.resource_id,
            is_row: false,
            data: logged.data,
        });
    }
}

/// Declares the key of each table.
macro_rules! keyed {
    ($($type:ty: $key:ty = |$row:ident| $value:expr;)+) => {$(
        impl Keyed for $type {
            type Key = $key;

            fn key(&self) -> $key {
                let $row = self;
                $value
            }
        }
    )+};
}

keyed! {
    Pet: PetId = |pet| pet.id;
    Order: OrderId = |order| order.id;
    Category: CategoryId = |category| category.id;
    Import: ImportId = |import| import.id;
    ApiKeyRow: i64 = |row| row.key.id;
    StoredWebhook: WebhookId = |stored| stored.webhook.id;
    DeliveryRow: (WebhookId, i64) = |row| (row.webhook_id, row.sequence);
    IdempotencyRecord: (i64, CompactString) = |record| (record.api_key_id, record.key.clone());
    EventRow: i64 = |event| event.sequence;
}

impl Stored for Pet {
    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let (kind, pet) = match (before, after) {
            (None, after) => (EventType::PetCreated, after?),
            (Some(_), Some(after)) => (EventType::PetUpdated, after),
            (Some(before), None) => (EventType::PetDeleted, before),
        };
        let logged = LoggedChange::new(kind, pet.id.get(), pet)?;
        Some(LoggedChange {
            is_append: before.is_none(),
            ..logged
        })
    }
}

/// The pet of an order changes with it, so that it never counts as appended.
impl Stored for Order {
    fn event(_: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let order = after?;
        LoggedChange::new(EventType::of_order(order.status), order.id.get(), order)
    }
}

impl Stored for Category {
    const IS_DECIDED_BY_INDEX: bool = true;

    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let (kind, category) = match after {
            Some(after) => (EventType::CategoryUpdated, after),
            None => (EventType::CategoryDeleted, before?),
        };
        LoggedChange::new(kind, category.id.get(), category)
    }
}

impl Stored for Import {
    const IS_DECIDED_BY_INDEX: bool = true;
}

impl Stored for ApiKeyRow {}

impl Stored for StoredWebhook {}

impl Stored for DeliveryRow {
    const ACCESS: Access = Access::Unlocked;
}

impl Stored for IdempotencyRecord {
    const ACCESS: Access = Access::Unlocked;
}
