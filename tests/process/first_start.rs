//! The first start: how a new operator gets an API key.

use std::{env, path::Path};

use support::CommandResult;

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
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
    assert!(
        command.ends_with("petstore keys create NAME --role owner"),
        "{command}"
    );
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

/// The command that the service logs when no API key is valid.
fn create_key_command(service: &Service) -> String {
    let event = service.event("no valid api keys");
    event["command"].as_str().unwrap().into()
}

/// Runs a shell command with `petstore` on the `PATH`.
pub fn shell(home: &Home, line: &str) -> CommandResult {
    let mut path = Path::new(PETSTORE).parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap());
    let mut shell = home.command("sh");
    shell
        .env("PATH", path)
        .env("NO_PROXY", "*")
        .args(["-c", line]);
    CommandResult::of(&mut shell)
}
