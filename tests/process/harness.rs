//! Runs the program in a folder of the test's own.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use tempfile::TempDir;

pub const PETSTORE: &str = env!("CARGO_BIN_EXE_petstore");

/// When a test gives up on something that must happen. It is no measure of
/// how long that should take.
pub const GIVE_UP: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < GIVE_UP, "gave up waiting for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The same where asking means waiting.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let asked = tokio::time::timeout(GIVE_UP, asking).await;
    asked.unwrap_or_else(|_| panic!("gave up waiting for {what}"));
}

/// An empty folder in which the program is run. It goes away with the test.
pub struct Home {
    folder: TempDir,
    /// The database, if it is not a file in the folder.
    elsewhere: Option<String>,
}

impl Home {
    pub fn new() -> Self {
        Self::named("petstore-")
    }

    pub fn named(prefix: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
        Self {
            folder,
            elsewhere: None,
        }
    }

    /// A folder whose program uses another database.
    pub fn on(url: String) -> Self {
        Self {
            elsewhere: Some(url),
            ..Self::new()
        }
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
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
        self.elsewhere.clone().unwrap_or_else(file)
    }

    /// The names of all files in the folder.
    pub fn files(&self) -> Vec<String> {
        self.contents().into_keys().collect()
    }

    /// All files in the folder with their bytes.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        files
            .filter(|path| path.is_file())
            .map(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into();
                (name, fs::read(path).unwrap())
            })
            .collect()
    }

    /// A command that runs in the folder and knows nothing of the settings
    /// that the tests themselves were started with.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("PETSTORE_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub fn petstore(&self, arguments: &[&str]) -> Finished {
        Finished::of(self.command(PETSTORE).args(arguments))
    }

    /// Runs `petstore keys …` on the folder's database.
    pub fn keys(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(PETSTORE);
        command.arg("keys").args(arguments);
        Finished::of(command.args(["--database", &self.url()]))
    }

    /// Makes a key with all scopes and gives its secret.
    pub fn new_key(&self) -> String {
        self.keys(&["create", "test"]).success().secret()
    }

    /// The command that serves the folder's database on a free port.
    pub fn serve_command(&self) -> Command {
        let mut command = self.command(PETSTORE);
        command.args(self.serve_arguments());
        command
    }

    pub fn serve(&self) -> Service {
        Service::start(&mut self.serve_command())
    }

    /// The same command under strace.
    pub fn serve_traced(&self, options: &[&str]) -> Command {
        let mut command = self.traced(options);
        command.args(self.serve_arguments());
        command
    }

    /// The program under strace, its arguments still missing. The tracer
    /// stands beside it, so the process is the program's, and writes to the
    /// file `trace`.
    pub fn traced(&self, options: &[&str]) -> Command {
        let mut command = self.command("strace");
        command
            .args(["-D", "-f", "-y", "-s", "64", "-o", "trace"])
            .args(options)
            .arg(PETSTORE);
        command
    }

    /// What strace has written of a process that has ended.
    pub fn trace_of(&self, process: u32) -> String {
        wait_for("the end of the trace", || {
            let trace = fs::read_to_string(self.path("trace")).unwrap();
            let end = [&process.to_string(), "+++"];
            let is_end = |line: &str| line.split_whitespace().take(2).eq(end);
            trace.lines().any(is_end).then_some(trace)
        })
    }

    fn serve_arguments(&self) -> [String; 5] {
        let database = self.url();
        ["serve", "--listen", "127.0.0.1:0", "--database", &database].map(String::from)
    }
}

/// How the command line names a database file.
pub fn url(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// A process that has ended.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let name = command.get_program().to_owned();
        match command.output() {
            Ok(output) => output.into(),
            Err(cause) => panic!("cannot run {}: {cause}", name.display()),
        }
    }

    #[track_caller]
    pub fn success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// It ended with this code, and said why.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, reason: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(reason), "{self:?}");
    }

    /// The one secret that `keys create` printed.
    #[track_caller]
    pub fn secret(&self) -> String {
        let secret = self.stdout.strip_suffix('\n').unwrap_or_default();
        let rest = secret.strip_prefix("psk_").unwrap_or_default();
        let is_key = rest.len() == 38 && rest.bytes().all(|b| b.is_ascii_alphanumeric());
        assert!(is_key, "not one secret on a line of its own: {self:?}");
        secret.into()
    }
}

impl From<Output> for Finished {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running service. It is killed when the test ends before it.
pub struct Service {
    child: Child,
    pub address: SocketAddr,
    said: Arc<Mutex<String>>,
}

impl Service {
    /// Starts a command and waits until it says where it listens.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        Self::start_heard(command, |_| true)
    }

    /// The same, but nobody listens to it any more once it has started: what
    /// it writes then meets a broken pipe.
    #[track_caller]
    pub fn start_unheard(command: &mut Command) -> Self {
        Self::start_heard(command, |line| !line.contains("listening"))
    }

    #[track_caller]
    fn start_heard(command: &mut Command, go_on: fn(&str) -> bool) -> Self {
        let name = command.get_program().to_owned();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(cause) => panic!("cannot run {}: {cause}", name.display()),
        };
        let said = Arc::default();
        collect(child.stdout.take(), &said, go_on);
        collect(child.stderr.take(), &said, go_on);
        // Made before the waiting, so that a panic there ends the process.
        let mut service = Self {
            child,
            address: ([0, 0, 0, 0], 0).into(),
            said,
        };
        service.address = wait_for("a service that listens", || {
            if let Some(status) = service.child.try_wait().unwrap() {
                panic!("the service ended with {status}: {}", service.said());
            }
            listening_url(&service.said())?
                .split("://")
                .nth(1)?
                .parse()
                .ok()
        });
        service
    }

    /// What it has written for its operator so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// The lines of its log so far. Each is a JSON object.
    #[track_caller]
    pub fn events(&self) -> Vec<serde_json::Value> {
        let said = self.said();
        let event = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        said.lines().map(event).collect()
    }

    /// The first event with this message, once it is there.
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

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Sends it a signal, given by its short name.
    pub fn signal(&self, name: &str) {
        signal(self.process(), name);
    }

    /// Waits until it ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the end of the service", || self.child.try_wait().unwrap())
    }

    /// Tells it to stop and waits until it has.
    pub fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.said());
    }

    /// Ends it as a power cut would, as far as the process can tell.
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

/// The URL in the startup event, or in its line on a terminal.
fn listening_url(output: &str) -> Option<String> {
    output.lines().find_map(|line| {
        if let Some((_, url)) = line.split_once("is listening on ") {
            return Some(url.trim_end().into());
        }
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["message"] == "listening").then(|| event["url"].as_str().unwrap().into())
    })
}

/// Sends a signal to a process that the test has started.
pub fn signal(process: u32, name: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s \"$1\" \"$2\"", "sh", name]);
    assert!(kill.arg(process.to_string()).status().unwrap().success());
}

/// Keeps what a process writes, as long as the lines say to go on.
fn collect(
    from: Option<impl Read + Send + 'static>,
    into: &Arc<Mutex<String>>,
    go_on: fn(&str) -> bool,
) {
    let Some(from) = from else { return };
    let into = into.clone();
    thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line) + "\n";
            into.lock().unwrap().push_str(&line);
            if !go_on(&line) {
                break;
            }
        }
    });
}
