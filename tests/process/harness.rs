//! Runs the binary in a temporary directory.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use rusqlite::Connection;
use store::{DatabaseUrl, Options, Role, Store};
use support::{CommandResult, wait_for};
pub use support::{Service, without_colors};
use tempfile::TempDir;

pub const PETSTORE: &str = env!("CARGO_BIN_EXE_petstore");

/// A temporary working directory for the binary, and the database it uses.
pub struct Home {
    dir: TempDir,
    /// The database, unless it is the file in the directory.
    database_url: Option<String>,
}

impl Home {
    pub fn new() -> Self {
        Self::with_prefix("petstore-")
    }

    pub fn with_prefix(prefix: &str) -> Self {
        let dir = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
        Self {
            dir,
            database_url: None,
        }
    }

    /// A directory whose commands use the database at this URL.
    pub fn with_database(url: String) -> Self {
        Self {
            database_url: Some(url),
            ..Self::new()
        }
    }

    pub fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    pub fn database(&self) -> PathBuf {
        self.path("petstore.db")
    }

    /// Creates a petstore database of schema 0, from before the first migration.
    pub fn older_database(&self) -> Connection {
        let db = Connection::open(self.database()).unwrap();
        let application_id = i32::from_be_bytes(*b"PETS");
        db.pragma_update(None, "application_id", application_id)
            .unwrap();
        db
    }

    pub fn url(&self) -> String {
        let file = || url(&self.database());
        self.database_url.clone().unwrap_or_else(file)
    }

    /// The names of all files in the directory.
    pub fn files(&self) -> Vec<String> {
        self.contents().into_keys().collect()
    }

    /// All files in the directory with their contents.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.is_file())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into();
                (name, fs::read(path).unwrap())
            })
            .collect()
    }

    /// A command that runs in the directory, without the `PETSTORE_*` variables
    /// of the test runner's environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = support::command(program);
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the binary and waits for it to exit.
    pub fn petstore(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(self.command(PETSTORE).args(arguments))
    }

    /// Runs `petstore keys …` on the database.
    pub fn keys(&self, arguments: &[&str]) -> CommandResult {
        let mut command = self.command(PETSTORE);
        command.arg("keys").args(arguments);
        CommandResult::of(command.args(["--database", &self.url()]))
    }

    /// Creates an API key with the default scopes and returns its secret. Creates the store first,
    /// if there is none.
    pub fn new_key(&self) -> String {
        let created = self.keys(&["create", "test"]);
        if created.stderr.contains("start `petstore serve`") {
            self.create_store();
            return self.keys(&["create", "test"]).success().secret();
        }
        created.success().secret()
    }

    /// Creates the store, as the first start of a service does.
    pub fn create_store(&self) {
        let url: DatabaseUrl = self.url().parse().unwrap();
        let options = Options {
            create: true,
            ..Options::new(Role::Cli)
        };
        let create = async { Store::open(&url, &options).await.unwrap().close().await };
        // On a thread of its own: the caller may be in a runtime.
        thread::scope(|scope| {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            scope
                .spawn(move || runtime.block_on(create))
                .join()
                .unwrap();
        });
    }

    /// The command that serves the database on a free port.
    pub fn serve_command(&self) -> Command {
        let mut command = self.command(PETSTORE);
        command.args(self.serve_arguments());
        command
    }

    pub fn serve(&self) -> Service {
        Service::start(&mut self.serve_command())
    }

    /// `petstore serve` under strace.
    pub fn serve_traced(&self, options: &[&str]) -> Command {
        let mut command = self.traced(options);
        command.args(self.serve_arguments());
        command
    }

    /// `petstore` under strace, without arguments. `-D` detaches the tracer, so
    /// the spawned process is petstore itself. The trace goes to the file
    /// `trace`.
    pub fn traced(&self, options: &[&str]) -> Command {
        let mut command = self.command("strace");
        command
            .args(["-D", "-f", "-y", "-s", "64", "-o", "trace"])
            .args(options)
            .arg(PETSTORE);
        command
    }

    /// The complete trace of a process that has exited.
    pub fn trace_of(&self, pid: u32) -> String {
        wait_for("the trace to be complete", || {
            let trace = fs::read_to_string(self.path("trace")).unwrap();
            let end = [&pid.to_string(), "+++"];
            let is_end = |line: &str| line.split_whitespace().take(2).eq(end);
            trace.lines().any(is_end).then_some(trace)
        })
    }

    pub fn serve_arguments(&self) -> [String; 5] {
        let database = self.url();
        ["serve", "--listen", "127.0.0.1:0", "--database", &database].map(String::from)
    }
}

/// The database URL of a file.
pub fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}
