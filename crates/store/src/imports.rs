//! Imports: the command that writes a chunk, and the progress.

use super::{
    Error, Store,
    command::{Command, Lane},
    draft::Draft,
    pets::UpdatePet,
    row_keys::{Keys, Sequence},
    rows::Stored,
    table::{Field, Value, columns},
};
use domain::{
    import::{
        ComparedMembers, Import, ImportChunk, ImportId, ImportPart, ImportRun, NamedCategory,
        RejectedRecord, StoppedImport, WrittenChunk,
    },
    pet::{PetId, batch::BatchId},
};

statements! {
    FORGET(Bytes, Text) = "DELETE FROM imports WHERE digest = $1 AND batch_id = $2";
    /// The imports that a run belongs to, unless they have another run since. There are few
    /// imports, and more than one only if a client gives several files the same batch.
    GET_OF_BATCH(Text) = format!("SELECT {} FROM imports WHERE batch_id = $1", columns::<Import>());
    GET(Bytes) = format!("SELECT {} FROM imports WHERE digest = $1", columns::<Import>());
}

const CHANGED_SINCE: &str = "it was changed since the file was checked";

pub(super) struct WriteChunk {
    chunk: ImportChunk,
    updates: Vec<(UpdatePet, ComparedMembers)>,
}

impl WriteChunk {
    pub(super) fn new(mut chunk: ImportChunk) -> Self {
        let updates = chunk.updates.drain(..).map(|update| {
            let command = UpdatePet {
                id: update.id,
                change: update.change,
                expected: None,
            };
            (command, update.members)
        });
        Self {
            updates: updates.collect(),
            chunk,
        }
    }

    /// Names the categories that have no name yet. Stops the import if the number or the name of
    /// one was taken since the file was checked: its pets would get another category.
    fn name_categories(&self, draft: &mut Draft<'_>) -> Result<(), StoppedImport> {
        for NamedCategory { category, is_new } in &self.chunk.categories {
            let id = category.id;
            let owner = draft.category_names.get(&category.name.folded());
            if owner == Some(&id) {
                continue;
            }
            let is_named = owner.is_some() || draft.tables.categories.get(&id).is_some();
            if is_named || *is_new && draft.is_category_used(id) {
                return Err(StoppedImport::CategoryTaken(id.get()));
            }
            draft.put(category.clone());
        }
        Ok(())
    }

    /// Changes pets. Returns the changes that are rejected, such as those of members that were
    /// changed since the file was checked.
    fn change_pets(&self, draft: &mut Draft<'_>) -> Vec<RejectedRecord> {
        let rejected = self.updates.iter().filter_map(|(update, compared)| {
            let pet = draft.tables.pets.get(&update.id);
            let reason = if pet.is_none_or(|pet| compared.agree_with(pet)) {
                update.decide(draft).err()?.to_string()
            } else {
                CHANGED_SINCE.into()
            };
            let id = update.id.get();
            Some(RejectedRecord::Change { id, reason })
        });
        rejected.collect()
    }

    /// Adds pets. Returns those whose microchip another pet has.
    fn add_pets(&self, draft: &mut Draft<'_>) -> Vec<RejectedRecord> {
        let mut rejected = Vec::new();
        for new in &self.chunk.pets {
            let id = PetId::from_store(draft.new_id(Sequence::Pets));
            let pet = new.clone().with_id(id);
            match (draft.microchip_holder(&pet), &pet.microchip) {
                (Some(holder), Some(microchip)) => rejected.push(RejectedRecord::Add {
                    name: pet.name.as_str().into(),
                    microchip: microchip.as_str().into(),
                    holder: holder.get(),
                }),
                _ => draft.put(pet),
            }
        }
        rejected
    }
}

impl Command for WriteChunk {
    const LANE: Lane = Lane::Bulk;

    type Output = WrittenChunk;
    type Rejection = StoppedImport;

    fn keys(&self, keys: &mut Keys) {
        let Self { chunk, .. } = self;
        keys.imports.push(chunk.id);
        keys.draw(Sequence::Pets, chunk.pets.len());
        for NamedCategory { category, is_new } in &chunk.categories {
            keys.categories.push(category.id);
            keys.category_names.push(category.name.folded());
            keys.used_categories.extend(is_new.then_some(category.id));
        }
        for (update, _) in &self.updates {
            update.keys(keys);
        }
        let microchips = chunk.pets.iter().filter_map(|pet| pet.microchip.clone());
        keys.microchips.extend(microchips);
    }

    fn batch_id(&self) -> Option<&BatchId> {
        Some(&self.chunk.run.batch_id)
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<WrittenChunk, StoppedImport> {
        let Self { chunk, .. } = self;
        let (added, changed) = match draft.tables.imports.get(&chunk.id) {
            None if chunk.from == 0 => (0, 0),
            Some(before) => {
                before.ensure_continued(&chunk.run.batch_id)?;
                let is_next = before.records == chunk.from && before.finished_at.is_none();
                if !is_next || chunk.from == 0 {
                    return Err(StoppedImport::Replaced);
                }
                (before.added, before.changed)
            }
            None => return Err(StoppedImport::Replaced),
        };
        self.name_categories(draft)?;
        let not_changed = self.change_pets(draft);
        let not_added = self.add_pets(draft);
        let now = draft.times.now;
        draft.put(Import {
            id: chunk.id,
            run: chunk.run.clone(),
            rows: None,
            records: chunk.to,
            added: added + (chunk.pets.len() - not_added.len()) as i64,
            changed: changed + (self.updates.len() - not_changed.len()) as i64,
            updated_at: now,
            finished_at: chunk.is_last.then_some(now),
            undo: None,
            kept: 0,
        });
        Ok(WrittenChunk {
            last_event: draft.last_event,
            rejected: [not_changed, not_added].concat(),
        })
    }
}

/// Decides whether a part of an import over the API is made. It starts the import if it has its
/// first row, and replaces an earlier one of the same file then.
pub(super) fn ensure_continued(
    part: &ImportPart,
    batch: &BatchId,
    draft: &Draft<'_>,
) -> Result<(), StoppedImport> {
    match draft.tables.imports.get(&part.file) {
        Some(before) if part.row.get() > 0 || before.run.batch_id == *batch => {
            before.ensure_continued(batch)
        }
        None if part.row.get() > 0 => Err(StoppedImport::Replaced),
        _ => Ok(()),
    }
}

/// Counts the changes of a part of an import over the API.
pub(super) fn record_part(
    part: &ImportPart,
    batch: &BatchId,
    (rows, added, changed): (usize, usize, usize),
    draft: &mut Draft<'_>,
) {
    let before = draft.tables.imports.get(&part.file);
    let before = before.filter(|before| before.run.batch_id == *batch);
    let now = draft.times.now;
    let mut import = before.cloned().unwrap_or_else(|| Import {
        id: part.file,
        run: ImportRun {
            batch_id: batch.clone(),
            last_known_id: 0,
        },
        rows: None,
        records: 0,
        added: 0,
        changed: 0,
        updated_at: now,
        finished_at: None,
        undo: None,
        kept: 0,
    });
    import.rows = Some(part.rows.get());
    import.records += rows as i64;
    import.added += added as i64;
    import.changed += changed as i64;
    import.updated_at = now;
    if import.records >= part.rows.get() {
        import.finished_at.get_or_insert(now);
    }
    draft.put(import);
}

impl Stored for Import {
    fn must_reach_index(_: Option<&Self>, _: Option<&Self>) -> bool {
        true
    }
}

impl Store {
    /// Writes a chunk of an import in one transaction: its pets, the names of categories, and the
    /// progress. Pets that cannot be added or changed anymore are left out.
    pub async fn pet_import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Result<WrittenChunk, StoppedImport>, Error> {
        self.execute_once(None, WriteChunk::new(chunk)).await
    }

    /// Returns the progress of an import.
    pub async fn import_get(&self, id: ImportId) -> Result<Option<Import>, Error> {
        self.find(&GET, vec![id.to_value().into_owned()]).await
    }

    /// Deletes the record of a run, because the import is to be repeated. If another command has
    /// started another run, its record stays.
    pub async fn import_forget(&self, id: ImportId, run: &BatchId) -> Result<(), Error> {
        let run = Value::text(run.as_str().to_string());
        let parameters = vec![id.to_value().into_owned(), run];
        self.write(&FORGET, parameters).await.map(drop)
    }
}
