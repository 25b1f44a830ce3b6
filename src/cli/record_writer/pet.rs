//! Pets as they are exported.

use std::borrow::Cow;

use serde::Serialize;

use super::{super::formula, text_of};
use domain::pet::Pet;

/// A pet as it is exported.
#[derive(Serialize)]
pub struct PetRow<'a> {
    #[serde(flatten)]
    pub pet: &'a Pet,
    /// The name of its category, if that is exported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<&'a str>,
}

impl PetRow<'_> {
    const CATEGORY_COLUMN: usize = 3;
    /// The columns that every table has: id, name, categoryId and status.
    pub const REQUIRED_COLUMNS: usize = 4;

    /// Returns the members of a pet, with the name of its category after the number. `keys` are
    /// the keys of all metadata.
    pub fn columns(with_category: bool, keys: &[String]) -> Vec<Cow<'static, str>> {
        let mut columns = vec!["id".into()];
        columns.extend(Pet::columns(keys));
        if with_category {
            columns.insert(Self::CATEGORY_COLUMN, "category".into());
        }
        columns
    }

    pub fn cells(&self, with_category: bool, keys: &[String]) -> Vec<String> {
        let mut cells = vec![self.pet.id.get().to_string()];
        cells.extend(self.pet.cells(keys).into_iter().map(text_of));
        if with_category {
            let name = formula::escape(self.category.unwrap_or_default());
            cells.insert(Self::CATEGORY_COLUMN, name);
        }
        cells
    }
}
