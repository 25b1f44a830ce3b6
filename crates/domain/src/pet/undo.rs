//! Undoing a batch: the pets that it changed get their former state back, unless they were
//! changed or ordered since.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Claim, NewPet, Pet, PetId, batch::BatchId};
use crate::{
    invalid::{Invalid, join_messages},
    json::{FromObject, KnownMember, Object},
    page::parse_positive_decimal,
};

/// The maximum number of changes that are undone at a time.
pub const MAX_UNDONE: usize = 1000;

/// A change of a batch in the log. `None` stands for a pet that does not exist.
#[derive(Debug, Clone)]
pub struct LoggedPet {
    pub sequence: i64,
    pub id: PetId,
    pub before: Option<Pet>,
    pub after: Option<Pet>,
    /// True if an order for the pet was placed after the change.
    pub is_ordered: bool,
}

/// The changes of one pet that are to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo {
    /// The sequence number of the newest change.
    pub sequence: i64,
    pub id: PetId,
    /// The pet before the oldest change.
    pub before: Option<Pet>,
    /// The pet after the newest change.
    after: Option<Pet>,
    is_ordered: bool,
}

/// The decision about one pet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoDecision {
    /// The pet already is as it was before.
    Done,
    /// The pet gets its former state back.
    Restore,
    Keep(KeptReason),
}

/// The reason why the change of a pet is not undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum KeptReason {
    #[error("it was changed since")]
    Changed,
    #[error("it was deleted since")]
    Deleted,
    #[error("it was ordered since")]
    Ordered,
    /// This pet has its microchip.
    #[error("pet {} has its microchip now", .0.get())]
    MicrochipTaken(PetId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPet {
    pub id: PetId,
    pub reason: KeptReason,
}

impl Undo {
    /// Decides what happens to a pet, given its current state and the claim of an order on it.
    pub fn decide(&self, current: Option<&Pet>, claim: Option<Claim>) -> UndoDecision {
        if current == self.before.as_ref() {
            return UndoDecision::Done;
        }
        let status = |pet: Option<&Pet>| pet.and_then(|pet| pet.status);
        let has_status_of = |pet: Option<&Pet>| status(current) == status(pet);
        let is_same = current == self.after.as_ref();
        match current {
            None if !is_same => UndoDecision::Keep(KeptReason::Deleted),
            _ if self.is_ordered => UndoDecision::Keep(KeptReason::Ordered),
            // Only the order that claims a pet changes its status.
            Some(_) if claim.is_some() && !has_status_of(self.after.as_ref()) => {
                UndoDecision::Keep(KeptReason::Ordered)
            }
            _ if !is_same => UndoDecision::Keep(KeptReason::Changed),
            Some(_) if claim.is_some() && !has_status_of(self.before.as_ref()) => {
                UndoDecision::Keep(KeptReason::Ordered)
            }
            _ => UndoDecision::Restore,
        }
    }
}

/// The part of a batch that is undone by one request.
#[derive(Debug, Clone)]
pub struct UndoPlan {
    /// The batch of the undo itself, which can be undone, too.
    pub id: BatchId,
    pub undos: Vec<Undo>,
    /// The pets that other changes lie in between for.
    pub kept: Vec<KeptPet>,
    /// The sequence number below which the next request continues, if there is more.
    pub next: Option<i64>,
}

impl UndoPlan {
    /// Combines the changes of each pet. They come newest first. If a pet had several microchips in
    /// between, the rest is left to the next request: another pet may have to give one back first.
    pub fn new(batch: &BatchId, changes: Vec<LoggedPet>, mut next: Option<i64>) -> Self {
        let mut undos: Vec<Undo> = Vec::new();
        let mut kept = Vec::new();
        let mut positions = HashMap::new();
        for change in changes {
            let position = *positions.entry(change.id).or_insert(undos.len());
            let Some(undo) = undos.get_mut(position) else {
                undos.push(Undo {
                    sequence: change.sequence,
                    id: change.id,
                    before: change.before,
                    after: change.after,
                    is_ordered: change.is_ordered,
                });
                continue;
            };
            let microchip = |pet: &Option<Pet>| pet.as_ref()?.claimed_microchip().cloned();
            if undo.before == change.after {
                if microchip(&undo.before) != microchip(&change.before) {
                    next = Some(change.sequence + 1);
                    break;
                }
                undo.before = change.before;
            } else if undo.before != change.before {
                let id = change.id;
                let reason = KeptReason::Changed;
                kept.push(KeptPet { id, reason });
            }
        }
        Self {
            id: batch.of_undo(),
            undos,
            kept,
            next,
        }
    }
}

/// The result of undoing a part of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOutcome {
    pub id: BatchId,
    /// The number of pets that have their former state back.
    pub undone: usize,
    pub kept: Vec<KeptPet>,
    pub next: Option<i64>,
}

/// A request to undo a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoRequest {
    /// The sequence number below which to continue.
    pub below: Option<i64>,
}

impl UndoRequest {
    /// The highest cursor: 18 digits.
    const MAX_CURSOR: i64 = 999_999_999_999_999_999;
}

impl FromObject for UndoRequest {
    const MEMBERS: &[KnownMember] = &[KnownMember::scalar("cursor")];
    const IS_OPTIONAL: bool = true;

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let Some(value) = object.get("cursor") else {
            return Ok(Self { below: None });
        };
        let below = value.as_string().and_then(|it| parse_positive_decimal(&it));
        let below = below.filter(|below| *below <= Self::MAX_CURSOR);
        match below {
            Some(_) => Ok(Self { below }),
            None => {
                let reason = "must be the next of the previous response";
                Err(vec![Invalid::new("cursor", reason)])
            }
        }
    }
}

impl Pet {
    /// Parses the JSON of a pet in an event. Returns a message if it is invalid.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let object = Object::parse(json.as_bytes()).map_err(|error| error.to_string())?;
        let id = PetId::from_json(object.get("id")).map_err(|error| error.to_string())?;
        let new = NewPet::from_object(&object).map_err(|errors| join_messages(&errors))?;
        Ok(new.with_id(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pet::{PetName, PetStatus};

    fn pet(name: &str, status: Option<PetStatus>) -> Pet {
        let new = NewPet::new(PetName::parse(name).unwrap(), 1);
        NewPet { status, ..new }.with_id(PetId::from_store(1))
    }

    fn change(before: Option<&Pet>, after: Option<&Pet>) -> LoggedPet {
        LoggedPet {
            sequence: 1,
            id: PetId::from_store(1),
            before: before.cloned(),
            after: after.cloned(),
            is_ordered: false,
        }
    }

    fn plan(changes: Vec<LoggedPet>) -> UndoPlan {
        UndoPlan::new(&BatchId::parse("a").unwrap(), changes, None)
    }

    #[test]
    fn a_pet_is_restored_unless_it_was_changed_or_ordered_since() {
        use UndoDecision::*;
        let available = Some(PetStatus::Available);
        let before = pet("A", available);
        let after = pet("B", available);
        let other = pet("C", available);
        let pending = pet("B", Some(PetStatus::Pending));
        let reserved = Some(Claim::Reserved);
        let changed = Keep(KeptReason::Changed);
        let ordered = Keep(KeptReason::Ordered);
        let deleted = Keep(KeptReason::Deleted);
        let update = (Some(&before), Some(&after));
        let creation = (None, Some(&after));
        let deletion = (Some(&before), None);
        for ((before, after), current, claim, expected) in [
            (update, update.1, None, Restore),
            (update, update.1, reserved, Restore),
            (update, update.0, None, Done),
            (update, Some(&other), None, changed),
            (update, Some(&pending), reserved, ordered),
            (update, None, None, deleted),
            (creation, creation.1, None, Restore),
            (creation, None, None, Done),
            (creation, Some(&other), None, changed),
            (creation, Some(&pending), reserved, ordered),
            (deletion, None, None, Restore),
            (deletion, deletion.0, None, Done),
            (deletion, Some(&other), None, changed),
        ] {
            let plan = plan(vec![change(before, after)]);
            let decided = plan.undos[0].decide(current, claim);
            assert_eq!(decided, expected, "{before:?} {after:?} {current:?}");
        }
        let ordered_since = LoggedPet {
            is_ordered: true,
            ..change(creation.0, creation.1)
        };
        let plan = plan(vec![ordered_since]);
        assert_eq!(plan.undos[0].decide(creation.1, None), ordered);
    }

    #[test]
    fn changes_of_one_pet_are_undone_together() {
        let [a, b, c] = ["A", "B", "C"].map(|name| pet(name, None));
        let chain = plan(vec![change(Some(&b), Some(&c)), change(Some(&a), Some(&b))]);
        assert_eq!(chain.undos.len(), 1);
        assert_eq!(chain.undos[0].before, Some(a.clone()));
        assert!(chain.kept.is_empty());
        // The older change was undone already, and then made once more.
        let again = plan(vec![change(Some(&a), Some(&b)), change(Some(&a), Some(&b))]);
        assert_eq!(again.undos[0].before, Some(a.clone()));
        assert!(again.kept.is_empty());
        let between = plan(vec![change(Some(&c), Some(&b)), change(None, Some(&a))]);
        assert_eq!(between.undos[0].before, Some(c));
        assert_eq!(between.kept.len(), 1);
        let fleeting = plan(vec![change(Some(&a), None), change(None, Some(&a))]);
        assert_eq!(fleeting.undos[0].decide(None, None), UndoDecision::Done);
    }
}
