//! Starts the real service on a free port with a fresh database, with helpers for
//! common requests.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use domain::{
    api_key::{ApiKeySecret, Scope, Scopes},
    clock::Clock,
};
use http::{Method, Request, Version};
use http_body_util::Full;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use server::Tls;
use service::{Config, Listeners};
use store::{DatabaseUrl, Options, Role, Store};
use support::{Backend, Database, HttpClient, Identity, RawConnection, Response, eventually};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// The configuration of a service, before it starts.
pub struct ServerConfig {
    pub service: Config,
    pub options: Options,
    /// SQL to run on the new database before the service starts.
    pub sql: &'static str,
}

/// A running service. It stops with the runtime of its test.
pub struct Server {
    pub address: SocketAddr,
    metrics_address: SocketAddr,
    /// The secret of an API key with all scopes.
    pub key: String,
    pub database: Database,
    pub tls: Option<(Identity, TempDir)>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(backend: Backend) -> Self {
        Self::start_with(backend, |_| {}).await
    }

    /// Starts a server whose clock is some hours fast.
    pub async fn start_with_clock(backend: Backend) -> (Self, Arc<AtomicI64>) {
        let hours = Arc::new(AtomicI64::new(0));
        let offset = hours.clone();
        let clock = Clock::new(move || {
            Timestamp::now() + SignedDuration::from_hours(offset.load(Ordering::Relaxed))
        });
        let server = Self::start_with(backend, |config| config.service.api.clock = clock);
        (server.await, hours)
    }

    pub async fn start_with(backend: Backend, configure: impl FnOnce(&mut ServerConfig)) -> Self {
        let mut config = ServerConfig {
            service: Config::default(),
            options: Options::new(Role::Service),
            sql: "",
        };
        let tls = (backend == Backend::Tls).then(|| {
            let dir = tempfile::tempdir().unwrap();
            (Identity::new(dir.path()), dir)
        });
        if let Some((identity, _)) = &tls {
            let tls = Tls::load(&identity.certificate, &identity.key);
            config.service.tls = Some(Arc::new(tls.unwrap()));
        }
        configure(&mut config);
        let database = Database::new(backend);
        let store = Store::open(&database_url(&database), &config.options)
            .await
            .unwrap();
        database.execute(config.sql);
        // Every operation can be called with it.
        let scopes = Scope::ALL.into_iter().chain([Scope::KeysClaim]).collect();
        let key = insert_key(&database, scopes, None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let metrics_address = metrics.local_addr().unwrap();
        let listeners = Listeners {
            api: listener,
            metrics: Some(metrics),
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            service::run(listeners, store, config.service, Box::pin(shutdown))
                .await
                .unwrap();
        });
        Self {
            address,
            metrics_address,
            key,
            database,
            tls,
            stop: Some(stop),
            task,
        }
    }

    /// Waits until this many requests are in flight.
    pub async fn wait_until_in_flight(&self, count: u32) {
        let in_flight = async || self.metric("petstore_requests_in_flight").await;
        let reached = async || in_flight().await == f64::from(count);
        eventually("requests are in flight", reached).await;
    }

    /// Sends the signal to shut down and does not wait.
    pub fn signal_shutdown(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until the listener is closed, which is how a shutdown begins.
    pub async fn wait_until_draining(address: SocketAddr) {
        let is_closed = async || TcpStream::connect(address).await.is_err();
        eventually("the listener is closed", is_closed).await;
    }

    /// Shuts the service down gracefully.
    pub async fn stop(mut self) {
        self.shut_down().await;
    }

    /// Shuts the service down gracefully and keeps its database.
    pub async fn shut_down(&mut self) {
        self.signal_shutdown();
        (&mut self.task).await.unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        self.client(Version::HTTP_11).url(path)
    }

    /// Creates another API key while the service runs.
    pub async fn create_key(&self, scopes: &[Scope], expires_at: Option<Timestamp>) -> String {
        insert_key(&self.database, scopes.iter().copied().collect(), expires_at)
    }

    /// Sends a request to the metrics listener.
    pub async fn metrics_request(&self, method: Method, path: &str) -> Response {
        let client = HttpClient::new(self.metrics_address);
        let request = Request::builder().method(method).uri(client.url(path));
        let request = request.body(Full::default()).unwrap();
        client.send(request).await.unwrap()
    }

    /// Sends raw bytes to the metrics listener and returns everything it sends back.
    pub async fn metrics_bytes(&self, bytes: &str) -> String {
        let mut connection = RawConnection::connect(self.metrics_address).await;
        connection.send(bytes).await;
        String::from_utf8(connection.read_to_end().await).unwrap()
    }

    /// The value of a time series, `name` including its labels; 0 if it is not exported.
    pub async fn metric(&self, name: &str) -> f64 {
        let scrape = self.metrics_request(Method::GET, "/metrics").await;
        scrape.metric(name).unwrap_or(0.0)
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await
    }

    /// Posts a JSON body.
    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Response {
        let request = self.request(Method::POST, path);
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
    }

    /// Creates a pet and returns its id.
    pub async fn create(&self, body: Value) -> i64 {
        let response = self.post("/v1/pets", body.to_string()).await;
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()["id"].as_i64().unwrap()
    }

    /// Places an order and returns its id.
    pub async fn place_order(&self, pet: i64) -> i64 {
        let response = self.post_order(pet).await;
        assert_eq!(response.status, 201, "{}", response.text());
        response.json()["id"].as_i64().unwrap()
    }

    /// Sends `placeOrder` for a pet and returns the response.
    pub async fn post_order(&self, pet: i64) -> Response {
        let claim = format!("{{\"petId\":{pet}}}");
        self.post("/v1/store/orders", claim).await
    }

    /// Completes, cancels or returns an order.
    pub async fn transition(&self, order: i64, action: &str) -> Response {
        let path = format!("/v1/store/orders/{order}/{action}");
        self.request(Method::POST, &path).send().await
    }

    /// Sends a merge patch.
    pub async fn patch(&self, path: &str, patch: impl Into<Vec<u8>>) -> Response {
        let request = self.request(Method::PATCH, path);
        let request = request.header("content-type", "application/merge-patch+json");
        request.body(patch).send().await
    }

    pub async fn delete(&self, path: &str) -> Response {
        self.request(Method::DELETE, path).send().await
    }

    /// Names a category and returns the response.
    pub async fn put_category(&self, id: i64, name: &str) -> Response {
        let request = self.request(Method::PUT, &format!("/v1/categories/{id}"));
        let body = serde_json::json!({"name": name}).to_string();
        request.body(body).send().await
    }

    /// The items of all pages of a list.
    pub async fn walk(&self, path: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut next = Some(path.to_string());
        while let Some(path) = next {
            let page = self.get(&path).await;
            assert_eq!(page.status, 200, "{path}: {}", page.text());
            items.extend(page.json().as_array().unwrap().iter().cloned());
            next = page.next();
        }
        items
    }

    /// The current status of a pet.
    pub async fn pet_status(&self, pet: i64) -> Value {
        self.get(&format!("/v1/pets/{pet}")).await.json()["status"].clone()
    }

    pub async fn create_pets(&self, count: usize) {
        for n in 1..=count {
            self.create(serde_json::json!({"name": format!("Pet {n}"), "categoryId": 1}))
                .await;
        }
    }

    pub async fn count_pets(&self) -> usize {
        let response = self.get("/v1/pets?limit=100").await;
        response.json().as_array().unwrap().len()
    }
}

/// The URL of a test's database.
pub fn database_url(database: &Database) -> DatabaseUrl {
    database.url().parse().unwrap()
}

/// Inserts an API key beside the service, so that the event log has only what a test does.
/// Returns its secret.
fn insert_key(database: &Database, scopes: Scopes, expires_at: Option<Timestamp>) -> String {
    let secret = ApiKeySecret::generate();
    let hash = secret.hash();
    let hash: String = hash
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let hash = match database {
        Database::Sqlite(_) => format!("x'{hash}'"),
        Database::Postgres(_) => format!("decode('{hash}', 'hex')"),
    };
    let micros = |at: Timestamp| at.as_microsecond();
    let expires_at = expires_at.map_or("NULL".into(), |at| micros(at).to_string());
    let now = micros(Timestamp::now());
    let invitation = if scopes.has(Scope::KeysClaim) {
        "'pets:read', 1"
    } else {
        "NULL, NULL"
    };
    database.execute(&format!(
        "INSERT INTO api_keys (name, scopes, created_at, expires_at, hash,
                               invitation_scopes, invitation_invited_by)
         VALUES ('test', '{scopes}', {now}, {expires_at}, {hash}, {invitation})"
    ));
    secret.reveal().into()
}
