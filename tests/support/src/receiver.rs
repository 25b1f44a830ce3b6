//! A receiver of webhooks that a test controls.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use standardwebhooks::Webhook;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::eventually;

/// A request that was received.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    pub target: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// This message was received before.
    pub is_repeated: bool,
    /// It was accepted with 200. False until the response is sent.
    pub is_accepted: bool,
}

impl WebhookRequest {
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    #[track_caller]
    pub fn assert_signed_by(&self, secret: &str) {
        assert!(self.is_signed_by(secret), "{self:?}");
    }

    /// Compares the signature with that of the reference library. The time is not compared, so
    /// that a test may look at it much later.
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let timestamp = self.header("webhook-timestamp").parse().unwrap();
        let webhook = Webhook::new(secret).unwrap();
        let expected = webhook.sign(self.header("webhook-id"), timestamp, &self.body);
        let expected = expected.unwrap();
        let mut signatures = self.header("webhook-signature").split(' ');
        signatures.any(|signature| signature == expected)
    }
}

/// A reaction to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Status(u16),
    /// 503 with `Retry-After` in seconds.
    Busy(u32),
    /// 200 after a delay.
    Slow(Duration),
    /// Closes the connection without a response.
    Close,
    Never,
}

type Respond = Box<dyn FnMut(&WebhookRequest) -> Reply + Send>;

/// It responds with 200 until it is told otherwise.
pub struct Receiver {
    pub address: SocketAddr,
    state: Arc<State>,
    serving: Mutex<JoinHandle<()>>,
}

struct State {
    log: Mutex<Log>,
    respond: Mutex<Respond>,
    in_flight: AtomicUsize,
}

#[derive(Default)]
struct Log {
    received: Vec<WebhookRequest>,
    /// The positions in `received` by target.
    by_target: HashMap<String, Vec<usize>>,
    ids: HashSet<String>,
}

impl Receiver {
    /// Starts a receiver on the runtime of the caller.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            log: Mutex::default(),
            respond: Mutex::new(Box::new(|_| Reply::Status(200))),
            in_flight: AtomicUsize::new(0),
        });
        Self {
            address,
            serving: Mutex::new(tokio::spawn(serve(listener, state.clone()))),
            state,
        }
    }

    pub fn url(&self) -> String {
        self.url_of("/hook")
    }

    /// The URL of a path; all paths are served.
    pub fn url_of(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Decides the replies from now on.
    pub fn respond(&self, respond: impl FnMut(&WebhookRequest) -> Reply + Send + 'static) {
        *self.state.respond.lock().unwrap() = Box::new(respond);
    }

    /// The number of requests that were received.
    pub fn count(&self) -> usize {
        self.state.log.lock().unwrap().received.len()
    }

    pub fn received(&self) -> Vec<WebhookRequest> {
        self.state.log.lock().unwrap().received.clone()
    }

    /// The requests to one path.
    pub fn received_at(&self, path: &str) -> Vec<WebhookRequest> {
        let log = self.state.log.lock().unwrap();
        let positions = log.by_target.get(path).into_iter().flatten();
        positions.map(|at| log.received[*at].clone()).collect()
    }

    /// The number of times that each message was received.
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

    /// Closes all connections and rejects new ones for a while.
    pub async fn restart(&self, downtime: Duration) {
        self.serving.lock().unwrap().abort();
        sleep(downtime).await;
        let mut listener = None;
        // The port is free once the task has ended.
        eventually("the port is free", async || {
            listener = TcpListener::bind(self.address).await.ok();
            listener.is_some()
        })
        .await;
        let restarted = tokio::spawn(serve(listener.unwrap(), self.state.clone()));
        *self.serving.lock().unwrap() = restarted;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.lock().unwrap().abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    // Ends the connections when the task is aborted.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = state.clone();
        let service = service_fn(move |request| respond(state.clone(), request));
        connections.spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        while connections.try_join_next().is_some() {}
    }
}

struct InFlight<'a>(&'a State);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}

/// An error closes the connection.
async fn respond(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, &'static str> {
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else {
        return Err("the client has gone");
    };
    let (reply, position) = {
        let mut log = state.log.lock().unwrap();
        let id = head.headers["webhook-id"].to_str().unwrap().into();
        let received = WebhookRequest {
            target: head.uri.to_string(),
            is_repeated: !log.ids.insert(id),
            is_accepted: false,
            headers: head.headers,
            body: body.to_bytes(),
        };
        let position = log.received.len();
        let target = log.by_target.entry(received.target.clone());
        target.or_default().push(position);
        log.received.push(received.clone());
        ((state.respond.lock().unwrap())(&received), position)
    };
    state.in_flight.fetch_add(1, SeqCst);
    let _in_flight = InFlight(&state);
    let response = match reply {
        Reply::Status(status) => Response::builder().status(status),
        Reply::Busy(seconds) => Response::builder()
            .status(503)
            .header("retry-after", seconds),
        Reply::Slow(delay) => {
            sleep(delay).await;
            Response::builder()
        }
        Reply::Close => return Err("closed by the test"),
        Reply::Never => std::future::pending().await,
    };
    let response = response.body(Empty::new()).unwrap();
    state.log.lock().unwrap().received[position].is_accepted = response.status() == 200;
    Ok(response)
}
