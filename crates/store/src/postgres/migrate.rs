//! Migrating the PostgreSQL schema, however many replicas start at once.

use tokio_postgres::{Client, GenericClient};

use super::super::error::OpenError;

/// The migrations in order. A released one is never changed.
const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/postgres/1_initial.sql")];

/// Returns the names of the objects of a kind that the migrations create.
pub(crate) fn created(kind: &str) -> impl Iterator<Item = &'static str> {
    let create = format!("CREATE {kind} ");
    let lines = MIGRATIONS.into_iter().flat_map(str::lines);
    lines.filter_map(move |line| line.strip_prefix(&create)?.split(' ').next())
}

/// The version of the current schema.
pub(super) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The oldest program, by the number of migrations it knows, that works with the
/// current schema. During a rolling upgrade, replicas of the previous version
/// are still running.
const MIN_COMPATIBLE_VERSION: i32 = 1;

/// The advisory lock that a migrating process holds: "PETS" in ASCII.
const ADVISORY_LOCK: i64 = 0x5045_5453;

/// Returns the number of migrations that were run, or `None` if all were. Fails if the schema
/// is too new.
async fn missing_since(db: &impl GenericClient, url: &str) -> Result<Option<i64>, OpenError> {
    let sql = "SELECT version::bigint, min_compatible_version::bigint FROM schema_version";
    let rows = db
        .query_typed(sql, &[])
        .await
        .map_err(OpenError::postgres(url))?;
    let Some(row) = rows.first() else {
        return Ok(Some(0));
    };
    let found: i64 = row.get(0);
    let min_compatible: i64 = row.get(1);
    if min_compatible > VERSION {
        return Err(OpenError::Newer {
            database: url.into(),
            found,
            supported: VERSION,
        });
    }
    Ok((found < VERSION).then_some(found))
}

/// Returns the version of a schema that is not up to date, 0 if there is none; otherwise `None`.
pub(super) async fn outdated_version(client: &Client, url: &str) -> Result<Option<i64>, OpenError> {
    let failed = OpenError::postgres(url);
    // Checked first, so that an up-to-date schema needs no DDL privileges.
    let select = "SELECT to_regclass('schema_version') IS NOT NULL";
    let exists = client.query_typed(select, &[]).await.map_err(failed)?;
    if exists[0].get(0) {
        missing_since(client, url).await
    } else {
        Ok(Some(0))
    }
}

/// Runs the missing migrations in one transaction. With `create`, also in an empty database.
pub(super) async fn migrate(client: &mut Client, url: &str, create: bool) -> Result<(), OpenError> {
    match outdated_version(client, url).await? {
        None => return Ok(()),
        Some(0) if !create => return Err(OpenError::Empty(url.into())),
        Some(_) => {}
    }
    let failed = OpenError::postgres(url);
    let transaction = client.transaction().await.map_err(failed)?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&ADVISORY_LOCK])
        .await
        .map_err(failed)?;
    transaction
        .batch_execute(
            "SET LOCAL idle_in_transaction_session_timeout = '60s';
             -- Readers queue behind a migration that waits for a lock.
             SET LOCAL lock_timeout = '5s';
             CREATE TABLE IF NOT EXISTS schema_version
                 (version int NOT NULL, min_compatible_version int NOT NULL)",
        )
        .await
        .map_err(failed)?;
    // Another replica may have migrated before this one got the lock.
    let Some(version) = missing_since(&transaction, url).await? else {
        return Ok(());
    };
    for migration in MIGRATIONS.iter().skip(version as usize) {
        transaction.batch_execute(migration).await.map_err(failed)?;
    }
    transaction
        .batch_execute(&format!(
            "DELETE FROM schema_version;
             INSERT INTO schema_version (version, min_compatible_version)
             VALUES ({VERSION}, {MIN_COMPATIBLE_VERSION})"
        ))
        .await
        .map_err(failed)?;
    transaction.commit().await.map_err(failed)
}
