//! The other side of a trade: whom an animal was acquired from, and who buys it.

use crate::{
    members::{dotted_columns, object},
    text::Text,
};

object! {
    /// The person or business from whom a pet was acquired.
    Source
    /// A change of a source.
    SourceChange
    required {
        name "name": Text<200>,
    }
    optional {
        address "address": Text<200>,
        licence "licence": Text<200>,
    }
}

object! {
    /// The buyer of a pet. This is personal data: it is stored with the order and nowhere else.
    Buyer
    /// A change of a buyer.
    BuyerChange
    required {
        name "name": Text<200>,
    }
    optional {
        address "address": Text<200>,
        contact "contact": Text<200>,
    }
}

dotted_columns!(Source);
dotted_columns!(Buyer);
