//! `petstore import` and `petstore seed` beside a running service.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    mem::take,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::UnixStream,
    },
    process::{Child, ChildStderr, Command},
};

use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Cluster, CommandResult, Response, eventually, signal, wait_for};

use crate::{
    client::{Client, LoadGenerator},
    event_log::{UNLOGGED, assert_logged},
    harness::{Home, PETSTORE},
};

/// More than the animals of a chunk.
const FEW: usize = 1_200;
/// Enough for an import to be interrupted three times in the middle.
const MANY: usize = 40_000;
/// Enough for an import to be interrupted once.
const SOME: usize = 10_000;

const CHUNK: i64 = 500;

fn run(home: &Home, arguments: &[&str]) -> CommandResult {
    CommandResult::of(&mut command(home, arguments))
}

fn command(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(PETSTORE);
    command.args(arguments).args(["--database", &home.url()]);
    command
}

/// Writes a file of animals with different names.
fn write_animals(home: &Home, file: &str, count: usize) {
    let mut table = String::from("name,categoryId,status\n");
    for number in 0..count {
        table += &format!("{file} {number},1,available\n");
    }
    fs::write(home.path(file), table).unwrap();
}

/// Asserts that the store has every animal of a file once.
fn assert_imported_once(home: &Home, file: &str, count: usize) {
    let mut names = BTreeMap::new();
    for line in run(home, &["export"]).success().stdout.lines() {
        let pet: Value = serde_json::from_str(line).unwrap();
        *names
            .entry(pet["name"].as_str().unwrap().to_string())
            .or_insert(0) += 1;
    }
    for number in 0..count {
        let name = format!("{file} {number}");
        assert_eq!(names.remove(&name), Some(1), "{name}");
    }
    let others = names.keys().filter(|name| name.starts_with(file)).count();
    assert_eq!(others, 0);
}

async fn total(client: &Client) -> i64 {
    let inventory = client.get("/v1/store/inventory").await;
    inventory.json()["total"].as_i64().unwrap()
}

/// The highest id in the list.
async fn newest_id(client: &Client) -> i64 {
    let newest = client.get("/v1/pets?sort=desc&limit=1").await.json();
    newest[0]["id"].as_i64().unwrap_or(0)
}

/// A command in the background. Killed on drop.
struct BackgroundCommand {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// The output read so far.
    read: String,
}

impl BackgroundCommand {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            stderr,
            read: String::new(),
        }
    }

    /// Starts an import, and waits until it has written something.
    async fn start_import(home: &Home, client: &Client) -> Self {
        let mut import = Self::start(command(home, &["import", "many.csv"]));
        while !import.read.contains("Importing") {
            let length = import.stderr.read_line(&mut import.read).unwrap();
            assert_ne!(length, 0, "it ended: {}", import.read);
        }
        let before = total(client).await;
        eventually("the import to begin", async || total(client).await > before).await;
        import
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    async fn finished(mut self) -> CommandResult {
        let waiting = tokio::task::spawn_blocking(move || {
            self.stderr.read_to_string(&mut self.read).unwrap();
            CommandResult {
                code: self.child.wait().unwrap().code(),
                stdout: String::new(),
                stderr: take(&mut self.read),
            }
        });
        waiting.await.unwrap()
    }
}

impl Drop for BackgroundCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of animals in the file, which may be served at the same time.
fn stored(home: &Home) -> i64 {
    let db = Connection::open(home.database()).unwrap();
    let count = "SELECT count(*) FROM pets";
    db.query_row(count, [], |row| row.get(0)).unwrap()
}

/// Clients read consistent data after every chunk, and can write during the import.
async fn clients_see_every_chunk(home: &Home) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(home, "first", FEW);
    assert_eq!((total(&client).await, newest_id(&client).await), (0, 0));
    let import = BackgroundCommand::start(command(home, &["import", "first", "--format=csv"]));
    let import = tokio::spawn(import.finished());
    let mut seen = 0;
    while !import.is_finished() {
        let before = total(&client).await;
        let newest = newest_id(&client).await;
        let after = total(&client).await;
        assert!(seen <= before && before <= newest && newest <= after);
        assert!(after % CHUNK == 0 || after == FEW as i64, "{after}");
        seen = after;
    }
    let imported = import.await.unwrap().success();
    assert!(
        imported.stderr.contains("Imported 1200 animals."),
        "{imported:?}"
    );
    let all = FEW as i64;
    assert_eq!((total(&client).await, newest_id(&client).await), (all, all));
    let events = client.get("/v1/events?limit=100").await.json();
    let subject = |event: &Value| event["subject"].as_str().unwrap().to_string();
    let subjects: Vec<_> = events.as_array().unwrap().iter().map(subject).collect();
    let expected: Vec<_> = (1..=100).map(|id| format!("pets/{id}")).collect();
    assert_eq!(subjects, expected);

    // With clients that write.
    write_animals(home, "second", FEW);
    let load = LoadGenerator::start(&client, 4, "client");
    load.until(|results| results.acknowledged.len() >= 4).await;
    run(home, &["import", "second", "--format=csv"]).success();
    let made = run(home, &["seed", "100"]).success();
    assert!(made.stderr.contains("Added 100 animals to "), "{made:?}");
    let results = load.finish().await;
    assert!(results.rejected.is_empty() && results.unknown.is_empty());
    let created = results.acknowledged.len() as i64;
    assert_eq!(total(&client).await, 2 * all + 100 + created);
    assert_imported_once(home, "first", FEW);
    assert_imported_once(home, "second", FEW);
    // An invalid file changes nothing.
    fs::write(home.path("bad.csv"), "name,categoryId\nRex,1\nTom,x\n").unwrap();
    run(home, &["import", "bad.csv"]).assert_fails(1, "nothing was imported, because 1 line");
    assert_eq!(total(&client).await, 2 * all + 100 + created);
    run(home, &["check"]).success();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_see_every_chunk_on_sqlite() {
    let home = Home::new();
    clients_see_every_chunk(&home).await;
    assert_logged(&home);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn clients_see_every_chunk_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    clients_see_every_chunk(&Home::with_database(cluster.url(&database))).await;
    assert_eq!(cluster.psql(&database, &UNLOGGED), "0");
}

/// An import that was interrupted, however that happened, continues where it stopped.
async fn interrupted_imports_continue(home: &Home, cluster: Option<&Cluster>) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(home, "many.csv", MANY);

    let killed = BackgroundCommand::start_import(home, &client).await;
    killed.signal("KILL");
    let killed = killed.finished().await;
    assert_eq!(killed.code, None, "it was not killed: {killed:?}");

    let interrupted = BackgroundCommand::start_import(home, &client).await;
    interrupted.signal("INT");
    let interrupted = interrupted.finished().await;
    let reached = total(&client).await;
    let message = format!(
        "petstore: interrupted; {reached} of {MANY} animals were imported; run the same command \
         again to import the rest\n"
    );
    interrupted.assert_fails(130, &message);
    assert!(
        interrupted.stderr.contains("Continuing: "),
        "{interrupted:?}"
    );

    // The service ends, or the database server.
    let lost = BackgroundCommand::start_import(home, &client).await;
    let service = match cluster {
        None => {
            service.kill();
            let lost = lost.finished().await;
            lost.assert_fails(1, "the service ended without a reply");
            let imported = format!("; {} of {MANY} animals were imported; run", stored(home));
            lost.assert_fails(1, &imported);
            home.serve()
        }
        Some(cluster) => {
            cluster.crash();
            let lost = lost.finished().await;
            // During a chunk, or between two.
            let message = if lost.stderr.contains(", and perhaps") {
                " animals were imported, and perhaps 500 more; run"
            } else {
                " animals were imported; run"
            };
            lost.assert_fails(1, message);
            cluster.restart();
            service
        }
    };
    let client = Client::new(&service, &key);
    eventually("the service to be ready", async || {
        client.get("/v1/store/inventory").await.status == 200
    })
    .await;
    // A connection that the crash has broken may only be noticed by the next write.
    let imported = wait_for("the import to finish", || {
        let imported = run(home, &["import", "many.csv"]);
        if imported.code != Some(0) {
            imported.assert_fails(1, "run the same command again to import the rest");
            return None;
        }
        Some(imported)
    });
    assert!(
        imported.stderr.contains("Imported 40000 animals."),
        "{imported:?}"
    );
    assert_eq!(total(&client).await, MANY as i64);
    assert_imported_once(home, "many.csv", MANY);
    run(home, &["check"]).success();

    // What a seed has added is reported, because it cannot be continued.
    let before = total(&client).await;
    let seed = BackgroundCommand::start(command(home, &["seed", "1000000"]));
    eventually("the seed to begin", async || total(&client).await > before).await;
    seed.signal("TERM");
    let seed = seed.finished().await;
    let added = total(&client).await - before;
    let rest = 1_000_000 - added;
    let message = format!(
        "interrupted; {added} of 1000000 animals were added; add the rest with: petstore seed {rest} --database "
    );
    seed.assert_fails(143, &message);
    if cluster.is_some() {
        return;
    }

    // A service that is stopped finishes what it has begun to write.
    let before = before + added;
    let seed = BackgroundCommand::start(command(home, &["seed", "1000000"]));
    eventually("the seed to begin", async || total(&client).await > before).await;
    service.stop();
    let seed = seed.finished().await;
    let added = stored(home) - before;
    let message = format!("the service was stopped; {added} of 1000000 animals were added; add");
    seed.assert_fails(1, &message);
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_imports_continue_on_sqlite() {
    let home = Home::new();
    interrupted_imports_continue(&home, None).await;
    assert_logged(&home);
}

#[tokio::test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn interrupted_imports_continue_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    interrupted_imports_continue(&home, Some(&cluster)).await;
    assert_eq!(cluster.psql(&database, &UNLOGGED), "0");
}

async fn post(client: &Client, path: &str, body: &Value) -> Response {
    let sent = client.send_json(Method::POST, path, body, None).await;
    sent.unwrap()
}

/// Undoes a batch over the API, to its end.
async fn undo_over_the_api(client: &Client, batch: &str) {
    let path = format!("/v1/pets/batch/{batch}/undo");
    let mut body = json!({});
    loop {
        let undone = post(client, &path, &body).await;
        assert_eq!(undone.status, 200, "{}", undone.text());
        match undone.json().get("next") {
            Some(next) => body = json!({"cursor": next}),
            None => return,
        }
    }
}

/// The batch of the newest event.
async fn newest_batch(client: &Client) -> String {
    let newest = client.get("/v1/events?sort=desc&limit=1").await.json();
    newest[0]["batchid"].as_str().unwrap().into()
}

/// The import of a file, as the API has it.
async fn import_of(home: &Home, client: &Client, file: &str) -> Value {
    let hash = Sha256::digest(fs::read(home.path(file)).unwrap());
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    client.get(&format!("/v1/imports?file={hash}")).await.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_fails_says_how_far_it_is() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(&home, "many.csv", MANY);
    run(&home, &["import", "many.csv"]).success();
    let batch = newest_batch(&client).await;
    let undo = BackgroundCommand::start(command(&home, &["import", "--undo", &batch]));
    let all = MANY as i64;
    eventually("the undo to begin", async || total(&client).await < all).await;
    service.kill();
    let undo = undo.finished().await;
    undo.assert_fails(1, "the service ended without a reply; ");
    undo.assert_fails(
        1,
        " undone so far; run the same command again to undo the rest",
    );
    assert_ne!(stored(&home), 0);
    run(&home, &["import", "--undo", &batch]).success();
    assert_eq!(stored(&home), 0);
}

/// An import that was interrupted and undone over the API starts from the first animal again.
async fn an_undone_import_starts_anew(home: &Home) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(home, "many.csv", SOME);
    let interrupted = BackgroundCommand::start_import(home, &client).await;
    interrupted.signal("TERM");
    interrupted
        .finished()
        .await
        .assert_fails(143, "to import the rest");
    let batch = newest_batch(&client).await;
    let import = import_of(home, &client, "many.csv").await;
    assert_eq!(
        (&import[0]["state"], &import[0]["batchId"]),
        (&json!("started"), &json!(batch))
    );
    assert_eq!(import[0]["added"], total(&client).await);

    // A part of it was undone: neither the rest nor everything may be imported now.
    let path = format!("/v1/pets/batch/{batch}/undo");
    let part = post(&client, &path, &json!({})).await;
    if part.json().get("next").is_some() {
        let refused = run(home, &["import", "many.csv"]);
        refused.assert_fails(
            1,
            "was undone in part; undo the rest first: petstore import --undo",
        );
    }
    undo_over_the_api(&client, &batch).await;
    assert_eq!(total(&client).await, 0);
    let imported = run(home, &["import", "many.csv"]).success();
    assert!(!imported.stderr.contains("Continuing"), "{imported:?}");
    assert!(
        imported.stderr.contains("Imported 10000 animals."),
        "{imported:?}"
    );
    assert_imported_once(home, "many.csv", SOME);

    // The same for one that was complete.
    undo_over_the_api(&client, &newest_batch(&client).await).await;
    assert_eq!(total(&client).await, 0);
    let import = import_of(home, &client, "many.csv").await;
    assert_eq!(import[0]["state"], "undone");
    let imported = run(home, &["import", "many.csv"]).success();
    assert!(
        imported.stderr.contains("Imported 10000 animals."),
        "{imported:?}"
    );
    assert_imported_once(home, "many.csv", SOME);
    run(home, &["check"]).success();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undone_import_starts_anew_on_sqlite() {
    an_undone_import_starts_anew(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn an_undone_import_starts_anew_on_postgres() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    an_undone_import_starts_anew(&home).await;
}

/// An import that is undone while it runs is stopped, and nothing of it is left.
async fn a_running_import_is_undone(home: &Home) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(home, "many.csv", SOME);
    let import = BackgroundCommand::start_import(home, &client).await;
    let batch = newest_batch(&client).await;
    let undone = run(home, &["import", "--undo", &batch]).success();
    assert!(undone.stderr.contains("; kept: 0 animals."), "{undone:?}");
    let stopped = import.finished().await;
    stopped.assert_fails(
        1,
        "the import was undone while it was running, so it has stopped",
    );
    assert_eq!(total(&client).await, 0);
    let imported = run(home, &["import", "many.csv"]).success();
    assert!(
        imported.stderr.contains("Imported 10000 animals."),
        "{imported:?}"
    );
    assert_imported_once(home, "many.csv", SOME);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_import_is_undone_on_sqlite() {
    a_running_import_is_undone(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_running_import_is_undone_on_postgres() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    a_running_import_is_undone(&home).await;
}

/// A file that was imported over the API, as the console does it, is known to the command, and the
/// other way round.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_recognised_however_it_was_imported() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    write_animals(&home, "few.csv", 2);
    run(&home, &["import", "few.csv"]).success();
    let import = import_of(&home, &client, "few.csv").await;
    assert_eq!(
        (&import[0]["state"], &import[0]["added"], &import[0]["done"]),
        (&json!("finished"), &json!(2), &json!(2))
    );
    let file = import[0]["file"].clone();
    run(&home, &["import", "--undo", &newest_batch(&client).await]).success();
    let send = async |row: i64| {
        let import = json!({"file": file, "row": row, "rows": 2});
        let create = json!({"create": {"name": format!("few.csv {row}"), "categoryId": 1}});
        let body = json!({"batchId": "console", "import": import, "changes": [create]});
        let sent = post(&client, "/v1/pets/batch", &body).await;
        assert_eq!(sent.status, 200, "{}", sent.text());
    };
    send(0).await;
    let refused = run(&home, &["import", "few.csv"]);
    let reason = "is being imported over the API, or such an import was interrupted after 1 new \
                  animal and 0 changes; continue it there";
    refused.assert_fails(1, reason);
    send(1).await;
    let repeated = run(&home, &["import", "few.csv"]).success();
    assert!(
        repeated.stderr.contains("was already imported at"),
        "{repeated:?}"
    );
    assert!(repeated.stderr.contains("--undo console"), "{repeated:?}");
    assert_imported_once(&home, "few.csv", 2);
    run(&home, &["import", "few.csv", "--restart"]).success();
    assert_eq!(total(&client).await, 4);
}

/// The socket is for the owner, replaces that of a killed service, and is gone after a
/// shutdown. A long path makes no difference.
#[test]
fn the_socket_belongs_to_the_service() {
    for home in [Home::new(), Home::with_prefix(&"long".repeat(40))] {
        let service = home.serve();
        let socket = home.path("petstore.db-socket");
        wait_for("the socket", || fs::symlink_metadata(&socket).ok());
        run(&home, &["seed", "1"]).success();
        let mode = fs::symlink_metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        service.kill();
        assert!(fs::symlink_metadata(&socket).is_ok());
        // The socket has no listener, and no service has the file open.
        run(&home, &["seed", "1"]).success();
        let service = home.serve();
        run(&home, &["seed", "1"]).success();
        service.stop();
        assert!(fs::symlink_metadata(&socket).is_err());
        assert_eq!(run(&home, &["export"]).success().stdout.lines().count(), 3);
    }
}

/// A process that is no service holds the lock.
#[test]
fn a_locked_file_is_reported() {
    let home = Home::new();
    run(&home, &["seed", "1"]).success();
    let file = fs::File::open(home.database()).unwrap();
    file.lock().unwrap();
    run(&home, &["seed", "1"]).assert_fails(1, "accepts no imports");
}

/// The message names the command to wait for.
#[test]
fn a_service_does_not_start_during_an_offline_import() {
    let home = Home::new();
    home.create_store();
    write_animals(&home, "many.csv", 10 * MANY);
    let mut import = command(&home, &["import", "many.csv"]).spawn().unwrap();
    // Not by trying to lock it, which the import might meet.
    let inode = fs::metadata(home.database()).unwrap().ino();
    wait_for("the import to lock the file", || {
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let is_lock = |line: &str| line.contains("FLOCK") && line.contains(&format!(":{inode} "));
        locks.lines().any(is_lock).then_some(())
    });
    signal(import.id(), "STOP");
    let pid = import.id();
    let reason = format!(
        "petstore.db is in use by another petstore process (`petstore import`, process {pid}); \
         wait until that has finished, or specify another file"
    );
    for arguments in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["restore", "many.csv"],
    ] {
        run(&home, arguments).assert_fails(1, &reason);
    }
    import.kill().unwrap();
    import.wait().unwrap();
    let service = home.serve();
    let reason = format!("(`petstore serve`, process {}); stop that", service.pid());
    run(&home, &["serve", "--listen", "127.0.0.1:0"]).assert_fails(1, &reason);
    service.stop();
}

/// Imports that do not end are no reason for others to wait forever.
#[test]
fn more_imports_than_the_service_accepts_are_told_so() {
    let home = Home::new();
    let _service = home.serve();
    let socket = home.path("petstore.db-socket");
    let first = wait_for("the socket", || UnixStream::connect(&socket).ok());
    let connect = |_| UnixStream::connect(&socket).unwrap();
    let others: Vec<_> = (1..8).map(connect).collect();
    let busy = run(&home, &["seed", "1"]);
    busy.assert_fails(1, "the service is busy with 8 other imports; try again");
    assert!(busy.stderr.contains("nothing was added"), "{busy:?}");
    drop(first);
    wait_for("room for an import", || {
        (run(&home, &["seed", "1"]).code == Some(0)).then_some(())
    });
    drop(others);
}

/// A command does not wait in silence, nor forever.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_does_not_reply_is_reported() {
    let home = Home::new();
    let service = home.serve();
    run(&home, &["seed", "1"]).success();
    service.signal("STOP");
    let mut seed = BackgroundCommand::start(command(&home, &["seed", "2"]));
    seed.stderr.read_line(&mut seed.read).unwrap();
    let waiting = "Waiting for the service, which has not replied for 3 seconds. Press Ctrl-C";
    assert!(seed.read.starts_with(waiting), "{}", seed.read);
    seed.signal("INT");
    let seed = seed.finished().await;
    seed.assert_fails(
        130,
        "interrupted; 0 of 2 animals were added, and perhaps 2 more; ",
    );
    service.signal("CONT");
    service.stop();
}

/// The service validates every chunk, whichever program sends it.
#[tokio::test]
async fn invalid_chunks_are_refused() {
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let socket = home.path("petstore.db-socket");
    wait_for("the socket", || UnixStream::connect(&socket).ok());
    let send = |request: &str| {
        let mut socket = UnixStream::connect(&socket).unwrap();
        // The service may have closed the connection.
        let _ = socket.write_all(request.as_bytes());
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut replies = String::new();
        let _ = socket.read_to_string(&mut replies);
        replies
    };
    let request = |from: i64, to: i64, pets: Value, categories: Value, is_last: bool| {
        let run = json!({"batchId": "run", "lastKnownId": 0});
        let chunk = json!({"id": vec![7; 32], "run": run, "from": from, "to": to, "pets": pets,
                           "updates": [], "categories": categories, "isLast": is_last});
        format!("{}\n", json!({ "import": chunk }))
    };
    let chunk = |from, to, pets, categories| request(from, to, pets, categories, false);
    let pet = json!({"name": "Rex", "categoryId": 1});
    for (request, reason) in [
        ("\n".to_string(), "refused"),
        ("GET / HTTP/1.1\r\n\r\n".into(), "refused"),
        ("{\"delete\":1}\n".into(), "unknown variant"),
        (
            chunk(0, 1, json!([{"name": "", "categoryId": 1}]), json!([])),
            "1 to 255 characters",
        ),
        (
            chunk(0, 1, json!([{"name": "Rex"}]), json!([])),
            "categoryId: required",
        ),
        (
            chunk(0, 1, json!(["Rex"]), json!([])),
            "must be a JSON object",
        ),
        (
            chunk(
                0,
                1,
                json!([]),
                json!([{"id": 1, "name": "", "isNew": true}]),
            ),
            "1 to 100 characters",
        ),
        (
            chunk(1, 1, json!([pet]), json!([])),
            "a wrong number of records",
        ),
        (
            chunk(-1, 1, json!([pet]), json!([])),
            "a wrong number of records",
        ),
        (
            chunk(0, 501, json!(vec![pet.clone(); 501]), json!([])),
            "too many pets",
        ),
        ("{\"import\":{\"id\":[7],\"from\":0}}\n".into(), "refused"),
        ("x".repeat(4 << 20), "refused"),
    ] {
        let reply = send(&request);
        assert!(reply.contains(reason), "{reason}: {reply}");
        assert!(reply.starts_with("{\"refused\":"), "{reply}");
    }
    // Not where the import is.
    let pets = json!([pet]);
    let outdated = "{\"stopped\":\"replaced\"}\n";
    let imported = |last_event: i64| {
        let written = json!({"lastEvent": last_event, "rejected": []});
        format!("{}\n", json!({ "imported": written }))
    };
    assert_eq!(send(&chunk(1, 2, pets.clone(), json!([]))), outdated);
    assert_eq!((total(&client).await, newest_id(&client).await), (0, 0));
    let first = chunk(0, 1, pets.clone(), json!([]));
    // The number of the event before it: the key was created.
    assert_eq!(send(&first), imported(1));
    assert_eq!(send(&first), outdated);
    let last = request(1, 2, pets.clone(), json!([]), true);
    assert_eq!(send(&last), imported(2));
    assert_eq!(send(&last), outdated);
    // It is finished.
    assert_eq!(send(&chunk(2, 3, pets, json!([]))), outdated);
    assert_eq!((total(&client).await, newest_id(&client).await), (2, 2));
}
