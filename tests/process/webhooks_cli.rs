//! `petstore webhooks`: the webhooks of a service, managed from the command line.

use std::process::Command;

use serde_json::Value;
use support::{CommandResult, Receiver, Reply, wait_for};

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
};

struct Cli {
    home: Home,
    service: Service,
    key: String,
}

impl Cli {
    fn start() -> Self {
        let home = Home::new();
        let mut serve = home.serve_command();
        serve.args(["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"]);
        Self {
            service: Service::start(&mut serve),
            key: home.new_key(),
            home,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(PETSTORE);
        command
            .arg("webhooks")
            .args(arguments)
            .env("PETSTORE_URL", self.service.url(""))
            .env("PETSTORE_KEY", &self.key);
        command
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&mut self.command(arguments))
    }

    /// The lines of JSON that a command prints.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = self.run(arguments).success().stdout;
        let lines = printed.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_are_managed() {
    let cli = Cli::start();
    let receiver = Receiver::start().await;
    receiver.respond(|_| Reply::Status(204));
    assert!(cli.json(&["list"]).is_empty());
    let types = ["--type", "pet.created", "--type", "pet.deleted"];
    let url = receiver.url();
    let created = [&["create", &url, "--description", "Mirror"], &types[..]].concat();
    let created = cli.run(&created).success();
    // The secret alone, so that a variable can take it.
    let secret = created.stdout.strip_suffix('\n').unwrap();
    assert!(
        secret.starts_with("whsec_") && !secret.contains('\n'),
        "{created:?}"
    );
    let sends = format!("Created webhook 1: sends pet.created, pet.deleted to {url}.");
    assert!(created.stderr.contains(&sends), "{created:?}");
    assert!(!created.stderr.contains("whsec_"), "{created:?}");
    let second = cli
        .json(&["create", "https://localhost/", "--json"])
        .remove(0);
    assert!(second["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!(second["types"].as_array().unwrap().len(), 10);

    let listed = cli.json(&["list"]);
    assert_eq!(listed.len(), 2);
    assert_eq!(cli.json(&["show", "1"]), listed[..1]);
    assert_eq!(listed[0]["description"], "Mirror");
    assert_eq!(listed[0].get("secret"), None);
    let changes = ["--description", "", "--type", "order.placed", "--disable"];
    let change = [
        &["update", "1", "--receiver", "https://localhost/new"],
        &changes[..],
    ]
    .concat();
    let changed = cli.json(&change).remove(0);
    assert_eq!(changed["url"], "https://localhost/new");
    assert_eq!(changed["types"], serde_json::json!(["order.placed"]));
    assert_eq!(changed.get("description"), None);
    assert_eq!(changed["disabledReason"], "requested");
    assert_eq!(
        cli.json(&["update", "1", "--enable"])[0]["state"],
        "enabled"
    );
    let rotated = cli.run(&["rotate-secret", "1"]).success();
    assert!(rotated.stdout.starts_with("whsec_"), "{rotated:?}");
    assert_ne!(rotated.stdout.trim(), secret);
    let deleted = cli.run(&["delete", "1"]).success();
    assert_eq!(deleted.stdout, "");
    assert!(
        deleted.stderr.starts_with("Deleted webhook 1."),
        "{deleted:?}"
    );
    assert_eq!(cli.json(&["list"]).len(), 1);
}

/// More than a page.
#[test]
fn all_webhooks_are_listed() {
    let cli = Cli::start();
    for n in 1..=101 {
        let url = format!("https://localhost/{n}");
        cli.run(&["create", &url, "--type", "pet.deleted"])
            .success();
    }
    let ids: Vec<_> = cli
        .json(&["list"])
        .iter()
        .map(|it| it["id"].as_i64())
        .collect();
    assert_eq!(ids, (1..=101).map(Some).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_tested_retried_and_replayed() {
    let cli = Cli::start();
    let receiver = Receiver::start().await;
    receiver.respond(|_| Reply::Status(500));
    cli.run(&["create", &receiver.url(), "--type", "pet.created"])
        .success();
    let failed = cli.run(&["test", "1"]);
    failed.assert_fails(1, "not delivered: unsuccessful_status, response 500 after ");
    let result: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(result["delivered"], false);

    let client = Client::new(&cli.service, &cli.key);
    client.create("Rex").await.unwrap();
    let deliveries = ["deliveries", "1", "--state", "retrying"];
    let delivery = wait_for("the delivery to fail", || cli.json(&deliveries).pop());
    let event = delivery["eventId"].as_str().unwrap();
    assert_eq!(delivery["status"], 500);
    assert!(
        cli.json(&["deliveries", "1", "--state", "failed"])
            .is_empty()
    );

    receiver.respond(|_| Reply::Status(204));
    let passed = cli.run(&["test", "1"]).success();
    assert!(
        passed.stderr.starts_with("Delivered: response 204 after "),
        "{passed:?}"
    );
    let retried = cli.run(&["retry", "1", event]);
    // Unless the service was faster.
    if retried.code != Some(0) {
        retried.assert_fails(1, "eventId: this webhook has no failed delivery");
    }
    wait_for("the delivery", || {
        cli.json(&["deliveries", "1"]).is_empty().then_some(())
    });
    let delivered = receiver.count();
    let start = "evt_AQAAAAAAAAAAAAAAAAAAAABOSTr-";
    assert_eq!(cli.json(&["replay", "1", start]).len(), 1);
    wait_for("the replay", || {
        (receiver.count() > delivered).then_some(())
    });
    let moved = cli.json(&["replay", "1", "now"]).remove(0);
    assert_eq!(moved["position"], event);
}

/// The message names the options that allow a receiver on the same machine, and they do.
#[test]
fn the_options_for_a_local_receiver_are_named() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    let create = |service: &Service, url: &str| {
        let mut command = home.command(PETSTORE);
        let url = ["webhooks", "create", url, "--url", &service.url("")];
        CommandResult::of(command.args(url).env("PETSTORE_KEY", &key))
    };
    let options = "--webhook-allow-http and --webhook-allow-net CIDR";
    create(&service, "http://localhost:9000/").assert_fails(1, options);
    let option = "--webhook-allow-net 127.0.0.0/8,::1/128";
    create(&service, "https://localhost:9000/").assert_fails(1, option);
    service.stop();
    let mut serve = home.serve_command();
    serve.arg("--webhook-allow-http").args(option.split(' '));
    let service = Service::start(&mut serve);
    create(&service, "http://localhost:9000/").success();
    create(&service, "https://localhost:9000/").success();
}

#[test]
fn rejections_say_why() {
    let cli = Cli::start();
    for (arguments, reason) in [
        (&["show", "9"][..], "webhookId: no webhook has this id"),
        (
            &["create", "http://10.0.0.1/"],
            "10.0.0.0/8 (private use) is not allowed",
        ),
        (&["create", "localhost"], "url: must start with https://"),
        (&["create", "https://a.invalid"], "never exists"),
        (
            &["create", "https://a.example", "--type", "pet"],
            "types: must be",
        ),
        (
            &["update", "9", "--enable"],
            "webhookId: no webhook has this id",
        ),
        (&["update", "9"], "nothing to change"),
        (&["deliveries", "9"], "webhookId: no webhook has this id"),
        (
            &["replay", "9", "yesterday"],
            "after: must be the id of an event, or now",
        ),
        (
            &["list", "--url", "http://127.0.0.1:1"],
            "no response from 127.0.0.1:1",
        ),
    ] {
        cli.run(arguments).assert_fails(1, reason);
    }
    for (arguments, reason) in [
        (&["show", "first"][..], "must be a number"),
        (&["retry", "1", "../../pets"], "must be the id of an event"),
        (
            &["update", "1", "--enable", "--disable"],
            "cannot be used with",
        ),
        (&["create"], "required"),
    ] {
        cli.run(arguments).assert_fails(2, reason);
    }
    let mut no_key = cli.command(&["list"]);
    let no_key = CommandResult::of(no_key.env_remove("PETSTORE_KEY"));
    no_key.assert_fails(1, "set PETSTORE_KEY to an API key");
    let reader = cli
        .home
        .keys(&["create", "kiosk", "--scope", "webhooks:read"]);
    let mut create = cli.command(&["create", "https://a.example"]);
    let create = CommandResult::of(create.env("PETSTORE_KEY", reader.success().secret()));
    create.assert_fails(1, "lacks the required scope webhooks:write");
}
