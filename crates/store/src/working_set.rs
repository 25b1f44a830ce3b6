//! The working set of a commit group: the rows that its commands read, and the changes that they
//! decide.
//!
//! Both databases load the rows, let one command after the other decide on them, and write the
//! changes.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{
    event_row::EventRow,
    row_keys::{Change, Sequence, Tables},
};
use domain::{
    category::CategoryId,
    order::OrderId,
    pet::{Claim, Microchip, Pet, PetId, batch::BatchId},
};

/// The times that commands are decided by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) now: Timestamp,
    /// The trusted time: see [`ClockTrust`](domain::clock::ClockTrust). It decides whether orders
    /// of earlier processes have expired, because those processes had another clock.
    pub(super) trusted: Timestamp,
    /// The id of the last order that an earlier process has placed.
    pub(super) last_earlier_order: i64,
}

impl Times {
    /// Returns the times of a store in which all orders follow one clock.
    pub(super) fn of_one_clock(now: Timestamp) -> Self {
        Self {
            now,
            trusted: now,
            last_earlier_order: 0,
        }
    }

    /// Returns the time that decides whether a reservation has expired.
    pub(super) fn expiry(&self, order: OrderId) -> Timestamp {
        if order.get() > self.last_earlier_order {
            self.now
        } else {
            self.trusted
        }
    }
}

/// The new ids of each sequence, in descending order, so that the lowest is popped first.
#[derive(Debug, Default)]
pub(super) struct NewIds(pub(super) [Vec<i64>; Sequence::ALL.len()]);

impl NewIds {
    pub(super) fn take(&mut self, sequence: Sequence) -> i64 {
        let id = self.0[sequence as usize].pop();
        id.expect("a command asks for the ids that it uses")
    }
}

/// The origin of a change, for its event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ChangeContext<'a> {
    /// The API key that makes it, if one does.
    pub(super) api_key_id: Option<i64>,
    /// The batch that it belongs to, if it can be undone.
    pub(super) batch_id: Option<&'a BatchId>,
}

/// The state that the commands of a commit group read and change.
#[derive(Default)]
pub(super) struct WorkingSet {
    pub(super) times: Times,
    /// The sequence number of the newest event before the group.
    pub(super) last_event: i64,
    /// The rows that commands have named, as stored and as changed.
    pub(super) tables: Tables,
    /// The claims of active orders on the pets that were loaded.
    pub(super) claims: HashMap<PetId, Claim>,
    /// The categories that have the names in [`Keys`](super::row_keys::Keys), by folded name. They
    /// are not locked: a unique index rejects a name that another transaction takes.
    pub(super) category_names: HashMap<String, CategoryId>,
    /// True for the categories in [`Keys`](super::row_keys::Keys) that a pet has. They are not
    /// locked: changes that another transaction commits after the read are later than this group.
    pub(super) used_categories: HashMap<CategoryId, bool>,
    /// The pets that have the microchips in [`Keys`](super::row_keys::Keys) and are not sold. They
    /// are not locked: a unique index rejects a number that another transaction takes.
    pub(super) microchips: HashMap<Microchip, PetId>,
    /// The number of webhooks, if a command needs it.
    pub(super) webhook_count: i64,
    /// The events of the changes, in the order in which they were decided.
    pub(super) events: Vec<EventRow>,
    /// The number of commands that have changed what clients see.
    pub(super) writes: usize,
    /// True if rows with a new, highest id were added.
    pub(super) has_inserts: bool,
    /// True if other rows were changed or added.
    pub(super) has_updates: bool,
    /// True if the changes are stored already, and commands are decided again only for their
    /// results. Nothing is recorded then.
    pub(super) is_stored: bool,
}

impl WorkingSet {
    /// Returns true if a pet has one of the categories in [`Keys`](super::row_keys::Keys).
    pub(super) fn is_category_used(&self, id: CategoryId) -> bool {
        self.used_categories
            .get(&id)
            .is_some_and(|is_used| *is_used)
    }

    /// Returns the other pet that has the microchip of a pet, if neither is sold.
    pub(super) fn microchip_holder(&self, pet: &Pet) -> Option<PetId> {
        let holder = self.microchips.get(pet.claimed_microchip()?).copied();
        holder.filter(|holder| *holder != pet.id)
    }

    pub(super) fn new(times: Times) -> Self {
        Self {
            times,
            ..Self::default()
        }
    }

    /// Makes a change, keeps the claims, names and counts above up to date, and adds the event of
    /// the change.
    pub(super) fn apply(&mut self, change: Change, context: ChangeContext<'_>) {
        if self.is_stored {
            return;
        }
        match &change {
            Change::Pet(change) => {
                if !self.microchips.is_empty() {
                    self.microchips.retain(|_, pet| *pet != change.key);
                }
                if let Some(microchip) = change.row.as_ref().and_then(Pet::claimed_microchip) {
                    self.microchips.insert(microchip.clone(), change.key);
                }
                if let Some(pet) = &change.row
                    && let Some(is_used) =
                        (self.used_categories).get_mut(&CategoryId::from_store(pet.category_id))
                {
                    *is_used = true;
                }
            }
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
        let keeps_before = context.batch_id.is_some();
        let Some(logged) = self.tables.apply(change, keeps_before) else {
            return;
        };
        self.has_inserts |= logged.is_append;
        self.has_updates |= !logged.is_append;
        self.events.push(EventRow {
            sequence: self.last_event + self.events.len() as i64 + 1,
            at: self.times.now,
            kind: logged.kind,
            api_key_id: context.api_key_id,
            resource_id: logged.resource_id,
            is_row: false,
            data: logged.data,
            batch_id: context.batch_id.cloned(),
            before: logged.before,
        });
    }
}
