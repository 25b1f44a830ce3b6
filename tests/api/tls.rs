//! TLS: ALPN, protocol versions, close_notify, handshake timeouts, certificate reload.
//!
//! The cases about connections and authentication run over TLS as well; these need it.

use std::{io, sync::Arc, time::Duration};

use http::Method;
use rustls::{
    ClientConfig,
    version::{TLS12, TLS13},
};
use server::Tls;
use support::{Backend, TIMEOUT, eventually, http2::PREFACE, self_signed};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::{
    client::Connection,
    harness::{Server, ServerConfig},
    http1::SHORT_HEAD_TIMEOUT,
};

support::cases! {
    TLS: [
        alpn_selects_the_protocol,
        tls_1_2_and_tls_1_3_are_supported,
        connections_end_with_close_notify,
        plain_http_clients_are_told_to_use_https,
        stalled_handshakes_time_out,
        a_first_request_during_shutdown_is_served,
        renewed_certificates_are_reloaded,
        a_failed_reload_keeps_the_current_certificate,
    ],
}

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

async fn alpn_selects_the_protocol(backend: Backend) {
    let server = Server::start(backend).await;
    let client_offering = |protocols: &[&str]| {
        let mut client = server.identity().client();
        client.alpn_protocols = protocols.iter().map(|name| (*name).into()).collect();
        client
    };
    for (offered, agreed) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&["http/1.0"], Some("http/1.0")),
        (&[], None),
    ] {
        let stream = tls_handshake(&server, client_offering(offered))
            .await
            .unwrap();
        let chosen = stream.get_ref().1.alpn_protocol();
        assert_eq!(chosen, agreed.map(str::as_bytes), "{offered:?}");
    }
    let error = tls_handshake(&server, client_offering(&["spdy/3"]))
        .await
        .unwrap_err();
    let error = error.to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    let get = || server.request(Method::GET, "/v1/pets");
    assert_eq!(get().send().await.status, 200);
    assert_eq!(get().over_http2().send().await.status, 200);
}

async fn tls_1_2_and_tls_1_3_are_supported(backend: Backend) {
    let server = Server::start(backend).await;
    for version in [&TLS12, &TLS13] {
        let client = server.identity().client_with_versions(&[version]);
        let mut stream = tls_handshake(&server, client).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        // Without close_notify rustls reports an unexpected EOF, as after a truncation attack.
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.ends_with("{\"status\":\"alive\"}"), "{response}");
    }
}

/// The service sends close_notify after the last response, also after one to a
/// malformed request, so that a client can rule out truncation.
async fn connections_end_with_close_notify(backend: Backend) {
    let with_short_timeouts =
        |config: &mut ServerConfig| config.service.server.head_timeout = SHORT_HEAD_TIMEOUT;
    let server = Server::start_with(backend, with_short_timeouts).await;
    let long = [b"GET /", &[b'x'; 70_000][..], b" HTTP/1.1\r\n\r\n"].concat();
    for (request, status) in [
        (REQUEST, "200 OK"),
        (b"garbage\r\n\r\n", "400 Bad Request"),
        (b"GET / HTTP/1.1\r\nHost:", "408 Request Timeout"),
        (&long, "431 Request Header Fields Too Large"),
    ] {
        let client = server.identity().client();
        let mut stream = tls_handshake(&server, client).await.unwrap();
        stream.write_all(request).await.unwrap();
        stream.flush().await.unwrap();
        let mut response = Vec::new();
        let end = stream.read_to_end(&mut response).await;
        let response = String::from_utf8(response).unwrap();
        let expected = format!("HTTP/1.1 {status}\r\n");
        assert!(response.starts_with(&expected), "{response}");
        end.unwrap_or_else(|error| panic!("{status}: {error}"));
    }
}

/// Plain HTTP on the TLS port gets a 400 that names the https:// URL.
async fn plain_http_clients_are_told_to_use_https(backend: Backend) {
    let server = Server::start(backend).await;
    for bytes in [REQUEST, PREFACE, b"\0\0\0\0"] {
        let mut conn = Connection::over(&server, Box::new(connect(&server).await));
        conn.raw.send(bytes).await;
        let response = conn.last_response("GET /").await;
        response.assert_error(400, "invalid_request");
        assert!(response.text().contains("https://"), "{}", response.text());
        // Not over plain HTTP (RFC 6797, section 7.2).
        assert_eq!(response.header("strict-transport-security"), None);
    }
}

/// A stalled handshake times out, and does not delay shutdown.
async fn stalled_handshakes_time_out(backend: Backend) {
    // Nothing at all, and the header of a handshake record of 512 bytes.
    let stalled: [&[u8]; 2] = [b"", &[0x16, 3, 1, 2, 0, 1]];
    let with_short_timeouts =
        |config: &mut ServerConfig| config.service.server.head_timeout = Duration::from_millis(200);
    let server = Server::start_with(backend, with_short_timeouts).await;
    for bytes in stalled {
        let mut conn = Connection::over(&server, Box::new(connect(&server).await));
        conn.raw.send(bytes).await;
        conn.assert_closed().await;
    }
    let with_long_timeouts =
        |config: &mut ServerConfig| config.service.server.head_timeout = 2 * TIMEOUT;
    let server = Server::start_with(backend, with_long_timeouts).await;
    let mut streams = Vec::new();
    for bytes in stalled {
        let mut stream = connect(&server).await;
        stream.write_all(bytes).await.unwrap();
        streams.push(stream);
    }
    // Well below the handshake timeout, so shutdown did not wait for it.
    let stopped = timeout(TIMEOUT, server.stop()).await;
    assert!(stopped.is_ok(), "still running");
}

/// After the handshake, a client may be about to send its first request.
async fn a_first_request_during_shutdown_is_served(backend: Backend) {
    // The service does not wait for long: on a slow machine, too short for the client.
    for _ in 0..20 {
        let mut server = Server::start(backend).await;
        let mut stream = tls_handshake(&server, server.identity().client())
            .await
            .unwrap();
        server.signal_shutdown();
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        // The listener is closed just before the connections are.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut response = String::new();
        let sent = stream.write_all(REQUEST).await;
        if sent.is_ok() && stream.read_to_string(&mut response).await.is_ok() {
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
            assert!(response.contains("\r\nconnection: close\r\n"), "{response}");
            return;
        }
    }
    panic!("no request was served");
}

/// New connections get the renewed certificate; open ones stay up.
async fn renewed_certificates_are_reloaded(backend: Backend) {
    let server = Server::start_with(backend, reload_often).await;
    let mut old = Connection::open(&server).await;
    let (certificate, key) = self_signed();
    let identity = server.identity();
    identity.replace_key(&key);
    identity.replace_certificate(&certificate);
    // This client trusts only the new certificate.
    let new_is_served = async || tls_handshake(&server, identity.client()).await.is_ok();
    eventually("the renewed certificate", new_is_served).await;
    old.send("GET /v1/pets HTTP/1.1\r\nHost: x\r\nKEY\r\n\r\n")
        .await;
    assert_eq!(old.response("GET /v1/pets").await.unwrap().status, 200);
}

/// A certificate that cannot be loaded is ignored until a valid one replaces it.
async fn a_failed_reload_keeps_the_current_certificate(backend: Backend) {
    let server = Server::start_with(backend, reload_often).await;
    let identity = server.identity().clone();
    let first = identity.client();
    let assert_first_certificate_in_use = async || {
        // Gives the reload time to run. If it has not run, the check proves nothing
        // but does not fail either.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let trusted = tls_handshake(&server, first.clone()).await;
        trusted.expect("the first certificate is still in use");
    };
    let (certificate, key) = self_signed();
    identity.replace_key(&key);
    assert_first_certificate_in_use().await;
    identity.replace_key("no key");
    assert_first_certificate_in_use().await;
    std::fs::remove_file(&identity.key).unwrap();
    assert_first_certificate_in_use().await;
    identity.replace_certificate(&certificate[..certificate.len() / 2]);
    assert_first_certificate_in_use().await;
    identity.replace_certificate("");
    assert_first_certificate_in_use().await;
    identity.replace_certificate(&certificate);
    identity.replace_key(&key);
    let new_is_served = async || tls_handshake(&server, identity.client()).await.is_ok();
    eventually("the renewed certificate", new_is_served).await;
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address).await.unwrap()
}

async fn tls_handshake(server: &Server, client: ClientConfig) -> io::Result<TlsStream<TcpStream>> {
    support::tls_handshake(connect(server).await, client).await
}

fn reload_often(config: &mut ServerConfig) {
    let tls = config.service.tls.as_mut().and_then(Arc::get_mut);
    let tls: &mut Tls = tls.expect("the suite runs over TLS");
    tls.reload_interval = Duration::from_millis(10);
}
