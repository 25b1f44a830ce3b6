//! Runs the binary in a temporary directory.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use store::{DatabaseUrl, Options, Role, Store};
use support::{Finished, signal, wait_for};
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
    pub fn petstore(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(PETSTORE).args(arguments))
    }

    /// Runs `petstore keys …` on the database.
    pub fn keys(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(PETSTORE);
        command.arg("keys").args(arguments);
        Finished::of(command.args(["--database", &self.url()]))
    }

    /// Creates an API key with all scopes and returns its secret. Creates the store first, if
    /// there is none.
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
            ..Options::new(Role::Command)
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

    fn serve_arguments(&self) -> [String; 5] {
        let database = self.url();
        ["serve", "--listen", "127.0.0.1:0", "--database", &database].map(String::from)
    }
}

/// The database URL of a file.
pub fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// A running service. Killed on drop.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    output: Arc<Mutex<String>>,
}

impl Service {
    /// Starts a command and waits until it logs its address.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::try_start(command).unwrap_or_else(|output| panic!("it did not start: {output}"))
    }

    /// Like [`start`](Self::start). The output of a service that ends instead is an
    /// `Err`.
    #[track_caller]
    pub fn try_start(command: &mut Command) -> Result<Self, String> {
        Self::start_reading_while(command, |_| true)
    }

    /// Closes the pipes of stdout and stderr once the service listens: later
    /// writes fail with EPIPE.
    #[track_caller]
    pub fn start_with_closed_output(command: &mut Command) -> Self {
        Self::start_reading_while(command, |line| !line.contains("listening")).unwrap()
    }

    /// Reads what it logs until it listens, and returns the rest unread: once the pipe
    /// is full, its writes block.
    #[track_caller]
    pub fn start_unread(command: &mut Command) -> (Self, impl BufRead + use<>) {
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut service = Self {
            child,
            address: ([0, 0, 0, 0], 0).into(),
            output: Arc::default(),
        };
        let mut start = String::new();
        let url = loop {
            assert_ne!(log.read_line(&mut start).unwrap(), 0, "it ended: {start}");
            if let Some(url) = listening_url(&start) {
                break url;
            }
        };
        service.address = url.split("://").nth(1).unwrap().parse().unwrap();
        (service, log)
    }

    #[track_caller]
    fn start_reading_while(command: &mut Command, go_on: fn(&str) -> bool) -> Result<Self, String> {
        let name = command.get_program().to_owned();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(cause) => panic!("cannot run {}: {cause}", name.display()),
        };
        let output = Arc::default();
        let mut collecting = vec![
            collect(child.stdout.take(), &output, go_on),
            collect(child.stderr.take(), &output, go_on),
        ];
        // Built before waiting: if that panics, drop kills the process.
        let mut service = Self {
            child,
            address: ([0, 0, 0, 0], 0).into(),
            output,
        };
        let listening = wait_for("the service to listen", || {
            if let Some(status) = service.child.try_wait().unwrap() {
                for collected in collecting.drain(..).flatten() {
                    collected.join().unwrap();
                }
                return Some(Err(format!("{status}: {}", service.output())));
            }
            let url = listening_url(&service.output())?;
            url.split("://").nth(1)?.parse().ok().map(Ok)
        });
        service.address = listening?;
        Ok(service)
    }

    /// Everything it has written to stdout and stderr so far.
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// The log events so far: one JSON object per line.
    #[track_caller]
    pub fn events(&self) -> Vec<serde_json::Value> {
        let output = self.output();
        let event = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        output.lines().map(event).collect()
    }

    /// Waits for the first event with this message.
    #[track_caller]
    pub fn event(&self, message: &str) -> serde_json::Value {
        wait_for(message, || {
            let mut events = self.events().into_iter();
            events.find(|event| event["message"] == message)
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns true if it has not exited yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it a signal, named without the `SIG` prefix.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Types keys on its terminal.
    pub fn press(&mut self, keys: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(keys).unwrap();
    }

    /// Waits until it exits.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the service to exit", || self.child.try_wait().unwrap())
    }

    /// Shuts it down gracefully with SIGTERM.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.output());
    }

    /// Kills it with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The URL in the startup event, or on the start screen, once that is complete.
fn listening_url(output: &str) -> Option<String> {
    if output.contains("Press Ctrl-C to stop.") {
        let screen = without_colors(output);
        let url = |label| {
            screen
                .lines()
                .find_map(|line| line.trim().strip_prefix(label))
        };
        let url = url("Listening ").or_else(|| url("API   "))?.trim();
        return Some(url.strip_suffix("/v1").unwrap_or(url).into());
    }
    output.lines().find_map(|line| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["message"] == "listening").then(|| event["url"].as_str().unwrap().into())
    })
}

/// Text without the escape sequences that select colours.
pub fn without_colors(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('m').unwrap_or(("", part)).1);
    first.to_string() + &rest.collect::<String>()
}

/// Collects the lines of a stream in the background while `go_on` says so.
fn collect(
    from: Option<impl Read + Send + 'static>,
    into: &Arc<Mutex<String>>,
    go_on: fn(&str) -> bool,
) -> Option<JoinHandle<()>> {
    let (from, into) = (from?, into.clone());
    Some(thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line) + "\n";
            into.lock().unwrap().push_str(&line);
            if !go_on(&line) {
                break;
            }
        }
    }))
}
