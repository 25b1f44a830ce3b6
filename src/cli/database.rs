//! The database that a command uses, and its password from a file.

use std::{
    error::Error,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{DEFAULT_DATABASE, UrlParser, status};
use crate::store::{DatabaseUrl, PostgresUrl};

#[derive(Args)]
pub struct Database {
    /// Database to use: sqlite:PATH or postgres://USER@HOST/DATABASE.
    #[arg(
        long,
        env = "PETSTORE_DATABASE",
        hide_env_values = true,
        value_parser = UrlParser(str::parse::<DatabaseUrl>),
        default_value = DEFAULT_DATABASE,
        value_name = "URL"
    )]
    pub database: DatabaseUrl,
    #[command(flatten)]
    pub password: PasswordFile,
}

#[derive(Args)]
pub struct PasswordFile {
    /// File with the password for PostgreSQL, instead of one in the URL.
    ///
    /// A line break at the end of the file is not part of the password.
    #[arg(long, env = "PETSTORE_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<PathBuf>,
}

impl Database {
    /// The URL to connect to. Prints warnings to standard error.
    pub fn url(&self) -> Result<DatabaseUrl, Box<dyn Error>> {
        self.url_with_warnings(print_warning)
    }

    /// The URL to connect to. Calls `warn` for what makes the connection insecure.
    pub fn url_with_warnings(&self, warn: fn(String)) -> Result<DatabaseUrl, Box<dyn Error>> {
        let mut url = self.database.clone();
        match &mut url {
            DatabaseUrl::Postgres(url) => self.password.apply(url, warn)?,
            DatabaseUrl::Sqlite(_) if self.password.database_password_file.is_some() => {
                let message = "--database-password-file is for PostgreSQL, but the database is";
                return Err(format!("{message} {url}").into());
            }
            DatabaseUrl::Sqlite(_) => {}
        }
        Ok(url)
    }
}

impl PasswordFile {
    /// Adds the password to the URL. Calls `warn` for what makes the connection
    /// insecure.
    pub fn apply(&self, url: &mut PostgresUrl, warn: fn(String)) -> Result<(), Box<dyn Error>> {
        if let Some(file) = &self.database_password_file {
            if url.has_password() {
                let message = "the database URL has a password, and --database-password-file is \
                               set, too; remove one of them";
                return Err(message.into());
            }
            url.set_password(read_password(file, warn)?);
        }
        if let Some(host) = url.unverified_host() {
            warn(format!(
                "the database server {host} is not verified, so another server can pose as it and \
                 read the password; add sslmode=verify-full to the URL, and sslrootcert=FILE for \
                 a private certificate authority"
            ));
        }
        Ok(())
    }
}

pub fn print_warning(warning: String) {
    status!("petstore: warning: {warning}");
}

fn read_password(file: &Path, warn: fn(String)) -> Result<Vec<u8>, Box<dyn Error>> {
    let shown = file.display();
    let failed = |cause| format!("cannot read the database password from {shown}: {cause}");
    let text = fs::read(file).map_err(failed)?;
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    let password = line.strip_suffix(b"\r").unwrap_or(line);
    if password.is_empty() {
        return Err(format!("the database password file {shown} is empty").into());
    }
    if fs::metadata(file).map_err(failed)?.mode() & 0o004 != 0 {
        warn(format!(
            "all users of this machine can read the database password in {shown}; restrict it \
             with chmod 600"
        ));
    }
    Ok(password.into())
}
