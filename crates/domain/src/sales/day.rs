//! The sums of the sales and returns of one day, by category and by API key: what reports are
//! added up from.

use std::collections::BTreeMap;

use super::{Group, Movement, MovementKind, SalesReport, Sums, TooManyTotals, TotalKey};

/// The sums of a day, as reports and the store keep them.
#[derive(Debug)]
pub struct DaySales {
    pub(super) totals: Box<[(TotalKey, Sums)]>,
    pub(super) by_category: Dimension,
    pub(super) by_key: Dimension,
}

/// The sums of each group. Too many for one report are not kept, because no report that contains
/// the day could show them.
type Dimension = Result<Box<[((Group, TotalKey), Sums)]>, TooManyTotals>;

impl Default for DaySales {
    fn default() -> Self {
        DayCounter::default().finish()
    }
}

impl DaySales {
    /// The size in memory.
    pub fn size(&self) -> usize {
        let groups = [&self.by_category, &self.by_key].map(|dimension| {
            let lines = dimension.as_ref().map_or(0, |lines| lines.len());
            lines * size_of::<((Group, TotalKey), Sums)>()
        });
        size_of::<Self>() + size_of_val(&*self.totals) + groups.iter().sum::<usize>()
    }
}

/// Adds up the sums of a day.
#[derive(Debug, Default)]
pub struct DayCounter {
    totals: BTreeMap<TotalKey, Sums>,
    by_category: GroupCounter,
    by_key: GroupCounter,
}

impl DayCounter {
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    pub fn add(&mut self, movement: &Movement) {
        let total_key = match &movement.price {
            Some(price) => TotalKey::Currency(price.currency),
            None => TotalKey::Unpriced,
        };
        let amount = movement
            .price
            .as_ref()
            .map_or(0, |price| price.amount.get());
        let mut added = Sums::default();
        match movement.kind {
            MovementKind::Sold => (added.sold, added.sold_amount) = (1, amount),
            MovementKind::Returned => (added.returned, added.returned_amount) = (1, amount),
        }
        let category = movement.category_id.map_or(Group::Unknown, Group::Id);
        let key = movement.api_key_id.map_or(Group::Unknown, Group::Id);
        self.totals.entry(total_key).or_default().add(&added);
        self.by_category.add((category, total_key), &added);
        self.by_key.add((key, total_key), &added);
    }

    pub fn finish(self) -> DaySales {
        DaySales {
            totals: self.totals.into_iter().collect(),
            by_category: self.by_category.finish(),
            by_key: self.by_key.finish(),
        }
    }
}

/// The sums of each group, as long as a report could show them.
#[derive(Debug, Default)]
struct GroupCounter {
    totals: BTreeMap<(Group, TotalKey), Sums>,
    has_too_many: bool,
}

impl GroupCounter {
    fn add(&mut self, key: (Group, TotalKey), added: &Sums) {
        if self.has_too_many {
            return;
        }
        self.totals.entry(key).or_default().add(added);
        if self.totals.len() > SalesReport::MAX_TOTALS {
            self.has_too_many = true;
            self.totals.clear();
        }
    }

    fn finish(self) -> Dimension {
        if self.has_too_many {
            Err(TooManyTotals)
        } else {
            Ok(self.totals.into_iter().collect())
        }
    }
}
