//! Replacing the file of a store that no process has open, and keeping the one that was
//! there.
//!
//! SQLite applies whatever write-ahead log or rollback journal it finds beside a file, so
//! those of the old file must be gone, durably, before the new one gets its name. The old
//! file needs them until then: they are folded into it first.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    super::{
        Options, Role,
        atomic_file::{AtomicFile, sync_folder},
        error::OpenError,
    },
    migrate::SchemaState,
    open::{canonical_path, lock, sniff_header},
    recovery::{is_open, open_recovered, side_file},
};

/// What SQLite would apply to a file of the same name.
const JOURNALS: [&str; 2] = ["-wal", "-journal"];

/// A store that no process has open, or the name of one that does not exist. Meanwhile no
/// service can open it.
#[derive(Debug)]
pub(crate) struct ClosedStore {
    pub(crate) path: PathBuf,
    found: Found,
    /// `None` if there is no file.
    lock: Option<File>,
}

impl ClosedStore {
    /// Locks a store, even a damaged one.
    pub(crate) fn lock(path: &Path) -> Result<Self, OpenError> {
        let failed = |cause| OpenError::File {
            path: path.into(),
            cause,
        };
        let path = canonical_path(path).map_err(failed)?;
        let found = Found::at(&path).map_err(failed)?;
        if found == Found::AnotherProgram {
            return Err(OpenError::NotAPetstore(path));
        }
        let lock = match lock(&path, false) {
            Ok(Some(lock)) if !is_open(&path) => Some(lock),
            Ok(_) => return Err(OpenError::InUse(path)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
            Err(cause) => return Err(OpenError::File { path, cause }),
        };
        Ok(Self { path, found, lock })
    }

    pub(crate) fn exists(&self) -> bool {
        self.lock.is_some()
    }

    /// Puts a new file in its place. Returns the name that the old one has now, if there
    /// was one.
    ///
    /// If the process or the machine crashes, the old file is in place or the new one, each
    /// with everything that belongs to it. Only a damaged file, which SQLite cannot open, may be
    /// left without its journal; its other name still has it.
    pub(crate) fn replace(self, new: AtomicFile) -> io::Result<Option<PathBuf>> {
        let path = &self.path;
        if is_open(path) {
            let message = "another process has opened the store meanwhile; stop it and retry";
            return Err(io::Error::other(message));
        }
        let kept = unused_name(path);
        let mut is_kept = false;
        for suffix in ["", JOURNALS[0], JOURNALS[1]] {
            let linked = fs::hard_link(side_file(path, suffix), side_file(&kept, suffix));
            is_kept |= unless_missing(linked)?;
        }
        sync_folder(path)?;
        if self.found == Found::Petstore && fold_journal(path) {
            for suffix in JOURNALS {
                unless_missing(fs::remove_file(side_file(&kept, suffix)))?;
            }
        }
        for suffix in JOURNALS.into_iter().chain(["-shm"]) {
            unless_missing(fs::remove_file(side_file(path, suffix)))?;
        }
        sync_folder(path)?;
        match self.exists() {
            true => new.persist_over()?,
            // Another process may have created one.
            false => new.persist()?,
        }
        Ok(is_kept.then_some(kept))
    }
}

/// Moves the content of the WAL into the file. Returns whether nothing is left in it.
fn fold_journal(path: &Path) -> bool {
    let Ok(opened) = open_recovered(path, Role::Service) else {
        return false;
    };
    opened.checkpoint_and_close();
    !side_file(path, JOURNALS[0]).exists()
}

/// What is in the place of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Of any version.
    Petstore,
    /// Empty, or no longer an SQLite file: that is when a backup is needed.
    Damaged,
    AnotherProgram,
}

impl Found {
    fn at(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(file) if file.is_file() => {}
            Ok(_) => return Ok(Self::AnotherProgram),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            Err(cause) => return Err(cause),
        }
        let mut magic = Vec::new();
        File::open(path)?.take(16).read_to_end(&mut magic)?;
        match sniff_header(path, &Options::new(Role::Command)) {
            Ok(SchemaState::Older(_) | SchemaState::Current) | Err(OpenError::Newer { .. }) => {
                Ok(Self::Petstore)
            }
            Err(_) if magic == b"SQLite format 3\0" => Ok(Self::AnotherProgram),
            Ok(SchemaState::Empty) | Err(_) => Ok(Self::Damaged),
        }
    }
}

/// A name for the old file that says what it is and when it was replaced.
fn unused_name(path: &Path) -> PathBuf {
    let now = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let suffixes = (1..).map(|n| match n {
        1 => format!(".before-restore-{now}"),
        n => format!(".before-restore-{now}-{n}"),
    });
    let mut names = suffixes.map(|suffix| side_file(path, &suffix));
    let is_unused = |name: &PathBuf| {
        let mut files = ["", JOURNALS[0], JOURNALS[1]].into_iter();
        files.all(|suffix| fs::symlink_metadata(side_file(name, suffix)).is_err())
    };
    names.find(is_unused).expect("there is no last number")
}

/// Whether there was a file.
fn unless_missing(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(cause),
    }
}
