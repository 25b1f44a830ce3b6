//! The cost of lists on PostgreSQL, counted in rows: a page reads no more of a large table
//! than of a small one, whatever its filters and order.

use support::{Service, wait_for};

use crate::{client::Client, replicas::Deployment};

/// As in a shop with a history: old pets are sold, new ones are not.
const FILL: &str = "
    INSERT INTO pets (name, search_name, search_words, category_id, status)
    SELECT 'Rex ' || n, 'rex ' || n, 'rex ' || n, n % 3,
           CASE WHEN n <= 80000 THEN 'sold' WHEN n % 1000 = 0 THEN 'pending'
                WHEN n % 10 = 0 THEN NULL ELSE 'available' END
    FROM generate_series(1, 100000) AS n;
    INSERT INTO orders (pet_id, status, created_at, updated_at, completed_at)
    SELECT n, 'completed', 1, 1, 1 FROM generate_series(1, 20000) AS n;
    INSERT INTO orders (pet_id, status, created_at, updated_at)
    SELECT 1, 'cancelled', 1, 1 FROM generate_series(1, 20000)";

/// The most rows that may be examined for a page.
const MAX_ROWS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_page_reads_a_bounded_number_of_rows() {
    let mut deployment = Deployment::start(1);
    let sql = |sql: &str| deployment.cluster.psql(&deployment.database, sql);
    sql(FILL);
    // Otherwise a scan of an index reads rows, too, to see whether they are visible.
    sql("VACUUM ANALYZE");
    let client = Client::new(&deployment.services[0], &deployment.key);
    let rows_read = || -> usize {
        let rows = "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
                    WHERE relname IN ('pets', 'pet_words', 'orders')";
        sql(rows).parse().unwrap()
    };
    // A session reports its statistics with a delay, at the latest when it ends.
    let wait_until_ended = |application: &str| {
        let open = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{application}' AND pid <> pg_backend_pid()"
        );
        wait_for("the sessions to end", || (sql(&open) == "0").then_some(()));
    };
    wait_until_ended("psql");
    let before = rows_read();
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
        "/v1/pets?status=sold,available",
        "/v1/pets?categoryId=1&status=sold,pending",
        "/v1/pets?q=rex",
        "/v1/pets?q=rex&status=pending",
        "/v1/pets?q=rex&categoryId=9",
        "/v1/pets?q=99999",
        "/v1/pets?q=999",
        "/v1/pets?q=9",
        "/v1/pets?q=rex+1+2+3",
        "/v1/pets?q=8+9&status=sold,pending",
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
                path = response.next();
            }
        }
    }
    deployment.services.drain(..).for_each(Service::stop);
    wait_until_ended("petstore");
    let read = rows_read() - before;
    let tables = sql(
        "SELECT relname, seq_scan, seq_tup_read, idx_scan, idx_tup_fetch, vacuum_count
                      FROM pg_stat_user_tables ORDER BY relname",
    );
    println!("{tables}\n{read} rows for {pages} pages");
    assert!(read <= pages * MAX_ROWS, "{read} rows for {pages} pages");
    // Most pages examine nothing, or little.
    assert!(read <= 80 * MAX_ROWS, "{read} rows for {pages} pages");
}
