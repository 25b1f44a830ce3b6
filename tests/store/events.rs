//! The event log on PostgreSQL: nothing appears behind what may be read.

use domain::{
    event::EventRetention,
    page::Sort,
    pet::{NewPet, PetName},
};
use serde_json::Value;
use store::{Role, Store};
use support::{Backend, Cluster, eventually, postgres::shared, signal};

use crate::fixture::{API_KEY, connect, create_store, open};

support::cases! {
    POSTGRES: [
        a_transaction_in_progress_holds_back_later_events,
        a_prepared_transaction_holds_back_later_events_through_a_crash,
        a_replica_that_starts_knows_what_is_decided,
        the_head_moves_while_it_is_followed,
        positions_survive_other_replicas_and_restarts_but_not_a_purge,
    ],
}

/// A database with a store. Tests that crash the server have one of their own.
struct Server<'c> {
    cluster: &'c Cluster,
    database: String,
}

impl<'c> Server<'c> {
    async fn new(cluster: &'c Cluster) -> Self {
        let database = cluster.create_database();
        create_store(&cluster.url(&database)).await;
        Self { cluster, database }
    }

    async fn open(&self) -> Store {
        open(&self.cluster.url(&self.database), Role::Cli).await
    }

    /// A session of another program.
    async fn session(&self) -> tokio_postgres::Client {
        connect(&self.cluster.url(&self.database)).await
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.psql(&self.database, sql)
    }
}

async fn create(store: &Store, name: &str) {
    let pet = NewPet::new(PetName::parse(name).unwrap(), 1);
    store.pet_create(API_KEY, pet, None).await.unwrap();
}

/// The names of the pets whose events may be read, in either direction.
async fn names(store: &Store) -> Vec<String> {
    let events = store
        .event_read(None, Sort::Asc, 1000)
        .await
        .unwrap()
        .unwrap();
    let newest_first = store.event_read(None, Sort::Desc, 1000).await;
    let mut newest_first = newest_first.unwrap().unwrap();
    newest_first.reverse();
    assert_eq!(newest_first, events);
    let data = events
        .iter()
        .map(|event| serde_json::from_str::<Value>(event.data.as_json()).unwrap());
    data.map(|pet| pet["name"].as_str().unwrap().into())
        .collect()
}

fn insert(name: &str) -> String {
    format!("INSERT INTO pets (name, search_name, category_id) VALUES ('{name}', '{name}', 1)")
}

/// A transaction in progress has drawn a number: what has been drawn after it must not be
/// read yet, or its event would be skipped.
async fn a_transaction_in_progress_holds_back_later_events(_: Backend) {
    let server = Server::new(shared()).await;
    let store = server.open().await;
    create(&store, "first").await;
    store.event_sync().await.unwrap();
    let program = server.session().await;
    let begin = format!("BEGIN; {}", insert("second"));
    program.batch_execute(&begin).await.unwrap();
    create(&store, "third").await;

    let visible = "SELECT string_agg(data::json ->> 'name', ' ' ORDER BY sequence) FROM events";
    assert_eq!(server.sql(visible), "first third");
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first"]);

    program.batch_execute("COMMIT").await.unwrap();
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first", "second", "third"]);
}

/// A crash gives a prepared transaction another virtual id, and the server keeps its start
/// time.
async fn a_prepared_transaction_holds_back_later_events_through_a_crash(_: Backend) {
    let cluster = Cluster::start();
    let server = Server::new(&cluster).await;
    server.cluster.set("max_prepared_transactions = 4");
    server.cluster.crash();
    server.cluster.restart();
    let store = server.open().await;
    server.sql(&insert("first"));
    store.event_sync().await.unwrap();
    let prepare = format!("BEGIN; {}; PREPARE TRANSACTION 'held'", insert("second"));
    server.sql(&prepare);
    server.sql(&insert("third"));
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first"]);

    let program = server.session().await;
    let other = server.session().await;
    let pid = program.query_one("SELECT pg_backend_pid()", &[]).await;
    signal(pid.unwrap().get::<_, i32>(0).unsigned_abs(), "KILL");
    eventually("the server ends all sessions", async || other.is_closed()).await;
    eventually("the server has recovered", async || {
        store.event_sync().await.is_ok() && store.ping().await.is_ok()
    })
    .await;
    store.event_sync().await.unwrap();
    let after_crash = names(&store).await;
    assert!(!after_crash.contains(&"third".into()), "{after_crash:?}");
    server.sql("COMMIT PREPARED 'held'");
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["first", "second", "third"]);
}

/// Events that another replica has decided are readable at once, also while a transaction is
/// open.
async fn a_replica_that_starts_knows_what_is_decided(_: Backend) {
    let server = Server::new(shared()).await;
    for name in ["a", "b"] {
        server.sql(&insert(name));
    }
    let store = server.open().await;
    eventually("an event is purged", async || {
        let keep_one = EventRetention {
            count: 1,
            ..EventRetention::default()
        };
        store.event_purge(keep_one).await.unwrap() == 1
    })
    .await;
    let program = server.session().await;
    let begin = format!("BEGIN; {}", insert("open"));
    program.batch_execute(&begin).await.unwrap();
    server.sql(&insert("later"));

    let new = server.open().await;
    new.event_sync().await.unwrap();
    assert_eq!(names(&new).await, ["b"]);
    let newest = new.event_newest().await.unwrap().unwrap().id();
    assert_eq!(
        new.event_read(Some(newest), Sort::Asc, 10).await.unwrap(),
        Ok(vec![])
    );
}

async fn the_head_moves_while_it_is_followed(_: Backend) {
    let server = Server::new(shared()).await;
    let store = server.open().await;
    let mut head = store.event_head();
    let follow = async {
        for expected in 1..=3 {
            server.sql(&insert("Rex"));
            head.wait_for(|head| *head == expected).await.unwrap();
        }
    };
    tokio::select! {
        () = store.poll_event_head() => unreachable!(),
        () = follow => {}
    }
}

/// Positions are verified, and what is decided holds for one run of the server only.
async fn positions_survive_other_replicas_and_restarts_but_not_a_purge(_: Backend) {
    let cluster = Cluster::start();
    let server = Server::new(&cluster).await;
    let store = server.open().await;
    let lagging = server.open().await;
    for name in ["a", "b", "c"] {
        server.sql(&insert(name));
    }
    store.event_sync().await.unwrap();
    let newest = store.event_newest().await.unwrap().unwrap().id();
    // This one has decided nothing yet.
    assert_eq!(
        lagging
            .event_read(Some(newest), Sort::Asc, 10)
            .await
            .unwrap(),
        Ok(vec![])
    );
    let before = lagging.event_read(Some(newest), Sort::Desc, 10).await;
    assert_eq!(before.unwrap().unwrap().len(), 2);

    server.cluster.crash();
    server.cluster.restart();
    eventually("the store reconnects", async || store.ping().await.is_ok()).await;
    store.event_sync().await.unwrap();
    assert_eq!(names(&store).await, ["a", "b", "c"]);

    // The event is another one now.
    server.sql("UPDATE events SET data = replace(data, '\"c\"', '\"x\"') WHERE data::json ->> 'name' = 'c'");
    let read = store.event_read(Some(newest), Sort::Asc, 10).await.unwrap();
    assert_eq!(format!("{read:?}"), "Err(Unknown)");

    let all = store
        .event_read(None, Sort::Asc, 10)
        .await
        .unwrap()
        .unwrap();
    let second = all[1].id();
    let keep = |count| EventRetention {
        count,
        ..EventRetention::default()
    };
    assert_eq!(store.event_purge(keep(10)).await.unwrap(), 0);
    assert_eq!(store.event_purge(keep(2)).await.unwrap(), 1);
    assert_eq!(names(&store).await, ["b", "x"]);
    let read = store
        .event_read(Some(second), Sort::Asc, 10)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(read, all[2..]);
    // Never the newest.
    assert_eq!(store.event_purge(keep(0)).await.unwrap(), 1);
    assert_eq!(store.event_purge(keep(0)).await.unwrap(), 0);
    let read = store.event_read(Some(second), Sort::Asc, 10).await.unwrap();
    assert_eq!(format!("{read:?}"), "Err(Expired)");
    assert_eq!(names(&store).await, ["x"]);
    server.sql("UPDATE events SET at = 0");
    server.sql(&insert("d"));
    eventually("an event is purged", async || {
        store.event_purge(keep(10)).await.unwrap() == 1
    })
    .await;
    assert_eq!(names(&store).await, ["d"]);
}
