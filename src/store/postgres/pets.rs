//! Pets on PostgreSQL.

use std::{sync::Arc, time::Instant};

use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        error::Error,
        rows::{Columns, Entity, PetValues},
    },
    ListSql, Postgres,
    error::MissingRow,
    idempotency,
    lock_wait::LockWait,
    pool::{Parameters, Pool, Sql},
    writer::{BatchedWrite, WriteResult},
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
    pet::{Decision, Inventory, NewPet, Pet, PetChange, PetId, PetRejection, PetStatus},
};

/// Attempts of an optimistic update. Each failed one means that a concurrent
/// update of the same pet succeeded, or that its row was locked.
const MAX_UPDATE_ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(super) struct CreatePet {
    new: NewPet,
    idempotency: Option<IdempotentRequest>,
}

impl BatchedWrite for CreatePet {
    /// A valid pet is always created.
    type Rejection = std::convert::Infallible;

    fn contended_row(&self) -> Option<(i64, Self::Rejection)> {
        None
    }

    fn idempotency(&self) -> Option<&IdempotentRequest> {
        self.idempotency.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let (mut names, mut categories, mut statuses) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let PetValues {
                name,
                category_id,
                status,
            } = PetValues::from(&change.new);
            names.push(name);
            categories.push(category_id);
            statuses.push(status);
        }
        let columns: Parameters = &[&names, &categories, &statuses];
        if changes.iter().all(|change| change.idempotency.is_none()) {
            return pool.write(&CREATE, columns).await.map(Some);
        }
        idempotency::run(pool, &CREATE_IDEMPOTENT, changes, columns).await
    }
}

impl Postgres {
    pub(in super::super) async fn pet_create(
        &self,
        new: NewPet,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        let create = CreatePet {
            new: new.clone(),
            idempotency,
        };
        Ok(match self.creates.execute(create).await? {
            WriteResult::Executed(Ok(created)) => {
                Idempotent::Executed(new.with_id(PetId::from_store(created.id)))
            }
            WriteResult::Replayed(Ok(id)) => {
                Idempotent::Replayed(new.with_id(PetId::from_store(id)))
            }
            WriteResult::KeyReused => Idempotent::KeyReused,
        })
    }

    /// Optimistic: updates the pet if it still has the value that the decision
    /// was based on, or decides again.
    pub(in super::super) async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        let (mut tried, mut lock_wait) = (None, None);
        for _ in 0..MAX_UPDATE_ATTEMPTS {
            let rows = self.reads.read(&GET_WITH_RESERVED, &[&id.get()]).await?;
            let Some(row) = rows.first() else {
                return Ok(Err(PetRejection::NoSuchPet));
            };
            let mut columns = Columns::of(row);
            let (before, reserved) = (Pet::read(&mut columns)?, columns.boolean()?);
            let after = match change.decide(&before, expected.as_ref(), reserved) {
                Err(rejection) => return Ok(Err(rejection)),
                Ok(Decision::Unchanged) => return Ok(Ok(before)),
                Ok(Decision::Update(after)) => after,
            };
            // Unchanged since the last attempt, which failed: the row is locked.
            if matches!(&tried, Some((pet, was)) if (pet, was) == (&before, &reserved)) {
                let wait = lock_wait.get_or_insert_with(LockWait::start);
                wait.pause().await?;
            }
            let PetValues {
                name: old_name,
                category_id: old_category_id,
                status: old_status,
            } = PetValues::from(&before);
            let PetValues {
                name,
                category_id,
                status,
            } = PetValues::from(&after);
            let started = Instant::now();
            let updated = self
                .updates
                .write(
                    &UPDATE,
                    &[
                        &id.get(),
                        &old_name,
                        &old_category_id,
                        &old_status,
                        &reserved,
                        &name,
                        &category_id,
                        &status,
                    ],
                )
                .await;
            if !matches!(&updated, Ok(rows) if rows.is_empty()) {
                self.commits.record(1, started, updated.is_ok());
                return updated.map(|_| Ok(after));
            }
            tried = Some((before, reserved));
        }
        Err(Error::Unavailable(Arc::new(UpdateContention)))
    }

    pub(in super::super) async fn pet_inventory(&self) -> Result<Inventory, Error> {
        let rows = self.reads.read(&INVENTORY, &[]).await?;
        Inventory::from_row(rows.first().ok_or(MissingRow)?)
    }

    pub(in super::super) async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        let rows = self.reads.read(&GET, &[&id.get()]).await?;
        rows.first().map(Pet::from_row).transpose()
    }

    pub(in super::super) async fn pet_list(
        &self,
        query: ListQuery<PetStatus>,
    ) -> Result<Page<Pet>, Error> {
        self.list(&LIST, query, |pet: &Pet| pet.id.get()).await
    }
}

static GET: Sql = Sql {
    text: concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = $1"),
    types: &[Type::INT8],
};

static GET_WITH_RESERVED: Sql = Sql {
    text: concat!(
        "SELECT ",
        pet_columns!(),
        ", reserved FROM pets WHERE id = $1"
    ),
    types: &[Type::INT8],
};

static LIST: ListSql = ListSql {
    all: Sql {
        text: concat!(
            "SELECT ",
            pet_columns!(),
            " FROM pets WHERE id > $1 ORDER BY id LIMIT $2"
        ),
        types: &[Type::INT8, Type::INT8],
    },
    by_status: Sql {
        text: concat!(
            "SELECT ",
            pet_columns!(),
            " FROM pets WHERE id > $1 AND status = $3 ORDER BY id LIMIT $2"
        ),
        types: &[Type::INT8, Type::INT8, Type::TEXT],
    },
};

/// A batch without idempotency keys. Rows are inserted, and returned, in the
/// order of the arrays.
static CREATE: Sql = Sql {
    text: concat!(
        "INSERT INTO pets (",
        new_pet_columns!(),
        ") SELECT ",
        new_pet_columns!(),
        " FROM unnest($1, $2, $3) WITH ORDINALITY AS new (",
        new_pet_columns!(),
        ", ordinal)
         ORDER BY ordinal
         RETURNING NULL::bytea, '",
        succeeded!(),
        "', id"
    ),
    types: &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY],
};

/// A batch in which some have idempotency keys. Ids ascend in the order of
/// insertion, which pairs them with their requests.
static CREATE_IDEMPOTENT: Sql = Sql {
    text: batch_sql!(
        columns: new_pet_columns!(), parameters: "$4, $5, $6",
        execute: concat!(
            "created AS (
                 INSERT INTO pets (",
            new_pet_columns!(),
            ") SELECT ",
            new_pet_columns!(),
            " FROM pending ORDER BY ordinal
                 RETURNING id
             ), executed AS (
                 SELECT ordinal, id
                 FROM (SELECT id, row_number() OVER (ORDER BY id) FROM created) AS created
                 JOIN (SELECT ordinal, row_number() OVER (ORDER BY ordinal) FROM pending) AS new
                 USING (row_number)
             )"
        ),
        rejection: "NULL"
    ),
    types: batch_types![TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY],
};

/// Compare and swap. Skips a locked row, so that the updates behind it on the
/// connection do not wait.
static UPDATE: Sql = Sql {
    text: "WITH unchanged AS MATERIALIZED (
               SELECT id FROM pets
               WHERE id = $1 AND name = $2 AND category_id = $3
               AND status IS NOT DISTINCT FROM $4 AND reserved = $5
               FOR NO KEY UPDATE SKIP LOCKED
           )
           UPDATE pets SET name = $6, category_id = $7, status = $8
           FROM unchanged WHERE pets.id = unchanged.id
           RETURNING pets.id",
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::BOOL,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
    ],
};

/// The columns of `inventory_columns!()`, summed over the shards.
static INVENTORY: Sql = Sql {
    text: "SELECT sum(available)::bigint, sum(pending)::bigint, sum(sold)::bigint FROM inventory",
    types: &[],
};

#[derive(Debug, thiserror::Error)]
#[error("too many concurrent updates of the same pet")]
struct UpdateContention;
