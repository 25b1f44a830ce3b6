//! Batches of changes of pets: one command, whose changes are decided like single ones.

use std::sync::Arc;

use super::{
    Error, Store,
    command::{Command, Lane, Recorded, Reply},
    draft::Draft,
    pets::{CreatePet, DeletePet, UpdatePet},
    rows::to_json,
    tables::Keys,
};
use domain::{
    idempotency::{Idempotent, IdempotentRequest},
    pet::{
        Pet, PetId, PetRejection,
        batch::{BatchChange, BatchId, BatchOutcome, BatchRejection, ChangeOutcome, PetBatch},
    },
};

struct ChangePets {
    id: BatchId,
    is_atomic: bool,
    steps: Vec<Step>,
    matches: fn(&str, &Pet) -> bool,
}

/// A change in a batch: the command that makes it by itself, and the entity tags of which the pet
/// must have one.
enum Step {
    Create(CreatePet),
    Update(Box<UpdatePet>, Option<String>),
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
                if_match,
            } => {
                let expected = None;
                let update = UpdatePet {
                    id,
                    change,
                    expected,
                };
                Self::Update(Box::new(update), if_match)
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
            Step::Update(update, if_match) => {
                self.check(update.id, if_match.as_deref(), draft)?;
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
        keys.has_batch = true;
        for step in &self.steps {
            match step {
                Step::Create(create) => create.keys(keys),
                Step::Update(update, _) => update.keys(keys),
                Step::Delete(delete, _) => delete.keys(keys),
                Step::Invalid(_) => {}
            }
        }
    }

    fn batch_id(&self) -> Option<&BatchId> {
        Some(&self.id)
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<BatchOutcome, BatchRejection> {
        let mut changes = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let decided = self.decide_step(step, draft);
            let outcome = decided.unwrap_or_else(ChangeOutcome::Rejected);
            if self.is_atomic && outcome.is_rejection() {
                return Err(BatchRejection { index, outcome });
            }
            changes.push(outcome);
        }
        Ok(BatchOutcome {
            id: self.id.clone(),
            changes,
        })
    }

    fn recorded(outcome: &BatchOutcome) -> Recorded {
        Recorded {
            id: 0,
            results: Some(to_json(outcome)),
        }
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
            is_atomic: batch.is_atomic,
            steps: batch.changes.into_iter().map(Step::from).collect(),
            matches: batch.matches,
        };
        Ok(
            match self.execute(Some(api_key_id), command, request).await? {
                Reply::Executed(outcome) => Idempotent::Executed(outcome),
                Reply::Replayed(Ok(recorded)) => Idempotent::Replayed(Ok(recorded.parse()?)),
                Reply::Replayed(Err(rejection)) => Idempotent::Replayed(Err(rejection)),
                Reply::KeyReused => Idempotent::KeyReused,
            },
        )
    }
}
