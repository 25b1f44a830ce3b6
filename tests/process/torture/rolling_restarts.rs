//! Rolling restarts of three replicas behind HAProxy, with the configuration that we
//! recommend: no client notices.

use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use http::Method;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use support::{Cluster, eventually, free_address, random, rounds, wait_for};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::{
    client::Client,
    harness::{Home, PETSTORE, Service},
};

const CLIENTS: usize = 12;

/// Longer than HAProxy takes to notice that a replica is not ready.
const DRAIN_DELAY: &str = "3s";

/// HAProxy in front of the replicas. Killed on drop.
struct Proxy {
    process: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Proxy {
    fn start(replicas: &[SocketAddr]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let address = free_address();
        let mut config = fs::read_to_string("deploy/haproxy.cfg").unwrap();
        config = config.replace("bind :8080", &format!("bind {address}"));
        for (number, replica) in replicas.iter().enumerate() {
            let example = format!("10.0.0.1{}:8080", number + 1);
            assert!(config.contains(&example));
            config = config.replace(&example, &replica.to_string());
        }
        let file = dir.path().join("haproxy.cfg");
        fs::write(&file, config).unwrap();
        let path = env::var("PATH").unwrap_or_default();
        let process = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(file)
            .env("PATH", format!("{path}:/usr/sbin"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("HAProxy is installed");
        let proxy = Self {
            process,
            address,
            _dir: dir,
        };
        wait_for("the proxy to listen", || TcpStream::connect(address).ok());
        proxy
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Replicas on fixed ports, and the proxy before them.
struct Deployment {
    // Fields drop in this order: the services before their database.
    proxy: Proxy,
    replicas: Vec<Service>,
    home: Home,
    key: String,
    _cluster: Cluster,
}

impl Deployment {
    fn start() -> Self {
        let cluster = Cluster::start();
        let home = Home::with_database(cluster.url(&cluster.create_database()));
        let key = home.new_key();
        let addresses = [(); 3].map(|()| free_address());
        let replicas = addresses.map(|address| start_replica(&home, address));
        Self {
            proxy: Proxy::start(&addresses),
            replicas: replicas.into(),
            home,
            key,
            _cluster: cluster,
        }
    }

    fn client(&self) -> Client {
        Client::at(self.proxy.address, &self.key)
    }

    /// Replaces a replica by a new process and waits until it is ready.
    async fn restart(&mut self, number: usize, stop: fn(Service)) {
        let replica = self.replicas.remove(number);
        let address = replica.address;
        tokio::task::block_in_place(|| stop(replica));
        let replica = start_replica(&self.home, address);
        let client = Client::new(&replica, &self.key);
        self.replicas.insert(number, replica);
        let ready = async || client.get("/readyz").await.status == 200;
        eventually("the replica to be ready", ready).await;
        // Until the proxy has seen it, too.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn start_replica(home: &Home, address: SocketAddr) -> Service {
    let mut command = home.command(PETSTORE);
    command.args(["serve", "--listen", &address.to_string()]);
    command.args(["--database", &home.url(), "--drain-delay", DRAIN_DELAY]);
    Service::start(&mut command)
}

/// Clients that send requests one after the other, without retries: reads, and writes
/// with and without an idempotency key.
struct Load {
    clients: JoinSet<()>,
    stop: Arc<AtomicBool>,
    responses: Arc<AtomicUsize>,
    /// Names of the pets whose creation was acknowledged.
    created: Arc<Mutex<Vec<String>>>,
    failures: Arc<Mutex<Vec<String>>>,
}

impl Load {
    fn start(client: &Client, random: &mut StdRng) -> Self {
        let mut load = Self {
            clients: JoinSet::new(),
            stop: Arc::default(),
            responses: Arc::default(),
            created: Arc::default(),
            failures: Arc::default(),
        };
        for number in 0..CLIENTS {
            let mut random = StdRng::from_rng(random);
            let client = client.clone();
            let stop = load.stop.clone();
            let responses = load.responses.clone();
            let created = load.created.clone();
            let failures = load.failures.clone();
            load.clients.spawn(async move {
                for count in 0.. {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let name = format!("{number}-{count}");
                    let pet = json!({"name": name, "categoryId": 1});
                    let (method, body, status) = match random.random_range(0..3) {
                        0 => (Method::GET, Value::Null, 200),
                        _ => (Method::POST, pet, 201),
                    };
                    let key = random.random::<bool>().then_some(&*name);
                    let key = key.filter(|_| status == 201);
                    let sent = client
                        .send_json(method.clone(), "/v1/pets", &body, key)
                        .await;
                    responses.fetch_add(1, Relaxed);
                    match sent {
                        Ok(response) if response.status == status => {
                            if status == 201 {
                                created.lock().unwrap().push(name);
                            }
                        }
                        other => {
                            let failure = format!("{method} {name}: {other:?}");
                            failures.lock().unwrap().push(failure);
                        }
                    }
                    let pause = random.random_range(0..20);
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            });
        }
        load
    }

    /// Waits until this many more requests were sent.
    async fn proceed(&self, requests: usize) {
        let until = self.responses.load(Relaxed) + requests;
        let done = async || self.responses.load(Relaxed) >= until;
        eventually("requests to be sent", done).await;
    }

    /// Stops the clients; returns the names of the pets that they created, and failures.
    async fn finish(mut self) -> (Vec<String>, Vec<String>) {
        self.stop.store(true, Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        let created = std::mem::take(&mut *self.created.lock().unwrap());
        let failures = std::mem::take(&mut *self.failures.lock().unwrap());
        (created, failures)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and HAProxy; make test installs them and runs this"]
async fn rolling_restarts_lose_no_request() {
    let mut random = random("rolling restarts");
    let mut deployment = Deployment::start();
    let load = Load::start(&deployment.client(), &mut random);
    let restarts = rounds(3, 50);
    for _ in 0..restarts {
        load.proceed(100).await;
        let number = random.random_range(0..deployment.replicas.len());
        deployment.restart(number, Service::stop).await;
    }
    load.proceed(100).await;
    let requests = load.responses.load(Relaxed);
    let (mut created, failures) = load.finish().await;
    println!(
        "{restarts} restarts, {requests} requests, {} failed",
        failures.len()
    );
    assert_eq!(failures, Vec::<String>::new());
    // Every acknowledged pet is stored exactly once.
    let stored = deployment.client().pets().await;
    let mut stored: Vec<_> = stored.into_iter().map(|(_, name)| name).collect();
    created.sort();
    stored.sort();
    assert_eq!(stored, created);
}

/// The control: the same clients notice replicas that are killed. Each is stopped before, so
/// that it has requests when it is killed; a fast machine answers nearly all of them in time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL and HAProxy; make test installs them and runs this"]
async fn killed_replicas_lose_requests() {
    let mut deployment = Deployment::start();
    let load = Load::start(&deployment.client(), &mut random("replicas killed"));
    for round in 0.. {
        deployment.replicas[round % 3].signal("STOP");
        load.proceed(100).await;
        deployment.restart(round % 3, Service::kill).await;
        if !load.failures.lock().unwrap().is_empty() {
            break;
        }
        assert!(round < 20, "no request was lost in {round} kills");
    }
    load.finish().await;
}
