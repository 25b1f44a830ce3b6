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

struct UndoChanges(UndoPlan);

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

impl Store {
    /// Reads the newest changes of a batch below a sequence number, as far as one request undoes
    /// them. Returns `None` if the log has none.
    pub async fn undo_plan(
        &self,
        batch: &BatchId,
        below: Option<i64>,
    ) -> Result<Option<UndoPlan>, Error> {
        let mut changes: Vec<LoggedPet> = Vec::new();
        let mut bytes = 0;
        let mut end = below.unwrap_or(i64::MAX);
        let mut is_complete = false;
        while !is_complete && changes.len() < MAX_UNDONE && bytes < MAX_BYTES {
            let parameters = vec![
                Value::text(batch.as_str().to_string()),
                Value::Int(end),
                Value::Int(PAGE_SIZE as i64),
            ];
            let rows: Vec<(EventRow, Option<Timestamp>)> = self.query(&CHANGES, parameters).await?;
            is_complete = rows.len() < PAGE_SIZE;
            for (row, ordered_at) in rows {
                bytes += row.data.len() + row.before.as_ref().map_or(0, String::len);
                end = row.sequence;
                changes.push(logged_pet(row, ordered_at)?);
            }
        }
        if changes.is_empty() && below.is_none() {
            return Ok(None);
        }
        let next = (!is_complete).then_some(end);
        Ok(Some(UndoPlan::new(batch, changes, next)))
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
