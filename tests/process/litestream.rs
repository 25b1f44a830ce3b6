//! Replication of an SQLite file by Litestream, beside the service.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use rusqlite::Connection;
use support::{CommandResult, object_store::python_tool, wait_for};

use crate::harness::Home;

/// A running `litestream replicate`. Killed on drop.
struct Replication(Child);

impl Drop for Replication {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn litestream(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(python_tool("litestream").to_str().unwrap());
    command.args(arguments);
    command
}

fn import(home: &Home, name: &str) {
    fs::write(home.path("new.csv"), format!("name,categoryId\n{name},1\n")).unwrap();
    let imported = home.petstore(&["import", "new.csv", "--database", &home.url()]);
    imported.success();
}

#[test]
#[ignore = "needs Litestream; make test installs it and runs this"]
fn a_replica_has_what_was_written_and_can_be_restored() {
    let home = Home::new();
    home.new_key();
    let config = format!(
        "dbs:\n- path: {}\n  replica:\n    type: file\n    path: {}\n    sync-interval: 50ms\n",
        home.database().display(),
        home.path("replica").display()
    );
    fs::write(home.path("litestream.yml"), config).unwrap();
    let service = home.serve();
    import(&home, "Rex");
    let mut replicate = litestream(&home, &["replicate", "-config", "litestream.yml"]);
    replicate.stdout(Stdio::null()).stderr(Stdio::null());
    let replication = Replication(replicate.spawn().unwrap());
    import(&home, "Bella");
    wait_for("the tables of Litestream", || {
        let db = Connection::open(home.database()).unwrap();
        let select = "SELECT count(*) FROM sqlite_schema WHERE name = '_litestream_seq'";
        let found: i64 = db.query_row(select, [], |row| row.get(0)).ok()?;
        (found == 1).then_some(())
    });
    // The service restarts beside it.
    service.stop();
    let service = home.serve();
    service.event("database has objects of another program");
    import(&home, "Max");
    let database = home.database().display().to_string();
    let restored = home.path("restored.db");
    wait_for("the replica to have all animals", || {
        let _ = fs::remove_file(&restored);
        let options = [
            "restore",
            "-config",
            "litestream.yml",
            "-o",
            "restored.db",
            &database,
        ];
        CommandResult::of(&mut litestream(&home, &options));
        let exported = home.petstore(&["export", "--database", "sqlite:restored.db"]);
        (exported.stdout.lines().count() == 3).then_some(())
    });
    drop(replication);
    service.stop();

    // As documented: its tables are dropped first.
    let restore = || home.petstore(&["restore", "restored.db", "--database", "sqlite:new.db"]);
    restore().assert_fails(1, "table \"_litestream_lock\", table \"_litestream_seq\"");
    let db = Connection::open(&restored).unwrap();
    db.execute_batch("DROP TABLE _litestream_lock; DROP TABLE _litestream_seq")
        .unwrap();
    db.close().unwrap();
    let complete = restore().success();
    assert!(
        complete.stderr.contains("contains 3 animals"),
        "{complete:?}"
    );
    home.petstore(&["check", "--database", "sqlite:new.db"])
        .success();
}
