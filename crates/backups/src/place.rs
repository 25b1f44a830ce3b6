//! The places for backups: a folder, or a bucket.

use std::{
    fmt, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    folder::{BackupFile, Folder, hash},
    name::{BackupName, StoreId},
    s3::{Bucket, S3Error, S3Settings, S3Url},
    schedule::Schedule,
    status::Destination,
    worker::Worker,
};
use store::{BackupCopy, BackupError, BackupSource, explain};

/// The beginning of the names of incomplete backups.
const INCOMPLETE: &str = "petstore-backup";

/// The reason why there is no new backup.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Copy(#[from] BackupError),
    #[error("cannot use {path}: {}", explain(path, cause))]
    File { path: PathBuf, cause: io::Error },
    #[error("{url}: {cause}")]
    Bucket { url: S3Url, cause: S3Error },
    #[error("the thread of the backup failed: {0}")]
    Thread(io::Error),
}

impl Error {
    /// Converts the error of a file or a folder, for `map_err`.
    fn file(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        |cause| Self::File {
            path: path.into(),
            cause,
        }
    }
}

/// The result of reading a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It has the content that it was made with.
    Intact,
    Damaged,
    /// Its disk may be failing, which is when another one is needed most.
    Unreadable,
}

impl Reading {
    fn damaged(name: &BackupName) -> Self {
        tracing::warn!(file = %name, "backup is damaged; it does not count");
        Self::Damaged
    }

    fn unreadable(name: &BackupName, error: &dyn fmt::Display) -> Self {
        tracing::warn!(file = %name, %error, "backup cannot be read; it does not count");
        Self::Unreadable
    }
}

/// A place for the backups of one store.
pub trait Place {
    const DESTINATION: Destination;

    /// Waits until there may be a backup to take.
    async fn wait(&mut self, schedule: &Schedule);

    /// Returns the backups of the store in this place, the oldest first.
    async fn list(&mut self) -> Result<Vec<BackupFile>, Error>;

    /// Reads a backup, and logs why it does not count. Fails if no backup could be read here.
    async fn read(&mut self, backup: &BackupFile) -> Result<Reading, Error>;

    /// Returns true if there is a newer backup elsewhere that only has to be stored here.
    fn has_source(&self, newest: &BackupFile) -> bool;

    /// Stores a newer backup here, and checks it: a copy of the store, or a backup that exists
    /// elsewhere.
    async fn make(
        &mut self,
        newest: Option<&BackupFile>,
        now: Timestamp,
    ) -> Result<BackupFile, Error>;

    async fn delete(&mut self, name: &BackupName) -> Result<(), Error>;
}

/// The store, and the thread that copies it.
#[derive(Debug, Clone)]
pub struct Copier {
    pub source: BackupSource,
    pub store: StoreId,
    pub worker: Worker,
}

impl Copier {
    /// Copies the store to a temporary file in a folder, checks the copy, and chooses its name.
    fn copy(
        &self,
        folder: &Path,
        now: Timestamp,
        stop: &Arc<AtomicBool>,
    ) -> Result<(BackupCopy, BackupFile), Error> {
        let copy = self.source.copy(&folder.join(INCOMPLETE), stop)?;
        let failed = Error::file(copy.file.path());
        let file = copy.file.file();
        let bytes = file.metadata().map_err(failed)?.len();
        let hash = hash(file, |_| !stop.load(Relaxed)).map_err(failed)?;
        let name = BackupName::new(now, copy.pets, self.store, hash);
        if !copy.added.is_empty() {
            let objects = copy.added.join(", ");
            tracing::warn!(file = %name, objects, "backup has parts that restore refuses");
        }
        Ok((copy, BackupFile { name, bytes }))
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<AtomicBool>) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.worker.run(work).await.map_err(Error::Thread)
    }
}

pub struct FolderPlace {
    folder: Folder,
    copier: Copier,
    /// The file system of the folder, once it was there.
    device: Option<u64>,
}

impl FolderPlace {
    pub fn new(path: &Path, copier: Copier) -> Self {
        Self {
            folder: Folder::new(path),
            copier,
            device: None,
        }
    }
}

impl Place for FolderPlace {
    const DESTINATION: Destination = Destination::Folder;

    async fn wait(&mut self, schedule: &Schedule) {
        schedule.wait().await;
    }

    async fn list(&mut self) -> Result<Vec<BackupFile>, Error> {
        let folder = self.folder.clone();
        let Copier { source, store, .. } = self.copier.clone();
        let before = self.device;
        let list = move |_: &_| {
            if before.is_none() {
                folder.create()?;
            }
            let device = folder.path().metadata()?.dev();
            if before.is_some_and(|before| before != device) {
                let message = "it is on another disk than before; mount its own one or, if this is the right \
                               one, restart the service";
                return Err(io::Error::other(message));
            }
            let mut found = folder.list(Some(source.path()))?;
            found.retain(|file| file.name.store == store);
            Ok((device, found))
        };
        let listed = self.copier.run(list).await?;
        let (device, found) = listed.map_err(Error::file(self.folder.path()))?;
        self.device = Some(device);
        Ok(found)
    }

    async fn read(&mut self, backup: &BackupFile) -> Result<Reading, Error> {
        let folder = self.folder.clone();
        let name = backup.name.clone();
        let read = move |stop: &Arc<AtomicBool>| folder.is_intact(&name, |_| !stop.load(Relaxed));
        let read = self.copier.run(read).await?;
        match read {
            Err(_) if self.copier.worker.is_stopped() => Err(BackupError::Stopped.into()),
            Err(error) => Ok(Reading::unreadable(&backup.name, &error)),
            Ok(false) => Ok(Reading::damaged(&backup.name)),
            Ok(true) => Ok(Reading::Intact),
        }
    }

    fn has_source(&self, _: &BackupFile) -> bool {
        false
    }

    async fn make(&mut self, _: Option<&BackupFile>, now: Timestamp) -> Result<BackupFile, Error> {
        let folder = self.folder.path().to_path_buf();
        let copier = self.copier.clone();
        let make = move |stop: &Arc<AtomicBool>| {
            let (copy, made) = copier.copy(&folder, now, stop)?;
            let persisted = copy.file.persist_as(&made.name.to_string());
            persisted.map_err(Error::file(&folder))?;
            Ok(made)
        };
        self.copier.run(make).await?
    }

    async fn delete(&mut self, name: &BackupName) -> Result<(), Error> {
        let deleted = self.folder.delete(name);
        deleted.map_err(Error::file(&self.folder.file(name)))
    }
}

pub struct BucketPlace {
    url: S3Url,
    settings: Arc<S3Settings>,
    bucket: Bucket,
    copier: Copier,
    local: Option<LocalBackups>,
}

/// The backups in the folder, each of which is uploaded, too.
pub struct LocalBackups {
    pub folder: Folder,
    /// The newest one that is known after each attempt to take another, also if it failed.
    pub results: watch::Receiver<Option<BackupFile>>,
}

impl BucketPlace {
    pub fn new(
        url: S3Url,
        settings: Arc<S3Settings>,
        copier: Copier,
        local: Option<LocalBackups>,
    ) -> Self {
        Self {
            bucket: Bucket::new(url.clone(), settings.clone()),
            url,
            settings,
            copier,
            local,
        }
    }

    /// Returns the newest backup in the folder, if it is newer than that of the bucket.
    fn newer(&self, newest: Option<&BackupFile>) -> Option<(&Folder, BackupFile)> {
        let local = self.local.as_ref()?;
        let backup = local.results.borrow().clone()?;
        let is_newer = newest.is_none_or(|newest| newest.name.time < backup.name.time);
        is_newer.then_some((&local.folder, backup))
    }

    fn failed(&self) -> impl Fn(S3Error) -> Error {
        let url = self.url.clone();
        move |cause| Error::Bucket {
            url: url.clone(),
            cause,
        }
    }
}

impl Place for BucketPlace {
    const DESTINATION: Destination = Destination::S3;

    /// Each attempt of the folder is followed by one here, so that a backup is made once.
    async fn wait(&mut self, schedule: &Schedule) {
        match &mut self.local {
            None => schedule.wait().await,
            Some(local) => tokio::select! {
                Ok(()) = local.results.changed() => {}
                () = schedule.wait_for_retry() => {}
            },
        }
    }

    async fn list(&mut self) -> Result<Vec<BackupFile>, Error> {
        // The connection of the last attempt is closed by now.
        self.bucket = Bucket::new(self.url.clone(), self.settings.clone());
        let mut found = self.bucket.list().await.map_err(self.failed())?;
        found.retain(|it| it.name.store == self.copier.store);
        Ok(found)
    }

    async fn read(&mut self, backup: &BackupFile) -> Result<Reading, Error> {
        match self.bucket.read(backup, |_, _| Ok(())).await {
            Ok(()) => Ok(Reading::Intact),
            Err(S3Error::Damaged(_)) => Ok(Reading::damaged(&backup.name)),
            Err(error) if error.is_about_object() => Ok(Reading::unreadable(&backup.name, &error)),
            // Another one could not be read back either.
            Err(error) => Err(self.failed()(error)),
        }
    }

    fn has_source(&self, newest: &BackupFile) -> bool {
        self.newer(Some(newest)).is_some()
    }

    async fn make(
        &mut self,
        newest: Option<&BackupFile>,
        now: Timestamp,
    ) -> Result<BackupFile, Error> {
        if let Some((folder, backup)) = self.newer(newest) {
            let stored = match folder.open(&backup.name) {
                Ok(file) => self.bucket.put(&backup, Arc::new(file)).await,
                Err(error) => Err(error.into()),
            };
            // Without that file, the store is copied.
            let _ = match stored {
                Ok(()) => return Ok(backup),
                Err(S3Error::FileChanged) => Reading::damaged(&backup.name),
                Err(S3Error::File(error)) => Reading::unreadable(&backup.name, &error),
                Err(error) => return Err(self.failed()(error)),
            };
        }
        let copier = self.copier.clone();
        let copy = move |stop: &Arc<AtomicBool>| {
            let beside = copier.source.path().parent().unwrap_or(Path::new(""));
            copier.copy(beside, now, stop)
        };
        let (copy, backup) = self.copier.run(copy).await??;
        let file = copy.file.file().try_clone();
        let file = file.map_err(Error::file(copy.file.path()))?;
        let stored = self.bucket.put(&backup, Arc::new(file)).await;
        stored.map_err(self.failed())?;
        Ok(backup)
    }

    async fn delete(&mut self, name: &BackupName) -> Result<(), Error> {
        self.bucket.delete(name).await.map_err(self.failed())
    }
}
