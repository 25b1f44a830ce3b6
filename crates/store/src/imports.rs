//! Imports: the command that writes a chunk, and the progress.

use std::collections::HashSet;

use super::{
    Error, Store,
    command::{Command, Lane},
    draft::Draft,
    pets::UpdatePet,
    rows::Stored,
    table::{Field, columns},
    tables::{Keys, Sequence},
};
use domain::{
    import::{ChunkRejection, Import, ImportChunk, ImportId},
    pet::{PetId, batch::BatchId},
};

statements! {
    FORGET(Bytes) = "DELETE FROM imports WHERE digest = $1";
    GET(Bytes) = format!("SELECT {} FROM imports WHERE digest = $1", columns::<Import>());
}

pub(super) struct WriteChunk {
    chunk: ImportChunk,
    updates: Vec<UpdatePet>,
    batch_id: BatchId,
}

impl WriteChunk {
    pub(super) fn new(mut chunk: ImportChunk) -> Self {
        let batch_id = chunk.id.batch_id();
        let updates = chunk.updates.drain(..).map(|update| UpdatePet {
            id: update.id,
            change: update.change,
            expected: None,
        });
        let updates = updates.collect();
        Self {
            chunk,
            updates,
            batch_id,
        }
    }
}

impl Command for WriteChunk {
    const LANE: Lane = Lane::Bulk;

    /// The sequence number of the newest event before the chunk.
    type Output = i64;
    type Rejection = ChunkRejection;

    fn keys(&self, keys: &mut Keys) {
        let Self { chunk, .. } = self;
        keys.imports.push(chunk.id);
        keys.draw(Sequence::Pets, chunk.pets.len());
        for category in &chunk.categories {
            keys.categories.push(category.id);
            keys.category_names.push(category.name.folded());
        }
        for update in &self.updates {
            update.keys(keys);
        }
        let microchips = chunk.pets.iter().filter_map(|pet| pet.microchip.clone());
        keys.microchips.extend(microchips);
    }

    fn batch_id(&self) -> Option<&BatchId> {
        Some(&self.batch_id)
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<i64, ChunkRejection> {
        let Self { chunk, .. } = self;
        let before = match draft.tables.imports.get(&chunk.id) {
            None if chunk.from == 0 => 0,
            Some(before)
                if chunk.from > 0
                    && before.records == chunk.from
                    && before.finished_at.is_none() =>
            {
                before.pets
            }
            _ => return Err(ChunkRejection::Outdated),
        };
        let now = draft.times.now;
        draft.put(Import {
            id: chunk.id,
            records: chunk.to,
            pets: before + chunk.pets.len() as i64,
            updated_at: now,
            finished_at: chunk.is_last.then_some(now),
        });
        let mut ids = HashSet::new();
        let mut names = HashSet::new();
        for category in &chunk.categories {
            let name = category.name.folded();
            let is_taken = draft.tables.categories.get(&category.id).is_some()
                || draft.category_names.contains_key(&name);
            if !is_taken && ids.insert(category.id) && names.insert(name) {
                draft.put(category.clone());
            }
        }
        for update in &self.updates {
            update.decide(draft).map_err(|rejection| {
                let id = update.id.get();
                let reason = rejection.to_string();
                ChunkRejection::Update { id, reason }
            })?;
        }
        for new in &chunk.pets {
            let id = PetId::from_store(draft.new_id(Sequence::Pets));
            let pet = new.clone().with_id(id);
            if let (Some(holder), Some(microchip)) = (draft.microchip_holder(&pet), &pet.microchip)
            {
                return Err(ChunkRejection::MicrochipTaken {
                    microchip: microchip.as_str().into(),
                    holder: holder.get(),
                });
            }
            draft.put(pet);
        }
        Ok(draft.last_event)
    }
}

impl Stored for Import {
    fn must_reach_index(_: Option<&Self>, _: Option<&Self>) -> bool {
        true
    }
}

impl Store {
    /// Writes a chunk of an import, all or nothing: its pets, the names of categories, and the
    /// progress. Returns the sequence number of the newest event before the chunk.
    pub async fn pet_import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Result<i64, ChunkRejection>, Error> {
        self.execute_once(None, WriteChunk::new(chunk)).await
    }

    /// Deletes the record of an import, because it is to be repeated.
    pub async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        let id = id.to_value().into_owned();
        self.write(&FORGET, vec![id]).await.map(drop)
    }
}
