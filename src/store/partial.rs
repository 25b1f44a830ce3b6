//! A file in the making: it gets its name when it is whole.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

/// A file that goes away unless it is finished.
pub struct Partial {
    path: PathBuf,
    to: PathBuf,
}

impl Partial {
    /// Makes an empty file beside the one that it shall become, which must not
    /// be there. Nobody else may read it.
    pub fn create(to: &Path) -> io::Result<(Self, File)> {
        // Absolute: SQLite takes a name that starts with `file:` for another thing.
        let to = std::path::absolute(to)?;
        let mut name = to
            .file_name()
            .ok_or(io::ErrorKind::InvalidFilename)?
            .to_owned();
        if fs::symlink_metadata(&to).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        name.push(format!(".partial-{}", process::id()));
        let path = to.with_file_name(name);
        let file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok((Self { path, to }, file))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name, once it is on disk. It replaces nothing.
    pub fn finish(self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()?;
        match renameat_with(CWD, &self.path, CWD, &self.to, RenameFlags::NOREPLACE) {
            // Not every file system can; dropping removes the other name.
            Err(Errno::INVAL | Errno::NOSYS) => fs::hard_link(&self.path, &self.to)?,
            renamed => renamed?,
        }
        let folder = self.to.parent().unwrap_or(Path::new("/"));
        File::open(folder)?.sync_all()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // SQLite may have left something beside it.
        for end in ["", "-journal", "-wal", "-shm"] {
            let mut name = OsString::from(&self.path);
            name.push(end);
            // After it was finished, there is nothing under this name.
            let _ = fs::remove_file(name);
        }
    }
}
