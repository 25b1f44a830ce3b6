//! Pets on PostgreSQL.

use std::{sync::Arc, time::Instant};

use tokio_postgres::{Row, types::Type};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::{Columns, Entity, PetValues},
    },
    Postgres, idempotency,
    lock_wait::LockWait,
    pool::{Parameters, Pool, Sql},
    writer::{BatchedWrite, WriteResult},
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
    pet::{
        Claim, Decision, NewPet, Pet, PetChange, PetFilter, PetId, PetRejection, decide_deletion,
    },
};

/// Attempts of an optimistic change. Each failed one means that a concurrent
/// change of the same pet succeeded, or that its row was locked.
const MAX_SWAP_ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(super) struct CreatePet {
    api_key_id: i64,
    new: NewPet,
    idempotency: Option<IdempotentRequest>,
}

impl BatchedWrite for CreatePet {
    /// A valid pet is always created.
    type Rejection = std::convert::Infallible;

    fn contended_row(&self) -> Option<i64> {
        None
    }

    fn rejection_of_next(_: Option<Self::Rejection>) -> Option<Self::Rejection> {
        None
    }

    fn api_key_id(&self) -> i64 {
        self.api_key_id
    }

    fn idempotency(&self) -> Option<&IdempotentRequest> {
        self.idempotency.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let (mut names, mut search_names) = (Vec::new(), Vec::new());
        let (mut categories, mut statuses) = (Vec::new(), Vec::new());
        for change in changes {
            let PetValues {
                name,
                search_name,
                category_id,
                status,
            } = PetValues::from(&change.new);
            names.push(name);
            search_names.push(String::from(search_name));
            categories.push(category_id);
            statuses.push(status);
        }
        let columns: Parameters = &[&names, &search_names, &categories, &statuses];
        if changes.iter().all(|change| change.idempotency.is_none()) {
            let api_keys: Vec<_> = changes.iter().map(|change| change.api_key_id).collect();
            let columns = [columns, &[&api_keys]].concat();
            return pool.write(&CREATE, &columns).await.map(Some);
        }
        idempotency::run(pool, &CREATE_IDEMPOTENT, changes, columns).await
    }
}

impl Postgres {
    pub(in super::super) async fn pet_create(
        &self,
        api_key_id: i64,
        new: NewPet,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        let create = CreatePet {
            api_key_id,
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

    pub(in super::super) async fn pet_update(
        &self,
        api_key_id: i64,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        let decide = |before: &Pet, claim| {
            Ok(match change.decide(before, expected.as_ref(), claim)? {
                Decision::Unchanged => None,
                Decision::Update(after) => Some(Swap::Update(after)),
            })
        };
        let swapped = self.pet_swap(api_key_id, id, decide).await?;
        Ok(swapped.map(|(before, swap)| match swap {
            Some(Swap::Update(after)) => after,
            Some(Swap::Delete) | None => before,
        }))
    }

    pub(in super::super) async fn pet_delete(
        &self,
        api_key_id: i64,
        id: PetId,
        expected: Option<Pet>,
    ) -> Result<Result<(), PetRejection>, Error> {
        let decide = |before: &Pet, claim| {
            decide_deletion(before, expected.as_ref(), claim)?;
            Ok(Some(Swap::Delete))
        };
        Ok(self.pet_swap(api_key_id, id, decide).await?.map(drop))
    }

    /// Optimistic: changes the pet if it still has the value that the decision
    /// was based on, or decides again. Returns the pet as it was before, and what was
    /// done.
    async fn pet_swap(
        &self,
        api_key_id: i64,
        id: PetId,
        decide: impl Fn(&Pet, Option<Claim>) -> Result<Option<Swap>, PetRejection>,
    ) -> Result<Result<(Pet, Option<Swap>), PetRejection>, Error> {
        let (mut tried, mut lock_wait) = (None, None);
        for _ in 0..MAX_SWAP_ATTEMPTS {
            let rows = self.reads.read(&GET_WITH_CLAIM, &[&id.get()]).await?;
            let Some(row) = rows.first() else {
                return Ok(Err(PetRejection::NoSuchPet));
            };
            let mut columns = Columns::of(row);
            let before = Pet::read(&mut columns)?;
            let active_order = columns.optional_text()?;
            let swap = match decide(&before, Columns::skipping(row, PET_COLUMNS).claim()?) {
                Err(rejection) => return Ok(Err(rejection)),
                Ok(None) => return Ok(Ok((before, None))),
                Ok(Some(swap)) => swap,
            };
            // Unchanged since the last attempt, which failed: the row is locked.
            let seen = (before, active_order.map(String::from));
            if tried.as_ref() == Some(&seen) {
                let wait = lock_wait.get_or_insert_with(LockWait::start);
                wait.pause().await?;
            }
            let started = Instant::now();
            let swapped = self.swap_if_unchanged(api_key_id, &seen.0, active_order, &swap);
            let swapped = swapped.await;
            if !matches!(&swapped, Ok(rows) if rows.is_empty()) {
                self.commits.record(1, started, swapped.is_ok());
                return swapped.map(|_| Ok((seen.0, Some(swap))));
            }
            tried = Some(seen);
        }
        Err(Error::Unavailable(Arc::new(UpdateContention)))
    }

    /// Returns a row if the pet had these values and was not locked.
    async fn swap_if_unchanged(
        &self,
        api_key_id: i64,
        before: &Pet,
        active_order: Option<&str>,
        swap: &Swap,
    ) -> Result<Vec<Row>, Error> {
        let PetValues {
            name: old_name,
            search_name: _,
            category_id: old_category_id,
            status: old_status,
        } = PetValues::from(before);
        let id = before.id.get();
        let old: Parameters = &[
            &id,
            &old_name,
            &old_category_id,
            &old_status,
            &active_order,
            &api_key_id,
        ];
        match swap {
            Swap::Delete => self.updates.write(&DELETE, old).await,
            Swap::Update(after) => {
                let PetValues {
                    name,
                    search_name,
                    category_id,
                    status,
                } = PetValues::from(after);
                let search_name = search_name.as_str();
                let new: Parameters = &[&name, &search_name, &category_id, &status];
                self.updates.write(&UPDATE, &[old, new].concat()).await
            }
        }
    }

    pub(in super::super) async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        let rows = self.reads.read(&GET, &[&id.get()]).await?;
        rows.first().map(Pet::from_row).transpose()
    }

    pub(in super::super) async fn pet_list(
        &self,
        query: ListQuery<PetFilter>,
    ) -> Result<Page<Pet>, Error> {
        let filter = &query.filter;
        if let Some(ids) = &filter.ids {
            let rows = self.reads.read(&GET_MANY, &[&ids.as_slice()]).await?;
            let pets = rows.iter().map(Pet::from_row).collect::<Result<_, _>>()?;
            return Ok(query.page_of(pets));
        }
        let select = Select::pets(&query, Dialect::Postgres, false);
        self.list(select, query.limit, |pet| filter.position(pet))
            .await
    }
}

/// What a pet is replaced by.
enum Swap {
    Update(Pet),
    Delete,
}

static GET: Sql = Sql {
    text: concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = $1"),
    types: &[Type::INT8],
};

const PET_COLUMNS: usize = pet_columns!(types).len();

static GET_WITH_CLAIM: Sql = Sql {
    text: concat!(
        "SELECT ",
        pet_columns!(),
        ", active_order FROM pets WHERE id = $1"
    ),
    types: &[Type::INT8],
};

static GET_MANY: Sql = Sql {
    text: concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = ANY($1)"),
    types: &[Type::INT8_ARRAY],
};

/// A batch without idempotency keys. Rows are inserted, and returned, in the
/// order of the arrays.
static CREATE: Sql = Sql {
    text: concat!(
        "INSERT INTO pets (",
        new_pet_columns!(),
        ", changed_by) SELECT ",
        new_pet_columns!(),
        ", changed_by FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY AS new (",
        new_pet_columns!(),
        ", changed_by, ordinal), ",
        changed_by_row!(),
        "
         ORDER BY ordinal
         RETURNING NULL::bytea, '",
        succeeded!(),
        "', id"
    ),
    types: &[
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// A batch in which some have idempotency keys. Ids ascend in the order of
/// insertion, which pairs them with their requests.
static CREATE_IDEMPOTENT: Sql = Sql {
    text: batch_sql!(
        columns: new_pet_columns!(), parameters: "$4, $5, $6, $7",
        execute: concat!(
            "created AS (
                 INSERT INTO pets (",
            new_pet_columns!(),
            ", changed_by) SELECT ",
            new_pet_columns!(),
            ", api_key_id FROM pending ORDER BY ordinal
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
    types: batch_types![TEXT_ARRAY, TEXT_ARRAY, INT8_ARRAY, TEXT_ARRAY],
};

/// Locks a pet that still has these values. Skips a locked row, so that the statements
/// behind it on the connection do not wait.
macro_rules! unchanged {
    ($lock:literal) => {
        concat!(
            "WITH unchanged AS MATERIALIZED (
                 SELECT id FROM pets, ",
            changed_by_key!("$6"),
            "
                 WHERE id = $1 AND name = $2 AND category_id = $3
                 AND status IS NOT DISTINCT FROM $4 AND active_order IS NOT DISTINCT FROM $5
                 FOR ",
            $lock,
            " OF pets SKIP LOCKED
             ) "
        )
    };
}

/// Compare and swap.
static UPDATE: Sql = Sql {
    text: concat!(
        unchanged!("NO KEY UPDATE"),
        "UPDATE pets SET name = $7, search_name = $8, category_id = $9, status = $10
         FROM unchanged WHERE pets.id = unchanged.id
         RETURNING pets.id"
    ),
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
    ],
};

static DELETE: Sql = Sql {
    text: concat!(
        unchanged!("UPDATE"),
        "DELETE FROM pets USING unchanged WHERE pets.id = unchanged.id RETURNING pets.id"
    ),
    types: &[
        Type::INT8,
        Type::TEXT,
        Type::INT8,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
    ],
};

#[derive(Debug, thiserror::Error)]
#[error("too many concurrent updates of the same pet")]
struct UpdateContention;
