//! `petstore import` of animals that the store has, and `petstore import --undo`.

use std::fs;

use serde_json::{Value, json};
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
    let before = exported(home);
    for format in ["csv", "jsonl"] {
        let file = format!("export.{format}");
        run(home, &["export", &file]).success();
        let repeated = run(home, &["import", &file]).success();
        let message =
            format!("Nothing was imported: 3 animals of {file} are in the store as in the file.\n");
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
    run(home, &["import", "--undo", id]).success();
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

fn check(home: impl Fn() -> Home, has_service: bool) {
    for case in [
        an_export_changes_nothing,
        animals_are_changed_and_changed_back,
        a_later_change_is_kept,
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
fn an_animal_is_found_by_its_microchip_on_request() {
    let home = Home::new();
    fill(&home);
    let table = "name,categoryId,microchip\nRex II,1,900 000 000 000 001\n";
    fs::write(home.path("chips.csv"), table).unwrap();
    let taken = "line 2: microchip: animal 1 has this number";
    run(&home, &["import", "chips.csv"]).assert_fails(1, taken);
    let imported = run(&home, &["import", "chips.csv", "--match-microchip"]).success();
    let summary = "Imported 0 new, 1 changed and 0 unchanged animals.";
    assert!(imported.stderr.contains(summary), "{imported:?}");
    assert_eq!(pets(&home)[0]["name"], "Rex II");
    assert_eq!(pets(&home).len(), 3);
}

#[test]
fn rows_that_cannot_change_an_animal_are_invalid() {
    let home = Home::new();
    fill(&home);
    for (rows, message) in [
        (
            "x,A,1",
            "line 2: id: must be the number of an animal, got \"x\"",
        ),
        ("1,A,1\n1,B,1", "line 3: id: line 2 is about animal 1, too"),
    ] {
        let table = format!("id,name,categoryId\n{rows}\n");
        fs::write(home.path("bad.csv"), table).unwrap();
        run(&home, &["import", "bad.csv"]).assert_fails(1, message);
    }
    let unknown = run(&home, &["import", "--undo", "abc"]);
    unknown.assert_fails(1, "no changes of abc are in the log");
    let invalid = run(&home, &["import", "--undo", "a b"]);
    invalid.assert_fails(2, "must be the id that the import has printed");
}
