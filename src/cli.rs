//! The command line, with one module per subcommand.

mod api_output;
mod backup;
mod bulk;
mod check;
mod client;
mod copy;
mod database;
mod demo;
mod doctor;
mod duration;
mod erase_source;
mod events;
mod export;
mod formula;
mod healthcheck;
mod import;
mod importer;
mod interrupt;
mod keys;
mod listen;
mod man;
mod openapi;
mod options;
mod os_errors;
mod output_file;
mod packaged_settings;
mod pet_file;
mod photos;
mod record_writer;
mod register;
mod restore;
mod sample;
mod seed;
mod serve;
mod statements;
mod stdout;
mod table;
mod terminal;
mod webhooks;

use std::{error::Error, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use database::{Database, PasswordFile, ServedDatabase, print_warning};
use interrupt::{Interrupt, SignalError};
use listen::{Listen, socket_address};
use options::{BackupOptions, PublicUrls, TlsFiles, UrlParser, WebhookTargets};
use os_errors::explain_os_errors;
use stdout::print;
use table::table;
use terminal::{escape_for_terminal, escape_path};

type CommandResult = Result<(), Box<dyn Error>>;

/// Pet store inventory service: HTTP and JSON over SQLite or PostgreSQL.
///
/// Start the service with `petstore serve`, open the console that it prints, or create an API key
/// with `petstore keys create NAME` and send it as `Authorization: Bearer <KEY>`. Options can
/// also be set with the environment variables shown next to them.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  petstore serve
      Serve petstore.db on 127.0.0.1:8080, creating the file if it doesn't exist
  petstore serve --demo
      Serve made-up animals and orders from a temporary database, to look around
  PETSTORE_KEY=$(petstore keys create till)
      Create an API key for animals, orders and webhooks, and store its secret in PETSTORE_KEY
  curl -H \"Authorization: Bearer $PETSTORE_KEY\" http://127.0.0.1:8080/v1/pets
      List the animals";

#[derive(Subcommand)]
enum Command {
    /// Run the service.
    ///
    /// On SIGTERM, SIGINT or SIGHUP the service finishes the requests in flight, closes the
    /// database and exits; a second signal stops it immediately. If it is started on a
    /// terminal with a new database, it also creates the first API key, and prints a link to
    /// the console that is signed in with it. While an SQLite file is being served, its
    /// write-ahead log (-wal) and shared-memory index (-shm) are next to it.
    Serve(Box<serve::Serve>),
    /// Create, list, rotate and revoke API keys.
    ///
    /// Changes take effect while the service is running.
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Copy a store from an SQLite file to an empty PostgreSQL database.
    ///
    /// Copies the whole store, with its ids, the event log, webhooks and records of imports; or
    /// nothing.
    Copy(copy::Copy),
    /// Back up an SQLite store to a file, even while it is being served.
    ///
    /// The backup contains everything that was acknowledged before it started. It
    /// appears under its name once it is complete and verified. `petstore restore`
    /// puts it in place.
    Backup(backup::Backup),
    /// Put a backup in place of an SQLite store that is not being served.
    ///
    /// Checks the integrity of the backup before anything is changed. The store that was
    /// there is kept beside the new one, under a name with the time. After a crash, either
    /// of them is in place, complete. With --list, only lists the backups in a folder or a
    /// bucket.
    Restore(restore::Restore),
    /// Check the integrity of a store, even while it is being served.
    ///
    /// Checks the pages of an SQLite file, the schema, the counts, that orders, photos and animals
    /// agree, and that every photo is undamaged. Prints one problem per line to standard output;
    /// if there are any, the exit code is 1.
    Check(check::Check),
    /// Diagnose the installation and suggest fixes.
    ///
    /// Checks the store, its API keys, the clock, the free space, whether the service
    /// responds and accepts imports, its metrics, its certificate, and the settings of the
    /// packaged service. Prints one line per finding: ok, warning or problem. If there is a
    /// problem, the exit code is 1. The options are those of `petstore serve`. Changes
    /// nothing, and works beside a running service.
    Doctor(doctor::Doctor),
    /// Add and change animals from a table or JSON Lines file, even while the store is being
    /// served, or undo an import.
    ///
    /// Reads tables as spreadsheets write them: workbooks (.xlsx), and CSV with or without a
    /// byte order mark, separated by commas, semicolons or tabs, with or without quotes. The
    /// whole file is checked first; if a line is invalid, nothing is imported.
    ///
    /// If an import is interrupted, run the same command again within 90 days: it continues
    /// where it stopped. Into an SQLite file that is not being served, a file is imported
    /// completely or not at all. A file that was imported in the last 90 days is not imported
    /// again, unless you ask for it with --restart.
    Import(import::ImportArgs),
    /// Export all animals, or all orders, to a file or to standard output.
    Export(export::Export),
    /// Print the register of animals: those acquired and those sold in a period, as CSV.
    ///
    /// It has the source and the buyer of each animal, as laws ask for them, and animals that
    /// were deleted since. The buyers are personal data: keep the file accordingly. Works
    /// beside a running service.
    Register(register::Register),
    /// Erase the source of animals that were deleted.
    ///
    /// The register keeps a deleted animal, with its source, for three years, or for as long as
    /// events are kept if that is longer. If the source is a person who asks for erasure, this
    /// removes the name, the address and the licence from the register, for good. Events about
    /// the animal keep them until they are purged. The source of an animal that still exists is
    /// changed in the console or over the API. Works beside a running service.
    EraseSource(erase_source::EraseSource),
    /// Add random sample animals, even while the store is being served.
    ///
    /// If the store has no categories with the same numbers or names yet, the categories of
    /// the animals get names, too.
    Seed(seed::Seed),
    /// Print the event log of a service, and follow it.
    ///
    /// Uses the API, with the key in the environment variable PETSTORE_KEY, which needs one of
    /// the scopes pets:read, orders:read and keys:read. Prints a line for people on a terminal,
    /// and otherwise JSON: each event as the API sends it, on a line of its own.
    Events(events::Events),
    /// Manage the webhooks of a service.
    ///
    /// Uses the API, with the key in the environment variable PETSTORE_KEY, which needs
    /// the scope webhooks:read or webhooks:write, and the scopes to read the events that
    /// are sent. Prints for people on a terminal, and otherwise JSON: each webhook or
    /// delivery as the API sends it, on a line of its own.
    #[command(subcommand)]
    Webhooks(webhooks::Webhooks),
    /// Add, list and delete the photos of animals, or import a folder of them.
    ///
    /// Uses the API, with the key in the environment variable PETSTORE_KEY, which needs
    /// the scopes pets:read and pets:write. `petstore export --photos` writes all photos to a
    /// folder.
    #[command(subcommand)]
    Photos(photos::Photos),
    /// Check whether the service on this machine is ready.
    ///
    /// Exits with 0 if it is and with 1 if it isn't. Meant as the health check of
    /// a container: `--listen` and `--tls-cert`, and their variables, are those of
    /// `petstore serve`.
    Healthcheck(healthcheck::Healthcheck),
    /// Print the API contract (OpenAPI 3.1).
    Openapi(openapi::Openapi),
    /// Print a shell completion script.
    ///
    /// In bash, for example: source <(petstore completions bash)
    Completions {
        /// Shell to print the script for.
        shell: Shell,
    },
    /// Write the manual pages to a directory, one per command.
    Man(man::Man),
    /// Print every SQL statement with its plan, for developers.
    #[command(hide = true)]
    Statements(statements::Statements),
}

impl Command {
    /// Gives up root for the owner of the store, if it is an SQLite file. From then on, a command
    /// can do only what that user may do, with other files as well.
    fn give_up_root(&self) -> CommandResult {
        let database = match self {
            Self::Keys(keys) => keys.database(),
            Self::Backup(backup) => &backup.database,
            Self::Restore(restore) if restore.list => return Ok(()),
            Self::Restore(restore) => &restore.database,
            Self::Check(check) => &check.database,
            Self::Statements(statements) => &statements.database,
            Self::Import(import) => &import.database,
            Self::Export(export) => &export.database,
            Self::Register(register) => &register.database,
            Self::EraseSource(erase) => &erase.database,
            Self::Seed(seed) => &seed.database,
            // These commands first do what only root may do.
            Self::Serve(_) | Self::Copy(_) | Self::Doctor(_) => return Ok(()),
            // These commands use no store.
            Self::Events(_)
            | Self::Webhooks(_)
            | Self::Photos(_)
            | Self::Healthcheck(_)
            | Self::Openapi(_)
            | Self::Completions { .. }
            | Self::Man(_) => return Ok(()),
        };
        Ok(database.give_up_root()?)
    }
}

/// Prints a line to standard error. Unlike `eprintln!`, it doesn't panic if
/// standard error is closed, and it prints nothing that changes the terminal.
macro_rules! status {
    ($($line:tt)*) => {{
        let line = $crate::cli::terminal::escape_lines(&format!($($line)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
use status;

/// Formats a count with its noun: "1 animal", "12 animals".
fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", plural(count, "", "s"))
}

/// Returns the word for one thing, or the one for several.
fn plural(count: u64, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// Quotes a word for a POSIX shell if it needs quoting.
fn shell_quote(word: &str) -> String {
    if word
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
    {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Runs a one-off command's future on the current thread.
fn block_on<T>(
    future: impl Future<Output = Result<T, Box<dyn Error>>>,
) -> Result<T, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(future)
}

/// A progress bar, drawn only if standard error is a terminal, and cleared when it is
/// dropped, so that an error is reported on a line of its own.
fn progress_bar(unit: &str) -> ProgressBar {
    // Narrow enough for 80 columns: a line that wraps is not cleared completely.
    let template = format!("{{bar:24}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    ProgressBar::new(0)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}

/// Shows the progress of a copy. Prints the announcement with the first report, when the source
/// has turned out to be usable.
fn copy_progress(bar: &ProgressBar, announcement: String) -> impl FnMut(u64, u64) {
    let mut announcement = Some(announcement);
    move |done, total| {
        if let Some(announcement) = announcement.take() {
            status!("{announcement}");
        }
        bar.set_length(total);
        bar.set_position(done);
    }
}

/// Runs the command line. Exits with 2 for a usage error, with 128 plus its number after a
/// signal, and with 1 for any other error.
pub fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    let unprivileged = command.give_up_root();
    let result = match command {
        Command::Serve(serve) => return serve.run(),
        _ if unprivileged.is_err() => unprivileged,
        Command::Keys(keys) => keys.run(),
        Command::Copy(copy) => copy.run(),
        Command::Backup(backup) => backup.run(),
        Command::Restore(restore) => restore.run(),
        Command::Check(check) => check.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Import(import) => import.run(),
        Command::Export(export) => export.run(),
        Command::Register(register) => register.run(),
        Command::EraseSource(erase) => erase.run(),
        Command::Seed(seed) => seed.run(),
        Command::Events(events) => events.run(),
        Command::Webhooks(webhooks) => webhooks.run(),
        Command::Photos(photos) => photos.run(),
        Command::Healthcheck(healthcheck) => healthcheck.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "petstore", &mut script);
            print(&script)
        }
        Command::Man(man) => man.run(),
        Command::Statements(statements) => statements.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            status!("petstore: {}", explain_os_errors(&error.to_string()));
            match error.downcast_ref::<SignalError>() {
                Some(signal) => signal.exit_code().into(),
                None => ExitCode::FAILURE,
            }
        }
    }
}
