//! Checks of the store, the machine and the files.

use std::{
    collections::BTreeSet,
    env,
    error::Error,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use jiff::{SignedDuration, Timestamp};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use x509_cert::{Certificate, der::Decode};

use super::{
    super::{TlsFiles, counted, database::location, shell_quote},
    Report,
    target::Target,
};
use domain::api_key::ApiKey;
use store::{DatabaseDetails, DatabaseUrl, Inspection, inspect};
use system::atomic_file::side_file;

const MIB: u64 = 1 << 20;
/// A size far beyond that of the log between checkpoints.
const LARGE_WAL: u64 = 256 * MIB;
const LITTLE_SPACE: u64 = 1024 * MIB;
const NO_SPACE: u64 = 100 * MIB;
/// Keys that expire within this time are reported.
const KEYS_EXPIRE_SOON: SignedDuration = SignedDuration::from_hours(30 * 24);
/// The time before its expiry at which a certificate is reported. Most are renewed earlier.
const CERTIFICATE_EXPIRES_SOON: SignedDuration = SignedDuration::from_hours(14 * 24);
/// The maximum difference between clocks.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_secs(5);
/// A time before this program was written.
const EARLIEST_TIME: Timestamp = Timestamp::constant(1_767_225_600, 0);

/// Checks the store. The message of the error ends with advice.
pub(super) async fn store(
    report: &mut Report,
    target: &Target,
) -> Result<Inspection, Box<dyn Error>> {
    let database = target.database.as_ref().map_err(String::clone)?;
    // A file that the service cannot read is a problem, even if root can read it.
    database.give_up_root()?;
    let url = database.url_with_warnings(|_| {})?;
    match &url {
        DatabaseUrl::Postgres(url) => {
            if let Some(host) = url.unverified_host() {
                let message = format!("the database server {host} is not verified");
                report.warning(message, "add sslmode=verify-full to the URL");
            }
        }
        DatabaseUrl::Sqlite(path) => {
            warn_if_public(report, path);
            warn_if_public(report, &side_file(path, "-wal"));
        }
    }
    let shown = shown(&url);
    // Other commands show the whole path, but this report has many lines about the same file.
    let inspection = inspect(&url)
        .await
        .map_err(|error| error.to_string().replace(&location(&url), &shown))?;
    if let DatabaseDetails::Sqlite { wal_bytes, .. } = inspection.details
        && wal_bytes > LARGE_WAL
    {
        report.warning(
            format!("the write-ahead log has {}", mebibytes(wal_bytes)),
            "look for `checkpoint failed` in the log, and for a program that keeps the file open",
        );
    }
    let options = database.options();
    match inspection.details {
        DatabaseDetails::Sqlite {
            is_damaged: Some(true),
            ..
        } => report.problem(
            format!("{shown} is damaged"),
            format!(
                "see how with `petstore check{options}`, then stop the service and put a backup \
                 in place with `petstore restore BACKUP{options}`"
            ),
        ),
        DatabaseDetails::Sqlite {
            is_damaged: None, ..
        } => report.ok(format!(
            "{shown} can be read; it is large: check its pages with `petstore check{options}`"
        )),
        _ => report.ok(format!("{shown} can be read, and its schema is current")),
    }
    Ok(inspection)
}

/// Returns a database as the operator has named it: a path without a scheme.
fn shown(url: &DatabaseUrl) -> String {
    match url {
        DatabaseUrl::Sqlite(path) => path.display().to_string(),
        DatabaseUrl::Postgres(url) => url.to_string(),
    }
}

fn warn_if_public(report: &mut Report, file: &Path) {
    let mode = fs::metadata(file).map_or(0, |file| file.permissions().mode() & 0o777);
    if mode & 0o007 != 0 {
        let shown = file.display();
        let message = format!("{shown} is open to all users of the machine (mode {mode:03o})");
        let file = shell_quote(&file.to_string_lossy());
        report.warning(message, format!("run `chmod 600 {file}`"));
    }
}

pub(super) fn keys(report: &mut Report, keys: &[ApiKey], target: &Target) {
    let now = Timestamp::now();
    let valid: Vec<_> = keys.iter().filter(|key| key.is_valid_at(now)).collect();
    if valid.is_empty() {
        let options = target.options();
        let advice = format!("create one with `petstore keys create NAME{options}`");
        return report.warning("there is no valid API key", advice);
    }
    let before = report.findings.len();
    for key in &valid {
        if let Some(expiry) = key.expires_at
            && expiry.duration_since(now) < KEYS_EXPIRE_SOON
        {
            let name = key.name.as_str();
            let message = format!("API key {} ({name}) expires at {expiry:.0}", key.id);
            report.warning(message, "give its owner a new one");
        }
    }
    if report.findings.len() == before {
        let are = if valid.len() == 1 { "is" } else { "are" };
        let keys = counted(valid.len() as u64, "API key");
        report.ok(format!("{keys} {are} valid for 30 days or longer"));
    }
}

pub(super) fn clock(report: &mut Report, store: Option<&Inspection>) {
    let now = Timestamp::now();
    let advice = "set the clock, and keep it right with NTP";
    if now < EARLIEST_TIME {
        return report.problem(format!("the clock says {now:.0}"), advice);
    }
    if let Some(store) = store {
        if let DatabaseDetails::Postgres { clock_offset } = store.details
            && clock_offset.abs() > CLOCK_TOLERANCE
        {
            let seconds = -clock_offset.as_secs_f64();
            let message = format!("the clock differs from the database server's by {seconds:.1}s");
            return report.warning(message, "keep both right with NTP");
        }
        if let Some(last) = store.last_change
            && last.duration_since(now) > CLOCK_TOLERANCE
        {
            let message =
                format!("the clock says {now:.0}, but the store was changed at {last:.0}");
            return report.problem(message, advice);
        }
    }
    report.ok(format!("{now:.0}"));
}

pub(super) fn disk(report: &mut Report, target: &Target) {
    let Some(path) = target.file() else {
        return;
    };
    let found = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let folder = found.parent().filter(|folder| folder.as_os_str() != "");
    let shown = path.display();
    match statvfs(folder.unwrap_or(Path::new("."))) {
        Ok(disk) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => report.problem(
            format!("the disk with {shown} is read-only"),
            "mount it for writing: until then, changes are rejected with 503",
        ),
        Ok(disk) => {
            let store = fs::metadata(path).map_or(0, |file| file.len());
            free_space(report, path, disk.f_bavail * disk.f_frsize, store);
        }
        // A missing folder is a finding about the store.
        Err(cause) if is_absent(&cause.into()) => {}
        Err(cause) => {
            let cause = io::Error::from(cause);
            let message = format!("cannot read how much space is free for {shown}: {cause}");
            report.warning(message, "run this as root");
        }
    }
}

fn free_space(report: &mut Report, path: &Path, free: u64, store: u64) {
    let path = path.display();
    let message = format!("{} free in the folder of {path}", mebibytes(free));
    let advice = "free some space: without any, changes are rejected with 503";
    if free < NO_SPACE {
        report.problem(message, advice);
    } else if free < LITTLE_SPACE {
        report.warning(message, advice);
    } else if free < store {
        report.warning(message, "a backup in the same place would not fit");
    } else {
        report.ok(message);
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / MIB)
}

pub(super) fn certificate(report: &mut Report, files: &TlsFiles) {
    let (file, key) = match (&files.tls_cert, &files.tls_key) {
        (None, None) => return,
        (Some(file), Some(key)) => (file, key),
        _ => {
            let message = "only one of --tls-cert (PETSTORE_TLS_CERT) and --tls-key \
                           (PETSTORE_TLS_KEY) is set";
            return report.problem(message, "set both, or neither");
        }
    };
    let shown = file.display();
    if file.starts_with("/run/credentials") && !file.exists() {
        return report.warning(
            format!("{shown} is there only while the service runs"),
            "start it, or see whether /etc/credstore has the file",
        );
    }
    if let Err(error) = files.load() {
        let advice = "put a certificate and its key into place";
        return report.problem(error.to_string(), advice);
    }
    warn_if_public(report, key);
    let Some((start, end)) = validity(file) else {
        return report.problem(format!("cannot read when {shown} is valid"), "replace it");
    };
    let now = Timestamp::now();
    let left = end.duration_since(now);
    let days = counted(left.as_hours().unsigned_abs() / 24, "day");
    let certificate = format!("the certificate in {shown}");
    let renew = "renew it; the service reads the new file without a restart";
    if now < start {
        let message = format!("{certificate} is not valid before {start}");
        report.problem(message, "check the clock, or replace it");
    } else if left.is_negative() {
        report.problem(format!("{certificate} expired {days} ago"), renew);
    } else if left < CERTIFICATE_EXPIRES_SOON {
        report.warning(format!("{certificate} expires in {days}"), renew);
    } else {
        report.ok(format!("{certificate} is valid for {days}"));
    }
}

/// Returns the start and the end of the validity of the first certificate in a PEM file.
fn validity(file: &Path) -> Option<(Timestamp, Timestamp)> {
    let der = CertificateDer::from_pem_file(file).ok()?;
    let certificate = Certificate::from_der(&der).ok()?;
    let validity = certificate.tbs_certificate.validity;
    let time = |at: x509_cert::time::Time| {
        Timestamp::from_second(at.to_unix_duration().as_secs().try_into().ok()?).ok()
    };
    Some((time(validity.not_before)?, time(validity.not_after)?))
}

fn is_unknown(name: &str, known: &BTreeSet<String>) -> bool {
    name.starts_with("PETSTORE_") && !known.contains(name)
}

pub(super) fn environment(report: &mut Report, known: &BTreeSet<String>) {
    let environment = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in environment.filter(|name| is_unknown(name, known)) {
        let message = format!("the environment variable {name} has no effect");
        report.warning(message, "`petstore help serve` lists the variables");
    }
}

pub(super) fn settings(report: &mut Report, file: &Path, known: &BTreeSet<String>) {
    let shown = file.display();
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(cause) if is_absent(&cause) => return,
        Err(cause) => {
            return report.warning(format!("cannot read {shown}: {cause}"), "run this as root");
        }
    };
    let before = report.findings.len();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        let name = line.split('=').next().unwrap_or_default().trim();
        if !line.contains('=') || is_unknown(name, known) {
            let message = format!("{shown} sets {name}, which has no effect");
            report.problem(message, "`petstore help serve` lists the variables");
        }
    }
    let is_fine = report.findings.len() == before;
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
