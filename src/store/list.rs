//! The statements of lists with keyset pagination, for both databases.
//!
//! A page is read from an index that has the list's order, from where the previous page
//! ended, so its cost depends neither on the number of rows nor on the depth. Where no
//! index has all filters, the rows of one are examined for the others, but only so many
//! per page: it may have fewer items than its limit, and still a next page.

use crate::{
    category::CategoryFilter,
    order::OrderFilter,
    page::{Filter, ListQuery, Position, Sort, Status},
    pet::{PetFilter, PetStatus},
};

/// How many rows are examined for a page.
pub(super) const MAX_EXAMINED: i64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// A parameter of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Int(i64),
    Text(String),
}

/// A statement that reads a page and one row more, which shows that there is a next page.
///
/// If rows have to be examined, PostgreSQL returns two further columns: whether the row
/// matches, and whether it is the last one that is examined. On SQLite the caller
/// examines every row.
#[derive(Debug)]
pub(super) struct Select {
    /// Depends on which filters there are, not on their values.
    pub(super) sql: String,
    /// Of `$1`, `$2` and so on, which appear in this order.
    pub(super) parameters: Vec<Value>,
    pub(super) examines: bool,
}

impl Select {
    /// For a filter without ids. PostgreSQL has an index by category and status. SQLite has
    /// one for each, as every change of a status would have to change that one too: with
    /// both filters, the index of the rarer value is the better one.
    pub(super) fn pets(
        query: &ListQuery<PetFilter>,
        dialect: Dialect,
        status_is_rare: bool,
    ) -> Self {
        let PetFilter {
            status,
            category_id,
            name,
            ids: _,
        } = &query.filter;
        let order: &[&str] = match name {
            Some(_) => &["search_name", "id"],
            None => &["id"],
        };
        let columns = match (name, dialect) {
            // Merged ranges can be sorted only by what they return.
            (Some(_), Dialect::Sqlite) => concat!(pet_columns!(), ", search_name"),
            _ => pet_columns!(),
        };
        let mut select = Builder::new(dialect, "pets", columns, order);
        if let Some(prefix) = name {
            // Where the previous page ended takes the place of a bound.
            let (is_start, is_end) = match (&query.after, query.sort) {
                (None, _) => (true, true),
                (Some(_), Sort::Asc) => (false, true),
                (Some(_), Sort::Desc) => (true, false),
            };
            if is_start {
                select.require("search_name", ">=", Value::Text(prefix.as_str().into()));
            }
            if let Some(end) = prefix.end().filter(|_| is_end) {
                select.require("search_name", "<", Value::Text(end.into()));
            }
        }
        let has_both = category_id.is_some() && status.is_some();
        let is_either = has_both && dialect == Dialect::Sqlite;
        if let Some(id) = category_id {
            let id = Value::Int(*id);
            match name.is_some() || is_either && status_is_rare {
                true => select.examine("category_id", id),
                false => select.require("category_id", "=", id),
            }
        }
        if let Some(status) = status {
            let status = Value::Text(status.as_str().into());
            match name.is_some() || is_either && !status_is_rare {
                true => select.examine("status", status),
                false => select.require("status", "=", status),
            }
        } else if category_id.is_some() && name.is_none() && dialect == Dialect::Postgres {
            let statuses = PetStatus::ALL.iter().map(|status| status.as_str());
            let of_status = |status| format!("status = '{status}'");
            select.alternatives = statuses.map(of_status).collect();
            select.alternatives.push("status IS NULL".into());
        }
        select.finish(query)
    }

    pub(super) fn orders(query: &ListQuery<OrderFilter>, dialect: Dialect) -> Self {
        let OrderFilter { status, pet_id } = query.filter;
        let mut select = Builder::new(dialect, "orders", order_columns!(), &["id"]);
        if let Some(id) = pet_id {
            select.require("pet_id", "=", Value::Int(id.get()));
        }
        if let Some(status) = status {
            let status = Value::Text(status.as_str().into());
            match pet_id {
                Some(_) => select.examine("status", status),
                None => select.require("status", "=", status),
            }
        }
        select.finish(query)
    }

    pub(super) fn categories(query: &ListQuery<CategoryFilter>, dialect: Dialect) -> Self {
        Builder::new(dialect, "categories", category_columns!(), &["id"]).finish(query)
    }
}

struct Builder {
    dialect: Dialect,
    table: &'static str,
    columns: &'static str,
    /// What the list is sorted by, and the position of a cursor.
    order: &'static [&'static str],
    conditions: Vec<String>,
    /// Conditions of which exactly one holds for a row. Each has its own range of an
    /// index; the ranges are merged.
    alternatives: Vec<String>,
    /// Conditions that no index has.
    examined: Vec<String>,
    parameters: Vec<Value>,
}

impl Builder {
    fn new(
        dialect: Dialect,
        table: &'static str,
        columns: &'static str,
        order: &'static [&'static str],
    ) -> Self {
        Self {
            dialect,
            table,
            columns,
            order,
            conditions: Vec::new(),
            alternatives: Vec::new(),
            examined: Vec::new(),
            parameters: Vec::new(),
        }
    }

    fn bind(&mut self, value: Value) -> String {
        self.parameters.push(value);
        format!("${}", self.parameters.len())
    }

    fn require(&mut self, column: &str, operator: &str, value: Value) {
        let parameter = self.bind(value);
        self.conditions
            .push(format!("{column} {operator} {parameter}"));
    }

    /// Requires a value without an index. SQLite leaves it to the caller.
    fn examine(&mut self, column: &str, value: Value) {
        let condition = match self.dialect {
            Dialect::Sqlite => String::new(),
            Dialect::Postgres => {
                let parameter = self.bind(value);
                format!("{column} IS NOT DISTINCT FROM {parameter}")
            }
        };
        self.examined.push(condition);
    }

    fn finish<F: Filter>(mut self, query: &ListQuery<F>) -> Select {
        if let Some(Position { name, id }) = &query.after {
            let operator = match query.sort {
                Sort::Asc => ">",
                Sort::Desc => "<",
            };
            let id = Value::Int(*id);
            if self.order.len() == 1 {
                self.require("id", operator, id);
            } else {
                let name = self.bind(Value::Text(name.as_str().into()));
                let id = self.bind(id);
                let [by_name, by_id] = [self.order[0], self.order[1]];
                match self.dialect {
                    // SQLite would not enter its index at the id.
                    Dialect::Sqlite => {
                        self.alternatives = vec![
                            format!("{by_name} = {name} AND {by_id} {operator} {id}"),
                            format!("{by_name} {operator} {name}"),
                        ];
                    }
                    Dialect::Postgres => {
                        let condition = format!("({by_name}, {by_id}) {operator} ({name}, {id})");
                        self.conditions.push(condition);
                    }
                }
            }
        }
        let direction = match query.sort {
            Sort::Asc => "",
            Sort::Desc => " DESC",
        };
        let order: Vec<_> = self
            .order
            .iter()
            .map(|c| format!("{c}{direction}"))
            .collect();
        let order = order.join(", ");
        let lookahead = i64::from(query.limit.get()) + 1;
        let examines = !self.examined.is_empty();
        let Self { table, columns, .. } = self;
        let sql = match (examines, self.dialect) {
            (false, _) => {
                let limit = self.bind(Value::Int(lookahead));
                let rows = self.ranges(columns);
                format!("{rows} ORDER BY {order} LIMIT {limit}")
            }
            (true, Dialect::Sqlite) => {
                let rows = self.ranges(columns);
                format!("{rows} ORDER BY {order} LIMIT {MAX_EXAMINED}")
            }
            (true, Dialect::Postgres) => {
                let limit = self.bind(Value::Int(lookahead));
                let matches = self.examined.join(" AND ");
                let filter = self.where_clause();
                format!(
                    "SELECT {columns}, matches, examined = {MAX_EXAMINED}
                     FROM (SELECT *, row_number() OVER rows AS examined,
                                  count(*) FILTER (WHERE matches) OVER rows AS matched
                           FROM (SELECT *, {matches} AS matches FROM {table}{filter}
                                 ORDER BY {order} LIMIT {MAX_EXAMINED}) AS range
                           WINDOW rows AS (ORDER BY {order})) AS range
                     WHERE matches AND matched <= {limit} OR examined = {MAX_EXAMINED}
                     ORDER BY examined"
                )
            }
        };
        Select {
            sql,
            parameters: self.parameters,
            examines,
        }
    }

    /// The rows that meet all conditions and one of the alternatives.
    fn ranges(&mut self, columns: &str) -> String {
        let table = self.table;
        if self.alternatives.is_empty() {
            return format!("SELECT {columns} FROM {table}{}", self.where_clause());
        }
        let ranges: Vec<_> = std::mem::take(&mut self.alternatives)
            .into_iter()
            .map(|alternative| {
                self.conditions.push(alternative);
                let range = format!("SELECT {columns} FROM {table}{}", self.where_clause());
                self.conditions.pop();
                range
            })
            .collect();
        ranges.join(" UNION ALL ")
    }

    fn where_clause(&self) -> String {
        match self.conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", self.conditions.join(" AND ")),
        }
    }
}
