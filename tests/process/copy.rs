//! `petstore copy`: migrating the data from SQLite to PostgreSQL.

use reqwest::Method;
use rusqlite::Connection;
use serde_json::json;

use crate::{
    client::Client,
    harness::{Finished, Home},
    postgres::Cluster,
};

fn copy(home: &Home, to: &str) -> Finished {
    home.petstore(&["copy", "--from", &home.url(), "--to", to])
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn copy_preserves_all_data() {
    let cluster = Cluster::start();
    let (home, there) = (
        Home::new(),
        Home::with_database(cluster.url(&cluster.create_database())),
    );
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
    // A served database changes during the copy.
    let busy = copy(&home, &there.url());
    busy.assert_fails(1, "in use by another petstore process");
    let before = (
        client.pets().await,
        client.get("/v1/pets?limit=100").await.body,
    );
    service.stop();
    let db = Connection::open(home.database()).unwrap();
    db.execute_batch(
        "INSERT INTO orders VALUES (7, 3, 'placed', 1, 2, 4000000000000000, NULL);
         INSERT INTO categories VALUES (-5, 'Dogs', 'dogs');
         UPDATE pets SET status = 'pending' WHERE id = 3;
         DELETE FROM pets WHERE id = 1234",
    )
    .unwrap();
    db.close().unwrap();

    let done = copy(&home, &there.url()).success();
    let output = "Copied 1233 animals, 1 category name, 1 order and 2 API keys.";
    assert!(done.stderr.contains(output), "{done:?}");

    let service = there.serve();
    let client = Client::new(&service, &key);
    assert_eq!(client.pets().await, before.0[..1233]);
    let orders = client.get("/v1/store/orders").await.body;
    assert_eq!(
        (&orders[0]["id"], &orders[0]["petId"]),
        (&7.into(), &3.into())
    );
    assert_eq!(orders[0]["expiresAt"], "2096-10-02T07:06:40Z");
    let categories = client.get("/v1/categories").await.body;
    assert_eq!(categories, json!([{"id": -5, "name": "Dogs"}]));
    let pending = client.get("/v1/pets?status=pending").await.body;
    assert_eq!(pending[0]["id"], 3);
    // The order reserves its pet, the inventory is right, and a retry with an
    // old idempotency key is replayed.
    let sold = json!({"status": "sold"});
    let update = client.send_json(Method::PATCH, "/v1/pets/3", &sold, None);
    update.await.unwrap().assert_error(409, "pet_reserved");
    let inventory = client.get("/v1/store/inventory").await.body;
    assert_eq!(
        inventory,
        json!({"available": 0, "pending": 1, "sold": 0, "total": 1233})
    );
    let again = client.send_json(Method::POST, "/v1/pets", &pet, Some("till-1"));
    let again = again.await.unwrap();
    assert_eq!((again.status, &again.body["id"]), (201, &json!(1)));
    assert!(again.headers.contains_key("idempotent-replayed"));
    let rejected = Client::new(&service, &revoked).get("/v1/pets").await;
    rejected.assert_error(401, "invalid_api_key");
    // The id of the deleted pet is not reused.
    let next = client.create("Rex").await.unwrap();
    assert_eq!(next.body["id"], 1235);

    let again = copy(&home, &there.url());
    again.assert_fails(1, "pets has 1234 rows");
    assert_eq!(client.pets().await.len(), 1234);
}

#[test]
fn copy_only_goes_from_sqlite_to_postgres() {
    let home = Home::new();
    let (file, server) = (home.url(), "postgres://till@127.0.0.1:9/shop");
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
