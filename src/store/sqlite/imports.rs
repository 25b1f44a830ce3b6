//! Imports on SQLite.

use jiff::SignedDuration;
use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::error::Error,
    Sqlite,
    events::{Origin, last_sequence, log_category},
    pets::insert,
    writer::Effect,
};
use crate::{
    event::EventType,
    import::{ImportChunk, ImportId, MAX_REMEMBERED},
};

const START: &str = concat!(
    "INSERT OR IGNORE INTO imports (",
    import_columns!(),
    ") VALUES (?1, ?2, ?3, ?4, ?5)"
);

const ADVANCE: &str = "UPDATE imports
     SET records = ?2, pets = pets + ?3, updated_at = ?4, finished_at = ?5
     WHERE digest = ?1 AND records = ?6 AND finished_at IS NULL";

const PURGE: &str = "DELETE FROM imports WHERE updated_at < ?1 OR digest IN (
         SELECT digest FROM imports ORDER BY updated_at DESC LIMIT -1 OFFSET ?2)";

const NAME_CATEGORY: &str = concat!(
    "INSERT OR IGNORE INTO categories (",
    stored_category_columns!(),
    ") VALUES (?1, ?2, ?3)"
);

impl Sqlite {
    pub(in super::super) async fn pet_import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Option<i64>, Error> {
        let origin = Origin {
            api_key_id: None,
            at: self.clock.now(),
        };
        let effect = |(written, names): &(Option<i64>, bool)| match (written, names) {
            (None, _) => Effect::None,
            (Some(_), false) => Effect::Insert,
            (Some(_), true) => Effect::Update,
        };
        let write = move |db: &Connection| {
            let names = !chunk.categories.is_empty();
            write_chunk(db, origin, chunk).map(|written| (written, names))
        };
        let (written, _) = self.writer.run(effect, write).await?;
        Ok(written)
    }

    pub(in super::super) async fn import_progress(&self, id: ImportId) -> Result<i64, Error> {
        self.readers.run(move |db| import_progress(db, id)).await
    }

    pub(in super::super) async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        let forget = move |db: &Connection| forget_import(db, id);
        self.writer.run(|()| Effect::None, forget).await
    }

    pub(in super::super) async fn import_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let before = self.retained_since(retention).as_microsecond();
        let purge = move |db: &Connection| {
            let purged = db
                .prepare_cached(PURGE)?
                .execute([before, MAX_REMEMBERED])?;
            Ok(purged as u64)
        };
        self.writer.run(|_| Effect::None, purge).await
    }
}

/// Writes a chunk; see [`Store::pet_import`](super::super::Store::pet_import).
pub(in super::super) fn write_chunk(
    db: &Connection,
    origin: Origin,
    chunk: ImportChunk,
) -> rusqlite::Result<Option<i64>> {
    let ImportChunk {
        id,
        from,
        to,
        pets,
        categories,
        is_last,
    } = chunk;
    let digest = id.0.as_slice();
    let count = pets.len() as i64;
    let at = origin.at.as_microsecond();
    let finished_at = is_last.then_some(at);
    let advanced = match from {
        0 => db
            .prepare_cached(START)?
            .execute(params![digest, to, count, at, finished_at])?,
        _ => db.prepare_cached(ADVANCE)?.execute(params![
            digest,
            to,
            count,
            at,
            finished_at,
            from
        ])?,
    };
    if advanced == 0 {
        return Ok(None);
    }
    let last_event = last_sequence(db)?;
    for category in categories {
        let (id, name) = (category.id.get(), &category.name);
        let named =
            db.prepare_cached(NAME_CATEGORY)?
                .execute(params![id, name.as_str(), name.folded()])?;
        if named > 0 {
            log_category(db, origin, EventType::CategoryUpdated, &category)?;
        }
    }
    for new in pets {
        insert(db, origin, new)?;
    }
    Ok(Some(last_event))
}

/// The number of records that are done; 0 if the import is not known.
pub(in super::super) fn import_progress(db: &Connection, id: ImportId) -> rusqlite::Result<i64> {
    let records = db
        .prepare_cached("SELECT records FROM imports WHERE digest = ?1")?
        .query_row([id.0.as_slice()], |row| row.get(0))
        .optional()?;
    Ok(records.unwrap_or(0))
}

pub(in super::super) fn forget_import(db: &Connection, id: ImportId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM imports WHERE digest = ?1")?
        .execute([id.0.as_slice()])
        .map(drop)
}
