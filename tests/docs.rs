//! Runs the shell examples of the documentation verbatim, and checks its links.

#![allow(clippy::unwrap_used)]

use std::{
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use support::Service;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_petstore");

/// A service on a new database in a temporary directory.
struct Installation {
    service: Service,
    dir: TempDir,
}

impl Installation {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = support::command(BINARY);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--metrics-listen", "127.0.0.1:0"])
            .current_dir(dir.path())
            .stderr(Stdio::piped());
        Self {
            service: Service::start(&mut command),
            dir,
        }
    }

    /// Runs a shell script with the default addresses replaced by this service's.
    fn run(&self, script: &str) -> String {
        let address = self.service.address.to_string();
        let metrics = self.service.metrics_address().to_string();
        let script = script
            .replace("127.0.0.1:8080", &address)
            .replace("127.0.0.1:9464", &metrics);
        let path = std::env::var("PATH").unwrap();
        let here = Path::new(BINARY).parent().unwrap().display();
        let output = Command::new("bash")
            .args(["-euc", &script])
            .env("PATH", format!("{here}:{path}"))
            .env("PETSTORE_LISTEN", &address)
            .env("PETSTORE_URL", format!("http://{address}"))
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}\n{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn kill(&mut self) {
        self.service.signal("KILL");
        self.service.wait();
    }
}

/// The shell code blocks of a document, in order.
fn examples(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines() {
        match (line.trim(), &mut block) {
            ("```sh", None) => block = Some(String::new()),
            ("```", Some(_)) => blocks.extend(block.take()),
            (line, Some(block)) => *block += &format!("{line}\n"),
            _ => {}
        }
    }
    blocks
}

const OK: &str = "HTTP/1.1 200 OK";
const CREATED: &str = "HTTP/1.1 201 Created";
const NO_CONTENT: &str = "HTTP/1.1 204 No Content";
/// The feed, and the start of a stream.
const EVENTS: [&str; 2] = [OK, "retry:"];

const NEW_KEY: &str = "export PETSTORE_KEY=$(petstore keys create test)\n";
const NEW_OWNER: &str = "export PETSTORE_KEY=$(petstore keys create test --role owner)\n";

/// Runs curl examples and returns their status lines, and the start of streams.
fn statuses(service: &Installation, new_key: &str, examples: &[String]) -> Vec<String> {
    let run = |example: &String| {
        if example.contains("curl -N") {
            // It ends with the service.
            service.run(&format!(
                "{new_key}exec 3< <({{ {example} }} 2> /dev/null)\nhead -c 6 <&3"
            ))
        } else {
            service.run(&format!("{new_key}{example}"))
        }
    };
    let outputs = examples
        .iter()
        .filter(|example| example.contains("curl"))
        .map(run);
    outputs
        .map(|output| output.lines().next().unwrap().to_string())
        .collect()
}

#[test]
fn readme_examples_work() {
    let mut readme = examples(&std::fs::read_to_string("README.md").unwrap());
    // `tests/outside/install.test.mjs` runs it.
    let install = readme.remove(0);
    assert!(install.contains("/install.sh | sh"), "{install}");
    let service = Installation::start();
    let statuses = statuses(&service, NEW_KEY, &readme);
    // Create; list, by name, by id.
    let pets = [CREATED, OK, OK, OK];
    // Place, complete, return.
    let orders = [CREATED, OK, OK];
    // Update, name a category, inventory, delete.
    let more = [OK, CREATED, OK, NO_CONTENT];
    let expected = [&pets[..], &orders, &more, &["openapi: 3.1.0"]].concat();
    assert_eq!(statuses, expected);
    let keys = readme
        .iter()
        .find(|example| example.contains("keys revoke"))
        .unwrap();
    assert!(service.run(keys).contains("kiosk"));
    let events = readme.iter().find(|it| it.contains("petstore events"));
    let events = service.run(&format!("{NEW_KEY}{}", events.unwrap()));
    // Created, ordered and sold, returned, renamed, named, deleted: one for each resource.
    assert_eq!(events.lines().count(), 10, "{events}");
    let webhook = readme.iter().find(|it| it.contains("petstore webhooks"));
    let secret = service.run(&format!("{NEW_KEY}{}", webhook.unwrap()));
    assert!(secret.starts_with("whsec_"));
}

#[test]
fn contract_examples_work() {
    let mut contract = examples(&std::fs::read_to_string("openapi.yaml").unwrap());
    // The examples of the other operations need it.
    let deletes =
        |example: &String| example.contains("-X DELETE http://127.0.0.1:8080/v1/webhooks");
    let position = contract.iter().position(deletes).unwrap();
    let delete = contract.remove(position);
    contract.push(delete);
    let service = Installation::start();
    service.run("KEY=$(petstore keys create first) && curl -sf http://127.0.0.1:8080/v1/pets -H \"Authorization: Bearer $KEY\" -d '{\"name\":\"A\",\"categoryId\":1,\"status\":\"available\"}' -H 'Content-Type: application/json'");
    std::fs::write(
        service.dir.path().join("biscuit.jpg"),
        support::noise(9, 9, 1),
    )
    .unwrap();
    let statuses = statuses(&service, NEW_OWNER, &contract);
    // List, by name; create, get, update, delete.
    let pets = [OK, OK, CREATED, OK, OK, NO_CONTENT];
    // Add, arrange, get, delete.
    let photos = [CREATED, OK, OK, NO_CONTENT];
    // Change many, undo, find an import.
    let batches = [OK, OK, OK];
    // List, put, delete.
    let categories = [OK, CREATED, NO_CONTENT];
    // Inventory; list, place, get, update, complete, cancel (too late), return.
    let store = [OK, OK, CREATED, OK, OK, OK, "HTTP/1.1 409 Conflict", OK];
    // Sales, the register.
    let reports = [OK, OK];
    // Get, update.
    let settings = [OK, OK];
    let accepted = "HTTP/1.1 202 Accepted";
    let gone = "HTTP/1.1 410 Gone";
    // Create, list, get, update, rotate, test, replay, deliveries, retry (unknown).
    let webhooks = [CREATED, OK, OK, OK, OK, OK, accepted, OK, gone];
    // Create, list, get the current one, invite, claim, get, revoke, rotate; delete the webhook.
    let keys = [CREATED, OK, OK, CREATED, CREATED, OK, NO_CONTENT, CREATED];
    let rest = [NO_CONTENT];
    let expected = [
        &pets[..],
        &photos,
        &batches,
        &categories,
        &store,
        &reports,
        &settings,
        &EVENTS,
        &webhooks,
        &keys,
        &rest,
    ]
    .concat();
    assert_eq!(statuses, expected);
}

#[test]
fn event_examples_work() {
    let guide = examples(&std::fs::read_to_string("docs/events.md").unwrap());
    let service = Installation::start();
    let name = r#"curl -sf http://127.0.0.1:8080/v1/categories/3 -X PUT -d '{"name":"Dogs"}' \
        -H "Authorization: Bearer $PETSTORE_KEY" -H 'Content-Type: application/json'"#;
    service.run(&format!("{NEW_KEY}{name}"));
    // A page, a history, and the stream.
    let expected = [&[OK], &EVENTS[..]].concat();
    assert_eq!(statuses(&service, NEW_KEY, &guide), expected);
    let commands = guide.iter().find(|it| it.contains("petstore events"));
    let printed = service.run(commands.unwrap());
    let event: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(event["subject"], "categories/3");
}

#[test]
fn personal_data_examples_work() {
    let guide = examples(&std::fs::read_to_string("docs/personal-data.md").unwrap());
    let service = Installation::start();
    let send = |path: &str, body: &str| {
        service.run(&format!(
            "{NEW_KEY}curl -sf http://127.0.0.1:8080/v1/{path} -d '{body}' \
             -H \"Authorization: Bearer $PETSTORE_KEY\" -H 'Content-Type: application/json'"
        ))
    };
    let [find, erase, erase_source] = guide.as_slice() else {
        panic!("{guide:?}");
    };
    assert_eq!(service.run(find), "no orders\n");
    send(
        "pets",
        r#"{"name":"A","categoryId":1,"status":"available"}"#,
    );
    send(
        "store/orders",
        r#"{"petId":1,"buyer":{"name":"Ada Moreno","contact":"ada@example.com"}}"#,
    );
    assert!(service.run(find).contains("ada@example.com"));
    let erased = service.run(&format!("{NEW_KEY}{erase}"));
    assert!(erased.starts_with(OK), "{erased}");
    assert_eq!(service.run(find), "no orders\n");
    let source =
        r#"{"name":"B","categoryId":1,"acquiredOn":"2026-02-01","source":{"name":"Ada Moreno"}}"#;
    send("pets", source);
    service.run(&format!(
        "{NEW_KEY}curl -sf -X DELETE http://127.0.0.1:8080/v1/pets/2 \
         -H \"Authorization: Bearer $PETSTORE_KEY\""
    ));
    let erase_source = erase_source.replace("17", "2");
    assert!(service.run(&erase_source).contains("Ada Moreno"));
    assert_eq!(service.run(&erase_source), "no entries\n");
}

#[test]
fn webhook_examples_work() {
    let guide = examples(&std::fs::read_to_string("docs/webhooks.md").unwrap());
    let service = Installation::start();
    let commands = guide.iter().find(|it| it.contains("petstore webhooks"));
    let printed = service.run(commands.unwrap());
    assert!(printed.starts_with("whsec_"));
    assert!(printed.contains("https://shop.example/petstore"));
    assert_eq!(statuses(&service, NEW_KEY, &guide), [CREATED]);
}

#[test]
fn operations_guide_examples_work() {
    let guide = examples(&std::fs::read_to_string("docs/operations.md").unwrap());
    let mut service = Installation::start();
    // A restore needs a database that is not being served.
    let (restore, served): (Vec<_>, Vec<_>) =
        (guide.iter()).partition(|example| example.contains("petstore restore"));
    assert_eq!((restore.len(), served.len()), (1, 11));
    for example in served {
        service.run(example);
    }
    let all = service.run("petstore export");
    assert_eq!(all.lines().count(), 1001);
    service.kill();
    service.run(restore[0]);
}

/// A newcomer and CI run the same commands, in the same environment.
#[test]
fn ci_runs_the_test_command_of_the_readme() {
    let readme = examples(&std::fs::read_to_string("README.md").unwrap());
    let commands = readme[1].lines().map(|line| line.split("  ").next());
    assert!(commands.eq([Some("cargo run --release -- serve"), Some("make test")]));
    let ci = std::fs::read_to_string(".ci/run").unwrap();
    let commands: Vec<_> = ci.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(commands, [r#"cd "$(dirname "$0")/.." && exec make test"#]);
}

/// Every link and every path of source code in the documentation exists.
#[test]
fn links_and_source_paths_exist() {
    for document in [
        "README.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/decisions.md",
        "docs/events.md",
        "docs/operations.md",
        "docs/people.md",
        "docs/performance.md",
        "docs/postgres.md",
        "docs/reliability.md",
        "docs/scaling.md",
        "docs/webhooks.md",
    ] {
        let text = std::fs::read_to_string(document).unwrap();
        let dir = Path::new(document).parent().unwrap();
        for link in text.split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => document.into(),
                file => dir.join(file),
            };
            assert!(file.exists(), "{document} links to {target}");
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(file).unwrap();
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_target = |heading: &str| slug(heading) == anchor;
                assert!(headings.any(is_target), "{document} links to {target}");
            }
        }
        for path in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|code| code.starts_with("src/") || code.starts_with("crates/"))
        {
            assert!(Path::new(path).exists(), "{document} names {path}");
        }
    }
}

/// Every script that a recipe of the Makefile runs exists.
#[test]
fn scripts_of_the_makefile_exist() {
    let makefile = std::fs::read_to_string("Makefile").unwrap();
    let mut makefile = makefile.replace("\\\n", " ");
    let variables: Vec<_> = makefile
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, value)| (format!("$({name})"), value.to_string()))
        .collect();
    for (reference, value) in variables {
        makefile = makefile.replace(&reference, &value);
    }
    let mut found = 0;
    for recipe in makefile.lines().filter(|line| line.starts_with('\t')) {
        let folder = recipe
            .split_once("cd ")
            .and_then(|(_, rest)| rest.split_whitespace().next());
        let folder = Path::new(folder.unwrap_or_default());
        for word in recipe.split(|at: char| at.is_whitespace() || "=;()\"".contains(at)) {
            let is_script = match Path::new(word).extension() {
                Some(extension) => extension == "mjs" || extension == "py",
                None => ["bench/", "deploy/", "fuzz/", "tests/"]
                    .iter()
                    .any(|root| word.starts_with(root)),
            };
            if is_script && !word.contains("node_modules") && !word.contains('*') {
                let exists = Path::new(word).exists() || folder.join(word).exists();
                assert!(exists, "the Makefile names {word}:{recipe}");
                found += 1;
            }
        }
    }
    assert!(found > 10, "only {found} scripts were found");
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.replace(' ', "-")
}
