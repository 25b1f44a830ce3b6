//! Opening a file for writing so that nothing depends on an fsync that failed.
//!
//! After a failed fsync, Linux marks the pages as clean: the page cache still has them, the
//! disk does not, and the next fsync succeeds without writing them (PostgreSQL's "fsyncgate"
//! of 2018). Syncing again is therefore no remedy; the data must be written again. It can be
//! lost in two places:
//!
//! - In the database file. A checkpoint that a reader limits copies frames without
//!   an fsync and records in the WAL index (`-shm`) that they need no further
//!   copy. If the fsync of a later checkpoint fails, these frames may be lost, and
//!   yet they are not copied again. Only a new index forgets the record. SQLite
//!   builds it from the WAL when the first connection opens the file.
//! - In the WAL. A commit whose fsync failed is valid in the page cache. If the process ends
//!   there, the next one recovers it and appends to it, and a power cut then loses the commit
//!   and every later one. So a process that opens the file for writing writes the WAL again,
//!   even if a reader was first and has built the index. It ends with the last commit that the
//!   index knows: what follows is overwritten.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, config::DbConfig};
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::{
    super::{Role, error::OpenError},
    checkpoint::{checkpoint, wal_length},
    connect::connect,
    regular_file::open_regular,
};
use system::atomic_file::{side_file, sync_folder};

/// The byte of the WAL index on which every connection holds a shared lock
/// (`UNIX_SHM_DMS` in SQLite's source). A process that finds it unlocked builds the index.
const CONNECTION_LOCK: u64 = 128;

/// A connection for writing.
pub(super) struct WritableConnection {
    pub(super) db: Connection,
    pub(super) index: WalIndex,
    /// The WAL, which can be read even if it was deleted.
    wal: File,
}

impl WritableConnection {
    /// Writes a WAL that was deleted to its path again, where the next connection recovers it.
    /// No other process may use the index; one that opens the file during the copy cannot write.
    pub(super) fn save_deleted_wal(&self, path: &Path) -> Result<(), OpenError> {
        let database_error = OpenError::database(path);
        let length = wal_length(&self.db).map_err(database_error)?;
        self.db
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(database_error)?;
        let saved = self.copy_wal(path, length);
        let _ = self.db.execute_batch("ROLLBACK");
        saved.map_err(OpenError::file(&wal_path(path)))
    }

    /// Copies the WAL to its path. If another process has created an empty WAL, it is filled,
    /// not replaced: a process that has it open must not write to a deleted file.
    fn copy_wal(&self, path: &Path, length: u64) -> io::Result<()> {
        let database = fs::symlink_metadata(path)?;
        let mut options = File::options();
        options.write(true).create(true).mode(0o600);
        let new = open_regular(&wal_path(path), &mut options)?;
        // SQLite does the same.
        let _ = new.set_permissions(database.permissions());
        let copied = copy(&self.wal, &new, length);
        if copied.is_err() {
            // A part of it would be taken for the WAL of another process.
            let _ = new.set_len(0);
        }
        copied
    }

    /// Checkpoints if the WAL index is new, and closes the connection. The last
    /// connection to close deletes a WAL that was copied completely; otherwise the
    /// WAL stays for the next process.
    pub(super) fn checkpoint_and_close(self) {
        if self.index.is_new && checkpoint(&self.db).is_ok_and(|complete| complete) {
            let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.db.set_db_config(option, false);
        }
    }
}

/// Opens a file that `open::prepare` has checked. This process must have no other
/// connection to it.
pub(super) fn open_recovered(path: &Path, role: Role) -> Result<WritableConnection, OpenError> {
    let database_error = OpenError::database(path);
    let index_path = index_path(path);
    let is_new = !is_open(path);
    let wal = wal_path(path);
    // A process that has just closed the file properly has deleted the WAL, too.
    if !is_new && fs::symlink_metadata(&wal).is_err() && is_open(path) {
        return Err(OpenError::WalDeleted(wal));
    }
    // Builds the index if it is new.
    let db = connect(path, role).map_err(database_error)?;
    // Other processes sync what they append after this. The length is unknown only at the
    // moment of such a commit.
    let length = wal_length(&db).ok();
    // Keeps other writers out.
    db.execute_batch("BEGIN IMMEDIATE")
        .map_err(database_error)?;
    let wal = match rewrite(&wal, length) {
        // Another process has the deleted WAL open, and this one is empty.
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(OpenError::WalDeleted(wal));
        }
        rewritten => rewritten.map_err(OpenError::file(&wal))?,
    };
    db.execute_batch("ROLLBACK").map_err(database_error)?;
    // The name of a new WAL must be durable, and SQLite ignores that this fsync failed.
    sync_folder(path).map_err(OpenError::file(path.parent().unwrap_or(path)))?;
    let file = open_regular(&index_path, File::options().read(true))
        .map_err(OpenError::file(&index_path))?;
    let index = WalIndex { is_new, file };
    Ok(WritableConnection { db, index, wal })
}

/// The WAL index of a connection.
pub(super) struct WalIndex {
    /// True if the index was built when the connection was opened. If another process had the
    /// file open, it was not, and a checkpoint must not trust it.
    pub(super) is_new: bool,
    /// Dropped after all connections of this process, as the order of fields in
    /// [`WritableConnection`] ensures for its own: closing any descriptor of a file drops all
    /// POSIX locks of the process on it.
    file: File,
}

impl WalIndex {
    /// Returns true if another process uses the index, so that it cannot be built again.
    pub(super) fn is_in_use(&self) -> bool {
        is_in_use(&self.file)
    }
}

/// Returns true if another process has a connection to the file. This process must have none.
pub(crate) fn is_open(path: &Path) -> bool {
    let index = open_regular(&index_path(path), File::options().read(true));
    index.is_ok_and(|file| is_in_use(&file))
}

fn is_in_use(index: &File) -> bool {
    let lock = Flock {
        start: CONNECTION_LOCK,
        length: 1,
        ..Flock::from(FlockType::WriteLock)
    };
    !matches!(fcntl_getlk(index, &lock), Ok(None))
}

/// Overwrites the first `length` bytes of a file, or all, with themselves, so that they are
/// written to disk.
fn rewrite(path: &Path, length: Option<u64>) -> io::Result<File> {
    let file = open_regular(path, File::options().read(true).write(true))?;
    let length = match length {
        Some(length) => length,
        None => file.metadata()?.len(),
    };
    copy(&file, &file, length)?;
    Ok(file)
}

/// Copies the first `length` bytes of a file, durably.
fn copy(from: &File, to: &File, length: u64) -> io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < length {
        let rest = usize::try_from(length - offset).unwrap_or(usize::MAX);
        let size = buffer.len().min(rest);
        let chunk = &mut buffer[..size];
        from.read_exact_at(chunk, offset)?;
        to.write_all_at(chunk, offset)?;
        offset += size as u64;
    }
    to.sync_all()
}

pub(crate) fn wal_path(path: &Path) -> PathBuf {
    side_file(path, "-wal")
}

pub(super) fn index_path(path: &Path) -> PathBuf {
    side_file(path, "-shm")
}
