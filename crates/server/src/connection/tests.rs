//! Requests in flight on a connection that is aborted, over real sockets. The
//! eviction comes at a moment that a client cannot choose.

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};

use super::*;
use crate::{
    Client, RequestBody, Response,
    activity::{Activity, Eviction},
    connections::Connections,
};

/// A service that responds when the test lets it.
#[derive(Debug)]
struct PausedService {
    requests: Semaphore,
    responses: Semaphore,
}

impl Service for PausedService {
    async fn call<'a>(&'a self, _: Client<'a>, _: Request<RequestBody<'a>>) -> Response {
        self.requests.add_permits(1);
        self.responses.acquire().await.unwrap().forget();
        Response::new("served".into())
    }

    fn is_health_check(&self, _: &str) -> bool {
        false
    }

    fn reject(&self, _: Rejection) -> Response {
        Response::new("rejected".into())
    }
}

/// A connection to a service, and its place among the open ones.
async fn connect() -> (TcpStream, Arc<PausedService>, Arc<Activity>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await;
    let (stream, address) = listener.accept().await.unwrap();
    let service = Arc::new(PausedService {
        requests: Semaphore::new(0),
        responses: Semaphore::new(0),
    });
    let server = Arc::new(Server {
        service: service.clone(),
        limits: Limits::default(),
        tls: None,
        metrics: Arc::default(),
    });
    let connections = Arc::new(Connections::new(&server.limits, Arc::default()));
    let slot = connections
        .admit(address.ip(), tokio::time::Instant::now())
        .unwrap();
    let activity = slot.activity.clone();
    let task = tokio::spawn(async move { serve(&server, stream, &slot).await });
    (client.unwrap(), service, activity, task)
}

/// Aborts the connection while the service has a request.
async fn abort(service: &PausedService, activity: &Activity) {
    service.requests.acquire().await.unwrap().forget();
    // Only a response can be unsent: a slow one does not make the client look stalled.
    assert!(!activity.has_unsent());
    activity.evict(Eviction::Abort);
    // The task of the connection runs now.
    tokio::task::yield_now().await;
    service.responses.add_permits(1);
}

fn get() -> Request<Empty<Bytes>> {
    let request = Request::get("http://localhost/");
    request
        .header("host", "localhost")
        .body(Empty::new())
        .unwrap()
}

#[tokio::test]
async fn an_aborted_http1_connection_finishes_its_request() {
    let (stream, service, activity, task) = connect().await;
    let (mut requests, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (response, ()) = tokio::join!(requests.send_request(get()), abort(&service, &activity));
    let body = response.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "served");
    task.await.unwrap();
}

#[tokio::test]
async fn an_aborted_http2_connection_finishes_its_requests() {
    let (stream, service, activity, task) = connect().await;
    let executor = TokioExecutor::new();
    let io = TokioIo::new(stream);
    let (mut requests, connection) = conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let (response, ()) = tokio::join!(requests.send_request(get()), abort(&service, &activity));
    let body = response.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.to_bytes(), "served");
    drop(requests);
    task.await.unwrap();
}
