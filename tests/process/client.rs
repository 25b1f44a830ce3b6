//! Clients of a running service, and what they were told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::harness::{GIVE_UP, Service};

/// A client with a key.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    key: String,
}

/// What the service answered.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Response {
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) {
        let got = (self.status, self.body["code"].as_str());
        assert_eq!(got, (status, Some(code)), "{self:?}");
    }
}

/// A pet by its id and name.
pub type Pet = (i64, String);

impl Client {
    pub fn new(service: &Service, key: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(GIVE_UP);
        Self {
            http: http.build().unwrap(),
            base: service.url(""),
            key: key.into(),
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        let request = self.http.get(format!("{}{path}", self.base));
        self.send(request).await.unwrap()
    }

    /// Creates a pet; no answer at all is an error.
    pub async fn create(&self, name: &str) -> reqwest::Result<Response> {
        let request = self.http.post(format!("{}/v1/pets", self.base));
        let request = request.header("content-type", "application/json");
        self.send(request.body(pet(name))).await
    }

    /// Sends a request with a JSON body, unless that is null, and perhaps with a
    /// name; no answer at all is an error.
    pub async fn send_json(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        name: Option<&str>,
    ) -> reqwest::Result<Response> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if !body.is_null() {
            request = request.header("content-type", "application/json");
            request = request.body(body.to_string());
        }
        if let Some(name) = name {
            request = request.header("idempotency-key", name);
        }
        self.send(request).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Response> {
        let response = request.bearer_auth(&self.key).send().await?;
        Ok(Response {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: serde_json::from_slice(&response.bytes().await?).unwrap(),
        })
    }

    /// Walks through all pages, as their links lead.
    pub async fn pets(&self) -> Vec<Pet> {
        let mut pets = Vec::new();
        let mut next = Some("/v1/pets?limit=100".to_string());
        while let Some(path) = next {
            let page = self.get(&path).await;
            assert_eq!(page.status, 200, "{page:?}");
            pets.extend(page.body.as_array().unwrap().iter().map(|pet| {
                let name = pet["name"].as_str().unwrap();
                (pet["id"].as_i64().unwrap(), name.to_string())
            }));
            let link = page.headers.get("link").map(|link| link.to_str().unwrap());
            next = link.map(|link| {
                let target = link.strip_prefix('<').unwrap();
                target.strip_suffix(">; rel=\"next\"").unwrap().into()
            });
        }
        pets
    }
}

/// What clients were told of the pets that they created.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Answered with 201, under this id.
    pub acknowledged: BTreeMap<String, i64>,
    /// Answered with 503, or not at all.
    pub unsure: BTreeSet<String>,
    /// How many of these were answered.
    pub refusals: usize,
    /// How many were acknowledged since the last refusal.
    pub in_a_row: usize,
}

impl Ledger {
    fn note(&mut self, name: String, answer: &reqwest::Result<Response>) {
        let Ok(answer) = answer else {
            self.unsure.insert(name);
            return;
        };
        if answer.status == 201 {
            let id = answer.body["id"].as_i64().unwrap();
            self.acknowledged.insert(name, id);
            self.in_a_row += 1;
        } else {
            answer.assert_error(503, "unavailable");
            assert!(answer.headers.contains_key("retry-after"), "{answer:?}");
            self.unsure.insert(name);
            self.refusals += 1;
            self.in_a_row = 0;
        }
    }

    /// Takes over what other clients were told.
    pub fn extend(&mut self, other: Self) {
        let before = self.acknowledged.len();
        let more = other.acknowledged.len();
        self.acknowledged.extend(other.acknowledged);
        assert_eq!(
            self.acknowledged.len(),
            before + more,
            "a name was told twice"
        );
        self.unsure.extend(other.unsure);
    }

    /// Every acknowledged pet is there once, under its id; one that was not
    /// acknowledged is there at most once; nothing else is.
    #[track_caller]
    pub fn assert_kept(&self, pets: &[Pet]) {
        assert!(
            pets.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "ids do not ascend"
        );
        let stored: BTreeMap<_, _> = pets.iter().map(|(id, name)| (name, *id)).collect();
        assert_eq!(stored.len(), pets.len(), "a name is there twice");
        for (name, id) in &self.acknowledged {
            assert_eq!(stored.get(name), Some(id), "{name} was acknowledged");
        }
        for name in stored.into_keys() {
            let known = self.acknowledged.contains_key(name) || self.unsure.contains(name);
            assert!(known, "nobody created {name}");
        }
    }
}

/// Clients that create pets, each its next one when the last is answered,
/// until they are told to stop or the service is gone.
pub struct Load {
    clients: JoinSet<()>,
    ledger: Arc<Mutex<Ledger>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    /// Names begin with `prefix`, so that none is given twice.
    pub fn start(client: &Client, clients: usize, prefix: &str) -> Self {
        let (ledger, stop) = (Arc::<Mutex<Ledger>>::default(), Arc::default());
        let mut load = Self {
            clients: JoinSet::new(),
            ledger,
            stop,
        };
        for number in 0..clients {
            let (client, prefix) = (client.clone(), format!("{prefix}-{number}"));
            let (ledger, stop) = (load.ledger.clone(), load.stop.clone());
            load.clients.spawn(async move {
                for count in 0.. {
                    let name = format!("{prefix}-{count}");
                    let answer = client.create(&name).await;
                    ledger.lock().unwrap().note(name, &answer);
                    if answer.is_err() || stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        load
    }

    /// Waits until enough has happened.
    pub async fn until(&self, enough: impl Fn(&Ledger) -> bool) {
        let started = Instant::now();
        loop {
            {
                let ledger = self.ledger.lock().unwrap();
                if enough(&ledger) {
                    break;
                }
                let (done, refused) = (ledger.acknowledged.len(), ledger.refusals);
                let late = started.elapsed() > GIVE_UP;
                assert!(!late, "gave up: {done} acknowledged, {refused} refused");
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Gives what the clients were told, once each has had its last answer.
    pub async fn finish(mut self) -> Ledger {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.ledger.lock().unwrap())
    }
}

/// A bare connection, for clients that do what no decent one does.
pub struct Wire(TcpStream);

impl Wire {
    pub async fn open(service: &Service) -> Self {
        Self(TcpStream::connect(service.address).await.unwrap())
    }

    pub fn over(stream: TcpStream) -> Self {
        Self(stream)
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Tells the service that nothing more will be sent.
    pub async fn end_sending(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads until what came ends with `end`.
    pub async fn read_until(&mut self, end: &str) -> String {
        let mut got = Vec::new();
        while !got.ends_with(end.as_bytes()) {
            let read = timeout(GIVE_UP, self.0.read_u8()).await;
            let byte = read.expect("an answer comes").expect("an answer is whole");
            got.push(byte);
        }
        String::from_utf8(got).unwrap()
    }

    /// Reads until the service closes the connection.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let mut got = Vec::new();
        let read = timeout(GIVE_UP, self.0.read_to_end(&mut got)).await;
        read.expect("the connection is closed").unwrap();
        got
    }
}

/// The head and the body of a request that creates a pet.
pub fn create_request(key: &str, name: &str, headers: &str) -> (String, String) {
    let body = pet(name);
    let length = body.len();
    let head = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: petstore\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    (head, body)
}

fn pet(name: &str) -> String {
    json!({"name": name, "categoryId": 1}).to_string()
}
