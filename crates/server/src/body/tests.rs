//! Bodies in parts, over connections in memory, so that no buffer of the system takes a part.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures_util::{future::BoxFuture, stream};
use http_body_util::{BodyExt, Empty};
use hyper::{
    Request, Version,
    client::conn::{http1::handshake, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{DuplexStream, duplex},
    task::yield_now,
    time::Instant,
};

use super::*;
use crate::{
    Client, Limits, Rejection, RequestBody, Response, Server, Service, connections::Connections,
    protocol::ReadAhead,
};

const PART: usize = 64 << 10;
const PARTS: usize = 50;

/// A service whose response has parts. It announces another length than they have, by
/// `difference`.
struct Gallery {
    produced: Arc<AtomicUsize>,
    difference: isize,
}

impl Service for Gallery {
    async fn call<'a>(&'a self, _: Client<'a>, _: Request<RequestBody<'a>>) -> Response {
        let produced = self.produced.clone();
        let parts = stream::iter(0..PARTS).map(move |number| {
            produced.fetch_add(1, Relaxed);
            Ok(Bytes::from(vec![number as u8; PART]))
        });
        let length = (PARTS * PART).wrapping_add_signed(self.difference);
        Response::new(ResponseBody::parts(length as u64, parts))
    }

    fn is_health_check(&self, _: &str) -> bool {
        false
    }

    fn reject(&self, _: Rejection) -> Response {
        Response::default()
    }
}

/// Connects to a service. Returns the counter of its parts, too.
fn connect(version: Version, difference: isize) -> (DuplexStream, Arc<AtomicUsize>) {
    let (client, stream) = duplex(1024);
    let produced = Arc::new(AtomicUsize::new(0));
    let server = Arc::new(Server {
        service: Arc::new(Gallery {
            produced: produced.clone(),
            difference,
        }),
        limits: Limits::default(),
        tls: None,
        metrics: Arc::default(),
    });
    tokio::spawn(async move {
        let connections = Arc::new(Connections::new(&server.limits, Arc::default()));
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let slot = connections.admit(address, Instant::now()).unwrap();
        let limits = server.limits.clone();
        if version == Version::HTTP_2 {
            crate::http2::serve(&server, stream, ReadAhead::default(), &slot, &limits).await;
        } else {
            crate::http1::serve(&server, stream, ReadAhead::default(), &slot, &limits).await;
        }
    });
    (client, produced)
}

type Send = Box<dyn FnMut() -> BoxFuture<'static, http::Response<hyper::body::Incoming>>>;

/// Returns a function that sends requests over one connection.
async fn client(version: Version, stream: DuplexStream) -> Send {
    let request = || {
        let request = Request::get("http://localhost/").header("host", "localhost");
        request.body(Empty::<Bytes>::new()).unwrap()
    };
    let io = TokioIo::new(stream);
    if version == Version::HTTP_2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(PART as u32);
        let (mut requests, connection) = builder.handshake(io).await.unwrap();
        tokio::spawn(connection);
        Box::new(move || {
            let response = requests.send_request(request());
            Box::pin(async { response.await.unwrap() })
        })
    } else {
        let (mut requests, connection) = handshake(io).await.unwrap();
        tokio::spawn(connection);
        Box::new(move || {
            let response = requests.send_request(request());
            Box::pin(async { response.await.unwrap() })
        })
    }
}

/// Lets all tasks run until they wait for each other: they share this thread, and wait for nothing
/// else.
async fn settle() {
    for _ in 0..10_000 {
        yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_few_parts() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let (stream, produced) = connect(version, 0);
        let mut send = client(version, stream).await;
        for round in 1..=2 {
            let response = send().await;
            let length = (PARTS * PART).to_string();
            assert_eq!(response.headers()["content-length"], *length);
            settle().await;
            let before = (round - 1) * PARTS;
            let in_memory = produced.load(Relaxed) - before;
            // Those that the client has in its own buffers count, too.
            assert!(in_memory <= 6, "{version:?}: {in_memory} parts");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), PARTS * PART, "{version:?}");
            assert!(body.iter().step_by(PART).copied().eq(0..PARTS as u8));
            assert_eq!(produced.load(Relaxed), round * PARTS);
        }
    }
}

#[tokio::test]
async fn a_body_of_another_length_is_cut_off() {
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for difference in [-1, 1] {
            let (stream, _) = connect(version, difference);
            let mut send = client(version, stream).await;
            let response = send().await;
            let body = response.into_body().collect().await;
            assert!(body.is_err(), "{version:?} {difference}");
        }
    }
}
