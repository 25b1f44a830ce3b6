//! The identity of a store's files: what is written to a file that was deleted is
//! lost when the process ends.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::recovery::{index_path, wal_path};

/// The database file, its WAL and the WAL index, as they were opened.
#[derive(Debug)]
pub(super) struct Files {
    database: OpenFile,
    wal: OpenFile,
    index: OpenFile,
}

impl Files {
    pub(super) fn identify(path: &Path) -> Self {
        Self {
            database: OpenFile::identify(path.into()),
            wal: OpenFile::identify(wal_path(path)),
            index: OpenFile::identify(index_path(path)),
        }
    }

    /// Checks that the paths still lead to the open files.
    pub(super) fn check(&self) -> Result<(), FilesChanged> {
        if self.database.state() != State::Same {
            return Err(FilesChanged::Replaced(self.database.path.clone()));
        }
        let side_files = [&self.wal, &self.index].map(|file| (file, file.state()));
        if let Some((file, _)) = side_files.iter().find(|(_, state)| *state == State::Other) {
            return Err(FilesChanged::Replaced(file.path.clone()));
        }
        match side_files
            .iter()
            .find(|(_, state)| *state == State::Missing)
        {
            Some((file, _)) => Err(FilesChanged::Deleted(file.path.clone())),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

#[derive(PartialEq, Eq)]
enum State {
    Same,
    Other,
    Missing,
}

impl OpenFile {
    fn identify(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self { path, identity }
    }

    fn state(&self) -> State {
        match identity(&self.path) {
            found if found == self.identity => State::Same,
            Some(_) => State::Other,
            None => State::Missing,
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// What happened to the files of an open store.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesChanged {
    /// The WAL or its index is gone; the open descriptors still have the content.
    #[error("{0} was deleted while the database is open")]
    Deleted(PathBuf),
    #[error("{0} was moved, replaced or deleted; put it back, or restart the service")]
    Replaced(PathBuf),
}
