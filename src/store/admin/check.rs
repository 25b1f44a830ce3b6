//! Integrity check of a store: damaged pages, the schema, and invariants across
//! tables.

use rusqlite::Connection;

use super::super::{
    error::OpenError,
    postgres::{self, PostgresError, PostgresUrl},
    sqlite,
    url::DatabaseUrl,
};

/// What each query counts, and the query. Every count must be 0. Valid on both databases.
const INVARIANTS: [(&str, &str); 7] = [
    (
        "orders whose pet does not exist",
        "SELECT count(*) FROM orders LEFT JOIN pets ON pets.id = orders.pet_id
         WHERE pets.id IS NULL",
    ),
    (
        "open orders whose pet is not pending",
        "SELECT count(*) FROM orders JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'placed' AND pets.status IS DISTINCT FROM 'pending'",
    ),
    (
        "pets with more than one open order",
        "SELECT count(*) FROM (SELECT pet_id FROM orders WHERE status = 'placed'
                               GROUP BY pet_id HAVING count(*) > 1) AS several",
    ),
    (
        "orders that were updated before they were created",
        "SELECT count(*) FROM orders WHERE updated_at < created_at",
    ),
    (
        "available pets counted in excess by the inventory",
        "SELECT CAST((SELECT coalesce(sum(available), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'available') AS bigint)",
    ),
    (
        "pending pets counted in excess by the inventory",
        "SELECT CAST((SELECT coalesce(sum(pending), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'pending') AS bigint)",
    ),
    (
        "sold pets counted in excess by the inventory",
        "SELECT CAST((SELECT coalesce(sum(sold), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'sold') AS bigint)",
    ),
];

/// Further invariants for PostgreSQL only, starting with the schema.
const POSTGRES_INVARIANTS: [(&str, &str); 3] = [
    (
        "missing indexes",
        "SELECT count(*) FROM unnest(ARRAY['pets_pkey', 'pets_status_id_idx', 'orders_pkey',
             'orders_status_id_idx', 'orders_open_pet_id_key', 'orders_expires_at_idx',
             'idempotency_keys_pkey', 'idempotency_keys_created_at_idx', 'inventory_pkey',
             'api_keys_pkey', 'api_keys_hash_key']) AS index_name
         WHERE to_regclass(index_name) IS NULL",
    ),
    (
        "missing or disabled triggers",
        "SELECT 4 - count(*) FROM pg_trigger WHERE tgrelid = 'pets'::regclass
         AND tgname LIKE 'inventory_pet_%' AND tgenabled = 'O'",
    ),
    (
        "pets marked reserved without an open order, or not marked with one",
        "SELECT count(*) FROM pets WHERE reserved <> EXISTS (
             SELECT FROM orders WHERE orders.pet_id = pets.id AND orders.status = 'placed')",
    ),
];

/// Why a store could not be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the database file: {0}")]
    File(#[from] rusqlite::Error),
    #[error("cannot read from the database server: {0}")]
    Server(PostgresError),
}

impl From<tokio_postgres::Error> for CheckError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

/// Checks the integrity of one snapshot, whether or not the store is being served.
/// Returns the problems found. Calls `progress` with what is checked next.
pub(crate) async fn check(
    url: &DatabaseUrl,
    progress: impl FnMut(&str),
) -> Result<Vec<String>, CheckError> {
    match url {
        DatabaseUrl::Sqlite(path) => {
            let db = sqlite::open_current(path)?;
            db.execute_batch("BEGIN")?;
            Ok(check_file(&db, true, progress)?)
        }
        DatabaseUrl::Postgres(url) => check_server(url, progress).await,
    }
}

/// Checks an open file: its pages and, if its schema is current, the schema and
/// the invariants.
pub(super) fn check_file(
    db: &Connection,
    is_current: bool,
    mut progress: impl FnMut(&str),
) -> rusqlite::Result<Vec<String>> {
    progress("damaged pages");
    let mut pages = db.prepare("PRAGMA integrity_check")?;
    let found = pages.query_map([], |row| row.get::<_, String>(0))?;
    let is_problem = |found: &rusqlite::Result<String>| !matches!(found, Ok(ok) if ok == "ok");
    let mut problems: Vec<_> = found.filter(is_problem).collect::<Result<_, _>>()?;
    // The other checks would only stumble over the same damage.
    if !problems.is_empty() || !is_current {
        return Ok(problems);
    }
    progress("missing or changed schema objects");
    let found = sqlite::schema(db)?;
    for object in sqlite::schema(&sqlite::in_memory()?)? {
        if !found.contains(&object) {
            let [kind, name, _] = object;
            problems.push(format!("the {kind} {name} is missing or changed"));
        }
    }
    if !problems.is_empty() {
        return Ok(problems);
    }
    for (what, sql) in INVARIANTS {
        progress(what);
        let count = db.query_row(sql, [], |row| row.get(0))?;
        problems.extend(problem(count, what));
    }
    Ok(problems)
}

async fn check_server(
    url: &PostgresUrl,
    mut progress: impl FnMut(&str),
) -> Result<Vec<String>, CheckError> {
    let (mut client, _) = postgres::open_connection(url).await?;
    let snapshot = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let mut problems = Vec::new();
    for (what, sql) in POSTGRES_INVARIANTS.into_iter().chain(INVARIANTS) {
        progress(what);
        let count = snapshot.query_one(sql, &[]).await?.get(0);
        problems.extend(problem(count, what));
    }
    Ok(problems)
}

fn problem(count: i64, what: &str) -> Option<String> {
    (count != 0).then(|| format!("{count} {what}"))
}
