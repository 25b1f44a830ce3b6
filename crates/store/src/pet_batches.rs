//! Batches of changes of pets: one command, whose changes are decided like single ones.

use std::sync::Arc;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult},
    draft::Draft,
    imports,
    pets::{CreatePet, DeletePet, UpdatePet},
    row_keys::Keys,
};
use domain::{
    idempotency::{Idempotent, IdempotentRequest},
    import::ComparedMembers,
    pet::{
        Pet, PetChange, PetId, PetRejection,
        batch::{
            BatchChange, BatchId, BatchOutcome, BatchRejection, ChangeOutcome, ImportPart, PetBatch,
        },
    },
};

struct ChangePets {
    id: BatchId,
    import: Option<ImportPart>,
    is_atomic: bool,
    steps: Vec<Step>,
    /// Returns true if entity tags are those of a pet.
    matches: fn(&str, &Pet) -> bool,
}

/// A change in a batch: the command for that change alone, and the value of its `ifMatch`. An
/// update also has the values that its members are expected to have.
enum Step {
    Create(CreatePet),
    Update(Box<UpdatePet>, Option<Box<PetChange>>, Option<String>),
    Delete(Box<DeletePet>, Option<String>),
    Invalid(String),
}

impl From<BatchChange> for Step {
    fn from(change: BatchChange) -> Self {
        match change {
            BatchChange::Create(new) => Self::Create(CreatePet(Arc::new(new))),
            BatchChange::Update {
                id,
                change,
                expected,
                if_match,
            } => {
                let update = UpdatePet {
                    id,
                    change,
                    expected: None,
                };
                Self::Update(Box::new(update), expected, if_match)
            }
            BatchChange::Delete { id, if_match } => {
                let delete = DeletePet { id, expected: None };
                Self::Delete(Box::new(delete), if_match)
            }
            BatchChange::Invalid(message) => Self::Invalid(message),
        }
    }
}

impl ChangePets {
    fn decide_step(
        &self,
        step: &Step,
        draft: &mut Draft<'_>,
    ) -> Result<ChangeOutcome, PetRejection> {
        match step {
            Step::Create(create) => create.decide(draft).map(ChangeOutcome::Created),
            Step::Update(update, expected, if_match) => {
                self.check(update.id, if_match.as_deref(), draft)?;
                if let (Some(expected), Some(pet)) = (expected, draft.tables.pets.get(&update.id))
                    && !ComparedMembers::are_expected(pet, expected, &update.change)
                {
                    return Err(PetRejection::Outdated);
                }
                update.decide(draft).map(|_| ChangeOutcome::Updated)
            }
            Step::Delete(delete, if_match) => {
                self.check(delete.id, if_match.as_deref(), draft)?;
                delete.decide(draft).map(|()| ChangeOutcome::Deleted)
            }
            Step::Invalid(message) => Ok(ChangeOutcome::Invalid(message.clone())),
        }
    }

    /// Checks that a pet, if it exists, has one of the entity tags.
    fn check(
        &self,
        id: PetId,
        if_match: Option<&str>,
        draft: &Draft<'_>,
    ) -> Result<(), PetRejection> {
        match (if_match, draft.tables.pets.get(&id)) {
            (Some(tags), Some(pet)) if !(self.matches)(tags, pet) => Err(PetRejection::Outdated),
            _ => Ok(()),
        }
    }
}

impl Command for ChangePets {
    const LANE: Lane = Lane::Bulk;

    type Output = BatchOutcome;
    type Rejection = BatchRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.has_many_changes = true;
        keys.imports.extend(self.import.map(|part| part.file));
        for step in &self.steps {
            match step {
                Step::Create(create) => create.keys(keys),
                Step::Update(update, ..) => update.keys(keys),
                Step::Delete(delete, _) => delete.keys(keys),
                Step::Invalid(_) => {}
            }
        }
    }

    fn batch_id(&self) -> Option<&BatchId> {
        Some(&self.id)
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<BatchOutcome, BatchRejection> {
        if let Some(part) = &self.import {
            let continued = imports::ensure_continued(part, &self.id, draft);
            continued.map_err(BatchRejection::Stopped)?;
        }
        let mut changes = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let decided = self.decide_step(step, draft);
            let outcome = decided.unwrap_or_else(ChangeOutcome::Rejected);
            if self.is_atomic && outcome.is_rejection() {
                return Err(BatchRejection::Change { index, outcome });
            }
            changes.push(outcome);
        }
        if let Some(part) = &self.import {
            let count = |is: fn(&ChangeOutcome) -> bool| changes.iter().filter(|it| is(it)).count();
            let added = count(|it| matches!(it, ChangeOutcome::Created(_)));
            let changed = count(|it| matches!(it, ChangeOutcome::Updated | ChangeOutcome::Deleted));
            let counts = (changes.len(), added, changed);
            imports::record_part(part, &self.id, counts, draft);
        }
        Ok(BatchOutcome {
            id: self.id.clone(),
            changes,
        })
    }

    fn recorded(outcome: &BatchOutcome) -> RecordedResult {
        RecordedResult::of_json(0, outcome)
    }
}

impl Store {
    /// Executes the changes of a batch, in order and in one transaction. A rejected change has no
    /// effect; if the batch is atomic, it rejects all.
    pub async fn pet_batch(
        &self,
        api_key_id: i64,
        batch: PetBatch,
        request: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Result<BatchOutcome, BatchRejection>>, Error> {
        let command = ChangePets {
            id: batch.id,
            import: batch.import,
            is_atomic: batch.is_atomic,
            steps: batch.changes.into_iter().map(Step::from).collect(),
            matches: batch.matches,
        };
        let reply = self.execute(Some(api_key_id), command, request).await?;
        reply.or_recorded()
    }
}
