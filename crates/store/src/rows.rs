//! Rows that commands read and change, of any table.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::table::{Key, Table, Value};
use domain::event::EventType;

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

/// The way in which the rows that commands name are protected, from their load to the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// They are locked, so that they do not change until the commit.
    Locked,
    /// They are protected by the lock of another row, or by a unique index.
    Unlocked,
}

/// A row that commands change.
pub(super) trait Stored: Keyed {
    const ACCESS: Access = Access::Locked;

    /// Returns true if the change was decided because no other row has the same value, which a
    /// unique index protects instead of a lock. A commit group then changes the row only once. The
    /// index checks what is written, and of several changes in a group only the last is written,
    /// or none if the row is created and deleted again.
    fn must_reach_index(_before: Option<&Self>, _after: Option<&Self>) -> bool {
        false
    }

    /// Returns the resource as JSON, if its updates in a batch can be undone.
    fn resource(&self) -> Option<String> {
        None
    }

    /// Returns the event of a change, or `None` if clients do not see rows of this table. `before`
    /// is `None` if the row is created, and `after` if it is deleted.
    fn event(_before: Option<&Self>, _after: Option<&Self>) -> Option<LoggedChange> {
        None
    }
}

/// The parts of an event that depend on the changed row.
pub(super) struct LoggedChange {
    pub(super) kind: EventType,
    pub(super) resource_id: i64,
    /// The resource as JSON.
    pub(super) data: String,
    /// True if a row with a new, highest id was added.
    pub(super) is_append: bool,
    /// The resource before an update, as JSON, if it is kept.
    pub(super) before: Option<String>,
}

impl LoggedChange {
    pub(super) fn new<T: Serialize>(kind: EventType, resource_id: i64, resource: &T) -> Self {
        Self {
            kind,
            resource_id,
            data: to_json(resource),
            is_append: false,
            before: None,
        }
    }
}

/// The rows of one table in a working set.
pub(super) struct Rows<T: Keyed> {
    /// The rows that were loaded or changed. A key without an entry has no stored row, or was not
    /// loaded.
    rows: BTreeMap<T::Key, Versions<T>>,
    /// The keys of rows that another transaction has locked.
    locked: BTreeSet<T::Key>,
}

/// The new state of a row; `None` if it is deleted.
pub(super) struct RowChange<T: Keyed> {
    pub(super) key: T::Key,
    pub(super) row: Option<T>,
}

/// Two versions of a row. `None` stands for a row that does not exist.
struct Versions<T> {
    /// The row in the database.
    stored: Option<T>,
    /// The row after the commands that were decided so far.
    current: Option<T>,
}

/// The rows of a table that a commit group inserts, updates and deletes, by ascending key.
pub(super) struct WriteSet<'a, T: Keyed> {
    pub(super) inserts: Vec<&'a T>,
    /// Each row as it is stored, and its new state.
    pub(super) updates: Vec<(&'a T, &'a T)>,
    pub(super) deletes: Vec<&'a T::Key>,
    /// The highest key of a row that the group has created and deleted again. Its id counts as
    /// assigned although the row is not written.
    pub(super) last_withdrawn: Option<&'a T::Key>,
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
    /// Makes a change. Returns the content of its event, if there is one. `keeps_before` adds the
    /// resource before an update to it.
    pub(super) fn change(
        &mut self,
        change: RowChange<T>,
        keeps_before: bool,
    ) -> Option<LoggedChange> {
        let RowChange { key, row } = change;
        let versions = self.rows.entry(key).or_insert(Versions {
            stored: None,
            current: None,
        });
        if versions.current == row {
            return None;
        }
        let mut logged = T::event(versions.current.as_ref(), row.as_ref());
        if keeps_before
            && row.is_some()
            && let Some(logged) = &mut logged
        {
            logged.before = versions.current.as_ref().and_then(T::resource);
        }
        versions.current = row;
        logged
    }

    /// Returns true if a command that changes the row has to wait for a later group: another
    /// transaction has locked the row, or this group has changed it and a unique index must see
    /// that change first.
    pub(super) fn must_wait(&self, key: &T::Key) -> bool {
        let must_be_written = |row: &Versions<T>| {
            row.stored != row.current
                && T::must_reach_index(row.stored.as_ref(), row.current.as_ref())
        };
        self.is_locked(key) || self.rows.get(key).is_some_and(must_be_written)
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

    /// Adds the committed version of a row that another transaction has locked.
    pub(super) fn load_locked(&mut self, row: T) {
        self.locked.insert(row.key());
        self.load(row);
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
            last_withdrawn: None,
        };
        for (key, Versions { stored, current }) in &self.rows {
            match (stored, current) {
                (None, Some(row)) => set.inserts.push(row),
                (Some(stored), Some(row)) if stored != row => set.updates.push((stored, row)),
                (Some(_), None) => set.deletes.push(key),
                (None, None) => set.last_withdrawn = Some(key),
                (Some(_), Some(_)) => {}
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

pub(super) fn to_json<T: Serialize>(resource: &T) -> String {
    serde_json::to_string(resource).expect("a resource has only text as keys")
}
