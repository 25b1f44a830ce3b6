//! Animals on PostgreSQL.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use tokio_postgres::{Row, types::Type};

use super::{
    super::Error,
    NoRow, Postgres,
    batch::Change,
    idempotency::{self, changes},
    pool::{Parameters, Pool, Sql},
    unreadable,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    order,
    page::{Filter, ListQuery, Page},
    pet::{Inventory, NewPet, Pet, PetChange, PetId, PetName, PetStatus, Rejection},
};

/// How often an update is tried while others change the same animal: each time
/// one of them succeeds.
const UPDATE_TRIES: usize = 100;

/// A pet to be created.
#[derive(Debug)]
pub struct Create {
    new: NewPet,
    named: Option<IdempotentRequest>,
}

impl Change for Create {
    fn subject(&self) -> Option<(i64, order::Rejection)> {
        None
    }

    fn named(&self) -> Option<&IdempotentRequest> {
        self.named.as_ref()
    }

    async fn run(pool: &Pool, changes: &[&Self]) -> Result<Option<Vec<Row>>, Error> {
        let pets = || changes.iter().map(|change| &change.new);
        let names: Vec<_> = pets().map(|pet| pet.name.as_str()).collect();
        let categories: Vec<_> = pets().map(|pet| pet.category_id).collect();
        let status = |pet: &NewPet| pet.status.map(PetStatus::as_str);
        let statuses: Vec<_> = pets().map(status).collect();
        let rest: Parameters = &[&names, &categories, &statuses];
        if changes.iter().all(|change| change.named.is_none()) {
            return pool.write(&CREATE, rest).await.map(Some);
        }
        let at = |change: &Self| {
            change
                .named
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |n| n.received_at)
        };
        idempotency::run(pool, &CREATE_NAMED, changes, at, rest).await
    }
}

impl Postgres {
    pub async fn pet_create(
        &self,
        new: NewPet,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        let created = self
            .creates
            .make(Create {
                new: new.clone(),
                named,
            })
            .await?;
        created.try_map(|(outcome, _)| match outcome {
            Ok(id) => Ok(new.with_id(PetId::from_store(id))),
            Err(_) => Err(unreadable(NoRow)),
        })
    }

    /// Changes the pet if it still is as it was read, or looks again.
    pub async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: impl Fn(&Pet) -> bool,
    ) -> Result<Result<Pet, Rejection>, Error> {
        for _ in 0..UPDATE_TRIES {
            let rows = self.pool.read(&PET_HELD, &[&id.get()]).await?;
            let Some(row) = rows.first() else {
                return Ok(Err(Rejection::NoSuchPet));
            };
            let (before, held) = (pet(row)?, row.get::<_, bool>(4));
            if !expected(&before) {
                return Ok(Err(Rejection::Outdated));
            }
            let after = change.apply(&before);
            if after == before {
                return Ok(Ok(after));
            }
            if after.status != before.status && held {
                return Ok(Err(Rejection::Reserved));
            }
            let [(old_name, old_status), (name, status)] =
                [&before, &after].map(|pet| (pet.name.as_str(), pet.status.map(PetStatus::as_str)));
            let (old_category, category) = (before.category_id, after.category_id);
            let began = Instant::now();
            let changed = self
                .updates
                .write(
                    &UPDATE,
                    &[
                        &id.get(),
                        &old_name,
                        &old_category,
                        &old_status,
                        &held,
                        &name,
                        &category,
                        &status,
                    ],
                )
                .await;
            self.commits.count(1, began, changed.is_ok());
            if !changed?.is_empty() {
                return Ok(Ok(after));
            }
        }
        Err(Error::Unavailable(Arc::new(Contended)))
    }

    pub async fn pet_inventory(&self) -> Result<Inventory, Error> {
        let rows = self.pool.read(&INVENTORY, &[]).await?;
        let row = rows.first().ok_or_else(|| unreadable(NoRow))?;
        Ok(Inventory {
            available: row.get(0),
            pending: row.get(1),
            sold: row.get(2),
        })
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        let rows = self.pool.read(&PET, &[&id.get()]).await?;
        rows.first().map(pet).transpose()
    }

    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        self.list(&PETS, query, pet, |pet| pet.id.get()).await
    }
}

static PET: Sql = Sql {
    text: "SELECT id, name, category_id, status FROM pets WHERE id = $1",
    types: &[Type::INT8],
};

/// Without a status, and with one.
static PETS: [Sql; 2] = [
    Sql {
        text: "SELECT id, name, category_id, status FROM pets
               WHERE id > $1 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8],
    },
    Sql {
        text: "SELECT id, name, category_id, status FROM pets
               WHERE id > $1 AND status = $3 ORDER BY id LIMIT $2",
        types: &[Type::INT8, Type::INT8, Type::TEXT],
    },
];

/// The rows are inserted, and their ids come back, in the order of the arrays.
static CREATE: Sql = Sql {
    text: "INSERT INTO pets (name, category_id, status)
           SELECT name, category_id, status
           FROM unnest($1, $2, $3) WITH ORDINALITY AS new (name, category_id, status, place)
           ORDER BY place
           RETURNING NULL::bytea, 'done', id",
    types: &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY],
};

/// The same if some of them have names. Ids ascend, so they are in the order of
/// the rows.
static CREATE_NAMED: Sql = Sql {
    text: changes!(
        "name, category_id, status" from "$5, $6, $7",
        "made AS (
             INSERT INTO pets (name, category_id, status)
             SELECT name, category_id, status FROM fresh ORDER BY place
             RETURNING id
         ), done AS (
             SELECT place, id
             FROM (SELECT id, row_number() OVER (ORDER BY id) FROM made) AS made
             JOIN (SELECT place, row_number() OVER (ORDER BY place) FROM fresh) AS new
             USING (row_number)
         )",
        "NULL"
    ),
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
    ],
};

static PET_HELD: Sql = Sql {
    text: "SELECT id, name, category_id, status, held FROM pets WHERE id = $1",
    types: &[Type::INT8],
};

static UPDATE: Sql = Sql {
    text: "UPDATE pets SET name = $6, category_id = $7, status = $8
           WHERE id = $1 AND name = $2 AND category_id = $3
           AND status IS NOT DISTINCT FROM $4 AND held = $5
           RETURNING id",
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

static INVENTORY: Sql = Sql {
    text: "SELECT sum(available)::bigint, sum(pending)::bigint, sum(sold)::bigint FROM inventory",
    types: &[],
};

/// Every animal, by ascending id.
pub const ALL_PETS: &str = "SELECT id, name, category_id, status FROM pets ORDER BY id";

pub fn pet(row: &Row) -> Result<Pet, Error> {
    let status: Option<&str> = row.get(3);
    Ok(Pet {
        id: PetId::from_store(row.get(0)),
        name: PetName::from_store(row.get(1)),
        category_id: row.get(2),
        status: status
            .map(PetStatus::parse)
            .transpose()
            .map_err(unreadable)?,
    })
}

#[derive(Debug, thiserror::Error)]
#[error("others change the same animal all the time")]
struct Contended;
