//! `GET /store/sales` and `GET /store/register`. The numbers themselves are compared with the event
//! log by the tests of the store.

use domain::api_key::Scope;
use http::Method;
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};
use support::{Backend, Response};

use crate::harness::Server;

support::cases! {
    DATABASES: [
        an_empty_store_has_empty_reports,
        sales_are_counted_by_time_category_and_key,
        a_report_changes_with_the_next_sale,
        a_report_has_a_limit,
        scanned_orders_are_charged_to_the_rate_limit,
        the_register_needs_both_scopes,
        the_register_lists_what_was_acquired,
        the_register_lists_what_was_sold,
        the_register_is_read_in_pages,
        an_undone_batch_is_not_in_the_register,
    ],
}

/// The month in which the tests run, for clocks that are a day apart.
fn period() -> String {
    let now = Timestamp::now();
    let day = |hours| {
        let time = now + jiff::SignedDuration::from_hours(hours);
        TimeZone::UTC.to_datetime(time).date()
    };
    format!("from={}&to={}", day(-48), day(48))
}

async fn create(server: &Server, name: &str, category: i64) -> i64 {
    let pet = json!({
        "name": name, "categoryId": category, "status": "available", "breed": "Spaniel",
        "sex": "male", "birthDate": "2026-01-02", "color": "black",
        "acquiredOn": "2026-02-28", "source": {"name": "Farm", "licence": "12-A"},
        "price": {"amount": 45_000, "currency": "EUR"}, "notes": "secret",
    });
    server.create(pet).await
}

/// Sells a pet and returns the order.
async fn sell(server: &Server, pet: i64) -> i64 {
    let order = json!({"petId": pet, "buyer": {"name": "Ada"}, "reference": "R-1"});
    let placed = server.post("/v1/store/orders", order.to_string()).await;
    let order = placed.json()["id"].as_i64().unwrap();
    assert_eq!(server.transition(order, "complete").await.status, 200);
    order
}

async fn sales(server: &Server, query: &str) -> Value {
    let response = server.get(&format!("/v1/store/sales?{query}")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()
}

async fn register(server: &Server, query: &str) -> Vec<Value> {
    server.walk(&format!("/v1/store/register?{query}")).await
}

async fn an_empty_store_has_empty_reports(backend: Backend) {
    let server = Server::start(backend).await;
    let report = sales(
        &server,
        "from=2026-02-03&to=2026-02-03&timeZone=asia/kathmandu",
    )
    .await;
    let expected = json!({
        "from": "2026-02-03", "to": "2026-02-03", "by": "day", "timeZone": "Asia/Kathmandu",
        "groups": [], "totals": [],
    });
    assert_eq!(report, expected);
    let this_month = sales(&server, "").await;
    assert_eq!(this_month["timeZone"], "UTC");
    assert!(this_month["from"].as_str().unwrap().ends_with("-01"));
    for entry in ["acquired", "sold"] {
        assert!(
            register(&server, &format!("entry={entry}"))
                .await
                .is_empty()
        );
    }
}

async fn sales_are_counted_by_time_category_and_key(backend: Backend) {
    let mut server = Server::start(backend).await;
    let first = create(&server, "A", 3).await;
    let second = create(&server, "B", -7).await;
    let sold = sell(&server, first).await;
    let key = server.get("/v1/keys/current").await.json()["id"].clone();
    server.key = server.create_key(&Scope::ALL, None).await;
    let other = server.get("/v1/keys/current").await.json()["id"].clone();
    sell(&server, second).await;
    // By another key, and after the category has changed.
    server
        .patch(&format!("/v1/pets/{first}"), r#"{"categoryId":4}"#)
        .await;
    assert_eq!(server.transition(sold, "return").await.status, 200);
    let correction = r#"{"price":{"amount":100,"currency":"USD"}}"#;
    let path = format!("/v1/store/orders/{}", sold + 1);
    assert_eq!(server.patch(&path, correction).await.status, 200);
    let returned = json!({
        "currency": "EUR", "sold": 1, "returned": 1, "soldAmount": 45_000,
        "returnedAmount": 45_000, "amount": 0,
    });
    let kept = json!({
        "currency": "USD", "sold": 1, "returned": 0, "soldAmount": 100, "returnedAmount": 0,
        "amount": 100,
    });
    let period = period();
    for by in ["day", "week", "month", "category", "key"] {
        let report = sales(&server, &format!("{period}&by={by}")).await;
        assert_eq!(report["totals"], json!([returned, kept]), "{by}");
    }
    let groups = sales(&server, &format!("{period}&by=category")).await;
    let expected = json!([
        {"categoryId": -7, "totals": [kept]},
        {"categoryId": 3, "totals": [returned]},
    ]);
    assert_eq!(groups["groups"], expected);
    let groups = sales(&server, &format!("{period}&by=key")).await;
    let expected = json!([
        {"keyId": key, "totals": [returned]},
        {"keyId": other, "totals": [kept]},
    ]);
    assert_eq!(groups["groups"], expected);
    // An order without a price, and one that other programs have completed.
    server.patch(&path, r#"{"price":null}"#).await;
    server
        .database
        .execute("UPDATE orders SET completed_by = NULL");
    let groups = sales(&server, &format!("{period}&by=key&again=1")).await["groups"].clone();
    let unpriced = json!({"sold": 1, "returned": 0});
    assert_eq!(groups, json!([{"totals": [returned, unpriced]}]));
}

async fn a_report_changes_with_the_next_sale(backend: Backend) {
    let server = Server::start(backend).await;
    let pets = [create(&server, "A", 1).await, create(&server, "B", 1).await];
    let period = period();
    let paths = [
        format!("/v1/store/sales?{period}"),
        format!("/v1/store/register?{period}&entry=sold"),
    ];
    let conditional = async |path: &str, name: &str, tag: &str| -> Response {
        server
            .request(Method::GET, path)
            .header(name, tag)
            .send()
            .await
    };
    let mut tags = Vec::new();
    for pet in pets {
        sell(&server, pet).await;
        for path in &paths {
            let response = server.get(path).await;
            let tag = response.header("etag").unwrap().to_string();
            assert!(!tags.contains(&tag), "{path}");
            let same = conditional(path, "if-none-match", &tag).await;
            assert_eq!(same.status, 304);
            let other = conditional(path, "if-match", "\"other\"").await;
            other.assert_error(412, "precondition_failed");
            tags.push(tag);
        }
    }
    for path in &paths {
        for tag in &tags[..2] {
            assert_eq!(conditional(path, "if-none-match", tag).await.status, 200);
        }
    }
}

async fn a_report_has_a_limit(backend: Backend) {
    let server = Server::start(backend).await;
    let insert = match backend {
        Backend::Postgres => {
            "INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at, category_id) \
             SELECT n, 'completed', 0, 0, 86400000000, n FROM generate_series(1, 10001) AS n"
        }
        _ => {
            "WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < 10001) \
              INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at, category_id) \
              SELECT n, 'completed', 0, 0, 86400000000, n FROM numbers"
        }
    };
    server.database.execute(insert);
    let query = "from=1970-01-01&to=1970-01-05";
    let response = server
        .get(&format!("/v1/store/sales?{query}&by=category"))
        .await;
    response.assert_error(400, "invalid_parameter");
    let message = response.json()["message"].clone();
    assert_eq!(
        message,
        "by: gives more than 10000 totals; choose a shorter period"
    );
    // They have neither a price nor a key.
    let report = sales(&server, &format!("{query}&by=key")).await;
    let totals = json!([{"sold": 10_001, "returned": 0}]);
    assert_eq!(report["groups"], json!([{"totals": totals}]));
    // Their animals are not known any more.
    let first = server
        .get(&format!("/v1/store/register?entry=sold&limit=1&{query}"))
        .await;
    let sale = json!({"orderId": 1, "soldAt": "1970-01-02T00:00:00Z"});
    assert_eq!(first.json(), json!([{"petId": 1, "sale": sale}]));
}

/// The days that a rejected report has read are kept, so that the next one continues.
async fn scanned_orders_are_charged_to_the_rate_limit(backend: Backend) {
    let mut server = Server::start_with(backend, |config| {
        config.service.api.rate_limit = Some("3/24h".parse().unwrap());
    })
    .await;
    // 1,000 on each of 40 days.
    let columns = "pet_id, status, created_at, updated_at, completed_at";
    let row = "n, 'completed', 0, n * 86400000, n * 86400000";
    server.database.execute(&match backend {
        Backend::Postgres => format!(
            "SET petstore.logs = 'on';
             INSERT INTO orders ({columns}) SELECT {row} FROM generate_series(0::bigint, 39999) AS n"
        ),
        _ => format!(
            "WITH RECURSIVE numbers (n) AS (
                 VALUES (0) UNION ALL SELECT n + 1 FROM numbers WHERE n < 39999)
             INSERT INTO orders ({columns}) SELECT {row} FROM numbers"
        ),
    });
    let path = "/v1/store/sales?from=1970-01-01&to=1970-02-09&by=month";
    let other = server.create_key(&Scope::ALL, None).await;
    let rejected = server.get(path).await;
    rejected.assert_error(429, "rate_limited");
    server.key = other;
    for remaining in [1, 0] {
        let response = server.get(path).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(
            response.json()["totals"],
            json!([{"sold": 40_000, "returned": 0}])
        );
        let quota = response.header("ratelimit").unwrap();
        assert!(quota.contains(&format!("r={remaining};")), "{quota}");
    }
}

async fn the_register_needs_both_scopes(backend: Backend) {
    let server = Server::start(backend).await;
    for (scopes, missing) in [
        (vec![Scope::OrdersRead], Some("pets:read")),
        (vec![Scope::PetsRead], Some("orders:read")),
        (vec![Scope::PetsRead, Scope::OrdersRead], None),
    ] {
        let key = server.create_key(&scopes, None).await;
        let request = server.request(Method::GET, "/v1/store/register?entry=sold");
        let response = request.with_key(&key).send().await;
        match missing {
            None => assert_eq!(response.status, 200),
            Some(scope) => {
                response.assert_error(403, "insufficient_scope");
                assert!(response.text().contains(scope), "{}", response.text());
            }
        }
    }
}

fn animal(id: i64, name: &str) -> Value {
    json!({
        "petId": id, "name": name, "categoryId": 1, "breed": "Spaniel", "sex": "male",
        "birthDate": "2026-01-02", "color": "black", "acquiredOn": "2026-02-28",
        "source": {"name": "Farm", "licence": "12-A"},
    })
}

async fn sale_of(server: &Server, order: i64) -> Value {
    let order = server
        .get(&format!("/v1/store/orders/{order}"))
        .await
        .json();
    json!({
        "orderId": order["id"], "soldAt": order["updatedAt"], "price": order["price"],
        "buyer": order["buyer"], "reference": order["reference"],
    })
}

async fn the_register_lists_what_was_acquired(backend: Backend) {
    let server = Server::start(backend).await;
    let [a, b, c] = [
        create(&server, "A", 1).await,
        create(&server, "B", 1).await,
        create(&server, "C", 1).await,
    ];
    server
        .create(json!({"name": "No date", "categoryId": 1}))
        .await;
    // The second is returned and sold again, and the third is sold and deleted.
    let returned = sell(&server, b).await;
    server.transition(returned, "return").await;
    let sold = sell(&server, b).await;
    let last = sell(&server, c).await;
    assert_eq!(server.delete(&format!("/v1/pets/{c}")).await.status, 204);
    let mut expected = [animal(a, "A"), animal(b, "B"), animal(c, "C")];
    expected[1]["sale"] = sale_of(&server, sold).await;
    expected[2]["sale"] = sale_of(&server, last).await;
    let listed = register(&server, "entry=acquired&from=2026-02-28&to=2026-02-28").await;
    expected[2]["deletedAt"] = listed[2]["deletedAt"].clone();
    assert!(expected[2]["deletedAt"].is_string());
    assert_eq!(listed, expected);
    for other in [
        "from=2026-02-01&to=2026-02-27",
        "from=2026-03-01&to=2026-03-31",
    ] {
        assert!(
            register(&server, &format!("entry=acquired&{other}"))
                .await
                .is_empty()
        );
    }
}

async fn the_register_lists_what_was_sold(backend: Backend) {
    let server = Server::start(backend).await;
    let pet = create(&server, "A", 1).await;
    let returned = sell(&server, pet).await;
    let mut first = sale_of(&server, returned).await;
    server.transition(returned, "return").await;
    let open = server.place_order(create(&server, "Open", 1).await).await;
    let order = sell(&server, pet).await;
    let second = sale_of(&server, order).await;
    // The buyer is erased, which changes the order but not the sale.
    for order in [returned, order] {
        let path = format!("/v1/store/orders/{order}");
        assert_eq!(server.patch(&path, r#"{"buyer":null}"#).await.status, 200);
    }
    let listed = register(&server, &format!("entry=sold&{}", period())).await;
    assert_ne!(listed[0]["sale"]["orderId"], open);
    first["returnedAt"] = listed[0]["sale"]["returnedAt"].clone();
    assert!(first["returnedAt"].is_string());
    let mut expected = Vec::new();
    for mut sale in [first, second] {
        sale.as_object_mut().unwrap().remove("buyer");
        let mut entry = animal(pet, "A");
        entry["sale"] = sale;
        expected.push(entry);
    }
    assert_eq!(listed, expected);
}

async fn the_register_is_read_in_pages(backend: Backend) {
    let server = Server::start(backend).await;
    for n in 0..5 {
        let pet = create(&server, &n.to_string(), 1).await;
        sell(&server, pet).await;
        if n % 2 == 0 {
            server.delete(&format!("/v1/pets/{pet}")).await;
        }
    }
    let days = period();
    for query in [
        "entry=acquired&from=2026-01-01&to=2026-12-31".to_string(),
        format!("entry=sold&{days}&timeZone=Pacific/Chatham"),
    ] {
        let all = register(&server, &format!("{query}&limit=100")).await;
        let names: Vec<_> = all
            .iter()
            .map(|entry| entry["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["0", "1", "2", "3", "4"]);
        for limit in 1..=5 {
            assert_eq!(
                register(&server, &format!("{query}&limit={limit}")).await,
                all
            );
        }
        let first = server
            .get(&format!("/v1/store/register?{query}&limit=2"))
            .await;
        let next = first.next().unwrap();
        let cursor = next.split_once("cursor=").unwrap().1;
        for other in ["entry=acquired&from=2026-01-02&to=2026-12-31", "entry=sold"] {
            let path = format!("/v1/store/register?{other}&cursor={cursor}");
            let response = server.get(&path).await;
            response.assert_error(400, "invalid_parameter");
        }
    }
}

/// Changes an animal in a batch, and undoes it.
async fn change_and_undo(server: &Server, id: &str, change: Value) {
    let body = json!({"batchId": id, "changes": [change], "atomic": true});
    let changed = server.post("/v1/pets/batch", body.to_string()).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    undo(server, id).await;
}

async fn undo(server: &Server, id: &str) {
    let path = format!("/v1/pets/batch/{id}/undo");
    let undone = server.request(Method::POST, &path).body("").send().await;
    assert_eq!(undone.json()["undone"], 1, "{}", undone.text());
}

async fn an_undone_batch_is_not_in_the_register(backend: Backend) {
    let server = Server::start(backend).await;
    let new = json!({"name": "Imported", "categoryId": 1, "acquiredOn": "2026-02-28"});
    change_and_undo(&server, "import", json!({"create": new})).await;
    let query = "entry=acquired&from=2026-02-28&to=2026-02-28&limit=1";
    assert!(register(&server, query).await.is_empty());
    // An animal whose deletion was undone is there, once.
    let pet = create(&server, "A", 1).await;
    change_and_undo(&server, "deletion", json!({"id": pet, "delete": true})).await;
    assert_eq!(register(&server, query).await, [animal(pet, "A")]);
    // The undo is undone, and the animal is deleted again.
    undo(&server, "undo-deletion").await;
    assert!(register(&server, query).await[0]["deletedAt"].is_string());
    undo(&server, "undo-undo-deletion").await;
    assert_eq!(server.delete(&format!("/v1/pets/{pet}")).await.status, 204);
    let listed = register(&server, query).await;
    assert_eq!(listed.len(), 1);
    assert!(listed[0]["deletedAt"].is_string());
}
