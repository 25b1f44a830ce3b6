//! Reports of sales and the register, compared with a brute-force computation over the event log
//! after a random year.

mod model;
mod year;

use std::{mem, sync::Arc, time::Duration};

use domain::{
    event::Event,
    page::{ListQuery, PageLimit, Sort},
    register::{RegisterEntry, RegisterFilter},
    sales::SalesQuery,
};
use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use rand::{RngExt, seq::IndexedRandom};
use serde_json::{Value, json};
use store::{Fault, Options, Role, Store, sales::SalesReports, scan_queue::ScanQueue};
use support::{Backend, Database, rounds};

use crate::fixture::{API_KEY, TestStore, connect, new_database, open_with, petstore};
use model::Model;
use year::Year;

support::cases! {
    DATABASES: [
        a_random_year_is_reported_as_its_events_tell,
        outdated_days_are_noticed,
        changes_by_other_programs_are_counted,
        a_day_of_many_sales_takes_several_turns,
        deleted_pets_are_purged,
        check_finds_sales_without_their_time,
    ],
    POSTGRES: [
        deletions_by_other_programs_are_in_the_register,
        days_are_kept_while_a_transaction_is_open,
    ],
    SQLITE: [reports_need_no_writer],
}

/// Time zones with offsets that are no whole hours, with different changes of the clocks, and
/// beyond the date line.
const ZONES: [&str; 7] = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Pacific/Chatham",
    "America/Santiago",
];

fn reports(store: &Arc<Store>, fault: Option<Fault>) -> SalesReports {
    SalesReports::new(store.clone(), Arc::default(), fault)
}

async fn sales(reports: &SalesReports, query: &str) -> Value {
    let query = SalesQuery::parse(query, Timestamp::now()).unwrap();
    let queue = ScanQueue::default();
    let making = queue.make_report().await;
    let mut pending = reports.start(query, making).await.unwrap().unwrap();
    loop {
        if let Some(report) = pending.finished() {
            return serde_json::to_value(report).unwrap();
        }
        reports.scan(&mut pending, &queue).await.unwrap().unwrap();
    }
}

/// Returns the numbers of orders that the turns of a report scan.
async fn turns(reports: &SalesReports, query: &str) -> Vec<usize> {
    let query = SalesQuery::parse(query, Timestamp::now()).unwrap();
    let queue = ScanQueue::default();
    let making = queue.make_report().await;
    let mut pending = reports.start(query, making).await.unwrap().unwrap();
    let mut turns = Vec::new();
    while pending.finished().is_none() {
        turns.push(reports.scan(&mut pending, &queue).await.unwrap().unwrap());
    }
    turns
}

/// Reads all pages of the register.
async fn register(store: &Store, query: &str, limit: u8) -> Vec<Value> {
    let mut query = ListQuery {
        filter: RegisterFilter::parse(query, Timestamp::now()).unwrap(),
        sort: Sort::Asc,
        limit: PageLimit::parse(&limit.to_string()).unwrap(),
        after: None,
    };
    let mut entries: Vec<RegisterEntry> = Vec::new();
    loop {
        let page = store.register_list(&query).await.unwrap();
        assert!(page.items.len() <= usize::from(limit));
        entries.extend(page.items);
        if page.next.is_none() {
            break;
        }
        query.after = page.next;
    }
    let shown = entries
        .iter()
        .map(|entry| serde_json::to_value(entry).unwrap());
    shown.collect()
}

const GROUPS: [&str; 5] = ["day", "week", "month", "category", "key"];

async fn a_random_year_is_reported_as_its_events_tell(backend: Backend) {
    let mut year = Year::new(TestStore::open(backend).await);
    for _ in 0..rounds(1500, 20_000) {
        year.change().await;
    }
    year.spread(backend).await;
    let mut events = year.events(None).await;
    let buyers = mem::take(&mut year.buyers);
    let mut model = Model::of(&events, &buyers);
    assert!(model.has_everything(), "{model:?}");
    let store = year.db.store.clone();
    let reports = reports(&store, None);
    for round in 0..rounds(80, 300) {
        let zone = *ZONES.choose(&mut year.random).unwrap();
        let by = *GROUPS.choose(&mut year.random).unwrap();
        let (from, to) = year.period(round);
        let limit = year.random.random_range(1..=100);
        let query = format!("from={from}&to={to}&timeZone={zone}");
        let found = sales(&reports, &format!("{query}&by={by}")).await;
        assert_eq!(found, model.sales(from, to, by, zone), "{query}&by={by}");
        for entry in ["acquired", "sold"] {
            let found = register(&store, &format!("{query}&entry={entry}"), limit).await;
            let expected = model.register(from, to, entry, zone);
            assert_eq!(found, expected, "{query}&entry={entry}");
        }
    }
    let wrong = count_wrong(&mut year, &mut model, &mut events, &reports).await;
    assert_eq!(wrong, 0);
}

/// Changes sales, and makes reports in the meantime and afterwards. Returns the number of those
/// that differ from what the events tell.
async fn count_wrong(
    year: &mut Year,
    model: &mut Model<'_>,
    events: &mut Vec<Event>,
    reports: &SalesReports,
) -> usize {
    let mut wrong = 0;
    let mut open_transaction = None;
    for round in 0..rounds(120, 1000) {
        let zones = [0; 2].map(|_| *ZONES[..3].choose(&mut year.random).unwrap());
        let queries = zones.map(|zone| {
            let by = *GROUPS.choose(&mut year.random).unwrap();
            let (from, to) = year.recent_period(round);
            let query = format!("from={from}&to={to}&timeZone={zone}&by={by}");
            (query, from, to, by, zone)
        });
        // An event that is drawn and not committed holds the watermark back.
        let url = year.db.database.url();
        if round % 10 == 5 && url.starts_with("postgres") {
            let session = connect(&url).await;
            let insert =
                "BEGIN; INSERT INTO pets (name, search_name, category_id) VALUES ('', '', 1)";
            session.batch_execute(insert).await.unwrap();
            open_transaction = Some(session);
        } else if round % 10 == 8
            && let Some(session) = open_transaction.take()
        {
            session.batch_execute("COMMIT").await.unwrap();
        }
        let changes = async {
            for _ in 0..3 {
                year.change_of_sales().await;
            }
        };
        tokio::join!(changes, sales(reports, &queries[0].0));
        let mut found = Vec::new();
        for (query, ..) in &queries {
            found.push(sales(reports, query).await);
        }
        if open_transaction.is_some() {
            // The events cannot be read yet.
            let scanned = self::reports(&year.db.store, None);
            for ((query, ..), found) in queries.iter().zip(found) {
                wrong += usize::from(found != sales(&scanned, query).await);
            }
        } else {
            let new = year.events(events.last().map(Event::id)).await;
            for event in &new {
                model.apply(event);
            }
            events.extend(new);
            for ((_, from, to, by, zone), found) in queries.into_iter().zip(found) {
                wrong += usize::from(found != model.sales(from, to, by, zone));
            }
        }
    }
    wrong
}

/// The negative control.
async fn outdated_days_are_noticed(backend: Backend) {
    let mut year = Year::new(TestStore::open(backend).await);
    for _ in 0..500 {
        year.change().await;
    }
    let mut events = year.events(None).await;
    let buyers = mem::take(&mut year.buyers);
    let mut model = Model::of(&events, &buyers);
    let reports = reports(&year.db.store, Some(Fault::OutdatedDays));
    let wrong = count_wrong(&mut year, &mut model, &mut events, &reports).await;
    assert_ne!(wrong, 0);
}

/// Other programs change what the event log does not tell.
async fn changes_by_other_programs_are_counted(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let reports = reports(&store, None);
    let day = 86_400_000_000_i64;
    let mut pets = 0;
    for at in [0, day, 2 * day] {
        pets += 1;
        database.execute(&format!(
            "INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at,
                                 price_amount, price_currency)
             VALUES ({pets}, 'completed', 0, {at}, {at}, 100, 'EUR')"
        ));
    }
    let is_event_logged = store.event_newest().await.unwrap().is_some();
    for (change, expected) in [
        ("SELECT 1", [1, 1, 1]),
        ("UPDATE orders SET price_amount = 5 WHERE id = 1", [1, 1, 1]),
        (
            "UPDATE orders SET completed_at = 172800000000 WHERE id = 1",
            [0, 1, 2],
        ),
        ("DELETE FROM orders WHERE id = 2", [0, 0, 2]),
        ("DELETE FROM orders", [0, 0, 0]),
    ] {
        if change.starts_with("SELECT") {
            database.query(change);
        } else {
            database.execute(change);
        }
        let report = sales(&reports, "from=1970-01-01&to=1970-01-03").await;
        let groups = report["groups"].as_array().unwrap();
        let of_day = |day: i64| {
            let start = json!(format!("1970-01-0{day}"));
            let group = groups.iter().find(|group| group["start"] == start);
            group.map_or(0, |group| group["totals"][0]["sold"].as_i64().unwrap())
        };
        assert_eq!(
            [1, 2, 3].map(of_day),
            expected,
            "{change} {is_event_logged} {report}"
        );
    }
}

/// Inserts orders that were completed at times of 1970, and the last of them returned.
fn insert_sales(database: &Database, times: &str, count: usize, returned: usize) {
    let first_returned = count - returned;
    database.execute(&format!(
        "{}INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at, returned_at)
         WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {count} - 1)
         SELECT 1000000 + n,
                CASE WHEN n < {first_returned} THEN 'completed' ELSE 'returned' END, 0, {times},
                {times}, CASE WHEN n < {first_returned} THEN NULL ELSE {times} END FROM n",
        if database.url().starts_with("postgres") {
            "SET petstore.logs = 'on'; "
        } else {
            ""
        }
    ));
}

/// Other readers have their turn after each 10,000 sales and as many returns, however many orders
/// a day has.
async fn a_day_of_many_sales_takes_several_turns(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    // All on the second of three days.
    insert_sales(&database, "86400000000 + n", 35_000, 12_000);
    let reports = reports(&store, None);
    let query = "from=1970-01-01&to=1970-01-03";
    let found = turns(&reports, query).await;
    // The first turn finds the end of the day before. The fifth one finds the last sales and the
    // first returns.
    assert_eq!(found, [10_000, 10_000, 10_000, 10_000, 15_000, 2000]);
    let report = sales(&reports, query).await;
    let totals = json!([{"sold": 35_000, "returned": 12_000}]);
    assert_eq!(report["totals"], totals);
    assert_eq!(report["groups"][0]["start"], "1970-01-02");
    assert_eq!(turns(&reports, query).await, [0; 0]);
    // The days were kept for reports of another period, too.
    assert_eq!(turns(&reports, "from=1970-01-02&to=1970-01-04").await, [0]);

    // A change between two turns is noticed.
    let query = SalesQuery::parse(
        "from=1970-01-02&to=1970-01-02&timeZone=Asia/Kathmandu",
        Timestamp::now(),
    );
    let queue = ScanQueue::default();
    let making = queue.make_report().await;
    let mut pending = reports
        .start(query.unwrap(), making)
        .await
        .unwrap()
        .unwrap();
    reports.scan(&mut pending, &queue).await.unwrap().unwrap();
    let price = "UPDATE orders SET price_amount = 5, price_currency = 'EUR' WHERE id = 1";
    database.execute(price);
    let query = "from=1970-01-02&to=1970-01-02&timeZone=Asia/Kathmandu";
    let changed = sales(&reports, query).await;
    while pending.finished().is_none() {
        reports.scan(&mut pending, &queue).await.unwrap().unwrap();
    }
    assert_eq!(changed["totals"].as_array().unwrap().len(), 2, "{changed}");
    assert_eq!(sales(&reports, query).await, changed);
}

/// The watermark stays where it is while another program has a transaction open.
async fn days_are_kept_while_a_transaction_is_open(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    insert_sales(&database, "n * 86400000000", 10, 5);
    let session = connect(&database.url()).await;
    let insert = "BEGIN; INSERT INTO pets (name, search_name, category_id) VALUES ('', '', 1)";
    session.batch_execute(insert).await.unwrap();
    let reports = reports(&store, None);
    let query = "from=1970-01-01&to=1970-01-12";
    assert_eq!(turns(&reports, query).await, [15]);
    // An import, and more changes of orders than are read again.
    let correct = "UPDATE orders SET reference = 'R' WHERE pet_id = 1000003";
    database.execute(&format!(
        "INSERT INTO events (at, type, resource_id, data)
         SELECT 0, 'pet.created', n, '{{}}' FROM generate_series(1, 60000) AS n; {correct}"
    ));
    let filler = |count: usize| {
        format!(
            "INSERT INTO events (at, type, resource_id, data)
             SELECT 0, 'order.placed', n, '{{\"status\":\"placed\"}}'
             FROM generate_series(1, {count}) AS n"
        )
    };
    // All days are dropped, because another program has corrected an order.
    assert_eq!(turns(&reports, query).await, [15]);
    assert_eq!(turns(&reports, query).await, [0; 0]);
    for count in [15_000, 15_000, 30_000] {
        database.execute(&filler(count));
        let scanned = turns(&reports, query).await;
        // More than are read at a time may be anything.
        let expected = if count > 20_000 { vec![15] } else { Vec::new() };
        assert_eq!(scanned, expected);
        assert_eq!(turns(&reports, query).await, [0; 0]);
    }
    session.batch_execute("COMMIT").await.unwrap();
    store.event_sync().await.unwrap();
    assert_eq!(turns(&reports, query).await, [0; 0]);
    database.execute(correct.replace("'R'", "'S'").as_str());
    assert_eq!(turns(&reports, query).await, [15]);
}

/// Only the writer can tell whether another program has changed the file. While its queue is full,
/// a report is made from a scan.
async fn reports_need_no_writer(backend: Backend) {
    let database = new_database(backend).await;
    let options = Options {
        write_queue_capacity: 1,
        ..Options::new(Role::Cli)
    };
    let store = Arc::new(open_with(&database.url(), &options).await);
    insert_sales(&database, "n * 86400000000", 10, 5);
    let reports = reports(&store, None);
    let query = "from=1970-01-01&to=1970-01-12";
    let expected = sales(&reports, query).await;
    let lock = database.lock();
    let pet = json!({"name": "Rex", "categoryId": 1});
    let creates = [(); 20].map(|()| store.pet_create(API_KEY, year::parse(&pet), None));
    let report = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let report = sales(&reports, query).await;
        drop(lock);
        report
    };
    let (created, report) = tokio::join!(join_all(creates), report);
    assert!(created.iter().any(Result::is_err), "the queue is full");
    assert_eq!(report, expected);
}

async fn deleted_pets_are_purged(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let pet = json!({"name": "Rex", "categoryId": 1, "acquiredOn": "2024-02-29"});
    for _ in 0..2 {
        let created = store.pet_create(API_KEY, year::parse(&pet), None).await;
        let domain::idempotency::Idempotent::Executed(Ok(pet)) = created.unwrap() else {
            panic!("it is created");
        };
        store
            .pet_delete(API_KEY, pet.id, None)
            .await
            .unwrap()
            .unwrap();
    }
    let hours_ago = Timestamp::now() - SignedDuration::from_hours(3);
    let old = hours_ago.as_microsecond();
    database.execute(&format!(
        "UPDATE deleted_pets SET deleted_at = {old} WHERE id = 1"
    ));
    let retention = SignedDuration::from_hours(2);
    assert_eq!(store.deleted_pet_purge(retention).await.unwrap(), 1);
    assert_eq!(store.deleted_pet_purge(retention).await.unwrap(), 0);
    let query = "entry=acquired&from=2024-02-29&to=2024-02-29";
    let left = register(&store, query, 20).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["petId"], 2);
}

async fn deletions_by_other_programs_are_in_the_register(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let pet = json!({
        "name": "Rex", "categoryId": 1, "acquiredOn": "2024-02-29", "source": {"name": "Farm"},
        "microchip": "276098106000001",
    });
    for name in ["Ada", "Rex", "Zoe"] {
        let mut pet = pet.clone();
        pet["name"] = json!(name);
        pet["status"] = json!("sold");
        let created = store.pet_create(API_KEY, year::parse(&pet), None).await;
        created.unwrap();
    }
    let query = "entry=acquired&from=2024-02-29&to=2024-02-29";
    for change in ["DELETE FROM pets WHERE id IN (1, 2)", "TRUNCATE pets"] {
        database.execute(change);
        let entries = register(&store, query, 20).await;
        let names: Vec<_> = entries.iter().map(|entry| &entry["name"]).collect();
        assert_eq!(names, ["Ada", "Rex", "Zoe"], "{change}");
        assert_eq!(entries[1]["source"], pet["source"]);
        assert!(entries[1]["deletedAt"].is_string(), "{change}");
    }
    petstore(&["check", "--database", &database.url()]).success();
}

async fn check_finds_sales_without_their_time(backend: Backend) {
    let mut year = Year::new(TestStore::open(backend).await);
    for _ in 0..200 {
        year.change().await;
    }
    let url = year.db.database.url();
    let check = || petstore(&["check", "--database", &url]);
    check().success();
    let logs = match backend {
        Backend::Postgres => "SET petstore.logs = 'on'; ",
        _ => "",
    };
    let damage = "UPDATE orders SET returned_at = NULL WHERE status = 'returned'";
    year.db.database.execute(&format!("{logs}{damage}"));
    check().assert_fails(1, "orders with a wrong time of return");
}
