//! A receiver of webhooks that can misbehave.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};

/// How it treats a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    Healthy,
    /// Fails, is slow, or closes the connection, at random.
    Erratic,
    /// Never responds.
    Stalled,
}

/// A delivery with a valid signature.
#[derive(Debug, Clone)]
pub struct Received {
    pub event: Value,
    /// Whether it was accepted with 200.
    pub accepted: bool,
}

pub struct Receiver {
    port: u16,
    inner: Arc<Inner>,
    serving: Mutex<JoinHandle<()>>,
}

struct Inner {
    random: Mutex<StdRng>,
    /// By the path of the URL.
    endpoints: Mutex<BTreeMap<String, Endpoint>>,
}

struct Endpoint {
    behaviour: Behaviour,
    secret: String,
    received: Vec<Received>,
    /// Requests that it has not responded to.
    open: usize,
}

impl Receiver {
    pub async fn start(seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let inner = Arc::new(Inner {
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            endpoints: Mutex::default(),
        });
        let serving = Mutex::new(tokio::spawn(serve(listener, inner.clone())));
        Self {
            port,
            inner,
            serving,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// From now on accepts deliveries to a path that are signed with this secret.
    pub fn expect(&self, path: &str, secret: &str, behaviour: Behaviour) {
        let endpoint = Endpoint {
            behaviour,
            secret: secret.into(),
            received: Vec::new(),
            open: 0,
        };
        let mut endpoints = self.inner.endpoints.lock().unwrap();
        endpoints.insert(path.into(), endpoint);
    }

    pub fn behave(&self, behaviour: Behaviour) {
        let mut endpoints = self.inner.endpoints.lock().unwrap();
        for endpoint in endpoints.values_mut() {
            endpoint.behaviour = behaviour;
        }
    }

    pub fn received(&self, path: &str) -> Vec<Received> {
        self.inner.endpoints.lock().unwrap()[path].received.clone()
    }

    pub fn open_requests(&self, path: &str) -> usize {
        self.inner.endpoints.lock().unwrap()[path].open
    }

    /// Closes all connections and is gone for a while.
    pub async fn restart(&self, downtime: Duration) {
        self.serving.lock().unwrap().abort();
        sleep(downtime).await;
        // The port is free once the task has ended.
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", self.port)).await {
                Ok(listener) => break listener,
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        };
        let restarted = tokio::spawn(serve(listener, self.inner.clone()));
        *self.serving.lock().unwrap() = restarted;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.lock().unwrap().abort();
    }
}

async fn serve(listener: TcpListener, inner: Arc<Inner>) {
    // Ends the connections when the task is aborted.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let inner = inner.clone();
        let service = service_fn(move |request| respond(inner.clone(), request));
        connections.spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// An error closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("closed")]
struct Close;

impl From<Infallible> for Close {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn respond(
    inner: Arc<Inner>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Close> {
    let path = request.uri().path().to_string();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Close)?.to_bytes();
    let (event, behaviour) = {
        let mut endpoints = inner.endpoints.lock().unwrap();
        let Some(endpoint) = endpoints.get_mut(&path) else {
            return Ok(status(404));
        };
        let webhook = standardwebhooks::Webhook::new(&endpoint.secret).unwrap();
        let verified = webhook.verify(&body, &head.headers);
        assert!(verified.is_ok(), "{path}: {verified:?}");
        let event: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(event["id"], head.headers["webhook-id"].to_str().unwrap());
        endpoint.open += 1;
        (event, endpoint.behaviour)
    };
    let choice = match behaviour {
        Behaviour::Healthy => 0,
        Behaviour::Erratic => inner.random.lock().unwrap().random_range(0..20),
        Behaviour::Stalled => std::future::pending().await,
    };
    if choice == 16 {
        sleep(Duration::from_millis(300)).await;
    }
    let accepted = choice < 17;
    {
        let mut endpoints = inner.endpoints.lock().unwrap();
        let endpoint = endpoints.get_mut(&path).unwrap();
        endpoint.open -= 1;
        endpoint.received.push(Received { event, accepted });
    }
    match choice {
        17 => Ok(status(500)),
        18 => {
            let mut response = status(503);
            response
                .headers_mut()
                .insert("retry-after", "1".parse().unwrap());
            Ok(response)
        }
        19 => Err(Close),
        _ => Ok(status(200)),
    }
}

fn status(status: u16) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
