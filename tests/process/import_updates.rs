//! `petstore import` of animals that the store has, and `petstore import --undo`.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::Cluster;

use crate::{
    harness::Home,
    import_export::{exported, run},
};

const ANIMALS: &str = r#"
{"name":"Rex","categoryId":1,"status":"available","breed":"Boxer","microchip":"900000000000001","price":{"amount":45000,"currency":"EUR"},"source":{"name":"Ann","address":"Lane 1"},"metadata":{"cage":"12","food":"dry"}}
{"name":"Mia","categoryId":2,"status":"sold","notes":"Two\nlines"}
{"name":"=Tom","categoryId":1,"location":"Room 3"}
"#;

/// Names that look different in a table.
const ODD_NAMES: &str = r##"
{"name":"  Rex ","categoryId":1,"breed":" =x "}
{"name":" =Tom ","categoryId":1}
{"name":"#N/A","categoryId":1,"notes":"#REF!"}
{"name":"　Mia ","categoryId":1}
"##;

/// Makes a store with [`ANIMALS`].
fn fill(home: &Home) {
    fs::write(home.path("animals.jsonl"), ANIMALS.trim_start()).unwrap();
    run(home, &["import", "animals.jsonl"]).success();
}

fn pets(home: &Home) -> Vec<Value> {
    let exported = exported(home);
    let pets = exported.lines().map(serde_json::from_str);
    pets.collect::<Result<_, _>>().unwrap()
}

/// The id in the advice that an import ends with.
fn undo_id(stderr: &str) -> &str {
    let (_, rest) = stderr.split_once("import --undo ").expect(stderr);
    rest.split_whitespace().next().unwrap()
}

/// The export, imported again, changes nothing, in each format.
fn an_export_changes_nothing(home: &Home) {
    fill(home);
    fs::write(home.path("odd.jsonl"), ODD_NAMES.trim_start()).unwrap();
    run(home, &["import", "odd.jsonl"]).success();
    let before = exported(home);
    for format in ["csv", "jsonl"] {
        let file = format!("export.{format}");
        run(home, &["export", &file]).success();
        let repeated = run(home, &["import", &file]).success();
        let message =
            format!("Nothing was imported: 7 animals of {file} are in the store as in the file.\n");
        assert_eq!(repeated.stderr, message);
    }
    assert_eq!(exported(home), before);
}

/// Rows change the animals with their ids; others are added. All of it is undone.
fn animals_are_changed_and_changed_back(home: &Home) {
    fill(home);
    let before = exported(home);
    let table = "\
id,name,categoryId,breed,metadata.cage,price,currency,microchip
1,Rex II,1,,14,500.00,EUR,900000000000001
2,Mia,2,,,,,
,New,3,,,,,
77,Unknown,3,,,,,
";
    fs::write(home.path("table.csv"), table).unwrap();
    let checked = run(home, &["import", "--dry-run", "table.csv"]).success();
    let summary =
        "Checked table.csv: 2 new, 1 changed and 1 unchanged animals. Nothing was imported.";
    assert!(checked.stderr.contains(summary), "{checked:?}");
    assert_eq!(exported(home), before);
    let imported = run(home, &["import", "table.csv"]).success();
    let summary = "Imported 2 new, 1 changed and 1 unchanged animals.";
    assert!(imported.stderr.contains(summary), "{imported:?}");
    let after = pets(home);
    // An empty cell removes a detail; those without a column stay.
    assert_eq!(
        after[0],
        json!({"id": after[0]["id"], "name": "Rex II", "categoryId": 1, "status": "available",
               "microchip": "900000000000001", "price": {"amount": 50000, "currency": "EUR"},
               "source": {"name": "Ann", "address": "Lane 1"},
               "metadata": {"cage": "14", "food": "dry"}})
    );
    assert_eq!(after.len(), 5);
    let id = undo_id(&imported.stderr);
    let undone = run(home, &["import", "--undo", id]).success();
    assert!(undone.stderr.contains("Undone: 3 changes"), "{undone:?}");
    assert_eq!(exported(home), before);
    // It can be imported again, and undone again.
    let imported = run(home, &["import", "table.csv"]).success();
    assert!(imported.stderr.contains("Imported 2 new"), "{imported:?}");
    run(home, &["import", "--undo", undo_id(&imported.stderr)]).success();
    assert_eq!(exported(home), before);
}

/// An animal that was changed since is kept, and named.
fn a_later_change_is_kept(home: &Home) {
    fill(home);
    let table = "id,name,categoryId\n1,Rex II,1\n2,Mia II,2\n";
    fs::write(home.path("first.csv"), table).unwrap();
    let first = run(home, &["import", "first.csv"]).success();
    fs::write(home.path("second.csv"), "id,name,categoryId\n2,Mia III,2\n").unwrap();
    run(home, &["import", "second.csv"]).success();
    let undone = run(home, &["import", "--undo", undo_id(&first.stderr)]).success();
    let report = "Animal 2 is kept: it was changed since.\nUndone: 1 change; kept: 1 animal.\n";
    assert!(undone.stderr.ends_with(report), "{undone:?}");
    let names = pets(home).into_iter().map(|pet| pet["name"].clone());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [json!("Rex"), json!("Mia III"), json!("=Tom")]
    );
}

/// A file whose undo has kept animals that it has added would add them a second time.
fn what_an_undo_kept_is_not_added_again(home: &Home) {
    let table = "name,categoryId\nA,1\nB,1\n";
    let first = import(home, table, &[]);
    import(home, "id,name,categoryId\n2,B II,1\n", &[]);
    let undone = run(home, &["import", "--undo", undo_id(&first)]).success();
    let report = "Undone: 1 change; kept: 1 animal.\n";
    assert!(undone.stderr.ends_with(report), "{undone:?}");
    fs::write(home.path("a.csv"), table).unwrap();
    let kept = "an earlier import of the content of a.csv was undone, except for 1 animal changed";
    run(home, &["import", "a.csv"]).assert_fails(1, kept);
    let checked = run(home, &["import", "--dry-run", "a.csv"]).success();
    let note = format!("Nothing would be imported: {kept}");
    assert!(checked.stderr.contains(&note), "{checked:?}");
    assert_eq!(pets(home).len(), 1);
    import(home, table, &["--restart"]);
    assert_eq!(pets(home).len(), 3);
}

/// Imports a table, and returns the messages.
fn import(home: &Home, table: &str, options: &[&str]) -> String {
    fs::write(home.path("a.csv"), table).unwrap();
    let arguments = [&["import", "a.csv"], options].concat();
    run(home, &arguments).success().stderr
}

/// A file that is imported twice on purpose has two runs, which are undone one by one.
fn each_run_is_undone_alone(home: &Home) {
    let table = "name,categoryId\nA,1\nB,1\n";
    let first = import(home, table, &[]);
    let once = exported(home);
    let second = import(home, table, &["--restart"]);
    assert_eq!(pets(home).len(), 4);
    run(home, &["import", "--undo", undo_id(&second)]).success();
    assert_eq!(exported(home), once);
    // Without --restart, nothing happens, and the message has the id.
    import(home, table, &[]);
    let repeated = import(home, table, &[]);
    assert!(repeated.contains("already imported"), "{repeated}");
    run(home, &["import", "--undo", undo_id(&repeated)]).success();
    run(home, &["import", "--undo", undo_id(&first)]).success();
    assert!(pets(home).is_empty());
}

/// A table of the columns that are to change is enough. It can be imported again.
fn some_columns_are_changed(home: &Home) {
    fill(home);
    let table = "id,price,currency\n1,500.00,EUR\n";
    let changed = import(home, table, &[]);
    assert!(changed.contains("0 new, 1 changed"), "{changed}");
    let rex = &pets(home)[0];
    assert_eq!(rex["price"]["amount"], 50000);
    assert_eq!(
        (&rex["name"], &rex["categoryId"]),
        (&json!("Rex"), &json!(1))
    );
    import(home, "id,price,currency\n1,600.00,EUR\n", &[]);
    import(home, table, &[]);
    assert_eq!(pets(home)[0]["price"]["amount"], 50000);
    fs::write(home.path("a.csv"), "id,price,currency\n99,1.00,EUR\n").unwrap();
    let unknown = "id: no animal has the number 99; to add one";
    run(home, &["import", "a.csv"]).assert_fails(1, unknown);
}

/// A blank cell of a part of the source does not remove the rest of it.
fn a_part_of_the_source_stays(home: &Home) {
    fill(home);
    import(home, "id,name,categoryId,source.address\n1,Rex,1,\n", &[]);
    assert_eq!(pets(home)[0]["source"]["name"], "Ann");
    import(
        home,
        "id,name,categoryId,source.name,source.address\n1,Rex,1,Ann,\n",
        &[],
    );
    assert_eq!(pets(home)[0]["source"], json!({"name": "Ann"}));
    import(home, "id,name,categoryId,source.name\n1,Rex,1,\n", &[]);
    assert_eq!(pets(home)[0].get("source"), None);
}

/// Categories are named and created, also by rows that change no animal.
fn categories_are_created(home: &Home) {
    fill(home);
    let table = "id,name,categoryId,category\n1,Rex,1,Dogs\n";
    let named = import(home, table, &[]);
    assert!(named.contains("and 1 category name"), "{named}");
    // Mia has the number 2 and is no cat, nor is D.
    let table = "name,Kategorie,categoryId\nA,dogs,\nB,Cats,\nC,Birds,\nD,,3\nE,Cats,\n";
    fs::write(home.path("a.csv"), table).unwrap();
    let refused = "no category is named \"Cats\"; to create it, use --create-categories";
    run(home, &["import", "a.csv"]).assert_fails(1, refused);
    import(home, table, &["--create-categories"]);
    let categories = pets(home)[3..]
        .iter()
        .map(|pet| pet["categoryId"].clone())
        .collect::<Vec<_>>();
    assert_eq!(categories, [1, 4, 5, 3, 4].map(|id| json!(id)));
    // The names are known from now on.
    let known = import(home, "name,category\nF,birds\n", &[]);
    assert!(known.contains("Imported 1 animal."), "{known}");
}

/// Categories that an import has created are deleted with its animals, unless others have them.
fn created_categories_are_undone(home: &Home) {
    let table = "name,category\nA,Cats\nB,Birds\nC,Fish\n";
    let imported = import(home, table, &["--create-categories"]);
    let used = "name,category\nD,Birds\n";
    import(home, used, &[]);
    let undone = run(home, &["import", "--undo", undo_id(&imported)]).success();
    let report = "Undone: 3 changes; kept: 0 animals; categories deleted or restored: 2.\n";
    assert!(undone.stderr.ends_with(report), "{undone:?}");
    fs::write(home.path("b.csv"), "name,category\nE,Birds\nF,Fish\n").unwrap();
    let left = run(home, &["import", "--dry-run", "b.csv"]);
    left.assert_fails(1, "line 3: category: no category is named \"Fish\"");
    assert!(!left.stderr.contains("b.csv, line 2"), "{left:?}");
}

fn check(home: impl Fn() -> Home, has_service: bool) {
    for case in [
        an_export_changes_nothing,
        animals_are_changed_and_changed_back,
        a_later_change_is_kept,
        what_an_undo_kept_is_not_added_again,
        each_run_is_undone_alone,
        some_columns_are_changed,
        a_part_of_the_source_stays,
        categories_are_created,
        created_categories_are_undone,
        an_animal_is_found_by_its_microchip_on_request,
        rows_that_cannot_change_an_animal_are_invalid,
    ] {
        let home = home();
        let _service = has_service.then(|| home.serve());
        case(&home);
    }
}

#[test]
fn known_animals_are_changed_in_a_file() {
    check(Home::new, false);
}

#[test]
fn known_animals_are_changed_through_a_service() {
    check(Home::new, true);
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn known_animals_are_changed_on_postgres() {
    let cluster = Cluster::start();
    let home = || Home::with_database(cluster.url(&cluster.create_database()));
    check(home, false);
}

#[test]
fn changes_that_the_log_lacks_are_reported() {
    let home = Home::new();
    let imported = import(&home, "name,categoryId\nA,1\nB,1\nC,1\n", &[]);
    let db = Connection::open(home.database()).unwrap();
    let purged = db.execute("DELETE FROM events WHERE sequence <= 2", []);
    assert_eq!(purged.unwrap(), 2);
    drop(db);
    let undone = run(&home, &["import", "--undo", undo_id(&imported)]).success();
    let report = "2 changes of the import stay, because the log has no older events anymore.\n\
                  Undone: 1 change; kept: 0 animals.\n";
    assert!(undone.stderr.ends_with(report), "{undone:?}");
    assert_eq!(pets(&home).len(), 2);
}

/// An import that was interrupted does not take the animals that it has added itself for those
/// whose ids its file has.
#[test]
fn an_interrupted_import_changes_none_of_its_own_animals() {
    let home = Home::new();
    import(&home, "name,categoryId\nA,1\nB,1\n", &[]);
    let table = "id,name,categoryId\n,A,1\n,B,1\n1,C,1\n2,D,1\n";
    let digest = Sha256::digest(table);
    let db = Connection::open(home.database()).unwrap();
    let record = "INSERT INTO imports VALUES (?1, 'run', 0, NULL, 2, 2, 0, 0, NULL, NULL, 0)";
    assert_eq!(db.execute(record, [digest.as_slice()]).unwrap(), 1);
    drop(db);
    let continued = import(&home, table, &[]);
    assert!(continued.contains("imported 2 of 4 animals"), "{continued}");
    assert!(
        continued.contains("2 lines of a.csv have an id that no animal has"),
        "{continued}"
    );
    let names = pets(&home).into_iter().map(|pet| pet["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["A", "B", "C", "D"]);
}

fn an_animal_is_found_by_its_microchip_on_request(home: &Home) {
    fill(home);
    let table = "name,categoryId,microchip\nRex II,1,900 000 000 000 001\n";
    fs::write(home.path("chips.csv"), table).unwrap();
    let taken = "line 2: microchip: animal 1 has this number";
    run(home, &["import", "chips.csv"]).assert_fails(1, taken);
    let imported = run(home, &["import", "chips.csv", "--match-microchip"]).success();
    let summary = "Imported 0 new, 1 changed and 0 unchanged animals.";
    assert!(imported.stderr.contains(summary), "{imported:?}");
    assert_eq!(pets(home)[0]["name"], "Rex II");
    assert_eq!(pets(home).len(), 3);
}

fn rows_that_cannot_change_an_animal_are_invalid(home: &Home) {
    fill(home);
    for (rows, message) in [
        (
            "x,A,1",
            "line 2: id: must be the number of an animal, got \"x\"",
        ),
        ("1,A,1\n1,B,1", "line 3: id: line 2 is about animal 1, too"),
    ] {
        let table = format!("id,name,categoryId\n{rows}\n");
        fs::write(home.path("bad.csv"), table).unwrap();
        run(home, &["import", "bad.csv"]).assert_fails(1, message);
    }
    // An invalid row does not stand in the way of a later one.
    let table = "id,name,categoryId,microchip\n1,,1,900000000000009\n01,Rex II,1,\n\
                 ,New,1,900000000000009\n";
    let imported = import(home, table, &["--skip-invalid"]);
    let summary = "Imported 1 new, 1 changed and 0 unchanged animals, skipped 1 invalid line.";
    assert!(imported.contains(summary), "{imported}");
    let unknown = run(home, &["import", "--undo", "abc"]);
    unknown.assert_fails(1, "no changes of abc are in the log");
    let invalid = run(home, &["import", "--undo", "a b"]);
    invalid.assert_fails(2, "must be the id that the import has printed");
}
