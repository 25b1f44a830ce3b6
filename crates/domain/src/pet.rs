//! Pets: their types, validation, and the rules for changing and deleting one.

pub mod batch;
mod filter;
mod inventory;
mod metadata;
mod microchip;
mod search;
mod statuses;

use serde::{Deserialize, Serialize};

use crate::{
    date::PastDate,
    idempotency::recorded_rejection,
    invalid::{Invalid, join_messages},
    json::{FromObject, Object, Value},
    members::{Choice, Errors, resource},
    page::parse_positive_decimal,
    party::Source,
    photo::{Photo, Photos},
    price::Price,
    text::{Lines, Text},
};

pub use filter::{NamePrefix, PetFilter, PetIds, prefix_end, search_name};
pub use inventory::{FilteredInventory, Inventory};
pub use metadata::Metadata;
pub use microchip::Microchip;
pub use search::{Search, id_of_term, search_words, words_of};
pub use statuses::PetStatuses;

resource! {
    /// A pet in the store.
    Pet(PetId)
    /// A pet that has not been stored yet.
    NewPet
    /// Members that are absent stay unchanged.
    PetChange
    required {
        name "name": PetName,
        category_id "categoryId": i64,
    }
    optional {
        status "status": PetStatus,
        breed "breed": Text<100>,
        sex "sex": Sex,
        birth_date "birthDate": PastDate,
        color "color": Text<100>,
        microchip "microchip": Microchip,
        price "price": Price,
        description "description": Lines<2000>,
        notes "notes": Lines<2000>,
        location "location": Text<100>,
        acquired_on "acquiredOn": PastDate,
        source "source": Source,
        metadata "metadata": Metadata,
    }
    assigned {
        photos "photos": Photos,
    }
}

impl Pet {
    /// Parses the JSON of a pet in an event. Returns a message if it is invalid.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let object = Object::parse(json.as_bytes()).map_err(|error| error.to_string())?;
        let id = PetId::from_json(object.get("id")).map_err(|error| error.to_string())?;
        let new = NewPet::from_object(&object).map_err(|errors| join_messages(&errors))?;
        let photos = match object.get("photos") {
            Some(photos) => Some(Photos::from_json(photos).ok_or("photos: malformed")?),
            None => None,
        };
        Ok(Self {
            photos,
            ..new.with_id(id)
        })
    }

    pub fn photos(&self) -> &[Photo] {
        self.photos.as_ref().map_or(&[], Photos::as_slice)
    }

    /// Returns the pet with other photos.
    pub fn with_photos(self, photos: Vec<Photo>) -> Self {
        let photos = Photos::new(photos);
        Self { photos, ..self }
    }

    /// Returns the number of the microchip, which no other pet may have until this one is sold.
    pub fn claimed_microchip(&self) -> Option<&Microchip> {
        claimed(self.microchip.as_ref(), self.status)
    }
}

impl NewPet {
    /// See [`Pet::claimed_microchip`].
    pub fn claimed_microchip(&self) -> Option<&Microchip> {
        claimed(self.microchip.as_ref(), self.status)
    }
}

fn claimed(microchip: Option<&Microchip>, status: Option<PetStatus>) -> Option<&Microchip> {
    microchip.filter(|_| status != Some(PetStatus::Sold))
}

impl PetChange {
    /// Decides the pet after the change, given the claim of an order on it.
    ///
    /// With `expected`, the change is conditional: the pet must still have that
    /// value (optimistic concurrency). Only the order that claims a pet changes its
    /// status.
    pub fn decide(
        &self,
        before: &Pet,
        expected: Option<&Pet>,
        claim: Option<Claim>,
    ) -> Result<Pet, PetRejection> {
        if expected.is_some_and(|expected| expected != before) {
            return Err(PetRejection::Outdated);
        }
        let after = self.apply(before).map_err(PetRejection::Invalid)?;
        match claim {
            Some(claim) if after.status != before.status => Err(match claim {
                Claim::Reserved => PetRejection::Reserved,
                Claim::Sold => PetRejection::Sold,
            }),
            _ => Ok(after),
        }
    }
}

/// The claim of an active order on a pet. It excludes other orders, and other changes of the
/// pet's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The claim of an open order.
    Reserved,
    /// The claim of a completed order that was not returned.
    Sold,
}

/// Decides whether a pet can be deleted. `expected` works as in [`PetChange::decide`]. A sold pet
/// can be deleted: its order remains.
pub fn decide_deletion(
    before: &Pet,
    expected: Option<&Pet>,
    claim: Option<Claim>,
) -> Result<(), PetRejection> {
    if expected.is_some_and(|expected| expected != before) {
        return Err(PetRejection::Outdated);
    }
    match claim {
        Some(Claim::Reserved) => Err(PetRejection::Reserved),
        Some(Claim::Sold) | None => Ok(()),
    }
}

/// The reason why a pet was not created, changed or deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum PetRejection {
    #[error("there is no such animal")]
    NoSuchPet,
    /// The pet no longer has the expected value.
    #[error("it has changed")]
    Outdated,
    #[error("an open order reserves it, so its status cannot be changed")]
    Reserved,
    #[error("an order sold it, so its status cannot be changed")]
    Sold,
    /// This pet has the microchip, and is not sold.
    #[error("animal {} has the microchip", .0.get())]
    MicrochipTaken(PetId),
    /// A merge patch of an object, such as the source, leaves out what it needs.
    #[error("{}", join_messages(.0))]
    Invalid(Errors),
}

recorded_rejection!(PetRejection {
    NoSuchPet = "no_such_pet",
    Outdated = "outdated",
    Reserved = "reserved",
    Sold = "sold",
} not recorded {
    Invalid,
    MicrochipTaken,
});

/// A pet's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PetId(i64);

impl PetId {
    pub const MAX: i64 = (1 << 53) - 1;

    /// Parses an id from a path; `None` if it is not a positive int64.
    pub fn parse(text: &str) -> Option<Self> {
        parse_positive_decimal(text).map(Self)
    }

    /// Parses a reference to a pet in a body.
    pub fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let Some(value) = value else {
            return Err(Invalid::new("petId", "required; must be the id of a pet"));
        };
        let id = value.as_int64().filter(|id| (1..=Self::MAX).contains(id));
        id.map(Self).ok_or_else(|| {
            let max = Self::MAX;
            let got = value.describe();
            let reason = format!("must be an integer from 1 to {max}, got {got}");
            Invalid::new("petId", reason)
        })
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub fn from_store(id: i64) -> Self {
        Self(id)
    }
}

pub type PetName = Text<255>;

/// The sales status of a pet. Only an available pet can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PetStatus {
    Available,
    Pending,
    Sold,
}

impl Choice for PetStatus {
    const ALL: &[Self] = &[Self::Available, Self::Pending, Self::Sold];

    fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Pending => "pending",
            Self::Sold => "sold",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sex {
    Male,
    Female,
    Unknown,
}

impl Choice for Sex {
    const ALL: &[Self] = &[Self::Male, Self::Female, Self::Unknown];

    fn as_str(self) -> &'static str {
        match self {
            Self::Male => "male",
            Self::Female => "female",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Patch;

    fn pet(name: &str, status: Option<PetStatus>) -> Pet {
        let new = NewPet::new(PetName::parse(name).unwrap(), 7);
        NewPet { status, ..new }.with_id(PetId(1))
    }

    fn change(name: Option<&str>, status: Patch<PetStatus>) -> PetChange {
        PetChange {
            name: name.map(|name| PetName::parse(name).unwrap()),
            status,
            ..PetChange::default()
        }
    }

    #[test]
    fn a_change_is_decided_by_value_and_claim() {
        use PetStatus::*;
        let before = pet("Rex", Some(Pending));
        let stale = pet("Max", Some(Pending));
        let rename = change(Some("Max"), Patch::Keep);
        let sell = change(None, Patch::Set(Sold));
        let clear = change(None, Patch::Remove);
        let same = change(Some("Rex"), Patch::Set(Pending));
        let renamed = Ok(stale.clone());
        let renamed_again = renamed.clone();
        for (change, expected, claim, decision) in [
            (&rename, None, None, renamed.clone()),
            (&rename, None, Some(Claim::Reserved), renamed.clone()),
            (&rename, Some(&before), None, renamed),
            (&rename, Some(&stale), None, Err(PetRejection::Outdated)),
            (&same, None, Some(Claim::Reserved), Ok(before.clone())),
            (
                &same,
                Some(&stale),
                Some(Claim::Reserved),
                Err(PetRejection::Outdated),
            ),
            (
                &sell,
                None,
                Some(Claim::Reserved),
                Err(PetRejection::Reserved),
            ),
            (
                &clear,
                None,
                Some(Claim::Reserved),
                Err(PetRejection::Reserved),
            ),
            (
                &sell,
                Some(&stale),
                Some(Claim::Reserved),
                Err(PetRejection::Outdated),
            ),
            (&sell, None, None, Ok(pet("Rex", Some(Sold)))),
            (&clear, None, None, Ok(pet("Rex", None))),
            (&rename, None, Some(Claim::Sold), renamed_again),
            (&clear, None, Some(Claim::Sold), Err(PetRejection::Sold)),
        ] {
            let decided = change.decide(&before, expected, claim);
            assert_eq!(decided, decision, "{change:?} {expected:?} {claim:?}");
        }
    }

    #[test]
    fn a_deletion_is_decided_by_value_and_claim() {
        let before = pet("Rex", None);
        let stale = pet("Max", None);
        for (expected, claim, decision) in [
            (None, None, Ok(())),
            (None, Some(Claim::Sold), Ok(())),
            (None, Some(Claim::Reserved), Err(PetRejection::Reserved)),
            (Some(&before), None, Ok(())),
            (Some(&stale), None, Err(PetRejection::Outdated)),
        ] {
            assert_eq!(decide_deletion(&before, expected, claim), decision);
        }
    }
}
