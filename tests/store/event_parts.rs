//! Events of one resource: pages read few rows of a large log, and followers read the store once,
//! and then the events in memory.

use domain::{
    api_key::{Scope, Scopes},
    category::{Category, CategoryId, CategoryName, ExpectedCategory},
    event::{EventFilter, EventId, LogPart, Subject, VisibleEvents},
    page::Sort,
    pet::{PetId, batch::BatchId},
};
use store::{
    Role, Store,
    event_tail::{EventTail, Framing, ReadFrom},
    scan_queue::ScanQueue,
};
use support::{Backend, Database, eventually};

use crate::fixture::{API_KEY, TestStore, open};

support::cases! {
    DATABASES: [the_events_of_others_are_passed_in_memory],
    POSTGRES: [a_page_reads_few_rows_of_a_large_log],
}

async fn name(store: &Store, id: i64, name: &str) {
    let id = CategoryId::from_store(id);
    let name = CategoryName::parse(name).unwrap();
    store
        .category_put(API_KEY, Category { id, name }, None, ExpectedCategory::Any)
        .await
        .unwrap()
        .unwrap();
}

fn visible(subject: &str) -> VisibleEvents {
    let mut filter = EventFilter::default();
    filter.set("subject", subject).unwrap();
    filter
        .visible_to(Scopes::from_iter([Scope::PetsRead]))
        .unwrap()
}

/// The position that a read by subject has reached is in memory, whatever its event is about, and
/// so is every one after it.
async fn the_events_of_others_are_passed_in_memory(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    let tail = EventTail::new(store.clone(), Framing::default());
    let wanted = visible("categories/1");
    let queue = ScanQueue::default();
    for at in 0..5 {
        name(&store, at % 3, &format!("Name {at}")).await;
    }
    let _subscription = tail.subscribe();
    let follow = async {
        store.event_sync().await.unwrap();
        let mut position = EventId::START;
        eventually("the position is in memory", async || {
            let page = tail.find(ReadFrom::Store, None, &wanted, 10, &queue).await;
            let page = page.unwrap().unwrap();
            assert!(page.is_complete);
            assert_eq!(page.events.len(), 2);
            position = page.end;
            tail.cached(position, &wanted, 10, 10).is_some()
        })
        .await;
        // From here on, the store is not needed.
        for at in 0..5 {
            name(&store, 2, &format!("Other {at}")).await;
            eventually("the event is passed", async || {
                let page = tail.cached(position, &wanted, 10, 10);
                let page = page.expect("the position is in memory");
                assert!(page.events.is_empty());
                let has_moved = page.end != position;
                position = page.end;
                has_moved
            })
            .await;
        }
        name(&store, 1, "Mine").await;
        eventually("the event is found", async || {
            let page = tail.cached(position, &wanted, 10, 10);
            page.expect("the position is in memory").events.len() == 1
        })
        .await;
    };
    tokio::select! {
        () = tail.follow() => unreachable!(),
        () = store.poll_event_head() => unreachable!(),
        () = follow => {}
    }
    drop(database);
}

/// Most events are about one category, and some of one batch.
const FILL: &str = "
    INSERT INTO events (at, type, resource_id, data, batch_id)
    SELECT n, CASE WHEN n % 4 = 0 THEN 'pet.created' ELSE 'category.updated' END,
           CASE WHEN n % 4 = 0 THEN n / 4 ELSE 1 END, '{}',
           CASE WHEN n % 1000 = 7 THEN 'b' END
    FROM generate_series(1, 100000) AS n;
    ANALYZE events";

async fn a_page_reads_few_rows_of_a_large_log(backend: Backend) {
    let TestStore { store, database } = TestStore::open(backend).await;
    database.execute(FILL);
    store.event_sync().await.unwrap();
    let all = store
        .event_read(None, Sort::Asc, 100)
        .await
        .unwrap()
        .unwrap();
    let rows_read = || -> usize {
        let rows = "SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
                    WHERE relname = 'events'";
        database.query(rows).parse().unwrap()
    };
    drop(store);
    wait_until_closed(&database).await;
    let before = rows_read();

    let store = open(&database.url(), Role::Cli).await;
    store.event_sync().await.unwrap();
    let parts = [
        (LogPart::Subject(Subject::Pet(PetId::from_store(20_000))), 1),
        (LogPart::Subject(Subject::Pet(PetId::from_store(77_777))), 0),
        (
            LogPart::Subject(Subject::Category(CategoryId::from_store(1))),
            10,
        ),
        (LogPart::Batch(BatchId::parse("b").unwrap()), 10),
    ];
    let mut pages = 0;
    for (part, count) in &parts {
        for sort in [Sort::Asc, Sort::Desc] {
            for after in [None, Some(all[50].id())] {
                let page = store.event_read_part(Some(part.clone()), after, sort, 10);
                let events = page.await.unwrap().unwrap().events;
                let is_whole = after.is_none() || sort == Sort::Asc;
                assert!(
                    !is_whole || events.len() == *count,
                    "{part:?} {sort:?} {after:?}"
                );
                pages += 1;
            }
        }
    }
    drop(store);
    wait_until_closed(&database).await;
    // The page, the position and the newest event.
    let read = rows_read() - before;
    assert!(read <= pages * 12, "{read} rows for {pages} pages");
}

/// A session reports its statistics at the latest when it ends.
async fn wait_until_closed(database: &Database) {
    let open = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                      AND backend_type = 'client backend'";
    eventually("all sessions end", async || database.query(open) == "0").await;
}
