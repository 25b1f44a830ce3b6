//! Packaging: manual pages, the systemd unit and its settings.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use support::CommandResult;

use crate::{
    cli::commands,
    harness::{Home, PETSTORE},
};

/// A path in the repository.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new();
    home.petstore(&["man", "."]).success();
    let named = |(command, _): (Vec<String>, String)| {
        let words = [vec!["petstore".into()], command].concat();
        words.join("-") + ".1"
    };
    let expected: BTreeSet<_> = commands(&home).into_iter().map(named).collect();
    assert_eq!(home.files().into_iter().collect::<BTreeSet<_>>(), expected);
    let page = fs::read_to_string(home.path("petstore-serve.1")).unwrap();
    let title = concat!("\"petstore ", env!("CARGO_PKG_VERSION"), "\"");
    for part in [title, "PETSTORE_LISTEN", "SIGTERM"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
#[ignore = "needs groff; make test installs it and runs this"]
fn manual_pages_are_well_formed() {
    let home = Home::new();
    home.petstore(&["man", "."]).success();
    let mut groff = home.command("groff");
    groff.args(["-man", "-Tutf8", "-ww", "-z"]);
    let read = CommandResult::of(groff.args(home.files())).success();
    assert_eq!(read.stderr, "");
}

#[test]
fn failing_to_write_manual_pages_is_an_error() {
    let rejected = Home::new().petstore(&["man", "/dev/null/man"]);
    rejected.assert_fails(1, "cannot write to /dev/null/man: ");
}

#[test]
#[ignore = "needs systemd-analyze; make test installs it and runs this"]
fn the_unit_is_valid_and_hardened() {
    let home = Home::new();
    let unit = fs::read_to_string(source("deploy/petstore.service")).unwrap();
    // systemd-analyze also verifies that the program exists.
    let here = unit.replace(
        "ExecStart=/usr/bin/petstore ",
        &format!("ExecStart={PETSTORE} "),
    );
    assert_ne!(here, unit);
    fs::write(home.path("petstore.service"), here).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = home.command("systemd-analyze");
        CommandResult::of(command.args(arguments).arg("./petstore.service")).success()
    };
    let verified = analyze(&["verify", "--man=no"]);
    assert_eq!((&*verified.stdout, &*verified.stderr), ("", ""));
    // Verified means known, not set.
    for set in [
        "Wants=network-online.target time-sync.target",
        "After=network-online.target time-sync.target",
        "LimitCORE=0",
        "MemoryMax=1G",
        "LoadCredential=petstore.tls-key",
    ] {
        assert!(unit.lines().any(|line| line == set), "{set}");
    }
    // Fails if the exposure level is above 1.5 of 10.
    analyze(&["security", "--offline=true", "--threshold=15"]);
}

/// The service accepts every setting in the example.
#[test]
fn the_example_settings_are_valid() {
    let home = Home::new();
    let example = fs::read_to_string(source("deploy/petstore.env")).unwrap();
    let help = home.petstore(&["serve", "--help"]).success().stdout;
    // The certificate doesn't exist and the port is taken, so the service exits with
    // 1, but only after it has parsed its settings: an invalid one would exit with 2.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let mut serve = home.command(PETSTORE);
    for line in example
        .lines()
        .filter_map(|line| line.strip_prefix("# PETSTORE_"))
    {
        let (name, value) = line.split_once('=').unwrap();
        let name = format!("PETSTORE_{name}");
        assert!(help.contains(&format!("[env: {name}")), "{name}");
        serve.env(name, value.trim_matches('\''));
    }
    let ended = CommandResult::of(serve.env("PETSTORE_LISTEN", &taken).arg("serve"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
}

/// Every file that the package copies exists.
#[test]
fn packaged_files_exist() {
    let manifest = fs::read_to_string(source("Cargo.toml")).unwrap();
    let assets = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("    [\""));
    let assets = assets.filter_map(|line| line.split('"').next());
    let package: Vec<_> = assets.filter(|path| !path.starts_with("target/")).collect();
    assert!(package.len() >= 4, "{package:?}");
    for path in package {
        let path = path.trim_end_matches("/*.md");
        assert!(source(path).exists(), "{path}");
    }
}
