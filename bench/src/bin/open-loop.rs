//! Latency at a constant rate (an open loop): `open-loop PLAN`, where PLAN is JSON.
//!
//! Requests are due at fixed times, whether or not earlier ones have been answered, and a latency
//! counts from the time at which the request was due to the end of its response. So a stall
//! delays all requests that fall into it, not only those that were in flight when it began
//! (coordinated omission). Prints a line of JSON for each load and, if `events` is set, one for
//! the arrival of events on that path: the stream of the changes by the first load, which must be
//! one of creates. With `certificate`, the file of a trusted certificate, connections use TLS.

use std::{
    collections::BTreeMap, env, error::Error, io, net::SocketAddr, ops::Range, os::fd::OwnedFd,
    path::PathBuf, sync::Arc, time::Duration,
};

use mimalloc::MiMalloc;
use petstore_bench::mix;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, unix::AsyncFd},
    net::TcpStream,
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject},
    },
};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The number of connections per load.
const CONNECTIONS: usize = 64;
/// The time from opening the connections to the first request.
const LEAD: u64 = 20_000_000;
/// The time to wait for events after the last response.
const EVENT_TIMEOUT: Duration = Duration::from_secs(5);

type Failure = Box<dyn Error + Send + Sync>;
/// Nanoseconds of the monotonic clock.
type Nanos = u64;

#[derive(Deserialize)]
struct Plan {
    address: SocketAddr,
    headers: BTreeMap<String, String>,
    seconds: f64,
    loads: Vec<Load>,
    events: Option<String>,
    certificate: Option<PathBuf>,
}

/// A connection, with or without TLS.
type Stream = Box<dyn ByteStream>;

trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

#[derive(Deserialize)]
struct Load {
    /// Requests per second.
    rate: f64,
    /// Method, path and optionally a body, in which `#` stands for the number of the request
    /// and `@` for a random word.
    request: String,
    /// The number of the first request.
    #[serde(default)]
    first: u64,
}

/// The results of a load. Times are in milliseconds.
#[derive(Serialize)]
struct Summary {
    requests: usize,
    /// Responses with a status other than 2xx, and events that did not arrive.
    errors: usize,
    /// Requests per second that were answered.
    rate: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

// Runs on one thread, like a single thread of wrk.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let plan = env::args().nth(1).ok_or("usage: open-loop PLAN")?;
    let plan: Plan = serde_json::from_str(&plan)?;
    let stream = match &plan.events {
        Some(path) => Some(open_stream(&plan, path).await?),
        None => None,
    };
    let mut loads = Vec::new();
    for load in &plan.loads {
        let mut streams = Vec::new();
        for _ in 0..CONNECTIONS {
            streams.push(connect(&plan).await?);
        }
        loads.push((load, Arc::new(Template::new(load, &plan)?), streams));
    }

    let start = now() + LEAD;
    let mut running = Vec::new();
    for (n, (load, template, streams)) in loads.into_iter().enumerate() {
        let schedule = Schedule::new(load, plan.seconds, start, n, plan.loads.len());
        running.push((schedule, run(schedule, template, streams)?));
    }
    let first = running[0].0;
    let events = stream.map(|stream| tokio::spawn(follow(stream, first)));
    let mut summaries = Vec::new();
    for (schedule, load) in running {
        summaries.push(load.await??.summary(schedule.start));
    }
    if let Some(events) = events {
        summaries.push(events.await??.summary(first.start));
    }
    for summary in summaries {
        println!("{}", serde_json::to_string(&summary)?);
    }
    Ok(())
}

fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The times at which the requests of a load are due.
#[derive(Clone, Copy)]
struct Schedule {
    start: Nanos,
    interval: Nanos,
    first: u64,
    count: u64,
}

impl Schedule {
    /// Creates the schedule of the `n`th of several loads, which take turns.
    fn new(load: &Load, seconds: f64, start: Nanos, n: usize, loads: usize) -> Self {
        let interval = ((1e9 / load.rate) as u64).max(1);
        Self {
            start: start + interval * n as u64 / loads as u64,
            interval,
            first: load.first,
            count: (load.rate * seconds) as u64,
        }
    }

    fn due(&self, number: u64) -> Nanos {
        self.start + (number - self.first) * self.interval
    }

    fn numbers(&self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

/// Fires at every interval of a schedule.
///
/// It is a timerfd, because tokio's timers have a resolution of 1 ms. The kernel's
/// high-resolution timers wake the process within some 10 µs, without spinning on a core that the
/// server needs. If the process is late, one wake-up stands for several intervals.
struct Ticker(AsyncFd<OwnedFd>);

impl Ticker {
    #[expect(
        deprecated,
        reason = "the replacement is unsafe; an `OwnedFd` meets its conditions"
    )]
    fn new(schedule: Schedule) -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        let times = Itimerspec {
            it_interval: timespec(schedule.interval),
            it_value: timespec(schedule.start),
        };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &times)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Waits for the end of an interval. Returns the number of intervals that have passed since
    /// the last call.
    async fn passed(&self) -> io::Result<u64> {
        let read = |timer: &OwnedFd| {
            let mut count = [0; 8];
            rustix::io::read(timer, &mut count)?;
            Ok(u64::from_ne_bytes(count))
        };
        self.0.async_io(Interest::READABLE, read).await
    }
}

fn timespec(time: Nanos) -> Timespec {
    Timespec {
        tv_sec: (time / 1_000_000_000) as i64,
        tv_nsec: (time % 1_000_000_000) as i64,
    }
}

/// Sends the requests of a load when they are due, each connection in turn.
fn run(
    schedule: Schedule,
    template: Arc<Template>,
    streams: Vec<Stream>,
) -> io::Result<JoinHandle<Result<Latencies, Failure>>> {
    let ticker = Ticker::new(schedule)?;
    let mut queues = Vec::new();
    let mut connections = JoinSet::new();
    for stream in streams {
        let (queue, requests) = unbounded_channel();
        queues.push(queue);
        connections.spawn(send(stream, template.clone(), schedule, requests));
    }
    Ok(tokio::spawn(async move {
        release(&ticker, schedule, queues).await?;
        let mut all = Latencies::default();
        while let Some(latencies) = connections.join_next().await {
            all.add(latencies??);
        }
        Ok(all)
    }))
}

/// Queues the requests that are due. A request whose connection is busy waits.
async fn release(
    ticker: &Ticker,
    schedule: Schedule,
    queues: Vec<UnboundedSender<u64>>,
) -> io::Result<()> {
    let mut due = 0;
    let mut requests = schedule.numbers().zip(queues.iter().cycle());
    while due < schedule.count {
        let passed = ticker.passed().await?;
        due += passed;
        for (number, queue) in requests.by_ref().take(passed as usize) {
            // A connection that has failed reports the failure when it is joined.
            let _ = queue.send(number);
        }
    }
    Ok(())
}

async fn send(
    mut stream: Stream,
    template: Arc<Template>,
    schedule: Schedule,
    mut requests: UnboundedReceiver<u64>,
) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::default();
    let mut buffer = Vec::new();
    while let Some(number) = requests.recv().await {
        stream.write_all(&template.request(number)).await?;
        let success = read_response(&mut stream, &mut buffer).await?;
        latencies.record(schedule.due(number), success);
    }
    Ok(latencies)
}

/// A request with placeholders in its body.
struct Template {
    head: String,
    body: String,
}

impl Template {
    fn new(load: &Load, plan: &Plan) -> Result<Self, Failure> {
        let mut parts = load.request.splitn(3, ' ');
        let (Some(method), Some(path)) = (parts.next(), parts.next()) else {
            return Err("a request must be a method and a path".into());
        };
        let body = parts.next().unwrap_or_default().to_owned();
        let mut head = head(plan, method, path);
        if !body.is_empty() {
            head += "Content-Type: application/json\r\n";
        }
        Ok(Self { head, body })
    }

    fn request(&self, number: u64) -> Vec<u8> {
        if self.body.is_empty() {
            return format!("{}\r\n", self.head).into_bytes();
        }
        let word = format!("{:012x}", mix(number + 1) >> 16);
        let body = self.body.replace('#', &number.to_string());
        let body = body.replace('@', &word);
        format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len()).into_bytes()
    }
}

/// Returns the head of a request, without the empty line at its end.
fn head(plan: &Plan, method: &str, path: &str) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", plan.address);
    for (name, value) in &plan.headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}

async fn connect(plan: &Plan) -> Result<Stream, Failure> {
    let stream = TcpStream::connect(plan.address).await?;
    stream.set_nodelay(true)?;
    let Some(file) = &plan.certificate else {
        return Ok(Box::new(stream));
    };
    let mut trusted = RootCertStore::empty();
    trusted.add(CertificateDer::from_pem_file(file)?)?;
    let config = ClientConfig::builder().with_root_certificates(trusted);
    let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let name = plan.address.ip().into();
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// Reads a response to its end. Returns true if its status is 2xx.
async fn read_response(stream: &mut Stream, buffer: &mut Vec<u8>) -> Result<bool, Failure> {
    buffer.clear();
    let end = read_head(stream, buffer).await?;
    let head = str::from_utf8(&buffer[..end])?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then_some(value)
    });
    let length: usize = length.ok_or("the response has no length")?.parse()?;
    let success = head.starts_with("HTTP/1.1 2");
    while buffer.len() < end + length {
        read_some(stream, buffer).await?;
    }
    Ok(success)
}

/// Reads at least the head of a response. Returns the offset at which it ends.
async fn read_head(stream: &mut Stream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            return Ok(end + 4);
        }
        read_some(stream, buffer).await?;
    }
}

async fn read_some(stream: &mut Stream, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.reserve(16 << 10);
    match stream.read_buf(buffer).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

async fn open_stream(plan: &Plan, path: &str) -> Result<Stream, Failure> {
    let mut stream = connect(plan).await?;
    let mut buffer = Vec::new();
    let request = format!("{}\r\n", head(plan, "GET", path));
    stream.write_all(request.as_bytes()).await?;
    let end = read_head(&mut stream, &mut buffer).await?;
    if !buffer.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&buffer[..end]).into());
    }
    Ok(stream)
}

/// Reads the events of all creates of a schedule, by the number at the end of the name.
async fn follow(mut stream: Stream, schedule: Schedule) -> Result<Latencies, Failure> {
    let mut latencies = Latencies::default();
    let mut buffer = Vec::new();
    while latencies.times.len() < schedule.count as usize {
        match timeout(EVENT_TIMEOUT, read_some(&mut stream, &mut buffer)).await {
            Ok(read) => read?,
            Err(_) => break,
        }
        let complete = buffer.iter().rposition(|byte| *byte == b'\n');
        let lines: Vec<u8> = buffer.drain(..complete.map_or(0, |end| end + 1)).collect();
        for number in str::from_utf8(&lines)?.lines().filter_map(number) {
            if schedule.numbers().contains(&number) {
                latencies.record(schedule.due(number), true);
            }
        }
    }
    latencies.errors = schedule.count as usize - latencies.times.len();
    Ok(latencies)
}

/// Returns the number in an event about a pet whose name is a word, a hyphen and the number.
fn number(event: &str) -> Option<u64> {
    let (_, name) = event.split_once(r#""name":""#)?;
    let (name, _) = name.split_once('"')?;
    name.rsplit_once('-')?.1.parse().ok()
}

#[derive(Default)]
struct Latencies {
    times: Vec<Nanos>,
    errors: usize,
    /// The time at which the last response ended.
    end: Nanos,
}

impl Latencies {
    fn record(&mut self, due: Nanos, success: bool) {
        self.end = now();
        self.times.push(self.end - due);
        self.errors += usize::from(!success);
    }

    fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.errors += other.errors;
        self.end = self.end.max(other.end);
    }

    fn summary(mut self, start: Nanos) -> Summary {
        self.times.sort_unstable();
        let requests = self.times.len();
        let at = |share: f64| {
            let rank = (share * requests as f64).ceil() as usize;
            let time = self.times.get(rank.max(1) - 1);
            time.map_or(f64::NAN, |time| *time as f64 / 1e6)
        };
        Summary {
            requests,
            errors: self.errors,
            rate: requests as f64 / (self.end - start) as f64 * 1e9,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        }
    }
}
