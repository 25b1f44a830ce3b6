//! Checks of the backups that the service takes by itself.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    super::{counted, healthcheck::readiness_details},
    Level, Report, split_advice,
    target::Target,
};
use api::loopback_if_unspecified;
use backups::{BackupFile, Destination, Folder, StoreId, is_late, past};
use store::{DatabaseDetails, DatabaseUrl, Inspection, is_same_disk};

/// The size up to which the newest backup is read. For a larger file that takes long.
const MAX_READ_BYTES: u64 = 1 << 30;

const ADVICE: &str = "see whether the service runs with these options, and look for `backup \
                      failed` in its log";

pub(super) async fn check(report: &mut Report, target: &mut Target, store: Option<&Inspection>) {
    let has_options = target.backup_dir.is_some() || !matches!(target.backup_to, Ok(None));
    if let Ok(database) = &target.database
        && let DatabaseUrl::Postgres(_) = database.database
    {
        if has_options {
            report.problem(
                "--backup-dir and --backup-to (PETSTORE_BACKUP_DIR, PETSTORE_BACKUP_TO) are for \
                 SQLite files",
                "remove them, and back up PostgreSQL with pg_dump or pg_basebackup",
            );
        }
        return;
    }
    let details = details(target).await;
    if !has_options {
        // Without a service, nothing is known about its options.
        if let Some(details) = details {
            reported(report, &details);
        }
        return;
    }
    let every = match &target.backup_every {
        Ok(every) => *every,
        Err(invalid) => return report.problem(invalid, "correct it"),
    };
    let details = details.unwrap_or_default();
    let store = store.and_then(|store| match &store.details {
        DatabaseDetails::Sqlite { event_source, .. } => Some(StoreId::new(event_source)),
        DatabaseDetails::Postgres { .. } => None,
    });
    let of_store = |mut found: Vec<BackupFile>, place, destination| {
        if let Some(store) = store {
            found.retain(|file| file.name.store == store);
        }
        Backups {
            found,
            place,
            every,
            is_store_known: store.is_some(),
            failures: failures(&details, destination),
        }
    };
    if let Some(path) = &target.backup_dir {
        let place = path.display().to_string();
        match Folder::new(path).list(None) {
            Ok(found) => {
                let backups = of_store(found, place, Destination::Folder);
                backups.check_folder(report, path, target.file());
            }
            Err(cause) => report.warning(format!("cannot read {place}: {cause}"), ADVICE),
        }
    }
    match &mut target.backup_to {
        Ok(Some(bucket)) => {
            let place = bucket.url().to_string();
            match bucket.list().await {
                Ok(found) => of_store(found, place, Destination::S3).check(report, ""),
                Err(error) => {
                    let message = format!("cannot list {place}: {error}");
                    report.advised(Level::Warning, &message);
                }
            }
        }
        Ok(None) => {}
        Err(invalid) => report.problem(invalid.clone(), "correct it"),
    }
}

/// Returns what the service says about its backups: the most on the listener for metrics.
async fn details(target: &Target) -> Option<Value> {
    if let Ok(Some(metrics)) = target.metrics
        && let Some(details) = readiness_details(loopback_if_unspecified(metrics), false).await
    {
        return Some(details);
    }
    let listen = target.listen.as_ref().ok()?;
    let has_tls = target.tls.tls_cert.is_some();
    readiness_details(loopback_if_unspecified(*listen), has_tls).await
}

/// Reports what a ready service says about its backups.
fn reported(report: &mut Report, details: &Value) {
    if details["status"] != "ready" {
        return;
    }
    let Some(places) = details["backups"].as_array() else {
        return report.warning(
            "the service takes no backups",
            "start it with --backup-dir, unless another program takes them",
        );
    };
    let now = Timestamp::now();
    for place in places {
        let destination = place["destination"].as_str().unwrap_or_default();
        let newest = place["newestAt"].as_str().and_then(|at| at.parse().ok());
        let message = newest.map_or_else(
            || format!("there is no backup in the service's {destination} yet"),
            |newest: Timestamp| {
                let age = age(now.duration_since(newest));
                format!("the newest backup in the service's {destination} is {age} old")
            },
        );
        match described_failures(place) {
            Some(failures) => warn_of_failures(report, &message, &failures),
            None if place["isLate"] == true => report.warning(message, ADVICE),
            None => report.ok(message),
        }
    }
}

/// Returns the failed attempts of a running service, if there are some.
fn failures(details: &Value, destination: Destination) -> Option<String> {
    let destination = destination.to_string();
    let mut all = details["backups"].as_array()?.iter();
    described_failures(all.find(|it| it["destination"] == *destination)?)
}

fn described_failures(place: &Value) -> Option<String> {
    let attempts = match place["consecutiveFailures"].as_u64()? {
        0 => return None,
        1 => "the last attempt".to_string(),
        failures => format!("the last {failures} attempts"),
    };
    Some(match place["lastError"].as_str() {
        Some(error) => format!("{attempts} failed: {error}"),
        None => format!("{attempts} failed; look for `backup failed` in the log of the service"),
    })
}

fn warn_of_failures(report: &mut Report, message: &str, failures: &str) {
    let (failures, advice) = split_advice(failures);
    report.add(Level::Warning, format!("{message}; {failures}"), advice);
}

/// The backups in one place, and those that there should be.
struct Backups {
    /// The oldest first.
    found: Vec<BackupFile>,
    place: String,
    every: SignedDuration,
    /// False if the store cannot be read: these may be the backups of another one.
    is_store_known: bool,
    failures: Option<String>,
}

impl Backups {
    fn check_folder(self, report: &mut Report, path: &Path, store: Option<&Path>) {
        let place = &self.place;
        let newest = past(&self.found, Timestamp::now()).next_back();
        if let Some(BackupFile { name, bytes }) = newest
            && *bytes <= MAX_READ_BYTES
        {
            match Folder::new(path).is_intact(name, |_| true) {
                Ok(true) => {}
                Ok(false) => {
                    return report.problem(
                        format!("the newest backup, {name} in {place}, is damaged"),
                        "look for a failing disk; restart the service, which then makes another",
                    );
                }
                Err(cause) => {
                    let message = format!("cannot read {name} in {place}: {cause}");
                    return report.warning(message, ADVICE);
                }
            }
        }
        let is_same_disk = store.is_some_and(|store| is_same_disk(store, path));
        let disk = if is_same_disk {
            ", on the disk of the store"
        } else {
            ""
        };
        self.check(report, disk);
    }

    fn check(self, report: &mut Report, disk: &str) {
        let place = &self.place;
        let now = Timestamp::now();
        let mut earlier = past(&self.found, now);
        let newest = earlier.next_back();
        let count = newest.map_or(0, |_| 1 + earlier.count());
        let from_future = self.found.len() - count;
        if from_future > 0 {
            let backups = counted(from_future as u64, "backup");
            report.warning(
                format!("{backups} in {place} with a time in the future"),
                "set the clock; if it is right, it was wrong when they were made, and they are \
                 neither used nor deleted",
            );
        }
        let message = match newest {
            None => format!("there is no backup of this store in {place}{disk}"),
            Some(BackupFile { name, bytes }) => format!(
                "{}{} in {place}{disk}; the newest is {} old, with {} in {}",
                counted(count as u64, "backup"),
                if self.is_store_known {
                    ""
                } else {
                    ", perhaps of another store,"
                },
                age(now.duration_since(name.time)),
                counted(name.pets, "animal"),
                size(*bytes),
            ),
        };
        let is_late = newest.is_none_or(|newest| is_late(newest.name.time, self.every, now));
        match &self.failures {
            Some(failures) => warn_of_failures(report, &message, failures),
            None if is_late => report.warning(message, ADVICE),
            None => report.ok(message),
        }
    }
}

/// Formats a duration in its largest unit.
fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0).unsigned_abs();
    match seconds {
        0..120 => counted(seconds, "second"),
        120..7200 => counted(seconds / 60, "minute"),
        7200..172_800 => counted(seconds / 3600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

fn size(bytes: u64) -> String {
    match bytes >> 10 {
        kibibytes @ 0..10_240 => format!("{kibibytes} KiB"),
        kibibytes => format!("{} MiB", kibibytes >> 10),
    }
}
