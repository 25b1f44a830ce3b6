//! Several replicas on one PostgreSQL: crashes, failover, rolling upgrades.

use std::thread;

use http::Method;
use serde_json::{Value, json};
use support::{Cluster, CommandResult, Response, eventually, signal, wait_for};
use tokio::{sync::watch, task::JoinHandle};
use tokio_postgres::NoTls;

use crate::{
    client::{Client, LoadGenerator, Pet, WriteResults},
    harness::{Home, PETSTORE, Service},
    photos::add_photo,
};

/// Replicas on one database, and an API key for them.
pub struct Deployment {
    // Fields drop in this order: the services before their database.
    pub services: Vec<Service>,
    pub key: String,
    pub home: Home,
    pub cluster: Cluster,
    pub database: String,
}

impl Deployment {
    pub fn start(replicas: usize) -> Self {
        Self::start_with(replicas, &[])
    }

    pub fn start_with(replicas: usize, options: &[&str]) -> Self {
        let cluster = Cluster::start();
        let database = cluster.create_database();
        let home = Home::with_database(cluster.url(&database));
        let key = home.new_key();
        Self {
            services: (0..replicas)
                .map(|_| Service::start(home.serve_command().args(options)))
                .collect(),
            key,
            home,
            cluster,
            database,
        }
    }

    pub fn client(&self, replica: usize) -> Client {
        Client::new(&self.services[replica], &self.key)
    }

    pub fn sql(&self, sql: &str) -> String {
        self.cluster.psql(&self.database, sql)
    }

    /// Waits until a database session of the service meets a condition.
    fn wait_for_session(&self, condition: &str) {
        let count = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = 'petstore' AND {condition}"
        );
        wait_for(condition, || (self.sql(&count) != "0").then_some(()));
    }
}

/// A connection URL with two hosts, on these ports.
fn home_on_hosts(one: u16, other: u16, database: &str) -> Home {
    Home::with_database(format!(
        "postgres://petstore@127.0.0.1:{one},127.0.0.1:{other}/{database}"
    ))
}

/// All replicas start on an empty database at the same time and migrate it once.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn replicas_start_concurrently_on_an_empty_database() {
    let cluster = Cluster::start();
    let home = Home::with_database(cluster.url(&cluster.create_database()));
    thread::scope(|scope| {
        let starts: Vec<_> = (0..4).map(|_| scope.spawn(|| home.serve())).collect();
        for start in starts {
            start.join().unwrap().stop();
        }
    });
}

/// A photo that is added, removed or brought back at one replica is so at the other, which may have
/// its thumbnail in the cache.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn replicas_share_photos() {
    let deployment = Deployment::start(2);
    let [one, other] = [0, 1].map(|replica| deployment.client(replica));
    let pet = one.create("Rex").await.unwrap().json()["id"]
        .as_i64()
        .unwrap();
    let added = add_photo(&one, pet, 1).await.unwrap().json();
    let photos = format!("/v1/pets/{pet}/photos");
    let photo = format!("{photos}/{}", added["id"]);
    let sizes = ["full", "thumb"].map(|size| format!("{photo}?size={size}"));
    for size in &sizes {
        let image = one.get(size).await;
        assert_eq!(image.status, 200);
        assert!(other.get(size).await.body == image.body, "{size}");
    }
    let is_shown = async |client: &Client, status: u16| {
        for path in &sizes {
            let has_status = async || client.get(path).await.status == status;
            eventually("the other replica knows of the change", has_status).await;
        }
    };
    let deleted = one.send_json(Method::DELETE, &photo, &Value::Null, None);
    assert_eq!(deleted.await.unwrap().status, 204);
    is_shown(&other, 404).await;
    let ids = json!({"ids": [added["id"]]});
    let restored = other.send_json(Method::PUT, &photos, &ids, None);
    assert_eq!(restored.await.unwrap().json(), json!([added]));
    is_shown(&one, 200).await;
    let check = ["check", "--database", &deployment.home.url()];
    deployment.home.petstore(&check).success();
}

/// Under load a replica is killed and restarted, and the database crashes and
/// recovers: every acknowledged write is stored exactly once, and the other
/// replicas reconnect without a restart.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn acknowledged_writes_survive_replica_and_database_crashes() {
    let mut deployment = Deployment::start(3);
    let mut results = WriteResults::default();
    let loads: Vec<_> = (0..3)
        .map(|n| LoadGenerator::start(&deployment.client(n), 16, &format!("replica {n}")))
        .collect();
    for load in &loads {
        load.until(|results| results.acknowledged.len() >= 200)
            .await;
    }
    deployment.services.remove(0).kill();
    let restarted = deployment.home.serve();
    let restarted = {
        deployment.services.insert(0, restarted);
        LoadGenerator::start(&deployment.client(0), 16, "replica 0 again")
    };
    restarted
        .until(|results| results.acknowledged.len() >= 200)
        .await;
    for load in &loads {
        load.until(|results| results.unavailable == 0).await;
    }

    deployment.cluster.crash();
    for load in [&restarted, &loads[1], &loads[2]] {
        load.until(|results| results.unavailable > 0).await;
    }
    deployment.cluster.restart();
    for load in [&restarted, &loads[1], &loads[2]] {
        load.until(|results| results.consecutive_acks >= 200).await;
    }
    for load in loads.into_iter().chain([restarted]) {
        results.extend(load.finish().await);
    }
    for replica in 0..3 {
        results.assert_durable(&deployment.client(replica).pets().await);
    }
    for service in std::mem::take(&mut deployment.services) {
        service.stop();
    }
}

/// A host that accepts connections and never responds is skipped.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn an_unresponsive_host_is_skipped() {
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let home = home_on_hosts(frozen.local_addr().unwrap().port(), cluster.port, &database);
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    service.stop();
}

/// Every replica caches responses, and asks the database whether they are still valid.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn cached_responses_reflect_the_writes_of_all_replicas() {
    let deployment = Deployment::start_with(3, &["--metrics-listen", "127.0.0.1:0"]);
    let clients: Vec<_> = (0..3).map(|replica| deployment.client(replica)).collect();
    let id = clients[0].create("Rex 0").await.unwrap().json()["id"].clone();
    let paths = [
        format!("/v1/pets?id={id}"),
        "/v1/pets?limit=1".into(),
        "/v1/pets?name=rex".into(),
    ];
    let assert_name = async |name: &str| {
        for (client, path) in clients
            .iter()
            .flat_map(|c| paths.iter().map(move |p| (c, p)))
        {
            assert_eq!(client.get(path).await.json()[0]["name"], name, "{path}");
        }
    };
    for number in 1..=30 {
        let name = format!("Rex {number}");
        let path = format!("/v1/pets/{id}");
        let change = json!({ "name": name });
        let updated = clients[number % 3].send_json(Method::PATCH, &path, &change, None);
        assert_eq!(updated.await.unwrap().status, 200);
        // Cached by the first, or the second.
        for _ in 0..3 {
            assert_name(&name).await;
        }
    }
    // Fewer requests are hits on a busy machine.
    eventually("responses are cached", async || {
        assert_name("Rex 30").await;
        let hits = deployment.services.iter().map(cache_hits);
        let hits: f64 = futures_util::future::join_all(hits).await.iter().sum();
        hits >= 270.0
    })
    .await;

    // A transaction that began before what is cached, and commits after it.
    let database = deployment.cluster.url(&deployment.database);
    let (session, connection) = tokio_postgres::connect(&database, NoTls).await.unwrap();
    tokio::spawn(connection);
    let rename = format!("UPDATE pets SET name = 'Max', search_name = 'rex' WHERE id = {id}");
    session
        .batch_execute(&format!("BEGIN; {rename}"))
        .await
        .unwrap();
    clients[1].create("Later").await.unwrap();
    for _ in 0..3 {
        assert_name("Rex 30").await;
    }
    session.batch_execute("COMMIT").await.unwrap();
    assert_name("Max").await;

    // Responses are read while the sessions that validate them hang, or end.
    let sessions = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_current_snapshot()%'
                    AND pid <> pg_backend_pid()";
    let pids = deployment.sql(sessions);
    let signal_all = |name| {
        pids.lines()
            .for_each(|pid| signal(pid.parse().unwrap(), name))
    };
    signal_all("STOP");
    deployment.sql(&rename.replace("Max", "Moritz"));
    assert_name("Moritz").await;
    signal_all("CONT");
    deployment.sql(&format!(
        "SELECT pg_terminate_backend(pid) FROM ({sessions}) AS found"
    ));
    for _ in 0..3 {
        assert_name("Moritz").await;
    }
}

/// Returns the number of responses that came from the cache.
async fn cache_hits(service: &Service) -> f64 {
    let hits = r#"petstore_response_cache_requests_total{result="hit"}"#;
    service.metrics().await.metric(hits).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn keys_work_and_are_revoked_on_every_replica() {
    let deployment = Deployment::start(2);
    let key = deployment.home.new_key();
    let clients: Vec<_> = deployment
        .services
        .iter()
        .map(|service| Client::new(service, &key))
        .collect();
    for client in &clients {
        assert_eq!(client.get("/v1/pets").await.status, 200);
    }
    deployment.home.keys(&["revoke", "2"]).success();
    for client in &clients {
        client.wait_until_rejected().await;
    }
}

fn spawn_create(client: &Client, name: &'static str) -> JoinHandle<Response> {
    let client = client.clone();
    tokio::spawn(async move { client.create(name).await.unwrap() })
}

/// Asserts that the response reports an unknown outcome.
#[track_caller]
fn assert_unknown(response: &Response) {
    response.assert_error(503, "unavailable");
    let body = response.json();
    let message = body["message"].as_str().unwrap();
    assert!(
        message.contains("may or may not have been made"),
        "{message}"
    );
}

/// A deferred constraint trigger that delays COMMIT itself.
const SLOW_COMMIT: &str = "
    CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(20); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON pets DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION dawdle()";

/// The connection is lost during COMMIT: the outcome is unknown.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_connection_lost_during_commit_is_an_unknown_outcome() {
    let deployment = Deployment::start(1);
    deployment.sql(SLOW_COMMIT);
    let client = deployment.client(0);
    let creating = spawn_create(&client, "Rex");
    deployment.wait_for_session("query LIKE '%INSERT INTO pets%' AND wait_event = 'PgSleep'");
    deployment.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%INSERT INTO pets%'
         AND pid <> pg_backend_pid()",
    );
    assert_unknown(&creating.await.unwrap());
    // The write is not retried automatically.
    deployment.sql("DROP TRIGGER slow ON pets");
    assert_eq!(client.create("Bello").await.unwrap().status, 201);
    assert_eq!(client.pets().await.len(), 1);
}

/// A commit that is cancelled while it waits for the synchronous standby is
/// durable on the primary only: PostgreSQL reports success with a warning.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn an_unreplicated_commit_is_an_unknown_outcome() {
    let deployment = Deployment::start(1);
    // A role setting may suppress warnings.
    deployment.sql("ALTER ROLE petstore SET client_min_messages = error");
    let client = deployment.client(0);
    assert_eq!(client.create("Rex").await.unwrap().status, 201);
    deployment
        .cluster
        .set("synchronous_standby_names = 'nobody'");
    // Until the setting takes effect, creates are acknowledged.
    let response = loop {
        let creating = spawn_create(&client, "Bello");
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity
                      WHERE wait_event = 'SyncRep' AND query LIKE '%INSERT INTO pets%'";
        let cancelled = || deployment.sql(cancel) != "0";
        wait_for("the create to wait for the standby", || {
            (cancelled() || creating.is_finished()).then_some(())
        });
        let response = creating.await.unwrap();
        if response.status != 201 {
            break response;
        }
    };
    assert_unknown(&response);
}

/// A statement that exceeds its timeout is cancelled, and its locks are released.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_timed_out_create_leaves_no_transaction_open() {
    let deployment = Deployment::start(1);
    deployment.sql(SLOW_COMMIT);
    let response = deployment.client(0).create("Rex").await.unwrap();
    response.assert_error(503, "unavailable");
    let running = "SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'petstore' AND state <> 'idle'";
    wait_for("the statement to end", || {
        (deployment.sql(running) == "0").then_some(())
    });
    assert_eq!(deployment.sql("SELECT count(*) FROM pets"), "0");
}

/// A statement that the server does not accept ends its transaction: the next change of the
/// session starts its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn a_rejected_statement_leaves_no_transaction_open() {
    let deployment = Deployment::start(1);
    let client = deployment.client(0);
    let id = client.create("Rex").await.unwrap().json()["id"].clone();
    let path = format!("/v1/pets/{id}");
    let rename = async |name: &str| {
        let change = json!({ "name": name });
        let renamed = client.send_json(Method::PATCH, &path, &change, None);
        renamed.await.unwrap()
    };
    deployment.sql("ALTER TABLE events RENAME COLUMN data TO other");
    for _ in 0..10 {
        rename("Max").await.assert_error(500, "internal_error");
    }
    deployment.sql("ALTER TABLE events RENAME COLUMN other TO data");
    for _ in 0..10 {
        assert_eq!(rename("Max").await.status, 200);
    }
}

/// During a rolling upgrade the schema is newer than some replicas expect.
/// `min_compatible_version` is the oldest version that may still use it.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn rolling_upgrade_checks_schema_compatibility() {
    let mut deployment = Deployment::start(1);
    deployment.services.remove(0).stop();
    deployment.sql("UPDATE schema_version SET version = 99");
    deployment.home.serve().stop();
    deployment.sql("UPDATE schema_version SET min_compatible_version = 99");
    let rejected = deployment.home.keys(&["list"]);
    rejected.assert_fails(1, "newer petstore (schema 99");
}

/// All migrations are one transaction. Replicas that start at once wait for it.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn a_failed_migration_changes_nothing() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    // In the way of the first migration, after its first table.
    cluster.psql(&database, "CREATE TABLE orders (text text)");
    let home = Home::with_database(cluster.url(&database));
    let failed = home.petstore(&["seed", "1", "--database", &home.url()]);
    failed.assert_fails(1, "relation \"orders\" already exists");
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

/// A name that the encoding cannot represent would fail its whole group commit.
#[test]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
fn only_utf8_databases_are_accepted() {
    let cluster = Cluster::start();
    let latin = "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0";
    cluster.psql("postgres", latin);
    let rejected = Home::with_database(cluster.url("latin")).keys(&["create", "test"]);
    rejected.assert_fails(1, "is in LATIN1");
}

#[test]
fn connection_errors_do_not_reveal_the_password() {
    let home = Home::with_database("postgres://till:secret@127.0.0.1:9/shop".into());
    let finished = home.petstore(&["keys", "list", "--database", &home.url()]);
    finished.assert_fails(1, "postgres://till@127.0.0.1:9/shop");
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
        let finished = CommandResult::of(command.args(["serve", "--database", wrong]));
        finished.assert_fails(2, "--database");
        assert!(!finished.stderr.contains("secret"), "{finished:?}");
        let mut command = home.command(PETSTORE);
        let help = command
            .args(["serve", "--help"])
            .env("PETSTORE_DATABASE", wrong);
        let help = CommandResult::of(help).success().stdout;
        assert!(!help.contains("secret"), "{help}");
    }
}

/// The state after a failover.
struct Failover {
    results: WriteResults,
    /// The pets that are stored afterwards.
    pets: Vec<Pet>,
    /// The names in the events that a reader got by following the log during the failover, or
    /// the response that told it to start over.
    followed: Result<Vec<String>, Response>,
}

/// Follows the log until the last pet is in it.
async fn follow(
    client: Client,
    mut path: String,
    last: watch::Receiver<String>,
) -> Result<Vec<String>, Response> {
    let mut names = Vec::<String>::new();
    while names.last() != Some(&*last.borrow()) {
        let page = client.send_json(Method::GET, &path, &Value::Null, None);
        match page.await.unwrap() {
            page if page.status == 200 => {
                let page_of_events = page.json();
                let events = page_of_events.as_array().unwrap().iter();
                names.extend(events.map(|event| event["data"]["name"].as_str().unwrap().into()));
                path = page.next().unwrap();
            }
            page if page.status == 503 => {}
            page => return Err(page),
        }
    }
    Ok(names)
}

/// Fails over under load.
///
/// The standby is disconnected before the primary crashes. With synchronous
/// replication the primary acknowledges nothing from then on; with asynchronous
/// replication it does.
async fn fail_over(synchronous: bool) -> Failover {
    let primary = Cluster::start();
    let standby = primary.start_standby();
    if synchronous {
        primary.set("synchronous_standby_names = '*'");
    }
    let state = if synchronous { "sync" } else { "async" };
    let streaming =
        format!("SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{state}'");
    let streams = || (primary.psql("postgres", &streaming) == "1").then_some(());
    wait_for("the standby to stream", streams);

    let database = primary.create_database();
    let home = home_on_hosts(primary.port, standby.port, &database);
    let key = home.new_key();
    let service = home.serve();
    let client = Client::new(&service, &key);
    let (last, end) = watch::channel(String::new());
    let reader = tokio::spawn(follow(
        client.clone(),
        "/v1/events?limit=1000&wait=1".into(),
        end,
    ));
    let load = LoadGenerator::start(&client, 16, "before");
    load.until(|results| results.acknowledged.len() >= 300)
        .await;

    standby.set("primary_conninfo = ''");
    wait_for("the standby to disconnect", || {
        streams().is_none().then_some(())
    });
    if !synchronous {
        load.proceed(100).await;
    }
    primary.crash();
    load.until(|results| results.unavailable > 0).await;
    standby.psql("postgres", "SELECT pg_promote()");
    load.until(|results| results.consecutive_acks >= 300).await;

    let results = load.finish().await;
    assert_eq!(client.create("last").await.unwrap().status, 201);
    last.send_replace("last".into());
    let followed = reader.await.unwrap();
    let mut pets = client.pets().await;
    pets.pop();
    service.stop();
    Failover {
        results,
        pets,
        followed,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn failover_to_a_synchronous_standby_loses_no_acknowledged_write() {
    let Failover {
        results,
        pets,
        followed,
    } = fail_over(true).await;
    results.assert_durable(&pets);
    let followed = followed.unwrap();
    let mut stored: Vec<_> = pets.iter().map(|(_, name)| &**name).collect();
    stored.push("last");
    let mut seen: Vec<_> = followed.iter().map(String::as_str).collect();
    stored.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, stored);
}

/// Tests the test: without synchronous replication writes are lost. A reader who has seen
/// them is told so.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL; make test installs it and runs this"]
async fn failover_to_an_asynchronous_standby_loses_writes() {
    let Failover {
        results,
        pets,
        followed,
    } = fail_over(false).await;
    let gone = followed.expect_err("the reader has seen events that were lost");
    gone.assert_error(410, "cursor_unknown");
    let is_stored = |name: &String| pets.iter().any(|(_, stored)| stored == name);
    let lost = results.acknowledged.keys().filter(|name| !is_stored(name));
    assert!(lost.count() > 0, "the standby did not lag");
}
