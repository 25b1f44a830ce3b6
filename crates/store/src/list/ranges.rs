//! Lists of pets that are merged from several ranges of an index.

use super::{Builder, Equality, after, order};
use crate::table::Value;
use domain::{
    members::Choice,
    page::{Filter, ListQuery, Position},
    pet::{PetStatus, PetStatuses},
};

/// A range of an index, in the order of ids.
pub(super) enum Range {
    Status(PetStatus),
    /// The pets of a category without a status. The category is a parameter.
    NoStatus {
        category: String,
    },
}

impl Builder {
    /// Reads the pets with one of the statuses.
    pub(super) fn walk_statuses(&mut self, statuses: PetStatuses) {
        match statuses.single() {
            Some(status) => self.walk(("status", Value::text(status.as_str()))),
            None => self.ranges = statuses.iter().map(Range::Status).collect(),
        }
    }

    /// Reads the pets of a category from an index by category and status.
    pub(super) fn walk_every_status(&mut self, category: Equality) {
        let category = self.require(category);
        let statuses = PetStatus::ALL.iter().copied().map(Range::Status);
        self.ranges = statuses.chain([Range::NoStatus { category }]).collect();
    }

    /// Selects the rows of each range after the cursor, on SQLite, which merges them.
    pub(super) fn sqlite_ranges<F: Filter>(&mut self, query: &ListQuery<F>) -> String {
        let is_after = query.after.as_ref().map(|Position { id, .. }| {
            let id = self.bind(Value::Int(*id));
            format!("id {} {id}", after(query.sort))
        });
        let ranges = self.ranges.iter().map(|range| {
            let mut conditions = vec![match range {
                Range::Status(status) => format!("status = '{}'", status.as_str()),
                Range::NoStatus { .. } => String::from("status IS NULL"),
            }];
            conditions.extend(is_after.clone());
            let filter = self.filter(&conditions);
            format!("SELECT {} FROM {}{filter}", self.columns, self.table)
        });
        ranges.collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// Selects the first rows of each range after the cursor, on PostgreSQL. As in
    /// [`Builder::walk`], each has one value of the column that it is sorted by.
    pub(super) fn postgres_ranges<F: Filter>(
        &mut self,
        query: &ListQuery<F>,
        limit: &str,
    ) -> String {
        let position = query.after.as_ref().map(|it| self.bind(Value::Int(it.id)));
        let operator = after(query.sort);
        let ranges = self.ranges.iter().map(|range| {
            let (column, value, filter) = match range {
                Range::Status(status) => {
                    let filter = self.filter(&[]);
                    let and = if filter.is_empty() { " WHERE" } else { " AND" };
                    let status = format!("'{}'", status.as_str());
                    ("status", status, format!("{filter}{and}"))
                }
                Range::NoStatus { category } => {
                    let filter = String::from(" WHERE status IS NULL AND");
                    ("category_id", category.clone(), filter)
                }
            };
            let continued = position.as_ref().map_or(String::new(), |id| {
                format!(" AND ({column}, id) {operator} ({value}, {id})")
            });
            let order = order(&[column, "id"], query.sort);
            format!(
                "(SELECT * FROM pets{filter} {column} >= {value} AND {column} <= {value}{continued}
                  ORDER BY {order} LIMIT {limit})"
            )
        });
        ranges.collect::<Vec<_>>().join(" UNION ALL ")
    }
}
