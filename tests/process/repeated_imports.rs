//! A `petstore import` that is repeated: no animal is imported twice, whenever the first
//! command was killed, unless that is asked for.

use std::fs;

use rusqlite::Connection;
use support::{Cluster, CommandResult, rounds, wait_for};

use crate::{
    harness::Home,
    import_export::{exported, run},
};

/// More than the animals of a chunk.
const ANIMALS: usize = 501;

/// The calls of a command on files, connections and its output.
const CALLS: [&str; 11] = [
    "pwrite64",
    "fsync",
    "fdatasync",
    "ftruncate",
    "unlink",
    "sendto",
    "recvfrom",
    "epoll_wait",
    "write",
    "close",
    "exit_group",
];

/// Writes a file whose content is that of no other.
fn write_animals(home: &Home, file: &str) {
    let animals = (0..ANIMALS).map(|number| format!("{file} {number},1\n"));
    let table = String::from("name,categoryId\n") + &animals.collect::<String>();
    fs::write(home.path(file), table).unwrap();
}

/// Imports a file under strace with these options.
fn import_traced(home: &Home, file: &str, options: &[&str]) -> CommandResult {
    let mut import = home.traced(options);
    CommandResult::of(import.args(["import", file, "--database", &home.url()]))
}

/// The number of animals in the store.
fn count(home: &Home) -> usize {
    exported(home).lines().count()
}

/// Kills imports in the last quarter of their calls of each kind, and repeats them. `prepare`
/// makes the store ready for the next one, and returns how many animals it has.
fn kill_and_repeat(home: &Home, prepare: impl Fn() -> usize) {
    prepare();
    write_animals(home, "traced.csv");
    let trace = format!("trace={}", CALLS.join(","));
    import_traced(home, "traced.csv", &["-e", &trace]).success();
    let trace = wait_for("the trace", || {
        let trace = fs::read_to_string(home.path("trace")).unwrap();
        trace.contains("+++ exited").then_some(trace)
    });
    let mut killed = 0;
    for call in CALLS {
        let total = trace.matches(&format!(" {call}(")).count();
        let quarter = total.div_ceil(4);
        // Each kill stands for its neighbours, unless there is time for all of them.
        let step = quarter.div_ceil(rounds(6, usize::MAX)).max(1);
        for number in (total - quarter + 1..=total).rev().step_by(step) {
            let before = prepare();
            let file = format!("{call}-{number}.csv");
            write_animals(home, &file);
            let trace = format!("trace={call}");
            let kill = format!("inject={call}:signal=KILL:when={number}");
            let first = import_traced(home, &file, &["-e", &trace, "-e", &kill]);
            killed += usize::from(first.code.is_none());
            // The service or the server may still be writing for the first command.
            wait_for("the repeated import", || {
                (run(home, &["import", &file]).code == Some(0)).then_some(())
            });
            assert_eq!(count(home) - before, ANIMALS, "after {call} {number}");
        }
    }
    println!("{killed} commands were killed");
    assert!(killed >= 5, "{killed}");
}

#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn a_killed_import_is_repeated_on_sqlite() {
    let home = Home::new();
    // Each in a new store, so that each makes the same calls.
    kill_and_repeat(&home, || {
        for file in home.files() {
            if file.starts_with("petstore.db") {
                fs::remove_file(home.path(&file)).unwrap();
            }
        }
        0
    });
}

#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn a_killed_import_is_repeated_beside_a_service() {
    let home = Home::new();
    let _service = home.serve();
    kill_and_repeat(&home, || count(&home));
}

#[test]
#[ignore = "needs PostgreSQL and strace; make test installs them and runs this"]
fn a_killed_import_is_repeated_on_postgres() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    home.create_store();
    kill_and_repeat(&home, || count(&home));
}

/// A file that was imported is imported again only on request, under whatever name and
/// however the names of categories have changed. `sql` runs a statement on the database.
fn a_finished_import_is_remembered(home: &Home, sql: impl Fn(&str)) {
    fs::write(
        home.path("a.csv"),
        "name,categoryId,category\nRex,3,Dogs\nTom,x,\n",
    )
    .unwrap();
    fs::copy(home.path("a.csv"), home.path("b.csv")).unwrap();
    let import = |arguments: &[&str]| run(home, &[&["import"], arguments].concat());
    let imported = import(&["a.csv", "--skip-invalid"]).success();
    let summary = "Imported 1 animal and 1 category name, skipped 1 invalid line.";
    assert!(imported.stderr.contains(summary), "{imported:?}");
    sql("UPDATE categories SET name = 'Hounds', folded_name = 'hounds'");
    for arguments in [
        &["a.csv", "--skip-invalid"][..],
        &["b.csv", "--skip-invalid"],
        &["a.csv"],
    ] {
        let repeated = import(arguments).success();
        let name = arguments[0];
        let start =
            format!("Nothing was imported: the content of {name} was already imported at 20");
        let end = "Z (1 animal). To import it again, use --restart.\n";
        assert!(repeated.stderr.starts_with(&start), "{repeated:?}");
        assert!(repeated.stderr.contains(end), "{repeated:?}");
        assert_eq!(count(home), 1);
    }
    // A dry run still checks it.
    import(&["a.csv", "--dry-run"]).assert_fails(1, "2 lines are invalid");
    sql("DELETE FROM categories");
    import(&["a.csv", "--skip-invalid", "--restart"]).success();
    assert_eq!(count(home), 2);
    import(&["a.csv"]).success();
    assert_eq!(count(home), 2);
    // Another command has imported everything after this one has asked for its record.
    fs::write(home.path("c.csv"), "name,categoryId\nTom,4\n").unwrap();
    import(&["c.csv"]).success();
    sql("UPDATE imports SET finished_at = NULL
         WHERE finished_at = (SELECT max(finished_at) FROM imports)");
    let repeated = import(&["c.csv"]).success();
    let message = "Nothing was imported: another command has imported the content of c.csv \
                   (1 animal). To import it again, use --restart.\n";
    assert_eq!(repeated.stderr, message);
    assert_eq!(count(home), 3);
    // Sample animals are added every time.
    for _ in 0..2 {
        run(home, &["seed", "1"]).success();
    }
    assert_eq!(count(home), 5);
    run(home, &["check"]).success();
}

#[test]
fn a_finished_import_is_remembered_on_sqlite() {
    let home = Home::new();
    let sql = |sql: &str| {
        let db = Connection::open(home.database()).unwrap();
        db.execute_batch(sql).unwrap();
    };
    a_finished_import_is_remembered(&home, sql);

    // A backup has it as well, and a service goes by it.
    run(&home, &["backup", "backup.db"]).success();
    sql("DELETE FROM imports");
    run(&home, &["restore", "backup.db"]).success();
    let _service = home.serve();
    let repeated = run(&home, &["import", "a.csv"]).success();
    assert!(repeated.stderr.contains("already imported"), "{repeated:?}");
    assert_eq!(count(&home), 5);
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn a_finished_import_is_remembered_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    a_finished_import_is_remembered(&home, |sql| drop(cluster.psql(&database, sql)));

    // A copy of a store has it as well.
    let home = Home::new();
    fs::write(home.path("a.csv"), "name,categoryId\nRex,3\n").unwrap();
    run(&home, &["import", "a.csv"]).success();
    let there = Home::with_database(cluster.url(&cluster.create_database()));
    home.petstore(&["copy", "--from", &home.url(), "--to", &there.url()])
        .success();
    fs::copy(home.path("a.csv"), there.path("a.csv")).unwrap();
    let repeated = run(&there, &["import", "a.csv"]).success();
    assert!(repeated.stderr.contains("already imported"), "{repeated:?}");
    assert_eq!(count(&there), 1);
}
