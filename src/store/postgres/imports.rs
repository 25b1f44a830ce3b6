//! Imports on PostgreSQL.

use jiff::SignedDuration;
use tokio_postgres::types::Type;

use super::{
    super::{
        error::Error,
        rows::{Columns, PetValues},
    },
    Postgres,
    pool::{Parameters, Sql},
};
use crate::{
    category::Category,
    import::{ImportChunk, ImportId, MAX_REMEMBERED},
};

impl Postgres {
    pub(in super::super) async fn pet_import(
        &self,
        chunk: ImportChunk,
    ) -> Result<Option<i64>, Error> {
        let ImportChunk {
            id,
            from,
            to,
            pets,
            categories,
            is_last,
        } = &chunk;
        let (mut names, mut search_names) = (Vec::new(), Vec::new());
        let (mut category_ids, mut statuses) = (Vec::new(), Vec::new());
        for pet in pets {
            let PetValues {
                name,
                search_name,
                category_id,
                status,
            } = PetValues::from(pet);
            names.push(name);
            search_names.push(String::from(search_name));
            category_ids.push(category_id);
            statuses.push(status);
        }
        let (mut ids, mut category_names, mut folded_names) = (Vec::new(), Vec::new(), Vec::new());
        for Category { id, name } in categories {
            ids.push(id.get());
            category_names.push(name.as_str());
            folded_names.push(name.folded());
        }
        let digest = id.0.as_slice();
        let parameters: Parameters = &[
            &digest,
            from,
            to,
            &names,
            &search_names,
            &category_ids,
            &statuses,
            &ids,
            &category_names,
            &folded_names,
            is_last,
        ];
        let rows = self.updates.write(&IMPORT, parameters).await?;
        rows.first().map(|row| Columns::of(row).int()).transpose()
    }

    pub(in super::super) async fn import_progress(&self, id: ImportId) -> Result<i64, Error> {
        let rows = self.reads.read(&PROGRESS, &[&id.0.as_slice()]).await?;
        let records = rows.first().map(|row| Columns::of(row).int());
        Ok(records.transpose()?.unwrap_or(0))
    }

    pub(in super::super) async fn import_forget(&self, id: ImportId) -> Result<(), Error> {
        let forgotten = self.background.write(&FORGET, &[&id.0.as_slice()]).await;
        forgotten.map(drop)
    }

    pub(in super::super) async fn import_purge(
        &self,
        retention: SignedDuration,
    ) -> Result<u64, Error> {
        let retention = self.max_age(retention);
        let parameters: Parameters = &[&retention, &MAX_REMEMBERED];
        let purged = self.background.write(&PURGE, parameters).await?;
        Ok(purged.len() as u64)
    }
}

/// Writes a chunk if its predecessor was the last, and returns the newest sequence number
/// of the event log before it. AFTER triggers log the chunk once the statement ends.
static IMPORT: Sql = Sql {
    text: concat!(
        "WITH advanced AS (
             INSERT INTO imports (",
        import_columns!(),
        ") SELECT $1, $3, cardinality($4), ",
        now_micros!(),
        ", CASE WHEN $11 THEN ",
        now_micros!(),
        " END
             WHERE $2 = 0 OR EXISTS (SELECT FROM imports WHERE digest = $1)
             ON CONFLICT (digest) DO UPDATE
             SET records = EXCLUDED.records, pets = imports.pets + EXCLUDED.pets,
                 updated_at = EXCLUDED.updated_at, finished_at = EXCLUDED.finished_at
             WHERE imports.records = $2 AND $2 > 0 AND imports.finished_at IS NULL
             RETURNING 1
         ), named AS (
             INSERT INTO categories (",
        stored_category_columns!(),
        ") SELECT new.* FROM unnest($8, $9, $10) AS new, advanced
             ON CONFLICT DO NOTHING
         ), created AS (
             INSERT INTO pets (",
        new_pet_columns!(),
        ") SELECT ",
        new_pet_columns!(),
        " FROM unnest($4, $5, $6, $7) WITH ORDINALITY AS new (",
        new_pet_columns!(),
        ", ordinal), advanced ORDER BY ordinal
         )
         SELECT CASE WHEN is_called THEN last_value ELSE 0 END
         FROM events_sequence_seq, advanced"
    ),
    types: &[
        Type::BYTEA,
        Type::INT8,
        Type::INT8,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL,
    ],
};

static PROGRESS: Sql = Sql {
    text: "SELECT records FROM imports WHERE digest = $1",
    types: &[Type::BYTEA],
};

static FORGET: Sql = Sql {
    text: "DELETE FROM imports WHERE digest = $1",
    types: &[Type::BYTEA],
};

static PURGE: Sql = Sql {
    text: concat!(
        "DELETE FROM imports WHERE updated_at < ",
        now_micros!(),
        " - $1 OR digest IN (SELECT digest FROM imports ORDER BY updated_at DESC OFFSET $2)
           RETURNING 1"
    ),
    types: &[Type::INT8, Type::INT8],
};
