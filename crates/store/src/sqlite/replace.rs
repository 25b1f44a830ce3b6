//! Replacing the file of a store that no process has open, and keeping the one that was
//! there.
//!
//! SQLite applies whatever write-ahead log or rollback journal it finds beside a file, so
//! those of the old file must be gone, durably, before the new one gets its name. The old
//! file needs them until then: a checkpoint copies them into it first.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use rusqlite::ErrorCode;

use super::{
    super::{Role, error::OpenError},
    checkpoint::checkpoint,
    migrate::SchemaState,
    open::{ServiceLock, canonical_path, leads_to, lock, sniff_header},
    recovery::{is_open, open_recovered},
    regular_file::open_regular,
};
use system::atomic_file::{AtomicFile, Placeholder, finish, side_file, sync_folder};

/// The suffixes of the files that SQLite would apply to a file of the same name.
const JOURNALS: [&str; 2] = ["-wal", "-journal"];

/// The suffixes of the files that belong to a store: the file itself, and its journals.
const FILES: [&str; 3] = ["", JOURNALS[0], JOURNALS[1]];

/// A store that no process has open. While this value exists, no service can open the store.
#[derive(Debug)]
pub(crate) struct ClosedStore {
    pub(crate) path: PathBuf,
    target: TargetState,
    lock: ServiceLock,
    /// The empty file that takes the place of a missing store.
    _placeholder: Option<Placeholder>,
}

impl ClosedStore {
    /// Locks a store, even a damaged one. If there is none, an empty file takes its place
    /// until the drop, so that no service can create one.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = OpenError::file(path);
        let path = canonical_path(path)?;
        let mut target = TargetState::at(&path).map_err(failed)?;
        if target == TargetState::AnotherProgram {
            return Err(OpenError::NotAPetstore(path));
        }
        let lock = match lock(&path, true).map_err(failed)? {
            Some(lock) if !is_open(&path) => lock,
            _ => return Err(OpenError::InUse(path)),
        };
        if target == TargetState::Nothing && lock.file.metadata().map_err(failed)?.len() > 0 {
            // Another process has created the file since the first look.
            target = TargetState::at(&path).map_err(failed)?;
        }
        let is_placeholder = target == TargetState::Nothing;
        Ok(Self {
            _placeholder: is_placeholder.then(|| Placeholder::new(&path)),
            path,
            target,
            lock,
        })
    }

    pub(crate) fn exists(&self) -> bool {
        self.target != TargetState::Nothing
    }

    /// Returns the file in its place, which is empty if there was none.
    pub(crate) fn file(&self) -> &File {
        &self.lock.file
    }

    /// Puts a new file in its place. Returns the new name of the old file, if there was one.
    ///
    /// If the process or the machine crashes, either the old file or the new one is in place,
    /// with everything that belongs to it. Only a damaged file, which SQLite cannot open, may
    /// be left without its journal; the journal is still there under the other name.
    pub(crate) fn replace(self, new: AtomicFile) -> io::Result<Option<PathBuf>> {
        let path = &self.path;
        if is_open(path) {
            let message = "another process has opened the store since the start; stop it and retry";
            return Err(io::Error::other(message));
        }
        finish();
        let kept = unused_name(path);
        let is_kept = self.keep(&kept).inspect_err(|_| {
            for suffix in FILES {
                let _ = fs::remove_file(side_file(&kept, suffix));
            }
        })?;
        for suffix in JOURNALS.into_iter().chain(["-shm"]) {
            unless_missing(fs::remove_file(side_file(path, suffix)))?;
        }
        sync_folder(path)?;
        new.persist_over()?;
        Ok(is_kept.then_some(kept))
    }

    /// Gives the old files another name as well, and ensures that they need no journal, unless
    /// they are damaged. Returns whether there are any.
    fn keep(&self, kept: &Path) -> io::Result<bool> {
        let path = &self.path;
        let mut is_kept = false;
        for suffix in FILES {
            if !suffix.is_empty() || self.exists() {
                let linked = fs::hard_link(side_file(path, suffix), side_file(kept, suffix));
                is_kept |= unless_missing(linked)?;
            }
        }
        sync_folder(path)?;
        if self.target == TargetState::Petstore && checkpoint_unless_damaged(path)? {
            for suffix in JOURNALS {
                unless_missing(fs::remove_file(side_file(kept, suffix)))?;
            }
        }
        Ok(is_kept)
    }
}

impl Drop for ClosedStore {
    fn drop(&mut self) {
        if !self.exists() && leads_to(&self.path, &self.lock.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Copies the whole WAL into the file. Returns `false` if the file is damaged; any other
/// failure is an error, because the WAL has changes that a sound file needs.
fn checkpoint_unless_damaged(path: &Path) -> io::Result<bool> {
    let copied = open_recovered(path, Role::Service).and_then(|opened| {
        let copied = checkpoint(&opened.db).map_err(OpenError::database(path))?;
        opened.checkpoint_and_close();
        Ok(copied)
    });
    let reason = match copied {
        Ok(true) => return Ok(true),
        Ok(false) => "another process has it open".into(),
        Err(OpenError::Database { cause, .. }) if is_damage(&cause) => return Ok(false),
        Err(error) => error.to_string(),
    };
    let wal = side_file(path, JOURNALS[0]);
    Err(io::Error::other(format!(
        "its last changes are still in {} and cannot be copied into it ({reason}); the store was \
         not changed; remove the cause, or move both files away, and restore again",
        wal.display()
    )))
}

/// Returns true if SQLite failed because of the contents of the file.
pub(crate) fn is_damage(cause: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseCorrupt, NotADatabase};
    matches!(
        cause.sqlite_error_code(),
        Some(DatabaseCorrupt | NotADatabase)
    )
}

/// The file at the path of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetState {
    Nothing,
    /// A petstore database of any version.
    Petstore,
    /// Empty, or no longer an SQLite file: the case in which a backup is needed.
    Damaged,
    AnotherProgram,
}

impl TargetState {
    fn at(path: &Path) -> io::Result<Self> {
        let file = match open_regular(path, File::options().read(true)) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            opened => opened?,
        };
        let mut magic = Vec::new();
        file.take(16).read_to_end(&mut magic)?;
        match sniff_header(path, false) {
            Ok(SchemaState::Older(_) | SchemaState::Current) | Err(OpenError::Newer { .. }) => {
                Ok(Self::Petstore)
            }
            Err(_) if magic == b"SQLite format 3\0" => Ok(Self::AnotherProgram),
            Ok(SchemaState::Empty) | Err(_) => Ok(Self::Damaged),
        }
    }
}

/// Returns an unused name for the old file, with the time at which it was replaced.
fn unused_name(path: &Path) -> PathBuf {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let suffixes = (1..).map(|n| match n {
        1 => format!(".before-restore-{now}"),
        n => format!(".before-restore-{now}-{n}"),
    });
    let mut names = suffixes.map(|suffix| side_file(path, &suffix));
    let is_unused = |name: &PathBuf| {
        FILES
            .into_iter()
            .all(|suffix| fs::symlink_metadata(side_file(name, suffix)).is_err())
    };
    names.find(is_unused).expect("there is no last number")
}

/// Returns false, instead of an error, if there was no file.
fn unless_missing(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}
