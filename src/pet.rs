//! Pets: their types, validation, and the rule for changing one.

use compact_str::CompactString;
use serde::Serialize;

use crate::{
    invalid::{Invalid, combine},
    json::{FromObject, Object, Value},
    page::{ListKind, Status, parse_positive_decimal},
};

/// A pet in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pet {
    pub id: PetId,
    pub name: PetName,
    pub category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PetStatus>,
}

/// A pet that has not been stored yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPet {
    pub name: PetName,
    pub category_id: i64,
    pub status: Option<PetStatus>,
}

impl NewPet {
    pub fn with_id(self, id: PetId) -> Pet {
        Pet {
            id,
            name: self.name,
            category_id: self.category_id,
            status: self.status,
        }
    }
}

impl FromObject for NewPet {
    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let name = PetName::from_json(object.get("name"));
        let category_id = category_id(object.get("categoryId"));
        let status = object.get("status").map(PetStatus::from_json).transpose();
        let (name, category_id, status) = combine(name, category_id, status)?;
        Ok(Self {
            name,
            category_id,
            status,
        })
    }
}

/// A merge patch (RFC 7396) of a pet. Members that are absent stay unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PetChange {
    pub name: Option<PetName>,
    pub category_id: Option<i64>,
    /// `Some(None)` removes the status.
    pub status: Option<Option<PetStatus>>,
}

impl PetChange {
    /// Decides what the change does to a pet. `reserved`: whether an open order reserves
    /// it.
    ///
    /// With `expected`, the change is conditional: the pet must still have that
    /// value (optimistic concurrency). While a pet is reserved, only its order
    /// changes its status.
    pub fn decide(
        &self,
        before: &Pet,
        expected: Option<&Pet>,
        reserved: bool,
    ) -> Result<Decision, PetRejection> {
        if expected.is_some_and(|expected| expected != before) {
            return Err(PetRejection::Outdated);
        }
        let after = self.apply(before);
        if after == *before {
            return Ok(Decision::Unchanged);
        }
        if reserved && after.status != before.status {
            return Err(PetRejection::Reserved);
        }
        Ok(Decision::Update(after))
    }

    fn apply(&self, pet: &Pet) -> Pet {
        Pet {
            id: pet.id,
            name: self.name.clone().unwrap_or_else(|| pet.name.clone()),
            category_id: self.category_id.unwrap_or(pet.category_id),
            status: self.status.unwrap_or(pet.status),
        }
    }
}

impl FromObject for PetChange {
    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        let name = object.get("name");
        let name = name.map(|value| PetName::from_json(Some(value)));
        let category = object.get("categoryId");
        let category = category.map(|value| category_id(Some(value)));
        let status = object.get("status").map(|value| match value.is_null() {
            true => Ok(None),
            false => PetStatus::from_json(value).map(Some),
        });
        let (name, category_id, status) =
            combine(name.transpose(), category.transpose(), status.transpose())?;
        Ok(Self {
            name,
            category_id,
            status,
        })
    }
}

/// What a change does to a pet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The pet already has these values; nothing is written.
    Unchanged,
    /// The pet gets this value.
    Update(Pet),
}

/// The number of pets by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Inventory {
    pub available: i64,
    pub pending: i64,
    pub sold: i64,
}

/// Why a pet was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PetRejection {
    NoSuchPet,
    /// The pet no longer has the expected value.
    Outdated,
    /// An open order reserves the pet, so only that order changes its status.
    Reserved,
}

/// A pet's id: positive, below 2^53, assigned by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct PetId(i64);

impl PetId {
    const MAX: i64 = (1 << 53) - 1;

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
            let (max, got) = (Self::MAX, value.describe());
            let reason = format!("must be an integer from 1 to {max}, got {got}");
            Invalid::new("petId", reason)
        })
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub(crate) fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// A pet's name: 1 to 255 characters, not only whitespace, no control
/// characters. Kept exactly as sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PetName(CompactString);

impl PetName {
    pub const MAX_CHARS: usize = 255;

    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let invalid = |reason: String| Err(Invalid::new("name", reason));
        let length = name.chars().count();
        if length == 0 || length > Self::MAX_CHARS {
            let max = Self::MAX_CHARS;
            return invalid(format!("must be 1 to {max} characters long, got {length}"));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            let code = u32::from(control);
            return invalid(format!(
                "must not contain control characters, got U+{code:04X}"
            ));
        }
        if name.chars().all(char::is_whitespace) {
            return invalid("must not be only whitespace".into());
        }
        Ok(Self(name.into()))
    }

    fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let Some(value) = value else {
            return Err(Invalid::new("name", "required; must be a string"));
        };
        match value.as_string() {
            Some(name) => Self::parse(&name),
            None => Err(Invalid::new(
                "name",
                format!("must be a string, got {}", value.describe()),
            )),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn from_store(name: &str) -> Self {
        Self(name.into())
    }
}

/// The sales status of a pet. Only an available pet can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PetStatus {
    Available,
    Pending,
    Sold,
}

impl Status for PetStatus {
    const LIST: ListKind = ListKind::Pets;
    const ALL: &[Self] = &[Self::Available, Self::Pending, Self::Sold];

    fn as_str(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Pending => "pending",
            Self::Sold => "sold",
        }
    }
}

impl PetStatus {
    fn from_json(value: Value) -> Result<Self, Invalid> {
        match value.as_string() {
            Some(text) => Self::parse(&text),
            None => Err(Self::invalid(&value.describe())),
        }
    }
}

fn category_id(value: Option<Value>) -> Result<i64, Invalid> {
    let Some(value) = value else {
        let reason = "required; must be an integer (int64)";
        return Err(Invalid::new("categoryId", reason));
    };
    value.as_int64().ok_or_else(|| {
        let (min, max, got) = (i64::MIN, i64::MAX, value.describe());
        let reason = format!("must be an integer from {min} to {max}, got {got}");
        Invalid::new("categoryId", reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pet(name: &str, status: Option<PetStatus>) -> Pet {
        Pet {
            id: PetId(1),
            name: PetName::parse(name).unwrap(),
            category_id: 7,
            status,
        }
    }

    fn change(name: Option<&str>, status: Option<Option<PetStatus>>) -> PetChange {
        PetChange {
            name: name.map(|name| PetName::parse(name).unwrap()),
            category_id: None,
            status,
        }
    }

    #[test]
    fn a_change_is_decided_by_value_and_reservation() {
        use PetStatus::*;
        let before = pet("Rex", Some(Pending));
        let stale = pet("Max", Some(Pending));
        let rename = change(Some("Max"), None);
        let sell = change(None, Some(Some(Sold)));
        let clear = change(None, Some(None));
        let same = change(Some("Rex"), Some(Some(Pending)));
        let renamed = Ok(Decision::Update(stale.clone()));
        for (change, expected, reserved, decision) in [
            (&rename, None, false, renamed.clone()),
            (&rename, None, true, renamed.clone()),
            (&rename, Some(&before), false, renamed),
            (&rename, Some(&stale), false, Err(PetRejection::Outdated)),
            (&same, None, true, Ok(Decision::Unchanged)),
            (&same, Some(&stale), true, Err(PetRejection::Outdated)),
            (&sell, None, true, Err(PetRejection::Reserved)),
            (&clear, None, true, Err(PetRejection::Reserved)),
            (&sell, Some(&stale), true, Err(PetRejection::Outdated)),
            (
                &sell,
                None,
                false,
                Ok(Decision::Update(pet("Rex", Some(Sold)))),
            ),
            (&clear, None, false, Ok(Decision::Update(pet("Rex", None)))),
        ] {
            let decided = change.decide(&before, expected, reserved);
            assert_eq!(decided, decision, "{change:?} {expected:?} {reserved}");
        }
    }
}
