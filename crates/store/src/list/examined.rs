//! The filters that no index has: rows are examined for them.

use super::{Builder, Equality};
use crate::table::Value;
use domain::{
    members::Choice,
    pet::{PetStatuses, Search},
};

/// A filter that no index has.
pub(super) enum Examined {
    Equals(Equality),
    Statuses(PetStatuses),
    /// The terms of a search, separated by blanks.
    Search(String),
}

impl Examined {
    pub(super) fn search(search: &Search) -> Self {
        Self::Search(search.terms().join(" "))
    }

    /// Returns the condition on a row, for PostgreSQL. It is never null.
    pub(super) fn condition(self, builder: &mut Builder) -> String {
        match self {
            Self::Equals((column, value)) => {
                let parameter = builder.bind(value);
                format!("{column} IS NOT DISTINCT FROM {parameter}")
            }
            Self::Statuses(statuses) => {
                let statuses: Vec<_> = statuses.iter().map(|it| it.as_str()).collect();
                let statuses = statuses.join("', '");
                format!("coalesce(status IN ('{statuses}'), false)")
            }
            Self::Search(terms) => {
                let terms = builder.bind(Value::text(terms));
                format!(
                    "(SELECT bool_and(strpos(' ' || search_words, ' ' || term) > 0
                                      OR term = id::text)
                      FROM unnest(string_to_array({terms}, ' ')) AS term)"
                )
            }
        }
    }
}
