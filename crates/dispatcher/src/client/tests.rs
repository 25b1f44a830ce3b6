use std::{
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::{Limits, Resolver};
use domain::webhook::{secret::WebhookSecret, url::UrlPolicy};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A receiver whose connections the test handles, and the number of connections it has accepted.
struct Receiver {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Receiver {
    /// Starts a receiver. `handle` gets each connection with its number, from 0.
    async fn start<F>(handle: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(handle(stream, count.fetch_add(1, SeqCst)));
            }
        });
        Self { address, accepted }
    }

    /// Responds to every request on every connection.
    async fn responding(response: impl Into<String>) -> Self {
        let response = response.into();
        Self::start(move |mut stream, _| {
            let response = response.clone();
            async move {
                loop {
                    read_request(&mut stream).await?;
                    stream.write_all(response.as_bytes()).await?;
                }
            }
        })
        .await
    }

    fn url(&self) -> String {
        format!("http://receiver.test:{}/hook?a=b", self.address.port())
    }
}

/// Reads a request with its body.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    let mut request = String::new();
    loop {
        if let Some((head, body)) = request.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            if body.len() == length.map_or(0, |length| length.parse().unwrap()) {
                return Ok(request);
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => request.push_str(str::from_utf8(&buffer[..length]).unwrap()),
        }
    }
}

fn config(resolver: Resolver) -> Config {
    Config {
        urls: UrlPolicy {
            allow_http: true,
            networks: ["127.0.0.1/32".parse().unwrap()].into_iter().collect(),
        },
        resolver,
        ..Config::default()
    }
}

/// A configuration in which every name resolves to this host.
fn loopback() -> Config {
    config(Resolver::new(async |_| Ok(vec![LOOPBACK])))
}

fn client(config: Config) -> Client {
    Client::new(config, Clock::new(|| NOW), Arc::default())
}

fn with_limits(change: impl FnOnce(&mut Limits)) -> Client {
    let mut config = loopback();
    change(&mut config.limits);
    client(config)
}

/// A client with short timeouts, for responses that never come.
fn impatient() -> Client {
    with_limits(|limits| {
        limits.attempt_timeout = Duration::from_millis(200);
        limits.drain_timeout = Duration::from_millis(100);
    })
}

async fn attempt_with(client: &Client, url: &str, connections: &Connections) -> Attempt {
    let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let message = Message {
        url: &WebhookUrl::parse(url).unwrap(),
        secrets: &SigningSecrets::new(secret),
        id: "evt_1",
        body: Bytes::from_static(b"{\"a\":1}"),
    };
    client.attempt(&message, connections).await
}

async fn attempt(client: &Client, url: &str) -> Attempt {
    attempt_with(client, url, &Connections::default()).await
}

#[track_caller]
fn assert_failed(attempt: &Attempt, error: AttemptError) {
    assert_eq!(attempt.error, Some(error), "{attempt:?}");
    let failed = Outcome::Failed { retry_after: None };
    assert_eq!(attempt.outcome, failed, "{attempt:?}");
    let has_status = error == AttemptError::UnsuccessfulStatus;
    assert_eq!(attempt.status.is_some(), has_status, "{attempt:?}");
}

#[track_caller]
fn assert_delivered(attempt: &Attempt) {
    assert_eq!(attempt.outcome, Outcome::Delivered, "{attempt:?}");
    assert_eq!((attempt.status, attempt.error), (Some(200), None));
}

#[tokio::test]
async fn a_request_has_the_headers_of_standard_webhooks_and_no_others() {
    let (requests, mut received) = tokio::sync::mpsc::unbounded_channel();
    let receiver = Receiver::start(move |mut stream, _| {
        let requests = requests.clone();
        async move {
            requests.send(read_request(&mut stream).await?).unwrap();
            stream.write_all(OK.as_bytes()).await
        }
    })
    .await;
    let client = client(loopback());
    assert_delivered(&attempt(&client, &receiver.url()).await);
    let port = receiver.address.port();
    let version = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "POST /hook?a=b HTTP/1.1\r\n\
         host: receiver.test:{port}\r\n\
         content-type: application/cloudevents+json\r\n\
         user-agent: petstore/{version}\r\n\
         webhook-id: evt_1\r\n\
         webhook-timestamp: 1700000000\r\n\
         webhook-signature: v1,qObqaT8ae+L7ApT9haiUyL954tN4bu4sTnfiYqdvNz0=\r\n\
         content-length: 7\r\n\r\n\
         {{\"a\":1}}"
    );
    assert_eq!(received.recv().await.unwrap(), expected);
    assert_eq!(client.metrics.attempts.delivered.get(), 1);
}

#[tokio::test]
async fn a_response_decides_by_its_status() {
    for (head, outcome) in [
        ("204 No Content", Outcome::Delivered),
        ("410 Gone", Outcome::Gone),
        ("500 Oops", Outcome::Failed { retry_after: None }),
        (
            "503 Busy\r\nretry-after: 7",
            Outcome::Failed {
                retry_after: Some(SignedDuration::from_secs(7)),
            },
        ),
        // Interim responses before the final one are ignored.
        ("100 Continue\r\n\r\nHTTP/1.1 200 OK", Outcome::Delivered),
    ] {
        let response = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
        let receiver = Receiver::responding(response).await;
        let attempt = attempt(&client(loopback()), &receiver.url()).await;
        assert_eq!(attempt.outcome, outcome, "{head}");
        let is_failure = outcome != Outcome::Delivered;
        let error = is_failure.then_some(AttemptError::UnsuccessfulStatus);
        assert_eq!(attempt.error, error, "{head}");
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Receiver::responding(OK).await;
    for status in [301, 302, 303, 307, 308] {
        let location = other.url();
        let receiver = Receiver::responding(format!(
            "HTTP/1.1 {status} Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
        ))
        .await;
        let attempt = attempt(&client(loopback()), &receiver.url()).await;
        assert_failed(&attempt, AttemptError::UnsuccessfulStatus);
        assert_eq!(attempt.status, Some(status));
    }
    assert_eq!(other.accepted.load(SeqCst), 0);
}

/// Some servers send a few interim responses.
#[tokio::test]
async fn interim_responses_are_skipped() {
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </style.css>\r\n\r\n".repeat(100);
    let receiver = Receiver::responding(hints + OK).await;
    let client = client(loopback());
    let connections = Connections::default();
    for _ in 0..30 {
        assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
    }
    assert_eq!(receiver.accepted.load(SeqCst), 1);
}

/// Each interim response costs CPU time, and they could last as long as the attempt.
#[tokio::test]
async fn a_flood_of_interim_responses_ends_the_attempt() {
    for part in [
        "HTTP/1.1 103 \r\n\r\n",
        "HTTP/1.1 100 Continue\r\na: b\r\n\r\n",
    ] {
        let receiver = Receiver::start(move |mut stream, _| async move {
            read_request(&mut stream).await?;
            loop {
                stream.write_all(part.repeat(1000).as_bytes()).await?;
            }
        })
        .await;
        let attempt = attempt(&client(loopback()), &receiver.url()).await;
        assert_failed(&attempt, AttemptError::ConnectionLost);
    }
}

/// The status of the response counts, and the connection is closed.
#[tokio::test]
async fn a_huge_or_endless_response_is_not_read_to_its_end() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let endless = Receiver::start(move |mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(head.as_bytes()).await?;
        loop {
            let chunk = format!("1000\r\n{}\r\n", "a".repeat(0x1000));
            stream.write_all(chunk.as_bytes()).await?;
        }
    })
    .await;
    let slow = Receiver::start(move |mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(head.as_bytes()).await?;
        loop {
            stream.write_all(b"1\r\na\r\n").await?;
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let patient = with_limits(|limits| limits.drain_timeout = Duration::from_secs(3600));
    for (client, receiver) in [(patient, endless), (impatient(), slow)] {
        let connections = Connections::default();
        for _ in 0..2 {
            let url = receiver.url();
            let attempt = attempt_with(&client, &url, &connections);
            let attempt = timeout(Duration::from_secs(60), attempt).await;
            assert_delivered(&attempt.expect("it is not read to its end"));
        }
        assert_eq!(receiver.accepted.load(SeqCst), 2);
    }
}

#[tokio::test]
async fn a_huge_head_fails() {
    let receiver = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        let head = format!("HTTP/1.1 200 OK\r\na: {}", "a".repeat(64 << 10));
        stream.write_all(head.as_bytes()).await?;
        pending().await
    })
    .await;
    let attempt = attempt(&client(loopback()), &receiver.url()).await;
    assert_failed(&attempt, AttemptError::ConnectionLost);
}

#[tokio::test]
async fn a_receiver_that_does_not_respond_times_out() {
    let silent = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        pending().await
    })
    .await;
    let slow_head = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
        loop {
            stream.write_all(b"a: b\r\n").await?;
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    for receiver in [silent, slow_head] {
        let attempt = attempt(&impatient(), &receiver.url()).await;
        assert_failed(&attempt, AttemptError::TimedOut);
    }
}

#[tokio::test]
async fn a_lost_connection_is_a_failure() {
    let before = Receiver::start(|stream, _| async {
        drop(stream);
        Ok(())
    })
    .await;
    let after = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        Ok(())
    })
    .await;
    let in_head = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await
    })
    .await;
    let nonsense = Receiver::responding("nonsense\r\n\r\n").await;
    for receiver in [before, after, in_head, nonsense] {
        let attempt = attempt(&client(loopback()), &receiver.url()).await;
        assert_failed(&attempt, AttemptError::ConnectionLost);
        // A new connection is not retried.
        assert_eq!(receiver.accepted.load(SeqCst), 1);
    }
    let closed = TcpListener::bind((LOOPBACK, 0)).await.unwrap();
    let url = format!("http://a.test:{}", closed.local_addr().unwrap().port());
    drop(closed);
    let refused = attempt(&client(loopback()), &url).await;
    assert_failed(&refused, AttemptError::ConnectionFailed);
}

/// The response is complete enough: its status was received.
#[tokio::test]
async fn a_connection_lost_in_the_body_of_a_response_is_no_failure() {
    let receiver = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc";
        stream.write_all(response).await
    })
    .await;
    let attempt = attempt(&client(loopback()), &receiver.url()).await;
    assert_delivered(&attempt);
}

#[tokio::test]
async fn a_connection_is_kept_for_the_next_request() {
    let receiver = Receiver::responding(OK).await;
    let connections = Connections::default();
    let client = client(loopback());
    for _ in 0..3 {
        assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
    }
    assert_eq!(receiver.accepted.load(SeqCst), 1);
    connections.close_expired();
    assert_eq!(connections.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_connection_that_was_idle_for_too_long_is_closed() {
    let receiver = Receiver::responding(OK).await;
    let connections = Connections::default();
    let client = with_limits(|limits| limits.idle_timeout = Duration::ZERO);
    for _ in 0..2 {
        assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
    }
    assert_eq!(receiver.accepted.load(SeqCst), 2);
    connections.close_expired();
    assert_eq!(connections.0.lock().unwrap().len(), 0);
}

/// The receiver may have closed the connection just before the request.
#[tokio::test]
async fn a_kept_connection_that_fails_is_replaced_once() {
    let receiver = Receiver::start(|mut stream, number| async move {
        read_request(&mut stream).await?;
        if number < 2 {
            stream.write_all(OK.as_bytes()).await?;
        }
        // The second request on a connection, and all on the third one, have no response.
        read_request(&mut stream).await?;
        Ok(())
    })
    .await;
    let connections = Connections::default();
    let client = client(loopback());
    for expected in [1, 2] {
        assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
        assert_eq!(receiver.accepted.load(SeqCst), expected);
    }
    let silent = impatient();
    let failed = attempt_with(&silent, &receiver.url(), &connections).await;
    assert_failed(&failed, AttemptError::TimedOut);
    assert_eq!(receiver.accepted.load(SeqCst), 3);
}

/// A kept connection that takes too long is not replaced: the receiver has the request.
#[tokio::test]
async fn a_kept_connection_that_times_out_is_not_replaced() {
    let receiver = Receiver::start(|mut stream, _| async move {
        read_request(&mut stream).await?;
        stream.write_all(OK.as_bytes()).await?;
        pending().await
    })
    .await;
    let connections = Connections::default();
    let client = impatient();
    assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
    let late = attempt_with(&client, &receiver.url(), &connections).await;
    assert_failed(&late, AttemptError::TimedOut);
    assert_eq!(receiver.accepted.load(SeqCst), 1);
    // The connection is not reused: the late response would be taken for that of another request.
    assert!(connections.take().is_none());
}

#[tokio::test]
async fn one_refused_address_refuses_all() {
    let receiver = Receiver::responding(OK).await;
    for other in ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"] {
        for private_first in [true, false] {
            let mut addresses = vec![LOOPBACK, other.parse().unwrap()];
            if private_first {
                addresses.reverse();
            }
            let config = config(Resolver::new(move |_| {
                let addresses = addresses.clone();
                async { Ok(addresses) }
            }));
            let attempt = attempt(&client(config), &receiver.url()).await;
            assert_failed(&attempt, AttemptError::AddressNotAllowed);
        }
    }
    assert_eq!(receiver.accepted.load(SeqCst), 0);
}

/// DNS rebinding: a name that is public when it is checked, and private when it is used.
#[tokio::test]
async fn a_name_is_resolved_once_per_connection() {
    let receiver = Receiver::responding(OK).await;
    let lookups = Arc::new(AtomicUsize::new(0));
    let count = lookups.clone();
    let config = config(Resolver::new(move |name| {
        let number = count.fetch_add(1, SeqCst);
        async move {
            assert_eq!(name, "receiver.test");
            Ok(vec![match number {
                0 => LOOPBACK,
                _ => "10.0.0.1".parse().unwrap(),
            }])
        }
    }));
    let client = client(config);
    let connections = Connections::default();
    for _ in 0..2 {
        assert_delivered(&attempt_with(&client, &receiver.url(), &connections).await);
    }
    assert_eq!(lookups.load(SeqCst), 1);
    // A new connection is checked again.
    let rebound = attempt(&client, &receiver.url()).await;
    assert_failed(&rebound, AttemptError::AddressNotAllowed);
    assert_eq!(lookups.load(SeqCst), 2);
}

#[tokio::test]
async fn all_addresses_are_tried() {
    let receiver = Receiver::responding(OK).await;
    let mut config = config(Resolver::new(async |_| {
        // Nothing listens on the port of 127.0.0.2; 240.0.0.1 has no route or no host.
        Ok(vec![
            "127.0.0.2".parse().unwrap(),
            "240.0.0.1".parse().unwrap(),
            LOOPBACK,
        ])
    }));
    let networks = ["127.0.0.0/8", "240.0.0.1/32"].map(|network| network.parse().unwrap());
    config.urls.networks = networks.into_iter().collect();
    config.limits.connect_timeout = Duration::from_secs(2);
    assert_delivered(&attempt(&client(config), &receiver.url()).await);
}

#[tokio::test]
async fn names_that_do_not_resolve_fail() {
    let unknown = Resolver::new(async |_| Err(io::ErrorKind::NotFound.into()));
    let empty = Resolver::new(async |_| Ok(Vec::new()));
    let slow = Resolver::new(async |_| pending().await);
    for resolver in [unknown, empty, slow] {
        let mut config = config(resolver);
        config.limits.connect_timeout = Duration::from_millis(100);
        let attempt = attempt(&client(config), "http://receiver.test").await;
        assert_failed(&attempt, AttemptError::NameNotResolved);
    }
}

#[tokio::test]
async fn urls_that_are_not_allowed_are_not_requested() {
    let receiver = Receiver::responding(OK).await;
    let port = receiver.address.port();
    let mut https_only = loopback();
    https_only.urls.allow_http = false;
    let mut public_only = loopback();
    public_only.urls.networks = Default::default();
    for (config, url, error) in [
        (https_only, receiver.url(), AttemptError::UrlNotAllowed),
        (
            public_only.clone(),
            format!("http://127.0.0.1:{port}/"),
            AttemptError::UrlNotAllowed,
        ),
        (public_only, receiver.url(), AttemptError::AddressNotAllowed),
    ] {
        assert_failed(&attempt(&client(config), &url).await, error);
    }
    assert_eq!(receiver.accepted.load(SeqCst), 0);
    let by_address = format!("http://127.0.0.1:{port}/");
    assert_delivered(&attempt(&client(loopback()), &by_address).await);
}

/// Serves TLS with a certificate for this name. Returns the certificate.
async fn tls_receiver(name: &str) -> (Receiver, CertificateDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new([name.into()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let receiver = Receiver::start(move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await?;
            let name = stream.get_ref().1.server_name();
            assert!(name.is_none_or(|name| name == "receiver.test"));
            read_request(&mut stream).await?;
            stream.write_all(OK.as_bytes()).await?;
            pending().await
        }
    })
    .await;
    (receiver, certificate.der().clone())
}

#[tokio::test]
async fn the_certificate_is_verified() {
    let (receiver, certificate) = tls_receiver("receiver.test").await;
    let url = |host: &str| format!("https://{host}:{}/", receiver.address.port());
    let mut trusting = loopback();
    trusting.tls_roots = vec![certificate];
    for (config, host, is_trusted) in [
        (&trusting, "receiver.test", true),
        (&trusting, "Receiver.test.", true),
        // Another name, no name, and an authority that is not trusted.
        (&trusting, "other.test", false),
        (&trusting, "127.0.0.1", false),
        (&loopback(), "receiver.test", false),
    ] {
        let attempt = attempt(&client(config.clone()), &url(host)).await;
        if is_trusted {
            assert_delivered(&attempt);
        } else {
            assert_failed(&attempt, AttemptError::TlsFailed);
        }
    }
    let (by_address, certificate) = tls_receiver("127.0.0.1").await;
    trusting.tls_roots = vec![certificate];
    let url = format!("https://127.0.0.1:{}/", by_address.address.port());
    assert_delivered(&attempt(&client(trusting), &url).await);
}

#[tokio::test]
async fn a_receiver_that_does_not_speak_tls_fails() {
    let garbage = Receiver::start(|mut stream, _| async move {
        stream.write_all(b"220 smtp.test ESMTP\r\n").await?;
        pending().await
    })
    .await;
    let silent = Receiver::start(|stream, _| async move {
        let _open = stream;
        pending().await
    })
    .await;
    for (receiver, error) in [
        (garbage, AttemptError::TlsFailed),
        (silent, AttemptError::TimedOut),
    ] {
        let client = with_limits(|limits| limits.connect_timeout = Duration::from_millis(300));
        let url = format!("https://a.test:{}/", receiver.address.port());
        assert_failed(&attempt(&client, &url).await, error);
    }
}
