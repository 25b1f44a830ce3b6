//! The SQLite schema: migrations, and the schema version of a file.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig};

use super::{
    super::{Role, error::OpenError},
    connect::{BUSY_TIMEOUT, FLAGS, connect_read_only},
    recovery::open_recovered,
};
use domain::invalid::quoted;

/// The migrations in order. A released one is never changed; `user_version`
/// counts those that a file has seen.
pub(super) const MIGRATIONS: [&str; 1] = [include_str!("../../migrations/sqlite/1_initial.sql")];

pub(super) const SCHEMA_VERSION: i64 = MIGRATIONS.len() as i64;

/// "PETS" in ASCII, as the first migration sets it.
pub(super) const APPLICATION_ID: i64 = 0x5045_5453;

/// The identity of a file: two fields of the SQLite header, and whether it has any schema.
pub(super) struct Identity {
    pub(super) application_id: i64,
    pub(super) user_version: i64,
    pub(super) has_schema: bool,
}

impl Identity {
    pub(super) fn read(db: &Connection) -> rusqlite::Result<Self> {
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok(Self {
            application_id: number("PRAGMA application_id")?,
            user_version: number("PRAGMA user_version")?,
            has_schema: number("SELECT count(*) FROM sqlite_schema")? > 0,
        })
    }

    /// Returns the state of a file with this identity, or the reason why it must not be used.
    pub(super) fn classify(&self, path: &Path) -> Result<SchemaState, OpenError> {
        self.classify_for(SCHEMA_VERSION, path)
    }

    /// Like [`classify`](Self::classify), for a program that knows this many migrations.
    fn classify_for(&self, supported: i64, path: &Path) -> Result<SchemaState, OpenError> {
        match (self.application_id, self.user_version) {
            (0, 0) if !self.has_schema => Ok(SchemaState::Empty),
            (APPLICATION_ID, found) if found == supported => Ok(SchemaState::Current),
            (APPLICATION_ID, found) if found > supported => Err(OpenError::Newer {
                database: path.display().to_string(),
                found,
                supported,
            }),
            (APPLICATION_ID, found @ 0..) => Ok(SchemaState::Older(found)),
            _ => Err(OpenError::NotAPetstore(path.into())),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaState {
    /// An SQLite file without content: another process may be creating it.
    Empty,
    /// A petstore database of an older version.
    Older(i64),
    Current,
}

/// Runs the missing ones of these migrations in one transaction. The caller holds the service
/// lock; the state is checked again before anything is changed.
pub(super) fn migrate(path: &Path, migrations: &[&str]) -> Result<(), OpenError> {
    let version = migrations.len() as i64;
    let failed = OpenError::database(path);
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | FLAGS)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Ok(db)
    };
    // Read-only first, so that another program's WAL is left untouched. That is
    // impossible where a crash left a hot journal to be rolled back.
    let identity = connect_read_only(path)
        .and_then(|db| Identity::read(&db))
        .or_else(|_| Identity::read(&open()?));
    let seen = match identity.map_err(failed)?.classify_for(version, path)? {
        SchemaState::Current => return Ok(()),
        SchemaState::Empty => 0,
        SchemaState::Older(found) => found,
    };
    let mut file = open_recovered(path, Role::Service)?;
    let mut run = || {
        let transaction = file
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        for migration in migrations.iter().skip(seen as usize) {
            transaction.execute_batch(migration)?;
        }
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()
    };
    run().map_err(failed)?;
    // Other processes read the version from the database file.
    file.checkpoint_and_close();
    Ok(())
}

/// Returns the state of an open file. The header on disk may be stale: the WAL is newer.
pub(super) fn schema_state(db: &Connection, path: &Path) -> Result<SchemaState, OpenError> {
    let identity = Identity::read(db).map_err(OpenError::database(path))?;
    identity.classify(path)
}

/// Returns the type, name and SQL of every table, index, trigger and view.
pub(crate) fn schema(db: &Connection) -> rusqlite::Result<Vec<[String; 3]>> {
    let select = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY 1, 2";
    db.prepare(select)?
        .query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?
        .collect()
}

/// Returns the schema that the migrations create, in the version of this file.
pub(crate) fn expected_schema(db: &Connection) -> rusqlite::Result<Vec<[String; 3]>> {
    let version = db.pragma_query_value(None, "user_version", |row| row.get::<_, u32>(0))?;
    schema(&in_memory_at(version as usize)?)
}

/// Names the objects that no migration created. A trigger among them would run in the service,
/// with every change.
pub(crate) fn added_objects(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let expected = expected_schema(db)?;
    let is_added = |[kind, name, _]: &[String; 3]| {
        // Statistics of ANALYZE, which only SQLite can write.
        let is_statistics = kind == "table" && matches!(&**name, "sqlite_stat1" | "sqlite_stat4");
        let mut known = expected.iter().map(|[kind, name, _]| (kind, name));
        !is_statistics && !known.any(|known| known == (kind, name))
    };
    let found = schema(db)?.into_iter().filter(is_added);
    let named = found.map(|[kind, name, _]| match &*kind {
        "table" | "index" | "trigger" | "view" => format!("{kind} {}", quoted(&name)),
        _ => format!("object {}", quoted(&name)),
    });
    Ok(named.collect())
}

/// Creates an empty store of the current schema, in memory.
#[cfg(test)]
pub(crate) fn in_memory() -> rusqlite::Result<Connection> {
    in_memory_at(MIGRATIONS.len())
}

fn in_memory_at(version: usize) -> rusqlite::Result<Connection> {
    let db = Connection::open_in_memory()?;
    for migration in MIGRATIONS.iter().take(version) {
        db.execute_batch(migration)?;
    }
    Ok(db)
}

#[cfg(test)]
mod tests;
