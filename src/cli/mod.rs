//! The command line: one file a subcommand.

mod backup;
mod check;
mod copy;
mod export;
mod healthcheck;
mod import;
mod keys;
mod log;
mod man;
mod openapi;
mod pet_file;
mod seed;
mod serve;

use std::{
    error::Error,
    ffi::OsStr,
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use clap::{Arg, Args, CommandFactory, Parser, Subcommand, builder::TypedValueParser};
use clap_complete::Shell;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    api::PublicUrl,
    invalid::{Invalid, quoted},
    server::{CertificateError, Tls},
    store::{DatabaseUrl, redact_password},
};

type Outcome = Result<(), Box<dyn Error>>;

/// A store inventory for animals, over HTTP and JSON.
///
/// Run `petstore serve`, make a key with `petstore keys create NAME`, and send it
/// as `Authorization: Bearer <KEY>`. Every option can also be set by the
/// environment variable that stands beside it.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  petstore serve
      Serves on 127.0.0.1:8080 from the file petstore.db, made if it is not there.
  KEY=$(petstore keys create till)
      Makes a key with all scopes and keeps its secret in KEY.
  curl -H \"Authorization: Bearer $KEY\" http://127.0.0.1:8080/v1/pets
      Lists the animals.";

#[derive(Subcommand)]
enum Command {
    /// Run the service.
    ///
    /// Serves until SIGTERM or SIGINT, then finishes the requests that run and
    /// closes the database. On a terminal with a new database it also makes
    /// the first key. While it runs, the file of the database has its log
    /// (-wal) and index (-shm) beside it.
    Serve(serve::Serve),
    /// Make, list and revoke API keys, also beside a running service.
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Move a store from an SQLite file to an empty PostgreSQL database.
    ///
    /// Ids, keys and orders are kept. All of it is copied, or nothing.
    Copy(copy::Copy),
    /// Copy an SQLite store to a file, also while it is served.
    ///
    /// The copy has all that was acknowledged before. It appears under its name
    /// when it is whole and verified. To restore it, stop the service and put
    /// it in the place of the file, without the -wal and -shm files beside it.
    Backup(backup::Backup),
    /// Look a store through, also while it is served, and say what is wrong.
    ///
    /// The pages of the file, the counts, and orders against animals. What is
    /// wrong goes to standard output, one finding a line, with exit code 1.
    Check(check::Check),
    /// Add the animals of a file, all of them or none.
    ///
    /// A file as spreadsheets write it will do: with a byte order mark, with
    /// commas, semicolons or tabs, with quotes. A store in a file must not be
    /// served meanwhile.
    Import(import::Import),
    /// Write all animals to a file, or to standard output.
    Export(export::Export),
    /// Add believable animals, for a first look.
    ///
    /// A store in a file must not be served meanwhile.
    Seed(seed::Seed),
    /// Say whether the service on this machine is ready: exit code 0 or 1.
    ///
    /// For the probe of a container, with the options of `petstore serve`.
    Healthcheck(healthcheck::Healthcheck),
    /// Print the contract (OpenAPI 3.1).
    Openapi(openapi::Openapi),
    /// Print a completion script for a shell.
    ///
    /// For example, in bash: source <(petstore completions bash)
    Completions {
        /// The shell to print it for.
        shell: Shell,
    },
    /// Write the manual pages to a folder, one a command.
    Man(man::Man),
}

#[derive(Args)]
struct Listen {
    /// The address and port of the service; port 0 takes a free one.
    #[arg(
        long,
        env = "PETSTORE_LISTEN",
        value_parser = address,
        default_value = "127.0.0.1:8080",
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    listen: SocketAddr,
}

/// An address and a port, or `localhost` and a port.
fn address(text: &str) -> Result<SocketAddr, Invalid> {
    let ip = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    ip.as_deref().unwrap_or(text).parse().map_err(|_| {
        let reason = format!(
            "must be an address and a port such as 127.0.0.1:8080, got {}",
            quoted(text)
        );
        Invalid::new("address", reason)
    })
}

#[derive(Args)]
struct TlsFiles {
    /// The file with the service's certificate, followed by those that lead to
    /// its authority, in PEM form. With it the service speaks TLS. A renewed
    /// one is noticed while it runs.
    #[arg(
        long,
        env = "PETSTORE_TLS_CERT",
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The file with the private key of the certificate, in PEM form.
    #[arg(
        long,
        env = "PETSTORE_TLS_KEY",
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
}

impl TlsFiles {
    fn load(&self) -> Result<Option<Arc<Tls>>, CertificateError> {
        let files = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let tls = files.map(|(cert, key)| Tls::load(cert, key));
        Ok(tls.transpose()?.map(Arc::new))
    }
}

#[derive(Args)]
struct Database {
    /// Where the data lives: sqlite: and a file's path, or postgres:// and
    /// the rest of a server's address.
    #[arg(
        long,
        env = "PETSTORE_DATABASE",
        hide_env_values = true,
        value_parser = UrlParser(str::parse::<DatabaseUrl>),
        default_value = DEFAULT_DATABASE,
        value_name = "URL"
    )]
    database: DatabaseUrl,
}

/// Reads the address of a database. If it is wrong, the message does not
/// repeat its password.
#[derive(Clone)]
struct UrlParser<T>(fn(&str) -> Result<T, Invalid>);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for UrlParser<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        let plain = value.to_str().ok_or(Invalid::new("text", "must be UTF-8"));
        plain.and_then(self.0).map_err(|wrong| {
            let name = argument.map_or_else(String::new, Arg::to_string);
            let message = format!(
                "invalid value '{}' for '{name}': {}\n",
                redact_password(&text),
                wrong.reason
            );
            command
                .clone()
                .error(clap::error::ErrorKind::ValueValidation, message)
        })
    }
}

const DEFAULT_DATABASE: &str = "sqlite:petstore.db";

#[derive(Args)]
struct Addresses {
    /// The address that clients use, ending in /v1; links and the contract
    /// show it. By default the contract shows where the service listens.
    #[arg(long, env = "PETSTORE_PUBLIC_URL", value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// The address of the staging service, ending in /v1, for the contract.
    #[arg(long, env = "PETSTORE_STAGING_URL", value_name = "URL")]
    staging_url: Option<PublicUrl>,
}

/// Writes a line to standard error. If nobody reads it, that is no failure.
macro_rules! say {
    ($($line:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($line)*)));
    }};
}
use say;

/// Writes to standard output. A reader who has seen enough may leave.
fn print(bytes: &[u8]) -> Outcome {
    match io::stdout()
        .write_all(bytes)
        .and_then(|()| io::stdout().flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Carries out what a tool does, on this thread.
fn block_on<T>(work: impl Future<Output = Result<T, Box<dyn Error>>>) -> Result<T, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// How far something has come, drawn on a terminal only.
fn progress_bar(unit: &str) -> ProgressBar {
    let template = format!("{{bar:40}} {{human_pos}} of {{human_len}} {unit}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a template that was tried");
    ProgressBar::new(0).with_style(style)
}

/// Runs the command line. A usage error ends with 2, a failure with 1.
pub fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Serve(serve) => return serve.run(),
        Command::Keys(keys) => keys.run(),
        Command::Copy(copy) => copy.run(),
        Command::Backup(backup) => backup.run(),
        Command::Check(check) => check.run(),
        Command::Import(import) => import.run(),
        Command::Export(export) => export.run(),
        Command::Seed(seed) => seed.run(),
        Command::Healthcheck(healthcheck) => healthcheck.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "petstore", &mut script);
            print(&script)
        }
        Command::Man(man) => man.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("petstore: {error}");
            ExitCode::FAILURE
        }
    }
}
