//! Commands on a machine with the Debian package find the database of its service.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use support::CommandResult;

use crate::harness::{Home, PETSTORE, Service};

const VARIABLE: &str = "PETSTORE_PACKAGED_SETTINGS";

/// `petstore` with these settings of a packaged service.
fn petstore(home: &Home, settings: &Path) -> Command {
    let mut command = home.command(PETSTORE);
    command.env(VARIABLE, settings);
    command
}

#[test]
fn keys_are_created_in_the_database_of_the_service() {
    let service = Home::new();
    let home = Home::new();
    service.create_store();
    let settings = service.path("petstore.env");
    let url = service.url();
    fs::write(
        &settings,
        format!("# A comment\nPETSTORE_DATABASE='{url}'\n"),
    )
    .unwrap();
    let keys = |arguments: &[&str]| {
        let mut command = petstore(&home, &settings);
        CommandResult::of(command.arg("keys").args(arguments)).success()
    };
    let created = keys(&["create", "kiosk"]);
    created.secret();
    for part in [
        &*settings.to_string_lossy(),
        &*service.database().to_string_lossy(),
    ] {
        assert!(created.stderr.contains(part), "{created:?}");
    }
    assert!(service.keys(&["list"]).success().stdout.contains("kiosk"));
    assert_eq!(home.files(), [""; 0]);

    // A database that is named, or in this directory, comes first.
    let other = Home::new();
    other.create_store();
    let listed = keys(&["list", "--database", &other.url()]);
    assert_eq!(listed.stdout, "");
    home.create_store();
    assert_eq!(keys(&["list"]).stdout, "");
}

/// Without a setting, the unit's default counts.
#[test]
fn the_default_is_that_of_the_unit() {
    let home = Home::new();
    let settings = home.path("petstore.env");
    fs::write(&settings, "# PETSTORE_DATABASE='postgres://db/petstore'\n").unwrap();
    let listed = CommandResult::of(petstore(&home, &settings).args(["keys", "list"]));
    let used = "Using sqlite:/var/lib/petstore/petstore.db";
    assert!(listed.stderr.contains(used), "{listed:?}");
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/petstore.service");
    let unit = fs::read_to_string(unit).unwrap();
    for line in [
        "Environment=PETSTORE_DATABASE=sqlite:/var/lib/petstore/petstore.db",
        "EnvironmentFile=-/etc/petstore/petstore.env",
        "WorkingDirectory=/var/lib/petstore",
    ] {
        assert!(unit.lines().any(|it| it == line), "{line}");
    }

    fs::write(&settings, "PETSTORE_DATABASE='mysql://u:secret@db/x'\n").unwrap();
    let failed = CommandResult::of(petstore(&home, &settings).args(["keys", "list"]));
    failed.assert_fails(1, "PETSTORE_DATABASE in ");
    assert!(!failed.stderr.contains("secret"), "{failed:?}");
}

/// The service is not the packaged one: it has a database of its own.
#[test]
fn serve_ignores_the_settings() {
    let home = Home::new();
    let settings = home.path("petstore.env");
    fs::write(&settings, "PETSTORE_DATABASE='sqlite:/nowhere/petstore.db'").unwrap();
    let mut serve = petstore(&home, &settings);
    Service::start(serve.args(["serve", "--port", "0"])).stop();
    assert!(home.database().exists());
}

/// Only root can read the settings.
#[test]
#[ignore = "needs setpriv; make test installs it and runs this"]
fn sudo_is_suggested_if_it_is_needed() {
    let home = Home::new();
    // Not root's own directory.
    fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let settings = home.path("petstore.env");
    fs::write(&settings, "").unwrap();
    fs::set_permissions(&settings, fs::Permissions::from_mode(0o000)).unwrap();
    let mut keys = home.command("setpriv");
    if rustix::process::geteuid().is_root() {
        keys.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    keys.args([PETSTORE, "keys", "create", "kiosk"]);
    let failed = CommandResult::of(keys.env(VARIABLE, &settings));
    failed.assert_fails(1, &format!("sudo {PETSTORE} keys create kiosk"));
    assert!(failed.stderr.contains("--database"), "{failed:?}");
}
