//! The service on a terminal: what a new user sees and can copy.

use std::{
    io::{Read, Write},
    process::Stdio,
};

use support::{Identity, signal};

use crate::{
    first_start::shell,
    harness::{Home, PETSTORE, Service, without_colors},
};

/// A service on a pseudo-terminal.
pub struct Terminal {
    pub service: Service,
}

impl Terminal {
    /// Serves the database of `home`.
    pub fn serve(home: &Home, options: &str) -> Self {
        let database = home.url();
        Self::start(home, "", &format!("--database '{database}' {options}"))
    }

    /// Starts the service with these variables and options, on a terminal with colours.
    fn start(home: &Home, variables: &str, options: &str) -> Self {
        let line = format!(
            "echo process $$.; exec env TERM=xterm {variables} \
             '{PETSTORE}' serve --port 0 {options}"
        );
        let mut script = home.command("script");
        script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        Self {
            service: Service::start(script.stdin(Stdio::piped())),
        }
    }

    /// Returns the text on the terminal, without colours.
    fn screen(&self) -> String {
        without_colors(&self.service.output())
    }

    /// The last word of the first line with this start, or the first word of that.
    #[track_caller]
    fn link(&self, label: &str) -> String {
        let screen = self.screen();
        let line = screen
            .lines()
            .find_map(|line| line.trim().strip_prefix(label));
        let line = line.unwrap_or_else(|| panic!("no {label}: {screen}"));
        line.split_whitespace().next().unwrap().into()
    }

    /// Sends SIGTERM to the service itself, whose exit code `script` passes on.
    /// Returns all output.
    pub fn stop(self) -> String {
        let output = self.service.output();
        let (_, pid) = output.split_once("process ").unwrap();
        let (pid, _) = pid.split_once('.').unwrap();
        signal(pid.parse().unwrap(), "TERM");
        self.finish(0)
    }

    fn press_ctrl_c(&mut self) {
        self.service.press(b"\x03");
    }

    /// Waits until it exits with this code. Returns all output.
    #[track_caller]
    fn finish(mut self, code: i32) -> String {
        let status = self.service.wait();
        let output = self.service.output();
        assert_eq!(status.code(), Some(code), "{output}");
        output
    }
}

/// The first start has a link to the console that is signed in, and commands that work when
/// pasted into a shell. Later starts say how many keys are valid.
#[test]
#[ignore = "needs script and curl; make test installs them and runs this"]
fn the_start_screen_leads_to_the_first_request() {
    let home = Home::new();
    let mut first = Terminal::start(&home, "", "");
    let screen = first.screen();
    let console = first.link("Console ");
    assert_ne!(screen, first.service.output(), "no colours");
    let (page, key) = console.split_once("#key=").unwrap();
    assert_eq!(page, first.service.url("/console"));
    assert_eq!(first.link("API docs "), first.service.url("/docs"));
    assert!(screen.contains("petstore.db (new)"), "{screen}");
    let line = |start: &str| {
        let line = screen.lines().find(|line| line.trim().starts_with(start));
        line.unwrap().trim()
    };
    let export = line("export PETSTORE_KEY=");
    assert_eq!(export, format!("export PETSTORE_KEY={key}"));
    let tried = shell(&home, &format!("{export}\n{}", line("curl"))).success();
    assert_eq!(tried.stdout, "[]");
    first.press_ctrl_c();
    let output = first.finish(0);
    assert!(
        output.contains("Press Ctrl-C again to stop now."),
        "{output}"
    );
    assert!(output.contains("Stopped."), "{output}");

    // Later, there is no other key, and no colour if it isn't wanted.
    let second = Terminal::start(&home, "NO_COLOR=1", "");
    let screen = second.service.output();
    assert!(
        !screen.contains("\x1b[") && !screen.contains("psk_"),
        "{screen}"
    );
    assert_eq!(second.link("Console "), second.service.url("/console"));
    let valid = "1 API key is valid. Create another with: ";
    let (_, command) = screen.split_once(valid).unwrap();
    let command = command.lines().next().unwrap().trim();
    shell(&home, command).success().secret();
    second.stop();

    home.keys(&["revoke", "1"]).success();
    home.keys(&["revoke", "2"]).success();
    let third = Terminal::start(&home, "TERM=dumb", "");
    let screen = third.service.output();
    assert!(!screen.contains("\x1b["), "{screen}");
    assert!(
        screen.contains("No API key is valid. Create one with: "),
        "{screen}"
    );
    third.stop();
}

/// The links are right wherever the service listens and whatever clients call it.
#[test]
#[ignore = "needs script; make test installs it and runs this"]
fn links_follow_the_address() {
    let home = Home::new();
    home.new_key();
    Identity::new(&home.dir());
    let local = |scheme: &str, service: &Service| {
        format!("{scheme}://127.0.0.1:{}/console", service.address.port())
    };
    let all = Terminal::start(&home, "PETSTORE_LISTEN=0.0.0.0:1", "");
    assert_eq!(all.link("Console "), local("http", &all.service));
    assert!(all.link("Listening ").starts_with("http://0.0.0.0:"));
    all.stop();
    let tls = Terminal::start(&home, "", "--tls-cert cert.pem --tls-key key.pem");
    assert_eq!(tls.link("Console "), local("https", &tls.service));
    tls.stop();
    let public = "--public-url https://pets.example/shop/v1 --no-docs";
    let public = Terminal::start(&home, "", public);
    assert_eq!(public.link("Console "), "https://pets.example/shop/console");
    assert!(!public.screen().contains("/docs"));
    public.stop();
}

/// The demo's link is signed in, and its database is deleted however it stops.
#[test]
#[ignore = "needs script and curl; make test installs them and runs this"]
fn the_demo_leaves_nothing_behind() {
    let home = Home::new();
    let temporary = format!("TMPDIR={}", home.dir().display());
    for presses in [1, 2] {
        // The delay keeps the service from stopping before it is told to do so at once.
        let delay = if presses == 2 {
            "--drain-delay 10m"
        } else {
            ""
        };
        let mut demo = Terminal::start(&home, &temporary, &format!("--demo {delay}"));
        let console = demo.link("Console ");
        let (_, key) = console.split_once("#key=").unwrap();
        let url = demo.service.url("/v1/pets?limit=100");
        let list = format!("curl -sf -H 'Authorization: Bearer {key}' '{url}'");
        let pets: serde_json::Value =
            serde_json::from_str(&shell(&home, &list).success().stdout).unwrap();
        assert!(pets.as_array().unwrap().len() > 30);
        assert!(demo.screen().contains("is running a demo"));
        assert_eq!(std::fs::read_dir(home.dir()).unwrap().count(), 1);
        demo.press_ctrl_c();
        if presses == 2 {
            support::wait_for("the first Ctrl-C", || {
                demo.screen().contains("Press Ctrl-C again").then_some(())
            });
            demo.press_ctrl_c();
        }
        demo.finish(presses - 1);
        assert_eq!(std::fs::read_dir(home.dir()).unwrap().count(), 0);
    }
}

/// The password of a database is asked for, and Enter is enough to end it.
#[test]
#[ignore = "needs script; make test installs it and runs this"]
fn a_password_is_asked_for() {
    let home = Home::new();
    let line = format!(
        "'{PETSTORE}' keys list --database postgres://shop@127.0.0.1:1/shop \
         --database-password-file /dev/stdin"
    );
    let mut script = home.command("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut command = script.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = command.stdin.take().unwrap();
    // What is typed before the question is dropped.
    support::wait_for("the command to end", || {
        let _ = stdin.write_all(b"secret\n");
        command.try_wait().unwrap()
    });
    let mut screen = String::new();
    let mut stdout = command.stdout.take().unwrap();
    stdout.read_to_string(&mut screen).unwrap();
    assert!(screen.contains("Password for PostgreSQL: "), "{screen}");
    assert!(screen.contains("127.0.0.1"), "{screen}");
}
