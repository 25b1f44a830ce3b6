//! The service as a process.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::SocketAddr,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
};

use serde_json::Value;

use crate::{HttpClient, Response, signal, wait_for};

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
    fn start_reading_while(
        command: &mut Command,
        keep_reading: fn(&str) -> bool,
    ) -> Result<Self, String> {
        let name = command.get_program().to_owned();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(cause) => panic!("cannot run {}: {cause}", name.display()),
        };
        let output = Arc::default();
        let mut collecting = vec![
            collect(child.stdout.take(), &output, keep_reading),
            collect(child.stderr.take(), &output, keep_reading),
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
    pub fn events(&self) -> Vec<Value> {
        let output = self.output();
        let event = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        output.lines().map(event).collect()
    }

    /// Waits for the first event with this message.
    #[track_caller]
    pub fn event(&self, message: &str) -> Value {
        wait_for(message, || {
            let mut events = self.events().into_iter();
            events.find(|event| event["message"] == message)
        })
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The address of its metrics listener.
    pub fn metrics_address(&self) -> SocketAddr {
        let listening = self.event("listening");
        let url = listening["metrics_url"].as_str().unwrap();
        url.split('/').nth(2).unwrap().parse().unwrap()
    }

    /// Scrapes its metrics.
    pub async fn metrics(&self) -> Response {
        HttpClient::new(self.metrics_address())
            .get("/metrics")
            .await
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
        let event: Value = serde_json::from_str(line).ok()?;
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

/// Collects the lines of a stream in the background while `keep_reading` says so.
fn collect(
    from: Option<impl Read + Send + 'static>,
    into: &Arc<Mutex<String>>,
    keep_reading: fn(&str) -> bool,
) -> Option<JoinHandle<()>> {
    let from = from?;
    let into = into.clone();
    Some(thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line) + "\n";
            into.lock().unwrap().push_str(&line);
            if !keep_reading(&line) {
                break;
            }
        }
    }))
}
