//! Undoing a batch: gives the pets their former state back in one command, and closes the record of
//! the import that the batch belongs to.

mod plan;

use std::convert::Infallible;

use super::{
    Error, Store,
    command::{Command, Lane, RecordedResult},
    draft::Draft,
    imports::GET_OF_BATCH,
    photos::{remove_others, restore_photos},
    row_keys::Keys,
};
use domain::{
    category::Category,
    idempotency::{Idempotent, IdempotentRequest},
    import::Import,
    pet::{Pet, batch::BatchId},
    undo::{CategoryDecision, KeptPet, KeptReason, UndoDecision, UndoOutcome, UndoPlan},
};

pub(super) use plan::{ALL, CHANGES, COUNT_CHANGES, PlanReader};

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
