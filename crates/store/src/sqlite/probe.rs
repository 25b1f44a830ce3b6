//! The readiness probe of an SQLite file: it is read and written, and its disk has room.
//!
//! A commit alone proves little. It may overwrite a part of the WAL that was written before,
//! which needs no room, and reads only a few pages. So each probe also asks for the free
//! space, and reads the next rows of the tables that grow with the store.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use rusqlite::Connection;
use rustix::{fs::statvfs, process::geteuid};

use super::{super::error::Error, Sqlite};

/// The disk counts as full if it has less room than this.
const MIN_ROOM: usize = 256 << 10;

/// The tables that are read, each with its id: those with an integer as primary key and more
/// than one row.
const TABLES: [(&str, &str); 8] = [
    ("pets", "id"),
    ("photos", "id"),
    ("deleted_pets", "id"),
    ("categories", "id"),
    ("orders", "id"),
    ("events", "sequence"),
    ("webhooks", "id"),
    ("api_keys", "id"),
];

/// Returns the query that reads the next rows of a table after `?1`, and returns the last of
/// them, or 0 at the end, where the next probe starts again.
fn next_rows(table: &str, id: &str) -> String {
    format!(
        "SELECT iif(count(*) = 1000, max({id}), 0)
         FROM (SELECT {id} FROM {table} WHERE {id} > ?1 ORDER BY {id} LIMIT 1000)"
    )
}

/// The rows up to which the [`TABLES`] were read.
#[derive(Debug, Default)]
pub(super) struct Scan([AtomicI64; TABLES.len()]);

impl Scan {
    fn advance(&self, db: &Connection) -> rusqlite::Result<()> {
        for (position, (table, id)) in self.0.iter().zip(TABLES) {
            let mut select = db.prepare_cached(&next_rows(table, id))?;
            let last = position.load(Relaxed);
            let next = select.query_row([last], |row| row.get(0))?;
            position.store(next, Relaxed);
        }
        Ok(())
    }
}

impl Sqlite {
    /// Fails unless the file can be read and written now. If it could not be written lately, a
    /// success makes the store usable again.
    pub(crate) async fn ping(&self) -> Result<(), Error> {
        let before = self.health.failures();
        let is_failing = self.health.failure().is_some();
        let scan = Arc::clone(&self.scan);
        let path = self.path.clone();
        // Runs on the thread of a reader: a disk that hangs blocks no other task.
        let read = move |db: &Connection| {
            scan.advance(db)?;
            Ok(check_room(&path, is_failing))
        };
        let room = self.readers.run(read).await?;
        room.map_err(|cause| Error::Unavailable(Arc::new(cause)))?;
        self.writer.ping().await?;
        self.health.recovered(before);
        Ok(())
    }
}

/// Checks that the disk has room. The free space that the system reports may ignore quotas, so
/// after a failure a file is written.
fn check_room(database: &Path, is_failing: bool) -> Result<(), NoRoom> {
    let folder = database.parent().unwrap_or(Path::new("/"));
    let failed = |cause| NoRoom {
        folder: folder.into(),
        cause,
    };
    let disk = statvfs(folder).map_err(|cause| failed(cause.into()))?;
    // Only root may use the reserve of a file system.
    let blocks = if geteuid().is_root() {
        disk.f_bfree
    } else {
        disk.f_bavail
    };
    let room = blocks.saturating_mul(disk.f_frsize);
    // Some file systems do not report their size.
    if disk.f_blocks > 0 && room < MIN_ROOM as u64 {
        return Err(failed(io::ErrorKind::StorageFull.into()));
    }
    if is_failing {
        let written = tempfile::tempfile_in(folder).and_then(|mut it| it.write_all(&[0; MIN_ROOM]));
        written.map_err(failed)?;
    }
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("no room for writes in {folder}: {cause}")]
struct NoRoom {
    folder: PathBuf,
    cause: io::Error,
}
