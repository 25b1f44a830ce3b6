//! Migrating the PostgreSQL schema, however many replicas start at once.

use tokio_postgres::{Client, GenericClient};

use super::super::error::OpenError;

/// The migrations that lead to a schema, and the programs that work with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schema {
    /// In order. A released one is never changed.
    migrations: &'static [&'static str],
    /// The oldest program, by the number of migrations it knows, that works with the schema.
    /// During a rolling upgrade, replicas of the previous version are still running.
    min_compatible_version: i64,
}

/// The schema of this version.
pub(super) const SCHEMA: Schema = Schema {
    migrations: &[include_str!("../../migrations/postgres/1_initial.sql")],
    min_compatible_version: 1,
};

/// Returns the names of the objects of a kind that the migrations create.
pub(crate) fn created(kind: &str) -> impl Iterator<Item = &'static str> {
    let create = format!("CREATE {kind} ");
    let lines = SCHEMA.migrations.iter().copied().flat_map(str::lines);
    lines.filter_map(move |line| line.strip_prefix(&create)?.split(' ').next())
}

/// The advisory lock that a migrating process holds: "PETS" in ASCII.
const ADVISORY_LOCK: i64 = 0x5045_5453;

impl Schema {
    pub(super) const fn version(self) -> i64 {
        self.migrations.len() as i64
    }

    /// Returns the number of migrations that were run, or `None` if all were. Fails if the schema
    /// is too new.
    async fn missing_since(
        self,
        db: &impl GenericClient,
        url: &str,
    ) -> Result<Option<i64>, OpenError> {
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
        if min_compatible > self.version() {
            return Err(OpenError::Newer {
                database: url.into(),
                found,
                supported: self.version(),
            });
        }
        Ok((found < self.version()).then_some(found))
    }

    /// Returns the version of a schema that is not up to date, 0 if there is none; otherwise
    /// `None`.
    pub(super) async fn outdated_version(
        self,
        client: &Client,
        url: &str,
    ) -> Result<Option<i64>, OpenError> {
        // Checked first, so that an up-to-date schema needs no DDL privileges. Nothing is prepared
        // outside a transaction: a pooler may run each statement in another session.
        let select = "SELECT to_regclass('schema_version') IS NOT NULL";
        let exists = client.query_typed(select, &[]).await;
        if exists.map_err(OpenError::postgres(url))?[0].get(0) {
            self.missing_since(client, url).await
        } else {
            Ok(Some(0))
        }
    }

    /// Runs the missing migrations in one transaction. With `create`, also in an empty database.
    pub(super) async fn migrate(
        self,
        client: &mut Client,
        url: &str,
        create: bool,
    ) -> Result<(), OpenError> {
        match self.outdated_version(client, url).await? {
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
                 -- Rows that a migration changes are no events.
                 SET LOCAL petstore.logs = 'on';
                 CREATE TABLE IF NOT EXISTS schema_version
                     (version int NOT NULL, min_compatible_version int NOT NULL)",
            )
            .await
            .map_err(failed)?;
        // Another replica may have migrated before this one got the lock.
        let Some(version) = self.missing_since(&transaction, url).await? else {
            return Ok(());
        };
        for migration in self.migrations.iter().skip(version as usize) {
            transaction.batch_execute(migration).await.map_err(failed)?;
        }
        transaction
            .batch_execute(&format!(
                "DELETE FROM schema_version;
                 INSERT INTO schema_version (version, min_compatible_version)
                 VALUES ({}, {})",
                self.version(),
                self.min_compatible_version
            ))
            .await
            .map_err(failed)?;
        transaction.commit().await.map_err(failed)
    }
}

#[cfg(test)]
mod tests;
