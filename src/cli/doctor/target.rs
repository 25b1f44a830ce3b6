//! The service to examine: the one that the options describe or, without any, the packaged one.

use std::{
    env,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use jiff::SignedDuration;

use super::super::{
    PasswordFile, ServedDatabase, TlsFiles,
    database::DEFAULT_FILE,
    duration::backup_interval,
    listen::{DEFAULT_LISTEN, port, socket_address},
    options::DEFAULT_BACKUP_INTERVAL,
    packaged_settings::PackagedSettings,
};
use backups::{Bucket, S3Settings};
use domain::invalid::Invalid;
use store::DatabaseUrl;

/// The options of `petstore serve` that concern the checks. As text: a mistake in one of them
/// is a finding, and the other checks continue.
#[derive(Args)]
pub(super) struct ServiceOptions {
    /// Address and port of the service, 127.0.0.1:8080 by default.
    #[arg(
        long,
        env = "PETSTORE_LISTEN",
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    listen: Option<String>,
    /// Port of the service, instead of the one in --listen.
    #[arg(long, value_parser = port, value_name = "PORT", allow_hyphen_values = true)]
    port: Option<u16>,
    /// Address and port of its metrics.
    #[arg(
        long,
        env = "PETSTORE_METRICS_LISTEN",
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    metrics_listen: Option<String>,
    /// Database of the service, petstore.db by default.
    ///
    /// If there is no petstore.db in the current directory, the service that the Debian package
    /// has installed is examined, with its settings.
    #[arg(
        long,
        env = "PETSTORE_DATABASE",
        hide_env_values = true,
        value_name = "URL"
    )]
    database: Option<String>,
    #[command(flatten)]
    password: PasswordFile,
    /// PEM file with the certificate of the service.
    #[arg(long, env = "PETSTORE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(long, env = "PETSTORE_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Folder with the backups that the service takes.
    #[arg(long, env = "PETSTORE_BACKUP_DIR", value_name = "FOLDER")]
    backup_dir: Option<PathBuf>,
    /// Bucket with the backups that the service takes.
    #[arg(long, env = "PETSTORE_BACKUP_TO", value_name = "URL")]
    backup_to: Option<String>,
    /// Interval between backups, 24h by default.
    #[arg(
        long,
        env = "PETSTORE_BACKUP_EVERY",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    backup_every: Option<String>,
}

/// A service to examine. An error names the setting that is wrong.
pub(super) struct Target {
    pub database: Result<ServedDatabase, String>,
    pub listen: Result<SocketAddr, String>,
    /// The option that sets the address.
    pub listen_option: &'static str,
    pub metrics: Result<Option<SocketAddr>, String>,
    pub tls: TlsFiles,
    /// The folder with the backups, if there is one.
    pub backup_dir: Option<PathBuf>,
    /// The bucket with the backups, if there is one.
    pub backup_to: Result<Option<Bucket>, String>,
    pub backup_every: Result<SignedDuration, String>,
    /// True if the settings of the packaged service were used.
    pub is_packaged: bool,
    /// True if the settings of the packaged service could not be read.
    pub is_denied: bool,
}

impl Target {
    /// Returns the options that name the database, for a command that a person can copy.
    pub(super) fn options(&self) -> String {
        let database = self.database.as_ref();
        database.map_or(String::new(), ServedDatabase::options)
    }

    /// Returns the file of the store, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.database.as_ref().ok()?.database {
            DatabaseUrl::Sqlite(path) => Some(path),
            DatabaseUrl::Postgres(_) => None,
        }
    }
}

impl ServiceOptions {
    /// Returns the service to examine. `file` has the settings of the packaged one.
    pub(super) fn target(&self, file: &Path) -> Target {
        let may_be_packaged = self.database.is_none() && !Path::new(DEFAULT_FILE).exists();
        let settings = if may_be_packaged {
            PackagedSettings::read(file)
        } else {
            Ok(None)
        };
        let is_denied = settings.is_err();
        let packaged = settings.unwrap_or_default();
        let database = match (&self.database, &packaged) {
            (Some(url), _) => url.parse().map_err(|invalid: Invalid| {
                format!("--database (PETSTORE_DATABASE) {}", invalid.reason)
            }),
            (None, Some(settings)) => settings.database(),
            (None, None) if is_denied => Err(format!(
                "there is no {DEFAULT_FILE} in this directory, and only root can read the \
                 settings of the installed service, {}; run this with sudo, or name a database \
                 with --database",
                file.display()
            )),
            (None, None) => Ok(DatabaseUrl::Sqlite(DEFAULT_FILE.into())),
        };
        let setting =
            |given: &Option<String>, option: &str, variable: &str| match (given, &packaged) {
                (None, Some(settings)) => {
                    let name = format!("{variable} in {}", file.display());
                    (settings.value(variable), name)
                }
                (given, _) => (given.clone(), format!("{option} ({variable})")),
            };
        let address = |given: &Option<String>, option: &str, variable: &str| {
            let (value, name) = setting(given, option, variable);
            let address = value.map(|value| socket_address(&value)).transpose();
            address.map_err(|reason| format!("{name} {reason}"))
        };
        let path = |given: &Option<PathBuf>, variable: &str| {
            let packaged = || packaged.as_ref()?.path(variable);
            given.clone().or_else(packaged)
        };
        let password_file = &self.password.database_password_file;
        let password = PasswordFile {
            database_password_file: path(password_file, "PETSTORE_DATABASE_PASSWORD_FILE"),
        };
        let listen = address(&self.listen, "--listen", "PETSTORE_LISTEN").map(|address| {
            let mut address = address.unwrap_or(DEFAULT_LISTEN);
            address.set_port(self.port.unwrap_or(address.port()));
            address
        });
        let (every, name) = setting(
            &self.backup_every,
            "--backup-every",
            "PETSTORE_BACKUP_EVERY",
        );
        let (bucket, bucket_name) = setting(&self.backup_to, "--backup-to", "PETSTORE_BACKUP_TO");
        let bucket = bucket.map(|url| {
            let url = url
                .parse()
                .map_err(|reason| format!("{bucket_name} {reason}"))?;
            let variable = |name: &str| match &packaged {
                Some(settings) => settings.value(name),
                None => env::var(name).ok(),
            };
            let settings = S3Settings::read(variable)?;
            Ok::<_, String>(Bucket::new(url, Arc::new(settings)))
        });
        let every = every.unwrap_or_else(|| DEFAULT_BACKUP_INTERVAL.into());
        Target {
            database: database.map(|database| ServedDatabase { database, password }),
            listen,
            listen_option: self.port.map_or("--listen", |_| "--port"),
            metrics: address(
                &self.metrics_listen,
                "--metrics-listen",
                "PETSTORE_METRICS_LISTEN",
            ),
            tls: TlsFiles {
                tls_cert: path(&self.tls_cert, "PETSTORE_TLS_CERT"),
                tls_key: path(&self.tls_key, "PETSTORE_TLS_KEY"),
            },
            backup_dir: path(&self.backup_dir, "PETSTORE_BACKUP_DIR"),
            backup_to: bucket.transpose(),
            backup_every: backup_interval(&every).map_err(|reason| format!("{name} {reason}")),
            is_packaged: packaged.is_some(),
            is_denied,
        }
    }
}
