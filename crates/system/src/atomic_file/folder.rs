//! A folder to which many files are written.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::{AtomicFile, lock_folder, unfinished};

/// A folder to which files are written one after the other. Unlike after
/// [`AtomicFile::persist`], a signal may end the process after each of them.
pub struct OutputFolder {
    path: PathBuf,
    /// Held, so that the folder is searched for abandoned files only once.
    _lock: Option<File>,
}

impl OutputFolder {
    pub fn open(path: &Path) -> Self {
        Self {
            path: path.into(),
            _lock: lock_folder(path),
        }
    }

    /// Writes a file, which appears under its name once its content is complete and on disk. Fails
    /// rather than replace a file. The name is durable only after [`sync`](Self::sync).
    pub fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let file = AtomicFile::create(&self.path.join(name))?;
        file.file().write_all(content)?;
        file.file().sync_all()?;
        // A signal waits for the file to have its name.
        let unfinished = unfinished();
        let persisted = file.temporary.persist_noclobber(&file.target);
        drop(unfinished);
        persisted?;
        Ok(())
    }

    /// Makes the names of the files durable.
    pub fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// And a signal may still end the process.
    #[test]
    fn files_are_complete_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutputFolder::open(dir.path());
        folder.write("a", b"one").unwrap();
        folder.write("b", b"two").unwrap();
        let again = folder.write("a", b"three").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        folder.sync().unwrap();
        let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
        assert_eq!((read("a"), read("b")), (b"one".into(), b"two".into()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        let unfinished = unfinished();
        assert!(unfinished.files.is_empty() && !unfinished.is_finishing);
    }
}
