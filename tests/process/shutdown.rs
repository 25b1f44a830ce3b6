//! A service that is told to stop finishes what it has begun, then ends.

use std::{collections::BTreeSet, fs, io::ErrorKind};

use tokio::net::{TcpSocket, TcpStream};

use crate::{
    client::{Client, Load, Wire, create_request},
    harness::{Home, Service, wait_for},
};

#[tokio::test]
async fn sigterm_stops_it_in_good_order() {
    stops_in_good_order("TERM").await;
}

#[tokio::test]
async fn sigint_stops_it_in_good_order() {
    stops_in_good_order("INT").await;
}

/// A request whose body is still on its way is waited for and answered; those
/// who ask for nothing are not; nobody new is let in.
async fn stops_in_good_order(signal: &str) {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();

    let mut silent = Wire::open(&service).await;
    let mut idle = Wire::open(&service).await;
    let (head, body) = create_request(&key, "Rex", "");
    idle.send(head + &body).await;
    idle.read_until("\"categoryId\":1}").await;
    let mut busy = Wire::open(&service).await;
    let (head, body) = create_request(&key, "Bella", "Expect: 100-continue\r\n");
    let (half, rest) = body.split_at(body.len() / 2);
    busy.send(head).await;
    assert_eq!(
        busy.read_until("\r\n\r\n").await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    busy.send(half).await;

    service.signal(signal);
    assert_eq!(silent.read_to_end().await, b"");
    assert_eq!(idle.read_to_end().await, b"");
    let refused = TcpStream::connect(service.address).await.map(drop);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(service.is_running());

    busy.send(rest).await;
    let answer = String::from_utf8(busy.read_to_end().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    drop(busy);
    let status = service.wait();
    assert_eq!(status.code(), Some(0), "{status}: {}", service.said());
    assert_closed(&home);

    let service = home.serve();
    let pets = Client::new(&service, &key).pets().await;
    let names: Vec<_> = pets.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["Rex", "Bella"]);
}

/// Under load, whatever the service has stored it has also acknowledged.
#[tokio::test]
async fn what_it_has_taken_it_answers() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();
    let load = Load::start(&Client::new(&service, &key), 16, "pet");
    load.until(|ledger| ledger.acknowledged.len() >= 300).await;
    service.signal("TERM");
    let ledger = load.finish().await;
    let status = service.wait();
    assert_eq!(status.code(), Some(0), "{status}: {}", service.said());
    assert_closed(&home);
    assert_eq!(ledger.refusals, 0);

    let service = home.serve();
    let pets = Client::new(&service, &key).pets().await;
    ledger.assert_kept(&pets);
    let stored: BTreeSet<_> = pets.into_iter().map(|(_, name)| name).collect();
    assert_eq!(stored, ledger.acknowledged.into_keys().collect());
}

/// An answer that is on its way to a client that reads slowly is not cut off.
#[tokio::test]
async fn an_answer_on_its_way_is_sent_whole() {
    let home = Home::new();
    let key = home.new_key();
    let mut service = home.serve();
    let client = Client::new(&service, &key);
    for _ in 0..100 {
        client.create(&"🐕".repeat(255)).await.unwrap();
    }
    let get = |connection: &str| {
        format!(
            "GET /v1/pets?limit=100 HTTP/1.1\r\nHost: petstore\r\n\
             Authorization: Bearer {key}\r\nConnection: {connection}\r\n\r\n"
        )
    };
    let mut one = Wire::open(&service).await;
    one.send(get("keep-alive")).await;
    let length = one.read_until("}]").await.len();

    // The answers are more than the system takes for a client that does not
    // read, so the service is in the middle of one of them.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = Wire::over(socket.connect(service.address).await.unwrap());
    slow.send(get("keep-alive").repeat(100)).await;
    let mut first = slow.read_until("}]").await;
    service.signal("TERM");
    wait_for("the service to stop accepting", || {
        std::net::TcpStream::connect(service.address)
            .is_err()
            .then_some(())
    });
    let rest = slow.read_to_end().await;
    first.push_str(&String::from_utf8(rest).unwrap());
    assert!(
        first.ends_with("}]"),
        "cut off after {} of {length}",
        first.len() % length
    );
    assert!(service.wait().success());
}

/// A service that nobody listens to any more still ends as it should.
#[tokio::test]
async fn it_stops_in_good_order_unheard() {
    let home = Home::new();
    let key = home.new_key();
    let service = Service::start_unheard(&mut home.serve_command());
    let created = Client::new(&service, &key).create("Rex").await.unwrap();
    assert_eq!(created.status, 201);
    service.stop();
    assert_closed(&home);
}

/// The log has been moved into the database.
#[track_caller]
fn assert_closed(home: &Home) {
    let log = fs::metadata(home.path("petstore.db-wal"));
    assert_eq!(log.map_or(0, |log| log.len()), 0, "{:?}", home.files());
}
