//! The records of imports.

use jiff::SignedDuration;
use support::Backend;

use crate::fixture::TestStore;

support::cases! {
    DATABASES: [records_are_purged],
}

/// The number of imports that are remembered, and the time that each is remembered for.
const MAX_REMEMBERED: i64 = 10_000;
const RETENTION: SignedDuration = SignedDuration::from_hours(90 * 24);

/// The records of imports are bounded by their age and number.
async fn records_are_purged(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    // Expressions of a number `n`, and of the time.
    let (digest, now) = if backend == Backend::Postgres {
        (
            "decode(lpad(n::text, 64, '0'), 'hex')",
            "(extract(epoch FROM now()) * 1000000)::bigint",
        )
    } else {
        (
            "CAST(printf('%032d', n) AS BLOB)",
            "(unixepoch() * 1000000)",
        )
    };
    database.execute(&format!(
        "WITH RECURSIVE numbers (n) AS (
             SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MAX_REMEMBERED} + 2
         )
         INSERT INTO imports
         SELECT {digest}, 1, 1, CASE WHEN n > {MAX_REMEMBERED} THEN n ELSE {now} - n END, NULL
         FROM numbers"
    ));
    let purge = async || store.import_purge(RETENTION).await.unwrap();
    assert_eq!(purge().await, 2);
    database.execute(&format!(
        "INSERT INTO imports
         SELECT {digest}, 1, 1, {now}, {now} FROM (SELECT 0 AS n) AS newest"
    ));
    assert_eq!(purge().await, 1);
    assert_eq!(purge().await, 0);
    let newest = "SELECT count(*) FROM imports WHERE finished_at IS NOT NULL";
    assert_eq!(database.query(newest), "1");
}
