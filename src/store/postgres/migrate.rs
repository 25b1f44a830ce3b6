//! Bringing the schema up to date, however many replicas start at once.

use tokio_postgres::Client;

use super::super::OpenError;

/// The schema, one step a file, in order. A step that was released is never
/// changed.
const MIGRATIONS: [&str; 1] = [include_str!(
    "../../../migrations/postgres/1_animals_orders_keys.sql"
)];

/// The oldest program, by the number of steps it knows, that can go on with
/// the schema of this one. While replicas are replaced one by one, those of
/// the last version still run.
const USABLE_SINCE: i32 = 1;

/// "PETS": whoever changes the schema holds this lock.
const LOCK: i64 = 0x5045_5453;

/// Runs the steps that the database has not seen, all of them or none.
pub async fn migrate(client: &mut Client, shown: &str) -> Result<(), OpenError> {
    let failed = |cause| OpenError::Postgres {
        server: shown.into(),
        cause,
    };
    let known = MIGRATIONS.len() as i32;
    let step = client.transaction().await.map_err(failed)?;
    step.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await
        .map_err(failed)?;
    step.batch_execute(
        "CREATE TABLE IF NOT EXISTS petstore_schema (version int NOT NULL, usable_since int NOT NULL)",
    )
    .await
    .map_err(failed)?;
    let row = step
        .query_opt("SELECT version, usable_since FROM petstore_schema", &[])
        .await
        .map_err(failed)?;
    let (version, usable_since) = row.map_or((0, 0), |row| (row.get(0), row.get(1)));
    if usable_since > known {
        return Err(OpenError::Newer {
            place: shown.into(),
            found: i64::from(version),
            known: i64::from(known),
        });
    }
    if version >= known {
        return Ok(());
    }
    for migration in MIGRATIONS.iter().skip(version as usize) {
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
