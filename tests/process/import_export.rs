//! Bulk data: `petstore import`, `export` and `seed`.

use std::{collections::BTreeMap, fs};

use http::Method;
use serde_json::{Value, json};
use support::{Cluster, CommandResult};

use crate::{client::Client, event_log::assert_logged, harness::Home};

pub fn run(home: &Home, arguments: &[&str]) -> CommandResult {
    let url = home.url();
    home.petstore(&[arguments, &["--database", &url]].concat())
}

/// The output of `petstore export`.
pub fn exported(home: &Home) -> String {
    run(home, &["export"]).success().stdout
}

pub const ANIMALS: &str = "\
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
        "\u{feff}Status;Name;Alter;Category ID\r\navailable;Rex;x;3\r\n;\"Frau \"\"Mia\"\" Müller; die\";;-9223372036854775808\r\n;;;\r\nSold;a,b;;7\r\n",
        "sep=|\r\nname|Category|status|categoryId\r\nRex||available|3\r\n\"Frau \"\"Mia\"\" Müller; die\"|||-9223372036854775808\r\na,b||SOLD|7\r\n",
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
    // Importing again changes nothing.
    run(&home, &["import", "out.csv"]).success();
    assert_eq!(exported(&home), ANIMALS);
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
    assert_eq!(reported.len(), 6);
    assert_eq!(
        reported[0],
        "animals.csv, line 3: name: required; must be a string"
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
    let rest = "… and 147 more with the problem of line 7\n";
    assert!(rejected.stderr.contains(rest), "{rejected:?}");
    // Different problems are reported up to a limit.
    let different = (0..120).map(|number| format!("Tom,x{number},\nTom,x{number},\n"));
    let different = table.clone() + &different.collect::<String>();
    fs::write(home.path("different.csv"), different).unwrap();
    let different = run(&home, &["import", "different.csv"]);
    different.assert_fails(1, "because 393 lines are invalid");
    let count = different.stderr.matches(", line ").count();
    assert_eq!(count, 100, "{different:?}");
    let rest = format!("{rest}… and 146 more\n");
    assert!(different.stderr.contains(&rest), "{different:?}");
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
        (
            "animals.txt",
            "",
            1,
            "animals.txt: its name does not end with .csv, .xlsx or .jsonl; rename it, or add",
        ),
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
        ("animals.jsonl", "[]\n", 1, "the file is a JSON array"),
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
        (&b"\xff\xfen\0a\0"[..], "no name column, found \"na\""),
        (
            b"name,categoryId\nRex,1,\"\nTom,2\"\n",
            "line 2: has more cells than the 2 columns of the header",
        ),
        (
            b"name,Name,categoryId\n",
            "more than one name column: \"name\", \"Name\"; ignore the others, as with",
        ),
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
    rejected.assert_fails(1, "line 2: the quote that is opened here is not closed");
    fs::write(home.path("animals.jsonl"), "x".repeat(1 << 20)).unwrap();
    run(&home, &["import", "animals.jsonl"]).assert_fails(1, "is longer than 262144 bytes");
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
    for count in ["abc", "-1"] {
        run(&home, &["seed", count]).assert_fails(2, "must be a number from 1 to 10000000");
    }
    run(&home, &["export", "--format", "xml"]).assert_fails(2, "--format");
    let formats = "animals.xlsx is neither .csv nor .jsonl; use one of these, or add --format csv";
    run(&home, &["export", "animals.xlsx"]).assert_fails(1, formats);
    run(&home, &["import", "-"]).assert_fails(1, "the format of standard input is not known");
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
    // A name may look like a number. Without a name, the column for numbers counts. A number
    // whose category has no name gets the one beside it.
    let both = "categoryId;category;name\n;Dogs;11\n3;Dogs;12\n;42;13\n-2;;14\n 8 ; New ;15\n\
                ;new;16\n";
    fs::write(home.path("both.csv"), both).unwrap();
    for (options, summary) in [
        (
            &["--dry-run"][..],
            "both.csv: 6 animals and 1 category name. Nothing",
        ),
        (&[], "Imported 6 animals and 1 category name.\n"),
        (&["--dry-run"], "both.csv: 6 animals. Nothing"),
    ] {
        let imported = run(home, &[&["import", "both.csv"], options].concat()).success();
        assert!(imported.stderr.contains(summary), "{imported:?}");
    }
    import(
        home,
        "names.jsonl",
        "{\"name\":\"21\",\"category\":\"DOGS\"}\n\
         {\"name\":\"22\",\"category\":\"dogs\",\"categoryId\":3}\n\
         {\"name\":\"23\",\"category\":\"42\"}\n\
         {\"name\":\"24\",\"category\":\" Σίσυφος \",\"status\":\"sold\"}\n\
         {\"name\":\"25\",\"category\":\"\\u00e9clairs\"}\n",
    );
    let ids_of_files = [
        [3, 3, 4, i64::MIN, 6, 6, 5, 7].as_slice(),
        &[3, 3, -2, -2, 8, 8],
        &[3, 3, -2, 6, i64::MIN],
    ];
    let expected: BTreeMap<_, _> = ids_of_files
        .into_iter()
        .zip([1, 11, 21])
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
             to create it, use --create-categories"
        )
    };
    let lines = |rejected: &CommandResult| -> Vec<String> {
        let lines = rejected.stderr.lines().filter(|l| l.contains(", line "));
        lines.map(String::from).collect()
    };
    assert_eq!(
        lines(&rejected),
        [
            // The status is checked first, with all else that needs no database.
            "unknown.csv, line 3: status: must be one of available, pending, sold, got \"lost\"",
            "unknown.csv, line 4: name: required; must be a string",
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

    let both = "name,category,categoryId\nA,Dogs,4\nB,Hamsters,4\nC,Mice,10\nD,Rats,10\n\
                E,mice,11\n";
    fs::write(home.path("contradictory.csv"), both).unwrap();
    let pet = r#"{"name":"A","category":"dogs","categoryId":9}"#;
    fs::write(home.path("contradictory.jsonl"), pet).unwrap();
    let rejected = ["csv", "jsonl"].map(|format| {
        let rejected = run(home, &["import", &format!("contradictory.{format}")]);
        assert_eq!(rejected.code, Some(1), "{rejected:?}");
        lines(&rejected)
    });
    let start = |line, id, name| {
        format!(
            "contradictory.{line}: categoryId {id} and category \"{name}\" contradict each other:"
        )
    };
    let end = "; correct one of them";
    let dogs = start("csv, line 2", 4, "Dogs");
    let hamsters = start("csv, line 3", 4, "Hamsters");
    let rats = start("csv, line 5", 10, "Rats");
    let mice = start("csv, line 6", 11, "mice");
    assert_eq!(
        rejected.concat(),
        [
            format!("{dogs} that category is 3{end}"),
            format!("{hamsters} 4 is \"Straße\"{end}"),
            format!("{rats} 10 is \"Mice\"{end}"),
            format!("{mice} that category is 10{end}"),
            format!(
                "{} that category is 3{end}",
                start("jsonl, line 1", 9, "dogs")
            ),
        ]
    );
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
         6,'-6,6,' Σίσυφος ,\n\
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
    // With the numbers, the names need not be known, and are known then.
    for (file, content) in [("names.csv", &csv), ("names.jsonl", &jsonl)] {
        let empty = Home::new();
        import(&empty, file, content);
        assert_eq!(exported(&empty), plain, "{file}");
        let again = run(&empty, &["export", "--category-names"]).success();
        let trimmed = jsonl.replace(" Σίσυφος ", "Σίσυφος");
        assert_eq!(again.stdout, trimmed, "{file}");
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
