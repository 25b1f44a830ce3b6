//! Imports of many animals, in chunks, and the progress of each import.

mod update;
pub mod words;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    category::{Category, CategoryId, CategoryName},
    invalid::{Invalid, join_messages},
    json::{FromObject, Object},
    members::Choice,
    page::set_once,
    pet::{NewPet, PetId, batch::BatchId},
};

pub use update::{ComparedMembers, PetUpdate};

pub use crate::pet::batch::{ImportId, ImportPart, StoppedImport};

/// The time for which an import is remembered: an interrupted one can be continued, and a
/// finished one is not imported twice.
pub const RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The maximum number of imports that are remembered: the newest ones.
pub const MAX_REMEMBERED: i64 = 10_000;

/// The maximum number of new and changed pets in a chunk, which is what other writes may have to
/// wait for.
pub const MAX_CHUNK_SIZE: usize = 500;

/// The size of the pets of a chunk as JSON, in bytes, from which on no more are added.
pub const FULL_CHUNK_BYTES: usize = 1 << 20;

/// The maximum size of a chunk as JSON, in bytes: a full one, the longest pet, and categories with
/// the longest names, escaped.
pub const MAX_CHUNK_BYTES: usize = 2 << 20;

/// A run of an import, which may be interrupted and continued. A file that is imported once more
/// has another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ImportRun {
    /// The id that the events of the run have, so that it can be undone.
    pub batch_id: BatchId,
    /// The highest id of a pet when the run started. The pets that the run has added itself have
    /// higher ids, and a record with such an id is not about them.
    pub last_known_id: i64,
}

impl ImportRun {
    pub fn start(last_known_id: i64) -> Self {
        Self {
            batch_id: BatchId::random(),
            last_known_id,
        }
    }
}

/// The progress of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub id: ImportId,
    pub run: ImportRun,
    /// The number of changes that a client of the API has announced. `None` for
    /// `petstore import`, which counts records of the file.
    pub rows: Option<i64>,
    /// The number of records that are done: of the file, or with `rows`, of its changes.
    pub records: i64,
    /// The number of pets that were added.
    pub added: i64,
    /// The number of pets that were changed.
    pub changed: i64,
    pub updated_at: Timestamp,
    /// `None` if the import was interrupted or is running.
    pub finished_at: Option<Timestamp>,
    /// `None` unless it was undone.
    pub undo: Option<ImportUndo>,
    /// The number of pets that the undo has kept, because they were changed or ordered since.
    pub kept: i64,
}

/// The progress of undoing an import. The record of an import that was undone is kept, so that the
/// rest of the import is rejected if it is still running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportUndo {
    /// A part of the import was undone; the rest is to come.
    Started,
    /// The whole import was undone, except for pets that were kept.
    Finished,
}

impl Choice for ImportUndo {
    const ALL: &[Self] = &[Self::Started, Self::Finished];

    fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Finished => "finished",
        }
    }
}

impl Import {
    /// Returns the name of its state, as clients see it.
    pub fn state(&self) -> &'static str {
        match (self.undo, self.finished_at) {
            (Some(ImportUndo::Finished), _) => "undone",
            (Some(ImportUndo::Started), _) => "undoing",
            (None, Some(_)) => "finished",
            (None, None) => "started",
        }
    }

    /// Returns the reason if a run cannot continue this import.
    pub fn ensure_continued(&self, run: &BatchId) -> Result<(), StoppedImport> {
        if self.run.batch_id != *run {
            Err(StoppedImport::Replaced)
        } else if self.undo.is_some() {
            Err(StoppedImport::Undone)
        } else {
            Ok(())
        }
    }
}

impl Serialize for Import {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            file: String,
            batch_id: &'a BatchId,
            state: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            rows: Option<i64>,
            done: i64,
            added: i64,
            changed: i64,
            updated_at: Timestamp,
            #[serde(skip_serializing_if = "Option::is_none")]
            finished_at: Option<Timestamp>,
            #[serde(skip_serializing_if = "Option::is_none")]
            kept: Option<i64>,
        }
        let body = Body {
            file: self.id.to_string(),
            batch_id: &self.run.batch_id,
            state: self.state(),
            rows: self.rows,
            done: self.records,
            added: self.added,
            changed: self.changed,
            updated_at: self.updated_at,
            finished_at: self.finished_at,
            kept: (self.kept > 0).then_some(self.kept),
        };
        body.serialize(serializer)
    }
}

/// The query for the import of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportQuery {
    pub file: ImportId,
}

impl ImportQuery {
    /// Parses a query string. Unknown parameters are ignored.
    pub fn parse(query: &str) -> Result<Self, Invalid> {
        let mut file = None;
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if name == "file" {
                let parsed = ImportId::parse(&value);
                let parsed = parsed.map_err(|reason| Invalid::new("file", reason))?;
                set_once("file", &mut file, parsed)?;
            }
        }
        let required = || Invalid::new("file", "required; must be the SHA-256 of a file");
        let file = file.ok_or_else(required)?;
        Ok(Self { file })
    }
}

/// The result of writing a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenChunk {
    /// The sequence number of the newest event before the chunk.
    pub last_event: i64,
    pub rejected: Vec<RejectedRecord>,
}

/// A pet that was not added or changed, because the store has changed since the file was checked.
/// The message is for the person who imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub enum RejectedRecord {
    #[error("{name} was not added: animal {holder} now has the microchip {microchip}")]
    Add {
        name: String,
        microchip: String,
        holder: i64,
    },
    #[error("animal {id} was not changed: {reason}")]
    Change { id: i64, reason: String },
}

/// A name that an import gives to a category without one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedCategory {
    #[serde(flatten)]
    pub category: Category,
    /// True if the import has chosen the number: no pet has it.
    pub is_new: bool,
}

/// A part of an import, written in one transaction together with the progress.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportChunk {
    pub id: ImportId,
    pub run: ImportRun,
    /// The number of records that are done before the chunk, and after it. A skipped record
    /// counts.
    pub from: i64,
    pub to: i64,
    pub pets: Vec<NewPet>,
    /// Changes of known pets, each of them once.
    pub updates: Vec<PetUpdate>,
    /// Categories that have no name yet.
    pub categories: Vec<NamedCategory>,
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
            run: ImportRun,
            from: i64,
            to: i64,
            #[serde(borrow)]
            pets: Vec<&'a RawValue>,
            updates: Vec<Update>,
            categories: Vec<Named>,
            is_last: bool,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Update {
            id: PetId,
            members: ComparedMembers,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        struct Named {
            id: i64,
            name: String,
            is_new: bool,
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
        let updates = chunk.updates.into_iter();
        let category = |named: &Named| {
            let name = CategoryName::parse(&named.name).map_err(|error| error.to_string())?;
            let id = CategoryId::from_store(named.id);
            Ok::<_, String>(NamedCategory {
                category: Category { id, name },
                is_new: named.is_new,
            })
        };
        Ok(Self {
            id: chunk.id,
            run: chunk.run,
            from: chunk.from,
            to: chunk.to,
            pets: chunk.pets.iter().map(pet).collect::<Result<_, _>>()?,
            updates: updates
                .map(|update| PetUpdate::new(update.id, update.members))
                .collect::<Result<_, _>>()?,
            categories: (chunk.categories.iter().map(category)).collect::<Result<_, _>>()?,
            is_last: chunk.is_last,
        })
    }
}
