//! The statements of lists with keyset pagination, for both databases.
//!
//! A page is read from an index that has the list's order, from where the previous page ended,
//! so its cost depends neither on the number of rows nor on the depth. Where no index has all
//! filters, the rows of one are examined for the others, but at most `MAX_EXAMINED` per page:
//! a page may have fewer items than its limit, and still a next page.

mod examined;
mod ranges;

use std::mem;

use super::{
    statements::NamedSql,
    table::{Table, Value, columns},
};
use domain::{
    members::Choice,
    order::{Order, OrderFilter},
    page::{Filter, ListQuery, Position, Sort},
    pet::{NamePrefix, Pet, PetFilter},
    webhook::{
        WebhookId,
        delivery::{Delivery, DeliveryFilter},
    },
};
use examined::RowFilter;
use ranges::Range;

/// The maximum number of rows that are examined for a page.
pub(super) const MAX_EXAMINED: i64 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement that reads a page and one row more, which shows that there is a next page.
///
/// Some filters have no index, so rows have to be examined. The column `matches` is true if a row
/// matches. PostgreSQL returns only these rows and the last one that it examined, with a column
/// that is true for this one. SQLite returns every row.
#[derive(Debug)]
pub(super) struct Select {
    /// The text, which depends on which filters there are, not on their values.
    pub(super) sql: String,
    /// The values of the parameters, by their numbers.
    pub(super) parameters: Vec<Value<'static>>,
    pub(super) examines: bool,
}

impl Select {
    /// Selects pets by status, category and name; a search is examined. PostgreSQL has an index by
    /// category and status. SQLite has one for each, because every change of a status would have
    /// to change a common index too: `walk_status` chooses between them if there are both filters.
    pub(super) fn pets(query: &ListQuery<PetFilter>, dialect: Dialect, walk_status: bool) -> Self {
        let PetFilter {
            statuses,
            category_id,
            name,
            search,
            ids: _,
            microchip: _,
        } = &query.filter;
        let category = category_id.map(|id| ("category_id", Value::Int(id)));
        let mut select = Builder::new::<Pet>(dialect);
        let search = search.clone().map(RowFilter::Search);
        match (name, category, statuses) {
            (Some(prefix), category, statuses) => {
                select.walk_names(prefix, query.after.is_some(), query.sort);
                select.examined.extend(category.map(RowFilter::Equals));
                select.examined.extend(statuses.map(RowFilter::Statuses));
            }
            (None, Some(category), Some(statuses)) if dialect == Dialect::Sqlite => {
                if walk_status {
                    select.walk_statuses(*statuses);
                    select.examined.push(RowFilter::Equals(category));
                } else {
                    select.walk(category);
                    select.examined.push(RowFilter::Statuses(*statuses));
                }
            }
            (None, category, Some(statuses)) => {
                if let Some(category) = category {
                    select.require(category);
                }
                select.walk_statuses(*statuses);
            }
            (None, Some(category), None) if dialect == Dialect::Postgres => {
                select.walk_every_status(category);
            }
            (None, Some(category), None) => select.walk(category),
            (None, None, None) => {}
        }
        select.examined.extend(search);
        select.finish(query)
    }

    pub(super) fn orders(query: &ListQuery<OrderFilter>, dialect: Dialect) -> Self {
        let OrderFilter { status, pet_id } = query.filter;
        let pet = pet_id.map(|id| ("pet_id", Value::Int(id.get())));
        let status = status.map(|status| ("status", Value::text(status.as_str())));
        let mut select = Builder::new::<Order>(dialect);
        match (pet, status) {
            (Some(pet), status) => {
                select.walk(pet);
                select.examined.extend(status.map(RowFilter::Equals));
            }
            (None, Some(status)) => select.walk(status),
            (None, None) => {}
        }
        select.finish(query)
    }

    /// Selects the items of a list without a filter.
    pub(super) fn all<F: Filter<Item: Table>>(query: &ListQuery<F>, dialect: Dialect) -> Self {
        Builder::new::<F::Item>(dialect).finish(query)
    }

    /// Selects the deliveries of a webhook by the sequence number of their events.
    pub(super) fn deliveries(
        webhook: WebhookId,
        query: &ListQuery<DeliveryFilter>,
        dialect: Dialect,
    ) -> Self {
        let mut select = Builder {
            id: "sequence",
            ..Builder::new::<Delivery>(dialect)
        };
        select.require(("webhook_id", Value::Int(webhook.get())));
        let state = query
            .filter
            .state
            .map(|state| ("state", Value::text(state.as_str())));
        select.examined.extend(state.map(RowFilter::Equals));
        select.finish(query)
    }
}

/// Returns the statements of a list, named after the query strings that they are for.
pub(super) fn examples<F: Filter + Default>(
    list: &str,
    queries: &[&str],
    select: impl Fn(&ListQuery<F>) -> Select,
) -> Vec<NamedSql> {
    let last = Position {
        key: "rex".into(),
        id: 7,
    };
    let mut examples = Vec::new();
    for query in queries {
        for (cursor, after) in [("", None), (" with a cursor", Some(last.clone()))] {
            let parsed = ListQuery::<F>::parse(query).expect("an example is valid");
            let select = select(&ListQuery { after, ..parsed });
            examples.push(NamedSql {
                name: format!("list {list}?{query}{cursor}"),
                kinds: select.parameters.iter().map(Value::kind).collect(),
                text: select.sql,
            });
        }
    }
    examples
}

/// A column and the value that it must have.
type Equality = (&'static str, Value<'static>);

struct Builder {
    dialect: Dialect,
    table: &'static str,
    columns: String,
    /// The column that identifies a row of the list.
    id: &'static str,
    conditions: Vec<String>,
    /// The column of the index before the id, and the parameter that it equals, if any.
    key: Option<(&'static str, Option<String>)>,
    /// Ranges of an index of pets that are merged, if there are several.
    ranges: Vec<Range>,
    /// The filters that the index does not have.
    examined: Vec<RowFilter>,
    parameters: Vec<Value<'static>>,
}

impl Builder {
    fn new<T: Table>(dialect: Dialect) -> Self {
        Self {
            dialect,
            table: T::NAME,
            columns: columns::<T>(),
            id: "id",
            conditions: Vec::new(),
            key: None,
            ranges: Vec::new(),
            examined: Vec::new(),
            parameters: Vec::new(),
        }
    }

    fn bind(&mut self, value: Value<'static>) -> String {
        self.parameters.push(value);
        let sign = match self.dialect {
            Dialect::Sqlite => '?',
            Dialect::Postgres => '$',
        };
        format!("{sign}{}", self.parameters.len())
    }

    /// Requires a value in the first column of an index by several columns. Returns its parameter.
    fn require(&mut self, (column, value): Equality) -> String {
        let parameter = self.bind(value);
        self.conditions.push(format!("{column} = {parameter}"));
        parameter
    }

    /// Reads the rows with a value in the order of its index.
    ///
    /// PostgreSQL is asked for a range of one value, in the order of the index. With an
    /// equality and the order of ids, it may walk the primary key instead and filter, as it
    /// assumes that the value is spread evenly over all ids.
    fn walk(&mut self, (column, value): Equality) {
        let parameter = self.bind(value);
        self.conditions.extend(match self.dialect {
            Dialect::Sqlite => vec![format!("{column} = {parameter}")],
            Dialect::Postgres => vec![
                format!("{column} >= {parameter}"),
                format!("{column} <= {parameter}"),
            ],
        });
        self.key = Some((column, Some(parameter)));
    }

    /// Reads the names that start with a prefix. The position where the previous page ended
    /// takes the place of a bound.
    fn walk_names(&mut self, prefix: &NamePrefix, is_continued: bool, sort: Sort) {
        if !is_continued || sort == Sort::Desc {
            let start = self.bind(Value::text(prefix.as_str().to_string()));
            self.conditions.push(format!("search_name >= {start}"));
        }
        if let Some(end) = prefix.end()
            && (!is_continued || sort == Sort::Asc)
        {
            let end = self.bind(Value::text(String::from(end)));
            self.conditions.push(format!("search_name < {end}"));
        }
        self.key = Some(("search_name", None));
    }

    fn finish<F: Filter>(mut self, query: &ListQuery<F>) -> Select {
        let lookahead = Value::Int(i64::from(query.limit.get()) + 1);
        let examined = mem::take(&mut self.examined).into_iter();
        let matches: Vec<_> = examined.map(|it| it.condition(&mut self)).collect();
        let examines = !matches.is_empty();
        let matches = matches.join(" AND ");
        let sql = match (self.dialect, examines) {
            (Dialect::Sqlite, _) => {
                if examines {
                    self.columns += &format!(", {matches} AS matches");
                }
                let rows = self.sqlite_rows(query);
                let order = match &self.key {
                    Some((column, None)) => order(&[column, self.id], query.sort),
                    _ => order(&[self.id], query.sort),
                };
                let limit = self.bind(if examines {
                    Value::Int(MAX_EXAMINED)
                } else {
                    lookahead
                });
                format!("{rows} ORDER BY {order} LIMIT {limit}")
            }
            (Dialect::Postgres, false) => {
                let limit = self.bind(lookahead);
                let (rows, order) = self.postgres_rows(query, &limit);
                let columns = &self.columns;
                format!("SELECT {columns} FROM {rows} ORDER BY {order} LIMIT {limit}")
            }
            (Dialect::Postgres, true) => {
                let (rows, order) = self.postgres_rows(query, &MAX_EXAMINED.to_string());
                let limit = self.bind(lookahead);
                let columns = &self.columns;
                format!(
                    "SELECT {columns}, matches, examined = {MAX_EXAMINED}
                     FROM (SELECT *, row_number() OVER (ORDER BY {order}) AS examined
                           FROM (SELECT *, {matches} AS matches FROM {rows}
                                 ORDER BY {order} LIMIT {MAX_EXAMINED}) AS range) AS range
                     WHERE matches OR examined = {MAX_EXAMINED}
                     ORDER BY {order} LIMIT {limit}"
                )
            }
        };
        Select {
            sql,
            parameters: self.parameters,
            examines,
        }
    }

    /// Selects the rows after the cursor, on SQLite. It would not enter the index of names at
    /// an id, so the names that equal the last one are a range of their own, merged with the
    /// others. Ranges can be sorted only by columns that they return.
    fn sqlite_rows<F: Filter>(&mut self, query: &ListQuery<F>) -> String {
        let table = self.table;
        let columns = self.columns.clone();
        let operator = after(query.sort);
        let by_name = matches!(self.key, Some((_, None)));
        if !self.ranges.is_empty() {
            return self.sqlite_ranges(query);
        }
        let Some(Position { key, id }) = &query.after else {
            return format!("SELECT {columns} FROM {table}{}", self.filter(&[]));
        };
        if !by_name {
            let id = self.bind(Value::Int(*id));
            let filter = self.filter(&[format!("{} {operator} {id}", self.id)]);
            return format!("SELECT {columns} FROM {table}{filter}");
        }
        let name = self.bind(Value::text(key.to_string()));
        let id = self.bind(Value::Int(*id));
        let same = self.filter(&[format!("search_name = {name} AND id {operator} {id}")]);
        let others = self.filter(&[format!("search_name {operator} {name}")]);
        format!(
            "SELECT {columns}, search_name FROM {table}{same}
             UNION ALL SELECT {columns}, search_name FROM {table}{others}"
        )
    }

    /// Returns the rows after the cursor, as part of a statement, and their order, on PostgreSQL.
    /// `limit` is the number of rows that the statement reads.
    fn postgres_rows<F: Filter>(&mut self, query: &ListQuery<F>, limit: &str) -> (String, String) {
        if self.ranges.is_empty() {
            let (filter, order) = self.postgres_range(query);
            return (format!("{}{filter}", self.table), order);
        }
        let ranges = self.postgres_ranges(query, limit);
        (format!("({ranges}) AS ranges"), order(&["id"], query.sort))
    }

    /// Returns the conditions and the order of the rows after the cursor, on PostgreSQL.
    fn postgres_range<F: Filter>(&mut self, query: &ListQuery<F>) -> (String, String) {
        let operator = after(query.sort);
        let order = match &self.key {
            Some((column, _)) => order(&[column, self.id], query.sort),
            None => order(&[self.id], query.sort),
        };
        let Some(Position { key, id }) = &query.after else {
            return (self.filter(&[]), order);
        };
        let id = Value::Int(*id);
        let is_after = match self.key.clone() {
            None => {
                let id = self.bind(id);
                format!("{} {operator} {id}", self.id)
            }
            Some((column, value)) => {
                let value = value.unwrap_or_else(|| self.bind(Value::text(key.to_string())));
                let id = self.bind(id);
                format!("({column}, {}) {operator} ({value}, {id})", self.id)
            }
        };
        (self.filter(&[is_after]), order)
    }

    /// Returns all conditions as a clause.
    fn filter(&self, further: &[String]) -> String {
        let conditions = [&self.conditions, further].concat();
        if conditions.is_empty() {
            return String::new();
        }
        format!(" WHERE {}", conditions.join(" AND "))
    }
}

/// Returns the operator that compares rows with the position that they come after.
fn after(sort: Sort) -> &'static str {
    match sort {
        Sort::Asc => ">",
        Sort::Desc => "<",
    }
}

fn order(columns: &[&str], sort: Sort) -> String {
    match sort {
        Sort::Asc => columns.join(", "),
        Sort::Desc => format!("{} DESC", columns.join(" DESC, ")),
    }
}
