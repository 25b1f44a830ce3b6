//! Clients that do not wait for their answer.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    client::{Client, Wire, create_request},
    harness::{GIVE_UP, Home, Service},
};

/// A client hangs up as soon as it has sent its request. Its pet is stored.
#[tokio::test]
async fn a_pet_is_stored_if_its_client_hangs_up() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    let client = Client::new(&service, &key);
    assert_eq!(client.get("/v1/pets").await.status, 200);
    let names: BTreeSet<_> = (0..50).map(|number| format!("pet {number}")).collect();
    for name in &names {
        send_and_leave(&service, &key, name).await;
    }
    assert_stored(&client, names).await;
}

/// The same with keys that the service sees for the first time.
#[tokio::test]
async fn a_pet_is_stored_if_its_new_client_hangs_up() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    let names: BTreeSet<_> = (0..5).map(|number| format!("pet {number}")).collect();
    for name in &names {
        send_and_leave(&service, &home.new_key(), name).await;
    }
    assert_stored(&client, names).await;
}

/// A client may say that it has nothing more to send, and still be answered.
#[tokio::test]
async fn a_client_that_ends_its_side_is_answered() {
    let home = Home::new();
    let service = home.serve();
    let (head, body) = create_request(&home.new_key(), "Rex", "");
    let mut wire = Wire::open(&service).await;
    wire.send(head + &body).await;
    wire.end_sending().await;
    let answer = String::from_utf8(wire.read_to_end().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer:?}");
}

async fn send_and_leave(service: &Service, key: &str, name: &str) {
    let (head, body) = create_request(key, name, "");
    Wire::open(service).await.send(head + &body).await;
}

async fn assert_stored(client: &Client, names: BTreeSet<String>) {
    let started = Instant::now();
    loop {
        let pets = client.pets().await;
        let stored: BTreeSet<_> = pets.into_iter().map(|(_, name)| name).collect();
        if stored == names {
            break;
        }
        let (stored, sent) = (stored.len(), names.len());
        assert!(started.elapsed() < GIVE_UP, "{stored} of {sent} are stored");
        sleep(Duration::from_millis(50)).await;
    }
}
