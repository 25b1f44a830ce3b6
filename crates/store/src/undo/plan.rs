//! The plan of an undo: the changes of a batch, as they are read from its events.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    Error,
    event_row::EventRow,
    table::{Value, columns},
};
use domain::{
    category::{Category, CategoryId, NewCategory},
    event::EventType,
    import::Import,
    invalid::join_messages,
    json::{FromObject, Object},
    pet::{Pet, PetId, batch::BatchId},
    undo::{CategoryUndo, ImportToUndo, LoggedPet, MAX_UNDONE, UndoPlan},
};

/// The number of events that are read at a time.
const PAGE_SIZE: usize = 100;
/// The size of the events of a request, in bytes, from which on no more are read.
const MAX_BYTES: usize = 1 << 20;

statements! {
    /// The changes of pets and categories by a batch, newest first. A pet comes with the time of
    /// its newest order.
    CHANGES(Text, Int, Int) = {
        let categories = type_list(&[EventType::CategoryUpdated, EventType::CategoryDeleted]);
        let pets = type_list(&PET_TYPES);
        format!(
            "SELECT {},
                    CASE WHEN type IN ({pets}) THEN (
                        SELECT created_at FROM orders WHERE pet_id = resource_id
                        ORDER BY id DESC LIMIT 1) END
             FROM events
             WHERE batch_id = $1 AND sequence < $2 AND type IN ({pets}, {categories})
             ORDER BY sequence DESC LIMIT $3",
            columns::<EventRow>()
        )
    };
    /// The number of changes of pets by a batch that the log still has. Null if it has an event
    /// older than the oldest of them (`$1`): then nothing of the batch was purged.
    COUNT_CHANGES(Int, Text) = format!(
        "SELECT CASE WHEN EXISTS (SELECT 1 FROM events WHERE sequence < $1) THEN NULL
                     ELSE (SELECT count(*) FROM events
                           WHERE batch_id = $2 AND type IN ({})) END",
        type_list(&PET_TYPES)
    );
}

const PET_TYPES: [EventType; 3] = [
    EventType::PetCreated,
    EventType::PetUpdated,
    EventType::PetDeleted,
];

fn type_list(types: &[EventType]) -> String {
    let quoted: Vec<_> = types
        .iter()
        .map(|it| format!("'{}'", it.as_str()))
        .collect();
    quoted.join(", ")
}

/// Reads the states of a pet before and after a change.
fn logged_pet(row: EventRow, ordered_at: Option<Timestamp>) -> Result<LoggedPet, Error> {
    let pet = |json: &str| {
        let pet = Pet::from_json(json);
        pet.map_err(|message| Error::Internal(Arc::new(CorruptEvent(message))))
    };
    let data = pet(&row.data)?;
    let (before, after) = match row.kind {
        EventType::PetCreated => (None, Some(data)),
        EventType::PetDeleted => (Some(data), None),
        _ => (row.before.as_deref().map(pet).transpose()?, Some(data)),
    };
    Ok(LoggedPet {
        sequence: row.sequence,
        id: PetId::from_store(row.resource_id),
        before,
        after,
        is_ordered: ordered_at.is_some_and(|ordered| ordered > row.at),
    })
}

/// Reads the creation or deletion of a category; `None` if it was renamed.
fn logged_category(row: &EventRow) -> Result<Option<CategoryUndo>, Error> {
    let is_created = row.kind == EventType::CategoryUpdated;
    if is_created && row.before.is_some() {
        return Ok(None);
    }
    let corrupt = |message: String| Error::Internal(Arc::new(CorruptEvent(message)));
    let object = Object::parse(row.data.as_bytes()).map_err(|it| corrupt(it.to_string()))?;
    let new = NewCategory::from_object(&object);
    let NewCategory { name, .. } = new.map_err(|errors| corrupt(join_messages(&errors)))?;
    let id = CategoryId::from_store(row.resource_id);
    Ok(Some(CategoryUndo {
        category: Category { id, name },
        is_created,
    }))
}

/// A change of a batch in the log, and the time of the newest order for its pet.
pub(crate) type ChangeRow = (EventRow, Option<Timestamp>);

/// Reads the newest changes of a batch below a sequence number, page by page, as far as one
/// request undoes them. Changes of pets and of categories are different parts, so that a category
/// is judged after the changes of its pets were undone.
pub(crate) struct PlanReader<'a> {
    batch: &'a BatchId,
    imports: Vec<ImportToUndo>,
    below: Option<i64>,
    changes: Vec<LoggedPet>,
    categories: Vec<CategoryUndo>,
    bytes: usize,
    end: i64,
    /// True if changes of categories were read, and no pets; `None` if nothing was read yet.
    has_categories: Option<bool>,
    state: PlanState,
    purged: i64,
}

/// The progress of reading a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanState {
    Reading,
    /// Older changes are left to the next request.
    Full,
    /// The log has no older changes of the batch.
    Complete,
}

impl<'a> PlanReader<'a> {
    /// Returns the parameters of [`GET_OF_BATCH`]: the batch that was undone or redone first.
    pub(crate) fn origin(batch: &BatchId) -> [Value<'static>; 1] {
        let (origin, _) = batch.origin();
        [Value::text(origin.as_str().to_string())]
    }

    /// Takes the imports of [`origin`](Self::origin). They are read before the changes: an import
    /// that has the same progress when the plan is executed has made no other changes.
    pub(crate) fn new(batch: &'a BatchId, imports: Vec<Import>, below: Option<i64>) -> Self {
        let (_, is_undo) = batch.origin();
        let imports = imports.into_iter().map(|planned| ImportToUndo {
            planned,
            is_redone: is_undo,
        });
        Self {
            batch,
            imports: imports.collect(),
            below,
            changes: Vec::new(),
            categories: Vec::new(),
            bytes: 0,
            end: below.unwrap_or(i64::MAX),
            has_categories: None,
            state: PlanState::Reading,
            purged: 0,
        }
    }

    /// Returns the parameters of [`CHANGES`] for the next page, if there is one.
    pub(crate) fn next_page(&self) -> Option<[Value<'static>; 3]> {
        (self.state == PlanState::Reading).then(|| {
            [
                Value::text(self.batch.as_str().to_string()),
                Value::Int(self.end),
                Value::Int(PAGE_SIZE as i64),
            ]
        })
    }

    pub(crate) fn add_page(&mut self, rows: Vec<ChangeRow>) -> Result<(), Error> {
        let is_last = rows.len() < PAGE_SIZE;
        for (row, ordered_at) in rows {
            let is_category = matches!(
                row.kind,
                EventType::CategoryUpdated | EventType::CategoryDeleted
            );
            if *self.has_categories.get_or_insert(is_category) != is_category {
                self.state = PlanState::Full;
                return Ok(());
            }
            self.bytes += row.data.len() + row.before.as_ref().map_or(0, String::len);
            self.end = row.sequence;
            if is_category {
                self.categories.extend(logged_category(&row)?);
            } else {
                self.changes.push(logged_pet(row, ordered_at)?);
            }
        }
        let count = self.changes.len() + self.categories.len();
        if is_last {
            self.state = PlanState::Complete;
        } else if count >= MAX_UNDONE || self.bytes >= MAX_BYTES {
            self.state = PlanState::Full;
        }
        Ok(())
    }

    /// Returns the parameters of [`COUNT_CHANGES`], if the log may lack changes of an import.
    pub(crate) fn count(&self) -> Option<[Value<'static>; 2]> {
        let is_undone = self.imports.iter().any(|import| !import.is_redone);
        (is_undone && self.state == PlanState::Complete).then(|| {
            let batch = Value::text(self.batch.as_str().to_string());
            [Value::Int(self.end), batch]
        })
    }

    /// Takes the number of changes that the log has, unless it has all.
    pub(crate) fn add_count(&mut self, logged: Option<i64>) {
        let made = self
            .imports
            .iter()
            .map(|it| it.planned.added + it.planned.changed);
        self.purged = logged.map_or(0, |logged| (made.sum::<i64>() - logged).max(0));
    }

    /// Returns the plan, or `None` if the log has no changes of the batch.
    pub(crate) fn into_plan(self) -> Option<UndoPlan> {
        let is_known = self.below.is_some() || self.has_categories.is_some();
        let is_first = (self.below).is_none_or(|below| below >= UndoPlan::FROM_THE_TOP);
        let next = (self.state != PlanState::Complete).then_some(self.end);
        is_known.then(|| UndoPlan {
            is_first,
            imports: self.imports,
            purged: self.purged,
            ..UndoPlan::new(self.batch, self.changes, next).with_categories(self.categories)
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an event does not have a valid resource: {0}")]
struct CorruptEvent(String);
