//! Imports of many animals, in chunks, and the progress of each import.

pub mod words;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    category::{Category, CategoryId, CategoryName},
    idempotency::RecordedRejection,
    invalid::join_messages,
    json::{FromObject, Object},
    pet::{NewPet, PetChange, PetId, batch::BatchId},
};

/// The time for which an import is remembered: an interrupted one can be continued, and a
/// finished one is not imported twice.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The maximum number of imports that are remembered: the newest ones.
pub const MAX_REMEMBERED: i64 = 10_000;

/// The maximum number of new and changed pets in a chunk, which is what other writes may have to wait for.
pub const MAX_CHUNK_SIZE: usize = 500;

/// The size of the pets of a chunk as JSON, in bytes, from which on no more are added.
pub const FULL_CHUNK_BYTES: usize = 1 << 20;

/// The maximum size of a chunk as JSON, in bytes: a full one, the longest pet, and categories with
/// the longest names, escaped.
pub const MAX_CHUNK_BYTES: usize = 2 << 20;

/// Identifies an import: the SHA-256 of a file and its format, or random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImportId(pub [u8; 32]);

impl ImportId {
    /// Returns the id that the events of the import have, so that it can be undone.
    pub fn batch_id(&self) -> BatchId {
        BatchId::from_bytes(&self.0)
    }

    /// Returns the import whose events have this id, if it is that of an import.
    pub fn of_batch(batch: &BatchId) -> Option<Self> {
        let pairs = batch.as_str().as_bytes().chunks(2);
        let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        let bytes = bytes.collect::<Option<Vec<_>>>()?;
        let id = bytes.try_into().ok().map(Self)?;
        (id.batch_id() == *batch).then_some(id)
    }
}

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub id: ImportId,
    /// The number of records that are done.
    pub records: i64,
    /// The number of pets that were added.
    pub pets: i64,
    pub updated_at: Timestamp,
    /// `None` if the import was interrupted or is running.
    pub finished_at: Option<Timestamp>,
}

/// The reason why a chunk was not written. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum ChunkRejection {
    /// The import is not where the chunk begins: another command continues or has finished it, or
    /// it is not known anymore.
    #[error(
        "another command is importing the same file, so this one has stopped; no animal is imported \
         twice; if no other command is running, run this one again"
    )]
    Outdated,
    #[error(
        "animal {holder} now has the microchip {microchip}, which was free when the file was \
         checked; remove it from one of them"
    )]
    MicrochipTaken { microchip: String, holder: i64 },
    /// The message is for the person who imports.
    #[error("animal {id} cannot be changed: {reason}")]
    Update { id: i64, reason: String },
}

impl RecordedRejection for ChunkRejection {}

/// A change of a known pet by an import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PetUpdate {
    pub id: PetId,
    pub change: PetChange,
}

/// A part of an import, written in one transaction together with the progress.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportChunk {
    pub id: ImportId,
    /// The number of records that are done before the chunk, and after it. A skipped record
    /// counts.
    pub from: i64,
    pub to: i64,
    pub pets: Vec<NewPet>,
    /// Changes of known pets, each of them once.
    pub updates: Vec<PetUpdate>,
    /// Names for categories. Those whose id or name is taken are skipped.
    pub categories: Vec<Category>,
    /// True if the import is complete with this chunk, and is never continued.
    pub is_last: bool,
}

impl ImportChunk {
    /// Parses the JSON that a chunk serializes to. Returns a message if it is invalid.
    pub fn parse(json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Chunk<'a> {
            id: ImportId,
            from: i64,
            to: i64,
            #[serde(borrow)]
            pets: Vec<&'a RawValue>,
            #[serde(borrow)]
            updates: Vec<Update<'a>>,
            categories: Vec<NamedCategory>,
            is_last: bool,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Update<'a> {
            id: PetId,
            #[serde(borrow)]
            change: &'a RawValue,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NamedCategory {
            id: i64,
            name: String,
        }
        let chunk: Chunk = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let size = chunk.pets.len() + chunk.updates.len();
        if size > MAX_CHUNK_SIZE || !(0..chunk.to).contains(&chunk.from) {
            return Err("too many pets, or a wrong number of records".into());
        }
        let pet = |raw: &&RawValue| {
            let object = Object::parse(raw.get().as_bytes()).map_err(|error| error.to_string())?;
            NewPet::from_object(&object).map_err(|invalid| join_messages(&invalid))
        };
        let update = |update: &Update| {
            let json = update.change.get().as_bytes();
            let object = Object::parse(json).map_err(|error| error.to_string())?;
            let change = PetChange::from_object(&object);
            let change = change.map_err(|invalid| join_messages(&invalid))?;
            let id = update.id;
            Ok::<_, String>(PetUpdate { id, change })
        };
        let category = |category: &NamedCategory| {
            let name = CategoryName::parse(&category.name).map_err(|error| error.to_string())?;
            let id = CategoryId::from_store(category.id);
            Ok::<_, String>(Category { id, name })
        };
        Ok(Self {
            id: chunk.id,
            from: chunk.from,
            to: chunk.to,
            pets: chunk.pets.iter().map(pet).collect::<Result<_, _>>()?,
            updates: chunk.updates.iter().map(update).collect::<Result<_, _>>()?,
            categories: (chunk.categories.iter().map(category)).collect::<Result<_, _>>()?,
            is_last: chunk.is_last,
        })
    }
}
