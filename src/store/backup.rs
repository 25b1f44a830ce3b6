//! A copy of an SQLite file at one moment, made while it is served.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{OpenError, check::check_file, sqlite};

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
    let failed = |cause| BackupError::File {
        path: to.into(),
        cause,
    };
    if to.exists() {
        return Err(BackupError::Exists(to.into()));
    }
    let source = sqlite::open_to_read(from)?;
    let partial = Partial::create(to).map_err(failed)?;
    let mut target = Connection::open(&partial.0)?;
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
    let wrong = check_file(&target, |_| {})?;
    if !wrong.is_empty() {
        return Err(BackupError::Damaged(wrong.join("; ")));
    }
    target.close().map_err(|(_, cause)| cause)?;
    partial.finish(to).map_err(|cause| match cause.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(to.into()),
        _ => failed(cause),
    })
}

/// A file in the making, which goes away unless it is finished.
struct Partial(PathBuf);

impl Partial {
    fn create(to: &Path) -> io::Result<Self> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!(".partial-{}", process::id()));
        let path = to.with_file_name(name);
        // It has the hashes of keys: nobody else's business.
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self(path))
    }

    /// Gives it its name, once it is on disk.
    fn finish(self, to: &Path) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        renameat_with(CWD, &self.0, CWD, to, RenameFlags::NOREPLACE)?;
        let folder = match to.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        File::open(folder)?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was finished, there is nothing under this name.
        let _ = fs::remove_file(&self.0);
    }
}
