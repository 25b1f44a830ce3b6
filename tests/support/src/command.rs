//! Commands and their results, signals, and notes of tests that were skipped.

use std::{
    env,
    io::{self, Write},
    process::{Command, Output},
};

/// A command without the `PETSTORE_*` variables of the test runner's environment.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("PETSTORE_") {
            command.env_remove(name);
        }
    }
    // Tests don't use a service that is installed on the machine.
    command.env("PETSTORE_PACKAGED_SETTINGS", "/dev/null/none");
    command
}

/// The exit code and output of a finished process.
#[derive(Debug)]
pub struct CommandResult {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandResult {
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

    /// Asserts that it failed with this exit code and printed the reason.
    #[track_caller]
    pub fn assert_fails(&self, code: i32, reason: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.contains(reason), "{self:?}");
    }

    /// The secret that `keys create` printed.
    #[track_caller]
    pub fn secret(&self) -> String {
        let secret = self.stdout.strip_suffix('\n').unwrap_or_default();
        let rest = secret.strip_prefix("psk_").unwrap_or_default();
        let is_key = rest.len() == 38 && rest.bytes().all(|b| b.is_ascii_alphanumeric());
        assert!(is_key, "not one secret on a line of its own: {self:?}");
        secret.into()
    }
}

impl From<Output> for CommandResult {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Sends a signal, named without the `SIG` prefix, to a process that the test has started.
pub fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", "kill -s \"$1\" \"$2\"", "sh", name]);
    assert!(kill.arg(pid.to_string()).status().unwrap().success());
}

/// Reports that a test is skipped. Not by `eprintln!`, whose output is only shown if a test
/// fails. `make test` repeats these notes at the end.
pub fn note_skipped(test: &str, reason: &str) {
    let _ = writeln!(io::stderr(), "note: {test} was skipped: {reason}");
}
