//! Categories: the commands that change them, and reads.

use super::{
    Error, Store,
    command::Command,
    draft::Draft,
    row_keys::Keys,
    rows::{LoggedChange, Stored, to_json},
    table::{Value, columns},
};
use domain::{
    category::{
        Category, CategoryFilter, CategoryId, CategoryRejection, CategoryUpsert, ExpectedCategory,
        decide_deletion, decide_upsert,
    },
    event::EventType,
    page::{ListQuery, Page},
    pet::batch::BatchId,
};

statements! {
    GET(Int) = format!("SELECT {} FROM categories WHERE id = $1", columns::<Category>());
}

struct NameCategory {
    category: Category,
    batch_id: Option<BatchId>,
    expected: ExpectedCategory,
}

impl Command for NameCategory {
    type Output = CategoryUpsert;
    type Rejection = CategoryRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.categories.push(self.category.id);
        keys.category_names.push(self.category.name.folded());
    }

    fn batch_id(&self) -> Option<&BatchId> {
        self.batch_id.as_ref()
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<CategoryUpsert, CategoryRejection> {
        let Category { id, name } = &self.category;
        let before = draft.tables.categories.get(id);
        let upsert = decide_upsert(before, name, &self.expected)?;
        if upsert != CategoryUpsert::Unchanged {
            let owner = draft.category_names.get(&name.folded());
            if owner.is_some_and(|owner| owner != id) {
                return Err(CategoryRejection::NameTaken);
            }
            draft.put(self.category.clone());
        }
        Ok(upsert)
    }
}

struct DeleteCategory {
    id: CategoryId,
    expected: Option<Category>,
}

impl Command for DeleteCategory {
    type Output = ();
    type Rejection = CategoryRejection;

    fn keys(&self, keys: &mut Keys) {
        keys.categories.push(self.id);
    }

    fn decide(&self, draft: &mut Draft<'_>) -> Result<(), CategoryRejection> {
        let before = draft.tables.categories.get(&self.id);
        decide_deletion(before, self.expected.as_ref())?;
        draft.delete::<Category>(self.id);
        Ok(())
    }
}

impl Stored for Category {
    fn must_reach_index(_: Option<&Self>, _: Option<&Self>) -> bool {
        true
    }

    fn resource(&self) -> Option<String> {
        Some(to_json(self))
    }

    fn event(before: Option<&Self>, after: Option<&Self>) -> Option<LoggedChange> {
        let (kind, category) = match after {
            Some(after) => (EventType::CategoryUpdated, after),
            None => (EventType::CategoryDeleted, before?),
        };
        Some(LoggedChange::new(kind, category.id.get(), category))
    }
}

impl Store {
    /// Names a category, which must be in the expected state. With `batch_id`, the change is part
    /// of a batch.
    pub async fn category_put(
        &self,
        api_key_id: i64,
        category: Category,
        batch_id: Option<BatchId>,
        expected: ExpectedCategory,
    ) -> Result<Result<CategoryUpsert, CategoryRejection>, Error> {
        let command = NameCategory {
            category,
            batch_id,
            expected,
        };
        self.execute_once(Some(api_key_id), command).await
    }

    /// Deletes the name of a category. With `expected`, it must still be that one.
    pub async fn category_delete(
        &self,
        api_key_id: i64,
        id: CategoryId,
        expected: Option<Category>,
    ) -> Result<Result<(), CategoryRejection>, Error> {
        self.execute_once(Some(api_key_id), DeleteCategory { id, expected })
            .await
    }

    pub async fn category_get(&self, id: CategoryId) -> Result<Option<Category>, Error> {
        self.find(&GET, vec![Value::Int(id.get())]).await
    }

    pub async fn category_list(
        &self,
        query: ListQuery<CategoryFilter>,
    ) -> Result<Page<Category>, Error> {
        self.list_all(query).await
    }
}
