//! More clients than there is room for, and clients that take their time.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    client::Client,
    harness::{Home, Service, wait_for},
};

/// The most memory that a service has had, in megabytes.
fn peak(service: &Service) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", service.process())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.unwrap().split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() / 1024
}

/// The tests' own process needs as many descriptors as the service.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Sends bytes, and then neither reads nor says anything more. What does not
/// fit into the connection stays with the client.
fn client(service: &Service, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let _ = stream.write(bytes);
    stream
}

/// A create whose body never comes to its end.
fn endless_create(key: &str) -> String {
    let body = format!("{{\"name\":\"{}", "a".repeat(60_000));
    format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 65000\r\n\r\n{body}"
    )
}

/// What has been answered so far.
fn answer(stream: &mut TcpStream) -> Option<String> {
    let mut answer = [0; 1024];
    match stream.read(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        read => Some(String::from_utf8_lossy(&answer[..read.unwrap()]).into()),
    }
}

/// Slow writers, clients that do not read and silent ones, in numbers: the
/// others are served, and memory stays bounded.
#[tokio::test]
async fn slow_clients_keep_nobody_out() {
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
    let (endless, pages) = (endless_create(&key), page.repeat(100));
    let mut crowd: Vec<_> = (0..1500)
        .map(|_| client(&service, endless.as_bytes()))
        .collect();
    crowd.extend((0..200).map(|_| client(&service, pages.as_bytes())));
    crowd.extend((0..1000).map(|_| client(&service, b"")));
    for _ in 0..100 {
        assert_eq!(good.create("Rex").await.unwrap().status, 201);
        assert_eq!(good.get("/v1/pets?limit=100").await.status, 200);
    }
    let peak = peak(&service);
    println!("{} slow clients: {peak} MB at the most", crowd.len());
    assert!(peak < 500, "{peak} MB");
}

/// Of slow senders only so many are waited for; others are refused at once. Who
/// sends all is served meanwhile.
#[tokio::test]
async fn a_crowd_of_slow_senders_is_shed() {
    raise_descriptor_limit();
    let home = Home::new();
    let key = home.new_key();
    let service = home.serve();
    let endless = endless_create(&key);
    let mut crowd: Vec<_> = (0..2300)
        .map(|_| client(&service, endless.as_bytes()))
        .collect();
    let refused = wait_for("the refusal of those beyond 2048", || {
        let answers: Vec<_> = crowd.iter_mut().filter_map(answer).collect();
        (!answers.is_empty()).then_some(answers)
    });
    for answer in refused {
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("retry-after: 1"), "{answer}");
    }
    let good = Client::new(&service, &key);
    assert_eq!(good.create("Rex").await.unwrap().status, 201);
    assert_eq!(good.get("/v1/pets").await.status, 200);
    service.event("requests shed");
    // The slowness is theirs, so the log does not have it.
    drop(crowd);
    let events = service.events();
    let slow = |event: &&serde_json::Value| event["request_id"].is_string();
    assert_eq!(events.iter().filter(slow).count(), 0, "{events:?}");
}
