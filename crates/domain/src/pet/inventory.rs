//! The number of pets by status, of all pets or of those that match a filter.

use serde::Serialize;

use super::{PetFilter, PetStatus};
use crate::{invalid::Invalid, page::Filter};

/// The number of pets by status. The total also counts those without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    pub available: i64,
    pub pending: i64,
    pub sold: i64,
    pub total: i64,
}

impl Inventory {
    pub fn of(&self, status: PetStatus) -> i64 {
        match status {
            PetStatus::Available => self.available,
            PetStatus::Pending => self.pending,
            PetStatus::Sold => self.sold,
        }
    }

    /// Counts a pet.
    pub fn add(&mut self, status: Option<PetStatus>) {
        self.total += 1;
        match status {
            Some(PetStatus::Available) => self.available += 1,
            Some(PetStatus::Pending) => self.pending += 1,
            Some(PetStatus::Sold) => self.sold += 1,
            None => {}
        }
    }
}

/// The number of pets that match a filter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilteredInventory {
    #[serde(flatten)]
    pub counts: Inventory,
    /// True if counting stopped before the last pet, so that there may be more.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl FilteredInventory {
    /// Parses the filter from a query string: a category, a search, or both. Returns `None` if
    /// there is neither. Other parameters are ignored.
    pub fn parse_filter(query: &str) -> Result<Option<PetFilter>, Invalid> {
        let mut filter = PetFilter::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if matches!(&*name, "categoryId" | "q") {
                filter.set(&name, &value)?;
            }
        }
        Ok((filter != PetFilter::default()).then_some(filter))
    }
}
