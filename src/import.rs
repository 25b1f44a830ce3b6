//! Imports of many animals, in chunks, and how far each has come.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    category::{Category, CategoryId, CategoryName},
    invalid::join_messages,
    json::{FromObject, Object},
    pet::NewPet,
};

/// The time that an import is remembered for: an interrupted one can be continued, and a
/// finished one is not imported twice.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The most imports that are remembered, the newest of them.
pub const MAX_REMEMBERED: i64 = 10_000;

/// The most pets of a chunk: other writes wait for that many.
pub const MAX_CHUNK_SIZE: usize = 500;

/// The most bytes of a chunk as JSON: pets and categories with the longest names, escaped.
pub const MAX_CHUNK_BYTES: usize = 2 << 20;

/// Identifies an import: the SHA-256 of a file and its format, or random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ImportId(pub [u8; 32]);

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub id: ImportId,
    /// The number of records that are done.
    pub records: i64,
    /// The number of pets that were added.
    pub pets: i64,
    pub updated_at: Timestamp,
    /// `None` if it was interrupted or is running.
    pub finished_at: Option<Timestamp>,
}

/// The record of an import that was completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedImport {
    pub pets: i64,
    pub at: Timestamp,
}

/// A part of an import, written in one transaction together with the progress.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportChunk {
    pub id: ImportId,
    /// The number of records that were done before it, and are after it. A record that was
    /// skipped counts.
    pub from: i64,
    pub to: i64,
    pub pets: Vec<NewPet>,
    /// Names for categories. Those whose id or name is taken are skipped.
    pub categories: Vec<Category>,
    /// The import is complete with it, and never continued.
    pub is_last: bool,
}

impl ImportChunk {
    /// Parses the JSON that it serializes to. Returns what is invalid.
    pub fn parse(json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Chunk<'a> {
            id: ImportId,
            from: i64,
            to: i64,
            #[serde(borrow)]
            pets: Vec<&'a RawValue>,
            categories: Vec<NamedCategory>,
            is_last: bool,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct NamedCategory {
            id: i64,
            name: String,
        }
        let chunk: Chunk = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if chunk.pets.len() > MAX_CHUNK_SIZE || !(0..chunk.to).contains(&chunk.from) {
            return Err("too many pets, or a wrong number of records".into());
        }
        let pet = |raw: &&RawValue| {
            let object = Object::parse(raw.get().as_bytes()).map_err(|error| error.to_string())?;
            NewPet::from_object(&object).map_err(|invalid| join_messages(&invalid))
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
            categories: (chunk.categories.iter().map(category)).collect::<Result<_, _>>()?,
            is_last: chunk.is_last,
        })
    }
}
