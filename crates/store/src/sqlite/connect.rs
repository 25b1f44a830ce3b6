//! Connections to an SQLite file, and their configuration.

use std::{
    io::{self, Write},
    path::Path,
    thread,
    time::Duration,
};

use rusqlite::{Connection, MAIN_DB, OpenFlags, config::DbConfig, ffi};

use super::super::Role;

/// The maximum wait for another process that has the file locked.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// More than the statements that are in use at a time; updates have one for each set of changed
/// columns.
const STATEMENT_CACHE_CAPACITY: usize = 128;

/// The flags of every connection to a file. SQLite never follows a link in place of a WAL or a
/// journal. With `NOFOLLOW` it does not follow one in place of the database file either, nor in
/// the path of its folder, which must therefore be resolved.
pub(crate) const FLAGS: OpenFlags =
    OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// Opens for writing a file that `open::prepare` has checked.
pub(super) fn connect(path: &Path, role: Role) -> rusqlite::Result<Connection> {
    let mut db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | FLAGS)?;
    // SQLite falls back to reading if it cannot open the file for writing.
    if db.is_readonly(MAIN_DB)? {
        return Err(rusqlite::Error::SqliteFailure(
            ffi::Error::new(ffi::SQLITE_READONLY),
            None,
        ));
    }
    match role {
        Role::Service => db.busy_timeout(BUSY_TIMEOUT)?,
        Role::Cli => db.busy_handler(Some(cli_busy_handler))?,
    }
    // A restored backup may not be in WAL mode.
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // Overwrites what is deleted, such as the name of a buyer, in pages that stay in use.
    db.pragma_update(None, "secure_delete", "FAST")?;
    db.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // The writer checkpoints by itself: SQLite would ignore a failed fsync.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    distrust_schema(&db)?;
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    Ok(db)
}

/// Retries every millisecond for half a minute: a service under load leaves only
/// short gaps between its commits, which SQLite's own backoff would miss.
fn cli_busy_handler(tries: i32) -> bool {
    if tries == 2_000 {
        // A closed stderr is not an error.
        let _ = writeln!(io::stderr(), "The database is busy. Waiting for it.");
    }
    thread::sleep(Duration::from_millis(1));
    tries < 30_000
}

/// Opens for reading a file that `open::prepare` has checked.
pub(crate) fn connect_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | FLAGS)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    distrust_schema(&db)?;
    // The query planner stability guarantee: plans do not depend on bound
    // values, so a cached statement is not re-planned for each list.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    Ok(db)
}

/// Denies the schema of a file, which another program may have changed, functions with side
/// effects.
pub(crate) fn distrust_schema(db: &Connection) -> rusqlite::Result<()> {
    let option = DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA;
    db.set_db_config(option, false).map(drop)
}
