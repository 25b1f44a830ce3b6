//! The database that a command uses, and its password from a file.

use std::{
    env,
    error::Error,
    fs::File,
    io::{IsTerminal, Read, stderr},
    ops::Deref,
    os::unix::fs::MetadataExt,
    path::{self, Path, PathBuf},
    process,
};

use clap::{ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

use super::{
    UrlParser, escape_path,
    packaged_settings::{PackagedSettings, SETTINGS, SETTINGS_VARIABLE},
    shell_quote, status,
    terminal::read_secret,
};
use store::{DatabaseUrl, OpenError, PostgresUrl, give_up_root};

pub const DEFAULT_FILE: &str = "petstore.db";
pub const DEFAULT_DATABASE: &str = "sqlite:petstore.db";

/// The database of a command on an existing store. By default, it is the database of the packaged
/// service, if there is one and the current directory has no file.
pub struct Database(ServedDatabase);

/// The database that the command line names.
#[derive(Args)]
pub struct ServedDatabase {
    /// Database to use: an SQLite file, or postgres://USER@HOST/DATABASE.
    ///
    /// If there is no petstore.db in the current directory, commands other than `serve` use
    /// the database of the service that the Debian package has installed.
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

impl ServedDatabase {
    /// Returns the options that name the database, for a command that a person can copy.
    pub fn options(&self) -> String {
        let mut options = String::new();
        let database = match &self.database {
            DatabaseUrl::Sqlite(_) => self.database.to_string(),
            DatabaseUrl::Postgres(url) => url.without_password().into(),
        };
        if database != DEFAULT_DATABASE {
            options += &format!(" --database {}", shell_quote(&database));
        }
        let file = self.password.database_password_file.as_deref();
        let asked = self.asks_for_password().then_some(Path::new("/dev/stdin"));
        if let Some(file) = file.or(asked) {
            let file = shell_quote(&file.to_string_lossy());
            options += &format!(" --database-password-file {file}");
        }
        options
    }

    /// Returns true if a command with these options reads the password from standard input: it
    /// is part of the URL, and is never shown.
    pub fn asks_for_password(&self) -> bool {
        matches!(&self.database, DatabaseUrl::Postgres(url) if url.has_password())
    }

    /// Returns the database as shown to people.
    pub fn location(&self) -> String {
        location(&self.database)
    }

    /// Gives up root for the owner of an SQLite file. Must be called before threads are started.
    pub fn give_up_root(&self) -> Result<(), OpenError> {
        match &self.database {
            DatabaseUrl::Sqlite(file) => give_up_root(file),
            DatabaseUrl::Postgres(_) => Ok(()),
        }
    }

    /// Returns the URL to connect to. Prints warnings to standard error.
    pub fn url(&self) -> Result<DatabaseUrl, Box<dyn Error>> {
        self.url_with_warnings(print_warning)
    }

    /// Returns the URL to connect to. Calls `warn` with every reason why the connection is
    /// insecure.
    pub fn url_with_warnings(&self, warn: fn(String)) -> Result<DatabaseUrl, Box<dyn Error>> {
        let mut url = self.database.clone();
        match &mut url {
            DatabaseUrl::Postgres(url) => self.password.apply(url, warn)?,
            DatabaseUrl::Sqlite(_) if self.password.database_password_file.is_some() => {
                let message = "--database-password-file is for PostgreSQL, but the database is";
                return Err(format!("{message} {url}; remove it").into());
            }
            DatabaseUrl::Sqlite(_) => {}
        }
        Ok(url)
    }
}

/// Returns a database as shown to people: with the whole path of a file, because they may be in
/// another directory than they think.
pub fn location(database: &DatabaseUrl) -> String {
    match database {
        DatabaseUrl::Sqlite(file) => {
            let absolute = file.canonicalize().or_else(|_| path::absolute(file));
            escape_path(absolute.as_ref().unwrap_or(file))
        }
        DatabaseUrl::Postgres(url) => url.to_string(),
    }
}

impl Deref for Database {
    type Target = ServedDatabase;

    fn deref(&self) -> &ServedDatabase {
        &self.0
    }
}

impl FromArgMatches for Database {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut database = ServedDatabase::from_arg_matches(matches)?;
        let is_default = matches.value_source("database") == Some(ValueSource::DefaultValue);
        if is_default && !Path::new(DEFAULT_FILE).exists() {
            use_packaged_service(&mut database).unwrap_or_else(|reason| {
                // This is not a usage error, for which clap would exit with 2.
                status!("petstore: {reason}");
                process::exit(1);
            });
        }
        Ok(Self(database))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Takes the database from the settings of the packaged service, if there is one.
fn use_packaged_service(database: &mut ServedDatabase) -> Result<(), String> {
    let file = env::var_os(SETTINGS_VARIABLE).map_or(SETTINGS.into(), PathBuf::from);
    let shown = file.display();
    let Ok(settings) = PackagedSettings::read(&file) else {
        let command: Vec<_> = env::args().map(|word| shell_quote(&word)).collect();
        return Err(format!(
            "there is no petstore.db in this directory, and only root can read the settings \
             of the installed service, {shown}\n\nUse its database with:\n\n    sudo {}\n\n\
             Or name another database with --database.",
            command.join(" ")
        ));
    };
    let Some(settings) = settings else {
        return Ok(());
    };
    database.database = settings.database()?;
    if database.password.database_password_file.is_none() {
        let file = settings.path("PETSTORE_DATABASE_PASSWORD_FILE");
        database.password.database_password_file = file;
    }
    let database = &database.database;
    status!("Using {database}, the database of the installed service ({shown}).");
    Ok(())
}

impl Args for Database {
    fn augment_args(command: Command) -> Command {
        ServedDatabase::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServedDatabase::augment_args_for_update(command)
    }
}

impl PasswordFile {
    /// Adds the password to the URL. Calls `warn` with every reason why the connection is
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
    let mut opened = File::open(file).map_err(failed)?;
    let mut text = Vec::new();
    if opened.is_terminal() && stderr().is_terminal() {
        text = read_secret("Password for PostgreSQL: ").map_err(failed)?;
    } else {
        opened.read_to_end(&mut text).map_err(failed)?;
    }
    let line = text.strip_suffix(b"\n").unwrap_or(&text);
    let password = line.strip_suffix(b"\r").unwrap_or(line);
    if password.is_empty() {
        return Err(format!("the database password file {shown} is empty").into());
    }
    if opened.metadata().map_err(failed)?.mode() & 0o004 != 0 {
        warn(format!(
            "all users of this machine can read the database password in {shown}; restrict it \
             with chmod 600"
        ));
    }
    Ok(password.into())
}
