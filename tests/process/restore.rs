//! Restoring a backup (`petstore restore`): what is refused, what is kept, and crashes.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
};

use rusqlite::Connection;
use support::{CommandResult, note_skipped, signal, wait_for};

use crate::harness::{Home, url};

fn restore(home: &Home, file: &str) -> CommandResult {
    home.petstore(&["restore", file, "--database", &home.url()])
}

/// The names of the animals, sorted. The store must be sound.
fn pets(home: &Home, file: &str) -> Vec<String> {
    let url = url(&home.path(file));
    home.petstore(&["check", "--database", &url]).success();
    let exported = home.petstore(&["export", "--database", &url]).success();
    let name = |line| {
        let pet: serde_json::Value = serde_json::from_str(line).unwrap();
        pet["name"].as_str().unwrap().to_string()
    };
    exported.stdout.lines().map(name).collect()
}

fn import(home: &Home, names: &[&str]) {
    let lines = names.iter().map(|name| format!("{name},1,available\n"));
    let csv = "name,categoryId,status\n".to_string() + &lines.collect::<String>();
    fs::write(home.path("new.csv"), csv).unwrap();
    let imported = home.petstore(&["import", "new.csv", "--database", &home.url()]);
    imported.success();
    fs::remove_file(home.path("new.csv")).unwrap();
}

/// The store has the animals A, B and C, the last one only in its WAL, as after a crash;
/// its backup has A.
fn store_and_backup() -> Home {
    let home = Home::new();
    home.new_key();
    import(&home, &["A"]);
    home.petstore(&["backup", "backup.db", "--database", &home.url()])
        .success();
    import(&home, &["B"]);
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
         INSERT INTO pets (name, search_name, search_words, category_id, status)
         VALUES ('C', 'c', 'c', 1, 'available')",
    )
    .unwrap();
    // The last connection to close would delete the WAL.
    for suffix in ["", "-wal"] {
        let file = format!("petstore.db{suffix}");
        fs::copy(home.path(&file), home.path(&format!("{file}.copy"))).unwrap();
    }
    drop(db);
    for file in ["petstore.db", "petstore.db-wal"] {
        fs::rename(home.path(&format!("{file}.copy")), home.path(file)).unwrap();
    }
    home
}

/// The name under which the old store was kept.
fn kept(home: &Home) -> String {
    let names = home.files().into_iter();
    let kept: Vec<_> = names
        .filter(|name| name.contains(".before-restore-") && !name.ends_with('l'))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

#[test]
fn a_backup_replaces_the_store_which_is_kept() {
    let home = store_and_backup();
    fs::set_permissions(home.database(), PermissionsExt::from_mode(0o644)).unwrap();
    let backup = fs::read(home.path("backup.db")).unwrap();
    let restored = restore(&home, "backup.db").success();
    assert_eq!(pets(&home, "petstore.db"), ["A"]);
    assert_eq!(fs::read(home.path("backup.db")).unwrap(), backup);
    let mode = fs::metadata(home.database()).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = kept(&home);
    for part in [
        "contains 1 animal, 0 orders and 1 API key.",
        "from 20",
        &format!("{kept} --database {}`.", home.url()),
        &format!("`petstore keys list --database {}`", home.url()),
    ] {
        assert!(restored.stderr.contains(part), "{part}: {restored:?}");
    }
    let left = home.files();
    assert!(
        left.iter().all(|name| !name.contains("partial")),
        "{left:?}"
    );
    // With what was in the WAL. And the other way round.
    assert_eq!(pets(&home, &kept), ["A", "B", "C"]);
    let undone = restore(&home, &kept).success();
    assert!(undone.stderr.contains("contains 3 animals"), "{undone:?}");
    assert_eq!(pets(&home, "petstore.db"), ["A", "B", "C"]);
}

#[test]
fn nothing_is_restored_while_the_store_is_open() {
    let home = store_and_backup();
    let service = home.serve();
    let refused = restore(&home, "backup.db");
    refused.assert_fails(1, "in use by another petstore process");
    service.stop();
    // Not only a service.
    let db = Connection::open(home.database()).unwrap();
    db.query_row("SELECT count(*) FROM pets", [], |_| Ok(()))
        .unwrap();
    let refused = restore(&home, "backup.db");
    refused.assert_fails(1, "in use by another petstore process");
    drop(db);
    assert_eq!(pets(&home, "petstore.db"), ["A", "B", "C"]);
    restore(&home, "backup.db").success();
}

#[test]
fn what_is_not_a_sound_backup_is_refused() {
    let home = store_and_backup();
    let backup = fs::read(home.path("backup.db")).unwrap();
    let write = |name: &str, content: &[u8]| fs::write(home.path(name), content).unwrap();
    write("half.db", &backup[..backup.len() / 2 / 4096 * 4096]);
    write("short.db", &backup[..backup.len() - 100]);
    let mut zeroed = backup.clone();
    let end = zeroed.len();
    zeroed[end - 8192..].fill(0);
    write("zeroed.db", &zeroed);
    write("text.db", b"name,categoryId,status");
    write("empty.db", b"");
    let change = |name: &str, sql: &str| {
        write(name, &backup);
        let db = Connection::open(home.path(name)).unwrap();
        db.execute_batch(sql).unwrap();
    };
    change("newer.db", "PRAGMA user_version = 999");
    change("other.db", "PRAGMA application_id = 7");
    change("lost.db", "UPDATE counts SET pets = 9");
    // It would run in the service, with every sale.
    let trigger = "CREATE TRIGGER steal AFTER UPDATE ON orders BEGIN DELETE FROM webhooks; END";
    change("trigger.db", trigger);
    let changed = format!("DROP TRIGGER count_order_updated; {trigger}")
        .replace("steal", "count_order_updated");
    change("changed.db", &changed);
    change("view.db", "CREATE VIEW mine AS SELECT * FROM api_keys");
    change("older.db", &format!("{trigger}; PRAGMA user_version = 0"));
    change(
        "negative.db",
        &format!("{trigger}; PRAGMA user_version = -1"),
    );
    fs::create_dir(home.path("folder")).unwrap();
    symlink("petstore.db", home.path("link.db")).unwrap();
    let before = home.contents();
    for (file, reason) in [
        ("half.db", "half.db is damaged"),
        ("short.db", "short.db is damaged"),
        ("zeroed.db", "zeroed.db is damaged"),
        ("lost.db", "the count of animals is too high by 8"),
        (
            "trigger.db",
            "did not create and that could run in the service: trigger \"steal\"; ",
        ),
        (
            "changed.db",
            "the trigger count_order_updated is missing or changed",
        ),
        (
            "view.db",
            "did not create and that could run in the service: view \"mine\"; ",
        ),
        ("older.db", "trigger \"steal\""),
        ("negative.db", "is not a petstore database"),
        ("text.db", "is not a petstore database"),
        ("empty.db", "is not a petstore database"),
        ("other.db", "is not a petstore database"),
        ("newer.db", "newer petstore (schema 999"),
        (
            "folder",
            "folder has no backup that `petstore serve` has made",
        ),
        ("none.db", "there is no file none.db"),
        ("petstore.db", "is the store itself"),
        ("link.db", "is the store itself"),
    ] {
        restore(&home, file).assert_fails(1, reason);
        assert_eq!(home.contents(), before, "{file}");
    }
    let server = [
        "restore",
        "backup.db",
        "--database",
        "postgres://a@127.0.0.1/b",
    ];
    home.petstore(&server).assert_fails(1, "pg_restore");
    // The file of another program is not replaced.
    let other = ["restore", "backup.db", "--database", "sqlite:other.db"];
    home.petstore(&other)
        .assert_fails(1, "is not a petstore database");
    assert_eq!(home.contents(), before);
}

/// That is when a backup is needed.
#[test]
fn a_damaged_or_missing_store_is_replaced() {
    let home = store_and_backup();
    let wal = fs::read(home.path("petstore.db-wal")).unwrap();
    for damaged in [Some(&b""[..]), Some(b"not a database"), None] {
        match damaged {
            Some(content) => fs::write(home.database(), content).unwrap(),
            None => fs::remove_file(home.database()).unwrap(),
        }
        fs::write(home.path("petstore.db-wal"), &wal).unwrap();
        fs::write(home.path("petstore.db-journal"), "old").unwrap();
        fs::write(home.path("petstore.db-shm"), "old").unwrap();
        restore(&home, "backup.db").success();
        // The old WAL was not applied, and is not lost either.
        assert_eq!(pets(&home, "petstore.db"), ["A"]);
        let contents = home.contents();
        let kept: Vec<_> = contents
            .keys()
            .filter(|name| name.contains("before"))
            .collect();
        let has = |content: &[u8]| kept.iter().any(|name| contents[*name] == content);
        assert!(has(&wal), "{damaged:?}: {kept:?}");
        assert!(damaged.is_none_or(has), "{damaged:?}: {kept:?}");
        for name in kept {
            fs::remove_file(home.path(name)).unwrap();
        }
    }
}

/// Kills it at each system call that names or syncs files, with a WAL to keep.
#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn a_crash_leaves_the_old_store_or_the_new_one() {
    let home = store_and_backup();
    let start = home.contents();
    let calls = [
        "link",
        "linkat",
        "unlink",
        "unlinkat",
        "rename",
        "renameat",
        "renameat2",
        "fsync",
        "fdatasync",
        "ftruncate",
    ];
    let mut killed_at = BTreeSet::new();
    let mut old = 0;
    let mut new = 0;
    for call in calls {
        // strace counts each of them by itself. The question mark: not every machine has all.
        for number in 1.. {
            for name in home.files() {
                fs::remove_file(home.path(&name)).unwrap();
            }
            for (name, content) in &start {
                fs::write(home.path(name), content).unwrap();
            }
            let trace = format!("trace=?{call}");
            let kill = format!("inject=?{call}:signal=KILL:when={number}");
            let mut restore = home.traced(&["-e", &trace, "-e", &kill]);
            restore.args(["restore", "backup.db", "--database", &home.url()]);
            let ended = CommandResult::of(&mut restore);
            let is_new = match pets(&home, "petstore.db").as_slice() {
                [a] => a == "A",
                [a, b, c] if [a, b, c] == ["A", "B", "C"] => false,
                other => panic!("killed at {call} {number}: {other:?}"),
            };
            match ended.code {
                None if is_new => new += 1,
                None => old += 1,
                Some(0) => {
                    assert!(is_new);
                    break;
                }
                Some(_) => panic!("{ended:?}"),
            }
            killed_at.insert(call.trim_end_matches("2").trim_end_matches("at"));
        }
    }
    for call in ["link", "unlink", "rename", "fsync"] {
        assert!(killed_at.contains(call), "{call}: {killed_at:?}");
    }
    assert!(
        old > 5 && new > 0,
        "killed {old} times before and {new} times after"
    );
}

/// Changes that are only in the WAL of a sound store are kept if the WAL cannot be copied into
/// the database, for example because the disk is full.
#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn nothing_is_replaced_if_the_wal_cannot_be_applied() {
    let home = store_and_backup();
    let database = home.database();
    let files = home.files();
    for error in ["ENOSPC", "EIO"] {
        let inject = format!("inject=pwrite64:error={error}");
        let path = database.to_str().unwrap();
        let mut restore = home.traced(&["-P", path, "-e", "trace=pwrite64", "-e", &inject]);
        restore.args(["restore", "backup.db", "--database", &home.url()]);
        let failed = CommandResult::of(&mut restore);
        failed.assert_fails(1, "petstore.db-wal and cannot be copied into it");
        let mut left = home.files();
        left.retain(|name| name != "trace" && name != "petstore.db-shm");
        assert_eq!(left, files);
    }
    assert_eq!(pets(&home, "petstore.db"), ["A", "B", "C"]);
}

/// No service can create a store while a backup is put in place of a missing one.
#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn a_missing_store_is_locked() {
    let home = store_and_backup();
    for file in ["petstore.db", "petstore.db-wal"] {
        fs::remove_file(home.path(file)).unwrap();
    }
    let inject = "inject=fsync,fdatasync:signal=STOP:when=1";
    let mut command = home.traced(&["-e", "trace=fsync,fdatasync", "-e", inject]);
    command.args(["restore", "backup.db", "--database", &home.url()]);
    let mut stopped = command.spawn().unwrap();
    wait_for("it to stop", || {
        let trace = fs::read_to_string(home.path("trace")).unwrap_or_default();
        trace.contains("stopped by SIGSTOP").then_some(())
    });
    let locked = fs::File::open(home.database()).and_then(|file| Ok(file.try_lock()?));
    signal(stopped.id(), "KILL");
    stopped.wait().unwrap();
    let error = locked.expect_err("it was not locked");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    // After a crash, the command is repeated. If it fails, no file is left.
    restore(&home, "backup.db").success();
    assert_eq!(pets(&home, "petstore.db"), ["A"]);
    fs::remove_file(home.database()).unwrap();
    restore(&home, "none.db").assert_fails(1, "there is no file none.db");
    assert!(!home.database().exists());
}

/// If root restores, the service must still be able to open the store.
#[test]
#[ignore = "needs root; make test runs this if it is root"]
fn the_restored_store_belongs_to_the_owner_of_the_old_one() {
    if !rustix::process::getuid().is_root() {
        let name = "the_restored_store_belongs_to_the_owner_of_the_old_one";
        return note_skipped(name, "it needs root");
    }
    let home = store_and_backup();
    let owner = |file: &str| {
        let file = fs::metadata(home.path(file)).unwrap();
        (file.uid(), file.gid())
    };
    std::os::unix::fs::chown(home.database(), Some(1234), Some(4321)).unwrap();
    restore(&home, "backup.db").success();
    assert_eq!(owner("petstore.db"), (1234, 4321));
    // Without a store, the folder counts. Its owner has to read the backup.
    fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(home.path("data")).unwrap();
    std::os::unix::fs::chown(home.path("data"), Some(1235), Some(4321)).unwrap();
    std::os::unix::fs::chown(home.path("backup.db"), Some(1235), None).unwrap();
    let elsewhere = [
        "restore",
        "backup.db",
        "--database",
        "sqlite:data/petstore.db",
    ];
    home.petstore(&elsewhere).success();
    assert_eq!(owner("data/petstore.db"), (1235, 4321));
    // In a group that is not that of the folder, too.
    std::os::unix::fs::chown(home.path("data/petstore.db"), None, Some(77)).unwrap();
    home.petstore(&elsewhere).success();
    assert_eq!(owner("data/petstore.db").0, 1235);
}

/// Before the first start of a service, too.
#[test]
#[ignore = "needs root; make test runs this if it is root"]
fn a_store_that_root_creates_belongs_to_the_owner_of_the_folder() {
    if !rustix::process::getuid().is_root() {
        let name = "a_store_that_root_creates_belongs_to_the_owner_of_the_folder";
        return note_skipped(name, "it needs root");
    }
    let home = Home::new();
    fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o755)).unwrap();
    let folder = home.path("data");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(1235), Some(4321)).unwrap();
    let seed = ["seed", "1", "--database", "sqlite:data/petstore.db"];
    home.petstore(&seed).success();
    // And the WAL, which is there while the store is open.
    let path = folder.join("petstore.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; UPDATE pets SET name = 'A'")
        .unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let file = fs::metadata(format!("{}{suffix}", path.display())).unwrap();
        assert_eq!((file.uid(), file.gid()), (1235, 4321), "{suffix}");
        assert_eq!(file.mode() & 0o777, 0o600, "{suffix}");
    }
    // Nothing outside the folder is created.
    symlink(home.path("outside.db"), folder.join("link.db")).unwrap();
    let seed = ["seed", "1", "--database", "sqlite:data/link.db"];
    home.petstore(&seed).assert_fails(1, "cannot open ");
    assert!(!home.path("outside.db").exists());
}
