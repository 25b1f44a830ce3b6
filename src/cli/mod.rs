//! The command line: one file a subcommand.

mod copy;
mod keys;
mod openapi;
mod serve;

use std::{
    error::Error,
    ffi::OsStr,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Arg, Args, CommandFactory, Parser, Subcommand, builder::TypedValueParser};
use clap_complete::Shell;

use crate::{
    http::PublicUrl,
    invalid::Invalid,
    store::{DatabaseUrl, without_password},
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
    /// Print the contract (OpenAPI 3.1).
    Openapi(openapi::Openapi),
    /// Print a completion script for a shell.
    ///
    /// For example, in bash: source <(petstore completions bash)
    Completions {
        /// The shell to print it for.
        shell: Shell,
    },
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
        (self.0)(&text).map_err(|wrong| {
            let name = argument.map_or_else(String::new, Arg::to_string);
            let message = format!(
                "invalid value '{}' for '{name}': {}\n",
                without_password(&text),
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
fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Runs the command line. A usage error ends with 2, a failure with 1.
pub fn main() -> ExitCode {
    let outcome = match CommandLine::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Keys(keys) => keys.run(),
        Command::Copy(copy) => copy.run(),
        Command::Openapi(openapi) => openapi.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "petstore", &mut script);
            print(&script)
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say!("petstore: {error}");
            ExitCode::FAILURE
        }
    }
}
