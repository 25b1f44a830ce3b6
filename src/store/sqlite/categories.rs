//! Categories on SQLite.

use rusqlite::{Connection, OptionalExtension, params};

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
    },
    Sqlite,
    events::log_category,
    list, read_row,
    writer::Effect,
};
use crate::{
    category::{
        Category, CategoryFilter, CategoryId, CategoryName, CategoryRejection, Naming,
        decide_deletion, decide_naming,
    },
    event::EventType,
    page::{ListQuery, Page, Position},
};

const GET: &str = concat!(
    "SELECT ",
    category_columns!(),
    " FROM categories WHERE id = ?1"
);

const UPSERT: &str = concat!(
    "INSERT INTO categories (",
    stored_category_columns!(),
    ") VALUES (?1, ?2, ?3)
     ON CONFLICT (id) DO UPDATE SET name = ?2, folded_name = ?3"
);

const IS_TAKEN: &str = "SELECT 1 FROM categories WHERE folded_name = ?1 AND id <> ?2";

impl Sqlite {
    pub(in super::super) async fn category_put(
        &self,
        api_key_id: i64,
        id: CategoryId,
        name: CategoryName,
        expected: Option<Option<Category>>,
    ) -> Result<Result<Naming, CategoryRejection>, Error> {
        let effect = |named: &Result<Naming, _>| match named {
            Ok(Naming::Create | Naming::Rename) => Effect::Update,
            Ok(Naming::Unchanged) | Err(_) => Effect::None,
        };
        let origin = self.origin(api_key_id);
        let put = move |db: &Connection| {
            let naming = decide_naming(get(db, id)?.as_ref(), &name, expected.as_ref());
            if matches!(naming, Ok(Naming::Create | Naming::Rename)) {
                let folded = name.folded();
                if db
                    .prepare_cached(IS_TAKEN)?
                    .exists(params![folded, id.get()])?
                {
                    return Ok(Err(CategoryRejection::NameTaken));
                }
                db.prepare_cached(UPSERT)?
                    .execute(params![id.get(), name.as_str(), folded])?;
                let category = Category { id, name };
                log_category(db, origin, EventType::CategoryUpdated, &category)?;
            }
            Ok(naming)
        };
        self.writer.run(effect, put).await
    }

    pub(in super::super) async fn category_delete(
        &self,
        api_key_id: i64,
        id: CategoryId,
        expected: Option<Category>,
    ) -> Result<Result<(), CategoryRejection>, Error> {
        let effect = |deleted: &Result<(), _>| match deleted {
            Ok(()) => Effect::Update,
            Err(_) => Effect::None,
        };
        let origin = self.origin(api_key_id);
        let delete = move |db: &Connection| {
            let before = get(db, id)?;
            let decided = decide_deletion(before.as_ref(), expected.as_ref());
            if let (Ok(()), Some(before)) = (decided, before) {
                db.prepare_cached("DELETE FROM categories WHERE id = ?1")?
                    .execute([id.get()])?;
                log_category(db, origin, EventType::CategoryDeleted, &before)?;
            }
            Ok(decided)
        };
        self.writer.run(effect, delete).await
    }

    pub(in super::super) async fn category_get(
        &self,
        id: CategoryId,
    ) -> Result<Option<Category>, Error> {
        self.readers.run(move |db| get(db, id)).await
    }

    pub(in super::super) async fn category_list(
        &self,
        query: ListQuery<CategoryFilter>,
    ) -> Result<Page<Category>, Error> {
        let read = move |db: &Connection| {
            let select = Select::categories(&query, Dialect::Sqlite);
            let position = |category: &Category| Position::of_id(category.id.get());
            list(db, &select, &query, |_| true, position)
        };
        self.readers.run(read).await
    }
}

fn get(db: &Connection, id: CategoryId) -> rusqlite::Result<Option<Category>> {
    db.prepare_cached(GET)?
        .query_row([id.get()], read_row)
        .optional()
}
