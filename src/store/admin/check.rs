//! Looking a store through: is it whole, and do its parts agree?

use rusqlite::Connection;

use super::super::{
    DatabaseUrl, OpenError, PostgresError,
    postgres::{self, PostgresUrl},
    sqlite,
};

/// What must be 0, and what it means if it is not. Both databases understand it.
const COUNTS: [(&str, &str); 7] = [
    (
        "orders of animals that are not there",
        "SELECT count(*) FROM orders LEFT JOIN pets ON pets.id = orders.pet_id
         WHERE pets.id IS NULL",
    ),
    (
        "open orders whose animal is not pending",
        "SELECT count(*) FROM orders JOIN pets ON pets.id = orders.pet_id
         WHERE orders.status = 'placed' AND pets.status IS DISTINCT FROM 'pending'",
    ),
    (
        "animals with more than one open order",
        "SELECT count(*) FROM (SELECT pet_id FROM orders WHERE status = 'placed'
                               GROUP BY pet_id HAVING count(*) > 1) AS several",
    ),
    (
        "orders that changed before they were placed",
        "SELECT count(*) FROM orders WHERE updated_at < created_at",
    ),
    (
        "available animals too many in the inventory",
        "SELECT CAST((SELECT coalesce(sum(available), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'available') AS bigint)",
    ),
    (
        "pending animals too many in the inventory",
        "SELECT CAST((SELECT coalesce(sum(pending), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'pending') AS bigint)",
    ),
    (
        "sold animals too many in the inventory",
        "SELECT CAST((SELECT coalesce(sum(sold), 0) FROM inventory)
                   - (SELECT count(*) FROM pets WHERE status = 'sold') AS bigint)",
    ),
];

/// The same for what only PostgreSQL has. The parts of the schema come first.
const ON_POSTGRES: [(&str, &str); 3] = [
    (
        "indexes missing",
        "SELECT count(*) FROM unnest(ARRAY['pets_pkey', 'pets_by_status', 'orders_pkey',
             'orders_by_status', 'orders_open', 'orders_lapsing', 'named_requests_pkey',
             'named_requests_by_age', 'inventory_pkey', 'api_keys_hash_key']) AS part
         WHERE to_regclass(part) IS NULL",
    ),
    (
        "triggers missing or switched off",
        "SELECT 4 - count(*) FROM pg_trigger WHERE tgrelid = 'pets'::regclass
         AND tgname LIKE 'pets_count_%' AND tgenabled = 'O'",
    ),
    (
        "animals that are held without an open order, or not held with one",
        "SELECT count(*) FROM pets WHERE held <> EXISTS (
             SELECT FROM orders WHERE orders.pet_id = pets.id AND orders.status = 'placed')",
    ),
];

/// Why a store could not be looked through.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("cannot read the file: {0}")]
    File(#[from] rusqlite::Error),
    #[error("cannot read from the server: {0}")]
    Server(PostgresError),
}

impl From<tokio_postgres::Error> for CheckError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

/// Looks one state of the store through, also while it is served, and says what
/// is wrong with it. `progress` is told what is looked at.
pub async fn check(
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

/// Looks an open file through: its pages, and of the current schema also whether
/// its parts agree.
pub fn check_file(
    db: &Connection,
    is_current: bool,
    mut progress: impl FnMut(&str),
) -> rusqlite::Result<Vec<String>> {
    progress("damaged pages");
    let mut pages = db.prepare("PRAGMA integrity_check")?;
    let found = pages.query_map([], |row| row.get::<_, String>(0))?;
    let is_wrong = |found: &rusqlite::Result<String>| !matches!(found, Ok(ok) if ok == "ok");
    let mut wrong: Vec<_> = found.filter(is_wrong).collect::<Result<_, _>>()?;
    // What follows would only fail on what is broken already.
    if !wrong.is_empty() || !is_current {
        return Ok(wrong);
    }
    progress("missing or changed parts of the schema");
    let there = sqlite::schema(db)?;
    for part in sqlite::schema(&sqlite::fresh()?)? {
        if !there.contains(&part) {
            wrong.push(format!("the {} {} is missing or changed", part[0], part[1]));
        }
    }
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    for (what, sql) in COUNTS {
        progress(what);
        let count = db.query_row(sql, [], |row| row.get(0))?;
        wrong.extend(finding(count, what));
    }
    Ok(wrong)
}

async fn check_server(
    url: &PostgresUrl,
    mut progress: impl FnMut(&str),
) -> Result<Vec<String>, CheckError> {
    let (mut client, _) = postgres::open_alone(url).await?;
    let state = client
        .build_transaction()
        .isolation_level(tokio_postgres::IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    let mut wrong = Vec::new();
    for (what, sql) in ON_POSTGRES.into_iter().chain(COUNTS) {
        progress(what);
        let count = state.query_one(sql, &[]).await?.get(0);
        wrong.extend(finding(count, what));
    }
    Ok(wrong)
}

fn finding(count: i64, what: &str) -> Option<String> {
    (count != 0).then(|| format!("{count} {what}"))
}
