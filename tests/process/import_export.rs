//! Bulk data: `petstore import`, `export` and `seed`.

use std::{collections::BTreeMap, fs};

use reqwest::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    client::Client,
    event_log::assert_logged,
    harness::{Finished, Home, PETSTORE, Service},
    postgres::Cluster,
};

fn run(home: &Home, arguments: &[&str]) -> Finished {
    let url = home.url();
    home.petstore(&[arguments, &["--database", &url]].concat())
}

/// The output of `petstore export`.
fn exported(home: &Home) -> String {
    run(home, &["export"]).success().stdout
}

const ANIMALS: &str = "\
{\"id\":1,\"name\":\"Rex\",\"categoryId\":3,\"status\":\"available\"}
{\"id\":2,\"name\":\"Frau \\\"Mia\\\" Müller; die\",\"categoryId\":-9223372036854775808}
{\"id\":3,\"name\":\"a,b\",\"categoryId\":7,\"status\":\"sold\"}
";

#[test]
fn csv_from_spreadsheets_is_imported() {
    for table in [
        // Plain.
        "name,categoryId,status\nRex,3,available\n\"Frau \"\"Mia\"\" Müller; die\",-9223372036854775808,\n\"a,b\",7,sold\n",
        // German Excel: byte order mark, semicolons, CRLF, an extra column, an empty row.
        "\u{feff}Status;Name;Notiz;Category ID\r\navailable;Rex;x;3\r\n;\"Frau \"\"Mia\"\" Müller; die\";;-9223372036854775808\r\n;;;\r\nSold;a,b;;7\r\n",
        "sep=|\r\nname|Category|status|categoryId\r\nRex||available|3\r\n\"Frau \"\"Mia\"\" Müller; die\"|x||-9223372036854775808\r\na,b||SOLD|7\r\n",
        "category\tname\tstatus\n3\tRex\tavailable\n-9223372036854775808\t\"Frau \"\"Mia\"\" Müller; die\"\n7\ta,b\tsold\n",
    ] {
        let home = Home::new();
        fs::write(home.path("animals.csv"), table).unwrap();
        let output = run(&home, &["import", "animals.csv"]).success().stderr;
        assert!(output.contains("Imported 3 animals."), "{output}");
        assert_eq!(exported(&home), ANIMALS, "{table:?}");
        assert_logged(&home);
    }
}

#[test]
fn export_and_import_round_trip() {
    let home = Home::new();
    fs::write(home.path("animals.jsonl"), format!("\n{ANIMALS}\r\n")).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    for file in ["out.csv", "out.jsonl"] {
        run(&home, &["export", file]).success();
        run(&home, &["export", file]).assert_fails(1, "exists");
        let other = Home::new();
        fs::copy(home.path(file), other.path(file)).unwrap();
        run(&other, &["import", file]).success();
        assert_eq!(exported(&other), ANIMALS, "{file}");
    }
    // Importing again adds new animals.
    run(&home, &["import", "out.csv"]).success();
    assert_eq!(exported(&home).lines().count(), 6);
}

/// A spreadsheet that opens an export runs nothing, and importing the export gives the
/// names as they were.
#[test]
fn formulas_are_exported_as_text() {
    let home = Home::new();
    let names = [
        "=HYPERLINK(\"http://evil.example\")",
        "+1",
        "-1",
        "@SUM(A1)",
        "  =1",
        "'=1",
        "'n Sync",
        "a;=1+1;b",
        "－1",
    ];
    let animals: String = names
        .iter()
        .map(|name| format!("{}\n", serde_json::json!({"name": name, "categoryId": -1})))
        .collect();
    fs::write(home.path("animals.jsonl"), animals).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    run(&home, &["export", "animals.csv"]).success();
    let csv = fs::read_to_string(home.path("animals.csv")).unwrap();
    assert_eq!(
        csv,
        "id,name,categoryId,status\n\
         1,\"'=HYPERLINK(\"\"http://evil.example\"\")\",-1,\n\
         2,'+1,-1,\n\
         3,'-1,-1,\n\
         4,'@SUM(A1),-1,\n\
         5,'  =1,-1,\n\
         6,''=1,-1,\n\
         7,'n Sync,-1,\n\
         8,a;'=1+1;b,-1,\n\
         9,'－1,-1,\n"
    );
    // JSON Lines is not for spreadsheets.
    let jsonl = exported(&home);
    assert!(jsonl.contains(r#""name":"+1""#), "{jsonl}");
    let other = Home::new();
    fs::write(other.path("animals.csv"), csv).unwrap();
    run(&other, &["import", "animals.csv"]).success();
    assert_eq!(exported(&other), jsonl);
}

#[test]
fn invalid_lines_are_reported_and_nothing_is_imported() {
    let home = Home::new();
    home.new_key();
    let mut table =
        "name,categoryId,status\nRex,1,sold\n,2,\nMax,x,lost\n\"a\nb\",1,\n".to_string();
    for _ in 0..150 {
        table += "Tom,,\n";
    }
    table += "Last,1,\n";
    fs::write(home.path("animals.csv"), &table).unwrap();
    let rejected = run(&home, &["import", "animals.csv"]);
    rejected.assert_fails(
        1,
        "nothing was imported, because 153 lines are invalid; correct them, or leave them out",
    );
    let reported: Vec<_> = rejected
        .stderr
        .lines()
        .filter(|line| line.contains(", line "))
        .collect();
    assert_eq!(reported.len(), 100);
    assert_eq!(
        reported[0],
        "animals.csv, line 3: name: must be 1 to 255 characters long, got 0"
    );
    assert!(
        reported[1].starts_with("animals.csv, line 4: categoryId: must be an integer"),
        "{}",
        reported[1]
    );
    assert!(reported[1].contains("status: must be one of available, pending, sold, got \"lost\""));
    assert!(
        reported[2].starts_with("animals.csv, line 5: name: must not contain control"),
        "{}",
        reported[2]
    );
    assert!(
        reported[3].starts_with("animals.csv, line 7: categoryId"),
        "{}",
        reported[3]
    );
    assert!(rejected.stderr.contains("… and 53 more"), "{rejected:?}");
    assert_eq!(exported(&home), "");

    let skipped = run(&home, &["import", "animals.csv", "--skip-invalid"]).success();
    assert!(
        skipped
            .stderr
            .contains("Imported 2 animals, skipped 153 invalid lines."),
        "{skipped:?}"
    );
    assert_eq!(exported(&home).lines().count(), 2);
}

#[test]
fn unreadable_files_are_rejected() {
    let home = Home::new();
    for (name, content, code, reason) in [
        ("animals.txt", "", 1, "neither .csv nor .jsonl"),
        ("animals.csv", "", 1, "animals.csv: the file is empty"),
        ("animals.csv", "\u{feff}\r\n\n", 1, "the file is empty"),
        (
            "animals.csv",
            "Rex,1,sold\n",
            1,
            "no name column, found \"Rex\", \"1\", \"sold\"",
        ),
        (
            "animals.csv",
            "name,status\nRex,sold\n",
            1,
            "no categoryId or category column",
        ),
        (
            "animals.csv",
            "name,categoryId\nR\u{0}x,1\n",
            1,
            "line 2: name: must not contain control",
        ),
        (
            "animals.jsonl",
            "[]\n",
            1,
            "line 1: must be a JSON object, got an array",
        ),
        (
            "animals.jsonl",
            "{\"name\":\"A\"}\n",
            1,
            "line 1: categoryId: required",
        ),
        ("animals.jsonl", "{\n\"name\":\"A\"}\n", 1, "line 2: "),
    ] {
        fs::write(home.path(name), content).unwrap();
        run(&home, &["import", name]).assert_fails(code, reason);
    }
    for (content, reason) in [
        (&b"\xff\xfen\0a\0"[..], "is encoded in UTF-16"),
        (
            b"name,categoryId\nRex,1,\"\nTom,2\n",
            "line 2: has more cells than the 2 columns of the first line",
        ),
        (b"name,name,categoryId\n", "more than one name column"),
        (b"name,categoryId\nRex,2,x\n", "line 2: has more cells"),
    ] {
        fs::write(home.path("animals.csv"), content).unwrap();
        run(&home, &["import", "animals.csv"]).assert_fails(1, reason);
    }
    // An error that stops the reader is not skipped.
    let mut unclosed = b"name,categoryId\n\"Rex,1\n".to_vec();
    unclosed.extend(b"Tom,2\n".repeat(100_000));
    fs::write(home.path("animals.csv"), unclosed).unwrap();
    let rejected = run(&home, &["import", "animals.csv", "--skip-invalid"]);
    rejected.assert_fails(1, "is a quote unclosed?");
    fs::create_dir(home.path("directory.jsonl")).unwrap();
    let rejected = run(&home, &["import", "directory.jsonl", "--skip-invalid"]);
    rejected.assert_fails(1, "cannot be read");
    fs::write(home.path("animals.csv"), b"name,categoryId\n\xff\xfe,1\n").unwrap();
    run(&home, &["import", "animals.csv"]).assert_fails(1, "line 2: ");
    fs::write(home.path("animals.jsonl"), "x".repeat(1 << 20)).unwrap();
    run(&home, &["import", "animals.jsonl"]).assert_fails(1, "is longer than 65536 bytes");
    // Only the long line is skipped.
    let long = format!("{ANIMALS}{}\n{ANIMALS}", "x".repeat(70_000));
    fs::write(home.path("long.JSONL"), long).unwrap();
    let skipped = run(&home, &["import", "long.JSONL", "--skip-invalid"]).success();
    assert!(
        skipped
            .stderr
            .contains("Imported 6 animals, skipped 1 invalid line."),
        "{skipped:?}"
    );
    run(&home, &["import", "nothing.csv"]).assert_fails(1, "cannot read nothing.csv");
    for count in ["0", "abc", "10000001", "-1"] {
        run(&home, &["seed", count]).assert_fails(2, count);
    }
    run(&home, &["seed", "abc"]).assert_fails(2, "must be a number from 1 to 10000000");
    run(&home, &["export", "--format", "xml"]).assert_fails(2, "--format");
    let formats = "animals.xlsx is neither .csv nor .jsonl; use one of these, or add --format csv";
    for command in ["import", "export"] {
        run(&home, &[command, "animals.xlsx"]).assert_fails(1, formats);
    }
    run(&home, &["import", "-"]).assert_fails(1, "the format of standard input is not known");
}

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
    let interrupt = || {
        let db = Connection::open(home.database()).unwrap();
        let insert = "INSERT INTO imports VALUES (?1, 2, 0)";
        db.execute(insert, [digest.as_slice()]).unwrap();
    };
    let count = || exported(&home).lines().count();
    interrupt();
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

const CATEGORIES: [(i64, &str); 7] = [
    (i64::MIN, "Éclairs"),
    (-2, "42"),
    (3, "Dogs"),
    (4, "Straße"),
    (5, "=SUM(A1);+1"),
    (6, " Σίσυφος "),
    (7, "Cats, \"small\""),
];

/// Names categories by their numbers plus `offset`.
async fn name_categories(home: &Home, offset: i64) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    for (id, name) in CATEGORIES {
        let path = format!("/v1/categories/{}", id + offset);
        let body = json!({"name": name});
        let named = client.send_json(Method::PUT, &path, &body, None);
        let named = named.await.unwrap();
        assert_eq!(named.status, 201, "{named:?}");
    }
    service.stop();
}

/// Imports a file into the store.
fn import(home: &Home, file: &str, content: &str) {
    fs::write(home.path(file), content).unwrap();
    run(home, &["import", file]).success();
}

/// The category ids of all animals by name.
fn category_ids(home: &Home) -> BTreeMap<String, i64> {
    let pet = |line| {
        let pet: Value = serde_json::from_str(line).unwrap();
        let name = pet["name"].as_str().unwrap().into();
        (name, pet["categoryId"].as_i64().unwrap())
    };
    exported(home).lines().map(pet).collect()
}

async fn categories_are_imported_by_name(home: &Home) {
    name_categories(home, 0).await;
    import(
        home,
        "names.csv",
        "name,Category\n\
         1,Dogs\n\
         2, dOGS \n\
         3,STRASSE\n\
         4,e\u{301}CLAIRS\n\
         5, ΣΊΣΥΦΟΣ \n\
         6, σίσυφος \n\
         7,'=sum(a1);'+1\n\
         8,\"CATS, \"\"SMALL\"\"\"\n",
    );
    // A name may be a number; the column for numbers counts.
    import(
        home,
        "both.csv",
        "categoryId;category;name\n;Dogs;11\n9;Dogs;12\n;42;13\n-2;;14\n 8 ; Unknown ;15\n",
    );
    import(
        home,
        "names.jsonl",
        "{\"name\":\"21\",\"category\":\"DOGS\"}\n\
         {\"name\":\"22\",\"category\":\"dogs\",\"categoryId\":9}\n\
         {\"name\":\"23\",\"category\":\"42\"}\n\
         {\"name\":\"24\",\"category\":\" Σίσυφος \",\"status\":\"sold\"}\n\
         {\"name\":\"25\",\"category\":\"\\u00e9clairs\"}\n",
    );
    let expected = [
        [3, 3, 4, i64::MIN, 6, 6, 5, 7].as_slice(),
        &[3, 9, -2, -2, 8],
        &[3, 9, -2, 6, i64::MIN],
    ];
    let expected = expected.into_iter().zip([1, 11, 21]);
    let expected: BTreeMap<_, _> = expected
        .flat_map(|(ids, first)| {
            (first..)
                .zip(ids)
                .map(|(n, id): (i32, _)| (n.to_string(), *id))
        })
        .collect();
    assert_eq!(category_ids(home), expected);

    // Unknown names are reported with the other invalid lines.
    let unknown = "name,category,status\nA,Dogs,\nB,Hamsters,lost\n,Dogs,\nC,Éclair,\nD,,\n";
    fs::write(home.path("unknown.csv"), unknown).unwrap();
    let rejected = run(home, &["import", "unknown.csv"]);
    rejected.assert_fails(1, "nothing was imported, because 4 lines are invalid");
    let unknown = |line, name| {
        format!(
            "unknown.{line}: category: no category is named \"{name}\"; \
             name it first, or use its number"
        )
    };
    let lines = |rejected: &Finished| -> Vec<String> {
        let lines = rejected.stderr.lines().filter(|l| l.contains(", line "));
        lines.map(String::from).collect()
    };
    assert_eq!(
        lines(&rejected),
        [
            // The status is checked first, with all else that needs no database.
            "unknown.csv, line 3: status: must be one of available, pending, sold, got \"lost\"",
            "unknown.csv, line 4: name: must be 1 to 255 characters long, got 0",
            &unknown("csv, line 5", "Éclair"),
            "unknown.csv, line 6: categoryId: required; must be an integer, or the name of a \
             category in category",
        ]
    );
    fs::write(
        home.path("unknown.jsonl"),
        "{\"name\":\"A\",\"category\":\"Hamsters\"}\n{\"name\":\"B\",\"category\":3}\n\
         {\"name\":\"C\",\"category\":\"Dogs\",\"categoryId\":\"3\"}\n",
    )
    .unwrap();
    let rejected = run(home, &["import", "unknown.jsonl"]);
    rejected.assert_fails(1, "nothing was imported, because 3 lines are invalid");
    let reported = lines(&rejected);
    assert_eq!(reported[0], unknown("jsonl, line 1", "Hamsters"));
    assert!(reported[1].starts_with("unknown.jsonl, line 2: category: must be a string"));
    assert!(reported[2].starts_with("unknown.jsonl, line 3: categoryId: must be"));
    assert_eq!(category_ids(home), expected);
    let skipped = run(home, &["import", "unknown.csv", "--skip-invalid"]).success();
    let summary = "Imported 1 animal, skipped 4 invalid lines.";
    assert!(skipped.stderr.contains(summary), "{skipped:?}");
    assert_eq!(category_ids(home)["A"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn categories_are_imported_by_name_on_sqlite() {
    categories_are_imported_by_name(&Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn categories_are_imported_by_name_on_postgres() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    categories_are_imported_by_name(&home).await;
}

async fn category_names_are_exported(home: &Home, other: &Home) {
    name_categories(home, 0).await;
    let mut animals = String::new();
    for (id, _) in CATEGORIES.into_iter().chain([(99, "")]) {
        let name = format!("-{id}");
        animals += &format!("{}\n", json!({"name": name, "categoryId": id}));
    }
    import(home, "animals.jsonl", &animals);
    let plain = exported(home);
    for file in ["names.csv", "names.jsonl"] {
        run(home, &["export", "--category-names", file]).success();
    }
    let csv = fs::read_to_string(home.path("names.csv")).unwrap();
    assert_eq!(
        csv,
        "id,name,categoryId,category,status\n\
         1,'--9223372036854775808,-9223372036854775808,Éclairs,\n\
         2,'--2,-2,42,\n\
         3,'-3,3,Dogs,\n\
         4,'-4,4,Straße,\n\
         5,'-5,5,'=SUM(A1);'+1,\n\
         6,'-6,6, Σίσυφος ,\n\
         7,'-7,7,\"Cats, \"\"small\"\"\",\n\
         8,'-99,99,,\n"
    );
    let jsonl = fs::read_to_string(home.path("names.jsonl")).unwrap();
    let lines: Vec<Value> = jsonl
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<_> = lines.iter().map(|pet| pet["category"].as_str()).collect();
    let expected = CATEGORIES.map(|(_, name)| Some(name));
    assert_eq!(names, [expected.as_slice(), &[None]].concat());
    // With the numbers, the names need not be known.
    for (file, content) in [("names.csv", &csv), ("names.jsonl", &jsonl)] {
        let empty = Home::new();
        import(&empty, file, content);
        assert_eq!(exported(&empty), plain, "{file}");
    }
    // Without them, the names find other numbers. One of the names is a number.
    name_categories(other, 100).await;
    let mut by_name = csv::Writer::from_writer(Vec::new());
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    by_name.write_record(["name", "category"]).unwrap();
    for record in reader.records().map(Result::unwrap) {
        if record[1] != *"'-99" {
            by_name.write_record([&record[1], &record[3]]).unwrap();
        }
    }
    let by_name = String::from_utf8(by_name.into_inner().unwrap()).unwrap();
    import(other, "by_name.csv", &by_name);
    let expected = CATEGORIES.map(|(id, _)| (format!("-{id}"), id + 100));
    assert_eq!(category_ids(other), expected.into());
}

#[tokio::test(flavor = "multi_thread")]
async fn category_names_are_exported_on_sqlite() {
    category_names_are_exported(&Home::new(), &Home::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn category_names_are_exported_on_postgres() {
    let cluster = Cluster::start();
    let home = || Home::with_database(cluster.url(&cluster.create_database()));
    category_names_are_exported(&home(), &home()).await;
}
