//! Overload: more clients than the limits allow, and slowloris clients.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

use rustix::process::{Resource, getrlimit, setrlimit};
use support::wait_for;

use crate::{
    client::Client,
    harness::{Home, Service},
};

/// Peak resident memory (VmHWM) of a service, in megabytes.
pub fn peak_memory(service: &Service) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}

/// The test process needs as many file descriptors as the service.
pub fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// A client that sends as much as fits into the socket buffer, then neither
/// writes nor reads.
fn stalled_client(service: &Service, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let _ = stream.write(bytes);
    stream
}

/// A create whose body never ends.
fn stalled_create(key: &str) -> String {
    let body = format!("{{\"name\":\"{}", "a".repeat(60_000));
    format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 65000\r\n\r\n{body}"
    )
}

/// The response received so far, without blocking.
fn try_read_response(stream: &mut TcpStream) -> Option<String> {
    let mut response = [0; 1024];
    match stream.read(&mut response) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        read => Some(String::from_utf8_lossy(&response[..read.unwrap()]).into()),
    }
}

/// Thousands of clients that send slowly, do not read, or stay silent: the
/// others are served, and memory stays bounded.
#[tokio::test]
async fn slow_clients_do_not_starve_others() {
    raise_descriptor_limit();
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let good = Client::new(&service, &key);
    for _ in 0..100 {
        let created = good.create(&"猫".repeat(255)).await.unwrap();
        assert_eq!(created.status, 201);
    }
    let page = format!(
        "GET /v1/pets?limit=100 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n"
    );
    let stalled = stalled_create(&key);
    let pages = page.repeat(100);
    let mut crowd: Vec<_> = (0..1500)
        .map(|_| stalled_client(&service, stalled.as_bytes()))
        .collect();
    crowd.extend((0..200).map(|_| stalled_client(&service, pages.as_bytes())));
    crowd.extend((0..1000).map(|_| stalled_client(&service, b"")));
    for _ in 0..100 {
        assert_eq!(good.create("Rex").await.unwrap().status, 201);
        assert_eq!(good.get("/v1/pets?limit=100").await.status, 200);
    }
    let peak = peak_memory(&service);
    println!("{} slow clients: {peak} MB peak memory", crowd.len());
    assert!(peak < 500, "{peak} MB");
}

/// The number of slow request bodies is limited; requests beyond it get 503 at
/// once. Complete requests are still served.
#[tokio::test]
async fn excess_slow_requests_are_shed() {
    raise_descriptor_limit();
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let stalled = stalled_create(&key);
    let mut crowd: Vec<_> = (0..2300)
        .map(|_| stalled_client(&service, stalled.as_bytes()))
        .collect();
    let shed = wait_for("503 for the requests beyond 2048", || {
        let responses: Vec<_> = crowd.iter_mut().filter_map(try_read_response).collect();
        (!responses.is_empty()).then_some(responses)
    });
    for response in shed {
        assert!(response.starts_with("HTTP/1.1 503"), "{response}");
        assert!(response.contains("retry-after: 1"), "{response}");
    }
    let good = Client::new(&service, &key);
    assert_eq!(good.create("Rex").await.unwrap().status, 201);
    assert_eq!(good.get("/v1/pets").await.status, 200);
    service.event("requests shed");
    // Slow clients are not logged as slow requests.
    drop(crowd);
    let events = service.events();
    let slow = |event: &&serde_json::Value| event["request_id"].is_string();
    assert_eq!(events.iter().filter(slow).count(), 0, "{events:?}");
}
