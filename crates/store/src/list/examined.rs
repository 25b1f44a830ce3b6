//! The filters that no index has: rows are examined for them.

use super::{Builder, Dialect, Equality};
use crate::table::Value;
use domain::{
    members::Choice,
    pet::{PetStatuses, Search, id_of_term},
};

/// A filter that no index has.
pub(super) enum RowFilter {
    Equals(Equality),
    Statuses(PetStatuses),
    Search(Search),
}

impl RowFilter {
    /// Returns the condition on a row. It is never null.
    pub(super) fn condition(self, builder: &mut Builder) -> String {
        match self {
            Self::Equals((column, value)) => {
                let parameter = builder.bind(value);
                match builder.dialect {
                    Dialect::Sqlite => format!("{column} IS {parameter}"),
                    Dialect::Postgres => format!("{column} IS NOT DISTINCT FROM {parameter}"),
                }
            }
            Self::Statuses(statuses) => {
                let statuses = statuses
                    .iter()
                    .map(|it| format!("status = '{}'", it.as_str()));
                let statuses = statuses.collect::<Vec<_>>().join(" OR ");
                format!("coalesce({statuses}, false)")
            }
            Self::Search(search) => match builder.dialect {
                Dialect::Sqlite => {
                    let terms = search.terms().iter();
                    let terms = terms.map(|term| has_word_or_id(builder, term));
                    format!("({})", terms.collect::<Vec<_>>().join(" AND "))
                }
                // One statement for any number of terms, as the server keeps it prepared.
                Dialect::Postgres => {
                    let terms = builder.bind(Value::text(search.terms().join(" ")));
                    format!(
                        "(SELECT bool_and(strpos(' ' || search_words, ' ' || term) > 0
                                          OR term = id::text)
                          FROM unnest(string_to_array({terms}, ' ')) AS term)"
                    )
                }
            },
        }
    }
}

/// Returns the condition that a word of a pet starts with a term, or that its id is the term, for
/// SQLite.
fn has_word_or_id(builder: &mut Builder, term: &str) -> String {
    let start = builder.bind(Value::text(format!(" {term}")));
    let has_word = format!("instr(' ' || search_words, {start}) > 0");
    match id_of_term(term) {
        Some(id) => format!(
            "({has_word} OR id = {})",
            builder.bind(Value::Int(id.get()))
        ),
        None => has_word,
    }
}
