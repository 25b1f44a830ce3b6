//! The first start: how a new operator gets an API key.

use std::{env, path::Path};

use crate::{
    client::Client,
    harness::{Finished, Home, PETSTORE, Service, signal, wait_for},
};

/// Without a terminal, the log has the command that creates a key, and that command
/// works when pasted into a shell.
#[tokio::test]
async fn without_a_terminal_it_logs_how_to_create_a_key() {
    for prefix in ["petstore-", "pet store's "] {
        let home = Home::with_prefix(prefix);
        let service = home.serve();
        let command = create_key_command(&service);
        let created = shell(&home, &command).success();
        let client = Client::new(&service, &created.secret());
        assert_eq!(client.get("/v1/pets").await.status, 200);
    }
}

/// The command leaves out `--database` for the default one.
#[test]
fn the_default_database_is_omitted_from_the_command() {
    let home = Home::new();
    let mut serve = home.command(PETSTORE);
    let service = Service::start(serve.args(["serve", "--listen", "127.0.0.1:0"]));
    let command = create_key_command(&service);
    assert!(command.ends_with("petstore keys create NAME"), "{command}");
    shell(&home, &command).success().secret();
    assert!(home.database().exists());
}

#[test]
fn with_a_valid_key_it_logs_nothing_about_keys() {
    let home = Home::new();
    home.new_key();
    let service = home.serve();
    let output = service.output();
    service.stop();
    assert!(!output.contains("no valid api keys"), "{output}");
}

/// On a terminal the service creates the first key and prints a command that uses
/// it, which works when pasted into a shell. The next start creates no other key.
#[test]
#[ignore = "needs script and curl; make test installs them and runs this"]
fn on_a_terminal_it_creates_the_first_key() {
    let home = Home::new();
    let terminal = Terminal::start(&home, "");
    let output = wait_for("the first key", || {
        let output = terminal.service.output();
        output.contains("/v1/pets").then_some(output)
    });
    let line = output.lines().find(|line| line.contains("curl")).unwrap();
    let tried = shell(&home, line.trim()).success();
    assert_eq!(tried.stdout, "[]");
    terminal.stop();

    let output = Terminal::start(&home, "").stop();
    assert!(!output.contains("psk_"), "{output}");
    let list = home.keys(&["list"]).success();
    assert_eq!(list.stdout.lines().count(), 2, "{list:?}");
}

/// A service on a pseudo-terminal.
pub struct Terminal {
    pub service: Service,
}

impl Terminal {
    pub fn start(home: &Home, options: &str) -> Self {
        let url = home.url();
        let line = format!(
            "echo process $$.; exec '{PETSTORE}' serve --listen 127.0.0.1:0 --database '{url}' {options}"
        );
        let mut script = home.command("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        Self {
            service: Service::start(&mut script),
        }
    }

    /// Sends SIGTERM to the service itself, whose exit code `script` passes on.
    /// Returns all output.
    pub fn stop(mut self) -> String {
        let output = self.service.output();
        let (_, pid) = output.split_once("process ").unwrap();
        let (pid, _) = pid.split_once('.').unwrap();
        signal(pid.parse().unwrap(), "TERM");
        let status = self.service.wait();
        let output = self.service.output();
        assert!(status.success(), "{status}: {output}");
        output
    }
}

/// The command that the service logs when no API key is valid.
fn create_key_command(service: &Service) -> String {
    let event = service.event("no valid api keys");
    event["command"].as_str().unwrap().into()
}

/// Runs a shell command with `petstore` on the `PATH`.
fn shell(home: &Home, line: &str) -> Finished {
    let mut path = Path::new(PETSTORE).parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap());
    let mut shell = home.command("sh");
    shell
        .env("PATH", path)
        .env("NO_PROXY", "*")
        .args(["-c", line]);
    Finished::of(&mut shell)
}
