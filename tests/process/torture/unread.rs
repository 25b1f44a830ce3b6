//! Unread responses: clients that close the flow-control window of HTTP/2, or do not read
//! from their sockets, and keep as many responses in the service's memory as they can.
//! Its memory stays bounded, and another client is served.

use std::{
    convert::Infallible,
    env, hint,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use support::{
    TIMEOUT, eventually,
    http2::{
        END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame, literal_header, request_head,
    },
    rounds,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    client::Client,
    harness::{Home, Service},
    overload::{peak_memory, raise_descriptor_limit},
};

/// Below the gigabyte that the packaged service may use.
const MAX_MEGABYTES: u64 = 900;

const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Requests on each connection: the limit on concurrent streams.
const REQUESTS: u32 = 64;

/// The time after which a connection is given up, unless the service closes it.
const MAX_HOLD: Duration = Duration::from_secs(120);

/// The time until a client connects again. It is to take memory, not the processor.
const RECONNECT_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
enum Attack {
    /// Errors, for which no API key is needed.
    Errors,
    /// Pages of events, with a key that may only read.
    EventPages,
    /// The same over HTTP/1.1, one after the other.
    EventPagesOverHttp1,
}

impl Attack {
    /// Enough to exceed the budget; at full length, more than the service accepts.
    fn connections(self) -> usize {
        let enough = match self {
            Self::Errors => 1_200,
            Self::EventPages => 60,
            Self::EventPagesOverHttp1 => 1_000,
        };
        rounds(enough, 5_110)
    }

    fn path(self) -> &'static str {
        match self {
            Self::Errors => "/v1/pets",
            Self::EventPages | Self::EventPagesOverHttp1 => "/v1/events?limit=1000",
        }
    }

    /// Everything that a client sends.
    fn bytes(self, key: &str) -> Vec<u8> {
        let path = self.path();
        if matches!(self, Self::EventPagesOverHttp1) {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n");
            return request.repeat(REQUESTS as usize).into();
        }
        let mut head = request_head("GET", path);
        if matches!(self, Self::EventPages) {
            head.extend(literal_header("authorization", format!("Bearer {key}")));
        }
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        let mut bytes = PREFACE.to_vec();
        bytes.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
        for number in 0..REQUESTS {
            let stream = 2 * number + 1;
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, stream, &head));
        }
        bytes
    }
}

async fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((ATTACKER, 0).into())?;
    socket.connect(to).await
}

/// Sends everything, reads no more than the heads of responses, and waits to be closed.
async fn hold(mut stream: TcpStream, attack: Attack, bytes: &[u8]) {
    if stream.write_all(bytes).await.is_err() {
        return;
    }
    if matches!(attack, Attack::EventPagesOverHttp1) {
        return sleep(MAX_HOLD).await;
    }
    let mut received = [0; 4096];
    while stream.read(&mut received).await.is_ok_and(|read| read > 0) {}
}

/// Clients that connect again after they were closed.
fn start(attack: Attack, connections: usize, address: SocketAddr, key: &str) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    for number in 0..connections {
        let bytes = attack.bytes(key);
        attackers.spawn(async move {
            // Not all at once: the backlog overflows.
            sleep(Duration::from_millis(2 * number as u64)).await;
            loop {
                if let Ok(Ok(stream)) = timeout(TIMEOUT, connect(address)).await {
                    let _ = timeout(MAX_HOLD, hold(stream, attack, &bytes)).await;
                }
                sleep(RECONNECT_AFTER).await;
            }
        });
    }
    attackers
}

/// Busy loops on every core, until this is dropped: the service gets to release memory late.
struct BusyLoops(Arc<AtomicBool>);

impl BusyLoops {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..thread::available_parallelism().unwrap().get() {
            let stop = stop.clone();
            thread::spawn(move || {
                while !stop.load(Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for BusyLoops {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Another client, whose connection stays open, for this many seconds.
async fn requests_are_served(good: &Client, seconds: u64) -> usize {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut served = 0;
    while Instant::now() < end || served < 100 {
        assert_eq!(good.create("Rex").await.unwrap().status, 201);
        assert_eq!(good.get("/v1/pets?limit=100").await.status, 200);
        served += 1;
        sleep(Duration::from_millis(10)).await;
    }
    served
}

/// The median and the longest of the times that requests take.
async fn latencies(good: &Client) -> (Duration, Duration) {
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        assert_eq!(good.get("/v1/pets?limit=100").await.status, 200);
        times.push(started.elapsed());
        sleep(Duration::from_millis(5)).await;
    }
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}

async fn withstand(attack: Attack) {
    raise_descriptor_limit();
    let home = Home::new();
    let key = home.new_key();
    home.petstore(&["seed", "1000", "--database", &home.url()])
        .success();
    let reader = home.keys(&["create", "reader", "--scope", "pets:read"]);
    let reader = reader.success().secret();
    let service = Service::start(&mut home.serve_command());
    let good = Client::new(&service, &key);
    let (usual, longest_usual) = latencies(&good).await;
    let _attackers = start(attack, attack.connections(), service.address, &reader);
    let _busy = BusyLoops::start();
    let seconds = rounds(3, 600) as u64;
    let served = requests_are_served(&good, seconds).await;
    let (attacked, longest_attacked) = latencies(&good).await;
    let peak = peak_memory(&service);
    println!(
        "{attack:?} for {seconds} s: {peak} MB peak memory, {served} requests served; a page \
         takes {usual:?} before and {attacked:?} during it (at most {longest_usual:?} and \
         {longest_attacked:?})"
    );
    assert!(peak < MAX_MEGABYTES, "{attack:?}: {peak} MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_errors_do_not_exhaust_memory() {
    withstand(Attack::Errors).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_event_pages_do_not_exhaust_memory() {
    withstand(Attack::EventPages).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn event_pages_unread_over_http1_do_not_exhaust_memory() {
    withstand(Attack::EventPagesOverHttp1).await;
}

/// Set for the process of the control.
const CONTROL: &str = "SERVER_WITHOUT_BUDGET";

/// The server of the control, in a process of its own: hyper with responses as large as a
/// page of events, until it is killed. Does nothing if it is run as a test.
#[tokio::test(flavor = "multi_thread")]
async fn server_without_budget() {
    if env::var_os(CONTROL).is_none() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let listening = json!({"message": "listening", "url": url});
    println!("\n{listening}");
    while let Ok((stream, _)) = listener.accept().await {
        let respond = service_fn(async |_| {
            let page = Bytes::from(vec![b'x'; 300_000]);
            Ok::<_, Infallible>(Response::new(Full::new(page)))
        });
        let connection = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), respond));
    }
}

/// The control: a server that limits only what each connection may have open.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_budget_runs_out_of_memory() {
    let home = Home::new();
    let program = env::current_exe().unwrap();
    let mut command = home.command(program.to_str().unwrap());
    let server = "torture::unread::server_without_budget";
    command.args(["--exact", "--nocapture", server]);
    let server = Service::start(command.env(CONTROL, "1"));
    let _attackers = start(Attack::EventPages, 50, server.address, "psk_none");
    let grows = async || peak_memory(&server) > MAX_MEGABYTES;
    eventually("its memory to exceed the limit", grows).await;
}
