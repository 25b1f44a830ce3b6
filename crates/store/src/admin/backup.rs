//! Online backup of an SQLite file, as a consistent snapshot.

use std::{
    io,
    ops::Deref,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};
use rustix::fs::statvfs;

use super::{
    super::{
        error::{OpenError, explain, sqlite_reason},
        sqlite,
    },
    check::check_file,
};
use system::atomic_file::{AtomicFile, folder_of};

/// Pages copied between progress reports and syncs.
const PAGES_PER_STEP: i32 = 1000;

/// SQLite instructions between two looks at whether a check has to stop.
const INSTRUCTIONS_PER_LOOK: i32 = 100_000;

/// The space that a copy of a served store leaves on the disk. Without any, the service rejects
/// changes.
const SPARED_BYTES: u64 = 100 << 20;

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
    #[error(
        "not enough space in {folder}: the backup takes {size} MiB, and {free} MiB are free{}; \
         free some space",
        left_for_service(*spared)
    )]
    NoSpace {
        folder: PathBuf,
        size: u64,
        free: u64,
        spared: u64,
    },
    #[error("the service is shutting down")]
    Stopped,
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

/// The file of a store that this process serves, as the source of backups.
#[derive(Debug, Clone)]
pub struct BackupSource {
    path: PathBuf,
    event_source: String,
}

/// A complete and checked copy of a store, under a temporary name. Dropping it deletes it.
pub struct BackupCopy {
    pub file: AtomicFile,
    pub pets: u64,
    /// The parts that another program has added, because of which `restore` refuses the copy.
    pub added: Vec<String>,
}

impl BackupSource {
    pub(crate) fn new(path: &Path, event_source: &str) -> Self {
        Self {
            path: path.into(),
            event_source: event_source.into(),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the identity of the store, which its backups share.
    pub fn event_source(&self) -> &str {
        &self.event_source
    }

    /// Copies the store to a temporary file in the folder of `beside`, and checks the copy. Ends
    /// early once `stop` is set.
    ///
    /// The connection is opened as those of the readers are: the file must not be opened in
    /// another way in the process that serves it, because closing any descriptor of a file drops
    /// the POSIX locks that SQLite holds on it.
    pub fn copy(&self, beside: &Path, stop: &Arc<AtomicBool>) -> Result<BackupCopy, BackupError> {
        let failed = |cause| BackupError::File {
            path: beside.into(),
            cause,
        };
        let file = AtomicFile::create_beside(beside).map_err(failed)?;
        let source = Box::new(sqlite::connect_read_only(&self.path)?);
        let number = |pragma| source.pragma_query_value(None, pragma, |row| row.get::<_, u32>(0));
        let size = u64::from(number("page_count")?) * u64::from(number("page_size")?);
        require_space(folder_of(file.target()), size, &self.path)?;
        let mut target = copy_pages(source, &file, &mut |_, _| !stop.load(Relaxed))?;
        let stopped = stop.clone();
        let look = move || stopped.load(Relaxed);
        target.progress_handler(INSTRUCTIONS_PER_LOOK, Some(look))?;
        let checked = require_sound(&target, true).and_then(|()| {
            let count = "SELECT count(*) FROM pets";
            let pets = target.query_row(count, [], |row| row.get::<_, i64>(0))?;
            Ok((pets.unsigned_abs(), sqlite::added_objects(&target)?))
        });
        if stop.load(Relaxed) {
            return Err(BackupError::Stopped);
        }
        let (pets, added) = checked?;
        target.close().map_err(|(_, cause)| cause)?;
        Ok(BackupCopy { file, pets, added })
    }
}

/// Fails if a copy of a store has no space in a folder. On the disk of the store, it leaves some.
fn require_space(folder: &Path, size: u64, store: &Path) -> Result<(), BackupError> {
    // A file system that does not say how much is free is tried.
    let Ok(disk) = statvfs(folder) else {
        return Ok(());
    };
    let free = disk.f_bavail * disk.f_frsize;
    let spared = if is_same_disk(folder, store) {
        SPARED_BYTES
    } else {
        0
    };
    if free >= size + spared {
        return Ok(());
    }
    Err(BackupError::NoSpace {
        folder: folder.into(),
        size: size.div_ceil(1 << 20),
        free: free >> 20,
        spared: spared >> 20,
    })
}

fn left_for_service(spared: u64) -> String {
    if spared == 0 {
        return String::new();
    }
    format!(", of which {spared} MiB are left for the service")
}

/// Returns true if two paths are on the same file system.
pub fn is_same_disk(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|file| file.dev());
    matches!((device(one), device(other)), (Ok(one), Ok(other)) if one == other)
}

/// Copies a store, live or not, into an empty file, and checks the integrity of the copy.
/// Returns the open copy, and whether its schema is current.
pub(super) fn copy_and_check(
    from: &Path,
    file: &AtomicFile,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(Connection, bool), BackupError> {
    let (source, is_current) = sqlite::open_read_only(from)?;
    let mut report = |done, total| {
        progress(done, total);
        true
    };
    let target = copy_pages(source, file, &mut report)?;
    require_sound(&target, is_current)?;
    Ok((target, is_current))
}

/// Copies the pages of a store into an empty file, and closes the source. Calls `report` with the
/// number of pages copied and in total; it returns false to stop. Returns the open copy.
fn copy_pages(
    source: impl Deref<Target = Connection>,
    file: &AtomicFile,
    report: &mut impl FnMut(u64, u64) -> bool,
) -> Result<Connection, BackupError> {
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
        if !report(done as u64, pages.pagecount as u64) {
            return Err(BackupError::Stopped);
        }
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
    Ok(target)
}

fn require_sound(copy: &Connection, is_current: bool) -> Result<(), BackupError> {
    let problems = check_file(copy, is_current, |_| {})?;
    match problems.as_slice() {
        [] => Ok(()),
        [only] => Err(BackupError::Damaged(only.clone())),
        [first, rest @ ..] => {
            let message = format!("{first} (and {} more)", rest.len());
            Err(BackupError::Damaged(message))
        }
    }
}
