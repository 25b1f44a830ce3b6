//! Undoing a batch: reads its events, gives the pets their former state back in one command, and
//! closes the record of the import that it belongs to.

use std::{convert::Infallible, sync::Arc};

use jiff::Timestamp;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult},
    draft::Draft,
    event_row::EventRow,
    imports::GET_OF_BATCH,
    photos::{remove_others, restore_photos},
    row_keys::Keys,
    table::{Value, columns},
};
use domain::{
    category::{Category, CategoryId, NewCategory},
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    import::Import,
    invalid::join_messages,
    json::{FromObject, Object},
    pet::{Pet, PetId, batch::BatchId},
    undo::{
        CategoryDecision, CategoryUndo, ImportToUndo, KeptPet, KeptReason, LoggedPet, MAX_UNDONE,
        UndoDecision, UndoOutcome, UndoPlan,
    },
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

pub(super) struct UndoChanges(pub(super) UndoPlan);

impl Command for UndoChanges {
    const LANE: Lane = Lane::Bulk;
    const RESTORES: bool = true;

    type Output = UndoOutcome;
    /// It is never rejected as a whole.
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.has_many_changes = true;
        let imports = self.0.imports.iter().map(|import| import.planned.id);
        keys.imports.extend(imports);
        for undo in &self.0.categories {
            keys.categories.push(undo.category.id);
            keys.category_names.push(undo.category.name.folded());
            keys.used_categories.push(undo.category.id);
        }
        for undo in &self.0.undos {
            keys.pets.push(undo.id);
            match &undo.before {
                Some(before) => keys.photos.extend(before.photos().iter().map(|it| it.id)),
                None => keys.photos_of.push(undo.id),
            }
            let microchip = undo.before.as_ref().and_then(|pet| pet.microchip.clone());
            keys.microchips.extend(microchip);
        }
    }

    fn batch_id(&self) -> Option<&BatchId> {
        Some(&self.0.id)
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<UndoOutcome, Infallible> {
        let UndoPlan {
            id,
            undos,
            categories,
            kept,
            is_first,
            imports,
            purged,
            next,
        } = self.0.clone();
        let mut outcome = UndoOutcome {
            id,
            undone: 0,
            kept,
            categories: 0,
            purged,
            purged_photos: 0,
            next,
        };
        for undo in undos {
            let claim = draft.claims.get(&undo.id).copied();
            let keep = match undo.decide(draft.tables.pets.get(&undo.id), claim) {
                UndoDecision::Done => continue,
                UndoDecision::Keep(reason) => Some(reason),
                UndoDecision::Restore => {
                    let holder = undo
                        .before
                        .as_ref()
                        .and_then(|it| draft.microchip_holder(it));
                    // An earlier change of this command frees the microchip, but a unique index
                    // would still see it (`Draft::microchip_holder`). The next request restores
                    // this pet.
                    if holder.is_some() && undo.before.as_ref().is_some_and(|it| draft.frees(it)) {
                        outcome.next = Some(undo.sequence + 1);
                        break;
                    }
                    holder.map(KeptReason::MicrochipTaken)
                }
            };
            if let Some(reason) = keep {
                let id = undo.id;
                outcome.kept.push(KeptPet { id, reason });
                continue;
            }
            outcome.undone += 1;
            let current = draft.tables.pets.get(&undo.id).cloned();
            let logged_photos = undo.before.as_ref().map_or(0, |pet| pet.photos().len());
            let before = undo.before.map(|pet| restore_photos(draft, pet));
            let restored_photos = before.as_ref().map_or(0, |pet| pet.photos().len());
            outcome.purged_photos += logged_photos - restored_photos;
            if let Some(current) = current {
                remove_others(draft, &current, before.as_ref().map_or(&[], Pet::photos));
            }
            match before {
                Some(pet) => draft.put(pet),
                None => draft.delete::<Pet>(undo.id),
            }
        }
        for undo in categories {
            let Category { id, name } = &undo.category;
            let is_name_taken = draft.category_names.contains_key(&name.folded());
            let is_used = draft.is_category_used(*id);
            match undo.decide(draft.tables.categories.get(id), is_name_taken, is_used) {
                CategoryDecision::Keep => continue,
                CategoryDecision::Delete => draft.delete::<Category>(*id),
                CategoryDecision::Restore => draft.put(undo.category),
            }
            outcome.categories += 1;
        }
        let records = imports.iter().filter_map(|import| {
            let record = draft.tables.imports.get(&import.planned.id)?;
            (record.run == import.planned.run).then(|| (import, record.clone()))
        });
        let records: Vec<_> = records.collect();
        // The import has continued since the plan was read. This command closes it, so the next
        // request starts at the newest change and sees all.
        if records
            .iter()
            .any(|(import, record)| import.has_grown(record))
        {
            outcome.next = Some(UndoPlan::FROM_THE_TOP);
        }
        // The last part reports them.
        if outcome.next.is_some() {
            outcome.purged = 0;
        }
        for (import, record) in records {
            draft.put(Import {
                updated_at: draft.times.now,
                ..import.record_after(record, is_first, &outcome)
            });
        }
        Ok(outcome)
    }

    fn recorded(outcome: &UndoOutcome) -> RecordedResult {
        RecordedResult::of_json(0, outcome)
    }
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
pub(super) type ChangeRow = (EventRow, Option<Timestamp>);

/// Reads the newest changes of a batch below a sequence number, page by page, as far as one
/// request undoes them. Changes of pets and of categories are different parts, so that a category
/// is judged after the changes of its pets were undone.
pub(super) struct PlanReader<'a> {
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
    pub(super) fn origin(batch: &BatchId) -> [Value<'static>; 1] {
        let (origin, _) = batch.origin();
        [Value::text(origin.as_str().to_string())]
    }

    /// Takes the imports of [`origin`](Self::origin). They are read before the changes: an import
    /// that has the same progress when the plan is executed has made no other changes.
    pub(super) fn new(batch: &'a BatchId, imports: Vec<Import>, below: Option<i64>) -> Self {
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
    pub(super) fn next_page(&self) -> Option<[Value<'static>; 3]> {
        (self.state == PlanState::Reading).then(|| {
            [
                Value::text(self.batch.as_str().to_string()),
                Value::Int(self.end),
                Value::Int(PAGE_SIZE as i64),
            ]
        })
    }

    pub(super) fn add_page(&mut self, rows: Vec<ChangeRow>) -> Result<(), Error> {
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
    pub(super) fn count(&self) -> Option<[Value<'static>; 2]> {
        let is_undone = self.imports.iter().any(|import| !import.is_redone);
        (is_undone && self.state == PlanState::Complete).then(|| {
            let batch = Value::text(self.batch.as_str().to_string());
            [Value::Int(self.end), batch]
        })
    }

    /// Takes the number of changes that the log has, unless it has all.
    pub(super) fn add_count(&mut self, logged: Option<i64>) {
        let made = self
            .imports
            .iter()
            .map(|it| it.planned.added + it.planned.changed);
        self.purged = logged.map_or(0, |logged| (made.sum::<i64>() - logged).max(0));
    }

    /// Returns the plan, or `None` if the log has no changes of the batch.
    pub(super) fn into_plan(self) -> Option<UndoPlan> {
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

impl Store {
    /// Reads the newest changes of a batch below a sequence number, as far as one request undoes
    /// them. Returns `None` if the log has none.
    pub async fn undo_plan(
        &self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoPlan>, Error> {
        let imports = self.query(&GET_OF_BATCH, PlanReader::origin(batch).into());
        let mut reader = PlanReader::new(batch, imports.await?, below);
        while let Some(parameters) = reader.next_page() {
            reader.add_page(self.query(&CHANGES, parameters.into()).await?)?;
        }
        if let Some(parameters) = reader.count() {
            let counted = self.find(&COUNT_CHANGES, parameters.into()).await?;
            reader.add_count(counted.and_then(|(count,)| count));
        }
        Ok(reader.into_plan())
    }

    /// Undoes a part of a batch for a command of the operator, who has no API key. Returns `None`
    /// if the log has no changes of the batch.
    pub async fn undo_part(
        &self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoOutcome>, Error> {
        let Some(plan) = self.undo_plan(batch, below).await? else {
            return Ok(None);
        };
        let Ok(outcome) = self.execute_once(None, UndoChanges(plan)).await?;
        Ok(Some(outcome))
    }

    /// Undoes the changes of a plan, in one transaction. Pets that were changed or ordered since
    /// are kept.
    pub async fn undo(
        &self,
        api_key_id: i64,
        plan: UndoPlan,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<UndoOutcome>, Error> {
        let command = UndoChanges(plan);
        let reply = self.execute(Some(api_key_id), command, request).await?;
        Ok(reply.or_recorded()?.map(|Ok(outcome)| outcome))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an event does not have a valid resource: {0}")]
struct CorruptEvent(String);
