//! A copy of an SQLite file at one moment, made while it is served.

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
    super::{OpenError, partial::Partial, sqlite},
    check::check_file,
};

/// How many pages are copied in one go.
const STEP: i32 = 1000;

/// Why there is no copy. Nothing is left of it.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("{0} is there already; name a file that is not")]
    Exists(PathBuf),
    #[error("cannot write {path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("cannot copy: {0}")]
    Copy(#[from] rusqlite::Error),
    #[error("the copy is damaged, and so is the store, most likely: {0}")]
    Damaged(String),
}

/// Copies a store to a file that must not be there yet. `progress` is told how
/// many of how many pages are done.
///
/// The copy has all that was acknowledged before this was called. It appears
/// under its name when it is whole, verified and on disk.
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
    let (partial, _) = Partial::create(to).map_err(failed)?;
    let (source, is_current) = sqlite::open_to_read(from)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut target = Connection::open_with_flags(partial.path(), flags)?;
    // One state of the file: without the transaction, SQLite would begin anew
    // with every write of others.
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let copying = Backup::new(&source, &mut target)?;
    loop {
        let step = copying.step(STEP)?;
        let pages = copying.progress();
        let done = pages.pagecount - pages.remaining;
        progress(done as u64, pages.pagecount as u64);
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
    drop(copying);
    drop(source);
    // One file, without a log beside it.
    target.pragma_update(None, "journal_mode", "DELETE")?;
    let wrong = check_file(&target, is_current, |_| {})?;
    if !wrong.is_empty() {
        return Err(BackupError::Damaged(wrong.join("; ")));
    }
    target.close().map_err(|(_, cause)| cause)?;
    partial.finish().map_err(failed)
}
