//! A receiver of webhooks that a test controls.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;

/// A request that was received.
#[derive(Debug, Clone)]
pub struct Received {
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whether this message was received before.
    pub is_repeated: bool,
}

impl Received {
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub fn assert_signed_by(&self, secret: &str) {
        assert!(self.is_signed_by(secret));
    }

    /// Verifies the signature as a receiver does.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let (id, timestamp) = (self.header("webhook-id"), self.header("webhook-timestamp"));
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap());
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.unwrap()).unwrap();
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(&self.body);
        let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let mut signatures = self.header("webhook-signature").split(' ');
        signatures.any(|signature| signature == expected)
    }
}

/// How to respond.
#[derive(Debug, Clone, Copy)]
pub enum Reply {
    Status(u16),
    /// With `Retry-After` in seconds.
    Busy(u32),
    Never,
}

type Respond = Box<dyn FnMut(&Received) -> Reply + Send>;

/// It responds with 200 until it is told otherwise.
pub struct Receiver {
    pub address: SocketAddr,
    state: Arc<State>,
}

struct State {
    received: Mutex<Vec<Received>>,
    ids: Mutex<HashSet<String>>,
    respond: Mutex<Respond>,
    in_flight: AtomicUsize,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            received: Mutex::default(),
            ids: Mutex::default(),
            respond: Mutex::new(Box::new(|_| Reply::Status(200))),
            in_flight: AtomicUsize::new(0),
        });
        let shared = state.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let state = shared.clone();
                let service = service_fn(move |request| respond(state.clone(), request));
                let connection = http1::Builder::new();
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, state }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// Decides how to respond from now on.
    pub fn respond(&self, respond: impl FnMut(&Received) -> Reply + Send + 'static) {
        *self.state.respond.lock().unwrap() = Box::new(respond);
    }

    /// The number of requests that were received.
    pub fn count(&self) -> usize {
        self.state.received.lock().unwrap().len()
    }

    pub fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap().clone()
    }

    /// How often each message was received.
    pub fn ids(&self) -> HashMap<String, usize> {
        let mut ids = HashMap::new();
        for request in self.received() {
            *ids.entry(request.header("webhook-id").into()).or_default() += 1;
        }
        ids
    }

    /// Requests that were received and not responded to; a closed connection ends them.
    pub fn in_flight(&self) -> usize {
        self.state.in_flight.load(SeqCst)
    }
}

struct InFlight(Arc<State>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}

async fn respond(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let reply = {
        let mut all = state.received.lock().unwrap();
        let id = head.headers["webhook-id"].to_str().unwrap().into();
        let received = Received {
            target: head.uri.to_string(),
            is_repeated: !state.ids.lock().unwrap().insert(id),
            headers: head.headers,
            body,
        };
        all.push(received.clone());
        (state.respond.lock().unwrap())(&received)
    };
    state.in_flight.fetch_add(1, SeqCst);
    let _in_flight = InFlight(state);
    let response = match reply {
        Reply::Status(status) => Response::builder().status(status),
        Reply::Busy(seconds) => Response::builder()
            .status(503)
            .header("retry-after", seconds),
        Reply::Never => std::future::pending().await,
    };
    Ok(response.body(Empty::new()).unwrap())
}
