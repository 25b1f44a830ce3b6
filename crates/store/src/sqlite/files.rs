//! The identity of a store's files: data written to a deleted file is lost when the process ends.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::{
    recovery::{index_path, wal_path},
    regular_file::open_regular,
};

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
    pub fn check(&self) -> Result<(), FilesChanged> {
        if self.database.state() != State::Same {
            return Err(FilesChanged::Replaced(self.database.path.clone()));
        }
        match self.wal.state() {
            State::Same => {}
            State::Other if has_frames(&self.wal.path) => {
                return Err(FilesChanged::Replaced(self.wal.path.clone()));
            }
            // Any process that opens the database creates an empty WAL.
            State::Other | State::Missing => {
                return Err(FilesChanged::Deleted(self.wal.path.clone()));
            }
        }
        match self.index.state() {
            State::Same => Ok(()),
            // An index has no content of its own, but locks in two of them do not exclude each
            // other.
            State::Other => Err(FilesChanged::Replaced(self.index.path.clone())),
            State::Missing => Err(FilesChanged::Deleted(self.index.path.clone())),
        }
    }
}

/// Returns true if a WAL begins with the magic number of its header; recovery ignores it
/// otherwise.
fn has_frames(wal: &Path) -> bool {
    let mut magic = [0; 4];
    let opened = open_regular(wal, File::options().read(true));
    let read = opened.and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic[..3] == [0x37, 0x7f, 0x06]
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

/// Returns the device and inode of a file.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = fs::symlink_metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// A change to the files of an open store.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilesChanged {
    /// The WAL or its index is gone; the open descriptors still have the content.
    #[error("{0} was deleted while the database is open")]
    Deleted(PathBuf),
    #[error("{0} was moved, replaced or deleted; put it back")]
    Replaced(PathBuf),
}
