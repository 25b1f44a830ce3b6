//! Checks of the backups that the service takes by itself.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{
    super::{counted, healthcheck::readiness_details},
    Report,
    target::Target,
};
use api::loopback_if_unspecified;
use backups::{BackupFile, Destination, Folder, StoreId, is_late};
use store::{DatabaseDetails, DatabaseUrl, Inspection};

/// The size up to which the newest backup is read. For a larger file that takes long.
const MAX_READ_BYTES: u64 = 1 << 30;

const ADVICE: &str = "see whether the service runs with these options, and look for `backup \
                      failed` in its log";

pub(super) async fn check(report: &mut Report, target: &mut Target, store: Option<&Inspection>) {
    if target.backup_dir.is_none() && matches!(target.backup_to, Ok(None)) {
        return;
    }
    if let Ok(database) = &target.database
        && let DatabaseUrl::Postgres(_) = database.database
    {
        return report.problem(
            "--backup-dir and --backup-to (PETSTORE_BACKUP_DIR, PETSTORE_BACKUP_TO) are for \
             SQLite files",
            "remove them, and back up PostgreSQL with pg_dump or pg_basebackup",
        );
    }
    let every = match &target.backup_every {
        Ok(every) => *every,
        Err(invalid) => return report.problem(invalid, "correct it"),
    };
    let details = details(target).await.unwrap_or_default();
    let store = store.and_then(|store| match &store.details {
        DatabaseDetails::Sqlite { event_source, .. } => Some(StoreId::new(event_source)),
        DatabaseDetails::Postgres { .. } => None,
    });
    let mut expected = Expected {
        every,
        store,
        failures: None,
    };
    if let Some(path) = &target.backup_dir {
        expected.failures = failures(&details, Destination::Folder);
        folder(report, path, &expected);
    }
    match &mut target.backup_to {
        Ok(Some(bucket)) => {
            expected.failures = failures(&details, Destination::S3);
            let place = bucket.url().to_string();
            match bucket.list().await {
                Ok(mut found) => expected.check(report, &place, &mut found),
                Err(error) => report.warning(format!("cannot list {place}: {error}"), ADVICE),
            }
        }
        Ok(None) => {}
        Err(invalid) => report.problem(invalid.clone(), "correct it"),
    }
}

/// Returns what the service says about its backups: the most on the listener for metrics.
async fn details(target: &Target) -> Option<Value> {
    match (&target.metrics, &target.listen) {
        (Ok(Some(metrics)), _) => readiness_details(loopback_if_unspecified(*metrics), false).await,
        (_, Ok(listen)) => {
            let has_tls = target.tls.tls_cert.is_some();
            readiness_details(loopback_if_unspecified(*listen), has_tls).await
        }
        (_, Err(_)) => None,
    }
}

/// Returns the failed attempts in a row, if there are some.
fn failures(details: &Value, destination: Destination) -> Option<String> {
    let destination = destination.to_string();
    let mut all = details["backups"].as_array()?.iter();
    let found = all.find(|it| it["destination"] == *destination)?;
    let failures = found["consecutiveFailures"].as_u64()?;
    let last = found["lastError"].as_str();
    let last = last.map_or_else(String::new, |error| format!(": {error}"));
    (failures > 0).then(|| format!("{} in a row failed{last}", counted(failures, "attempt")))
}

/// The backups that there should be.
struct Expected {
    every: SignedDuration,
    /// `None` if the store cannot be read.
    store: Option<StoreId>,
    failures: Option<String>,
}

fn folder(report: &mut Report, path: &Path, expected: &Expected) {
    let folder = Folder::new(path);
    let shown = path.display().to_string();
    let mut found = match folder.list(None) {
        Ok(found) => found,
        Err(cause) => return report.warning(format!("cannot read {shown}: {cause}"), ADVICE),
    };
    expected.retain_own(&mut found);
    if let Some(BackupFile { name, bytes }) = found.last()
        && *bytes <= MAX_READ_BYTES
    {
        match folder.is_intact(name, |_| true) {
            Ok(true) => {}
            Ok(false) => {
                return report.problem(
                    format!("the newest backup, {name} in {shown}, is damaged"),
                    "look for a failing disk; restart the service, which then makes another one",
                );
            }
            Err(cause) => {
                return report.warning(format!("cannot read {name} in {shown}: {cause}"), ADVICE);
            }
        }
    }
    expected.check(report, &shown, &mut found);
}

impl Expected {
    fn retain_own(&self, found: &mut Vec<BackupFile>) {
        if let Some(store) = self.store {
            found.retain(|file| file.name.store == store);
        }
    }

    /// Checks the backups that a place has, the oldest first.
    fn check(&self, report: &mut Report, place: &str, found: &mut Vec<BackupFile>) {
        self.retain_own(found);
        let Some(BackupFile { name, bytes }) = found.last() else {
            let failures = self.failures.iter();
            let failures: String = failures.map(|it| format!(": {it}")).collect();
            let message = format!("there is no backup of this store in {place}{failures}");
            return report.warning(message, ADVICE);
        };
        let now = Timestamp::now();
        let message = format!(
            "the newest backup in {place} is {} old, with {} in {}; {} there",
            age(now.duration_since(name.time)),
            counted(name.pets, "animal"),
            size(*bytes),
            counted(found.len() as u64, "backup"),
        );
        if let Some(failures) = &self.failures {
            report.warning(format!("{message}; {failures}"), ADVICE);
        } else if is_late(name.time, self.every, now) {
            report.warning(message, ADVICE);
        } else {
            report.ok(message);
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
