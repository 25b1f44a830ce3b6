//! The rules by which the cells of a table are read.

use super::{dates::DateRules, prices::PriceRules};

/// The rules by which the cells of a table are read, which its columns tell in part.
#[derive(Clone, Default)]
pub struct Rules {
    pub prices: PriceRules,
    pub dates: DateRules,
}
