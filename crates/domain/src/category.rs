//! Categories: names for the category ids of pets.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::{
    case_fold::fold,
    idempotency::recorded_rejection,
    invalid::Invalid,
    json::{FromObject, KnownMember, Object},
    members::{Members, all_valid},
    page::{Filter, ListKind, Position, parse_decimal},
    pet::batch::BatchId,
    text::Text,
};

/// A category id with a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Category {
    pub id: CategoryId,
    pub name: CategoryName,
}

/// A category's id: any int64, chosen by the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CategoryId(i64);

impl CategoryId {
    /// Parses an id from a path; `None` if it is not an int64.
    pub fn parse(text: &str) -> Option<Self> {
        parse_decimal(text).map(Self)
    }

    pub fn get(self) -> i64 {
        self.0
    }

    pub fn from_store(id: i64) -> Self {
        Self(id)
    }
}

/// The name of a category, unique when case is ignored. It is short enough for an index on the
/// folded name.
pub type CategoryName = Text<100>;

/// The body of a request to name a category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCategory {
    pub name: CategoryName,
    /// The batch that the change belongs to.
    pub batch_id: Option<BatchId>,
}

impl FromObject for NewCategory {
    const MEMBERS: &[KnownMember] = &[KnownMember::scalar("name"), KnownMember::scalar("batchId")];

    fn from_object(object: &Object) -> Result<Self, Vec<Invalid>> {
        all_valid! { Self;
            name: object.required("name"),
            batch_id: object.optional("batchId"),
        }
    }
}

/// The filter of the list of categories, which has no parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CategoryFilter;

impl Filter for CategoryFilter {
    const LIST: ListKind = ListKind::Categories;
    const SORTABLE: bool = false;

    type Item = Category;

    fn position(&self, category: &Category) -> Position {
        Position::of_id(category.id.get())
    }
}

/// All categories that have a name, to look one up by its name or id.
#[derive(Debug, Default, Clone)]
pub struct CategoryNames {
    ids: HashMap<String, i64>,
    names: HashMap<i64, CategoryName>,
    /// Numbers without a name that are not free, because pets have them.
    used: HashSet<i64>,
}

impl CategoryNames {
    /// Returns the id of the category with this name, ignoring case.
    pub fn id(&self, name: &str) -> Option<i64> {
        self.ids.get(&fold(name)).copied()
    }

    pub fn name(&self, id: i64) -> Option<&CategoryName> {
        self.names.get(&id)
    }

    /// Sets the numbers that pets have: a category that gets one of them would get the pets, too.
    pub fn with_used(mut self, used: HashSet<i64>) -> Self {
        self.used = used;
        self
    }

    /// Adds a category with the lowest number that has no name and no pets.
    pub fn create(&mut self, name: CategoryName) -> Category {
        let mut free = 1;
        while self.names.contains_key(&free) || self.used.contains(&free) {
            free += 1;
        }
        let id = CategoryId::from_store(free);
        let category = Category { id, name };
        self.insert(category.clone());
        category
    }

    pub fn insert(&mut self, category: Category) {
        let Category { id, name } = category;
        self.ids.insert(name.folded(), id.get());
        self.names.insert(id.get(), name);
    }

    pub fn remove(&mut self, category: &Category) {
        self.ids.remove(&category.name.folded());
        self.names.remove(&category.id.get());
    }
}

impl FromIterator<Category> for CategoryNames {
    fn from_iter<I: IntoIterator<Item = Category>>(categories: I) -> Self {
        let mut all = Self::default();
        categories.into_iter().for_each(|it| all.insert(it));
        all
    }
}

/// The reason why a category was not named or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CategoryRejection {
    NoSuchCategory,
    /// The category is no longer what the request expects.
    Outdated,
    /// Another category has the name.
    NameTaken,
}

recorded_rejection!(CategoryRejection {
    NoSuchCategory = "no_such_category",
    Outdated = "outdated",
    NameTaken = "name_taken",
});

/// The effect of naming a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CategoryUpsert {
    /// The category already has the name; nothing is written.
    Unchanged,
    Create,
    Rename,
}

/// The state that a category must be in to be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedCategory {
    Any,
    Absent,
    Unchanged(Category),
}

impl From<Option<Category>> for ExpectedCategory {
    /// Expects the category to be as it was read.
    fn from(read: Option<Category>) -> Self {
        read.map_or(Self::Absent, Self::Unchanged)
    }
}

/// Decides the effect of naming a category.
pub fn decide_upsert(
    before: Option<&Category>,
    name: &CategoryName,
    expected: &ExpectedCategory,
) -> Result<CategoryUpsert, CategoryRejection> {
    let is_expected = match expected {
        ExpectedCategory::Any => true,
        ExpectedCategory::Absent => before.is_none(),
        ExpectedCategory::Unchanged(category) => before == Some(category),
    };
    if !is_expected {
        return Err(CategoryRejection::Outdated);
    }
    Ok(match before {
        None => CategoryUpsert::Create,
        Some(category) if category.name == *name => CategoryUpsert::Unchanged,
        Some(_) => CategoryUpsert::Rename,
    })
}

/// Decides whether the name of a category can be deleted. With `expected`, the category must still
/// be that one.
pub fn decide_deletion(
    before: Option<&Category>,
    expected: Option<&Category>,
) -> Result<(), CategoryRejection> {
    match before {
        None => Err(CategoryRejection::NoSuchCategory),
        Some(before) if expected.is_some_and(|expected| expected != before) => {
            Err(CategoryRejection::Outdated)
        }
        Some(_) => Ok(()),
    }
}
