//! Starts the service as production does, over a fresh database, and talks to
//! it.

use std::{
    io::Write,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::{Child, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use http_body_util::Full;
use jiff::Timestamp;
use petstore::{
    api_key::{ApiKeySecret, NewApiKey, Scope, Scopes},
    server::Tls,
    service::{self, Listeners, Settings},
    store::{DatabaseUrl, Options, Role, Store},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

use crate::{contract, identity::Identity, postgres::Cluster};

/// What the suite runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    Sqlite,
    Postgres,
    /// SQLite, and every connection is encrypted.
    Tls,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Sqlite, Self::Postgres, Self::Tls];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Tls => "tls",
        }
    }
}

/// The server that all cases on PostgreSQL share, each with its database.
pub static CLUSTER: OnceLock<Cluster> = OnceLock::new();

fn cluster() -> &'static Cluster {
    CLUSTER.get().expect("PostgreSQL was started")
}

/// A service before it starts.
pub struct Plan {
    pub settings: Settings,
    pub options: Options,
    /// Statements that are run on the database first.
    pub sql: &'static str,
}

/// A running service. It ends with the test.
pub struct Server {
    pub address: SocketAddr,
    metrics_address: SocketAddr,
    /// The secret of a key with all scopes.
    pub key: String,
    pub database: Database,
    pub tls: Option<(Identity, TempDir)>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// A database of the test's own.
pub enum Database {
    Sqlite(TempDir),
    Postgres(String),
}

impl Database {
    fn new(backend: Backend) -> Self {
        match backend {
            Backend::Sqlite | Backend::Tls => Self::Sqlite(tempfile::tempdir().unwrap()),
            Backend::Postgres => Self::Postgres(cluster().create_database()),
        }
    }

    fn url(&self) -> DatabaseUrl {
        match self {
            Self::Sqlite(folder) => DatabaseUrl::Sqlite(file(folder)),
            Self::Postgres(name) => cluster().url(name).parse().unwrap(),
        }
    }

    /// Runs statements beside the service.
    pub fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(folder) => {
                let db = rusqlite::Connection::open(file(folder)).unwrap();
                db.busy_timeout(Duration::from_secs(10)).unwrap();
                db.execute_batch(sql).unwrap();
            }
            Self::Postgres(name) => drop(cluster().psql(name, sql)),
        }
    }

    /// The one text that a query gives.
    pub fn query(&self, sql: &str) -> String {
        match self {
            Self::Sqlite(folder) => {
                let db = rusqlite::Connection::open(file(folder)).unwrap();
                db.query_row(sql, [], |row| row.get(0)).unwrap()
            }
            Self::Postgres(name) => cluster().psql(name, sql),
        }
    }

    /// Keeps everyone else from adding animals until it is dropped.
    pub fn lock(&self) -> Lock {
        match self {
            Self::Sqlite(folder) => {
                let db = rusqlite::Connection::open(file(folder)).unwrap();
                db.execute_batch("BEGIN IMMEDIATE").unwrap();
                Lock::Sqlite(db)
            }
            Self::Postgres(name) => {
                let mut psql = cluster().psql_command(name);
                let hold = "BEGIN; LOCK pets IN EXCLUSIVE MODE; SELECT pg_sleep(60)";
                let child = psql
                    .arg(hold)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn();
                let held = "SELECT count(*) FROM pg_locks
                            WHERE relation = 'pets'::regclass AND mode = 'ExclusiveLock' AND granted";
                let mut tries = 0..1000;
                while cluster().psql(name, held) == "0" {
                    tries.next().expect("the lock is taken");
                    std::thread::sleep(Duration::from_millis(10));
                }
                Lock::Postgres(child.unwrap(), name.clone())
            }
        }
    }

    /// Spoils the storage under the running service.
    pub fn destroy(&self) {
        match self {
            Self::Sqlite(folder) => {
                for name in ["petstore.db-wal", "petstore.db"] {
                    let path = folder.path().join(name);
                    let size = std::fs::metadata(&path).unwrap().len();
                    let mut file = std::fs::File::options().write(true).open(path).unwrap();
                    file.write_all(&vec![0xff; size as usize]).unwrap();
                }
            }
            Self::Postgres(name) => {
                let refuse = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
                cluster().psql("postgres", &refuse);
                end_sessions(name, "petstore");
            }
        }
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("petstore.db")
}

/// Ends the sessions of a program.
fn end_sessions(database: &str, application: &str) {
    let end = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = '{database}' AND application_name = '{application}'"
    );
    cluster().psql("postgres", &end);
}

/// Holds everyone else's writes up.
pub enum Lock {
    Sqlite(#[expect(dead_code, reason = "it is held")] rusqlite::Connection),
    Postgres(Child, String),
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Self::Postgres(psql, database) = self {
            end_sessions(database, "psql");
            psql.wait().unwrap();
        }
    }
}

/// Asks again and again until it is so; gives up at last.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(30), asking).await;
    asked.unwrap_or_else(|_| panic!("gave up waiting: {what}"));
}

impl Server {
    pub async fn start(backend: Backend) -> Self {
        Self::start_with(backend, |_| {}).await
    }

    pub async fn start_with(backend: Backend, change: impl FnOnce(&mut Plan)) -> Self {
        let mut plan = Plan {
            settings: Settings::default(),
            options: Options::new(Role::Service),
            sql: "",
        };
        let tls = (backend == Backend::Tls).then(|| {
            let folder = tempfile::tempdir().unwrap();
            (Identity::new(folder.path()), folder)
        });
        if let Some((identity, _)) = &tls {
            let tls = Tls::load(&identity.certificate, &identity.key);
            plan.settings.tls = Some(Arc::new(tls.unwrap()));
        }
        change(&mut plan);
        let database = Database::new(backend);
        let store = Store::open(&database.url(), &plan.options).await.unwrap();
        database.execute(plan.sql);
        let key = new_key(&store, Scopes::all(), None).await;
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
            service::run(listeners, store, plan.settings, shutdown)
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

    /// Stops the service in good order.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        (&mut self.task).await.unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = self.tls.as_ref().map_or("http", |_| "https");
        format!("{scheme}://{}{path}", self.address)
    }

    /// Makes another key, as `petstore keys create` does beside the service.
    pub async fn make_key(&self, scopes: &[Scope], expires_at: Option<Timestamp>) -> String {
        let store = Store::open(&self.database.url(), &Options::new(Role::Tool))
            .await
            .unwrap();
        let key = new_key(&store, scopes.iter().copied().collect(), expires_at).await;
        store.close().await;
        key
    }

    /// A request with the key of all scopes.
    pub fn request(&self, method: Method, path: &str) -> Request<'_> {
        let mut headers = HeaderMap::new();
        let key = HeaderValue::try_from(format!("Bearer {}", self.key)).unwrap();
        headers.insert(http::header::AUTHORIZATION, key);
        Request {
            server: self,
            method,
            path: path.into(),
            headers,
            body: Vec::new(),
            judged: true,
            http2: false,
            from: None,
        }
    }

    /// What the metrics' own listener answers.
    pub async fn metrics_request(&self, method: Method, path: &str) -> reqwest::Response {
        let url = format!("http://{}{path}", self.metrics_address);
        let request = reqwest::Client::new().request(method, url);
        request.send().await.unwrap()
    }

    /// Sends bytes to that listener, and gives all that it answers.
    pub async fn metrics_bytes(&self, bytes: &str) -> String {
        let mut stream = TcpStream::connect(self.metrics_address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// The value of a metric, given with its labels; 0 if it is not there.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.metrics_request(Method::GET, "/metrics").await;
        let text = text.text().await.unwrap();
        let mut values = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = values.find(|(given, _)| *given == name);
        found.map_or(0.0, |(_, value)| value.parse().unwrap())
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.request(Method::GET, path).send().await
    }

    /// Posts a JSON body.
    pub async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        let request = self.request(Method::POST, path);
        request
            .header("content-type", "application/json")
            .body(body)
            .send()
            .await
    }

    /// Adds an animal and returns its id.
    pub async fn create(&self, body: Value) -> i64 {
        let reply = self.post("/v1/pets", body.to_string()).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["id"].as_i64().unwrap()
    }

    /// Places an order and returns its id.
    pub async fn place(&self, pet: i64) -> i64 {
        let reply = self.order(pet).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["id"].as_i64().unwrap()
    }

    /// Asks for an order on a pet.
    pub async fn order(&self, pet: i64) -> Reply {
        let claim = format!("{{\"petId\":{pet}}}");
        self.post("/v1/store/orders", claim).await
    }

    /// Completes or cancels an order.
    pub async fn close(&self, order: i64, how: &str) -> Reply {
        let path = format!("/v1/store/orders/{order}/{how}");
        self.request(Method::POST, &path).send().await
    }

    /// Sends a merge patch.
    pub async fn patch(&self, path: &str, patch: impl Into<Vec<u8>>) -> Reply {
        let request = self.request(Method::PATCH, path);
        let request = request.header("content-type", "application/merge-patch+json");
        request.body(patch).send().await
    }

    /// The status of a pet.
    pub async fn status_of(&self, pet: i64) -> Value {
        self.get(&format!("/v1/pets/{pet}")).await.json()["status"].clone()
    }

    pub async fn create_some(&self, count: usize) {
        for n in 1..=count {
            self.create(serde_json::json!({"name": format!("Pet {n}"), "categoryId": 1}))
                .await;
        }
    }

    pub async fn count(&self) -> usize {
        let reply = self.get("/v1/pets?limit=100").await;
        reply.json().as_array().unwrap().len()
    }
}

async fn new_key(store: &Store, scopes: Scopes, expires_at: Option<Timestamp>) -> String {
    let secret = ApiKeySecret::generate();
    let new = NewApiKey {
        name: "test".parse().unwrap(),
        scopes,
        created_at: Timestamp::now(),
        expires_at,
    };
    store.api_key_create(new, secret.hash()).await.unwrap();
    secret.reveal().into()
}

/// A request on its way.
pub struct Request<'a> {
    server: &'a Server,
    pub method: Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    judged: bool,
    http2: bool,
    from: Option<IpAddr>,
}

impl Request<'_> {
    /// Leaves the body unjudged: it has a number that the judge, who reads
    /// doubles, cannot hold.
    pub fn beyond_doubles(mut self) -> Self {
        self.judged = false;
        self
    }

    /// Adds a header, beside others of the same name.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.headers.append(name, value);
        self
    }

    pub fn without_key(mut self) -> Self {
        self.headers.remove(http::header::AUTHORIZATION);
        self
    }

    pub fn with_key(self, key: &str) -> Self {
        self.without_key()
            .header("authorization", format!("Bearer {key}"))
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Speaks HTTP/2 without asking first.
    pub fn over_http2(mut self) -> Self {
        self.http2 = true;
        self
    }

    /// Comes from an address of its own.
    pub fn from(mut self, address: impl Into<IpAddr>) -> Self {
        self.from = Some(address.into());
        self
    }

    /// As hyper takes it.
    pub fn into_http(self) -> http::Request<Full<Bytes>> {
        let url = self.server.url(&self.path);
        let mut request = http::Request::builder().method(self.method).uri(url);
        *request.headers_mut().unwrap() = self.headers;
        request.body(Full::from(self.body)).unwrap()
    }

    /// Sends it and holds the answer against the contract.
    pub async fn send(self) -> Reply {
        let (method, path) = (self.method.clone(), self.path.clone());
        let body = self.judged.then(|| self.body.clone());
        let reply = match self.server.tls {
            None => self.send_plain().await,
            Some(_) => {
                let (server, from, http2) = (self.server, self.from, self.http2);
                let request = self.into_http();
                server.send_encrypted(request, from, http2).await
            }
        };
        contract::check(&method, &path, body.as_deref(), &reply);
        reply
    }

    async fn send_plain(self) -> Reply {
        let mut client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .local_address(self.from);
        if self.http2 {
            client = client.http2_prior_knowledge();
        }
        let client = client.build().unwrap();
        let url = self.server.url(&self.path);
        let request = client
            .request(self.method, url)
            .headers(self.headers)
            .body(self.body);
        let response = request.send().await.unwrap();
        assert_eq!(response.version() == Version::HTTP_2, self.http2);
        Reply {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The target of the link to the next page.
    pub fn next(&self) -> Option<String> {
        let link = self.header("link")?.strip_prefix('<')?;
        link.strip_suffix(">; rel=\"next\"").map(String::from)
    }

    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        let expected = (status, code.to_string());
        let code = self.json()["code"].as_str().unwrap_or_default().to_string();
        assert_eq!((self.status.as_u16(), code), expected, "{}", self.text());
    }
}
