//! Atomic file creation: a file appears under its name only when it is complete
//! and on disk.

mod folder;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io, mem,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard},
    thread,
    time::Duration,
};

use tempfile::{Builder, NamedTempFile};

pub use folder::OutputFolder;

/// The files that this process must not leave behind, for [`discard_unfinished`].
struct UnfinishedFiles {
    files: Vec<PathBuf>,
    /// Empty files that reserve a name.
    placeholders: Vec<PathBuf>,
    /// True once a file is getting its name.
    is_finishing: bool,
}

static UNFINISHED: Mutex<UnfinishedFiles> = Mutex::new(UnfinishedFiles {
    files: Vec::new(),
    placeholders: Vec::new(),
    is_finishing: false,
});

fn unfinished() -> MutexGuard<'static, UnfinishedFiles> {
    let unfinished = UNFINISHED.lock();
    unfinished.expect("no thread panics while holding the lock")
}

/// Deletes incomplete files, before a signal ends the process. From then on, no file gets its
/// name.
///
/// Returns `false`, and deletes nothing, if a file is just getting its name.
pub fn discard_unfinished() -> bool {
    let unfinished = unfinished();
    if unfinished.is_finishing {
        return false;
    }
    for file in &unfinished.files {
        let _ = fs::remove_file(file);
        remove_side_files(file);
    }
    let is_empty = |file: &&PathBuf| fs::symlink_metadata(file).is_ok_and(|file| file.len() == 0);
    for placeholder in unfinished.placeholders.iter().filter(is_empty) {
        let _ = fs::remove_file(placeholder);
    }
    // The lock is held until the process has ended.
    mem::forget(unfinished);
    true
}

/// Stops discarding files: from now on, the operation in progress completes.
pub fn finish() {
    unfinished().is_finishing = true;
}

/// An empty file that reserves a name. Until this is dropped, a signal deletes the file.
#[derive(Debug)]
pub struct Placeholder(PathBuf);

impl Placeholder {
    pub fn new(file: &Path) -> Self {
        unfinished().placeholders.push(file.into());
        Self(file.into())
    }
}

impl Drop for Placeholder {
    fn drop(&mut self) {
        unfinished().placeholders.retain(|file| *file != self.0);
    }
}

/// A temporary file in the folder of its target. It is deleted unless persisted.
pub struct AtomicFile {
    temporary: NamedTempFile,
    target: PathBuf,
    _side_files: SideFiles,
    /// The folder, locked until the file has its name. Dropped last.
    _folder: Option<File>,
}

impl AtomicFile {
    /// Creates an empty file (mode 0600) in the folder of `target`, which must
    /// not exist yet.
    pub fn create(target: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(target).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Self::create_beside(target)
    }

    /// Creates an empty file (mode 0600) in the folder of `target`, which may exist.
    pub fn create_beside(target: &Path) -> io::Result<Self> {
        // Absolute: SQLite would parse a relative path that starts with `file:` as a URI. And it
        // opens the file only if there is no link in its path.
        let target = resolve_folder(target)?;
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut prefix = name.to_owned();
        prefix.push(PARTIAL);
        let _folder = lock_folder(folder_of(&target));
        let mut unfinished = unfinished();
        let temporary = Builder::new()
            .prefix(&prefix)
            .tempfile_in(folder_of(&target))?;
        unfinished.files.push(temporary.path().into());
        Ok(Self {
            _side_files: SideFiles(temporary.path().into()),
            temporary,
            target,
            _folder,
        })
    }

    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Syncs the file, renames it to its target, and syncs the folder. Fails
    /// rather than replace a file.
    pub fn persist(self) -> io::Result<()> {
        self.file().sync_all()?;
        finish();
        self.temporary.persist_noclobber(&self.target)?;
        sync_folder(&self.target)
    }

    /// Like [`persist`](Self::persist), but with a name in the same folder that was not known
    /// before.
    pub fn persist_as(mut self, name: &str) -> io::Result<()> {
        self.target.set_file_name(name);
        self.persist()
    }

    /// Like [`persist`](Self::persist), but replaces the file that is there.
    pub fn persist_over(self) -> io::Result<()> {
        self.file().sync_all()?;
        finish();
        self.temporary.persist(&self.target)?;
        sync_folder(&self.target)
    }
}

/// Makes new, renamed and deleted names in the folder of a file durable.
pub fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(folder_of(file))?.sync_all()
}

/// The part of the names of temporary files before six random characters.
const PARTIAL: &str = ".petstore.partial-";

/// Takes a shared lock on a folder. Every process that writes a file to the folder holds one. If
/// there is no other, first deletes the files that killed processes have left. Returns `None` if
/// the file system has no such locks.
fn lock_folder(folder: &Path) -> Option<File> {
    let lock = File::open(folder).ok()?;
    if lock.try_lock().is_ok() {
        remove_abandoned(folder);
    }
    // Another process may be deleting abandoned files.
    let mut retries = 0..100;
    while lock.try_lock_shared().is_err() {
        retries.next()?;
        thread::sleep(Duration::from_millis(20));
    }
    Some(lock)
}

/// Deletes the temporary files of processes that have ended.
fn remove_abandoned(folder: &Path) {
    let is_temporary = |name: &OsStr| {
        let name = name.to_string_lossy();
        let random = name.rsplit_once(PARTIAL).map(|(_, random)| random);
        random.is_some_and(|it| it.len() == 6 && it.bytes().all(|b| b.is_ascii_alphanumeric()))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_temporary(&entry.file_name())) {
        let file = entry.path();
        // The files of another user cannot be deleted.
        if fs::remove_file(&file).is_ok() {
            remove_side_files(&file);
        }
    }
}

/// The files that SQLite may leave beside the temporary file. Dropping it deletes them.
struct SideFiles(PathBuf);

impl Drop for SideFiles {
    fn drop(&mut self) {
        remove_side_files(&self.0);
        unfinished().files.retain(|file| *file != self.0);
    }
}

fn remove_side_files(file: &Path) {
    for suffix in ["-journal", "-wal", "-shm"] {
        // Usually there is none.
        let _ = fs::remove_file(side_file(file, suffix));
    }
}

/// Returns the path of a file with all links in its folder resolved. The file itself may be
/// missing, or a link.
pub fn resolve_folder(file: &Path) -> io::Result<PathBuf> {
    let name = file.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let folder = match folder_of(file) {
        current if current == Path::new("") => Path::new("."),
        folder => folder,
    };
    Ok(fs::canonicalize(folder)?.join(name))
}

pub fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Returns the path of a file beside another, with a suffix appended to its name.
pub fn side_file(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
