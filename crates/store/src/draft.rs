//! The changes that one command decides, on top of a working set.

use std::{collections::HashMap, ops::Deref};

use super::{
    row_keys::{Change, Sequence},
    rows::{Keyed, RowChange},
    working_set::{NewIds, WorkingSet},
};
use domain::pet::{Microchip, Pet, PetId};

/// The changes of one command, on top of a working set. They are dropped if it is rejected.
pub(super) struct Draft<'a> {
    set: &'a WorkingSet,
    ids: &'a mut NewIds,
    pub(super) changes: Vec<Change>,
    /// The pets that these changes give a microchip to.
    claimed: HashMap<Microchip, PetId>,
    /// The microchips that these changes take from a pet.
    freed: HashMap<Microchip, FreedBy>,
}

/// The change that has freed a microchip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FreedBy {
    Deletion,
    Update,
}

impl<'a> Draft<'a> {
    pub(super) fn new(set: &'a WorkingSet, ids: &'a mut NewIds) -> Self {
        Self {
            set,
            ids,
            changes: Vec::new(),
            claimed: HashMap::new(),
            freed: HashMap::new(),
        }
    }

    /// Creates or replaces a row.
    pub(super) fn put<T: Keyed>(&mut self, row: T)
    where
        Change: From<RowChange<T>>,
    {
        let key = row.key();
        let row = Some(row);
        self.push(RowChange { key, row }.into());
    }

    pub(super) fn delete<T: Keyed>(&mut self, key: T::Key)
    where
        Change: From<RowChange<T>>,
    {
        self.push(RowChange::<T> { key, row: None }.into());
    }

    pub(super) fn new_id(&mut self, sequence: Sequence) -> i64 {
        self.ids.take(sequence)
    }

    fn push(&mut self, change: Change) {
        if let Change::Pet(change) = &change {
            let before = self.set.tables.pets.get(&change.key);
            let before = before.and_then(Pet::claimed_microchip);
            let after = change.row.as_ref().and_then(Pet::claimed_microchip);
            if before != after {
                let by = if change.row.is_some() {
                    FreedBy::Update
                } else {
                    FreedBy::Deletion
                };
                self.freed.extend(before.map(|it| (it.clone(), by)));
                self.claimed
                    .extend(after.map(|it| (it.clone(), change.key)));
            }
        }
        self.changes.push(change);
    }

    /// Returns true if an earlier change of the command freed the microchip of the given pet: it
    /// deleted, sold or changed the pet that had it.
    pub(super) fn frees(&self, pet: &Pet) -> bool {
        pet.claimed_microchip()
            .is_some_and(|microchip| self.freed.contains_key(microchip))
    }

    /// Returns the other pet that has the microchip of a pet, if neither is sold, after the changes
    /// so far.
    ///
    /// A unique index checks every row as it is written: deletions first, then updates, in no
    /// particular order, then new rows. So an update cannot take the microchip that another update
    /// of the same command frees.
    pub(super) fn microchip_holder(&self, pet: &Pet) -> Option<PetId> {
        let microchip = pet.claimed_microchip()?;
        if let Some(holder) = self.claimed.get(microchip) {
            return Some(*holder).filter(|holder| *holder != pet.id);
        }
        let is_new = self.set.tables.pets.get(&pet.id).is_none();
        let is_free = match self.freed.get(microchip) {
            Some(FreedBy::Deletion) => true,
            Some(FreedBy::Update) => is_new,
            None => false,
        };
        self.set.microchip_holder(pet).filter(|_| !is_free)
    }
}

impl Deref for Draft<'_> {
    type Target = WorkingSet;

    fn deref(&self) -> &WorkingSet {
        self.set
    }
}
