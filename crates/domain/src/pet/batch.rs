//! Batches: many changes of pets in one request, in one transaction.

mod import_part;
mod request;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{NewPet, Pet, PetChange, PetId, PetRejection};
use crate::{
    idempotency::RecordedRejection,
    invalid::quoted,
    json::Value,
    members::{Scalar, string},
};

pub use import_part::{ImportId, ImportPart, StoppedImport};
pub use request::{Action, BatchRequest, RequestedChange};

/// The maximum number of changes in a batch.
pub const MAX_CHANGES: usize = 1000;

/// The start of the id of a batch that undoes another one.
const UNDO: &str = "undo-";

/// Identifies a batch, or several that belong together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(CompactString);

impl BatchId {
    const MAX_CHARS: usize = 64;

    /// Parses an id: 1 to 64 letters, digits, underscores and hyphens.
    pub fn parse(text: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let is_valid = (1..=Self::MAX_CHARS).contains(&text.len()) && text.bytes().all(is_allowed);
        is_valid.then(|| Self(text.into()))
    }

    pub fn random() -> Self {
        Self(format!("{:032x}", rand::random::<u128>()).into())
    }

    /// Follows the prefixes `undo-` to the first batch. Returns it, and true if this batch leaves
    /// it undone (an odd number of prefixes). A long id that was replaced by a hash has no prefix.
    pub fn origin(&self) -> (Self, bool) {
        let mut origin = self.as_str();
        let mut is_undo = false;
        while let Some(id) = origin.strip_prefix(UNDO).filter(|id| !id.is_empty()) {
            origin = id;
            is_undo = !is_undo;
        }
        (Self(origin.into()), is_undo)
    }

    /// Returns the id of the batch that undoes this one.
    pub fn of_undo(&self) -> Self {
        let readable = format!("{UNDO}{}", self.0);
        if readable.len() <= Self::MAX_CHARS {
            return Self(readable.into());
        }
        Self::from_bytes(&Sha256::digest(readable).into())
    }

    /// Returns an id of 64 hexadecimal digits.
    pub(crate) fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scalar for BatchId {
    /// Reads an id that a client has chosen. With that of an undo, it would be taken for one.
    fn from_json(value: Value) -> Result<Self, String> {
        let id = Self::from_cell(&string(value)?)?;
        if id.as_str().starts_with(UNDO) {
            let reason = format!("must not start with {UNDO}, which names the undo of a batch");
            return Err(reason);
        }
        Ok(id)
    }

    fn from_cell(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            let max = Self::MAX_CHARS;
            let got = quoted(text);
            format!("must be 1 to {max} of the characters A-Z a-z 0-9 _ -, got {got}")
        })
    }

    fn to_cell(&self) -> String {
        self.0.to_string()
    }
}

/// A batch whose changes are executed in order.
pub struct PetBatch {
    pub id: BatchId,
    /// The import that it is a part of.
    pub import: Option<ImportPart>,
    /// True if a rejected change rejects all.
    pub is_atomic: bool,
    pub changes: Vec<BatchChange>,
    /// Returns true if entity tags are those of a pet.
    pub matches: fn(tags: &str, pet: &Pet) -> bool,
}

/// A change in a batch. With `if_match`, the pet must have one of these entity tags. With
/// `expected`, each member in it must have this value, or the one that the update gives it.
#[derive(Debug)]
pub enum BatchChange {
    Create(NewPet),
    Update {
        id: PetId,
        change: PetChange,
        expected: Option<Box<PetChange>>,
        if_match: Option<String>,
    },
    Delete {
        id: PetId,
        if_match: Option<String>,
    },
    /// Its members are not valid, for the reason in the message.
    Invalid(String),
}

/// The outcome of one change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeOutcome {
    Created(PetId),
    Updated,
    Deleted,
    Rejected(PetRejection),
    Invalid(String),
}

impl ChangeOutcome {
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected(_) | Self::Invalid(_))
    }
}

/// The outcome of every change of a batch, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchOutcome {
    pub id: BatchId,
    pub changes: Vec<ChangeOutcome>,
}

/// The reason why a batch was rejected as a whole. Nothing was changed, so it is not recorded: a
/// retry is decided again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchRejection {
    /// The first rejected change of an atomic batch.
    Change {
        index: usize,
        outcome: ChangeOutcome,
    },
    Stopped(StoppedImport),
}

impl RecordedRejection for BatchRejection {}
