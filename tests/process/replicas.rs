//! Several replicas on one PostgreSQL: one truth, whatever is killed.

use std::{process::Stdio, thread, time::Duration};

use tokio::task::JoinHandle;

use crate::{
    client::{Client, Ledger, Load, Pet, Response},
    harness::{Finished, Home, PETSTORE, Service, wait_for},
    postgres::Cluster,
};

/// A database, a key for it, and services on it.
struct Chain {
    // Dropped in this order: the services before their database.
    services: Vec<Service>,
    key: String,
    home: Home,
    cluster: Cluster,
    database: String,
}

impl Chain {
    fn start(replicas: usize) -> Self {
        let cluster = Cluster::start();
        let database = cluster.create_database();
        let home = Home::on(cluster.url(&database));
        let key = home.new_key();
        Self {
            services: (0..replicas).map(|_| home.serve()).collect(),
            key,
            home,
            cluster,
            database,
        }
    }

    fn client(&self, replica: usize) -> Client {
        Client::new(&self.services[replica], &self.key)
    }

    fn sql(&self, sql: &str) -> String {
        self.cluster.psql(&self.database, sql)
    }

    /// Waits until a session of the service does what the condition says.
    fn wait_for_session(&self, condition: &str) {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = 'petstore' AND {condition}"
        );
        wait_for(condition, || (self.sql(&count) != "0").then_some(()));
    }
}

/// A program that is told of two servers, on these ports.
fn on_hosts(one: u16, other: u16, database: &str) -> Home {
    Home::on(format!(
        "postgres://petstore@127.0.0.1:{one},127.0.0.1:{other}/{database}"
    ))
}

/// All of them start on an empty database at the same time.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn replicas_may_start_at_once() {
    let cluster = Cluster::start();
    let home = Home::on(cluster.url(&cluster.create_database()));
    thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| home.serve())).collect();
        for start in starts {
            start.join().unwrap().stop();
        }
    });
}

/// A replica is killed and started again, the database crashes and recovers,
/// all under load: what was acknowledged is there once, and nobody but the
/// killed replica had to be started again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn nothing_acknowledged_is_lost() {
    let mut chain = Chain::start(3);
    let mut told = Ledger::default();
    let loads: Vec<_> = (0..3)
        .map(|n| Load::start(&chain.client(n), 16, &format!("replica {n}")))
        .collect();
    for load in &loads {
        load.until(|ledger| ledger.acknowledged.len() >= 200).await;
    }
    chain.services.remove(0).kill();
    let again = chain.home.serve();
    let again = {
        chain.services.insert(0, again);
        Load::start(&chain.client(0), 16, "replica 0 again")
    };
    again.until(|ledger| ledger.acknowledged.len() >= 200).await;
    for load in &loads {
        load.until(|ledger| ledger.refusals == 0).await;
    }

    chain.cluster.crash();
    for load in [&again, &loads[1], &loads[2]] {
        load.until(|ledger| ledger.refusals > 0).await;
    }
    chain.cluster.restart();
    for load in [&again, &loads[1], &loads[2]] {
        load.until(|ledger| ledger.in_a_row >= 200).await;
    }
    for load in loads.into_iter().chain([again]) {
        told.extend(load.finish().await);
    }
    for replica in 0..3 {
        told.assert_kept(&chain.client(replica).pets().await);
    }
    for service in std::mem::take(&mut chain.services) {
        service.stop();
    }
}

/// A host that takes connections and then says nothing holds nobody up.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_frozen_host_is_passed_over() {
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = on_hosts(frozen.local_addr().unwrap().port(), cluster.port, &database);
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    service.stop();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn keys_count_on_every_replica() {
    let chain = Chain::start(2);
    let key = chain.home.new_key();
    let clients: Vec<_> = chain
        .services
        .iter()
        .map(|service| Client::new(service, &key))
        .collect();
    for client in &clients {
        assert_eq!(client.get("/v1/pets").await.status, 200);
    }
    chain.home.keys(&["revoke", "2"]).success();
    tokio::time::sleep(Duration::from_secs(1)).await;
    for client in &clients {
        let answer = client.get("/v1/pets").await;
        answer.assert_error(401, "invalid_api_key");
    }
}

fn create_meanwhile(client: &Client, name: &'static str) -> JoinHandle<Response> {
    let client = client.clone();
    tokio::spawn(async move { client.create(name).await.unwrap() })
}

/// The client was told that nobody knows what became of its create.
#[track_caller]
fn assert_unknown(answer: &Response) {
    answer.assert_error(503, "unavailable");
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains("may have been made or not"), "{message}");
}

/// Makes commits slow, at their very end.
const SLOW_COMMIT: &str = "
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(20); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON pets DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION dawdle()";

/// The connection is lost while it commits: nobody can tell what became of it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_commit_without_an_answer_is_unknown() {
    let chain = Chain::start(1);
    chain.sql(SLOW_COMMIT);
    let client = chain.client(0);
    let creating = create_meanwhile(&client, "Rex");
    chain.wait_for_session("query LIKE 'INSERT INTO pets%' AND wait_event = 'PgSleep'");
    chain.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO pets%'
         AND pid <> pg_backend_pid()",
    );
    assert_unknown(&creating.await.unwrap());
    // It is not tried again behind the client's back.
    chain.sql("DROP TRIGGER slow ON pets");
    assert_eq!(client.create("Bello").await.unwrap().status, 201);
    assert_eq!(client.pets().await.len(), 1);
}

/// The server has committed, but gave up waiting for a standby: it says so in
/// a warning, and calls it a success.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_commit_that_no_standby_has_is_no_success() {
    let chain = Chain::start(1);
    // A role may be set so that it hears of nothing.
    chain.sql("ALTER ROLE petstore SET client_min_messages = error");
    let client = chain.client(0);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    chain.cluster.set("synchronous_standby_names = 'nobody'");
    chain.sql("SELECT pg_sleep(0.5)");
    let creating = create_meanwhile(&client, "Bello");
    chain.wait_for_session("wait_event = 'SyncRep' AND query LIKE 'INSERT INTO pets%'");
    chain.sql(
        "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
         WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO pets%'",
    );
    assert_unknown(&creating.await.unwrap());
}

/// A statement that takes too long is given up, and so are its locks.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_late_create_leaves_nothing_open() {
    let chain = Chain::start(1);
    chain.sql(SLOW_COMMIT);
    let answer = chain.client(0).create("Rex").await.unwrap();
    answer.assert_error(503, "unavailable");
    let running = "SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'petstore' AND state <> 'idle'";
    wait_for("the end of the statement", || {
        (chain.sql(running) == "0").then_some(())
    });
    assert_eq!(chain.sql("SELECT count(*) FROM pets"), "0");
}

/// An animal that somebody keeps locked holds its own orders up, and is told.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_lock_that_somebody_keeps_is_told() {
    let chain = Chain::start(1);
    let client = chain.client(0);
    for _ in 0..2 {
        client.create("Rex").await.unwrap();
    }
    chain.sql("UPDATE pets SET status = 'available'");
    let mut keeper = chain.cluster.psql_command(&chain.database);
    keeper.arg("BEGIN; SELECT id FROM pets WHERE id = 1 FOR UPDATE; SELECT pg_sleep(60)");
    let mut keeper = keeper
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the lock", || {
        let held = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)'
                    AND wait_event = 'PgSleep'";
        (chain.sql(held) == "1").then_some(())
    });
    let order = |pet: i64| {
        let (client, claim) = (client.clone(), serde_json::json!({"petId": pet}));
        async move {
            let path = "/v1/store/orders";
            client
                .send_json(reqwest::Method::POST, path, &claim, None)
                .await
                .unwrap()
        }
    };
    let refused = order(1).await;
    refused.assert_error(503, "unavailable");
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("nothing was changed"), "{message}");
    assert_eq!(order(2).await.status, 201);
    chain.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)' AND pid <> pg_backend_pid()");
    keeper.wait().unwrap();
    assert_eq!(order(1).await.status, 201);
}

/// While replicas are replaced one by one, the schema is ahead of some. It
/// says how far back they may be.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn a_newer_schema_says_who_may_use_it() {
    let mut chain = Chain::start(1);
    chain.services.remove(0).stop();
    chain.sql("UPDATE schema_version SET version = 99");
    chain.home.serve().stop();
    chain.sql("UPDATE schema_version SET min_compatible_version = 99");
    let refused = chain.home.keys(&["list"]);
    refused.assert_refused(1, "newer petstore (schema 99");
}

/// All migrations are one transaction. Replicas that start at once wait for it.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn a_failed_migration_changes_nothing() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    // In the way of the first migration, after its first table.
    cluster.psql(&database, "CREATE TABLE orders (text text)");
    let home = Home::on(cluster.url(&database));
    let failed = home.keys(&["create", "till"]);
    failed.assert_refused(1, "relation \"orders\" already exists");
    let tables = "SELECT string_agg(tablename, ' ') FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(cluster.psql(&database, tables), "orders");
    cluster.psql(&database, "DROP TABLE orders");
    let version = "SELECT version || ' ' || min_compatible_version FROM schema_version";
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| home.new_key());
        }
    });
    assert_eq!(cluster.psql(&database, version), "1 1");
    home.serve().stop();
}

/// One name that a database cannot hold would fail all that share its commit.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn only_a_database_of_unicode_will_do() {
    let cluster = Cluster::start();
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0";
    cluster.psql("postgres", latin);
    let refused = Home::on(cluster.url("latin")).keys(&["create", "test"]);
    refused.assert_refused(1, "is in LATIN1");
}

#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn certificates_are_looked_at_if_asked_for() {
    let (cluster, authority) = Cluster::start_with_tls();
    let stranger = Cluster::start_with_tls().1;
    let database = cluster.create_database();
    let url = |host: &str, options: String| {
        format!(
            "postgres://petstore@{host}:{}/{database}?{options}",
            cluster.port
        )
    };
    let verify = |root: &tempfile::NamedTempFile| {
        format!("sslmode=verify-full&sslrootcert={}", root.path().display())
    };
    let home = Home::new();
    let create = |url: String| home.petstore(&["keys", "create", "test", "--database", &url]);
    for good in [
        url("127.0.0.1", "sslmode=disable".into()),
        url("127.0.0.1", "sslmode=prefer".into()),
        url("127.0.0.1", "sslmode=require".into()),
        url("localhost", verify(&authority)),
    ] {
        create(good).success();
    }
    for bad in [
        // Another authority, and another name.
        url("localhost", verify(&stranger)),
        url("127.0.0.1", verify(&authority)),
    ] {
        create(bad).assert_refused(1, "certificate");
    }
    for wrong in ["sslmode=verify-ca", "prepared_statements=maybe"] {
        let refused = create(url("localhost", wrong.into()));
        refused.assert_refused(2, "--database");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_without_its_password() {
    let home = Home::on("postgres://till:secret@127.0.0.1:9/shop".into());
    let finished = home.petstore(&["keys", "list", "--database", &home.url()]);
    finished.assert_refused(1, "postgres://till@127.0.0.1:9/shop");
    assert!(!finished.stderr.contains("secret"), "{finished:?}");
    for wrong in [
        "postgre://till:secret@host/shop",
        "postgres://till:secret@host/shop?sslmode=never",
        "postgres://till:sec@secret@host:port/shop",
        "postgres://host/shop?password=secret&sslmode=never",
        "postgres://till:secret?x@host/shop?sslmode=never",
        "host=127.0.0.1 password=secret",
    ] {
        let mut command = home.command(PETSTORE);
        let finished = Finished::of(command.args(["serve", "--database", wrong]));
        finished.assert_refused(2, "--database");
        assert!(!finished.stderr.contains("secret"), "{finished:?}");
        let mut command = home.command(PETSTORE);
        let help = command
            .args(["serve", "--help"])
            .env("PETSTORE_DATABASE", wrong);
        let help = Finished::of(help).success().stdout;
        assert!(!help.contains("secret"), "{help}");
    }
}

/// How a failover ends for what was acknowledged.
///
/// The standby is cut off before the primary crashes. A primary that waits for
/// it acknowledges nothing from then on; one that does not goes on.
async fn fail_over(synchronous: bool) -> (Ledger, Vec<Pet>) {
    let primary = Cluster::start();
    let standby = primary.start_standby();
    if synchronous {
        primary.set("synchronous_standby_names = '*'");
    }
    let state = if synchronous { "sync" } else { "async" };
    let following =
        format!("SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{state}'");
    let follows = || (primary.psql("postgres", &following) == "1").then_some(());
    wait_for("a standby that follows", follows);

    let database = primary.create_database();
    let home = on_hosts(primary.port, standby.port, &database);
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let load = Load::start(&client, 16, "before");
    load.until(|ledger| ledger.acknowledged.len() >= 300).await;

    standby.set("primary_conninfo = ''");
    wait_for("a standby that is cut off", || {
        follows().is_none().then_some(())
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    primary.crash();
    load.until(|ledger| ledger.refusals > 0).await;
    standby.psql("postgres", "SELECT pg_promote()");
    load.until(|ledger| ledger.in_a_row >= 300).await;

    let told = load.finish().await;
    let pets = client.pets().await;
    service.stop();
    (told, pets)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_failover_to_a_synchronous_standby_loses_nothing() {
    let (told, pets) = fail_over(true).await;
    told.assert_kept(&pets);
}

/// Shows that the test before can fail.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_failover_to_an_asynchronous_standby_may_lose_some() {
    let (told, pets) = fail_over(false).await;
    let is_there = |name: &String| pets.iter().any(|(_, stored)| stored == name);
    let lost = told.acknowledged.keys().filter(|name| !is_there(name));
    assert!(lost.count() > 0, "the standby was not behind");
}
