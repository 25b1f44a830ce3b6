//! Clients that disconnect before they get their response.

use std::collections::BTreeSet;

use support::{RawConnection, eventually};

use crate::{
    client::{Client, create_request},
    harness::{Home, Service},
};

/// The client disconnects right after its request; the pet is stored anyway.
#[tokio::test]
async fn a_write_completes_after_its_client_disconnects() {
    let home = Home::new();
    let service = home.serve();
    let key = home.new_key();
    let client = Client::new(&service, &key);
    assert_eq!(client.get("/v1/pets").await.status, 200);
    let names: BTreeSet<_> = (0..50).map(|number| format!("pet {number}")).collect();
    for name in &names {
        send_and_disconnect(&service, &key, name).await;
    }
    assert_stored(&client, names).await;
}

/// With a key that the key cache does not hold yet, authentication takes a
/// lookup first; the write still completes.
#[tokio::test]
async fn a_write_with_an_uncached_key_completes_after_a_disconnect() {
    let home = Home::new();
    let service = home.serve();
    let client = Client::new(&service, &home.new_key());
    let names: BTreeSet<_> = (0..5).map(|number| format!("pet {number}")).collect();
    for name in &names {
        send_and_disconnect(&service, &home.new_key(), name).await;
    }
    assert_stored(&client, names).await;
}

/// A client that half-closes the connection after its request still gets the
/// response.
#[tokio::test]
async fn a_half_closed_connection_gets_its_response() {
    let home = Home::new();
    let service = home.serve();
    let (head, body) = create_request(&home.new_key(), "Rex", "");
    let mut connection = RawConnection::connect(service.address).await;
    connection.send(head + &body).await;
    connection.shutdown_write().await;
    let response = String::from_utf8(connection.read_to_end().await).unwrap();
    assert!(response.starts_with("HTTP/1.1 201 "), "{response:?}");
}

async fn send_and_disconnect(service: &Service, key: &str, name: &str) {
    let (head, body) = create_request(key, name, "");
    RawConnection::connect(service.address)
        .await
        .send(head + &body)
        .await;
}

async fn assert_stored(client: &Client, names: BTreeSet<String>) {
    let all_stored = async || {
        let pets = client.pets().await;
        pets.into_iter()
            .map(|(_, name)| name)
            .collect::<BTreeSet<_>>()
            == names
    };
    eventually("all pets are stored", all_stored).await;
}
