//! Integrity check of a store: damaged pages, the schema, and invariants across
//! tables.

mod photos;

use compact_str::CompactString;
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
    case_fold::fold,
    category::Category,
    date::PastDate,
    event::{Event, EventId},
    members::Choice,
    order::{Order, OrderStatus},
    pet::{Pet, PetStatus, search_name, search_words},
    price::Currency,
    webhook::{secret::WebhookSecret, url::WebhookUrl},
};

/// Queries, each with a description of what it counts, valid on both databases. Every count
/// must be 0.
const INVARIANTS: [(&str, &str); 16] = [
    (
        "open orders whose animal is not pending",
        "SELECT count(*) FROM orders LEFT JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'placed' AND pets.status IS DISTINCT FROM 'pending'",
    ),
    (
        "completed orders whose animal is not sold",
        "SELECT count(*) FROM orders JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'completed' AND pets.status IS DISTINCT FROM 'sold'",
    ),
    (
        "animals with more than one order that is open or completed",
        "SELECT count(*) FROM (SELECT pet_id FROM orders WHERE status IN ('placed', 'completed')
                               GROUP BY pet_id HAVING count(*) > 1) AS several",
    ),
    (
        "orders that were updated before they were created",
        "SELECT count(*) FROM orders WHERE updated_at < created_at",
    ),
    (
        "orders with a wrong time of completion",
        "SELECT count(*) FROM orders
         WHERE (completed_at IS NULL) = (status IN ('completed', 'returned'))
            OR completed_at > updated_at OR completed_at < created_at",
    ),
    (
        "orders with a wrong time of return",
        "SELECT count(*) FROM orders
         WHERE (returned_at IS NULL) = (status = 'returned')
            OR returned_at > updated_at OR returned_at < completed_at",
    ),
    (
        "orders that record a sale but were not completed",
        "SELECT count(*) FROM orders
         WHERE completed_at IS NULL AND (completed_by IS NOT NULL OR category_id IS NOT NULL)",
    ),
    (
        // Records of deletions are purged by age, the oldest first, and are kept for at least as
        // long as events. An undo leaves none.
        "deleted animals that the register does not have",
        "SELECT count(*) FROM events LEFT JOIN deleted_pets ON deleted_pets.id = resource_id
         WHERE type = 'pet.deleted' AND (batch_id IS NULL OR batch_id NOT LIKE 'undo-%')
           AND at > coalesce((SELECT min(deleted_at) FROM deleted_pets), 0)
           AND deleted_pets.id IS NULL",
    ),
    (
        "words of no animal",
        "SELECT count(*) FROM pet_words LEFT JOIN pets ON pets.id = pet_id
         WHERE pets.id IS NULL OR ' ' || search_words || ' ' NOT LIKE '% ' || word || ' %'",
    ),
    (
        "words that a search does not find",
        "SELECT (SELECT coalesce(sum(CASE search_words WHEN '' THEN 0 ELSE
                     1 + length(search_words) - length(replace(search_words, ' ', '')) END), 0)
                 FROM pets)
              - (SELECT count(*) FROM pet_words)",
    ),
    (
        "photos that no animal shows",
        "SELECT count(*) FROM photos LEFT JOIN pets ON pets.id = pet_id
         WHERE removed_at IS NULL AND pets.photos IS NULL",
    ),
    (
        "parts of no photo",
        "SELECT count(*) FROM photo_parts LEFT JOIN photos ON photos.id = photo_id
         WHERE photos.id IS NULL",
    ),
    (
        "events that should have been purged",
        "SELECT count(*) FROM events JOIN event_log ON sequence <= purged_through",
    ),
    (
        "webhooks whose state contradicts their reason for being disabled",
        "SELECT count(*) FROM webhooks WHERE (state = 'disabled') = (disabled_reason IS NULL)",
    ),
    (
        "deliveries without a webhook",
        "SELECT count(*) FROM webhook_deliveries LEFT JOIN webhooks ON webhooks.id = webhook_id
         WHERE webhooks.id IS NULL",
    ),
    (
        "deliveries whose state contradicts the time of their next attempt",
        "SELECT count(*) FROM webhook_deliveries
         WHERE (state = 'retrying') = (next_attempt_at IS NULL)",
    ),
];

/// Returns the description of each count, its counter, and its rows.
fn counts() -> Vec<[String; 3]> {
    let with_status = |table: &str, items: &str, status: &str| {
        let shown = if status == "placed" { "open" } else { status };
        [
            format!("{shown} {items}"),
            format!("{table}_{status}"),
            format!("{table} WHERE status = '{status}'"),
        ]
    };
    let pets = PetStatus::ALL
        .iter()
        .map(|status| with_status("pets", "animals", status.as_str()));
    let orders = OrderStatus::ALL
        .iter()
        .map(|status| with_status("orders", "orders", status.as_str()));
    let all_pets = ["animals", "pets", "pets"].map(String::from);
    [all_pets].into_iter().chain(pets).chain(orders).collect()
}

/// Returns a query for the number by which a counter exceeds the number of rows.
fn count_excess(counter: &str, rows: &str) -> String {
    format!(
        "SELECT CAST((SELECT coalesce(sum({counter}), 0) FROM counts)
                     - (SELECT count(*) FROM {rows}) AS bigint)"
    )
}

/// A column that only the program can verify.
struct DerivedColumn {
    what: &'static str,
    /// Selects texts, and the stored value of each.
    sql: &'static str,
    derive: fn(&str) -> CompactString,
}

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

const DERIVED: [DerivedColumn; 7] = [
    DerivedColumn {
        what: "categories whose name could be used twice",
        sql: "SELECT name, folded_name FROM categories",
        derive: |name| CompactString::from(fold(name)),
    },
    DerivedColumn {
        what: "deleted animals with a malformed date",
        sql: "SELECT acquired_on, acquired_on FROM deleted_pets WHERE acquired_on IS NOT NULL
              UNION ALL
              SELECT birth_date, birth_date FROM deleted_pets WHERE birth_date IS NOT NULL",
        derive: |text| readable(PastDate::from_store(text), |date| date.as_str().into()),
    },
    DerivedColumn {
        what: "settings with an unknown currency",
        sql: "SELECT currency, currency FROM settings WHERE currency IS NOT NULL",
        derive: |text| readable(Currency::parse(text).ok(), |code| code.as_str().into()),
    },
    DerivedColumn {
        what: "webhooks with a malformed position",
        sql: "SELECT position, position FROM webhooks",
        derive: |text| readable(EventId::parse(text), |id| id.to_string()),
    },
    DerivedColumn {
        what: "webhooks with a malformed URL",
        sql: "SELECT url, url FROM webhooks",
        derive: |text| readable(WebhookUrl::parse(text).ok(), |url| url.as_str().into()),
    },
    DerivedColumn {
        what: "webhooks with a malformed secret",
        sql: "SELECT secret, secret FROM webhooks UNION ALL
              SELECT previous_secret, previous_secret FROM webhooks
              WHERE previous_secret IS NOT NULL",
        derive: |text| readable(WebhookSecret::parse(text), |secret| secret.reveal()),
    },
    DerivedColumn {
        what: "deliveries with another sequence number than their event",
        sql: "SELECT event_id, CAST(sequence AS text) FROM webhook_deliveries",
        derive: |text| readable(EventId::parse(text), |id| id.sequence.to_string()),
    },
];

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

/// Returns a value as text; empty if it could not be parsed.
fn readable<T>(parsed: Option<T>, text: impl FnOnce(T) -> String) -> CompactString {
    parsed.map(text).unwrap_or_default().into()
}

fn problem(count: i64, what: &str) -> Option<String> {
    (count != 0).then(|| format!("{what}: {count}"))
}

fn wrong_count(excess: i64, what: &str) -> Option<String> {
    let direction = if excess > 0 { "high" } else { "low" };
    let difference = excess.unsigned_abs();
    (excess != 0).then(|| format!("the count of {what} is too {direction} by {difference}"))
}
