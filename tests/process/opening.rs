//! Opening the database: what is refused, and who may have it.

use std::{fs, path::Path, thread};

use rusqlite::Connection;

use crate::{
    client::Client,
    harness::{Finished, Home, PETSTORE, url},
};

/// Neither `serve` nor `keys create` opens the file. Both name it, and leave
/// everything as it is. For a look at a database with a log beside it, SQLite
/// may put an empty log and its index there.
#[track_caller]
fn assert_refused(home: &Home, path: &Path, reason: &str) {
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
fn what_is_no_database_is_refused() {
    let noise: Vec<u8> = (0..8192_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let cut_off = b"SQLite format 3\0\x10\0\x01\x01\0";
    let contents: [&[u8]; 5] = [b"Dear diary,\n", &noise, b"x", b"SQLite format 3", cut_off];
    for bytes in contents {
        let home = Home::new();
        fs::write(home.database(), bytes).unwrap();
        assert_refused(&home, &home.database(), "not a ");
    }
}

#[test]
fn another_programs_database_is_refused() {
    for journal in ["DELETE", "WAL"] {
        let home = Home::new();
        change(
            &home,
            &format!("PRAGMA journal_mode = {journal}; CREATE TABLE notes (text)"),
        );
        assert_refused(&home, &home.database(), "is not a petstore database");
    }
}

/// What another program left when it crashed is not cleaned up for it.
#[test]
fn another_programs_crash_is_left_alone() {
    let crashed = Home::new();
    let other = Connection::open(crashed.database()).unwrap();
    let notes = "PRAGMA journal_mode = WAL; CREATE TABLE notes (text)";
    other.execute_batch(notes).unwrap();
    let home = Home::new();
    for name in ["petstore.db", "petstore.db-wal"] {
        fs::copy(crashed.path(name), home.path(name)).unwrap();
    }
    assert_refused(&home, &home.database(), "is not a petstore database");
}

/// A program that is not new enough leaves the file to one that is.
#[test]
fn a_newer_petstores_database_is_refused() {
    let home = Home::new();
    home.new_key();
    change(&home, "PRAGMA user_version = 999");
    assert_refused(&home, &home.database(), "newer petstore (schema 999");
    let list = home.keys(&["list"]);
    assert_eq!((list.code, &*list.stdout), (Some(1), ""), "{list:?}");
}

/// It is known for what it is before its mark has come from the log into the
/// file, as it may be while the newer program runs.
#[test]
fn a_newer_petstores_database_is_refused_while_it_is_in_use() {
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

/// Does what another program would to the database.
fn change(home: &Home, sql: &str) {
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(sql).unwrap();
    db.close().unwrap();
}

#[test]
fn what_cannot_be_a_file_is_refused() {
    let home = Home::new();
    assert_refused(&home, &home.folder(), "Is a directory");
    assert_refused(&home, &home.path("nowhere/petstore.db"), "No such file");
    assert_refused(&home, Path::new("/dev/null"), "is not a petstore database");
}

/// A file without content is as good as none.
#[test]
fn an_empty_file_is_taken() {
    let home = Home::new();
    fs::write(home.database(), "").unwrap();
    home.new_key();
    home.serve().stop();
}

fn schema_version(home: &Home) -> i64 {
    let db = Connection::open(home.database()).unwrap();
    db.pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap()
}

/// The missing migrations run, and the rest of the file is kept.
#[tokio::test]
async fn an_older_database_is_migrated() {
    let home = Home::new();
    let db = home.older_database();
    let notes = "CREATE TABLE notes (text); INSERT INTO notes VALUES ('kept')";
    db.execute_batch(notes).unwrap();
    db.close().unwrap();
    assert_eq!(schema_version(&home), 0);
    let key = home.new_key();
    assert_eq!(schema_version(&home), 1);
    let service = home.serve();
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
    failed.assert_refused(1, "table orders already exists");
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

/// A second service does not get the file, whatever name it uses for it. The
/// first one does not notice.
#[tokio::test]
async fn one_service_has_the_file() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    std::os::unix::fs::symlink("petstore.db", home.path("link.db")).unwrap();
    for name in ["petstore.db", "./petstore.db", "link.db"] {
        let database = format!("sqlite:{name}");
        let second = ["serve", "--listen", "127.0.0.1:0", "--database", &database];
        let second = home.petstore(&second);
        assert_eq!((second.code, &*second.stdout), (Some(1), ""), "{second:?}");
        assert!(
            second.stderr.contains("petstore.db is already served"),
            "{second:?}"
        );
        assert_eq!(client.create("Rex").await.unwrap().status, 201);
    }
    assert_eq!(client.pets().await.len(), 4);
    service.stop();
    home.serve().stop();
}

/// However many make the first key at once, all get one, on one database.
#[test]
fn many_first_keys_can_be_made_at_once() {
    for _ in 0..3 {
        let home = Home::new();
        let created: Vec<_> = thread::scope(|scope| {
            let create = |number: usize| {
                let name = format!("till {number}");
                let mut command = home.command(PETSTORE);
                let arguments = ["keys", "create", &name, "--database", &home.url()];
                command.args(arguments);
                scope.spawn(move || Finished::of(&mut command))
            };
            let running: Vec<_> = (0..12).map(create).collect();
            running.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let mut secrets: Vec<_> = created.into_iter().map(|c| c.success().secret()).collect();
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), 12);
        let list = home.keys(&["list"]).success();
        let ids = list
            .stdout
            .lines()
            .skip(1)
            .map(|row| row.split(' ').next().unwrap());
        let expected: Vec<_> = (1..=12).map(|id| id.to_string()).collect();
        assert_eq!(ids.collect::<Vec<_>>(), expected);
    }
}
