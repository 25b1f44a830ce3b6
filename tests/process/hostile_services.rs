//! Commands that use the API of a service, at a URL where something else responds.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread::{self, JoinHandle},
};

use support::CommandResult;

use crate::harness::{Home, PETSTORE};

/// The server gives up after so much: a command without a limit reads all of it.
const MAX_SENT: usize = 64 << 20;

const CHUNK: &str = "40\r\n1111111111111111111111111111111111111111111111111111111111111111\r\n";

/// Responds to one request with a head and then with the same bytes again and again. The
/// thread returns the number of bytes that were sent.
fn endless(head: &'static str, part: &str) -> (SocketAddr, JoinHandle<usize>) {
    let part = part.repeat((64 << 10) / part.len());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 4096]);
        let mut sent = 0;
        let mut written = client.write_all(head.as_bytes());
        while written.is_ok() && sent < MAX_SENT {
            written = client.write_all(part.as_bytes());
            sent += part.len();
        }
        sent
    });
    (address, server)
}

#[test]
fn endless_responses_end_commands_with_a_reason() {
    let home = Home::new();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    // Long, because a busy machine may not parse many of them in time.
    let interim = format!(
        "HTTP/1.1 103 Early Hints\r\nlink: {}\r\n\r\n",
        "a".repeat(4000)
    );
    let too_long = "is too long; name the URL of a petstore service with --url\n";
    for (head, part, reason) in [
        ("HTTP/1.1 200 OK\r\n\r\n", "[[[[", too_long),
        (chunked, CHUNK, too_long),
        ("HTTP/1.1 503 Busy\r\n\r\n", "[[[[", too_long),
        ("", &interim, too_long),
        ("HTTP/1.1 200 OK\r\n", "a: b\r\n", "no response from"),
        ("HTTP/1.1 200 OK\r\n", "aaaa", "no response from"),
    ] {
        for command in [&["events"][..], &["webhooks", "list"]] {
            let (address, server) = endless(head, part);
            let mut petstore = home.command(PETSTORE);
            petstore.args(command).env("PETSTORE_KEY", "psk_test");
            petstore.args(["--url", &format!("http://{address}")]);
            CommandResult::of(&mut petstore).assert_fails(1, reason);
            let sent = server.join().unwrap();
            assert!(sent < MAX_SENT, "{command:?} read all of {head}{part}");
        }
    }
}
