//! `petstore register`.

use http::Method;
use serde_json::{Value, json};
use support::Cluster;

use crate::{client::Client, harness::Home, import_export::run};

const PERIOD: [&str; 5] = ["register", "--from", "2026-02-01", "--to", "2026-02-28"];

/// Sells an animal whose texts look like formulas, deletes it, and compares the register.
async fn the_register_is_a_table(home: &Home) {
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let post = async |path: &str, body: Value| {
        let response = client.send_json(Method::POST, path, &body, None).await;
        let response = response.unwrap();
        assert!(response.is_success(), "{}", response.text());
    };
    post(
        "/v1/pets",
        json!({
            "name": "=Rex", "categoryId": -3, "status": "available", "acquiredOn": "2026-02-28",
            "source": {"name": "@Farm", "licence": "12-A"}, "microchip": "276098106000001",
            "price": {"amount": 45_000, "currency": "EUR"},
        }),
    )
    .await;
    post(
        "/v1/store/orders",
        json!({"petId": 1, "buyer": {"name": "+Ada"}, "reference": "-1"}),
    )
    .await;
    post("/v1/store/orders/1/complete", json!({})).await;
    assert_eq!(client.delete(1).await.unwrap().status, 204);
    let table = run(home, &PERIOD).success();
    assert!(table.stderr.contains("Wrote 1 entry from "), "{table:?}");
    assert!(!table.stderr.contains("date of acquisition"), "{table:?}");
    let lines: Vec<_> = table.stdout.lines().collect();
    assert_eq!(
        lines[0],
        "entry,petId,name,categoryId,category,breed,sex,birthDate,color,microchip,acquiredOn,\
         source.name,source.address,source.licence,deletedOn,orderId,soldOn,price,currency,\
         buyer.name,buyer.address,buyer.contact,reference,returnedOn"
    );
    let cells: Vec<_> = lines[1].split(',').collect();
    let [deleted_on, sold_on] = [cells[14], cells[16]];
    assert_eq!(
        lines[1],
        format!(
            "acquired,1,'=Rex,-3,,,,,,276098106000001,2026-02-28,'@Farm,,12-A,{deleted_on},1,\
             {sold_on},450.00,EUR,'+Ada,,,'-1,"
        )
    );
    // The sale is of the day on which this test runs.
    let sold = [
        "register",
        "--from",
        sold_on,
        "--to",
        sold_on,
        "--output",
        "register.csv",
    ];
    run(home, &sold).success();
    run(home, &sold).assert_fails(1, "exists");
    let file = std::fs::read_to_string(home.path("register.csv")).unwrap();
    assert_eq!(
        file.lines().nth(1),
        Some(&*lines[1].replacen("acquired", "sold", 1))
    );
    // Two without a date of acquisition, of which one is in stock.
    for name in ["Stray", "Sold"] {
        let pet = json!({"name": name, "categoryId": 1, "status": "available"});
        post("/v1/pets", pet).await;
    }
    post("/v1/store/orders", json!({"petId": 3})).await;
    post("/v1/store/orders/2/complete", json!({})).await;
    let undated = "Without a date of acquisition, and so not listed as acquired: 1 in stock, and";
    let february = run(home, &PERIOD).success().stderr;
    assert!(
        february.contains(&format!("{undated} 0 sold in the period.")),
        "{february}"
    );
    let today = run(home, &[&sold[..5]].concat()).success().stderr;
    assert!(
        today.contains(&format!("{undated} 1 sold in the period.")),
        "{today}"
    );
    // The service has shown the source, and does not after it was erased beside it.
    let page = "/v1/store/register?entry=acquired&from=2026-02-01&to=2026-02-28";
    let source = json!({"name": "@Farm", "licence": "12-A"});
    assert_eq!(client.get(page).await.json()[0]["source"], source);
    let erased = run(home, &["erase-source", "1"]).success();
    let message = "Erased the source of 1 deleted animal.\n";
    assert_eq!(erased.stderr, message);
    let entry = &client.get(page).await.json()[0];
    assert_eq!(
        (&entry["name"], entry.get("source")),
        (&json!("=Rex"), None)
    );
    assert!(!run(home, &PERIOD).success().stdout.contains("Farm"));
    run(home, &["erase-source", "7", "1"]).assert_fails(
        1,
        &format!("{message}petstore: no deleted animal has the number 7;"),
    );
    run(home, &["erase-source", "x"]).assert_fails(2, "must be the number of an animal");
    run(home, &["check"]).success();
}

#[tokio::test]
async fn the_register_is_a_table_on_sqlite() {
    the_register_is_a_table(&Home::new()).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn the_register_is_a_table_on_postgres() {
    let cluster = Cluster::start_without_sync();
    let database = cluster.create_database();
    the_register_is_a_table(&Home::with_database(cluster.url(&database))).await;
}

#[test]
fn a_wrong_period_is_explained() {
    let home = Home::new();
    home.new_key();
    for (arguments, message) in [
        (
            ["--from", "2026-02-29", "--to", "2026-03-01"],
            "from: must be a date",
        ),
        (
            ["--from", "2026-02-02", "--to", "2026-02-01"],
            "from: must not be after to",
        ),
    ] {
        run(&home, &[&["register"], &arguments[..]].concat()).assert_fails(1, message);
    }
    let zone = [&PERIOD[..], &["--time-zone", "Berlin"]].concat();
    run(&home, &zone).assert_fails(1, "timeZone: must be the name of a time zone");
}
