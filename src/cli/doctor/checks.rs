//! What is checked. Each check adds one finding or more.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, ErrorKind},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::statvfs;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_cert::{Certificate, der::Decode};

use super::{
    super::{
        Database, TlsFiles, counted,
        healthcheck::{Readiness, check_readiness},
    },
    Report,
};
use crate::{
    api::loopback_if_unspecified,
    api_key::ApiKey,
    store::{DatabaseUrl, Inspected, Server, inspect},
};

const MIB: u64 = 1 << 20;
/// Far beyond what the service leaves there between checkpoints.
const LARGE_WAL: u64 = 256 * MIB;
const LITTLE_SPACE: u64 = 1024 * MIB;
const NO_SPACE: u64 = 100 * MIB;
/// Keys that expire within this time are reported.
const KEYS_EXPIRE_SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Certificates are usually renewed earlier.
const CERTIFICATE_EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// How far clocks may differ.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// This program is newer.
const EARLIEST_TIME: Timestamp = Timestamp::constant(1_767_225_600, 0);

pub(super) async fn store(report: &mut Report, database: &Database) -> Option<Inspected> {
    let url = match database.url_with_warnings(|_| {}) {
        Ok(url) => url,
        Err(error) => {
            report.problem(error.to_string(), "correct the options");
            return None;
        }
    };
    if let DatabaseUrl::Postgres(url) = &url
        && let Some(host) = url.unverified_host()
    {
        let message = format!("the database server {host} is not verified");
        report.warning(message, "add sslmode=verify-full to the URL");
    }
    if let DatabaseUrl::Sqlite(path) = &url {
        for suffix in ["", "-wal"] {
            let mut file = path.clone().into_os_string();
            file.push(suffix);
            warn_if_public(report, Path::new(&file));
        }
    }
    let inspected = match inspect(&url).await {
        Ok(inspected) => inspected,
        Err(error) => {
            let advice = match &url {
                DatabaseUrl::Sqlite(_) => "if the store is elsewhere, specify it with --database",
                DatabaseUrl::Postgres(_) => "check the URL, the server and its log",
            };
            report.problem(error.to_string(), advice);
            return None;
        }
    };
    if let Server::Sqlite {
        damage, wal_bytes, ..
    } = &inspected.server
    {
        if *wal_bytes > LARGE_WAL {
            let message = format!("the write-ahead log has {}", mebibytes(*wal_bytes));
            let advice = "look for `checkpoint failed` in the log, and for a program that keeps \
                          the file open";
            report.warning(message, advice);
        }
        match damage.as_deref() {
            Some([]) => {}
            Some([first, ..]) => {
                let advice = "stop the service and restore a backup with `petstore restore`";
                report.problem(format!("{url} is damaged: {first}"), advice);
                return Some(inspected);
            }
            None => {
                report.ok(format!(
                    "{url} is open; it is large: check it with `petstore check`"
                ));
                return Some(inspected);
            }
        }
    }
    report.ok(format!("{url} can be read, and its schema is current"));
    Some(inspected)
}

fn warn_if_public(report: &mut Report, file: &Path) {
    let mode = fs::metadata(file).map_or(0, |file| file.permissions().mode() & 0o777);
    if mode & 0o007 != 0 {
        let shown = file.display();
        let message = format!("{shown} is open to all users of the machine (mode {mode:03o})");
        report.warning(message, format!("run `chmod 600 {shown}`"));
    }
}

pub(super) fn keys(report: &mut Report, keys: &[ApiKey], database: &Database) {
    let now = Timestamp::now();
    let valid: Vec<_> = keys.iter().filter(|key| key.is_valid_at(now)).collect();
    if valid.is_empty() {
        let options = database.options();
        let advice = format!("create one with `petstore keys create NAME{options}`");
        report.warning("there is no valid API key", advice);
        return;
    }
    let mut all_last = true;
    for key in &valid {
        if let Some(expiry) = key.expires_at
            && expiry.duration_since(now) < KEYS_EXPIRE_SOON
        {
            let (id, name) = (key.id, key.name.as_str());
            let message = format!("API key {id} ({name}) expires at {expiry:.0}");
            report.warning(message, "give its owner a new one");
            all_last = false;
        }
    }
    if all_last {
        let valid = counted(valid.len() as u64, "API key");
        report.ok(format!("{valid} valid for 30 days or longer"));
    }
}

pub(super) fn clock(report: &mut Report, inspected: Option<&Inspected>) {
    let (now, set) = (
        Timestamp::now(),
        "set the clock, and keep it right with NTP",
    );
    if now < EARLIEST_TIME {
        report.problem(format!("the clock says {now:.0}"), set);
        return;
    }
    if let Some(Inspected { server, .. }) = inspected
        && let Server::Postgres { now: server } = server
    {
        let difference = now.duration_since(*server);
        if difference.abs() > CLOCK_TOLERANCE {
            let message = format!(
                "the clock differs from the database server's by {:.1}s",
                difference.as_secs_f64()
            );
            report.warning(message, "keep both right with NTP");
            return;
        }
    }
    let last_change = inspected.and_then(|inspected| inspected.last_change);
    match last_change.filter(|last| last.duration_since(now) > CLOCK_TOLERANCE) {
        Some(last) => report.problem(
            format!("the clock says {now:.0}, but the store was changed at {last:.0}"),
            set,
        ),
        None => report.ok(format!("{now:.0}")),
    }
}

pub(super) fn disk(report: &mut Report, database: &DatabaseUrl) {
    let DatabaseUrl::Sqlite(path) = database else {
        return;
    };
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
    let folder = path.parent().filter(|folder| folder.as_os_str() != "");
    let folder = folder.unwrap_or(Path::new("."));
    let space = statvfs(folder).map(|found| found.f_bavail * found.f_frsize);
    let store = fs::metadata(&path).map_or(0, |file| file.len());
    match space {
        Ok(free) => free_space(report, folder, free, store),
        Err(cause) => {
            let message = format!(
                "cannot read the free space of {}: {cause}",
                folder.display()
            );
            report.warning(message, "specify the store with --database");
        }
    }
}

fn free_space(report: &mut Report, folder: &Path, free: u64, store: u64) {
    let message = format!("{} free in {}", mebibytes(free), folder.display());
    let advice = "free some space: without any, changes are rejected with 503";
    if free < NO_SPACE {
        report.problem(message, advice);
    } else if free < LITTLE_SPACE {
        report.warning(message, advice);
    } else if free < store {
        let advice = "a backup in the same place would not fit";
        report.warning(message, advice);
    } else {
        report.ok(message);
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

pub(super) fn port(report: &mut Report, listen: SocketAddr, tls: bool, server: Option<&Server>) {
    let address = loopback_if_unspecified(listen);
    let is_open = match server {
        Some(Server::Sqlite { is_open, .. }) => Some(*is_open),
        _ => None,
    };
    match check_readiness(address, tls) {
        Readiness::Ready if is_open == Some(false) => report.warning(
            format!("the service at {address} is ready, but has another store open"),
            "specify its store with --database, or this one's address with --listen",
        ),
        Readiness::Ready => report.ok(format!("the service at {address} is ready")),
        Readiness::NotReady(response) if response.contains(r#"\"code\""#) => report.problem(
            format!("the service at {address} is not ready: {response}"),
            "read its log; set --tls-cert and --tls-key if it uses TLS",
        ),
        Readiness::NotReady(response) => report.problem(
            format!("another program answers at {address}: {response}"),
            "stop it, or choose another address with --listen",
        ),
        Readiness::NoResponse(cause) => report.problem(
            format!("no response from {address}{cause}"),
            "read the log of the service; remove --tls-cert and --tls-key if it does not use TLS",
        ),
        Readiness::Refused(_) if is_open == Some(true) => report.warning(
            format!("the store is open, but nothing listens at {address}"),
            "specify the address of its service with --listen",
        ),
        Readiness::Refused(_) => report.warning(
            format!("nothing listens at {address}"),
            "start the service with `petstore serve`",
        ),
    }
}

pub(super) fn certificate(report: &mut Report, files: &TlsFiles) {
    let (Some(file), Some(key)) = (&files.tls_cert, &files.tls_key) else {
        return;
    };
    if let Err(error) = files.load() {
        report.problem(
            error.to_string(),
            "put a certificate and its key into place",
        );
        return;
    }
    warn_if_public(report, key);
    let shown = file.display();
    let Some((start, end)) = validity(file) else {
        report.problem(format!("cannot read when {shown} is valid"), "replace it");
        return;
    };
    let now = Timestamp::now();
    let left = end.duration_since(now);
    let days = counted(left.as_hours().unsigned_abs() / 24, "day");
    if now < start {
        let message = format!("the certificate in {shown} is not valid before {start}");
        report.problem(message, "check the clock, or replace it");
    } else if left.is_negative() {
        let message = format!("the certificate in {shown} expired {days} ago");
        report.problem(
            message,
            "renew it; the service reads the new file without a restart",
        );
    } else if left < CERTIFICATE_EXPIRES_SOON {
        let message = format!("the certificate in {shown} expires in {days}");
        report.warning(
            message,
            "renew it; the service reads the new file without a restart",
        );
    } else {
        report.ok(format!("the certificate in {shown} is valid for {days}"));
    }
}

/// From when until when the first certificate in a PEM file is valid.
fn validity(file: &Path) -> Option<(Timestamp, Timestamp)> {
    let der = CertificateDer::from_pem_file(file).ok()?;
    let certificate = Certificate::from_der(&der).ok()?;
    let validity = certificate.tbs_certificate.validity;
    let time = |at: x509_cert::time::Time| {
        Timestamp::from_second(at.to_unix_duration().as_secs().try_into().ok()?).ok()
    };
    Some((time(validity.not_before)?, time(validity.not_after)?))
}

pub(super) fn settings(report: &mut Report, file: &Path, known: &BTreeSet<String>) {
    let is_unknown = |name: &str| name.starts_with("PETSTORE_") && !known.contains(name);
    let environment = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in environment.filter(|name| is_unknown(name)) {
        let message = format!("the environment variable {name} has no effect");
        report.warning(message, "`petstore help serve` lists the variables");
    }
    let shown = file.display();
    let text = match fs::read_to_string(file) {
        Err(cause) if is_absent(&cause) => return,
        Err(cause) => {
            report.warning(format!("cannot read {shown}: {cause}"), "run this as root");
            return;
        }
        Ok(text) => text,
    };
    let mut is_fine = true;
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let name = line.split('=').next().unwrap_or_default().trim();
        if !line.contains('=') || is_unknown(name) {
            let message = format!("{shown} sets {name}, which has no effect");
            report.problem(message, "`petstore help serve` lists the variables");
            is_fine = false;
        }
    }
    warn_if_public(report, file);
    if is_fine {
        report.ok(format!("{shown} has no unknown settings"));
    }
}

fn is_absent(cause: &io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::{super::Level, *};

    #[test]
    fn little_space_is_reported() {
        for (free, store, level) in [
            (2048 * MIB, 100 * MIB, Level::Ok),
            (2048 * MIB, 3000 * MIB, Level::Warning),
            (900 * MIB, 0, Level::Warning),
            (90 * MIB, 0, Level::Problem),
        ] {
            let mut report = Report::default();
            free_space(&mut report, Path::new("/data"), free, store);
            assert_eq!(report.findings[0].level, level, "{:?}", report.findings);
        }
    }
}
