//! The state of scheduled backups, for operators.

use std::{
    fmt,
    sync::{Mutex, MutexGuard},
};

use jiff::{SignedDuration, Timestamp};

use super::folder::BackupFile;

/// The intervals after which a backup is late.
const LATE_AFTER: i32 = 2;

/// A place that backups are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    Folder,
    S3,
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Folder => "folder",
            Self::S3 => "s3",
        })
    }
}

/// The backups in one destination.
#[derive(Debug, Clone)]
pub struct DestinationStatus {
    pub destination: Destination,
    /// The newest backup that was checked.
    pub newest: Option<BackupFile>,
    /// Failed attempts since the last success.
    pub consecutive_failures: u32,
    /// The reason of the last failed attempt since the last success.
    pub last_error: Option<String>,
}

/// The state of all destinations.
#[derive(Debug)]
pub struct Status {
    started: Timestamp,
    every: SignedDuration,
    destinations: Mutex<Vec<DestinationStatus>>,
}

impl Status {
    pub fn new(every: SignedDuration, destinations: &[Destination]) -> Self {
        let empty = |destination: &Destination| DestinationStatus {
            destination: *destination,
            newest: None,
            consecutive_failures: 0,
            last_error: None,
        };
        Self {
            started: Timestamp::now(),
            every,
            destinations: Mutex::new(destinations.iter().map(empty).collect()),
        }
    }

    /// Returns the state of every destination.
    pub fn destinations(&self) -> Vec<DestinationStatus> {
        self.lock().clone()
    }

    /// Returns true if the newest backup is older than two intervals. Before the first backup, the
    /// start of the service counts.
    pub fn is_late(&self, destination: &DestinationStatus, now: Timestamp) -> bool {
        let newest = destination.newest.as_ref();
        let since = newest.map_or(self.started, |newest| newest.name.time);
        is_late(since, self.every, now)
    }

    pub(super) fn every(&self) -> SignedDuration {
        self.every
    }

    pub(super) fn succeed(&self, destination: Destination, newest: BackupFile) {
        self.update(destination, |status| {
            status.newest = Some(newest);
            status.consecutive_failures = 0;
            status.last_error = None;
        });
    }

    /// Records a failed attempt. Returns the number of them since the last success.
    pub(super) fn fail(
        &self,
        destination: Destination,
        newest: Option<BackupFile>,
        error: String,
    ) -> u32 {
        self.update(destination, |status| {
            status.newest = newest;
            status.consecutive_failures = status.consecutive_failures.saturating_add(1);
            status.last_error = Some(error);
            status.consecutive_failures
        })
    }

    fn update<T>(
        &self,
        destination: Destination,
        update: impl FnOnce(&mut DestinationStatus) -> T,
    ) -> T {
        let mut all = self.lock();
        let mut found = all.iter_mut();
        let found = found.find(|status| status.destination == destination);
        update(found.expect("the destination is one of those at the start"))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<DestinationStatus>> {
        let destinations = self.destinations.lock();
        destinations.expect("no thread panics while holding the lock")
    }
}

/// Returns true if a backup from this time is older than two intervals.
pub fn is_late(newest: Timestamp, every: SignedDuration, now: Timestamp) -> bool {
    now.duration_since(newest) > every * LATE_AFTER
}
