//! Pets on SQLite.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        list::{Dialect, MAX_EXAMINED, Select},
        rows::{Columns, Counts, Entity, PetValues},
    },
    COUNTS, Sqlite,
    events::{Origin, log_pet},
    idempotency::execute_once,
    list, read_row,
    writer::Effect,
};
use crate::{
    event::EventType,
    idempotency::{Idempotent, IdempotentRequest},
    page::{ListQuery, Page},
    pet::{
        Claim, Decision, NewPet, Pet, PetChange, PetFilter, PetId, PetRejection, PetStatus,
        decide_deletion,
    },
};

const GET: &str = concat!("SELECT ", pet_columns!(), " FROM pets WHERE id = ?1");

const GET_WITH_CLAIM: &str = concat!(
    "SELECT ",
    pet_columns!(),
    ", (SELECT orders.status FROM orders
        WHERE orders.pet_id = pets.id AND orders.status IN ('placed', 'completed'))
     FROM pets WHERE id = ?1"
);

const GET_MANY: &str = concat!(
    "SELECT ",
    pet_columns!(),
    " FROM pets WHERE id IN (SELECT value FROM json_each(?1))"
);

// OR ROLLBACK saves the copies of pages that would undo this statement alone: a
// constraint never fails.
const INSERT: &str = concat!(
    "INSERT OR ROLLBACK INTO pets (",
    new_pet_columns!(),
    ") VALUES (?1, ?2, ?3, ?4)"
);

/// A status is rare if fewer than one in this many pets has it.
const RARE: i64 = 8;

const UPDATE: &str =
    "UPDATE OR ROLLBACK pets SET name = ?2, search_name = ?3, category_id = ?4, status = ?5
     WHERE id = ?1";

impl Sqlite {
    pub(in super::super) async fn pet_create(
        &self,
        api_key_id: i64,
        new: NewPet,
        idempotency: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Pet>, Error> {
        let origin = self.origin(api_key_id);
        let Some(request) = idempotency else {
            let create = move |db: &Connection| insert(db, origin, new).map(Idempotent::Executed);
            return self.writer.run_statement(|_| Effect::Insert, create).await;
        };
        let effect = |created: &Idempotent<Pet>| match created {
            Idempotent::Executed(_) => Effect::Insert,
            Idempotent::Replayed(_) | Idempotent::KeyReused => Effect::None,
        };
        let create = move |db: &Connection| {
            let execute = |db: &Connection| insert(db, origin, new.clone()).map(Ok);
            let replay = |_: &Connection, id| Ok(Ok(new.clone().with_id(PetId::from_store(id))));
            let (request, at) = (Some(&request), origin.at);
            let created = execute_once(db, request, at, execute, |pet| pet.id.get(), replay)?;
            Ok(created.into_infallible())
        };
        self.writer.run(effect, create).await
    }

    pub(in super::super) async fn pet_update(
        &self,
        api_key_id: i64,
        id: PetId,
        change: PetChange,
        expected: Option<Pet>,
    ) -> Result<Result<Pet, PetRejection>, Error> {
        let origin = self.origin(api_key_id);
        let update = move |db: &Connection| {
            let Some((before, claim)) = get_with_claim(db, id)? else {
                return Ok((Effect::None, Err(PetRejection::NoSuchPet)));
            };
            match change.decide(&before, expected.as_ref(), claim) {
                Err(rejection) => Ok((Effect::None, Err(rejection))),
                Ok(Decision::Unchanged) => Ok((Effect::None, Ok(before))),
                Ok(Decision::Update(after)) => {
                    let PetValues {
                        name,
                        search_name,
                        category_id,
                        status,
                    } = PetValues::from(&after);
                    db.prepare_cached(UPDATE)?.execute(params![
                        id.get(),
                        name,
                        search_name.as_str(),
                        category_id,
                        status
                    ])?;
                    log_pet(db, origin, EventType::PetUpdated, &after)?;
                    Ok((Effect::Update, Ok(after)))
                }
            }
        };
        let (_, result) = self.writer.run(|(effect, _)| *effect, update).await?;
        Ok(result)
    }

    pub(in super::super) async fn pet_delete(
        &self,
        api_key_id: i64,
        id: PetId,
        expected: Option<Pet>,
    ) -> Result<Result<(), PetRejection>, Error> {
        let effect = |deleted: &Result<(), PetRejection>| match deleted {
            Ok(()) => Effect::Update,
            Err(_) => Effect::None,
        };
        let origin = self.origin(api_key_id);
        let delete = move |db: &Connection| {
            let Some((before, claim)) = get_with_claim(db, id)? else {
                return Ok(Err(PetRejection::NoSuchPet));
            };
            let decided = decide_deletion(&before, expected.as_ref(), claim);
            if decided.is_ok() {
                db.prepare_cached("DELETE FROM pets WHERE id = ?1")?
                    .execute([id.get()])?;
                log_pet(db, origin, EventType::PetDeleted, &before)?;
            }
            Ok(decided)
        };
        self.writer.run(effect, delete).await
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
        query: ListQuery<PetFilter>,
    ) -> Result<Page<Pet>, Error> {
        let read = move |db: &Connection| {
            let filter = &query.filter;
            if let Some(ids) = &filter.ids {
                let mut statement = db.prepare_cached(GET_MANY)?;
                let pets = statement.query_map([ids.to_json().as_str()], read_row)?;
                return Ok(query.page_of(pets.collect::<Result<_, _>>()?));
            }
            let walk_status = match (filter.category_id, filter.status) {
                (Some(category), Some(status)) => is_rarer(db, status, category)?,
                _ => false,
            };
            let select = Select::pets(&query, Dialect::Sqlite, walk_status);
            let (matches, position) = (
                |pet: &_| filter.matches(pet),
                |pet: &_| filter.position(pet),
            );
            list(db, &select, &query, matches, position)
        };
        self.readers.run(read).await
    }
}

/// Whether fewer rows have to be examined if the pets with a status are walked than if
/// those of a category are. The number of pets in a category is known only if it is small.
fn is_rarer(db: &Connection, status: PetStatus, category_id: i64) -> rusqlite::Result<bool> {
    let Counts { pets, .. } = db.prepare_cached(COUNTS)?.query_row([], read_row)?;
    if pets.of(status) >= pets.total / RARE {
        return Ok(false);
    }
    let in_category = "SELECT count(*) FROM (SELECT 1 FROM pets WHERE category_id = ?1 LIMIT ?2)";
    let in_category: i64 = db
        .prepare_cached(in_category)?
        .query_row([category_id, MAX_EXAMINED + 1], |row| row.get(0))?;
    Ok(in_category > MAX_EXAMINED)
}

fn get_with_claim(db: &Connection, id: PetId) -> rusqlite::Result<Option<(Pet, Option<Claim>)>> {
    db.prepare_cached(GET_WITH_CLAIM)?
        .query_row([id.get()], |row| {
            let mut columns = Columns::of(row);
            Ok((Pet::read(&mut columns)?, columns.claim()?))
        })
        .optional()
}

pub(in super::super) fn insert(
    db: &Connection,
    origin: Origin,
    new: NewPet,
) -> rusqlite::Result<Pet> {
    let PetValues {
        name,
        search_name,
        category_id,
        status,
    } = PetValues::from(&new);
    db.prepare_cached(INSERT)?
        .execute(params![name, search_name.as_str(), category_id, status])?;
    let pet = new.with_id(PetId::from_store(db.last_insert_rowid()));
    log_pet(db, origin, EventType::PetCreated, &pet)?;
    Ok(pet)
}

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;

    use super::{super::in_memory, *};
    use crate::page::Position;

    /// Every list is read from an index in its order, from where the previous page ended.
    #[test]
    fn lists_are_read_in_the_order_of_an_index() {
        let db = in_memory().unwrap();
        let by_category: &[_] = &["pets_category_id_idx (category_id=? AND rowid"];
        let by_name: &[_] = &[
            "MERGE (UNION ALL)",
            "LEFT",
            "pets_search_name_idx (search_name=? AND rowid",
            "RIGHT",
            "pets_search_name_idx (search_name>? AND search_name<?)",
        ];
        for (filters, expected) in [
            ("", &["USING INTEGER PRIMARY KEY (rowid"] as &[_]),
            ("&status=sold", &["pets_status_idx (status=? AND rowid"]),
            ("&categoryId=1", by_category),
            ("&categoryId=1&status=sold", by_category),
            ("&name=re", by_name),
            ("&name=re&status=sold", by_name),
        ] {
            for sort in ["asc", "desc"] {
                let query = format!("sort={sort}{filters}");
                let mut query = ListQuery::<PetFilter>::parse(&query).unwrap();
                let first = plan(&db, &query);
                assert!(first.len() == 1 && !first[0].contains("TEMP"), "{first:?}");
                query.after = Some(Position {
                    name: "rex".into(),
                    id: 7,
                });
                let next = plan(&db, &query);
                let mut steps = next.iter().zip(expected);
                let is_expected = steps.all(|(step, expected)| step.contains(expected));
                assert!(next.len() == expected.len() && is_expected, "{next:?}");
            }
        }
    }

    fn plan(db: &Connection, query: &ListQuery<PetFilter>) -> Vec<String> {
        let select = Select::pets(query, Dialect::Sqlite, false);
        let sql = format!("EXPLAIN QUERY PLAN {}", select.sql);
        let mut explain = db.prepare(&sql).unwrap();
        let nulls = select.parameters.iter().map(|_| None::<i64>);
        let steps = explain.query_map(params_from_iter(nulls), |row| row.get(3));
        steps.unwrap().map(Result::unwrap).collect()
    }
}
