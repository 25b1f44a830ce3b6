//! Integrity check of a store: damaged pages, the schema, and invariants across
//! tables.

mod invariants;
mod photos;

use futures_util::FutureExt;
use rusqlite::Connection;

use super::{
    super::{
        error::OpenError,
        event_row::EventRow,
        postgres::created,
        rows::Stored,
        sqlite,
        table::{OuterJoin, Readable, columns, columns_of},
        url::DatabaseUrl,
    },
    reader::{ReadError, Reader},
};
use domain::{
    category::Category,
    event::Event,
    order::Order,
    pet::{Pet, search_name, search_words},
};
use invariants::{DERIVED, DerivedColumn, INVARIANTS, count_excess, counts};

const NOT_FOUND: &str = "animals that a search does not find by their name";

/// Selects all pets, with the texts that are stored to find them.
fn searched_pets() -> String {
    let columns = columns::<Pet>();
    format!("SELECT search_name, search_words, id, {columns} FROM pets")
}

/// Selects all orders.
fn orders() -> String {
    format!("SELECT id, {} FROM orders", columns::<Order>())
}

/// A row with its id, if its values can be read.
type ReadableRow<T> = (i64, Readable<T>);

/// The problems of the rows of pets and of orders.
#[derive(Default)]
struct RowProblems {
    not_found: i64,
    unreadable_pets: Vec<i64>,
    unreadable_orders: Vec<i64>,
}

impl RowProblems {
    fn add_pet(&mut self, (name, words, (id, pet)): (String, String, ReadableRow<Pet>)) {
        match pet.0 {
            Some(pet) => {
                let is_found =
                    search_name(pet.name.as_str()) == name && search_words(&pet) == words;
                self.not_found += i64::from(!is_found);
            }
            None => self.unreadable_pets.push(id),
        }
    }

    fn add_order(&mut self, (id, order): ReadableRow<Order>) {
        if order.0.is_none() {
            self.unreadable_orders.push(id);
        }
    }

    fn problems(&self) -> impl Iterator<Item = String> {
        let problems = [
            problem(self.not_found, NOT_FOUND),
            unreadable("animals", &self.unreadable_pets),
            unreadable("orders", &self.unreadable_orders),
        ];
        problems.into_iter().flatten()
    }
}

fn unreadable(what: &str, ids: &[i64]) -> Option<String> {
    const MAX_NAMED: usize = 10;
    let named: Vec<_> = ids.iter().take(MAX_NAMED).map(i64::to_string).collect();
    let rest = if ids.len() > MAX_NAMED { ", …" } else { "" };
    let of = format!("{what} with a value that cannot be read");
    let counted = problem(ids.len() as i64, &of)?;
    Some(format!("{counted} (id {}{rest})", named.join(", ")))
}

/// Returns a query that counts the missing indexes among those that migrations create.
fn missing_indexes() -> String {
    let keys = created("TABLE").map(|table| format!("{table}_pkey"));
    let indexes = created("INDEX").chain(created("UNIQUE INDEX"));
    let names: Vec<_> = keys.chain(indexes.map(String::from)).collect();
    format!(
        "SELECT count(*) FROM unnest(ARRAY['{}']) AS index_name
         WHERE to_regclass(index_name) IS NULL",
        names.join("', '")
    )
}

/// Counts the triggers that are missing or disabled.
const MISSING_TRIGGERS: &str = "SELECT 26 - count(*) FROM pg_trigger
    WHERE tgrelid IN ('pets'::regclass, 'orders'::regclass, 'categories'::regclass)
    AND (tgname LIKE 'count\\_%' OR tgname LIKE 'log\\_%' OR tgname LIKE 'words\\_%'
         OR tgname LIKE 'photos\\_%')
    AND tgenabled = 'O'";

/// Returns a query for the triggers and rules that no migration created.
fn added_objects() -> String {
    format!(
        "WITH tables AS (
             SELECT to_regclass(name) AS id -- NULL if it is missing
             FROM unnest(ARRAY['{}']) AS name)
         SELECT format('trigger %s on %s', quote_ident(tgname), id)
         FROM pg_trigger JOIN tables ON id = tgrelid
         WHERE NOT tgisinternal AND tgname <> ALL (ARRAY['count_inserted', 'count_updated',
             'count_deleted', 'count_truncated', 'count_unlogged', 'log_inserted', 'log_updated',
             'log_deleted', 'log_truncated', 'reject_new_id', 'words_inserted', 'words_updated',
             'words_deleted', 'words_truncated', 'photos_updated', 'photos_deleted',
             'photos_truncated'])
         UNION ALL
         SELECT format('rule %s on %s', quote_ident(rulename), id)
         FROM pg_rewrite JOIN tables ON id = ev_class
         ORDER BY 1",
        created("TABLE").collect::<Vec<_>>().join("', '")
    )
}

pub(super) use photos::ALL;

/// The problem of a damaged file for which SQLite reports no details.
pub(super) const UNREADABLE: &str = "parts of the file cannot be read";

/// Checks the integrity of one snapshot, whether or not the store is being served.
/// Returns the problems found. Calls `progress` with what is checked next.
pub async fn check(
    url: &DatabaseUrl,
    mut progress: impl FnMut(&str),
) -> Result<Vec<String>, ReadError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            let mut checked = || -> Result<_, ReadError> {
                let db = sqlite::open_current(path)?;
                db.execute_batch("BEGIN")?;
                let mut problems = check_file(&db, true, &mut progress)?;
                progress("objects of other programs");
                let added = sqlite::added_objects(&db)?.into_iter();
                problems.extend(added.map(|object| added_object(&object)));
                Ok(problems)
            };
            match checked() {
                Err(
                    ReadError::Open(OpenError::Database { cause, .. }) | ReadError::File(cause),
                ) if sqlite::is_damage(&cause) => Ok(vec![UNREADABLE.into()]),
                checked => checked,
            }
        }
        DatabaseUrl::Postgres(_) => check_server(&Reader::open(url).await?, progress).await,
    }
}

/// Checks an open file: its pages, the schema and, if that is current, the invariants. Accepts
/// additions by other programs to the schema, because a backup needs them, too.
pub(super) fn check_file(
    db: &Connection,
    is_current: bool,
    mut progress: impl FnMut(&str),
) -> rusqlite::Result<Vec<String>> {
    progress("damaged pages");
    let mut problems = damaged_pages(db, "PRAGMA integrity_check")?;
    // The other checks would only fail because of the same damage.
    if !problems.is_empty() {
        return Ok(problems);
    }
    progress("missing or changed schema objects");
    let found = sqlite::schema(db)?;
    let mut tables_match = true;
    for object in sqlite::expected_schema(db)? {
        if !found.contains(&object) {
            let [kind, name, _] = object;
            problems.push(format!("the {kind} {name} is missing or changed"));
            tables_match &= kind != "table";
        }
    }
    // A missing index or trigger may explain a violated invariant. Without a table or a
    // column, or in a file of an older version, invariants cannot be checked.
    if !tables_match || !is_current {
        return Ok(problems);
    }
    for (what, sql) in INVARIANTS {
        progress(what);
        let count = db.query_row(sql, [], |row| row.get(0))?;
        problems.extend(problem(count, what));
    }
    for [what, counter, rows] in counts() {
        progress(&format!("a wrong count of {what}"));
        let excess = db.query_row(&count_excess(&counter, &rows), [], |row| row.get(0))?;
        problems.extend(wrong_count(excess, &what));
    }
    for DerivedColumn { what, sql, derive } in DERIVED {
        progress(what);
        let mut select = db.prepare(sql)?;
        let mut wrong = 0;
        for row in select.query_map([], sqlite::read_row)? {
            let (text, derived): (String, String) = row?;
            wrong += i64::from(derive(&text) != derived);
        }
        problems.extend(problem(wrong, what));
    }
    progress(NOT_FOUND);
    let mut rows = RowProblems::default();
    let mut select = db.prepare(&searched_pets())?;
    for row in select.query_map([], sqlite::read_row)? {
        rows.add_pet(row?);
    }
    let mut select = db.prepare(&orders())?;
    for row in select.query_map([], sqlite::read_row)? {
        rows.add_order(row?);
    }
    problems.extend(rows.problems());
    progress(photos::WHAT);
    let checked = photos::check(db).now_or_never();
    problems.extend(checked.expect("a file is read without waiting")?);
    Ok(problems)
}

/// Returns the problems that SQLite finds in the pages, one per line.
pub(super) fn damaged_pages(db: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut check = db.prepare(pragma)?;
    let mut problems = Vec::new();
    for row in check.query_map([], sqlite::read_row::<String>)? {
        // A row may have several lines, after a heading.
        let text = row?;
        let lines = text
            .lines()
            .filter(|line| *line != "ok" && !line.starts_with("***"));
        problems.extend(lines.map(|line| format!("damage: {line}")));
    }
    Ok(problems)
}

async fn check_server(
    store: &Reader,
    mut progress: impl FnMut(&str),
) -> Result<Vec<String>, ReadError> {
    store.start_snapshot().await?;
    let mut problems = Vec::new();
    let missing_indexes = missing_indexes();
    let schema = [
        ("missing indexes", &*missing_indexes),
        ("missing or disabled triggers", MISSING_TRIGGERS),
    ];
    for (what, sql) in schema.into_iter().chain(INVARIANTS) {
        progress(what);
        let count = store.one(sql).await?;
        problems.extend(problem(count, what));
    }
    // On SQLite, changes by other programs are not logged.
    progress("rows that differ from their newest event");
    for (what, wrong) in [
        ("animals", unlogged::<Pet>(store, "pet").await?),
        ("orders", unlogged::<Order>(store, "order").await?),
        ("categories", unlogged::<Category>(store, "category").await?),
    ] {
        let what = format!("{what} that differ from their newest event");
        problems.extend(problem(wrong, &what));
    }
    progress("objects of other programs");
    let added: Vec<String> = store.all(&added_objects()).await?;
    problems.extend(added.iter().map(|object| added_object(object)));
    for [what, counter, rows] in counts() {
        progress(&format!("a wrong count of {what}"));
        let excess = store.one(&count_excess(&counter, &rows)).await?;
        problems.extend(wrong_count(excess, &what));
    }
    for DerivedColumn { what, sql, derive } in DERIVED {
        progress(what);
        let mut wrong = 0;
        let compare = |(text, derived): (String, String)| {
            wrong += i64::from(derive(&text) != derived);
            Ok(())
        };
        store.each(sql, compare).await?;
        problems.extend(problem(wrong, what));
    }
    progress(NOT_FOUND);
    let mut rows = RowProblems::default();
    let add_pet = |row| {
        rows.add_pet(row);
        Ok(())
    };
    store.each(&searched_pets(), add_pet).await?;
    let add_order = |row| {
        rows.add_order(row);
        Ok(())
    };
    store.each(&orders(), add_order).await?;
    problems.extend(rows.problems());
    progress(photos::WHAT);
    problems.extend(photos::check(store).await?);
    Ok(problems)
}

/// Returns the number of resources that differ from the newest of their events.
async fn unlogged<T: Stored>(store: &Reader, resource: &str) -> Result<i64, ReadError> {
    let sql = format!(
        "SELECT {}, {} FROM (
             SELECT max(sequence) AS sequence FROM events WHERE type LIKE '{resource}.%'
             GROUP BY resource_id
         ) AS newest JOIN events USING (sequence) LEFT JOIN {} AS resource ON id = resource_id",
        columns_of::<EventRow>("events"),
        columns_of::<T>("resource"),
        T::NAME
    );
    let mut wrong = 0;
    let compare = |(event, stored): (Event, Readable<OuterJoin<T, i64>>)| {
        let Some(stored) = stored.0 else {
            return Ok(());
        };
        let parse = |data: &str| serde_json::from_str::<serde_json::Value>(data).ok();
        let stored = stored.0.and_then(|stored| T::event(None, Some(&stored)));
        let is_deleted = event.kind.as_str().ends_with(".deleted");
        let logged = (!is_deleted).then(|| event.data.as_json());
        let stored = stored.and_then(|stored| parse(&stored.data));
        wrong += i64::from(stored != logged.and_then(parse));
        Ok(())
    };
    store.each(&sql, compare).await?;
    Ok(wrong)
}

fn added_object(object: &str) -> String {
    format!("the {object} was not created by petstore; drop it")
}

fn problem(count: i64, what: &str) -> Option<String> {
    (count != 0).then(|| format!("{what}: {count}"))
}

fn wrong_count(excess: i64, what: &str) -> Option<String> {
    let direction = if excess > 0 { "high" } else { "low" };
    let difference = excess.unsigned_abs();
    (excess != 0).then(|| format!("the count of {what} is too {direction} by {difference}"))
}
