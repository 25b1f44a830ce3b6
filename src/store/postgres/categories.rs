//! Categories on PostgreSQL.

use std::sync::Arc;

use tokio_postgres::types::Type;

use super::{
    super::{
        error::Error,
        list::{Dialect, Select},
        rows::Entity,
    },
    Postgres,
    lock_wait::LockWait,
    pool::{Parameters, Sql},
};
use crate::{
    category::{
        Category, CategoryFilter, CategoryId, CategoryName, CategoryRejection, Naming,
        decide_deletion, decide_naming,
    },
    page::{ListQuery, Page, Position},
};

/// Attempts of an optimistic change. Each failed one means that a concurrent change of
/// the same category succeeded, or that its row was locked.
const MAX_ATTEMPTS: usize = 100;

const UNIQUE_NAME: &str = "categories_folded_name_key";

impl Postgres {
    /// Optimistic: changes the category if it still is what the decision was based on, or
    /// decides again.
    pub(in super::super) async fn category_put(
        &self,
        api_key_id: i64,
        id: CategoryId,
        name: CategoryName,
        expected: Option<Option<Category>>,
    ) -> Result<Result<Naming, CategoryRejection>, Error> {
        let folded = name.folded();
        let (id_value, name_value) = (id.get(), name.as_str());
        let mut lock_wait = None;
        for _ in 0..MAX_ATTEMPTS {
            let before = self.category_get(id).await?;
            let naming = match decide_naming(before.as_ref(), &name, expected.as_ref()) {
                Ok(naming) => naming,
                Err(rejection) => return Ok(Err(rejection)),
            };
            let old = before.as_ref().map(|category| category.name.as_str());
            let insert: Parameters = &[&api_key_id, &id_value, &name_value, &folded];
            let rename: Parameters = &[&api_key_id, &id_value, &old, &name_value, &folded];
            let (sql, parameters) = match naming {
                Naming::Unchanged => return Ok(Ok(naming)),
                Naming::Create => (&INSERT, insert),
                Naming::Rename => (&RENAME, rename),
            };
            let pool = &self.categories;
            let written = pool.write_unless_conflict(sql, parameters, UNIQUE_NAME);
            match written.await? {
                None => return Ok(Err(CategoryRejection::NameTaken)),
                Some(rows) if !rows.is_empty() => return Ok(Ok(naming)),
                Some(_) => {
                    let wait = lock_wait.get_or_insert_with(LockWait::start);
                    wait.pause().await?;
                }
            }
        }
        Err(Error::Unavailable(Arc::new(Contention)))
    }

    pub(in super::super) async fn category_delete(
        &self,
        api_key_id: i64,
        id: CategoryId,
        expected: Option<Category>,
    ) -> Result<Result<(), CategoryRejection>, Error> {
        let mut lock_wait = None;
        for _ in 0..MAX_ATTEMPTS {
            let before = self.category_get(id).await?;
            if let Err(rejection) = decide_deletion(before.as_ref(), expected.as_ref()) {
                return Ok(Err(rejection));
            }
            let old = before.as_ref().map(|category| category.name.as_str());
            let parameters: Parameters = &[&api_key_id, &id.get(), &old];
            let deleted = self.categories.write(&DELETE, parameters).await?;
            if !deleted.is_empty() {
                return Ok(Ok(()));
            }
            let wait = lock_wait.get_or_insert_with(LockWait::start);
            wait.pause().await?;
        }
        Err(Error::Unavailable(Arc::new(Contention)))
    }

    pub(in super::super) async fn category_get(
        &self,
        id: CategoryId,
    ) -> Result<Option<Category>, Error> {
        let rows = self.reads.read(&GET, &[&id.get()]).await?;
        rows.first().map(Category::from_row).transpose()
    }

    pub(in super::super) async fn category_list(
        &self,
        query: ListQuery<CategoryFilter>,
    ) -> Result<Page<Category>, Error> {
        let select = Select::categories(&query, Dialect::Postgres);
        let position = |category: &Category| Position::of_id(category.id.get());
        self.list(select, query.limit, position).await
    }
}

static GET: Sql = Sql {
    text: concat!(
        "SELECT ",
        category_columns!(),
        " FROM categories WHERE id = $1"
    ),
    types: &[Type::INT8],
};

static INSERT: Sql = Sql {
    text: concat!(
        "INSERT INTO categories (",
        stored_category_columns!(),
        ") SELECT $2, $3, $4 FROM ",
        changed_by_key!("$1"),
        " ON CONFLICT (id) DO NOTHING RETURNING id"
    ),
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::TEXT],
};

/// Locks a category that still has the name. Skips a locked row, so that the statements
/// behind it on the connection do not wait.
macro_rules! unchanged {
    () => {
        concat!(
            "WITH unchanged AS MATERIALIZED (
                 SELECT id FROM categories, ",
            changed_by_key!("$1"),
            " WHERE id = $2 AND name = $3 FOR UPDATE OF categories SKIP LOCKED
             ) "
        )
    };
}

static RENAME: Sql = Sql {
    text: concat!(
        unchanged!(),
        "UPDATE categories SET name = $4, folded_name = $5
         FROM unchanged WHERE categories.id = unchanged.id RETURNING categories.id"
    ),
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT],
};

static DELETE: Sql = Sql {
    text: concat!(
        unchanged!(),
        "DELETE FROM categories USING unchanged WHERE categories.id = unchanged.id
         RETURNING categories.id"
    ),
    types: &[Type::INT8, Type::INT8, Type::TEXT],
};

#[derive(Debug, thiserror::Error)]
#[error("too many concurrent changes of the same category")]
struct Contention;
