//! Uses of `petstore import`, `export` and `seed`: other inputs, line numbers, dry runs,
//! continued imports, orders.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
};

use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::{Cluster, CommandResult, signal};

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
    import_export::{ANIMALS, exported, run},
};

/// Lines are counted as an editor does, whatever ends them.
#[test]
fn lines_are_numbered_as_in_an_editor() {
    let home = Home::new();
    for (line, table) in [
        (3, "name,categoryId,status\nA,1,sold\nB,2,bad\n"),
        (3, "name,categoryId,status\r\nA,1,sold\r\nB,2,bad\r\n"),
        (3, "name,categoryId,status\rA,1,sold\rB,2,bad\r"),
        (3, "name,categoryId,status\r\nA,1,sold\r\nB,2,bad"),
        (
            3,
            "\u{feff}name,categoryId,status\r\nA,1,sold\r\nB,2,bad\r\n",
        ),
        (
            4,
            "sep=;\r\nname;categoryId;status\r\nA;1;sold\r\nB;2;bad\r\n",
        ),
        (
            4,
            "\u{feff}sep=;\rname;categoryId;status\rA;1;sold\rB;2;bad\r",
        ),
        // Empty lines, of which the parser says nothing, and empty rows.
        (
            6,
            "\r\nname;categoryId;status\r\n\r\nA;1;sold\r\n;;\r\nB;2;bad\r\n",
        ),
        (6, "name,categoryId,status\n\n\nA,1,sold\n\nB,2,bad\n"),
        // A cell of several lines. Its record begins at line 3; the next is at line 6.
        (
            6,
            "name,categoryId,status,note\r\nA,1,sold,\r\nB,2,sold,\"a\r\nb\r\n\"\r\nC,3,bad,",
        ),
        (
            3,
            "name,categoryId,note,status\nA,1,,sold\nB,2,\"a\n\nb\",bad\n",
        ),
        (
            3,
            "name,categoryId,status\r\nA,1,sold\r\nB,2,\"bad\r\n\"\r\n",
        ),
    ] {
        fs::write(home.path("animals.csv"), table).unwrap();
        let rejected = run(&home, &["import", "animals.csv"]);
        rejected.assert_fails(1, "because 1 line is invalid; correct it, or leave it out");
        let expected = format!("animals.csv, line {line}: status: must be");
        assert!(
            rejected.stderr.contains(&expected),
            "{table:?} {rejected:?}"
        );
    }
}

#[test]
fn standard_input_is_imported() {
    let home = Home::new();
    let input = fs::write(home.path("animals"), ANIMALS);
    input.unwrap();
    let mut import = home.command(PETSTORE);
    import.args([
        "import",
        "-",
        "--format",
        "jsonl",
        "--database",
        &home.url(),
    ]);
    import.stdin(fs::File::open(home.path("animals")).unwrap());
    CommandResult::of(&mut import).success();
    assert_eq!(exported(&home), ANIMALS);
    for (line, reason) in [
        (
            "printf 'name,categoryId\\nA,x\\n' | \"$0\" import - --format csv",
            "standard input, line 2: categoryId",
        ),
        (
            "\"$0\" import - --format csv < .",
            "standard input is a folder; name a .csv, .xlsx or .jsonl file in it",
        ),
        (
            "TMPDIR=/no \"$0\" import - --format csv < animals",
            "a temporary file in /no: there is no such file or folder; to use another folder, set \
             TMPDIR",
        ),
    ] {
        let mut shell = home.command("sh");
        CommandResult::of(shell.args(["-c", line, PETSTORE])).assert_fails(1, reason);
    }
    assert_eq!(exported(&home), ANIMALS);
    assert_eq!(run(&home, &["export", "-"]).success().stdout, ANIMALS);
}

#[test]
fn a_dry_run_imports_nothing() {
    let home = Home::new();
    fs::write(home.path("animals.jsonl"), ANIMALS).unwrap();
    let checked = run(&home, &["import", "--dry-run", "animals.jsonl"]).success();
    let summary = "Checked animals.jsonl: 3 animals. Nothing was imported.";
    assert!(checked.stderr.contains(summary), "{checked:?}");
    // No store was created.
    assert_eq!(home.files(), ["animals.jsonl"]);
    fs::write(home.path("bad.jsonl"), format!("{ANIMALS}{{}}\n")).unwrap();
    run(&home, &["import", "--dry-run", "bad.jsonl"]).assert_fails(1, "1 line is invalid");
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn a_dry_run_or_an_invalid_file_creates_no_tables() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    fs::write(home.path("animals.jsonl"), ANIMALS).unwrap();
    fs::write(home.path("bad.jsonl"), "{}").unwrap();
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    run(&home, &["import", "--dry-run", "animals.jsonl"]).success();
    run(&home, &["import", "bad.jsonl"]).assert_fails(1, "1 line is invalid");
    assert_eq!(cluster.psql(&database, tables), "0");
    run(&home, &["import", "animals.jsonl"]).success();
    assert_eq!(exported(&home), ANIMALS);
}

/// An import that was interrupted continues in a file that is not served anymore, or starts
/// again if that is asked for.
#[test]
fn an_import_continues_or_restarts() {
    let home = Home::new();
    // Without ids: all of them are new.
    let animals = "{\"name\":\"Rex\",\"categoryId\":3}\n".repeat(3);
    fs::write(home.path("animals.jsonl"), &animals).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    let digest = Sha256::digest(&animals);
    let run_sql = |sql: &str| {
        let db = Connection::open(home.database()).unwrap();
        db.execute_batch(sql).unwrap();
    };
    let interrupt = || {
        let db = Connection::open(home.database()).unwrap();
        let replace =
            "INSERT OR REPLACE INTO imports VALUES (?1, 'run', 0, NULL, 2, 2, 0, 0, NULL, NULL, 0)";
        assert_eq!(db.execute(replace, [digest.as_slice()]).unwrap(), 1);
    };
    let count = || exported(&home).lines().count();
    interrupt();
    // What a service has imported is still there after a failure.
    run_sql("CREATE TRIGGER t BEFORE INSERT ON pets BEGIN SELECT RAISE(ABORT, 'failed'); END");
    let failed = run(&home, &["import", "animals.jsonl"]);
    failed.assert_fails(
        1,
        "; 2 of 3 animals were imported; run the same command again",
    );
    run_sql("DROP TRIGGER t");
    let continued = run(&home, &["import", "animals.jsonl"]).success();
    let message = "Continuing: an earlier command has imported 2 of 3 animals.";
    assert!(continued.stderr.contains(message), "{continued:?}");
    assert_eq!(count(), 3 + 1);
    interrupt();
    let restarted = run(&home, &["import", "animals.jsonl", "--restart"]).success();
    assert!(!restarted.stderr.contains("Continuing"), "{restarted:?}");
    assert_eq!(count(), 4 + 3);
}

/// Only a file is created as a whole.
#[test]
#[ignore = "needs strace; make test installs it and runs this"]
fn an_interrupted_export_to_standard_output_is_reported() {
    let home = Home::new();
    run(&home, &["seed", "5000"]).success();
    let mut export = home.command(PETSTORE);
    let mut export = export
        .args(["export", "--database", &home.url()])
        .spawn()
        .unwrap();
    // It is more than the pipe can hold, so it waits for its reader.
    let mut output = BufReader::new(export.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    signal(export.id(), "INT");
    let interrupted = CommandResult::from(export.wait_with_output().unwrap());
    interrupted.assert_fails(130, "interrupted; the output is not complete");
    let mut shell = home.command("sh");
    shell.args(["-c", "\"$0\" export --format csv | true", PETSTORE]);
    assert_eq!(CommandResult::of(&mut shell).success().stderr, "");

    // The test runner may ignore SIGHUP, as with nohup. The check is still reading when the
    // signal arrives, because every read takes a tenth of a second.
    let mut check = home.command("env");
    check.args([
        "--default-signal=HUP",
        "strace",
        "-D",
        "-f",
        "-o",
        "trace",
        "-e",
    ]);
    check.args(["inject=pread64:delay_enter=100000", PETSTORE, "check"]);
    let mut check = check.args(["--database", &home.url()]).spawn().unwrap();
    let mut output = BufReader::new(check.stderr.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    signal(check.id(), "HUP");
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    let sentence = "petstore: interrupted; the check is not complete\n";
    assert!(rest.contains(sentence), "{rest}");
    assert_eq!(check.wait().unwrap().code(), Some(129));
}

/// A reader that closes the pipe wants no more; a closed or full output is an error.
#[test]
fn an_export_that_nobody_reads_is_not_reported_as_complete() {
    let home = Home::new();
    // Without a microchip, so that it can be imported again.
    fs::write(home.path("b.csv"), "name,categoryId\nTom,2\n").unwrap();
    run(&home, &["import", "b.csv"]).success();
    let ended = |redirection: &str| {
        let mut shell = home.command("sh");
        let line = format!("\"$0\" export {redirection}");
        CommandResult::of(shell.args(["-c", &line, PETSTORE]))
    };
    assert_eq!(ended("| true").success().stderr, "");
    ended(">&-").assert_fails(1, "standard output is closed; open it, or name a file");
    ended(">/dev/full").assert_fails(1, "cannot write the animals: the disk is full");
    ended("no/where.csv").assert_fails(
        1,
        "cannot create no/where.csv: the folder no does not exist; create it, or specify",
    );
    ended("a.csv").success();
    // What only reads leaves nothing behind.
    run(&home, &["check"]).success();
    run(&home, &["import", "--dry-run", "a.csv"]).success();
    assert_eq!(home.files(), ["a.csv", "b.csv", "petstore.db"]);
    ended("a.csv").assert_fails(
        1,
        "a.csv already exists; name another file, or delete this one first",
    );
}

/// A quote that is not closed makes one cell of many lines, and it is unknown where the lines
/// after it begin.
#[test]
fn a_quote_that_is_not_closed_is_not_skipped() {
    let home = Home::new();
    let many = "Tom,2,\n".repeat(100_000);
    for (line, table) in [
        (3, "name,categoryId,note\nA,1,\nB,2,\"\nC,3,\nD,4,"),
        (3, "name,categoryId,note\r\nA,1,\r\n\"B,2,\r\nC,3,\r\n"),
        (2, "name;categoryId;note\nA;1;\"two\nlines \"\"\nB;2;\n"),
        (1, "name,categoryId,\"note\nA,1,\n"),
        // The next quote closes it.
        (2, "name,categoryId,note\n\"A,1,\n\"B\",2,\nC,3,\n"),
        (3, &format!("name,categoryId,note\nA,1,\nB,2,\"\n{many}")),
    ] {
        fs::write(home.path("animals.csv"), table).unwrap();
        let rejected = run(&home, &["import", "animals.csv", "--skip-invalid"]);
        let expected = format!("line {line}: the quote that is opened here is not closed");
        rejected.assert_fails(1, &expected);
    }
    // These are closed, or no quotes.
    let sound =
        "name,categoryId,note\nA,1,\"two\n\"\"lines\"\"\"\n\"B\" b,2,5\" tall\n\"\"\"C\",3,\"\"";
    fs::write(home.path("animals.csv"), sound).unwrap();
    run(&home, &["import", "animals.csv"]).success();
    assert_eq!(exported(&home).lines().count(), 3);
}

/// A file says what is wrong with it as a whole, and a line what is wrong with it.
#[test]
fn files_that_other_programs_wrote_are_explained() {
    let home = Home::new();
    let utf16: Vec<u8> = ANIMALS.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (name, content, reason) in [
        ("u.jsonl", &utf16[..], "the file is encoded in UTF-16"),
        (
            "odd.csv",
            b"n\0a\0m",
            "the file is not text, as it has NUL characters",
        ),
        (
            "u.csv",
            b"\0n\0a",
            "one of the first rows must name the columns: no name column, found \"na\" in line 1",
        ),
        (
            "nul.csv",
            b"name\0,category\n",
            "the file is not text, as it has NUL characters",
        ),
        (
            "latin.jsonl",
            b"\n{\"name\":\"B\xe4r\"}\n",
            "latin.jsonl, line 2: is not UTF-8",
        ),
        (
            "cut.jsonl",
            b"\n\n  {\"name\":\"Rex\"\n",
            "cut.jsonl, line 3: the JSON object is not complete; put all of it on one line\n",
        ),
        (
            "bad.jsonl",
            b"{'name':\"Rex\"}\n",
            "bad.jsonl, line 1: is not JSON, see column 2; each line must be an object such as {",
        ),
        (
            "comma.jsonl",
            b"{\"name\":\"Rex\"},\n",
            "comma.jsonl, line 1: there is more after the JSON object, at column 15; remove it\n",
        ),
        (
            "array.jsonl",
            b"\xef\xbb\xbf\n[{\"name\":\"Rex\"},\n",
            "the file is a JSON array; JSON Lines has an object on each line",
        ),
        (
            "table.jsonl",
            b"\"id\";\"Name\"\r\n",
            "but CSV; add --format csv",
        ),
        (
            "lines.csv",
            b"{\"name\":\"Rex\"}\n",
            "but JSON; add --format jsonl",
        ),
        (
            "zip.csv",
            b"PK\x03\x04\x14",
            "cannot import zip.csv: the file is an archive (ZIP); name a file with a table",
        ),
        (
            "zip.jsonl",
            b"PK\x03\x04\x14",
            "the file is an archive (ZIP); name a file with a table",
        ),
        (
            "gz.csv",
            b"\x1f\x8b\x08",
            "the file is compressed; unpack it first",
        ),
        (
            "no.jsonl",
            b"\n \n",
            "cannot import no.jsonl: the file is empty; each of its lines",
        ),
        (
            "empty.csv",
            b"",
            "cannot import empty.csv: the file is empty; its first line",
        ),
    ] {
        fs::write(home.path(name), content).unwrap();
        run(&home, &["import", "--dry-run", name]).assert_fails(1, reason);
    }
    // A terminal obeys nothing in the name of a file.
    let name = "\u{1b}[2J\n\u{202e}.csv";
    run(&home, &["import", name]).assert_fails(1, r"cannot read \u{1b}[2J\n\u{202e}.csv: there is");
    fs::create_dir(home.path("dir.csv")).unwrap();
    let folder = run(&home, &["import", "dir.csv"]);
    folder.assert_fails(
        1,
        "dir.csv is a folder; name a .csv, .xlsx or .jsonl file in it",
    );
    // There is nothing to import, and no store is created for it.
    fs::write(home.path("no.csv"), "name,categoryId\n,,\n").unwrap();
    let nothing = run(&home, &["import", "no.csv"]).success();
    assert_eq!(
        nothing.stderr,
        "Nothing was imported: no.csv has no animals.\n"
    );
    assert!(!home.database().exists());
}

/// The sample animals have categories with names, unless a shop has its own.
async fn samples_have_categories(home: &Home) {
    run(home, &["seed", "20"]).success();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let names = async |client: &Client| {
        let categories = client.get("/v1/categories").await.json();
        let categories = categories.as_array().unwrap().clone();
        let name = |category: Value| category["name"].as_str().unwrap().to_string();
        categories.into_iter().map(name).collect::<Vec<_>>()
    };
    let samples = ["Dogs", "Cats", "Rabbits", "Birds", "Tortoises"];
    assert_eq!(names(&client).await, samples);
    // One category remains: a store that has one of the sample categories gets no others.
    for id in 1..5 {
        let path = format!("/v1/categories/{id}");
        let deleted = client.send_json(Method::DELETE, &path, &Value::Null, None);
        assert_eq!(deleted.await.unwrap().status, 204);
    }
    run(home, &["seed", "1"]).success();
    assert_eq!(names(&client).await, ["Tortoises"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_have_categories_on_sqlite() {
    samples_have_categories(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn samples_have_categories_on_postgres() {
    let cluster = Cluster::start();
    samples_have_categories(&Home::with_database(
        cluster.url(&cluster.create_database()),
    ))
    .await;
}

async fn orders_are_exported(home: &Home) {
    let key = home.new_key();
    let mut serve = home.serve_command();
    let service = Service::start(serve.args(["--reserve-for", "1h"]));
    let client = Client::new(&service, &key);
    let mut orders = String::new();
    for (name, transition) in [("=1+1", None), ("Rex", Some("complete"))] {
        let pet = json!({"name": name, "categoryId": 1, "status": "available"});
        let pet = client.send_json(Method::POST, "/v1/pets", &pet, None);
        let body = json!({"petId": pet.await.unwrap().json()["id"]});
        let order = client.send_json(Method::POST, "/v1/store/orders", &body, None);
        let order = order.await.unwrap();
        assert_eq!(order.status, 201, "{order:?}");
        let mut order = order.json();
        if let Some(transition) = transition {
            let path = format!("/v1/store/orders/{}/{transition}", order["id"]);
            let body = json!({});
            let changed = client.send_json(Method::POST, &path, &body, None);
            order = changed.await.unwrap().json();
            assert!(order["completedAt"].is_string(), "{order}");
        }
        let get = |name: &str| {
            order[name].as_str().map_or_else(
                || order.get(name).map_or(String::new(), Value::to_string),
                String::from,
            )
        };
        let columns = [
            "id",
            "petId",
            "status",
            "createdAt",
            "updatedAt",
            "expiresAt",
            "completedAt",
        ];
        orders += &format!("{}\n", columns.map(get).join(","));
    }
    let exported = run(home, &["export", "--orders", "orders.csv"]).success();
    assert!(
        exported.stderr.contains("Exported 2 orders"),
        "{exported:?}"
    );
    let csv = fs::read_to_string(home.path("orders.csv")).unwrap();
    let header = "id,petId,status,createdAt,updatedAt,expiresAt,completedAt\n";
    assert_eq!(csv, format!("{header}{orders}"));
    let jsonl = run(home, &["export", "--orders"]).success().stdout;
    let listed = client.get("/v1/store/orders").await.json();
    let lines = jsonl
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    assert_eq!(Value::Array(lines.collect()), listed);
    run(home, &["export", "--orders", "--category-names"]).assert_fails(2, "cannot be used with");
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_are_exported_from_sqlite() {
    orders_are_exported(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn orders_are_exported_from_postgres() {
    let cluster = Cluster::start();
    orders_are_exported(&Home::with_database(
        cluster.url(&cluster.create_database()),
    ))
    .await;
}
