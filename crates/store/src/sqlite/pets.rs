//! Lists of pets on SQLite.

use rusqlite::Connection;

use super::{
    super::{
        COUNTS, Counts,
        error::Error,
        list::{Dialect, MAX_EXAMINED, Select},
        search::start_id,
        table::{Value, columns},
    },
    Sqlite, list, read_row,
};
use domain::{
    page::{ListQuery, Page, Sort},
    pet::{Pet, PetFilter, PetStatuses},
};

statements! {
    GET_MANY(Text) = format!(
        "SELECT {} FROM pets WHERE id IN (SELECT value FROM json_each($1))",
        columns::<Pet>()
    );
    COUNT_IN_CATEGORY(Int, Int) =
        "SELECT count(*) FROM (SELECT 1 FROM pets WHERE category_id = $1 LIMIT $2)";
    PETS_OF_WORD(Text, Int, Int) = "SELECT pet_id FROM pet_words
         WHERE word = $1 AND pet_id > $2 ORDER BY pet_id LIMIT $3";
    NEWEST_PETS_OF_WORD(Text, Int, Int) = "SELECT pet_id FROM pet_words
         WHERE word = $1 AND pet_id < $2 ORDER BY pet_id DESC LIMIT $3";
}

/// Statuses are rare if fewer than one in this many pets has one of them.
const RARE: i64 = 8;

impl Sqlite {
    pub(crate) async fn pet_list(&self, query: ListQuery<PetFilter>) -> Result<Page<Pet>, Error> {
        let read = move |db: &Connection| {
            let filter = &query.filter;
            let walk_status = match (filter.category_id, filter.statuses) {
                (Some(category), Some(statuses)) => is_rarer(db, statuses, category)?,
                _ => false,
            };
            let select = Select::pets(&query, Dialect::Sqlite, walk_status);
            list(db, &select, &query)
        };
        self.readers.run(read).await
    }

    pub(crate) async fn pet_get_many(&self, ids: &[i64]) -> Result<Vec<Pet>, Error> {
        let ids: Vec<_> = ids.iter().map(i64::to_string).collect();
        let ids = Value::text(format!("[{}]", ids.join(",")));
        self.query(&GET_MANY, vec![ids]).await
    }

    /// Returns the first ids of the pets with each word, after the end of the previous page.
    pub(crate) async fn pet_ids_of_words(
        &self,
        words: Vec<String>,
        query: &ListQuery<PetFilter>,
        limit: usize,
    ) -> Result<Vec<Vec<i64>>, Error> {
        let sort = query.sort;
        let after = start_id(query);
        let read = move |db: &Connection| {
            let mut select = db.prepare_cached(match sort {
                Sort::Asc => PETS_OF_WORD.text(),
                Sort::Desc => NEWEST_PETS_OF_WORD.text(),
            })?;
            let mut ids_of = |word: &String| {
                let ids = select.query_map((word, after, limit as i64), |row| row.get(0))?;
                ids.collect()
            };
            words.iter().map(&mut ids_of).collect()
        };
        self.readers.run(read).await
    }
}

/// Returns true if walking the pets with one of the statuses examines fewer rows than walking
/// those of a category. The number of pets in a category is known only if it is small.
fn is_rarer(db: &Connection, statuses: PetStatuses, category_id: i64) -> rusqlite::Result<bool> {
    let mut counts = db.prepare_cached(COUNTS.text())?;
    let Counts { pets, .. } = counts.query_row([], read_row)?;
    let with_status: i64 = statuses.iter().map(|status| pets.of(status)).sum();
    if with_status >= pets.total / RARE {
        return Ok(false);
    }
    let in_category: i64 = db
        .prepare_cached(COUNT_IN_CATEGORY.text())?
        .query_row([category_id, MAX_EXAMINED + 1], |row| row.get(0))?;
    Ok(in_category > MAX_EXAMINED)
}

#[cfg(test)]
mod tests {
    use rusqlite::params_from_iter;

    use super::{super::in_memory, *};
    use domain::page::Position;

    /// Every list is read from an index in its order, from where the previous page ended.
    #[test]
    fn lists_are_read_in_the_order_of_an_index() {
        let db = in_memory().unwrap();
        let by_category: &[_] = &["pets_category_id_idx (category_id=? AND rowid"];
        let by_statuses: &[_] = &[
            "MERGE (UNION ALL)",
            "LEFT",
            "pets_status_idx (status=? AND rowid",
            "RIGHT",
            "pets_status_idx (status=? AND rowid",
        ];
        let by_name: &[_] = &[
            "MERGE (UNION ALL)",
            "LEFT",
            "pets_search_name_idx (search_name=? AND rowid",
            "RIGHT",
            "pets_search_name_idx (search_name>? AND search_name<?)",
        ];
        for (filters, expected) in [
            ("", &["USING INTEGER PRIMARY KEY (rowid"] as &[_]),
            ("&status=sold", &["pets_status_idx (status=? AND rowid"]),
            ("&status=sold,pending", by_statuses),
            ("&categoryId=1", by_category),
            ("&categoryId=1&status=sold", by_category),
            ("&name=re", by_name),
            ("&name=re&status=sold", by_name),
        ] {
            for sort in ["asc", "desc"] {
                let text = format!("sort={sort}{filters}");
                let mut query = ListQuery::<PetFilter>::parse(&text).unwrap();
                let first = plan(&db, &query);
                let is_sorted = !first.iter().any(|step| step.contains("TEMP"));
                let is_merged = filters.contains(',');
                assert!(is_sorted && is_merged == (first.len() > 1), "{first:?}");
                query.after = Some(Position {
                    key: "rex".into(),
                    id: 7,
                });
                let next = plan(&db, &query);
                let mut steps = next.iter().zip(expected);
                let is_expected = steps.all(|(step, expected)| step.contains(expected));
                assert!(next.len() == expected.len() && is_expected, "{next:?}");
            }
        }
    }

    fn plan(db: &Connection, query: &ListQuery<PetFilter>) -> Vec<String> {
        let select = Select::pets(query, Dialect::Sqlite, false);
        let sql = format!("EXPLAIN QUERY PLAN {}", select.sql);
        let mut explain = db.prepare(&sql).unwrap();
        let nulls = select.parameters.iter().map(|_| None::<i64>);
        let steps = explain.query_map(params_from_iter(nulls), |row| row.get(3));
        steps.unwrap().map(Result::unwrap).collect()
    }
}
