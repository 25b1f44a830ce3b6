//! `petstore serve --demo`: a shop that was made up.

use std::{collections::BTreeSet, os::unix::fs::MetadataExt};

use serde_json::Value;

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
};

/// Animals, categories, orders and events agree with each other. They are in a temporary
/// database, which is deleted.
#[tokio::test]
async fn the_demo_has_believable_data() {
    let home = Home::new();
    // The test runner may ignore SIGHUP, as with nohup.
    let mut serve = home.command("env");
    serve.args(["--default-signal=HUP", PETSTORE]);
    serve.args(["serve", "--demo", "--port", "0"]);
    // What other commands use, and what the demo does not.
    serve.env("PETSTORE_DATABASE", "postgres://db.invalid/shop");
    serve.env("PETSTORE_DATABASE_PASSWORD_FILE", "none");
    let mut service = Service::start(serve.env("TMPDIR", home.dir()));
    let folder = std::fs::read_dir(home.dir()).unwrap().next().unwrap();
    let mode = folder.unwrap().metadata().unwrap().mode();
    assert_eq!(mode & 0o777, 0o700);
    let console = service.event("demo ready")["console_url"].clone();
    let (page, key) = console.as_str().unwrap().split_once("#key=").unwrap();
    assert_eq!(page, service.url("/console"));
    let client = Client::new(&service, key);
    let values = async |path: &str, member: &str| -> BTreeSet<String> {
        let response = client.get(path).await;
        let body = response.json();
        let items = body
            .as_array()
            .unwrap_or_else(|| panic!("{path}: {response:?}"));
        let values = items
            .iter()
            .map(|item| item[member].as_str().unwrap_or("none").into());
        values.collect()
    };
    let pets = values("/v1/pets?limit=100", "status").await;
    assert!(
        pets.iter().eq(["available", "none", "pending", "sold"]),
        "{pets:?}"
    );
    let orders = values("/v1/store/orders?limit=100", "status").await;
    let all = ["cancelled", "completed", "placed", "returned"];
    assert!(orders.iter().eq(all), "{orders:?}");
    assert!(values("/v1/categories", "name").await.len() >= 5);
    assert!(values("/v1/pets?limit=100", "name").await.len() > 30);
    let animals = client.get("/v1/pets?limit=100").await.json();
    let animals = animals.as_array().unwrap();
    assert_details(animals);
    let ids: Vec<_> = animals.iter().map(|animal| &animal["id"]).collect();
    let orders = client.get("/v1/store/orders?limit=100").await.json();
    let completed = orders.as_array().unwrap().iter();
    let mut completed = completed
        .filter(|order| order["status"] == "completed")
        .peekable();
    assert!(completed.peek().is_some());
    for order in completed {
        assert!(ids.contains(&&order["petId"]), "{order}");
        for member in ["buyer", "price", "reference"] {
            assert!(!order[member].is_null(), "{order}");
        }
    }
    let types = values("/v1/events?limit=1000", "type").await;
    assert!(types.len() >= 6, "{types:?}");

    let database = service.event("listening")["database"].clone();
    let database = database.as_str().unwrap();
    home.petstore(&["check", "--database", database]).success();
    service.signal("HUP");
    assert_eq!(service.event("shutting down")["signal"], "SIGHUP");
    assert!(service.wait().success(), "{}", service.output());
    assert_eq!(std::fs::read_dir(home.dir()).unwrap().count(), 0);
}

/// Animals of a category of the sample have what a shop records.
fn assert_details(animals: &[Value]) {
    let mut chips = BTreeSet::new();
    for animal in animals {
        for member in ["breed", "sex", "color", "price", "source", "location"] {
            assert!(!animal[member].is_null(), "{member}: {animal}");
        }
        let [born, acquired] = ["birthDate", "acquiredOn"].map(|it| animal[it].as_str().unwrap());
        assert!(born < acquired, "{animal}");
        if let Some(chip) = animal["microchip"].as_str() {
            assert!(chips.insert(chip), "{animal}");
        }
    }
    assert!(chips.len() > animals.len() / 4, "{chips:?}");
    for member in ["description", "notes"] {
        assert!(
            animals.iter().any(|animal| !animal[member].is_null()),
            "{member}"
        );
    }
}

#[test]
fn seeded_animals_have_details() {
    let home = Home::new();
    home.petstore(&["seed", "200"]).success();
    let exported = home.petstore(&["export"]).success().stdout;
    let lines = exported.lines();
    let animals: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(animals.len(), 200);
    assert_details(&animals);
}

#[test]
fn the_demo_has_no_other_database() {
    let rejected = Home::new().petstore(&["serve", "--demo", "--database", "pets.db"]);
    rejected.assert_fails(2, "leave out --demo, or --database");
    let usage = "\n\nUsage: petstore serve [OPTIONS]\n";
    assert!(rejected.stderr.contains(usage), "{rejected:?}");
}
