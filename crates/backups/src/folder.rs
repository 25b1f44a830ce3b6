//! Backups in a folder.

use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::name::BackupName;

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// A backup that a folder or a bucket has. Its content is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupFile {
    pub name: BackupName,
    pub bytes: u64,
}

/// A folder with backups, and with other files, which are left alone.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(path: &Path) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder, for its owner only, if it is missing.
    pub fn create(&self) -> io::Result<()> {
        match fs::DirBuilder::new().mode(0o700).create(&self.path) {
            Err(_) if self.path.is_dir() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "it is a file; specify a folder",
            )),
            created => created,
        }
    }

    pub fn file(&self, name: &BackupName) -> PathBuf {
        self.path.join(name.to_string())
    }

    /// Returns the backups in the folder, the oldest first, but never the file of `store`: a
    /// backup may have been put into service where it was.
    pub fn list(&self, store: Option<&Path>) -> io::Result<Vec<BackupFile>> {
        let identity = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            Some((file.dev(), file.ino()))
        };
        let served = store.and_then(identity);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let file_name = entry.file_name();
            let Some(name) = file_name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // The file may have been deleted since; a link is not followed.
            let Ok(file) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            if file.is_file() && served != Some((file.dev(), file.ino())) {
                let bytes = file.len();
                found.push(BackupFile { name, bytes });
            }
        }
        found.sort();
        Ok(found)
    }

    /// Opens a backup, without following a link.
    pub fn open(&self, name: &BackupName) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(self.file(name))
    }

    /// Returns true if a backup has the content that it was made with. Ends early, with an error,
    /// if `keep_reading` returns false.
    pub fn is_intact(
        &self,
        name: &BackupName,
        keep_reading: impl FnMut(u64) -> bool,
    ) -> io::Result<bool> {
        Ok(name.matches(hash(self.open(name)?, keep_reading)?))
    }

    pub fn delete(&self, name: &BackupName) -> io::Result<()> {
        fs::remove_file(self.file(name))
    }
}

/// Reads a file to its end. Calls `keep_reading` with the number of bytes read so far.
pub fn hash(mut file: impl Read, mut keep_reading: impl FnMut(u64) -> bool) -> io::Result<Sha256> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok(hash);
        }
        hash.update(&buffer[..length]);
        total += length as u64;
        if !keep_reading(total) {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
}
