//! Options that several commands have.

use std::{env, ffi::OsStr, path::PathBuf, sync::Arc};

use clap::{
    Arg, Args,
    builder::{RangedU64ValueParser, TypedValueParser},
};
use jiff::SignedDuration;

use super::duration::backup_interval;
use api::PublicUrl;
use backups::{Config, S3Settings, S3Url};
use domain::{
    invalid::Invalid,
    webhook::{address::Network, url::UrlPolicy},
};
use server::{CertificateError, Tls};
use store::{DatabaseUrl, redact_password};

#[derive(Args)]
pub struct TlsFiles {
    /// Serve over TLS with the certificate chain in this PEM file.
    ///
    /// The service's own certificate comes first, followed by the intermediate
    /// ones. Renewed files are reloaded without a restart.
    #[arg(
        long,
        env = "PETSTORE_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's private key.
    #[arg(
        long,
        env = "PETSTORE_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,
}

impl TlsFiles {
    pub fn load(&self) -> Result<Option<Arc<Tls>>, CertificateError> {
        let files = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let tls = files.map(|(cert, key)| Tls::load(cert, key));
        Ok(tls.transpose()?.map(Arc::new))
    }
}

/// Parses a database URL. The error message redacts the URL's password, which
/// clap's own parsers would repeat.
#[derive(Clone)]
pub struct UrlParser<T>(pub fn(&str) -> Result<T, Invalid>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for UrlParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        let utf8 = value.to_str().ok_or(Invalid::new("url", "must be UTF-8"));
        utf8.and_then(self.0).map_err(|invalid| {
            let name = argument.map_or_else(String::new, Arg::to_string);
            let message = format!(
                "invalid value '{}' for '{name}': {}",
                redact_password(&text),
                invalid.reason
            );
            command
                .clone()
                .error(clap::error::ErrorKind::ValueValidation, message)
        })
    }
}

#[derive(Args)]
pub struct PublicUrls {
    /// URL that clients use, ending in /v1, for links and the contract.
    ///
    /// By default, the contract names the address that the service listens on.
    #[arg(long, env = "PETSTORE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<PublicUrl>,
    /// URL of the staging service, ending in /v1, for the contract.
    #[arg(long, env = "PETSTORE_STAGING_URL", value_name = "URL")]
    pub staging_url: Option<PublicUrl>,
}

#[derive(Args)]
pub struct WebhookTargets {
    /// Allow webhooks with http URLs.
    ///
    /// Anyone on the way can then read the events that are sent there. By default, only
    /// https URLs are allowed.
    #[arg(long, env = "PETSTORE_WEBHOOK_ALLOW_HTTP")]
    pub webhook_allow_http: bool,
    /// Network that webhooks may be delivered to although it is not public, such as
    /// 10.1.0.0/16.
    ///
    /// Repeat the option, or separate networks with commas, to allow several. By default,
    /// webhooks are delivered to public addresses only: with this option, a client whose API key
    /// has the scope webhooks:write can have requests sent to the services of that network.
    #[arg(
        long = "webhook-allow-net",
        env = "PETSTORE_WEBHOOK_ALLOW_NET",
        value_delimiter = ',',
        value_name = "CIDR"
    )]
    pub webhook_allow_nets: Vec<Network>,
}

impl WebhookTargets {
    pub fn policy(&self) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.webhook_allow_http,
            networks: self.webhook_allow_nets.iter().copied().collect(),
        }
    }
}

#[derive(Args)]
pub struct BackupOptions {
    /// Folder for backups of the SQLite file, which the service then takes by itself.
    ///
    /// Each has its time (UTC) in its name, is checked before it gets that name, and can be
    /// restored with `petstore restore`. The folder is created if it is missing. By default, no
    /// backups are taken.
    #[arg(long, env = "PETSTORE_BACKUP_DIR", value_name = "FOLDER")]
    pub backup_dir: Option<PathBuf>,
    /// Bucket for backups of the SQLite file, such as s3://bucket/prefix, beside or instead of a
    /// folder.
    ///
    /// The endpoint, the region and the credentials are those of the environment variables
    /// AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
    /// AWS_SESSION_TOKEN.
    #[arg(long, env = "PETSTORE_BACKUP_TO", value_name = "URL")]
    pub backup_to: Option<S3Url>,
    /// Interval between backups, such as 1h, 24h or 7d.
    #[arg(
        long,
        env = "PETSTORE_BACKUP_EVERY",
        value_parser = backup_interval,
        default_value = DEFAULT_BACKUP_INTERVAL,
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    pub backup_every: SignedDuration,
    /// Number of backups to keep in the folder, and in the bucket. Older ones of this store are
    /// deleted.
    #[arg(
        long,
        env = "PETSTORE_BACKUP_KEEP",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000),
        default_value_t = DEFAULT_BACKUPS,
        value_name = "COUNT",
        allow_hyphen_values = true
    )]
    pub backup_keep: usize,
}

pub const DEFAULT_BACKUP_INTERVAL: &str = "24h";
const DEFAULT_BACKUPS: usize = 14;

impl BackupOptions {
    /// Returns the backups to take. Fails on PostgreSQL.
    pub fn config(&self, database: &DatabaseUrl) -> Result<Option<Config>, &'static str> {
        if self.backup_dir.is_none() && self.backup_to.is_none() {
            let is_default = backup_interval(DEFAULT_BACKUP_INTERVAL) == Ok(self.backup_every)
                && self.backup_keep == DEFAULT_BACKUPS;
            return if is_default {
                Ok(None)
            } else {
                Err("--backup-every and --backup-keep (PETSTORE_BACKUP_EVERY, \
                     PETSTORE_BACKUP_KEEP) need a place for the backups; add --backup-dir or \
                     --backup-to")
            };
        }
        if let DatabaseUrl::Postgres(_) = database {
            return Err(
                "--backup-dir and --backup-to (PETSTORE_BACKUP_DIR, PETSTORE_BACKUP_TO) are for \
                 SQLite files; remove them, and back up PostgreSQL with pg_dump or pg_basebackup, \
                 see docs/operations.md",
            );
        }
        let bucket = self.backup_to.clone().map(|url| {
            let settings = S3Settings::read(|name| env::var(name).ok())?;
            Ok::<_, &str>((url, Arc::new(settings)))
        });
        Ok(Some(Config {
            folder: self.backup_dir.clone(),
            bucket: bucket.transpose()?,
            every: self.backup_every,
            keep: self.backup_keep,
        }))
    }
}
