//! The first start: how a new operator comes by a key.

use std::{env, path::Path};

use crate::{
    client::Client,
    harness::{Finished, Home, PETSTORE, Service, signal, wait_for},
};

/// Without a terminal the service says which command makes a key, and that
/// command works as it stands.
#[tokio::test]
async fn without_a_terminal_it_says_how_to_make_a_key() {
    for prefix in ["petstore-", "pet store's "] {
        let home = Home::named(prefix);
        let service = home.serve();
        let advice = advice(&service);
        let created = shell(&home, &advice).success();
        let client = Client::new(&service, &created.secret());
        assert_eq!(client.get("/v1/pets").await.status, 200);
    }
}

/// The default database need not be named.
#[test]
fn the_default_database_is_not_named() {
    let home = Home::new();
    let mut serve = home.command(PETSTORE);
    let service = Service::start(serve.args(["serve", "--listen", "127.0.0.1:0"]));
    let advice = advice(&service);
    assert!(advice.ends_with("petstore keys create NAME"), "{advice}");
    shell(&home, &advice).success().secret();
    assert!(home.database().exists());
}

/// Idempotent there is a key, nothing more is said of keys.
#[test]
fn with_a_key_it_says_nothing_of_keys() {
    let home = Home::new();
    home.new_key();
    let service = home.serve();
    let said = service.said();
    service.stop();
    assert!(!said.contains("Make one"), "{said}");
}

/// On a terminal it makes the first key and shows a command to try it with,
/// which works as it stands. The next start makes no other.
#[test]
#[ignore = "needs script and curl; make test installs them and runs this"]
fn on_a_terminal_it_makes_the_first_key() {
    let home = Home::new();
    let terminal = Terminal::start(&home, "");
    let said = wait_for("the words on the first key", || {
        let said = terminal.service.said();
        said.contains("/v1/pets").then_some(said)
    });
    let line = said.lines().find(|line| line.contains("curl")).unwrap();
    let tried = shell(&home, line.trim()).success();
    assert_eq!(tried.stdout, "[]");
    terminal.stop();

    let said = Terminal::start(&home, "").stop();
    assert!(!said.contains("psk_"), "{said}");
    let list = home.keys(&["list"]).success();
    assert_eq!(list.stdout.lines().count(), 2, "{list:?}");
}

/// A service in a terminal of its own.
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

    /// Tells the service itself to stop; the terminal passes on how it ended.
    /// Gives all that it said.
    pub fn stop(mut self) -> String {
        let said = self.service.said();
        let (_, process) = said.split_once("process ").unwrap();
        let (process, _) = process.split_once('.').unwrap();
        signal(process.parse().unwrap(), "TERM");
        let status = self.service.wait();
        let said = self.service.said();
        assert!(status.success(), "{status}: {said}");
        said
    }
}

/// The command that the service proposes.
fn advice(service: &Service) -> String {
    wait_for("the words on keys", || {
        let events = service.events();
        let mut words = events.iter().filter_map(|event| event["message"].as_str());
        words.find_map(|words| Some(words.split_once("Make one: ")?.1.into()))
    })
}

/// Runs a command as an operator would who has the program installed.
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
