//! Undoing a batch: the pets that it changed get their former state back, unless they were
//! changed or ordered since, and the categories that it created are deleted, unless they are used.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    category::{Category, CategoryId},
    import::{Import, ImportUndo},
    invalid::Invalid,
    json::{FromObject, KnownMember, Object},
    page::parse_positive_decimal,
    pet::{Claim, Pet, PetId, batch::BatchId},
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
pub struct PetUndo {
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
    #[error("animal {} has its microchip now", .0.get())]
    MicrochipTaken(PetId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptPet {
    pub id: PetId,
    pub reason: KeptReason,
}

impl PetUndo {
    /// Decides what happens to a pet, given its current state and the claim of an order on it.
    pub fn decide(&self, current: Option<&Pet>, claim: Option<Claim>) -> UndoDecision {
        if current == self.before.as_ref() || self.is_recovered(current) {
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

    /// Returns true if the pet was deleted and is there again. Photos that were purged in between
    /// are lost.
    fn is_recovered(&self, current: Option<&Pet>) -> bool {
        let without_photos = |pet: &Pet| pet.clone().with_photos(Vec::new());
        self.after.is_none()
            && current.map(without_photos) == self.before.as_ref().map(without_photos)
    }
}

/// The creation or deletion of a category by a batch, which is to be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryUndo {
    /// The category as it was created, or before it was deleted.
    pub category: Category,
    pub is_created: bool,
}

/// The decision about one category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CategoryDecision {
    Delete,
    Restore,
    Keep,
}

impl CategoryUndo {
    /// Decides what happens to a category, given its current state, whether its name is taken, and
    /// whether a pet has it.
    pub fn decide(
        &self,
        current: Option<&Category>,
        is_name_taken: bool,
        is_used: bool,
    ) -> CategoryDecision {
        match current {
            Some(category) if self.is_created && !is_used && *category == self.category => {
                CategoryDecision::Delete
            }
            None if !self.is_created && !is_name_taken => CategoryDecision::Restore,
            _ => CategoryDecision::Keep,
        }
    }
}

/// The import that a batch has made, or undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportToUndo {
    /// Its record, as it was before the changes of the plan were read.
    pub planned: Import,
    /// True if the batch is itself an undo of the import: undoing the batch brings the import
    /// back.
    pub is_redone: bool,
}

impl ImportToUndo {
    /// Returns true if the import has made further changes since the plan was read.
    pub fn has_grown(&self, current: &Import) -> bool {
        !self.is_redone && current.records != self.planned.records
    }

    /// Returns the record after a part of the undo.
    pub fn record_after(&self, record: Import, is_first: bool, outcome: &UndoOutcome) -> Import {
        if self.is_redone {
            return Import {
                undo: None,
                kept: 0,
                ..record
            };
        }
        let is_left = |kept: &&KeptPet| kept.reason != KeptReason::Deleted;
        let kept = outcome.kept.iter().filter(is_left).count() as i64;
        Import {
            undo: Some(match outcome.next {
                Some(_) => ImportUndo::Started,
                None => ImportUndo::Finished,
            }),
            kept: if is_first { kept } else { record.kept + kept },
            ..record
        }
    }
}

/// The part of a batch that is undone by one request: changes of pets, or of categories.
#[derive(Debug, Clone)]
pub struct UndoPlan {
    /// The batch of the undo itself, which can be undone, too.
    pub id: BatchId,
    pub undos: Vec<PetUndo>,
    pub categories: Vec<CategoryUndo>,
    /// Pets that someone else changed between two changes of the batch; they are kept.
    pub kept: Vec<KeptPet>,
    /// True if the newest changes of the batch are in it.
    pub is_first: bool,
    /// The imports that the batch belongs to.
    pub imports: Vec<ImportToUndo>,
    /// The number of changes of the imports that the log no longer has. Counted with the last
    /// part.
    pub purged: i64,
    /// The sequence number below which the next request continues, if there is more.
    pub next: Option<i64>,
}

impl UndoPlan {
    /// The sequence number below which all changes lie.
    pub const FROM_THE_TOP: i64 = UndoRequest::MAX_CURSOR;

    /// Combines the changes of each pet. They come newest first. If the batch changed the microchip
    /// of a pet more than once, the older changes are left to the next request, because another
    /// pet may have to release the microchip first.
    pub fn new(batch: &BatchId, changes: Vec<LoggedPet>, mut next: Option<i64>) -> Self {
        let mut undos: Vec<PetUndo> = Vec::new();
        let mut kept = Vec::new();
        let mut positions = HashMap::new();
        for change in changes {
            let position = *positions.entry(change.id).or_insert(undos.len());
            let Some(undo) = undos.get_mut(position) else {
                undos.push(PetUndo {
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
                let reason = KeptReason::Changed;
                let id = change.id;
                if !kept.iter().any(|kept: &KeptPet| kept.id == id) {
                    kept.push(KeptPet { id, reason });
                }
            }
        }
        Self {
            id: batch.of_undo(),
            undos,
            categories: Vec::new(),
            kept,
            is_first: true,
            imports: Vec::new(),
            purged: 0,
            next,
        }
    }

    /// Adds changes of categories, newest first. Of several of one category, or with one name, the
    /// newest counts.
    pub fn with_categories(mut self, categories: Vec<CategoryUndo>) -> Self {
        let mut ids: HashSet<CategoryId> = HashSet::new();
        let mut names = HashSet::new();
        self.categories = categories;
        self.categories.retain(|undo| {
            let Category { id, name } = &undo.category;
            ids.insert(*id) && names.insert(name.folded())
        });
        self
    }

    /// Returns the number of pets and categories that it may change.
    pub fn len(&self) -> usize {
        self.undos.len() + self.categories.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The result of undoing a part of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOutcome {
    pub id: BatchId,
    /// The number of pets that have their former state back.
    pub undone: usize,
    pub kept: Vec<KeptPet>,
    /// The number of categories that were deleted or restored.
    pub categories: usize,
    /// The number of changes of an import that the log no longer has. Counted with the last part.
    pub purged: i64,
    /// The number of photos of restored pets that were purged.
    pub purged_photos: usize,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        category::CategoryName,
        pet::{NewPet, PetName, PetStatus},
        photo::{Photo, PhotoDigest, PhotoId},
    };

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
    fn photos_are_part_of_a_pet() {
        use UndoDecision::*;
        let photo = |id| Photo {
            id: PhotoId::from_store(id),
            width: 4,
            height: 3,
            digest: PhotoDigest::of(&[7; 32]),
        };
        let [before, after] = ["A", "B"].map(|name| pet(name, None));
        let pictured = |pet: &Pet| pet.clone().with_photos(vec![photo(7)]);
        let decide = |before: Option<&Pet>, after: Option<&Pet>, current: Option<&Pet>| {
            plan(vec![change(before, after)]).undos[0].decide(current, None)
        };
        let changed = Keep(KeptReason::Changed);
        // A photo was added since.
        let current = pictured(&after);
        assert_eq!(decide(Some(&before), Some(&after), Some(&current)), changed);
        assert_eq!(decide(None, Some(&after), Some(&current)), changed);
        // The pet had it before.
        let both = [pictured(&before), pictured(&after)];
        assert_eq!(
            decide(Some(&both[0]), Some(&both[1]), Some(&current)),
            Restore
        );
        // The deletion was undone already, after its photo was purged.
        assert_eq!(decide(Some(&both[0]), None, None), Restore);
        assert_eq!(decide(Some(&both[0]), None, Some(&before)), Done);
        assert_eq!(decide(Some(&both[0]), None, Some(&after)), changed);
    }

    #[test]
    fn a_logged_pet_has_its_photos() {
        let photo = r#"{"id":7,"width":4,"height":3,"digest":"BwcHBwcHBwcH"}"#;
        let json = format!(r#"{{"id":1,"name":"A","categoryId":1,"photos":[{photo}]}}"#);
        let pet = Pet::from_json(&json).unwrap();
        assert_eq!(serde_json::to_string(&pet).unwrap(), json);
        let corrupt = json.replace(":7", ":null");
        assert_eq!(Pet::from_json(&corrupt).unwrap_err(), "photos: malformed");
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

    #[test]
    fn a_category_is_deleted_unless_it_is_used_or_renamed() {
        use CategoryDecision::*;
        let named = |name: &str| Category {
            id: CategoryId::from_store(7),
            name: CategoryName::parse(name).unwrap(),
        };
        let dogs = named("Dogs");
        let hounds = named("Hounds");
        for (is_created, is_used, current, is_name_taken, expected) in [
            (true, false, Some(&dogs), true, Delete),
            (true, true, Some(&dogs), true, Keep),
            (true, false, Some(&hounds), false, Keep),
            (true, false, None, false, Keep),
            (false, false, None, false, Restore),
            (false, true, None, false, Restore),
            (false, false, None, true, Keep),
            (false, false, Some(&hounds), false, Keep),
        ] {
            let undo = CategoryUndo {
                category: dogs.clone(),
                is_created,
            };
            let decided = undo.decide(current, is_name_taken, is_used);
            assert_eq!(decided, expected, "{undo:?}");
        }
    }
}
