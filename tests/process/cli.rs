//! The command line: help, usage errors, environment variables.

use std::{collections::HashMap, ffi::OsStr, fs::File, net::TcpListener, os::unix::ffi::OsStrExt};

use support::{CommandResult, HttpClient};

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
};

/// Every command has help, which shows the environment variable of every option.
#[test]
fn help_names_the_environment_variable_of_each_option() {
    let mut options = 0;
    for (command, help) in commands(&Home::new()) {
        let names = below(&help, "Options:").filter_map(|word| word.strip_prefix("--"));
        // In Kubernetes, a Service named petstore sets PETSTORE_PORT to a URL.
        for name in names.filter(|name| *name != "port") {
            let name = name.replace('-', "_").to_uppercase();
            let own = format!("[env: PETSTORE_{}_{name}", command.join("_").to_uppercase());
            let variables = [format!("[env: PETSTORE_{name}"), own];
            let is_named = variables.iter().any(|variable| help.contains(variable));
            assert!(is_named, "{command:?}: one of {variables:?}");
            options += 1;
        }
    }
    assert!(options >= 12, "only {options} options were found");
}

/// A variable sets an option with the same kind of value in every command that has it: an operator
/// sets it once, in the environment of all of them.
#[test]
fn a_variable_has_one_meaning() {
    let mut options: HashMap<String, String> = HashMap::new();
    for (command, help) in commands(&Home::new()) {
        for (option, description) in described_options(&help) {
            let Some((_, variable)) = description.split_once("[env: ") else {
                continue;
            };
            let variable = variable.split(['=', ']']).next().unwrap().to_string();
            let known = options.entry(variable).or_insert_with(|| option.clone());
            assert_eq!(option, *known, "{command:?}");
        }
    }
    assert!(options.len() >= 12, "{options:?}");
}

/// The options of a command with their values and descriptions, such as `--url <URL>`.
fn described_options(help: &str) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    let (_, rest) = help.split_once("Options:").unwrap_or_default();
    for line in rest.lines().map(str::trim) {
        match options.last_mut() {
            _ if line.starts_with('-') && !line.starts_with("- ") => {
                let option = line.find("--").map_or(line, |at| &line[at..]);
                options.push((option.into(), String::new()));
            }
            Some((_, description)) => *description += line,
            None => {}
        }
    }
    options
}

/// The history of a store is the event log, and laws ask for that of one to three years.
#[test]
fn events_are_kept_for_three_years() {
    let help = Home::new().petstore(&["serve", "--help"]).success().stdout;
    let options = described_options(&help);
    let (_, keep) = options
        .iter()
        .find(|(name, _)| name == "--keep-events <DURATION>")
        .unwrap();
    assert!(keep.contains("[default: 1095d]"), "{keep}");
    let default = domain::event::EventRetention::default();
    assert_eq!(default.age.as_hours(), 1095 * 24);
}

/// All commands with their help.
pub fn commands(home: &Home) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut commands = vec![vec![]];
    while let Some(command) = commands.pop() {
        let mut help: Vec<_> = command.iter().map(String::as_str).collect();
        help.push("--help");
        let help = home.petstore(&help).success();
        assert_eq!(help.stderr, "", "{command:?}");
        assert!(help.stdout.contains("Usage:"), "{help:?}");
        for name in below(&help.stdout, "Commands:").filter(|name| *name != "help") {
            commands.push([command.clone(), vec![name.into()]].concat());
        }
        found.push((command, help.stdout));
    }
    found
}

/// The first word of each line below a heading.
fn below<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let (_, rest) = help.split_once(heading).unwrap_or_default();
    let lines = rest.lines().skip(1);
    let section = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    section.filter_map(|line| line.split_whitespace().next())
}

#[test]
fn it_prints_its_version() {
    let version = Home::new().petstore(&["--version"]).success();
    let expected = format!("petstore {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(version.stdout, expected);
}

/// The printed contract is the served one, byte for byte.
#[tokio::test]
async fn the_printed_contract_is_the_served_one() {
    let home = Home::new();
    let addresses = [
        "--public-url=https://pets.example/api/v1",
        "--staging-url=https://staging.pets.example/v1",
    ];
    let service = Service::start(home.serve_command().args(addresses));
    let forms: [(&str, &[&str]); 2] = [
        ("/v1/openapi.yaml", &["openapi"]),
        ("/v1/openapi.json", &["openapi", "--json"]),
    ];
    for (path, command) in forms {
        let printed = home.petstore(&[command, &addresses].concat()).success();
        let served = HttpClient::new(service.address).get(path).await;
        assert_eq!(printed.stdout, served.text());
        assert!(printed.stdout.contains("https://pets.example/api/v1"));
        assert!(printed.stdout.contains("https://staging.pets.example/v1"));
    }
}

#[test]
fn completions_are_printed_for_each_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.petstore(&["completions", shell]).success();
        assert!(script.stdout.contains("petstore"), "{shell}");
        assert!(script.stdout.contains("keys"), "{shell}");
    }
}

#[test]
fn stdout_write_errors_are_reported() {
    let home = Home::new();
    for command in [["openapi", "--json"], ["completions", "bash"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ended = CommandResult::of(home.command(PETSTORE).args(command).stdout(full));
        assert_eq!(ended.code, Some(1), "{command:?}: {ended:?}");
        let words = "petstore: cannot write to standard output: the disk is full; free some space";
        assert!(ended.stderr.starts_with(words), "{ended:?}");
        let mut shell = home.command("sh");
        let closed = shell
            .args(["-c", "\"$0\" \"$@\" >&-", PETSTORE])
            .args(command);
        CommandResult::of(closed).assert_fails(1, "standard output is closed");
    }
}

/// An invalid value is a usage error that names the option, the value and what is
/// allowed. Nothing is printed to standard output, and no file is created.
#[test]
fn invalid_values_are_usage_errors() {
    let home = Home::new();
    // The last two words of a line are the option and its value.
    for (line, allowed) in [
        ("serve --listen here", "127.0.0.1:8080"),
        ("serve --listen 127.0.0.1:x", "127.0.0.1:8080"),
        ("serve --listen 127.0.0.1:65536", "127.0.0.1:8080"),
        ("serve --listen -1", "127.0.0.1:8080"),
        ("serve --metrics-listen there", "127.0.0.1:8080"),
        ("serve --listen :", "127.0.0.1:8080"),
        ("serve --port 65536", "from 0 to 65535"),
        ("serve --port -1", "from 0 to 65535"),
        ("serve --database x.db/", "must be a file"),
        ("healthcheck --listen here", "127.0.0.1:8080"),
        ("serve --reserve-for soon", "from 1s to 3660d"),
        ("serve --reserve-for 0s", "from 1s to 3660d"),
        ("serve --reserve-for -5m", "from 1s to 3660d"),
        ("serve --reserve-for 11y", "from 1s to 3660d"),
        ("serve --cors-origin shop.example", "https://shop.example"),
        (
            "serve --cors-origin https://shop.example/",
            "nothing else), or *",
        ),
        (
            "serve --cors-origin https://Shop.example",
            "https://shop.example",
        ),
        (
            "serve --cors-origin https://shop.example:443",
            "https://shop.example",
        ),
        ("serve --cors-origin https://*.shop.example", "or *"),
        (
            "serve --cors-origin https://shop.example:",
            "https://shop.example",
        ),
        ("serve --drain-delay -1s", "from 0s to 10m"),
        ("serve --drain-delay 11m", "from 0s to 10m"),
        ("serve --rate-limit 600", "600/60s"),
        ("serve --rate-limit 0/60s", "1 to 1000000 requests"),
        ("serve --rate-limit -1/s", "1 to 1000000 requests"),
        ("serve --rate-limit 1000001/s", "1 to 1000000 requests"),
        ("serve --rate-limit 1/25h", "1s to 24h"),
        ("serve --rate-limit 1/500ms", "1s to 24h"),
        ("serve --failed-auth-limit off", "600/60s"),
        ("serve --failed-auth-limit 0/60s", "1 to 1000000 requests"),
        ("serve --database mysql://x", "sqlite:"),
        ("serve --database sqlite:", "postgres://"),
        ("keys list --database pets", "sqlite:"),
        ("keys list --database sqllite:pets.db", "sqlite:"),
        ("keys rotate 1 --grace soon", "from 0s to 366d"),
        ("serve --public-url http://x.example", "/v1"),
        ("openapi --staging-url ftp://x/v1", "http"),
        ("keys create till --expires -3d", "90d, 12h or 1y"),
        ("keys create till --expires 0d", "90d, 12h or 1y"),
        ("keys create till --expires soon", "90d, 12h or 1y"),
        ("keys create till --expires 9999y", "90d, 12h or 1y"),
        ("keys create till --scope pets:fly", "pets:read"),
        ("serve --webhook-allow-net 10.0.0.1", "10.0.0.0/8"),
        ("serve --webhook-allow-net 10.0.0.1/8", "no bits set"),
        ("webhooks list --url pets.example", "https://pets.example"),
    ] {
        let words: Vec<_> = line.split(' ').collect();
        let [.., option, value] = words[..] else {
            panic!("{line}")
        };
        assert_usage_error(&home, &words, &[option, value, allowed]);
    }
    let name = "for '<NAME>': must be 1 to 100 characters long, without control characters";
    for (arguments, expected) in [
        (["keys", "create", ""], ["<NAME>", "''", name]),
        (["keys", "create", "  "], ["<NAME>", "'  '", name]),
        (["keys", "create", "ti\tll"], ["<NAME>", "ll", name]),
        (["keys", "create", "ti\u{7}ll"], ["<NAME>", "ll", name]),
    ] {
        assert_usage_error(&home, &arguments, &expected);
    }
    assert_usage_error(&home, &["completions", "cmd"], &["<SHELL>", "cmd", "bash"]);
    let odd = OsStr::from_bytes(b"sqlite:a\xffb.db");
    let rejected = CommandResult::of(
        home.command(PETSTORE)
            .args(["serve", "--database"])
            .arg(odd),
    );
    rejected.assert_fails(2, "must be UTF-8");
    let glued = ["keys", "create", "till", "--expires=-3d"];
    assert_usage_error(&home, &glued, &["--expires", "-3d"]);
}

#[track_caller]
fn assert_usage_error(home: &Home, arguments: &[&str], expected: &[&str]) {
    let rejected = home.petstore(arguments);
    assert_eq!(
        (rejected.code, &*rejected.stdout),
        (Some(2), ""),
        "{arguments:?}: {rejected:?}"
    );
    for word in expected {
        assert!(
            rejected.stderr.contains(word),
            "{word} is missing: {rejected:?}"
        );
    }
    assert!(!rejected.stderr.contains("\n\n\n"), "{rejected:?}");
    assert_eq!(home.files(), [""; 0], "{arguments:?}");
}

/// A variable sets its option; the option on the command line takes precedence.
#[tokio::test]
async fn options_can_be_set_with_variables() {
    let home = Home::new();
    home.create_store();
    let mut create = home.command(PETSTORE);
    create
        .env("PETSTORE_DATABASE", home.url())
        .env("PETSTORE_SCOPE", "pets:read,orders:read")
        .env("PETSTORE_EXPIRES", "1h");
    let created = CommandResult::of(create.args(["keys", "create", "till"])).success();
    assert!(
        created.stderr.contains("pets:read orders:read"),
        "{created:?}"
    );
    assert!(created.stderr.contains("expires 2"), "{created:?}");
    let created = CommandResult::of(create.args(["--scope", "pets:write"])).success();
    assert!(created.stderr.contains("scopes pets:write;"), "{created:?}");

    let mut serve = home.command(PETSTORE);
    serve
        .env("PETSTORE_LISTEN", "127.0.0.1:0")
        .env("PETSTORE_DATABASE", home.url())
        .env("PETSTORE_PUBLIC_URL", "https://pets.example/v1")
        .env("PETSTORE_RATE_LIMIT", "600/m")
        .env("PETSTORE_FAILED_AUTH_LIMIT", "1/24h");
    let service = Service::start(serve.arg("serve"));
    let client = Client::new(&service, &home.new_key());
    let response = client.get("/v1/pets").await;
    assert_eq!(response.status, 200);
    assert_eq!(
        response.headers["ratelimit-policy"],
        "\"default\";q=600;w=60"
    );
    let unauthenticated = Client::new(&service, "psk_typo");
    let rejected = unauthenticated.get("/v1/pets").await;
    rejected.assert_error(401, "invalid_api_key");
    let rejected = unauthenticated.get("/v1/pets").await;
    rejected.assert_error(429, "rate_limited");

    let mut openapi = home.command(PETSTORE);
    openapi
        .env("PETSTORE_JSON", "true")
        .env("PETSTORE_PUBLIC_URL", "https://pets.example/v1");
    let printed = CommandResult::of(openapi.arg("openapi")).success();
    let printed: serde_json::Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(client.get("/v1/openapi.json").await.json(), printed);

    let mut wrong = home.command(PETSTORE);
    let wrong = CommandResult::of(wrong.env("PETSTORE_LISTEN", "here").arg("serve"));
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("--listen"), "{wrong:?}");
}

/// If the port is taken, no database is created.
#[test]
fn a_port_in_use_is_reported() {
    let home = Home::new();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let port = address.rsplit_once(':').unwrap().1;
    let ended = home.petstore(&["serve", "--port", port]);
    assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
    assert!(
        ended.stderr.contains(&format!("{address} (--port)")),
        "{ended:?}"
    );
    assert!(ended.stderr.contains("in use"), "{ended:?}");
    assert!(ended.stderr.contains("--port 0"), "{ended:?}");
    assert!(!ended.stderr.contains("os error"), "{ended:?}");
    assert_eq!(home.files(), [""; 0]);
}

/// A port alone is one of the loopback address, and a path is an SQLite file.
#[test]
fn a_port_and_a_path_are_enough() {
    let home = Home::new();
    let free = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let forms = [
        |port| ["--listen".into(), format!("{port}")],
        |port| ["--listen".into(), format!(":{port}")],
        |port| ["--port".into(), format!(":{port}")],
    ];
    for form in forms {
        let port = free();
        let mut serve = home.command(PETSTORE);
        serve.args(["serve", "--database", "./pets.db"]);
        let service = Service::start(serve.args(form(port)));
        assert_eq!(service.address, ([127, 0, 0, 1], port).into());
        service.stop();
    }
    assert_eq!(home.files(), ["pets.db"]);
}

/// Errors of the operating system are shown in words.
#[test]
fn errors_are_in_words() {
    let home = Home::new();
    for (command, words) in [
        (
            "check --database no/dir/x.db",
            "the folder no/dir does not exist",
        ),
        ("man /dev/null/man", "part of the path is a file"),
        ("healthcheck --port 1", "nothing listens there"),
        (
            "keys list --database postgres://till@127.0.0.1:9/shop",
            "cannot use postgres://till@127.0.0.1:9/shop: nothing listens there; start PostgreSQL",
        ),
        (
            "keys list --database postgres://till@db.invalid/shop",
            "the host is unknown; correct its name",
        ),
        (
            "copy --from no.db --to postgres://till@127.0.0.1:9/shop",
            "/no.db; name the SQLite file to copy with --from",
        ),
        (
            "backup copy.db --database no.db",
            "there is no database at ",
        ),
        ("restore no.db", "there is no file no.db"),
        ("events --url http://127.0.0.1:1", "name its URL with --url"),
    ] {
        let arguments: Vec<_> = command.split(' ').collect();
        let mut petstore = home.command(PETSTORE);
        let failed = CommandResult::of(petstore.args(arguments).env("PETSTORE_KEY", "psk_x"));
        failed.assert_fails(1, words);
        for part in ["os error", "Copying"] {
            assert!(!failed.stderr.contains(part), "{part}: {failed:?}");
        }
    }
}
