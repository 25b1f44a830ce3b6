//! The optional members of an animal, and the sale, from the command line: files, copies, checks.

use std::fs;

use http::Method;
use serde_json::{Value, json};
use support::{Cluster, Receiver, eventually};

use crate::{
    client::Client,
    event_log::assert_logged,
    harness::{Home, Service},
    import_export::{exported, run},
};

/// Animals with every member, with texts that need quotes in a table, and with characters that
/// programs like to change: composed, invisible, from right to left, beyond 16 bits.
fn animals() -> String {
    let animals = [
        json!({
            "id": 1, "name": "Juniper", "categoryId": 3, "status": "available",
            "breed": "Cavalier; King, \"Charles\"", "sex": "female", "birthDate": "2026-08-02",
            "color": "=blenheim", "microchip": "985112004567890",
            "price": {"amount": 145_000, "currency": "USD"},
            "description": "Calm.\nLikes children.\r\n\tAnd naps.", "notes": "-1 tooth",
            "location": "Kennel 4", "acquiredOn": "1900-01-01",
            "source": {"name": "Hollow Oak", "address": "12 Mill Lane, MD", "licence": "'52"},
            "metadata": {"Feed-1": "puppy, small", "litter_2": "2026-07"},
        }),
        json!({
            "id": 2, "name": "Sumi", "categoryId": 1, "price": {"amount": 45_000, "currency": "JPY"},
            "source": {"name": "Old Farm"}, "metadata": {"zoo": "=1+1"},
        }),
        json!({
            "id": 3, "name": "Amal", "categoryId": 1, "status": "sold", "microchip": "985112004567890",
            "price": {"amount": 5, "currency": "KWD"},
        }),
        json!({"id": 4, "name": "Rex", "categoryId": 1}),
        json!({
            "id": 5, "name": "e\u{301} é \u{202e}cba", "categoryId": i64::MIN, "status": "pending",
            "breed": "ﷺ ﬁ İıß", "sex": "unknown", "birthDate": "2024-02-29",
            "color": "\u{a0}\u{2028}x\u{3000}", "microchip": "000000007",
            "price": {"amount": 1_000_000_000_000_i64, "currency": "EUR"},
            "description": "\u{feff}👩\u{200d}👩\u{200d}👧 \u{10ffff}\r\n", "notes": "\u{200b}'\\\"",
            "location": " 7 ", "acquiredOn": "2024-02-29",
            "source": {"name": "null", "address": "Ω≠Ω", "licence": "007"},
            "metadata": {"Feed-1": "1e5", "litter_2": "\u{301}", "zoo": "🐢"},
        }),
    ];
    let lines = animals.map(|animal: Value| {
        // The order of the members is that of the service.
        let text = serde_json::to_string(&animal).unwrap();
        text + "\n"
    });
    lines.concat()
}

fn values(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_member_survives_files_and_is_the_same_in_tables() {
    let home = Home::new();
    fs::write(home.path("animals.jsonl"), animals()).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    let lines = exported(&home);
    assert_eq!(values(&lines), values(&animals()));
    assert_logged(&home);
    run(&home, &["check"]).success();

    let table = run(&home, &["export", "--format", "csv"]).success().stdout;
    assert!(
        table.starts_with(
            "id,name,categoryId,status,breed,sex,birthDate,color,microchip,price,currency,\
             description,notes,location,acquiredOn,source.name,source.address,source.licence,\
             metadata.Feed-1,metadata.litter_2,metadata.zoo\n"
        ),
        "{table}"
    );
    assert!(table.contains(",985112004567890,1450.00,USD,"), "{table}");
    assert!(
        table.contains(",45000,JPY,") && table.contains(",0.005,KWD,"),
        "{table}"
    );
    for (file, content) in [("out.csv", &table), ("out.jsonl", &lines)] {
        let other = Home::new();
        fs::write(other.path(file), content).unwrap();
        run(&other, &["import", file]).success();
        assert_eq!(exported(&other), lines, "{file}");
        let again = run(&other, &["export", "--format", "csv"]).success().stdout;
        assert_eq!(again, table, "{file}");
    }
}

#[test]
fn tables_with_other_names_and_formats_are_imported() {
    let home = Home::new();
    let table = "Name;Category;Birth date;Price;Currency;Source name;Metadata.Own Key;metadata.ok\n\
                 Rex;1;2024-02-29;450,5;eur;Old Farm;;yes\n";
    fs::write(home.path("animals.csv"), table).unwrap();
    run(&home, &["import", "animals.csv"]).success();
    let expected = json!({
        "id": 1, "name": "Rex", "categoryId": 1, "birthDate": "2024-02-29",
        "price": {"amount": 45_050, "currency": "EUR"}, "source": {"name": "Old Farm"},
        "metadata": {"ok": "yes"},
    });
    assert_eq!(values(&exported(&home)), [expected]);

    let table = "name,categoryId,price,currency,metadata.a b\n\
                 A,1,450,,\nB,1,45.001,EUR,\nC,1,,,x\nD,1,-1,EUR,\n";
    fs::write(home.path("bad.csv"), table).unwrap();
    let failed = run(&home, &["import", "bad.csv"]);
    failed.assert_fails(1, "4 lines are invalid");
    for reason in [
        "line 2: currency: required for a price",
        "line 3: price: \"45.001\" may be 45001 or 45.001",
        "line 4: metadata: a key must be",
        "line 5: price: must be a decimal number",
    ] {
        assert!(failed.stderr.contains(reason), "{}", failed.stderr);
    }
}

/// Microchips that are taken are reported before anything is imported.
async fn taken_microchips_are_invalid_lines(home: &Home) {
    let lines = |chips: &[(&str, &str)]| {
        let lines = chips.iter().map(|(chip, status)| {
            let pet = json!({"name": "A", "categoryId": 1, "microchip": chip, "status": status});
            format!("{pet}\n")
        });
        lines.collect::<String>()
    };
    let first = lines(&[("123456789", "available"), ("987654321", "sold")]);
    fs::write(home.path("first.jsonl"), first).unwrap();
    run(home, &["import", "first.jsonl"]).success();
    let second = lines(&[
        ("123-456-789", "available"),
        ("123456789", "sold"),
        ("987654321", "available"),
        ("987 654 321", "pending"),
    ]);
    fs::write(home.path("second.jsonl"), second).unwrap();
    let failed = run(home, &["import", "second.jsonl"]);
    failed.assert_fails(1, "2 lines are invalid");
    for reason in [
        "line 1: microchip: animal 1 has this number",
        "line 4: microchip: line 3 has the same number",
    ] {
        assert!(failed.stderr.contains(reason), "{}", failed.stderr);
    }
    assert_eq!(exported(home).lines().count(), 2);
    let imported = run(home, &["import", "second.jsonl", "--skip-invalid"]).success();
    assert!(
        imported.stderr.contains("Imported 2 animals"),
        "{}",
        imported.stderr
    );
    assert_eq!(exported(home).lines().count(), 4);
}

#[tokio::test]
async fn taken_microchips_are_invalid_lines_on_sqlite() {
    taken_microchips_are_invalid_lines(&Home::new()).await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn taken_microchips_are_invalid_lines_on_postgres() {
    let cluster = Cluster::start();
    taken_microchips_are_invalid_lines(&Home::with_database(
        cluster.url(&cluster.create_database()),
    ))
    .await;
}

/// A line that is skipped gives its category no name.
#[test]
fn lines_that_are_skipped_have_no_effect_on_others() {
    let home = Home::new();
    let table = "name,categoryId,category,microchip\nRex,1,Dogs,123456789\n";
    fs::write(home.path("first.csv"), table).unwrap();
    run(&home, &["import", "first.csv"]).success();
    let table = "name,categoryId,category,microchip\n\
                 A,9,Ferrets,123456789\nB,,Ferrets,\nC,9,Ferrets,987654321\nD,,Ferrets,\n";
    fs::write(home.path("second.csv"), table).unwrap();
    let imported = run(&home, &["import", "second.csv", "--skip-invalid"]).success();
    for line in [
        "line 2: microchip: animal 1 has this number",
        "line 3: category: ",
        "Imported 2 animals and 1 category name, skipped 2 invalid lines",
    ] {
        assert!(imported.stderr.contains(line), "{}", imported.stderr);
    }
    assert_eq!(exported(&home).lines().count(), 3);
}

/// A copy has every member, orders with their buyers included. Its export brings the animals back
/// to a file.
#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn every_member_survives_a_copy_and_the_way_back() {
    let home = Home::new();
    fs::write(home.path("animals.jsonl"), animals()).unwrap();
    run(&home, &["import", "animals.jsonl"]).success();
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let buyer = json!({"name": "Åda\u{301} 🐢", "address": "4 Orchard Street", "contact": "a@b.c"});
    let order = json!({"petId": 1, "buyer": buyer, "reference": "=R-1"});
    let placed = client
        .send_json(Method::POST, "/v1/store/orders", &order, None)
        .await;
    assert_eq!(placed.unwrap().status, 201);
    service.stop();
    let orders = |home: &Home| run(home, &["export", "--orders"]).success().stdout;
    let table = |home: &Home, options: &[&str]| {
        let export = [&["export", "--format", "csv"], options].concat();
        run(home, &export).success().stdout
    };
    let cluster = Cluster::start();
    let copy = Home::with_database(cluster.url(&cluster.create_database()));
    home.petstore(&["copy", "--from", &home.url(), "--to", &copy.url()])
        .success();
    let lines = exported(&home);
    assert_eq!(exported(&copy), lines);
    assert_eq!(table(&copy, &[]), table(&home, &[]));
    assert_eq!(orders(&copy), orders(&home));
    assert!(orders(&home).contains("Åda\u{301} 🐢"), "{}", orders(&home));
    let sales = table(&home, &["--orders"]);
    assert!(
        sales.contains(",1450.00,USD,'=R-1,Åda\u{301} 🐢,4 Orchard Street,a@b.c\n"),
        "{sales}"
    );
    assert_eq!(table(&copy, &["--orders"]), sales);
    run(&copy, &["check"]).success();

    for (file, content) in [("back.jsonl", &lines), ("back.csv", &table(&copy, &[]))] {
        let back = Home::new();
        fs::write(back.path(file), content).unwrap();
        run(&back, &["import", file]).success();
        assert_eq!(exported(&back), lines, "{file}");
        run(&back, &["check"]).success();
    }
}

/// Sells an animal to a buyer whose name is found nowhere else, corrects and erases it.
async fn the_buyer_is_in_the_order_and_nowhere_else(home: &Home) {
    const BUYER: &str = "Zebedee Quillfeather";
    let key = home.new_key();
    let receiver = Receiver::start().await;
    let mut serve = home.serve_command();
    serve.args(["--webhook-allow-http", "--webhook-allow-net", "127.0.0.0/8"]);
    let service = Service::start(serve.args(["--metrics-listen", "127.0.0.1:0"]));
    let client = Client::new(&service, &key);
    let send = async |method, path: &str, body: Value, idempotency| {
        let sent = client.send_json(method, path, &body, idempotency).await;
        let response = sent.unwrap();
        assert!(response.status < 300, "{}", response.text());
        response.json()
    };
    let webhook = json!({"url": receiver.url()});
    send(Method::POST, "/v1/webhooks", webhook, None).await;
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    send(Method::POST, "/v1/pets", pet, None).await;
    let order = json!({"petId": 1, "buyer": {"name": BUYER, "contact": BUYER}});
    let placed = send(Method::POST, "/v1/store/orders", order, Some("sale")).await;
    assert_eq!(placed["buyer"]["name"], BUYER);
    let correction = json!({"buyer": {"address": BUYER}});
    send(Method::PATCH, "/v1/store/orders/1", correction, None).await;
    send(
        Method::POST,
        "/v1/store/orders/1/complete",
        Value::Null,
        Some("completed"),
    )
    .await;
    run(home, &["check"]).success();
    let erasure = json!({"buyer": null});
    send(Method::PATCH, "/v1/store/orders/1", erasure, None).await;
    eventually("every change is delivered", async || receiver.count() >= 6).await;
    let events = client.get("/v1/events").await.text();
    let metrics = service.metrics().await.text();
    let deliveries = receiver.received();
    let bodies = deliveries
        .iter()
        .map(|delivery| String::from_utf8_lossy(&delivery.body));
    let log = service.output();
    for text in bodies.map(String::from).chain([events, metrics, log]) {
        assert!(!text.contains("Quillfeather"), "{text}");
    }
    service.stop();
    run(home, &["check"]).success();
    for (file, content) in home.contents() {
        let mut windows = content.windows(BUYER.len());
        assert!(!windows.any(|text| text == BUYER.as_bytes()), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_buyer_is_in_the_order_and_nowhere_else_on_sqlite() {
    the_buyer_is_in_the_order_and_nowhere_else(&Home::new()).await;
}

/// Also if another program makes the change.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn the_buyer_is_in_the_order_and_nowhere_else_on_postgres() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    the_buyer_is_in_the_order_and_nowhere_else(&home).await;
    let stored = cluster.psql(&database, "SELECT database_to_xml(true, false, '')");
    assert!(stored.contains("<idempotency_keys"), "{stored}");
    assert!(!stored.contains("Quillfeather"), "{stored}");
    for sql in [
        "UPDATE orders SET buyer_name = 'Quillfeather', buyer_address = 'Quillfeather',
                           buyer_contact = 'Quillfeather', reference = 'A'",
        "UPDATE orders SET status = 'returned', returned_at = updated_at;
         UPDATE pets SET status = 'available'",
        "UPDATE orders SET buyer_name = NULL, buyer_address = NULL, buyer_contact = NULL",
    ] {
        cluster.psql(&database, sql);
    }
    let logged = "SELECT type, data FROM events WHERE is_row ORDER BY sequence";
    let logged = cluster.psql(&database, logged);
    assert!(logged.contains("order.updated"), "{logged}");
    assert!(logged.contains("order.returned"), "{logged}");
    assert!(!logged.contains("Quillfeather"), "{logged}");
    run(&home, &["check"]).success();
}

/// PostgreSQL describes a row that it rejects, and the service must not log that. A constraint of
/// the operator is such a case.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn a_rejected_order_does_not_log_its_buyer() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    let created = client.send_json(Method::POST, "/v1/pets", &pet, None).await;
    assert_eq!(created.unwrap().status, 201);
    let add = "ALTER TABLE orders ADD CONSTRAINT mine CHECK (reference IS NOT NULL)";
    cluster.psql(&database, add);
    let order = json!({"petId": 1, "buyer": {"name": "Zebedee Quillfeather"}});
    let sent = client.send_json(Method::POST, "/v1/store/orders", &order, None);
    assert_eq!(sent.await.unwrap().status, 500);
    service.event("request failed");
    let log = service.output();
    assert!(log.contains("check constraint \\\"mine\\\""), "{log}");
    assert!(!log.contains("Quillfeather"), "{log}");
}

/// Values that another program may write, and that the service could not read.
const UNREADABLE: [&str; 8] = [
    "UPDATE pets SET birth_date = '2026-8-2'",
    "UPDATE pets SET birth_date = '2026-02-30'",
    "UPDATE pets SET acquired_on = 'May'",
    "UPDATE pets SET microchip = '985-112-004-567-890'",
    "UPDATE pets SET price_amount = 1, price_currency = 'euro'",
    "UPDATE pets SET metadata = '[]'",
    r#"UPDATE pets SET metadata = '{"a": {"b": "c"}}'"#,
    "UPDATE orders SET price_amount = 1, price_currency = 'euro'",
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL"]
async fn values_of_other_programs_do_not_stop_the_event_log() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let pet = json!({"name": "Rex", "categoryId": 1, "status": "available"});
    let created = client.send_json(Method::POST, "/v1/pets", &pet, None).await;
    assert_eq!(created.unwrap().status, 201);
    let order = json!({"petId": 1});
    let sent = client.send_json(Method::POST, "/v1/store/orders", &order, None);
    assert_eq!(sent.await.unwrap().status, 201);
    for sql in UNREADABLE {
        let failed = cluster.psql_command(&database).arg(sql).output().unwrap();
        assert!(!failed.status.success(), "{sql}");
    }
    cluster.psql(
        &database,
        "UPDATE pets SET birth_date = '2024-02-29', acquired_on = '1900-01-01',
             price_amount = 1, price_currency = 'DEM', microchip = '985112004567890',
             metadata = E'{\\n \"a\": \"b\"}'",
    );
    let pet = client.get("/v1/pets/1").await;
    assert!(
        pet.text().contains(r#""metadata":{"a":"b"}"#),
        "{}",
        pet.text()
    );
    assert_eq!(pet.json()["price"]["currency"], "DEM");

    // An operator may drop a constraint.
    cluster.psql(
        &database,
        "ALTER TABLE pets DROP CONSTRAINT pets_birth_date_check;
         UPDATE pets SET birth_date = '2026-8-2';
         UPDATE orders SET created_at = -9223372036854775808",
    );
    client.create("Ada").await.unwrap();
    let events = client.get("/v1/events?sort=desc&limit=3").await.json();
    assert_eq!(events[0]["data"]["name"], "Ada");
    assert_eq!(events[1]["data"], json!({"id": 1}), "{events}");
    assert_eq!(events[2]["data"]["acquiredOn"], "1900-01-01");
    assert_eq!(events[2]["data"].get("birthDate"), None);
    service.stop();
    let checked = run(&home, &["check"]);
    checked.assert_fails(1, "problems found");
    for problem in [
        "animals with a value that cannot be read: 1 (id 1)\n",
        "orders with a value that cannot be read: 1 (id 1)\n",
    ] {
        assert!(checked.stdout.contains(problem), "{checked:?}");
    }
}
