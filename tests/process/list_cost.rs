//! The cost of lists on PostgreSQL, counted in rows: a page reads no more of a large table
//! than of a small one, whatever its filters and order.

use std::time::Duration;

use support::wait_for;

use crate::replicas::Deployment;

/// As in a shop with a history: old pets are sold, new ones are not.
const FILL: &str = "
    INSERT INTO pets (name, search_name, category_id, status)
    SELECT 'Rex ' || n, 'rex ' || n, n % 3,
           CASE WHEN n <= 80000 THEN 'sold' WHEN n % 1000 = 0 THEN 'pending'
                WHEN n % 10 = 0 THEN NULL ELSE 'available' END
    FROM generate_series(1, 100000) AS n;
    INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at)
    SELECT n, 'completed', 1, 1, 1 FROM generate_series(1, 20000) AS n;
    INSERT INTO orders (pet_id, status, created_at, updated_at)
    SELECT 1, 'cancelled', 1, 1 FROM generate_series(1, 20000);
    ANALYZE";

/// The most rows that may be examined for a page.
const MAX_ROWS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_page_reads_a_bounded_number_of_rows() {
    let deployment = Deployment::start(1);
    deployment.sql(FILL);
    let client = deployment.client(0);
    let rows_read = || -> usize {
        let rows = "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
                    WHERE relname IN ('pets', 'orders')";
        deployment.sql(rows).parse().unwrap()
    };
    // Statistics are reported with a delay.
    let settled = || {
        let mut last = None;
        wait_for("the statistics", || {
            std::thread::sleep(Duration::from_millis(1500));
            let rows = Some(rows_read());
            (std::mem::replace(&mut last, rows) == rows).then_some(rows?)
        })
    };
    let before = settled();
    let mut pages = 0;
    for list in [
        "/v1/pets?",
        "/v1/pets?status=sold",
        "/v1/pets?status=pending",
        "/v1/pets?status=available",
        "/v1/pets?categoryId=1",
        "/v1/pets?categoryId=1&status=sold",
        "/v1/pets?categoryId=1&status=available",
        "/v1/pets?name=rex",
        "/v1/pets?name=rex&status=sold",
        "/v1/pets?name=rex&status=pending",
        "/v1/pets?name=rex&categoryId=9",
        "/v1/pets?id=1,50000,100000",
        "/v1/store/orders?",
        "/v1/store/orders?status=completed",
        "/v1/store/orders?status=cancelled",
        "/v1/store/orders?petId=1",
        "/v1/store/orders?petId=1&status=completed",
    ] {
        for sort in ["asc", "desc"] {
            let mut path = Some(format!("{list}&sort={sort}"));
            for _ in 0..3 {
                let Some(page) = path.take() else { break };
                let response = client.get(&page).await;
                assert_eq!(response.status, 200, "{page}: {}", response.text());
                pages += 1;
                let link = response
                    .headers
                    .get("link")
                    .map(|link| link.to_str().unwrap());
                path = link.map(|link| link[1..link.find('>').unwrap()].to_string());
            }
        }
    }
    let read = settled() - before;
    assert!(read <= pages * MAX_ROWS, "{read} rows for {pages} pages");
    // Most pages examine nothing.
    println!("{read} rows for {pages} pages");
    assert!(read <= 40 * MAX_ROWS, "{read} rows for {pages} pages");
}
