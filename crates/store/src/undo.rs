//! Undoing a batch: reads its events, and gives the pets their former state back in one command.

use std::{convert::Infallible, sync::Arc};

use jiff::Timestamp;

use super::{
    Error, Store,
    command::{Command, Lane, Recorded, Reply},
    draft::Draft,
    rows::to_json,
    table::{Value, columns},
    tables::{EventRow, Keys},
};
use domain::{
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    pet::{
        Pet, PetId,
        batch::BatchId,
        undo::{KeptPet, KeptReason, LoggedPet, MAX_UNDONE, UndoDecision, UndoOutcome, UndoPlan},
    },
};

/// The number of events that are read at a time.
const PAGE_SIZE: usize = 100;
/// The size of the events of a request, in bytes, from which on no more are read.
const MAX_BYTES: usize = 1 << 20;

statements! {
    /// The changes of pets by a batch, newest first, and the time of the newest order for each
    /// pet.
    CHANGES(Text, Int, Int) = format!(
        "SELECT {}, (SELECT created_at FROM orders WHERE pet_id = resource_id
                     ORDER BY id DESC LIMIT 1)
         FROM events WHERE batch_id = $1 AND sequence < $2 AND type IN ('{}', '{}', '{}')
         ORDER BY sequence DESC LIMIT $3",
        columns::<EventRow>(),
        EventType::PetCreated.as_str(),
        EventType::PetUpdated.as_str(),
        EventType::PetDeleted.as_str()
    );
}

pub(super) struct UndoChanges(pub(super) UndoPlan);

impl Command for UndoChanges {
    const LANE: Lane = Lane::Bulk;
    const RESTORES: bool = true;

    type Output = UndoOutcome;
    /// It is never rejected as a whole.
    type Rejection = Infallible;

    fn keys(&self, keys: &mut Keys) {
        keys.has_batch = true;
        for undo in &self.0.undos {
            keys.pets.push(undo.id);
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
            kept,
            next,
        } = self.0.clone();
        let mut outcome = UndoOutcome {
            id,
            undone: 0,
            kept,
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
                    // Another pet gives the microchip back in this very command: the next one
                    // can take it.
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
            match undo.before {
                Some(pet) => draft.put(pet),
                None => draft.delete::<Pet>(undo.id),
            }
        }
        Ok(outcome)
    }

    fn recorded(outcome: &UndoOutcome) -> Recorded {
        Recorded {
            id: 0,
            results: Some(to_json(outcome)),
        }
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

/// A change of a batch in the log, and the time of the newest order for its pet.
pub(super) type ChangeRow = (EventRow, Option<Timestamp>);

/// Reads the newest changes of a batch below a sequence number, page by page, as far as one
/// request undoes them.
pub(super) struct PlanReader<'a> {
    batch: &'a BatchId,
    below: Option<i64>,
    changes: Vec<LoggedPet>,
    bytes: usize,
    end: i64,
    is_complete: bool,
}

impl<'a> PlanReader<'a> {
    pub(super) fn new(batch: &'a BatchId, below: Option<i64>) -> Self {
        Self {
            batch,
            below,
            changes: Vec::new(),
            bytes: 0,
            end: below.unwrap_or(i64::MAX),
            is_complete: false,
        }
    }

    /// Returns the parameters of [`CHANGES`] for the next page, if there is one.
    pub(super) fn next_page(&self) -> Option<[Value<'static>; 3]> {
        let is_full = self.changes.len() >= MAX_UNDONE || self.bytes >= MAX_BYTES;
        (!is_full && !self.is_complete).then(|| {
            [
                Value::text(self.batch.as_str().to_string()),
                Value::Int(self.end),
                Value::Int(PAGE_SIZE as i64),
            ]
        })
    }

    pub(super) fn add_page(&mut self, rows: Vec<ChangeRow>) -> Result<(), Error> {
        self.is_complete = rows.len() < PAGE_SIZE;
        for (row, ordered_at) in rows {
            self.bytes += row.data.len() + row.before.as_ref().map_or(0, String::len);
            self.end = row.sequence;
            self.changes.push(logged_pet(row, ordered_at)?);
        }
        Ok(())
    }

    /// Returns the plan, or `None` if the log has no changes of the batch.
    pub(super) fn plan(self) -> Option<UndoPlan> {
        let is_known = self.below.is_some() || !self.changes.is_empty();
        let next = (!self.is_complete).then_some(self.end);
        is_known.then(|| UndoPlan::new(self.batch, self.changes, next))
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
        let mut reader = PlanReader::new(batch, below);
        while let Some(parameters) = reader.next_page() {
            reader.add_page(self.query(&CHANGES, parameters.into()).await?)?;
        }
        Ok(reader.plan())
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
        Ok(match reply {
            Reply::Executed(Ok(outcome)) => Idempotent::Executed(outcome),
            Reply::Replayed(Ok(recorded)) => Idempotent::Replayed(recorded.parse()?),
            Reply::KeyReused => Idempotent::KeyReused,
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("an event does not have a valid pet: {0}")]
struct CorruptEvent(String);
