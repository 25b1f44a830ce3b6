//! Connection exhaustion: one address opens more connections than there are, and holds
//! them in every way that needs no API key. Another address is served all the same, and
//! so are the probes.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http_body_util::Full;
use rand::RngExt;
use support::{HttpClient, eventually, random, rounds};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    harness::{Home, PETSTORE, Service},
    overload::raise_descriptor_limit,
};

/// The service's limit on open files; 256 of them are not for connections.
const OPEN_FILES: usize = 768;
const CONNECTIONS: usize = OPEN_FILES - 256;

/// More than the limit and the reserve together.
const ATTACKERS: usize = CONNECTIONS + 128;

/// Longer than the service's head timeout.
const MAX_HOLD: Duration = Duration::from_secs(12);

const ATTACKER: Ipv4Addr = Ipv4Addr::LOCALHOST;
const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A way to hold a connection.
#[derive(Debug, Clone, Copy)]
enum Hold {
    Silent,
    /// Keep-alive after a request.
    Idle,
    /// A byte of the head at a time.
    SlowHead,
    /// Responses that are read a byte at a time.
    SlowRead,
}

const HOLDS: [Hold; 4] = [Hold::Silent, Hold::Idle, Hold::SlowHead, Hold::SlowRead];

async fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4096)?;
    socket.bind((ATTACKER, 0).into())?;
    socket.connect(to).await
}

/// Holds a connection until it is closed.
async fn hold(stream: &mut TcpStream, hold: Hold) -> std::io::Result<()> {
    let mut some = [0; 1024];
    match hold {
        Hold::Silent => {}
        Hold::Idle => {
            let request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(request).await?;
        }
        Hold::SlowHead => {
            stream.write_all(b"GET / HTTP/1.1\r\nX: ").await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(Duration::from_millis(200)).await;
            }
        }
        Hold::SlowRead => {
            // More than the buffers on both sides.
            let request = "GET /v1/openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";
            stream.write_all(request.repeat(50).as_bytes()).await?;
            while stream.read(&mut some[..1]).await? > 0 {
                sleep(Duration::from_millis(200)).await;
            }
        }
    }
    while stream.read(&mut some).await? > 0 {}
    Ok(())
}

/// Clients of one address that hold connections, and connect again if they are closed.
fn attack(address: SocketAddr, kinds: &[Hold]) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    for number in 0..ATTACKERS {
        let kind = kinds[number % kinds.len()];
        attackers.spawn(async move {
            // Not all at once: the backlog overflows.
            sleep(Duration::from_millis(2 * number as u64)).await;
            loop {
                if let Ok(mut stream) = connect(address).await {
                    // Connections that the backlog had no room for are never closed.
                    let _ = timeout(MAX_HOLD, hold(&mut stream, kind)).await;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
    }
    attackers
}

/// Sends a request on a new connection; returns the status, or why there is none.
async fn request(address: SocketAddr, path: &str, key: &str) -> Result<u16, String> {
    let mut client = HttpClient::new(address);
    client.from = Some(OTHER.into());
    let request = http::Request::get(client.url(path))
        .header("authorization", format!("Bearer {key}"))
        .body(Full::default())
        .unwrap();
    let response = client.send(request).await;
    let response = response.map_err(|error| format!("{path}: {error}"))?;
    Ok(response.status)
}

/// Checks that another address gets through while the attack lasts: a probe always, and
/// every request once the first was served.
async fn gets_through(address: SocketAddr, key: &str) -> Result<(), String> {
    let mut served = 0;
    for attempt in 0.. {
        for path in ["/healthz", "/readyz"] {
            match request(address, path, key).await? {
                200 => {}
                status => return Err(format!("{path}: {status} after {served} requests")),
            }
        }
        match request(address, "/v1/pets", key).await? {
            200 => served += 1,
            _ if served == 0 && attempt < 100 => sleep(Duration::from_millis(100)).await,
            status => return Err(format!("/v1/pets: {status} after {served} requests")),
        }
        if served == 50 {
            break;
        }
    }
    Ok(())
}

/// Returns the number of connections that the service has closed to make room.
async fn evictions(service: &Service) -> f64 {
    let scrape = service.metrics().await;
    scrape.metric("petstore_evicted_connections_total").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_cannot_exhaust_connections() {
    raise_descriptor_limit();
    let mut random = random("connection exhaustion");
    let home = Home::new();
    let key = home.new_key();
    let mut command = home.command("sh");
    let limited = format!("ulimit -n {OPEN_FILES} && exec \"$@\"");
    command.args(["-c", &limited, "sh", PETSTORE, "serve"]);
    command.args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]);
    let service = Service::start(command.args(["--database", &home.url()]));
    let metrics = HttpClient::new(service.metrics_address());
    for round in 0..rounds(1, 20) {
        // Each kind alone, then mixtures.
        let mut attacks: Vec<_> = HOLDS.iter().map(|kind| vec![*kind]).collect();
        let mixture = HOLDS.iter().filter(|_| random.random()).copied();
        attacks.push(mixture.chain([Hold::Idle]).collect());
        for kinds in attacks {
            println!("round {round}: {kinds:?}");
            let before = evictions(&service).await;
            let attackers = attack(service.address, &kinds);
            let pressure = async || evictions(&service).await >= before + 100.0;
            eventually("connections to run short", pressure).await;
            let result = gets_through(service.address, &key).await;
            assert_eq!(result, Ok(()), "{kinds:?}");
            assert_eq!(metrics.get("/readyz").await.status, 200);
            drop(attackers);
        }
    }
}

/// The control: a server with a limit that treats all connections alike starves.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_eviction_is_exhausted() {
    raise_descriptor_limit();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    let accepting = limit.clone();
    let server = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let Ok(permit) = accepting.clone().try_acquire_owned() else {
                continue;
            };
            tokio::spawn(async move {
                let mut head = Vec::new();
                while stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                        let _ = stream.write_all(response).await;
                    }
                }
                drop(permit);
            });
        }
    });
    let attackers = attack(address, &[Hold::Idle]);
    eventually("all connections to be taken", async || {
        limit.available_permits() == 0
    })
    .await;
    assert!(gets_through(address, "").await.is_err());
    drop(attackers);
    server.abort();
}
