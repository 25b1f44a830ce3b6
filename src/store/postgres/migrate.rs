//! Bringing the schema up to date, however many replicas start at once.

use tokio_postgres::{Client, GenericClient};

use super::super::OpenError;

/// The schema, one step a file, in order. A step that was released is never
/// changed.
const MIGRATIONS: [&str; 3] = [
    include_str!("../../../migrations/postgres/1_animals_orders_keys.sql"),
    include_str!("../../../migrations/postgres/2_sales.sql"),
    include_str!("../../../migrations/postgres/3_deprecated_calls.sql"),
];

/// The oldest program, by the number of steps it knows, that can go on with
/// the schema of this one. While replicas are replaced one by one, those of
/// the last version still run.
const USABLE_SINCE: i32 = 1;

/// "PETS": whoever changes the schema holds this lock.
const LOCK: i64 = 0x5045_5453;

/// Runs the steps that the database has not seen, all of them or none.
pub async fn migrate(client: &mut Client, shown: &str) -> Result<(), OpenError> {
    let failed = |cause: tokio_postgres::Error| OpenError::Postgres {
        server: shown.into(),
        cause: cause.into(),
    };
    let known = MIGRATIONS.len() as i32;
    let is_current = |(version, usable_since): (i32, i32)| match usable_since > known {
        true => Err(OpenError::Newer {
            place: shown.into(),
            found: i64::from(version),
            known: i64::from(known),
        }),
        false => Ok(version >= known),
    };
    // Outside a transaction, a pooler may give each statement another session:
    // nothing is prepared there.
    let encoding = client.query_typed("SHOW server_encoding", &[]).await;
    let encoding: String = encoding.map_err(failed)?[0].get(0);
    if encoding != "UTF8" {
        return Err(OpenError::Encoding {
            server: shown.into(),
            encoding,
        });
    }
    // Without a change to make, no right to make one is needed.
    let there = "SELECT to_regclass('petstore_schema') IS NOT NULL";
    let there = client.query_typed(there, &[]).await.map_err(failed)?;
    if there[0].get(0) && is_current(version(client).await.map_err(failed)?)? {
        return Ok(());
    }
    let step = client.transaction().await.map_err(failed)?;
    step.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    step.batch_execute(
        "SET LOCAL idle_in_transaction_session_timeout = '60s';
         -- Whoever reads meanwhile waits behind a step that waits.
         SET LOCAL lock_timeout = '5s';
         CREATE TABLE IF NOT EXISTS petstore_schema
             (version int NOT NULL, usable_since int NOT NULL)",
    )
    .await
    .map_err(failed)?;
    // Another replica may have been faster.
    let seen = version(&step).await.map_err(failed)?;
    if is_current(seen)? {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(seen.0 as usize) {
        step.batch_execute(migration).await.map_err(failed)?;
    }
    step.batch_execute(&format!(
        "DELETE FROM petstore_schema;
         INSERT INTO petstore_schema VALUES ({known}, {USABLE_SINCE})"
    ))
    .await
    .map_err(failed)?;
    step.commit().await.map_err(failed)
}

/// The number of steps that the database has seen, and the oldest program that
/// may use it.
async fn version(db: &impl GenericClient) -> Result<(i32, i32), tokio_postgres::Error> {
    let sql = "SELECT version, usable_since FROM petstore_schema";
    let rows = db.query_typed(sql, &[]).await?;
    Ok(rows.first().map_or((0, 0), |row| (row.get(0), row.get(1))))
}
