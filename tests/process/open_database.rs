//! Opening the database file: rejected files, schema versions, exclusive access.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, thread};

use rusqlite::Connection;
use support::CommandResult;

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service, url},
};

/// Neither `serve` nor `keys create` accepts the file. Both name it in the
/// error and change nothing. Opening a database in WAL mode read-only may leave
/// an empty `-wal` file and the `-shm` index.
#[track_caller]
fn assert_fails(home: &Home, path: &Path, reason: &str) {
    let before = home.contents();
    let database = url(path);
    let commands: [&[&str]; 2] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["keys", "create", "till"],
    ];
    for command in commands {
        let ended = home.petstore(&[command, &["--database", &database]].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        let named = path.to_str().unwrap();
        assert!(
            ended.stderr.contains(named),
            "{ended:?} does not name {named}"
        );
        assert!(ended.stderr.contains(reason), "{ended:?}");
        let mut after = home.contents();
        after.retain(|name, bytes| {
            let log = name.ends_with("-wal") && bytes.is_empty() || name.ends_with("-shm");
            before.contains_key(name) || !log
        });
        assert!(after == before, "{command:?} left {:?}", home.files());
    }
}

#[test]
fn files_that_are_not_sqlite_are_rejected() {
    let noise: Vec<u8> = (0..8192_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let cut_off = b"SQLite format 3\0\x10\0\x01\x01\0";
    let contents: [&[u8]; 5] = [b"Dear diary,\n", &noise, b"x", b"SQLite format 3", cut_off];
    for bytes in contents {
        let home = Home::new();
        fs::write(home.database(), bytes).unwrap();
        assert_fails(&home, &home.database(), "not a ");
    }
}

#[test]
fn foreign_sqlite_databases_are_rejected() {
    for pragmas in [
        "journal_mode = DELETE",
        "journal_mode = WAL",
        "user_version = 1",
        "user_version = 1; PRAGMA application_id = 7",
    ] {
        let home = Home::new();
        execute_sql(
            &home,
            &format!("PRAGMA {pragmas}; CREATE TABLE notes (text)"),
        );
        assert_fails(&home, &home.database(), "is not a petstore database");
    }
}

/// The WAL that another program left behind in a crash is not recovered.
#[test]
fn the_wal_of_a_foreign_database_is_not_recovered() {
    let crashed = Home::new();
    let other = Connection::open(crashed.database()).unwrap();
    let notes = "PRAGMA journal_mode = WAL; CREATE TABLE notes (text)";
    other.execute_batch(notes).unwrap();
    let home = Home::new();
    for name in ["petstore.db", "petstore.db-wal"] {
        fs::copy(crashed.path(name), home.path(name)).unwrap();
    }
    assert_fails(&home, &home.database(), "is not a petstore database");
}

/// A database with a newer schema is rejected by every command.
#[test]
fn a_newer_schema_is_rejected() {
    let home = Home::new();
    home.new_key();
    execute_sql(&home, "PRAGMA user_version = 999");
    assert_fails(&home, &home.database(), "newer petstore (schema 999");
    let list = home.keys(&["list"]);
    assert_eq!((list.code, &*list.stdout), (Some(1), ""), "{list:?}");
}

/// The newer schema version is recognized while it is still in the WAL, before
/// a checkpoint writes it to the main file.
#[test]
fn a_newer_schema_still_in_the_wal_is_rejected() {
    let home = Home::new();
    home.new_key();
    let newer = Connection::open(home.database()).unwrap();
    newer.execute_batch("PRAGMA user_version = 999").unwrap();
    for command in [&["create", "till"][..], &["list"], &["revoke", "1"]] {
        let ended = home.keys(command);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{ended:?}");
        assert!(
            ended.stderr.contains("newer petstore (schema 999"),
            "{ended:?}"
        );
    }
}

/// Changes the database as another program would.
fn execute_sql(home: &Home, sql: &str) {
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(sql).unwrap();
    db.close().unwrap();
}

/// In words, with what to do next.
#[test]
fn a_damaged_store_is_explained() {
    let home = Home::new();
    home.new_key();
    let bytes = fs::read(home.database()).unwrap();
    fs::write(home.database(), &bytes[..4096]).unwrap();
    let words = "the file is damaged; see how with `petstore check --database PATH`";
    assert_fails(&home, &home.database(), words);
    let exported = home.petstore(&["export", "--database", &home.url()]);
    exported.assert_fails(1, words);
}

#[test]
fn invalid_paths_are_rejected() {
    let home = Home::new();
    fs::create_dir(home.path("folder")).unwrap();
    assert_fails(&home, &home.path("folder"), "it is a folder");
    assert_fails(
        &home,
        &home.path("nowhere/petstore.db"),
        "does not exist; create it",
    );
    assert_fails(&home, Path::new("/dev/null"), "it is a device");
}

/// An empty file is treated like a missing one.
#[test]
fn an_empty_file_is_initialized() {
    let home = Home::new();
    fs::write(home.database(), "").unwrap();
    home.serve().stop();
    home.new_key();
}

fn schema_version(home: &Home) -> i64 {
    let db = Connection::open(home.database()).unwrap();
    db.pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

/// The missing migrations run, and the rest of the file is kept.
#[tokio::test]
async fn an_older_schema_is_migrated() {
    let home = Home::new();
    let db = home.older_database();
    let notes = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('kept')";
    db.execute_batch(notes).unwrap();
    db.close().unwrap();
    assert_eq!(schema_version(&home), 0);
    let key = home.new_key();
    assert_eq!(schema_version(&home), 1);
    let service = home.serve();
    let warning = service.event("database has objects of another program");
    assert_eq!(warning["objects"], r#"table "notes""#);
    let client = Client::new(&service, &key);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    service.stop();
    let db = Connection::open(home.database()).unwrap();
    let note: String = db
        .query_row("SELECT text FROM notes", [], |row| row.get(0))
        .unwrap();
    assert_eq!(note, "kept");
}

/// All migrations are one transaction.
#[test]
fn a_failed_migration_changes_nothing() {
    let home = Home::new();
    let db = home.older_database();
    // In the way of the first migration, after its first table.
    db.execute_batch("CREATE TABLE orders (text)").unwrap();
    db.close().unwrap();
    let failed = home.keys(&["create", "till"]);
    failed.assert_fails(1, "table orders already exists");
    assert_eq!(schema_version(&home), 0);
    let db = Connection::open(home.database()).unwrap();
    let tables = "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table'";
    let tables: String = db.query_row(tables, [], |row| row.get(0)).unwrap();
    assert_eq!(tables, "orders");
    db.execute_batch("DROP TABLE orders").unwrap();
    db.close().unwrap();
    home.new_key();
    assert_eq!(schema_version(&home), 1);
}

/// A second service cannot open the file, not even through another path or a link to its
/// folder. A link to the file is not followed. The first service is not affected.
#[tokio::test]
async fn only_one_service_opens_the_file() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    std::os::unix::fs::symlink("petstore.db", home.path("link.db")).unwrap();
    std::os::unix::fs::symlink(".", home.path("folder")).unwrap();
    let in_use = "petstore.db is in use";
    for (name, reason) in [
        ("petstore.db", in_use),
        ("./petstore.db", in_use),
        ("folder/petstore.db", in_use),
        ("link.db", "link.db: it is a symbolic link"),
    ] {
        let database = format!("sqlite:{name}");
        let second = ["serve", "--listen", "127.0.0.1:0", "--database", &database];
        let second = home.petstore(&second);
        assert_eq!((second.code, &*second.stdout), (Some(1), ""), "{second:?}");
        assert!(second.stderr.contains(reason), "{second:?}");
        assert_eq!(client.create("Rex").await.unwrap().status, 201);
    }
    assert_eq!(client.pets().await.len(), 5);
    service.stop();
    home.serve().stop();
}

/// Concurrent commands wait for each other.
#[test]
fn concurrent_keys_get_different_ids() {
    let home = Home::new();
    home.create_store();
    let created: Vec<_> = thread::scope(|scope| {
        let create = |number: usize| {
            let home = &home;
            scope.spawn(move || home.keys(&["create", &format!("till {number}")]))
        };
        let running: Vec<_> = (0..12).map(create).collect();
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut secrets: Vec<_> = created.into_iter().map(|c| c.success().secret()).collect();
    secrets.sort();
    secrets.dedup();
    assert_eq!(secrets.len(), 12);
    let list = home.keys(&["list"]).success();
    let rows = list.stdout.lines().skip(1);
    let ids = rows.map(|row| row.split(' ').next().unwrap());
    let expected: Vec<_> = (1..=12).map(|id| id.to_string()).collect();
    assert_eq!(ids.collect::<Vec<_>>(), expected);
}

/// The permission bits of a file.
fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Whatever the umask, and whichever command creates them.
#[test]
fn new_files_are_for_their_owner_only() {
    for command in ["exec \"$0\" \"$@\"", "umask 0; exec \"$0\" \"$@\""] {
        let home = Home::new();
        let mut serve = home.command("sh");
        serve.args(["-c", command, PETSTORE, "serve", "--listen", "127.0.0.1:0"]);
        let service = Service::start(&mut serve);
        for name in ["petstore.db", "petstore.db-wal", "petstore.db-shm"] {
            assert_eq!(mode(&home.path(name)), 0o600, "{name}");
        }
        assert!(!service.output().contains("readable"));
        service.stop();

        let home = Home::new();
        fs::write(home.path("pets.csv"), "name,categoryId\nRex,1\n").unwrap();
        for (name, arguments) in [
            ("seeded.db", ["seed", "1"]),
            ("imported.db", ["import", "pets.csv"]),
        ] {
            let mut create = home.command("sh");
            create.args(["-c", command, PETSTORE]).args(arguments);
            CommandResult::of(create.args(["--database", name])).success();
            let created = home
                .files()
                .into_iter()
                .filter(|file| file.starts_with(name));
            let modes: Vec<_> = created.map(|file| mode(&home.path(&file))).collect();
            assert!(
                !modes.is_empty() && modes.iter().all(|mode| *mode == 0o600),
                "{modes:?}"
            );
        }
    }
}

/// The mode of an existing file is the operator's choice; a warning is enough.
#[test]
fn a_public_database_is_reported() {
    let home = Home::new();
    home.new_key();
    for (bits, warned) in [(0o644, true), (0o640, false)] {
        fs::set_permissions(home.database(), fs::Permissions::from_mode(bits)).unwrap();
        let service = home.serve();
        if warned {
            let event = service.event("file is readable by all users");
            let file = home.database().display().to_string();
            assert_eq!(
                (&event["level"], &event["mode"]),
                (&"WARN".into(), &"644".into())
            );
            assert_eq!(event["file"], file);
        } else {
            assert!(!service.output().contains("readable"));
        }
        assert_eq!(mode(&home.path("petstore.db-wal")), bits);
        service.stop();
        assert_eq!(mode(&home.database()), bits);
    }
}

/// The newest changes of a file that was moved away are in the log that stayed.
#[test]
fn a_log_without_its_database_is_kept() {
    let home = Home::new();
    let url = home.url();
    let service = home.serve();
    home.petstore(&["seed", "10", "--database", &url]).success();
    service.kill();
    fs::rename(home.database(), home.path("aside.db")).unwrap();
    for command in [&["seed", "5"][..], &["serve", "--listen", "127.0.0.1:0"]] {
        let ended = home.petstore(&[command, &["--database", &url]].concat());
        ended.assert_fails(1, "petstore.db-wal");
    }
    fs::rename(home.path("aside.db"), home.database()).unwrap();
    let all = home.petstore(&["export", "--database", &url]).success();
    assert_eq!(all.stdout.lines().count(), 10);
}
