//! HTTP clients, a load generator, and the record of acknowledged writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::{Value, json};
use support::{HttpClient, RequestError, Response, TIMEOUT, eventually};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    harness::Service,
    photos::{PhotoState, add_photo, assert_photo},
};

/// An HTTP client with an API key.
#[derive(Clone)]
pub struct Client {
    http: HttpClient,
    key: String,
}

/// A pet by its id and name.
pub type Pet = (i64, String);

/// No response at all is an `Err`.
pub type ResponseResult = Result<Response, RequestError>;

impl Client {
    pub fn new(service: &Service, key: &str) -> Self {
        Self::at(service.address, key)
    }

    /// A client of the service at this address, which may be that of a proxy.
    pub fn at(address: SocketAddr, key: &str) -> Self {
        Self {
            http: HttpClient::new(address),
            key: key.into(),
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        let response = self.send_json(Method::GET, path, &Value::Null, None).await;
        response.unwrap()
    }

    /// Waits until the service knows that the API key is revoked.
    pub async fn wait_until_rejected(&self) {
        let rejected = async || match self.get("/v1/pets").await {
            response if response.status == 200 => false,
            response => {
                response.assert_error(401, "invalid_api_key");
                true
            }
        };
        eventually("the key is rejected", rejected).await;
    }

    /// Creates a pet.
    pub async fn create(&self, name: &str) -> ResponseResult {
        self.send_json(Method::POST, "/v1/pets", &pet(name), None)
            .await
    }

    /// Deletes a pet.
    pub async fn delete(&self, id: i64) -> ResponseResult {
        let path = format!("/v1/pets/{id}");
        self.send_json(Method::DELETE, &path, &Value::Null, None)
            .await
    }

    /// Sends a request with a JSON body, unless that is null, and optionally an
    /// idempotency key.
    pub async fn send_json(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> ResponseResult {
        let mut request = self.request(method, path);
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let body = if body.is_null() {
            Bytes::new()
        } else {
            request = request.header("content-type", "application/json");
            body.to_string().into()
        };
        self.http.send(request.body(body.into()).unwrap()).await
    }

    /// Adds a photo to a pet.
    pub async fn upload(&self, pet: i64, image: Vec<u8>, idempotency_key: &str) -> ResponseResult {
        let request = self.request(Method::POST, &format!("/v1/pets/{pet}/photos"));
        let request = request.header("idempotency-key", idempotency_key);
        let body = Bytes::from(image);
        self.http.send(request.body(body.into()).unwrap()).await
    }

    /// Opens the event stream, after an event if one is given.
    pub async fn stream(
        &self,
        last_event_id: Option<&str>,
    ) -> Result<http::Response<Incoming>, RequestError> {
        let mut request = self.request(Method::GET, "/v1/events/stream");
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        self.http.open(request.body(Full::default()).unwrap()).await
    }

    fn request(&self, method: Method, path: &str) -> http::request::Builder {
        let request = Request::builder().method(method).uri(self.http.url(path));
        request.header("authorization", format!("Bearer {}", self.key))
    }

    /// Lists all pets, following the `Link` header from page to page.
    pub async fn pets(&self) -> Vec<Pet> {
        self.try_pets().await.unwrap()
    }

    /// Like [`pets`](Self::pets). Another response than 200 is an `Err`.
    pub async fn try_pets(&self) -> Result<Vec<Pet>, Response> {
        let pets = self.try_list("/v1/pets?limit=100").await?;
        let pet = |pet: Value| {
            let name = pet["name"].as_str().unwrap();
            (pet["id"].as_i64().unwrap(), name.to_string())
        };
        Ok(pets.into_iter().map(pet).collect())
    }

    /// The items of all pages of a list. Another response than 200 is an `Err`.
    pub async fn try_list(&self, path: &str) -> Result<Vec<Value>, Response> {
        let mut items = Vec::new();
        let mut next = Some(path.to_string());
        while let Some(path) = next {
            let page = self.get(&path).await;
            if page.status != 200 {
                return Err(page);
            }
            items.extend(page.json().as_array().unwrap().iter().cloned());
            next = page.next();
        }
        Ok(items)
    }
}

/// The outcomes of concurrent creates and deletions, by the unique names of their pets.
#[derive(Debug, Default)]
pub struct WriteResults {
    /// Acknowledged with 201, with the assigned id, and not deleted.
    pub acknowledged: BTreeMap<String, i64>,
    /// Rejected with a 503 that promises that nothing was changed.
    pub rejected: BTreeSet<String>,
    /// Outcome unknown: another 503, or no response.
    pub unknown: BTreeSet<String>,
    /// The photos that were acknowledged, by their pet and id.
    pub photos: BTreeMap<(i64, i64), PhotoState>,
    /// The number of 503 responses.
    pub unavailable: usize,
    /// The number of requests acknowledged since the last 503.
    pub consecutive_acks: usize,
}

impl WriteResults {
    /// Records the response to a create.
    fn record(&mut self, name: String, response: &ResponseResult) {
        let Ok(response) = response else {
            self.unknown.insert(name);
            return;
        };
        if response.status == 201 {
            let id = response.json()["id"].as_i64().unwrap();
            self.acknowledged.insert(name, id);
            self.consecutive_acks += 1;
            return;
        }
        if self.record_unavailable(response) {
            self.rejected.insert(name);
        } else {
            self.unknown.insert(name);
        }
    }

    /// Records the response to the deletion of an acknowledged pet.
    fn record_deletion(&mut self, name: String, response: &ResponseResult) {
        match response {
            Ok(response) if response.status == 204 => {
                self.acknowledged.remove(&name);
                self.consecutive_acks += 1;
            }
            Ok(response) if self.record_unavailable(response) => {}
            _ => {
                self.acknowledged.remove(&name);
                self.unknown.insert(name);
            }
        }
    }

    /// Records the response to the upload of a photo. Returns its id if it was acknowledged.
    pub fn record_photo(&mut self, pet: i64, response: &ResponseResult) -> Option<i64> {
        let response = response.as_ref().ok()?;
        if response.status != 201 {
            self.record_unavailable(response);
            return None;
        }
        let id = response.json()["id"].as_i64().unwrap();
        self.photos.insert((pet, id), PhotoState::Shown);
        self.consecutive_acks += 1;
        Some(id)
    }

    /// Records the response to the deletion of a photo, or of its pet.
    pub fn record_photo_deletion(&mut self, pet: i64, id: i64, response: &ResponseResult) {
        let state = match response {
            Ok(response) if response.status == 204 => PhotoState::Deleted,
            Ok(response) if self.record_unavailable(response) => return,
            _ => PhotoState::Unknown,
        };
        self.photos.insert((pet, id), state);
    }

    /// Asserts that every acknowledged photo is served, unless it was deleted.
    pub async fn assert_photos(&self, client: &Client) {
        for ((pet, id), state) in &self.photos {
            assert_photo(client, *pet, *id, *state).await;
        }
    }

    /// Returns whether the service promises that it changed nothing.
    fn record_unavailable(&mut self, response: &Response) -> bool {
        response.assert_error(503, "unavailable");
        assert!(response.headers.contains_key("retry-after"), "{response:?}");
        self.unavailable += 1;
        self.consecutive_acks = 0;
        response.is_rejected()
    }

    /// Merges the results of other clients.
    pub fn extend(&mut self, other: Self) {
        let before = self.acknowledged.len();
        let more = other.acknowledged.len();
        self.acknowledged.extend(other.acknowledged);
        assert_eq!(
            self.acknowledged.len(),
            before + more,
            "a name was acknowledged twice"
        );
        self.photos.extend(other.photos);
        self.rejected.extend(other.rejected);
        self.unknown.extend(other.unknown);
    }

    /// Asserts that every acknowledged pet is stored exactly once under its id,
    /// that one with an unknown outcome is stored at most once, and that there
    /// are no others: none that was rejected or deleted in particular.
    #[track_caller]
    pub fn assert_durable(&self, pets: &[Pet]) {
        assert!(
            pets.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "ids do not ascend"
        );
        let stored: BTreeMap<_, _> = pets.iter().map(|(id, name)| (name, *id)).collect();
        assert_eq!(stored.len(), pets.len(), "a name is stored twice");
        for (name, id) in &self.acknowledged {
            assert_eq!(stored.get(name), Some(id), "{name} was acknowledged");
        }
        for name in stored.into_keys() {
            let known = self.acknowledged.contains_key(name) || self.unknown.contains(name);
            assert!(known, "{name} was rejected, deleted or never created");
        }
    }
}

/// Closed-loop load generator: each client creates its next pet after the
/// response to the last one, until it is stopped or the connection fails. With deletions,
/// it deletes every fourth pet. With photos, every sixth pet gets a photo, and a third of those
/// photos are deleted again, some of them with their pet.
pub struct LoadGenerator {
    clients: JoinSet<()>,
    results: Arc<Mutex<WriteResults>>,
    stop: Arc<AtomicBool>,
}

impl LoadGenerator {
    /// Starts the clients. All names begin with `prefix`, which keeps them unique.
    pub fn start(client: &Client, clients: usize, prefix: &str) -> Self {
        Self::run(client, clients, prefix, false)
    }

    /// Starts clients that delete pets, too, and add and delete photos.
    pub fn with_deletions(client: &Client, clients: usize, prefix: &str) -> Self {
        Self::run(client, clients, prefix, true)
    }

    fn run(client: &Client, clients: usize, prefix: &str, deletes: bool) -> Self {
        let mut generator = Self {
            clients: JoinSet::new(),
            results: Arc::default(),
            stop: Arc::default(),
        };
        for number in 0..clients {
            let client = client.clone();
            let prefix = format!("{prefix}-{number}");
            let results = generator.results.clone();
            let stop = generator.stop.clone();
            generator.clients.spawn(async move {
                for count in 0.. {
                    let name = format!("{prefix}-{count}");
                    let mut response = client.create(&name).await;
                    results.lock().unwrap().record(name.clone(), &response);
                    if let Ok(created) = &response
                        && created.status == 201
                        && deletes
                    {
                        let pet = created.json()["id"].as_i64().unwrap();
                        let mut photo = None;
                        if count % 6 == 1 {
                            response = add_photo(&client, pet, count).await;
                            photo = results.lock().unwrap().record_photo(pet, &response);
                        }
                        if response.is_ok() && count % 4 == 3 {
                            response = client.delete(pet).await;
                            let mut results = results.lock().unwrap();
                            results.record_deletion(name, &response);
                            if let Some(photo) = photo {
                                results.record_photo_deletion(pet, photo, &response);
                            }
                        } else if let Some(photo) = photo.filter(|_| count % 18 == 13) {
                            let path = format!("/v1/pets/{pet}/photos/{photo}");
                            let delete =
                                client.send_json(Method::DELETE, &path, &Value::Null, None);
                            response = delete.await;
                            let mut results = results.lock().unwrap();
                            results.record_photo_deletion(pet, photo, &response);
                        }
                    }
                    if response.is_err() || stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        generator
    }

    /// Waits until the results meet a condition.
    pub async fn until(&self, condition: impl Fn(&WriteResults) -> bool) {
        let started = Instant::now();
        loop {
            {
                let results = self.results.lock().unwrap();
                if condition(&results) {
                    break;
                }
                assert!(
                    started.elapsed() < TIMEOUT,
                    "timed out: {} acknowledged, {} times 503",
                    results.acknowledged.len(),
                    results.unavailable
                );
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until this many more requests are acknowledged.
    pub async fn proceed(&self, requests: usize) {
        let acknowledged = self.results.lock().unwrap().acknowledged.len() + requests;
        self.until(|results| results.acknowledged.len() >= acknowledged)
            .await;
    }

    /// Stops the clients after their current request and returns the results.
    pub async fn finish(mut self) -> WriteResults {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.clients.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut self.results.lock().unwrap())
    }
}

/// The head and the body of a raw request that creates a pet.
pub fn create_request(key: &str, name: &str, headers: &str) -> (String, String) {
    let body = pet(name).to_string();
    let length = body.len();
    let head = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: petstore\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    (head, body)
}

fn pet(name: &str) -> Value {
    json!({"name": name, "categoryId": 1})
}
