//! How `petstore import`, `export` and `seed` can be used: other inputs, line numbers, dry
//! runs, continued imports, orders.

use std::{
    fs,
    io::{self, BufRead, BufReader},
};

use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    client::Client,
    harness::{Finished, Home, PETSTORE, Service, signal},
    import_export::{ANIMALS, exported, run},
    postgres::Cluster,
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
    Finished::of(&mut import).success();
    assert_eq!(exported(&home), ANIMALS);
    // From a pipe, and with an error.
    let mut pipe = home.command("sh");
    pipe.args([
        "-c",
        "printf 'name,categoryId\\nA,x\\n' | \"$0\" import - --format csv",
        PETSTORE,
    ]);
    let rejected = Finished::of(&mut pipe);
    rejected.assert_fails(1, "standard input, line 2: categoryId");
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
    fs::write(home.path("animals.jsonl"), ANIMALS).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    let digest = Sha256::new()
        .chain_update([1, 0])
        .chain_update(ANIMALS)
        .finalize();
    let run_sql = |sql: &str| {
        let db = Connection::open(home.database()).unwrap();
        db.execute_batch(sql).unwrap();
    };
    let interrupt_at = |records| {
        let db = Connection::open(home.database()).unwrap();
        let insert = "INSERT INTO imports VALUES (?1, ?2, 0)";
        db.execute(insert, (digest.as_slice(), records)).unwrap();
    };
    let interrupt = || interrupt_at(2);
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
    let message = "Continuing: 2 of 3 animals were imported before the interruption";
    assert!(continued.stderr.contains(message), "{continued:?}");
    assert_eq!(count(), 3 + 1);
    interrupt();
    let restarted = run(&home, &["import", "animals.jsonl", "--restart"]).success();
    assert!(!restarted.stderr.contains("Continuing"), "{restarted:?}");
    assert_eq!(count(), 4 + 3);
    // Nothing is left to continue.
    run(&home, &["import", "animals.jsonl"]).success();
    assert_eq!(count(), 7 + 3);
    // It was interrupted after its last animal.
    interrupt_at(3);
    let done = run(&home, &["import", "animals.jsonl"]).success();
    let message = "was already imported (3 animals). To import it again, use --restart.";
    assert!(done.stderr.contains(message), "{done:?}");
    assert!(!done.stderr.contains("Imported "), "{done:?}");
    assert_eq!(count(), 10);
    run(&home, &["import", "animals.jsonl", "--restart"]).success();
    assert_eq!(count(), 10 + 3);
}

/// Only a file is created as a whole.
#[test]
fn an_interrupted_export_to_standard_output_is_reported() {
    let home = Home::new();
    run(&home, &["seed", "5000"]).success();
    let mut export = home.command(PETSTORE);
    let mut export = export
        .args(["export", "--database", &home.url()])
        .spawn()
        .unwrap();
    // It is more than the pipe can hold.
    let mut output = BufReader::new(export.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    signal(export.id(), "INT");
    io::copy(&mut output, &mut io::sink()).unwrap();
    let interrupted = Finished::from(export.wait_with_output().unwrap());
    interrupted.assert_fails(1, "interrupted; the output is not complete");
}

/// The sample animals have categories with names, unless a shop has its own.
async fn samples_have_categories(home: &Home) {
    run(home, &["seed", "20"]).success();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let names = async |client: &Client| {
        let categories = client.get("/v1/categories").await.body;
        let categories = categories.as_array().unwrap().clone();
        let name = |category: Value| category["name"].as_str().unwrap().to_string();
        categories.into_iter().map(name).collect::<Vec<_>>()
    };
    let samples = ["Dogs", "Cats", "Rabbits", "Birds", "Turtles"];
    assert_eq!(names(&client).await, samples);
    // All but one are deleted: somebody uses it.
    for id in 1..5 {
        let path = format!("/v1/categories/{id}");
        let deleted = client.send_json(Method::DELETE, &path, &Value::Null, None);
        assert_eq!(deleted.await.unwrap().status, 204);
    }
    run(home, &["seed", "1"]).success();
    assert_eq!(names(&client).await, ["Turtles"]);
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
    for name in ["=1+1", "Rex"] {
        let pet = json!({"name": name, "categoryId": 1, "status": "available"});
        let pet = client.send_json(Method::POST, "/v1/pets", &pet, None);
        let body = json!({"petId": pet.await.unwrap().body["id"]});
        let order = client.send_json(Method::POST, "/v1/store/orders", &body, None);
        let order = order.await.unwrap();
        assert_eq!(order.status, 201, "{order:?}");
        let get = |name: &str| order.body[name].to_string().replace('"', "");
        let columns = [
            "id",
            "petId",
            "status",
            "createdAt",
            "updatedAt",
            "expiresAt",
        ];
        orders += &format!("{}\n", columns.map(get).join(","));
    }
    let exported = run(home, &["export", "--orders", "orders.csv"]).success();
    assert!(
        exported.stderr.contains("Exported 2 orders"),
        "{exported:?}"
    );
    let csv = fs::read_to_string(home.path("orders.csv")).unwrap();
    let header = "id,petId,status,createdAt,updatedAt,expiresAt\n";
    assert_eq!(csv, format!("{header}{orders}"));
    let jsonl = run(home, &["export", "--orders"]).success().stdout;
    let listed = client.get("/v1/store/orders").await.body;
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
