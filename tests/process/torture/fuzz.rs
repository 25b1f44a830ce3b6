//! Fuzzing: hostile requests to the running service, over HTTP/1 and HTTP/2.
//!
//! Each request has its own random numbers, so that one can be repeated alone:
//! `SEED=… FUZZ_REQUEST=…`. Whatever is sent, every response is well-formed and has a
//! designed status, and the service survives in bounded memory.

mod oracle;
pub mod requests;

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use support::{TIMEOUT, random, rounds};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    client::Client,
    harness::{Home, Service},
    overload::peak_memory,
};

const CONNECTIONS: usize = 8;

/// Counts the requests, beside the statuses.
const SENT: u16 = 0;

/// The most memory that the service may have used, in megabytes. After a round it is about
/// 45.
const MAX_MEGABYTES: u64 = 200;

/// Connections to one service. They carry about 2.5 requests each.
const ROUND: usize = 4_000;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_get_designed_responses() {
    let seed = random("fuzz").next_u64();
    if let Ok(number) = env::var("FUZZ_REQUEST") {
        let number = number.parse().unwrap();
        run(seed, number, number + 1).await;
        return;
    }
    let mut sent = 0;
    for round in 0..rounds(1, 110) {
        let seen = run(seed, round * ROUND, (round + 1) * ROUND).await;
        // The requests reach all layers: parser, authentication, router, validation
        // and store.
        for status in [200, 201, 204, 304, 400, 401, 404, 405, 409, 412, 415, 505] {
            assert!(seen.contains_key(&status), "never {status}: {seen:?}");
        }
        sent += seen[&SENT];
    }
    eprintln!("fuzz: {sent} requests");
}

/// Sends requests to a new service. Returns how often each status was received.
async fn run(seed: u64, first: usize, end: usize) -> BTreeMap<u16, usize> {
    let home = Home::new();
    let key = home.new_key();
    let options = ["--failed-auth-limit", "1000000/s", "--access-log"];
    let mut service = Service::start(home.serve_command().args(options));
    let client = Client::new(&service, &key);
    client.create("Rex").await.unwrap();
    client.create("Max").await.unwrap();
    let next = Arc::new(AtomicUsize::new(first));
    let clients = (0..CONNECTIONS).map(|_| {
        let next = next.clone();
        let key = key.clone();
        let address = service.address;
        tokio::spawn(async move {
            let mut seen = BTreeMap::<u16, usize>::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return seen;
                }
                let mut random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
                let input = requests::generate(&mut random, &key);
                let stream = TcpStream::connect(address).await.unwrap();
                let response = timeout(TIMEOUT, exchange(stream, &input.bytes)).await;
                let result = match &response {
                    Ok(response) => oracle::check(&input, response),
                    Err(_) => Err("no end of the response".into()),
                };
                let statuses = result.unwrap_or_else(|violation| {
                    panic!(
                        "{violation}\nFUZZ_REQUEST={number}\nrequest: {}\nresponse: {}",
                        input.bytes.escape_ascii(),
                        response.unwrap_or_default().escape_ascii()
                    )
                });
                *seen.entry(SENT).or_default() += input.requests;
                for status in statuses {
                    *seen.entry(status).or_default() += 1;
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut seen = BTreeMap::<u16, usize>::new();
    for client in clients {
        for (status, count) in client.await.unwrap() {
            *seen.entry(status).or_default() += count;
        }
    }
    assert!(service.is_running(), "{}", service.output());
    assert_eq!(client.get("/readyz").await.status, 200);
    let created = client.create("Rex").await.unwrap();
    let path = format!("/v1/pets/{}", created.json()["id"]);
    assert_eq!(client.get(&path).await.json(), created.json());
    let memory = peak_memory(&service);
    assert!(memory <= MAX_MEGABYTES, "{memory} MB");
    for event in service.events() {
        let message = event["message"].as_str().unwrap_or_default();
        let failed = [
            "panicked",
            "background task panicked",
            "background task ended",
            "request failed",
        ];
        assert!(!failed.contains(&message), "{event}");
    }
    service.stop();
    eprintln!("fuzz: {} MB, {seen:?}", memory);
    seen
}

/// Sends bytes, closes the sending side, and returns everything that comes back.
async fn exchange(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let (mut reading, mut writing) = stream.split();
    let write = async {
        // Fails if the service has closed the connection already.
        let _ = writing.write_all(bytes).await;
        let _ = writing.shutdown().await;
    };
    let mut received = Vec::new();
    let (_, _) = tokio::join!(write, reading.read_to_end(&mut received));
    received
}
