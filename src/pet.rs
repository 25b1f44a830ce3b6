//! Animals: what one is, and what a client may say of a new one or to change
//! one.

use compact_str::CompactString;
use serde::Serialize;

use crate::{
    invalid::{Invalid, all},
    json::{FromObject, Object, Value},
    page::{Filter, ListKind, decimal},
};

/// An animal of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pet {
    pub id: PetId,
    pub name: PetName,
    pub category_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PetStatus>,
}

/// An animal that has no id yet.
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
        let (name, category_id, status) = all(name, category_id, status)?;
        Ok(Self {
            name,
            category_id,
            status,
        })
    }
}

/// What a client changes of an animal: a merge patch (RFC 7396). What it leaves
/// out stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PetChange {
    pub name: Option<PetName>,
    pub category_id: Option<i64>,
    /// The inner `None` removes it.
    pub status: Option<Option<PetStatus>>,
}

impl PetChange {
    /// What becomes of an animal.
    pub fn apply(&self, pet: &Pet) -> Pet {
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
            all(name.transpose(), category.transpose(), status.transpose())?;
        Ok(Self {
            name,
            category_id,
            status,
        })
    }
}

/// How many animals there are of each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Inventory {
    pub available: i64,
    pub pending: i64,
    pub sold: i64,
}

/// Why an animal was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    NoSuchPet,
    /// It is no longer as its client expects it.
    Outdated,
    /// An open order holds it, so its status is the order's.
    Reserved,
}

/// The number of an animal: positive and below 2^53, given by the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct PetId(i64);

impl PetId {
    const MAX: i64 = (1 << 53) - 1;

    /// Reads an id as it stands in a path; anything else names no animal.
    pub fn parse(text: &str) -> Option<Self> {
        decimal(text).map(Self)
    }

    /// Reads the id of an animal that a body refers to.
    pub fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let Some(value) = value else {
            return Err(Invalid::new("petId", "is required and must be a pet's id"));
        };
        let id = value.as_int64().filter(|id| (1..=Self::MAX).contains(id));
        id.map(Self).ok_or_else(|| {
            let (max, got) = (Self::MAX, value.shown());
            let reason = format!("must be a whole number from 1 to {max}, got {got}");
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

/// An animal's name: 1 to 255 characters, not only white space, no control
/// characters; kept exactly as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PetName(CompactString);

impl PetName {
    pub const MAX_CHARS: usize = 255;

    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let wrong = |reason: String| Err(Invalid::new("name", reason));
        let length = name.chars().count();
        if length == 0 || length > Self::MAX_CHARS {
            let max = Self::MAX_CHARS;
            return wrong(format!("must have 1 to {max} characters, has {length}"));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            let code = u32::from(control);
            return wrong(format!(
                "must not hold control characters, has U+{code:04X}"
            ));
        }
        if name.chars().all(char::is_whitespace) {
            return wrong("must not be only white space".into());
        }
        Ok(Self(name.into()))
    }

    fn from_json(value: Option<Value>) -> Result<Self, Invalid> {
        let Some(value) = value else {
            return Err(Invalid::new("name", "is required and must be a string"));
        };
        match value.as_string() {
            Some(name) => Self::parse(&name),
            None => Err(Invalid::new(
                "name",
                format!("must be a string, got {}", value.shown()),
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

/// Whether an animal can be bought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PetStatus {
    Available,
    Pending,
    Sold,
}

impl Filter for PetStatus {
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
            None => Err(Self::invalid(&value.shown())),
        }
    }
}

fn category_id(value: Option<Value>) -> Result<i64, Invalid> {
    let Some(value) = value else {
        let reason = "is required and must be a whole number (int64)";
        return Err(Invalid::new("categoryId", reason));
    };
    value.as_int64().ok_or_else(|| {
        let (min, max, got) = (i64::MIN, i64::MAX, value.shown());
        let reason = format!("must be a whole number from {min} to {max}, got {got}");
        Invalid::new("categoryId", reason)
    })
}
