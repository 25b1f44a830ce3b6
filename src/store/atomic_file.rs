//! Atomic file creation: a file appears under its name only when it is complete
//! and on disk.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

/// A temporary file in the folder of its target. It is deleted unless persisted.
pub(crate) struct AtomicFile {
    temporary: NamedTempFile,
    target: PathBuf,
    _side_files: SideFiles,
}

impl AtomicFile {
    /// Creates an empty file (mode 0600) in the folder of `target`, which must
    /// not exist yet.
    pub(crate) fn create(target: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(target).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Self::create_beside(target)
    }

    /// Creates an empty file (mode 0600) in the folder of `target`, which may exist.
    pub(crate) fn create_beside(target: &Path) -> io::Result<Self> {
        // Absolute: SQLite would parse a relative path that starts with `file:`
        // as a URI.
        let target = std::path::absolute(target)?;
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        let mut prefix = name.to_owned();
        prefix.push(".partial-");
        let temporary = Builder::new()
            .prefix(&prefix)
            .tempfile_in(folder(&target))?;
        Ok(Self {
            _side_files: SideFiles(temporary.path().into()),
            temporary,
            target,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Syncs the file, renames it to its target, and syncs the folder. Fails
    /// rather than replace a file.
    pub(crate) fn persist(self) -> io::Result<()> {
        self.file().sync_all()?;
        self.temporary.persist_noclobber(&self.target)?;
        sync_folder(&self.target)
    }

    /// Like [`persist`](Self::persist), but replaces the file that is there.
    pub(crate) fn persist_over(self) -> io::Result<()> {
        self.file().sync_all()?;
        self.temporary.persist(&self.target)?;
        sync_folder(&self.target)
    }
}

/// Makes new, renamed and deleted names in the folder of a file durable.
pub(super) fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

fn folder(target: &Path) -> &Path {
    target.parent().unwrap_or(Path::new("/"))
}

/// What SQLite may leave beside the temporary file. Deleted on drop.
struct SideFiles(PathBuf);

impl Drop for SideFiles {
    fn drop(&mut self) {
        for suffix in ["-journal", "-wal", "-shm"] {
            let mut name = OsString::from(&self.0);
            name.push(suffix);
            // Usually there is none.
            let _ = fs::remove_file(name);
        }
    }
}
