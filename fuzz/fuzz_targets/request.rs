//! Request heads, as bytes on a connection to the whole service: every response is
//! complete HTTP with a designed status, and nothing panics.

#![no_main]

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::OnceLock,
    time::Duration,
};

use libfuzzer_sys::fuzz_target;
use service::{Config, Listeners};
use store::{DatabaseUrl, Options, Role, Store};
use tokio::net::TcpListener;

/// Longer than every timeout of the service.
const TIMEOUT: Duration = Duration::from_secs(90);

fuzz_target!(|bytes: &[u8]| {
    let mut stream = TcpStream::connect(address()).expect("the service accepts connections");
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    // The service may respond and close before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Ok(_) => {}
        Err(error) => assert_ne!(
            error.kind(),
            std::io::ErrorKind::WouldBlock,
            "no response in {TIMEOUT:?}"
        ),
    }
    // HTTP/2, whose preface begins with a method of its own, has frames instead.
    if response.is_empty() || bytes.starts_with(b"PRI") {
        return;
    }
    let start = response.get(..12).unwrap_or_default();
    let status = start
        .strip_prefix(b"HTTP/1.1 ")
        .or(start.strip_prefix(b"HTTP/1.0 "))
        .and_then(|status| std::str::from_utf8(status).ok())
        .and_then(|status| status.parse::<u16>().ok());
    let shown = String::from_utf8_lossy(&response);
    let status = status.unwrap_or_else(|| panic!("not HTTP: {shown}"));
    // Not implemented and version not supported are the client's fault, too.
    let designed = (100..500).contains(&status) || [501, 505].contains(&status);
    assert!(designed, "{shown}");
});

/// The address of a service on an empty store, which lives as long as the process.
fn address() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let folder = tempfile::tempdir().unwrap();
                let database = DatabaseUrl::Sqlite(folder.path().join("petstore.db"));
                let options = Options::new(Role::Service);
                let store = Store::open(&database, &options).await.unwrap();
                let api = TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(api.local_addr().unwrap()).unwrap();
                let listeners = Listeners { api, metrics: None };
                let never = std::future::pending();
                service::run(listeners, store, Config::default(), never).await
            })
        });
        receiver.recv().unwrap()
    })
}
