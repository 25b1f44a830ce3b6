//! HTTP/1.1 requests whose bodies the service leaves unread, and responses that are larger than
//! the socket's send buffer.

use http::Version;
use serde_json::json;
use support::Backend;
use tokio::net::TcpSocket;

use crate::{client::Connection, harness::Server};

support::cases! {
    ALL: [
        large_responses_arrive_complete_whatever_the_request_carries,
    ],
}

/// A page of this many pets has about 800 kB.
const PETS: usize = 50;

async fn large_responses_arrive_complete_whatever_the_request_carries(backend: Backend) {
    let server = Server::start(backend).await;
    for _ in 0..PETS {
        let text = "🐈".repeat(2000);
        server
            .create(json!({"name": "Rex", "categoryId": 1, "description": text, "notes": text}))
            .await;
    }
    let list = format!("GET /v1/pets?limit={PETS} HTTP/1.1\r\nHost: x\r\nKEY\r\n");
    let expect = "Expect: 100-continue\r\n";
    let upgrade = "Connection: Upgrade\r\nUpgrade: h2c\r\n";
    let incomplete = "Content-Length: 5\r\n\r\nab";
    let complete = "Content-Length: 5\r\n\r\nabcde";
    let connect = "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n";
    for (requests, statuses) in [
        (format!("{list}{incomplete}"), &[200u16] as &[_]),
        (format!("{list}{expect}{incomplete}"), &[200]),
        (format!("{list}{upgrade}{incomplete}"), &[200]),
        (format!("{list}{upgrade}{expect}{incomplete}"), &[200]),
        (format!("{list}{complete}"), &[200]),
        (format!("{list}{expect}{complete}"), &[200]),
        (format!("{list}{complete}{list}\r\n"), &[200, 200]),
        (format!("{list}{expect}{complete}{list}\r\n"), &[200, 200]),
        (format!("{list}{upgrade}{complete}{list}\r\n"), &[200, 200]),
        (
            format!("{list}{upgrade}\r\n{list}{expect}{incomplete}"),
            &[200, 200],
        ),
        (
            format!("{list}\r\n{connect}{list}{incomplete}"),
            &[200, 404],
        ),
    ] {
        for half_closes in [false, true] {
            let mut conn = connect_with_small_buffer(&server).await;
            conn.send(&requests).await;
            if half_closes {
                conn.raw.shutdown_write().await;
            }
            for status in statuses {
                let response = conn.raw.response().await.expect("a response");
                assert_eq!(response.status, *status, "{requests}");
            }
            if half_closes {
                conn.assert_closed().await;
            }
        }
    }
}

/// Connects with a receive buffer that holds little of a response.
async fn connect_with_small_buffer(server: &Server) -> Connection<'_> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(server.address).await.unwrap();
    let client = server.client(Version::HTTP_11);
    Connection::over(server, client.connect_over(stream).await.unwrap())
}
