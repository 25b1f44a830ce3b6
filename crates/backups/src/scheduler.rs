//! Takes backups when they are due, one at a time.

use std::{
    collections::BTreeSet,
    io, panic,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{Instant, sleep},
};

use super::{
    folder::{BackupFile, Folder, hash},
    name::{BackupName, StoreId},
    s3::{Bucket, S3Error, S3Settings, S3Url},
    schedule::{Schedule, is_past},
    status::{Destination, Status},
};
use store::{BackupCopy, BackupError, BackupSource, explain};
use system::priority;
use telemetry::error_latch::ErrorLatch;

/// The longest sleep: the clock may be set, and a suspended machine does not count the time.
const MAX_SLEEP: Duration = Duration::from_secs(60);
const MIN_SLEEP: Duration = Duration::from_millis(10);

/// The beginning of the names of incomplete backups.
const INCOMPLETE: &str = "petstore-backup";

/// The backups to take.
#[derive(Debug, Clone)]
pub struct Config {
    pub folder: Option<PathBuf>,
    pub bucket: Option<(S3Url, Arc<S3Settings>)>,
    pub every: SignedDuration,
    /// The number of backups to keep in each destination.
    pub keep: usize,
}

/// Takes backups of a store.
pub struct Backups {
    config: Config,
    source: BackupSource,
    store: StoreId,
    status: Arc<Status>,
    /// Ends the copy or the check in progress.
    stop: Arc<AtomicBool>,
    /// Held by the thread that works.
    turn: Arc<Semaphore>,
}

/// The reason why there is no new backup.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Copy(#[from] BackupError),
    #[error("cannot use {path}: {}", explain(path, cause))]
    File { path: PathBuf, cause: io::Error },
    #[error(transparent)]
    Upload(#[from] S3Error),
    #[error("a bug: the thread of the backup panicked")]
    Panic,
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

/// The state of one destination between two attempts.
struct Plan {
    destination: Destination,
    /// The position of the destination in the status.
    index: usize,
    schedule: Schedule,
    latch: ErrorLatch,
    known: Known,
}

impl Plan {
    fn new(index: usize, destination: Destination, every: SignedDuration) -> Self {
        let activity = match destination {
            Destination::Folder => "backup",
            Destination::S3 => "off-site backup",
        };
        Self {
            destination,
            index,
            schedule: Schedule::new(every),
            latch: ErrorLatch::new(activity),
            known: Known::default(),
        }
    }
}

/// The backups of a destination that are known to be intact, or to be damaged or unreadable.
#[derive(Debug, Default, Clone)]
struct Known {
    newest: Option<BackupFile>,
    damaged: BTreeSet<BackupName>,
}

/// The result of an attempt that did not fail.
enum Attempt {
    /// The newest backup is not due yet.
    NotDue,
    Made,
}

impl Backups {
    pub fn new(source: BackupSource, config: Config) -> Self {
        let folder = config.folder.as_ref().map(|_| Destination::Folder);
        let bucket = config.bucket.as_ref().map(|_| Destination::S3);
        let destinations: Vec<_> = folder.into_iter().chain(bucket).collect();
        Self {
            store: StoreId::new(source.event_source()),
            status: Arc::new(Status::new(config.every, &destinations)),
            stop: Arc::default(),
            turn: Arc::new(Semaphore::new(1)),
            source,
            config,
        }
    }

    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Takes backups until the future is dropped.
    pub async fn run(&self) {
        let destinations = self.status.destinations().into_iter().enumerate();
        let mut plans: Vec<_> = destinations
            .map(|(index, it)| Plan::new(index, it.destination, self.config.every))
            .collect();
        // The newest backup in the folder, which is uploaded, too.
        let mut local = None;
        loop {
            let mut wake = Timestamp::now() + MAX_SLEEP;
            for plan in &mut plans {
                let now = Timestamp::now();
                if plan.schedule.next(now).is_none_or(|at| at <= now) {
                    self.attempt(plan, local.as_ref()).await;
                }
                if plan.destination == Destination::Folder {
                    local = plan.known.newest.clone();
                }
                wake = wake.min(plan.schedule.next(Timestamp::now()).unwrap_or(wake));
            }
            let left = wake.duration_since(Timestamp::now());
            let left = Duration::try_from(left).unwrap_or_default();
            sleep(left.clamp(MIN_SLEEP, MAX_SLEEP)).await;
        }
    }

    /// Ends the copy or the check in progress, and waits until its file is deleted.
    pub async fn shutdown(&self) {
        self.stop.store(true, Relaxed);
        let _ = self.turn.acquire().await;
    }

    async fn attempt(&self, plan: &mut Plan, local: Option<&BackupFile>) {
        let begun = Instant::now();
        let now = Timestamp::now();
        let schedule = plan.schedule.clone();
        let is_due = move |newest| schedule.is_due(newest, now);
        let attempt = match plan.destination {
            Destination::Folder => self.attempt_folder(&mut plan.known, is_due, now).await,
            Destination::S3 => {
                let known = &mut plan.known;
                self.attempt_upload(known, is_due, now, local).await
            }
        };
        if self.stop.load(Relaxed) {
            return;
        }
        match (&attempt, &plan.known.newest) {
            (Ok(Attempt::NotDue), Some(newest)) => {
                plan.schedule.wait_after(newest.name.time, now);
                self.status.succeed(plan.index, newest.clone());
            }
            (Ok(Attempt::Made), Some(newest)) => {
                plan.schedule.succeed(newest.name.time);
                self.status.succeed(plan.index, newest.clone());
                let BackupFile { name, bytes } = newest;
                let duration = begun.elapsed().as_millis();
                tracing::info!(
                    destination = %plan.destination,
                    file = %name,
                    bytes,
                    pets = name.pets,
                    duration_ms = u64::try_from(duration).unwrap_or(u64::MAX),
                    "backup complete"
                );
            }
            (Ok(_), None) => unreachable!("an attempt that did not fail has a backup"),
            (Err(error), newest) => {
                let error = error.to_string();
                let failures = self.status.fail(plan.index, newest.clone(), &error);
                plan.schedule.fail(failures, Timestamp::now());
            }
        }
        plan.latch.observe(attempt);
    }

    async fn attempt_folder(
        &self,
        known: &mut Known,
        is_due: impl Fn(Option<Timestamp>) -> bool + Send + 'static,
        now: Timestamp,
    ) -> Result<Attempt, Error> {
        let keeper = self.folder_keeper().ok_or(Error::Panic)?;
        let mut shared = known.clone();
        let work = move || {
            let attempt = keeper.attempt(&mut shared, is_due, now);
            (shared, attempt)
        };
        let (updated, attempt) = self.on_thread(work).await.ok_or(Error::Panic)?;
        *known = updated;
        attempt
    }

    fn folder_keeper(&self) -> Option<FolderKeeper> {
        Some(FolderKeeper {
            folder: Folder::new(self.config.folder.as_ref()?),
            store: self.store,
            keep: self.config.keep,
            source: self.source.clone(),
            stop: self.stop.clone(),
        })
    }

    /// Uploads the newest backup of the folder or, without one, a copy beside the store.
    async fn attempt_upload(
        &self,
        known: &mut Known,
        is_due: impl Fn(Option<Timestamp>) -> bool,
        now: Timestamp,
        local: Option<&BackupFile>,
    ) -> Result<Attempt, Error> {
        let Some((url, settings)) = &self.config.bucket else {
            return Err(Error::Panic);
        };
        let mut bucket = Bucket::new(url.clone(), settings.clone());
        let mut own = bucket.list().await?;
        own.retain(|it| it.name.store == self.store);
        let past = own.iter().rev().find(|it| is_past(it.name.time, now));
        known.newest = past.cloned();
        let newest = past.map(|newest| newest.name.time);
        if !is_due(newest) {
            return Ok(Attempt::NotDue);
        }
        let is_fresh = |it: &&BackupFile| {
            let age = now.duration_since(it.name.time);
            age < self.config.every && newest.is_none_or(|newest| newest < it.name.time)
        };
        let local = local.filter(is_fresh).zip(self.config.folder.as_deref());
        let made = if let Some((backup, path)) = local {
            let folder = Folder::new(path);
            let file = folder.open(&backup.name);
            let file = file.map_err(Error::file(&folder.file(&backup.name)))?;
            bucket.put(backup, Arc::new(file)).await?;
            backup.clone()
        } else {
            let (copy, backup) = self.copy_beside_store(now).await?;
            let file = copy.file.file().try_clone();
            let file = file.map_err(Error::file(copy.file.path()))?;
            bucket.put(&backup, Arc::new(file)).await?;
            backup
        };
        // The oldest of this store, beyond the number to keep with the new one.
        let excess = (own.len() + 1).saturating_sub(self.config.keep);
        for old in own.iter().take(excess).filter(|old| **old != made) {
            // Credentials without that permission protect the backups from an attacker.
            if let Err(error) = bucket.delete(&old.name).await {
                tracing::warn!(file = %old.name, %error, "old backup not deleted");
                break;
            }
        }
        known.newest = Some(made);
        Ok(Attempt::Made)
    }

    async fn copy_beside_store(&self, now: Timestamp) -> Result<(BackupCopy, BackupFile), Error> {
        let source = self.source.clone();
        let stop = self.stop.clone();
        let store = self.store;
        let work = move || {
            let beside = source.path().with_file_name(INCOMPLETE);
            copy_and_name(&source, &beside, store, now, &stop)
        };
        self.on_thread(work).await.ok_or(Error::Panic)?
    }

    /// Runs blocking work on a thread with a lower priority. Returns `None` if it panics.
    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let turn = self.turn.clone().acquire_owned().await.ok()?;
        let (sender, result) = oneshot::channel();
        let run = move || {
            if let Err(error) = priority::lower() {
                tracing::warn!(%error, "lowering the priority of a thread failed");
            }
            let done = panic::catch_unwind(panic::AssertUnwindSafe(work));
            // Dropped here if nothing waits for it, which deletes an incomplete file.
            let _ = sender.send(done.ok());
            drop(turn);
        };
        let thread = thread::Builder::new().name("backup".into()).spawn(run);
        thread.ok()?;
        result.await.ok()?
    }
}

/// Copies a store to a temporary file in the folder of `beside`, checks the copy, and chooses its
/// name.
fn copy_and_name(
    source: &BackupSource,
    beside: &Path,
    store: StoreId,
    now: Timestamp,
    stop: &Arc<AtomicBool>,
) -> Result<(BackupCopy, BackupFile), Error> {
    let copy = source.copy(beside, stop)?;
    let failed = Error::file(copy.file.path());
    let file = copy.file.file();
    let bytes = file.metadata().map_err(failed)?.len();
    let hash = hash(file, |_| !stop.load(Relaxed)).map_err(failed)?;
    let name = BackupName::new(now, copy.pets, store, hash);
    Ok((copy, BackupFile { name, bytes }))
}

/// Takes and keeps backups in a folder.
#[derive(Debug, Clone)]
struct FolderKeeper {
    folder: Folder,
    store: StoreId,
    keep: usize,
    source: BackupSource,
    stop: Arc<AtomicBool>,
}

impl FolderKeeper {
    fn attempt(
        &self,
        known: &mut Known,
        is_due: impl Fn(Option<Timestamp>) -> bool,
        now: Timestamp,
    ) -> Result<Attempt, Error> {
        let path = self.folder.path();
        let failed = Error::file(path);
        self.folder.create().map_err(failed)?;
        self.find_newest(known, now).map_err(failed)?;
        if !is_due(known.newest.as_ref().map(|newest| newest.name.time)) {
            return Ok(Attempt::NotDue);
        }
        let beside = path.join(INCOMPLETE);
        let (copy, made) = copy_and_name(&self.source, &beside, self.store, now, &self.stop)?;
        let name = made.name.to_string();
        copy.file.persist_as(&name).map_err(failed)?;
        self.prune(known, &made);
        known.newest = Some(made);
        Ok(Attempt::Made)
    }

    /// Looks for the newest backup that has the content that it was made with.
    fn find_newest(&self, known: &mut Known, now: Timestamp) -> io::Result<()> {
        let listed = self.list()?;
        let mut candidates = listed
            .into_iter()
            .rev()
            .filter(|it| is_past(it.name.time, now));
        let before = known.newest.take();
        known.newest = loop {
            let Some(file) = candidates.next() else {
                break None;
            };
            if before.as_ref() == Some(&file) {
                break before;
            }
            if known.damaged.contains(&file.name) {
                continue;
            }
            let is_stopped = || self.stop.load(Relaxed);
            match self.folder.is_intact(&file.name, |_| !is_stopped()) {
                Ok(true) => break Some(file),
                Ok(false) => {
                    tracing::warn!(file = %file.name, "backup is damaged; it does not count");
                }
                Err(error) if is_stopped() => return Err(error),
                // Its disk may be failing, which is when another one is needed most.
                Err(error) => {
                    tracing::warn!(
                        file = %file.name, %error, "backup cannot be read; it does not count"
                    );
                }
            }
            known.damaged.insert(file.name);
        };
        Ok(())
    }

    /// Deletes the oldest backups of this store beyond the number to keep. Damaged ones neither
    /// count nor are they deleted.
    fn prune(&self, known: &Known, made: &BackupFile) {
        let own = match self.list() {
            Ok(own) => own,
            Err(error) => return tracing::warn!(%error, "old backups not deleted"),
        };
        let intact = own
            .iter()
            .rev()
            .filter(|it| !known.damaged.contains(&it.name));
        for file in intact.skip(self.keep).filter(|file| *file != made) {
            if let Err(error) = self.folder.delete(&file.name) {
                tracing::warn!(file = %file.name, %error, "old backup not deleted");
            }
        }
    }

    fn list(&self) -> io::Result<Vec<BackupFile>> {
        let mut found = self.folder.list(Some(self.source.path()))?;
        found.retain(|file| file.name.store == self.store);
        Ok(found)
    }
}
