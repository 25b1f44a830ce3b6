//! `petstore copy`: migrating the data from SQLite to PostgreSQL.

use domain::photo::PART_BYTES;
use http::Method;
use rusqlite::Connection;
use serde_json::{Value, json};
use support::{Cluster, CommandResult};

use crate::{client::Client, harness::Home, photos::add_photo};

const ORDERS: &str = "/v1/store/orders";
const PHOTOS: &str = "/v1/pets/2/photos";

fn copy(home: &Home, to: &str) -> CommandResult {
    home.petstore(&["copy", "--from", &home.url(), "--to", to])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn copy_preserves_all_data() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = Home::new();
    let there = Home::with_database(cluster.url(&database));
    let key = home.new_key();
    let revoked = home.new_key();
    home.keys(&["revoke", "2"]).success();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let pet = json!({"name": "Żółw", "categoryId": 1});
    let created = client.send_json(Method::POST, "/v1/pets", &pet, Some("till-1"));
    assert_eq!(created.await.unwrap().status, 201);
    for n in 1..1234 {
        let created = client.create(&format!("Żółw \"{n}\" 🐢")).await.unwrap();
        assert_eq!(created.status, 201);
    }
    let mut photos = Vec::new();
    for seed in 0..3 {
        let added = add_photo(&client, 2, seed).await;
        photos.push(added.unwrap().json());
    }
    let photo_paths: Vec<_> = photos
        .iter()
        .map(|photo| format!("{PHOTOS}/{}", photo["id"]))
        .collect();
    let deleted = client.send_json(Method::DELETE, &photo_paths[2], &Value::Null, None);
    assert_eq!(deleted.await.unwrap().status, 204);
    let images = async |client: &Client| {
        let mut images = Vec::new();
        for path in &photo_paths {
            for size in ["full", "thumb"] {
                let response = client.get(&format!("{path}?size={size}")).await;
                images.push((response.status, response.body));
            }
        }
        images
    };
    let images_before = images(&client).await;
    assert!(images_before[0].1.len() > PART_BYTES);
    // A served database changes during the copy.
    let busy = copy(&home, &there.url());
    busy.assert_fails(1, "in use by another petstore process");
    let before = (
        client.pets().await,
        client.get("/v1/pets?limit=100").await.json(),
    );
    service.stop();
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(
        "INSERT INTO orders (id, pet_id, status, created_at, updated_at, expires_at, completed_at) VALUES (7, 3, 'placed', 1, 2, 4000000000000000, NULL);
         INSERT INTO categories VALUES (-5, 'Dogs', 'dogs');
         INSERT INTO settings VALUES (1, 'Żółw & Co', 'a\nb', NULL, 'PLN');
         UPDATE orders SET id = 70 WHERE id = 7;
         UPDATE pets SET status = 'pending' WHERE id = 3;
         DELETE FROM pets WHERE id = 1234",
    )
    .unwrap();
    let count = "SELECT count(*) FROM events";
    let events: i64 = db.query_row(count, [], |row| row.get(0)).unwrap();
    db.close().unwrap();

    let done = copy(&home, &there.url()).success();
    let output = format!(
        "Copied 1233 animals, 1 category name, 1 order, 2 API keys, 0 webhooks and {events} events."
    );
    assert!(done.stderr.contains(&output), "{done:?}");

    let service = there.serve();
    let client = Client::new(&service, &key);
    assert_eq!(cluster.psql(&database, count), events.to_string());
    assert_eq!(client.pets().await, before.0[..1233]);
    assert!(images(&client).await == images_before);
    // The photo that was removed can still be brought back, and its id is not reused.
    let all: Vec<_> = photos.iter().map(|photo| &photo["id"]).collect();
    let all = json!({"ids": all});
    let restored = client.send_json(Method::PUT, PHOTOS, &all, None);
    assert_eq!(restored.await.unwrap().json(), json!(photos));
    let next = add_photo(&client, 2, 3).await.unwrap().json();
    assert!(next["id"].as_i64() > photos[2]["id"].as_i64(), "{next}");
    let orders = client.get("/v1/store/orders").await.json();
    assert_eq!(
        (&orders[0]["id"], &orders[0]["petId"]),
        (&70.into(), &3.into())
    );
    assert_eq!(orders[0]["expiresAt"], "2096-10-02T07:06:40Z");
    let categories = client.get("/v1/categories").await.json();
    assert_eq!(categories, json!([{"id": -5, "name": "Dogs"}]));
    let settings = client.get("/v1/store/settings").await.json();
    let shop = json!({"name": "Żółw & Co", "address": "a\nb", "currency": "PLN"});
    assert_eq!(settings, shop);
    let pending = client.get("/v1/pets?status=pending").await.json();
    assert_eq!(pending[0]["id"], 3);
    // The order reserves its pet, the inventory is right, and a retry with an
    // old idempotency key is replayed.
    let sold = json!({"status": "sold"});
    let update = client.send_json(Method::PATCH, "/v1/pets/3", &sold, None);
    update.await.unwrap().assert_error(409, "pet_reserved");
    let inventory = client.get("/v1/store/inventory").await.json();
    assert_eq!(
        inventory,
        json!({"available": 0, "pending": 1, "sold": 0, "total": 1233})
    );
    let again = client.send_json(Method::POST, "/v1/pets", &pet, Some("till-1"));
    let again = again.await.unwrap();
    assert_eq!((again.status, &again.json()["id"]), (201, &json!(1)));
    assert!(again.headers.contains_key("idempotent-replayed"));
    let rejected = Client::new(&service, &revoked).get("/v1/pets").await;
    rejected.assert_error(401, "invalid_api_key");
    // The id of the deleted pet is not reused.
    let next = client.create("Rex").await.unwrap();
    assert!(next.json()["id"].as_i64().unwrap() > 1234, "{next:?}");
    // New orders come after the one whose id was set by hand.
    let available = json!({"status": "available"});
    let updated = client.send_json(Method::PATCH, "/v1/pets/4", &available, None);
    assert_eq!(updated.await.unwrap().status, 200);
    let order = json!({"petId": 4});
    let placed = client.send_json(Method::POST, "/v1/store/orders", &order, None);
    assert_eq!(placed.await.unwrap().json()["id"], 71);

    let again = copy(&home, &there.url());
    again.assert_fails(1, "its table pets has rows (1234)");
    assert_eq!(client.pets().await.len(), 1234);
}

/// Sales continue after a copy where they were before it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn sales_go_on_after_a_copy() {
    let cluster = Cluster::start();
    let home = Home::new();
    let there = Home::with_database(cluster.url(&cluster.create_database()));
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let send = async |client: &Client, method, path: &str, body: Value, key: Option<&str>| {
        let sent = client.send_json(method, path, &body, key).await;
        sent.unwrap()
    };
    for (id, name) in [(i64::MIN, "Ptaki"), (0, "Żółwie"), (7, "Dogs")] {
        let path = format!("/v1/categories/{id}");
        let named = send(&client, Method::PUT, &path, json!({"name": name}), None).await;
        assert_eq!(named.status, 201, "{named:?}");
    }
    // What happens to each animal. The order has the id of its animal.
    let histories: [(&str, &[&str]); 5] = [
        ("Żółw 1", &["complete"]),
        ("ŻÓŁW 2", &["complete", "return"]),
        ("żo\u{301}łw 3", &["cancel"]),
        ("Żaba", &[]),
        ("Żółw 5", &["complete"]),
    ];
    let mut responses = Vec::new();
    for (n, (name, history)) in histories.iter().enumerate() {
        let n = n + 1;
        let pet = json!({
            "name": name, "categoryId": 0, "status": "available", "acquiredOn": "2026-02-28",
            "source": {"name": "Hodowla"}, "price": {"amount": 100, "currency": "PLN"},
        });
        let created = send(&client, Method::POST, "/v1/pets", pet, None).await;
        assert_eq!(created.json()["id"], n);
        let place = json!({"petId": n});
        let key = format!("place-{n}");
        let placed = send(&client, Method::POST, ORDERS, place, Some(&key)).await;
        assert_eq!((placed.status, &placed.json()["id"]), (201, &json!(n)));
        for to in *history {
            let path = format!("{ORDERS}/{n}/{to}");
            let key = format!("{to}-{n}");
            let changed = send(&client, Method::POST, &path, Value::Null, Some(&key)).await;
            assert_eq!(changed.status, 200, "{changed:?}");
            responses.push((path, key, changed.json()));
        }
    }
    let deleted = send(&client, Method::DELETE, "/v1/pets/5", Value::Null, None).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
    let batch = json!({"changes": [
        {"create": {"name": "Rex", "categoryId": 3}},
        {"id": 3, "update": {"notes": "by a batch"}},
    ]});
    let changed = send(&client, Method::POST, "/v1/pets/batch", batch, None).await;
    let batch = changed.json()["batchId"].as_str().unwrap().to_string();
    let settings = json!({"name": "Zoo Żółw"});
    let set = send(&client, Method::PATCH, "/v1/store/settings", settings, None).await;
    assert_eq!(set.status, 200, "{set:?}");
    let today = jiff::Timestamp::now().to_string()[..10].to_string();
    let sold = format!("from=2026-01-01&to={today}");
    let sold_register = format!("/v1/store/register?entry=sold&{sold}");
    let sales = format!("/v1/store/sales?by=category&{sold}");
    let lists = [
        "/v1/events?limit=1000",
        "/v1/events?subject=pets/5&sort=desc",
        "/v1/events?subject=orders/2",
        "/v1/store/register?entry=acquired&from=2026-02-01&to=2026-02-28",
        &sold_register,
        &sales,
        "/v1/store/settings",
        "/v1/categories",
        ORDERS,
        "/v1/store/orders?status=returned",
        "/v1/pets?categoryId=0",
        "/v1/pets?name=%C5%BC%C3%93%C5%81w",
        "/v1/store/inventory",
    ];
    let read = async |client: &Client| {
        let mut read = Vec::new();
        for list in lists {
            let mut list = client.get(list).await.json();
            // The copy is a store of its own.
            for item in list.as_array_mut().into_iter().flatten() {
                if item.get("specversion").is_some() {
                    item.as_object_mut().unwrap().remove("source");
                }
            }
            read.push(list);
        }
        read
    };
    let before = read(&client).await;
    for (list, length) in [(1, 4), (2, 3), (3, 5), (4, 3), (11, 3)] {
        let list = &before[list];
        assert_eq!(list.as_array().unwrap().len(), length, "{list}");
    }
    let position = before[0].as_array().unwrap().last().unwrap()["id"].clone();
    let later = format!("/v1/events?after={}", position.as_str().unwrap());
    service.stop();

    let copied = copy(&home, &there.url()).success();
    let output = "Copied 5 animals, 3 category names, 5 orders, 1 API key, 0 webhooks and ";
    assert!(copied.stderr.contains(output), "{copied:?}");
    let check = ["check", "--database", &there.url()];
    there.petstore(&check).success();
    let service = there.serve();
    let client = Client::new(&service, &key);
    assert_eq!(read(&client).await, before);
    // A client continues where it was, and no event takes the number of another.
    assert_eq!(client.get(&later).await.json(), json!([]));
    let undo = format!("/v1/pets/batch/{batch}/undo");
    let undone = send(&client, Method::POST, &undo, Value::Null, None).await;
    assert_eq!(undone.status, 200, "{undone:?}");
    let undone = client.get(&later).await.json();
    let types = undone
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["type"]);
    let expected = [json!("pet.updated"), json!("pet.deleted")];
    assert_eq!(
        types.collect::<Vec<_>>(),
        expected.iter().collect::<Vec<_>>()
    );
    let expect = async |method, path: &str, body, expected| {
        let response = send(&client, method, path, body, None).await;
        let body = response.json();
        let got = (response.status, body["code"].as_str());
        assert_eq!(got, expected, "{path}: {response:?}");
    };
    // What the active orders claim.
    let available = json!({"status": "available"});
    let sold = (409, Some("pet_sold"));
    expect(Method::PATCH, "/v1/pets/1", available.clone(), sold).await;
    let reserved = (409, Some("pet_reserved"));
    expect(Method::PATCH, "/v1/pets/4", available, reserved).await;
    expect(Method::DELETE, "/v1/pets/4", Value::Null, reserved).await;
    let not_available = (409, Some("pet_not_available"));
    expect(Method::POST, ORDERS, json!({"petId": 1}), not_available).await;
    let taken = (409, Some("category_name_taken"));
    let name = json!({"name": "ŻÓŁWIE"});
    expect(Method::PUT, "/v1/categories/1", name, taken).await;
    let not_returnable = (409, Some("order_not_returnable"));
    for order in [2, 3, 4, 5] {
        let path = format!("{ORDERS}/{order}/return");
        expect(Method::POST, &path, Value::Null, not_returnable).await;
    }
    // A completed order is returned, once.
    let path = format!("{ORDERS}/1/return");
    let returned = send(&client, Method::POST, &path, Value::Null, Some("return-1")).await;
    assert_eq!(
        (returned.status, &returned.json()["status"]),
        (200, &json!("returned"))
    );
    responses.push((path, "return-1".into(), returned.json()));
    // Retries see the orders as they were, also those that were returned since.
    for (path, key, body) in responses {
        let again = send(&client, Method::POST, &path, Value::Null, Some(&key)).await;
        assert_eq!((again.status, again.json()), (200, body), "{path}");
        assert!(again.headers.contains_key("idempotent-replayed"), "{path}");
    }
    expect(Method::POST, ORDERS, json!({"petId": 1}), (201, None)).await;
    expect(Method::POST, ORDERS, json!({"petId": 2}), (201, None)).await;
    there.petstore(&check).success();
}

#[test]
fn copy_only_goes_from_sqlite_to_postgres() {
    let home = Home::new();
    let file = home.url();
    let server = "postgres://till@127.0.0.1:9/shop";
    for (from, to, wrong) in [
        (server, server, "--from"),
        (&*file, &*file, "--to"),
        (&*file, "nonsense", "--to"),
    ] {
        let rejected = home.petstore(&["copy", "--from", from, "--to", to]);
        rejected.assert_fails(2, wrong);
    }
    let missing = home.petstore(&["copy", "--from", &file, "--to", server]);
    missing.assert_fails(1, "there is no database");
}
