//! `petstore import` of tables as people have them. What is read from each file of
//! tests/import-files is tested beside the reader; this is about the command.

use std::{fs, path::Path};

use serde_json::{Value, json};
use support::CommandResult;

use crate::{
    harness::{Home, PETSTORE},
    import_export::{exported, run},
};

/// Copies a file of the collection, and names its categories.
fn prepare(file: &str) -> Home {
    let home = Home::new();
    copy(&home, file);
    let categories = "name,categoryId,category\nA,1,Dogs\nB,2,Cats\n";
    fs::write(home.path("categories.csv"), categories).unwrap();
    run(&home, &["import", "categories.csv"]).success();
    home
}

fn copy(home: &Home, file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import-files");
    fs::copy(folder.join(file), home.path(file)).unwrap();
}

/// The names, categories and statuses of the animals, apart from those of [`prepare`].
fn animals(home: &Home) -> Vec<Value> {
    let exported = exported(home);
    let pets = exported.lines().skip(2);
    let pets = pets.map(|line| serde_json::from_str::<Value>(line).unwrap());
    pets.map(|pet| json!([pet["name"], pet["categoryId"], pet["status"]]))
        .collect()
}

#[test]
fn a_workbook_is_imported() {
    let home = prepare("several-sheets.xlsx");
    let checked = run(&home, &["import", "--dry-run", "several-sheets.xlsx"]).success();
    assert_eq!(
        checked.stderr,
        "Read sheet \"Animals\"; not read: \"Readme\", \"Sold & gone\". To read one of these, use \
         --sheet.\n\
         column    read as   row 2      row 3\n\
         name      name      Rex        Mia\n\
         category  category  Dogs       Cats\n\
         status    status    available  sold\n\
         Checked several-sheets.xlsx: 2 animals. Nothing was imported.\n"
    );
    let imported = run(&home, &["import", "several-sheets.xlsx"]).success();
    assert!(
        imported.stderr.contains("Imported 2 animals."),
        "{imported:?}"
    );
    let repeated = run(
        &home,
        &["import", "several-sheets.xlsx", "--sheet", "Animals"],
    )
    .success();
    assert!(
        repeated.stderr.contains("was already imported"),
        "{repeated:?}"
    );
    // Another sheet is other content.
    run(
        &home,
        &["import", "several-sheets.xlsx", "--sheet", "Sold & gone"],
    )
    .success();
    assert_eq!(
        animals(&home),
        [
            json!(["Rex", 1, "available"]),
            json!(["Mia", 2, "sold"]),
            json!(["Leo", 2, "sold"])
        ]
    );
    let missing = run(&home, &["import", "several-sheets.xlsx", "--sheet", "Cats"]);
    missing.assert_fails(
        1,
        "has no sheet \"Cats\"; its sheets are \"Readme\", \"Animals\",",
    );
}

#[test]
fn a_workbook_is_imported_from_standard_input() {
    let home = prepare("plain.xlsx");
    let mut import = home.command(PETSTORE);
    import.args(["import", "-", "--format", "xlsx", "--database", &home.url()]);
    import.stdin(fs::File::open(home.path("plain.xlsx")).unwrap());
    CommandResult::of(&mut import).success();
    assert_eq!(animals(&home).len(), 2);
}

#[test]
fn rows_are_numbered_as_in_the_spreadsheet() {
    let home = prepare("errors.xlsx");
    let rejected = run(&home, &["import", "errors.xlsx"]);
    rejected.assert_fails(1, "because 2 rows are invalid; correct them");
    let reason = "errors.xlsx, row 3: category: the cell is the error #N/A; correct it in the";
    assert!(rejected.stderr.contains(reason), "{rejected:?}");
    assert!(
        rejected.stderr.contains("Ignored columns: \"Age\"."),
        "{rejected:?}"
    );
    let skipped = run(&home, &["import", "errors.xlsx", "--skip-invalid"]).success();
    let summary = "Imported 1 animal, skipped 2 invalid rows.";
    assert!(skipped.stderr.contains(summary), "{skipped:?}");
    copy(&home, "title.xlsx");
    let titled = run(&home, &["import", "title.xlsx"]).success();
    let header = "The header is in row 4; skipped 2 rows above it.";
    assert!(titled.stderr.contains(header), "{titled:?}");
}

#[test]
fn columns_and_values_are_mapped_by_hand() {
    let home = prepare("mapped.csv");
    let unknown = run(&home, &["import", "mapped.csv"]);
    unknown.assert_fails(
        1,
        "no name column, found \"Wie heißt es?\", \"Was ist es?\", \"Wo?\", \"Preis\", \"Zustand\" in \
         line 1; to say which one it is, add --column, such as --column 'Wie heißt es?=name'",
    );
    let mut mapped = vec!["import", "mapped.csv", "--column", "Wie heißt es?=name"];
    mapped.extend(["--column", "was ist es=category", "--column=Preis="]);
    run(&home, &mapped).assert_fails(1, "2 lines are invalid");
    let named = "line 2: status: must be one of available, pending, sold, got \"für anna\"";
    let rejected = run(&home, &mapped);
    assert!(rejected.stderr.contains(named), "{rejected:?}");
    mapped.extend(["--value", "für Anna=pending", "--value", "WEG=sold"]);
    run(&home, &mapped).success();
    assert_eq!(
        animals(&home),
        [json!(["Rex", 1, "pending"]), json!(["Mia", 2, "sold"])]
    );
    for (option, reason) in [
        ("--column=name", "must be a heading and a member, such as"),
        (
            "--column=A=b",
            "the member must be one of id, name, categoryId,",
        ),
        ("--value=gone", "must be a text and a value, such as"),
        (
            "--value=gone=x",
            "must be one of available, pending, sold, male, female, unknown",
        ),
        (
            "--default-status=x",
            "must be one of available, pending, sold",
        ),
    ] {
        run(&home, &["import", "mapped.csv", option]).assert_fails(2, reason);
    }
    let sheet = run(&home, &["import", "mapped.csv", "--sheet", "A"]);
    sheet.assert_fails(1, "only workbooks have sheets; leave --sheet out");
    fs::write(home.path("a.jsonl"), "{}").unwrap();
    let table = run(&home, &["import", "a.jsonl", "--default-status", "sold"]);
    table.assert_fails(
        1,
        "--default-status is for tables; leave it out for JSON Lines",
    );
}

#[test]
fn other_encodings_are_read() {
    let home = Home::new();
    let table = b"name;categoryId\r\nB\xe4r;1\r\n";
    fs::write(home.path("animals.csv"), table).unwrap();
    let imported = run(&home, &["import", "animals.csv"]).success();
    let note = "animals.csv is not in UTF-8, so it was read as Windows-1252; check the names";
    assert!(imported.stderr.contains(note), "{imported:?}");
    let table = "\u{feff}name;categoryId\r\nÖzgür;1\r\n".encode_utf16();
    let table: Vec<u8> = table.flat_map(u16::to_be_bytes).collect();
    fs::write(home.path("turkish.csv"), table).unwrap();
    let imported = run(&home, &["import", "turkish.csv"]).success();
    assert!(!imported.stderr.contains("Windows"), "{imported:?}");
    assert!(exported(&home).contains("Bär"));
    assert!(exported(&home).contains("Özgür"));
}

#[test]
fn files_that_are_no_tables_are_refused() {
    let home = Home::new();
    for (file, reason) in [
        (
            "picture.png",
            "the file is a picture (PNG); name a file with a table, .csv or .xlsx",
        ),
        (
            "picture.csv",
            "the file is a picture (PNG); name a file with a table",
        ),
        (
            "document.pdf",
            "the file is a PDF document; name a file with a table",
        ),
        (
            "old.xls",
            "is a workbook in an old format (.xls); open it, and save the table as .xlsx",
        ),
        (
            "password.xlsx",
            "is a workbook with a password; open it, and save it without",
        ),
        ("damaged.xlsx", "the workbook is damaged"),
    ] {
        copy(&home, file);
        let refused = run(&home, &["import", file]);
        refused.assert_fails(1, &format!("cannot import {file}: "));
        refused.assert_fails(1, reason);
    }
    assert!(!home.database().exists());
    copy(&home, "plain.xlsx");
    let chosen = run(&home, &["import", "plain.xlsx", "--format", "csv"]);
    chosen.assert_fails(1, "the file is a workbook (.xlsx); add --format xlsx");
    copy(&home, "text.xlsx");
    let chosen = run(&home, &["import", "text.xlsx", "--format", "xlsx"]);
    chosen.assert_fails(
        1,
        "the file is not a workbook (.xlsx) but text; add --format csv",
    );
}

/// Prices without a currency are in the chosen one, or that of the shop.
#[test]
fn prices_without_a_currency_are_read() {
    let home = prepare("commas.csv");
    let table = "Name,Art,Preis\nA,Dogs,\"1.450\"\nB,Dogs,\"12,50\"\nC,Dogs,5 US$\nD,Dogs,\n";
    fs::write(home.path("prices.csv"), table).unwrap();
    let refused = run(&home, &["import", "prices.csv"]);
    refused.assert_fails(1, "because 2 lines are invalid");
    let reason = "prices.csv, line 2: currency: required for a price; say which one with \
                  --currency, such as --currency EUR, or set the currency of the shop";
    assert!(refused.stderr.contains(reason), "{refused:?}");
    let import = |options: &[&str]| {
        let arguments = [&["import", "prices.csv"], options].concat();
        run(&home, &arguments).success().stderr
    };
    let note = |code: &str| {
        format!("Prices without a currency are in {code}; to choose another one, use --currency.\n")
    };
    assert!(import(&["--currency", "eur"]).starts_with(&note("EUR")));
    let db = rusqlite::Connection::open(home.database()).unwrap();
    db.execute_batch("INSERT INTO settings (id, currency) VALUES (1, 'CHF')")
        .unwrap();
    drop(db);
    assert!(import(&["--restart"]).starts_with(&note("CHF")));
    assert!(import(&["--restart", "--currency=EUR"]).starts_with(&note("EUR")));
    let price = |amount: i64, currency: &str| json!({"amount": amount, "currency": currency});
    let exported = exported(&home);
    let pets = exported.lines().skip(2);
    let prices = pets.map(|line| serde_json::from_str::<Value>(line).unwrap()["price"].clone());
    let expected = ["EUR", "CHF", "EUR"].into_iter().flat_map(|code| {
        let dollars = price(500, "USD");
        [
            price(145_000, code),
            price(1250, code),
            dollars,
            Value::Null,
        ]
    });
    assert_eq!(prices.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    let invalid = run(&home, &["import", "prices.csv", "--currency=Taler"]);
    invalid.assert_fails(2, "must be the code of a currency");
}
