//! Online backup of an SQLite file, as a consistent snapshot.

use std::{
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};

use super::{
    super::{
        error::{OpenError, explain, sqlite_reason},
        sqlite,
    },
    check::check_file,
};
use system::atomic_file::AtomicFile;

/// Pages copied between progress reports and syncs.
const PAGES_PER_STEP: i32 = 1000;

/// The reason why the backup failed. No file is left behind.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0} already exists; specify a file that does not")]
    Exists(PathBuf),
    #[error("cannot write {path}: {}", explain(path, cause))]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot copy the database: {}", sqlite_reason(.0))]
    Copy(#[from] rusqlite::Error),
    #[error(
        "the copy failed its integrity check, so the database is damaged, too: {0}; see all of it \
         with `petstore check --database PATH`"
    )]
    Damaged(String),
}

/// Backs up a store to a file that must not exist yet. Calls `progress` with the
/// number of pages copied and in total.
///
/// The backup contains every write that was acknowledged before the call. It
/// appears under its name only when it is complete, checked and on disk.
pub fn backup(
    from: &Path,
    to: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), BackupError> {
    let failed = |cause: io::Error| match cause.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(to.into()),
        _ => BackupError::File {
            path: to.into(),
            cause,
        },
    };
    let file = AtomicFile::create(to).map_err(failed)?;
    let (target, _) = copy_and_check(from, &file, &mut progress)?;
    target.close().map_err(|(_, cause)| cause)?;
    file.persist().map_err(failed)
}

/// Like [`backup`], but writes to a stream, once the backup is complete and checked. Until
/// then it is a file beside the store.
pub fn backup_to_stream(
    from: &Path,
    mut to: impl io::Write,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), BackupError> {
    let failed = |path: &Path| {
        let path = path.into();
        |cause| BackupError::File { path, cause }
    };
    let file = AtomicFile::create_beside(from).map_err(failed(from))?;
    let (target, _) = copy_and_check(from, &file, &mut progress)?;
    target.close().map_err(|(_, cause)| cause)?;
    let written = io::copy(&mut file.file(), &mut to);
    written
        .map(drop)
        .map_err(failed("standard output".as_ref()))
}

/// Copies a store, live or not, into an empty file, and checks the integrity of the copy.
/// Returns the open copy, and whether its schema is current.
pub(super) fn copy_and_check(
    from: &Path,
    file: &AtomicFile,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(Connection, bool), BackupError> {
    let (source, is_current) = sqlite::open_read_only(from)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | sqlite::FLAGS;
    let mut target = Connection::open_with_flags(file.path(), flags)?;
    sqlite::distrust_schema(&target)?;
    // Without a journal, as an incomplete copy is discarded. Synced in small steps, because on
    // ext4 an fsync of the live store also waits for what is written to new files.
    target.pragma_update(None, "journal_mode", "OFF")?;
    target.pragma_update(None, "synchronous", "OFF")?;
    // A read transaction pins one snapshot. Without it, the backup API restarts
    // whenever another connection writes.
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let copy = Backup::new(&source, &mut target)?;
    let sync = || {
        file.file().sync_all().map_err(|cause| BackupError::File {
            path: file.target().into(),
            cause,
        })
    };
    loop {
        let step = copy.step(PAGES_PER_STEP)?;
        sync()?;
        let pages = copy.progress();
        let done = pages.pagecount - pages.remaining;
        progress(done as u64, pages.pagecount as u64);
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    drop(copy);
    drop(source);
    // A single file, without a WAL beside it.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    sync()?;
    let problems = check_file(&target, is_current, |_| {})?;
    match problems.as_slice() {
        [] => Ok((target, is_current)),
        [only] => Err(BackupError::Damaged(only.clone())),
        [first, rest @ ..] => {
            let message = format!("{first} (and {} more)", rest.len());
            Err(BackupError::Damaged(message))
        }
    }
}
