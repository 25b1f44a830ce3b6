//! Animals on SQLite.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{super::Error, Sqlite, idempotency::once, list, orders, unreadable, writer::Effect};
use crate::{
    idempotency::{Idempotent, IdempotentRequest},
    page::{Filter, ListQuery, Page},
    pet::{Inventory, NewPet, Pet, PetChange, PetId, PetName, PetStatus, Rejection},
};

impl Sqlite {
    pub async fn pet_create(
        &self,
        new: NewPet,
        named: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        if named.is_none() {
            let create = move |db: &Connection| pet_create(db, new).map(Idempotent::Executed);
            return self.writer.run_statement(|_| Effect::Adds, create).await;
        }
        let effect = |created: &Idempotent<Pet>| match created {
            Idempotent::Executed(_) => Effect::Adds,
            _ => Effect::Unseen,
        };
        let create = move |db: &Connection| {
            let work = |db: &Connection| pet_create(db, new.clone());
            let outcome = |pet: &Pet| Ok(pet.id.get());
            once(db, named.as_ref(), work, outcome, |_, outcome| {
                let id = outcome.map_err(|_| rusqlite::Error::QueryReturnedNoRows)?;
                Ok(new.clone().with_id(PetId::from_store(id)))
            })
        };
        self.writer.run(effect, create).await
    }

    pub async fn pet_update(
        &self,
        id: PetId,
        change: PetChange,
        expected: impl Fn(&Pet) -> bool + Send + 'static,
    ) -> Result<Result<Pet, Rejection>, Error> {
        let update = move |db: &Connection| {
            let unchanged = |answer| Ok((Effect::Unseen, answer));
            let Some(before) = pet_get(db, id)? else {
                return unchanged(Err(Rejection::NoSuchPet));
            };
            if !expected(&before) {
                return unchanged(Err(Rejection::Outdated));
            }
            let after = change.apply(&before);
            if after == before {
                return unchanged(Ok(after));
            }
            if after.status != before.status && orders::is_held(db, id)? {
                return unchanged(Err(Rejection::Reserved));
            }
            db.prepare_cached(
                "UPDATE pets SET name = ?2, category_id = ?3, status = ?4 WHERE id = ?1",
            )?
            .execute(params![
                id.get(),
                after.name.as_str(),
                after.category_id,
                after.status.map(PetStatus::as_str)
            ])?;
            Ok((Effect::Changes, Ok(after)))
        };
        let (_, answer) = self.writer.run(|(effect, _)| *effect, update).await?;
        Ok(answer)
    }

    pub async fn pet_inventory(&self) -> Result<Inventory, Error> {
        self.readers
            .run(|db| {
                let select = "SELECT available, pending, sold FROM inventory";
                db.prepare_cached(select)?.query_row([], |row| {
                    Ok(Inventory {
                        available: row.get(0)?,
                        pending: row.get(1)?,
                        sold: row.get(2)?,
                    })
                })
            })
            .await
    }

    pub async fn pet_get(&self, id: PetId) -> Result<Option<Pet>, Error> {
        self.readers.run(move |db| pet_get(db, id)).await
    }

    pub async fn pet_list(&self, query: ListQuery<PetStatus>) -> Result<Page<Pet>, Error> {
        let select = "SELECT id, name, category_id, status FROM pets";
        self.readers
            .run(move |db| list(db, select, query, pet, |pet| pet.id.get()))
            .await
    }
}

pub fn pet_create(db: &Connection, new: NewPet) -> rusqlite::Result<Pet> {
    db.prepare_cached("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)")?
        .execute(params![
            new.name.as_str(),
            new.category_id,
            new.status.map(PetStatus::as_str)
        ])?;
    Ok(new.with_id(PetId::from_store(db.last_insert_rowid())))
}

fn pet_get(db: &Connection, id: PetId) -> rusqlite::Result<Option<Pet>> {
    db.prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?
        .query_row([id.get()], pet)
        .optional()
}

/// Every animal, by ascending id.
pub const ALL_PETS: &str = "SELECT id, name, category_id, status FROM pets ORDER BY id";

pub fn pet(row: &Row) -> rusqlite::Result<Pet> {
    Ok(Pet {
        id: PetId::from_store(row.get(0)?),
        name: PetName::from_store(row.get_ref(1)?.as_str()?),
        category_id: row.get(2)?,
        status: match row.get_ref(3)?.as_str_or_null()? {
            Some(status) => Some(PetStatus::parse(status).map_err(|e| unreadable(3, e))?),
            None => None,
        },
    })
}
