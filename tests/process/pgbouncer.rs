//! PgBouncer in transaction pooling mode between the service and PostgreSQL.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Child, Stdio},
};

use support::{Cluster, free_address, postgres::as_owner, wait_for};
use tempfile::TempDir;

use crate::{
    client::{Client, LoadGenerator},
    event_log::UNLOGGED,
    harness::Home,
};

/// Fewer than the connections that one service opens.
const SERVER_CONNECTIONS: usize = 3;

/// A running PgBouncer in transaction pooling mode. Killed on drop.
struct Pooler {
    process: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Pooler {
    /// Starts one in front of all databases of the cluster.
    fn start(cluster: &Cluster) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = free_address();
        let settings = format!(
            "[databases]
             * = host=127.0.0.1 port={} user=petstore
             [pgbouncer]
             listen_addr = 127.0.0.1
             listen_port = {}
             unix_socket_dir =
             auth_type = any
             pool_mode = transaction
             default_pool_size = {SERVER_CONNECTIONS}",
            cluster.port,
            address.port()
        );
        // PgBouncer runs as another user, who must be able to read this.
        let file = dir.path().join("pgbouncer.ini");
        fs::write(&file, settings.replace("\n             ", "\n")).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut command = as_owner("pgbouncer");
        let process = command
            .arg(file)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        // Built before waiting: if that panics, drop kills the process.
        let mut pooler = Self {
            process,
            address,
            dir,
        };
        wait_for("pgbouncer", || {
            let ended = pooler.process.try_wait().unwrap();
            assert!(ended.is_none(), "pgbouncer exited: {}", pooler.log());
            TcpStream::connect(address).ok()
        });
        pooler
    }

    fn url(&self, database: &str) -> String {
        format!("postgres://petstore@{}/{database}", self.address)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap()
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two replicas with more connections than the pool: all operations work, and
/// no acknowledged write is lost.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs pgbouncer; make test installs it and runs this"]
async fn transaction_pooling_is_supported() {
    let cluster = Cluster::start();
    let database = cluster.create_database();
    let pooler = Pooler::start(&cluster);
    let url = pooler.url(&database);
    let home = Home::with_database(format!("{url}?prepared_statements=false"));
    let key = home.new_key();
    let other = home.new_key();
    let services = [home.serve(), home.serve()];
    let clients = services
        .each_ref()
        .map(|service| Client::new(service, &key));

    let loads = [("a", &clients[0]), ("b", &clients[1])]
        .map(|(name, client)| LoadGenerator::start(client, 16, name));
    for load in &loads {
        load.until(|results| results.acknowledged.len() >= 500)
            .await;
    }
    for client in &clients {
        for path in [
            "/v1/pets?status=sold",
            "/v1/pets?limit=7",
            "/v1/pets/1",
            "/v1/store/orders",
        ] {
            assert_eq!(client.get(path).await.status, 200, "{path}");
        }
    }
    let sessions = cluster.psql(
        &database,
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    assert_eq!(sessions, SERVER_CONNECTIONS.to_string());

    let visitor = Client::new(&services[1], &other);
    assert_eq!(visitor.get("/v1/pets").await.status, 200);
    home.keys(&["revoke", "2"]).success();
    visitor.wait_until_rejected().await;

    for (load, client) in loads.into_iter().zip(&clients) {
        let results = load.finish().await;
        assert_eq!(results.unavailable, 0, "{results:?}");
        let prefix = results
            .acknowledged
            .keys()
            .next()
            .unwrap()
            .get(..1)
            .unwrap();
        let mut pets = client.pets().await;
        pets.retain(|(_, name)| name.starts_with(prefix));
        results.assert_durable(&pets);
    }
    let by_others = "SELECT count(*) FROM events
                     WHERE api_key_id IS DISTINCT FROM 1 AND type NOT LIKE 'key.%'";
    assert_eq!(cluster.psql(&database, by_others), "0");
    assert_eq!(cluster.psql(&database, &UNLOGGED), "0");
    for service in services {
        service.stop();
    }
}
