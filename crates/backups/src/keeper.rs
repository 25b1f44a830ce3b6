//! Keeps the backups in one place: takes one when it is due, and deletes old ones.

use std::{collections::BTreeMap, future::pending, sync::Arc};

use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::{
    folder::BackupFile,
    name::BackupName,
    place::{Error, Place, Reading},
    schedule::{Schedule, past},
    status::{Destination, Status},
    worker::Worker,
};
use telemetry::error_latch::ErrorLatch;

pub struct Keeper<P> {
    place: P,
    /// The number of backups to keep.
    keep: usize,
    schedule: Schedule,
    status: Arc<Status>,
    worker: Worker,
    latch: ErrorLatch,
    /// The newest backup that was read and is intact.
    newest: Option<BackupFile>,
    /// The same after each attempt.
    results: watch::Sender<Option<BackupFile>>,
    /// The backups that do not count.
    rejected: BTreeMap<BackupName, Reading>,
}

/// An attempt that did not fail, with the newest backup.
enum Attempt {
    NotDue(BackupFile),
    Made {
        made: BackupFile,
        earlier: Vec<BackupFile>,
    },
}

impl<P: Place> Keeper<P> {
    pub fn new(place: P, keep: usize, status: Arc<Status>, worker: Worker) -> Self {
        let activity = match P::DESTINATION {
            Destination::Folder => "backup",
            Destination::S3 => "off-site backup",
        };
        Self {
            place,
            keep,
            schedule: Schedule::new(status.every()),
            status,
            worker,
            latch: ErrorLatch::new(activity),
            newest: None,
            results: watch::Sender::new(None),
            rejected: BTreeMap::new(),
        }
    }

    /// Returns a receiver that gets the newest backup after each attempt.
    pub fn results(&self) -> watch::Receiver<Option<BackupFile>> {
        self.results.subscribe()
    }

    /// Takes backups until the future is dropped.
    pub async fn run(mut self) {
        while !self.worker.is_stopped() {
            self.place.wait(&self.schedule).await;
            self.attempt().await;
        }
        pending().await
    }

    async fn attempt(&mut self) {
        let begun = Instant::now();
        let now = Timestamp::now();
        let attempt = self.take_if_due(now).await;
        if self.worker.is_stopped() {
            return;
        }
        match &attempt {
            Ok(Attempt::NotDue(newest)) => {
                self.schedule.wait_after(newest.name.time, now);
                self.status.succeed(P::DESTINATION, newest.clone());
            }
            Ok(Attempt::Made { made, .. }) => {
                self.schedule.succeed(made.name.time);
                self.status.succeed(P::DESTINATION, made.clone());
                let BackupFile { name, bytes } = made;
                let duration = begun.elapsed().as_millis();
                tracing::info!(
                    destination = %P::DESTINATION,
                    file = %name,
                    bytes,
                    pets = name.pets,
                    duration_ms = u64::try_from(duration).unwrap_or(u64::MAX),
                    "backup complete"
                );
            }
            Err(error) => {
                let newest = self.newest.clone();
                let failures = self.status.fail(P::DESTINATION, newest, error.to_string());
                self.schedule.fail(failures, Timestamp::now());
            }
        }
        self.results.send_replace(self.newest.clone());
        if let Ok(Attempt::Made { made, earlier }) = &attempt {
            self.prune(earlier, made, now).await;
        }
        self.latch.observe(attempt);
    }

    async fn take_if_due(&mut self, now: Timestamp) -> Result<Attempt, Error> {
        let listed = self.place.list().await?;
        let is_listed = |name: &BackupName| listed.iter().any(|it| it.name == *name);
        self.rejected.retain(|name, _| is_listed(name));
        self.newest = self.find_newest(&listed, now).await?;
        if let Some(newest) = &self.newest
            && !self.schedule.is_due(newest.name.time, now)
            && !self.place.has_source(newest)
        {
            return Ok(Attempt::NotDue(newest.clone()));
        }
        let made = self.place.make(self.newest.as_ref(), now).await?;
        self.rejected.remove(&made.name);
        self.newest = Some(made.clone());
        Ok(Attempt::Made {
            made,
            earlier: listed,
        })
    }

    /// Looks for the newest backup that has the content that it was made with.
    async fn find_newest(
        &mut self,
        listed: &[BackupFile],
        now: Timestamp,
    ) -> Result<Option<BackupFile>, Error> {
        for backup in past(listed, now).rev() {
            if self.rejected.get(&backup.name) == Some(&Reading::Damaged) {
                continue;
            }
            if self.newest.as_ref() == Some(backup) {
                return Ok(self.newest.clone());
            }
            match self.place.read(backup).await? {
                Reading::Intact => {
                    self.rejected.remove(&backup.name);
                    return Ok(Some(backup.clone()));
                }
                reading => self.rejected.insert(backup.name.clone(), reading),
            };
        }
        Ok(None)
    }

    /// Deletes the oldest backups beyond the number to keep. Those that are damaged, unreadable or
    /// from the future are neither counted nor deleted.
    async fn prune(&mut self, earlier: &[BackupFile], made: &BackupFile, now: Timestamp) {
        // The new one may have taken the place of a damaged one of another size.
        let counts =
            |it: &&BackupFile| it.name != made.name && !self.rejected.contains_key(&it.name);
        let earlier = past(earlier, now).rev().filter(counts);
        let mut failures = 0;
        let mut last_error = None;
        for old in earlier.skip(self.keep - 1) {
            if let Err(error) = self.place.delete(&old.name).await {
                failures += 1;
                last_error = Some(error);
            }
        }
        // Credentials without that permission protect the backups from an attacker.
        if let Some(error) = last_error {
            tracing::warn!(files = failures, %error, "old backups not deleted");
        }
    }
}
