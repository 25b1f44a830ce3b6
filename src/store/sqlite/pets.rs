//! Pets on SQLite.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        rows::{Columns, Entity, PetValues},
    },
    ListSql, Sqlite,
    idempotency::execute_once,
    list, read_row,
    writer::Effect,
};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
    pet::{Decision, Inventory, NewPet, Pet, PetChange, PetId, PetRejection, PetStatus},
};

const GET: &str = concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = ?1");

const GET_WITH_RESERVED: &str = concat!(
    "SELECT ",
    pet_columns!(),
    ", EXISTS (SELECT 1 FROM orders WHERE orders.pet_id = pets.id AND orders.status = 'placed')
     FROM pets WHERE id = ?1"
);

const LIST: ListSql = ListSql {
    all: concat!(
        "SELECT ",
        pet_columns!(),
        " FROM pets WHERE id > ?1 ORDER BY id LIMIT ?2"
    ),
    by_status: concat!(
        "SELECT ",
        pet_columns!(),
        " FROM pets WHERE status = ?3 AND id > ?1 ORDER BY id LIMIT ?2"
    ),
};

const INSERT: &str = concat!(
    "INSERT INTO pets (",
    new_pet_columns!(),
    ") VALUES (?1, ?2, ?3)"
);

const UPDATE: &str = "UPDATE pets SET name = ?2, category_id = ?3, status = ?4 WHERE id = ?1";

const INVENTORY: &str = concat!("SELECT ", inventory_columns!(), " FROM inventory");

impl Sqlite {
    pub(in super::super) async fn pet_create(
        &self,
        new: NewPet,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        let Some(request) = idempotency else {
            let create = move |db: &Connection| insert(db, new).map(Idempotent::Executed);
            return self.writer.run_statement(|_| Effect::Insert, create).await;
        };
        let effect = |created: &Idempotent<Pet>| match created {
            Idempotent::Executed(_) => Effect::Insert,
            Idempotent::Replayed(_) | Idempotent::KeyReused => Effect::None,
        };
        let at = self.clock.now();
        let create = move |db: &Connection| {
            let execute = |db: &Connection| insert(db, new.clone()).map(Ok);
            let replay = |_: &Connection, id| Ok(new.clone().with_id(PetId::from_store(id)));
            let created =
                execute_once(db, Some(&request), at, execute, |pet| pet.id.get(), replay)?;
            Ok(created.into_infallible())
        };
        self.writer.run(effect, create).await
    }

    pub(in super::super) async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        let update = move |db: &Connection| {
            let before = db
                .prepare_cached(GET_WITH_RESERVED)?
                .query_row([id.get()], |row| {
                    let mut columns = Columns::of(row);
                    Ok((Pet::read(&mut columns)?, columns.boolean()?))
                })
                .optional()?;
            let Some((before, reserved)) = before else {
                return Ok((Effect::None, Err(PetRejection::NoSuchPet)));
            };
            match change.decide(&before, expected.as_ref(), reserved) {
                Err(rejection) => Ok((Effect::None, Err(rejection))),
                Ok(Decision::Unchanged) => Ok((Effect::None, Ok(before))),
                Ok(Decision::Update(after)) => {
                    let PetValues {
                        name,
                        category_id,
                        status,
                    } = PetValues::from(&after);
                    db.prepare_cached(UPDATE)?.execute(params![
                        id.get(),
                        name,
                        category_id,
                        status
                    ])?;
                    Ok((Effect::Update, Ok(after)))
                }
            }
        };
        let (_, result) = self.writer.run(|(effect, _)| *effect, update).await?;
        Ok(result)
    }

    pub(in super::super) async fn pet_inventory(&self) -> Result<Inventory, Error> {
        self.readers
            .run(|db| db.prepare_cached(INVENTORY)?.query_row([], read_row))
            .await
    }

    pub(in super::super) async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        self.readers
            .run(move |db| {
                db.prepare_cached(GET)?
                    .query_row([id.get()], read_row)
                    .optional()
            })
            .await
    }

    pub(in super::super) async fn pet_list(
        &self,
        query: ListQuery<PetStatus>,
    ) -> Result<Page<Pet>, Error> {
        self.readers
            .run(move |db| list(db, &LIST, query, |pet: &Pet| pet.id.get()))
            .await
    }
}

pub(in super::super) fn insert(db: &Connection, new: NewPet) -> rusqlite::Result<Pet> {
    let PetValues {
        name,
        category_id,
        status,
    } = PetValues::from(&new);
    db.prepare_cached(INSERT)?
        .execute(params![name, category_id, status])?;
    Ok(new.with_id(PetId::from_store(db.last_insert_rowid())))
}
