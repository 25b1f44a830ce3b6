//! `petstore healthcheck`: is the service on this machine ready? For the probe
//! of a container, which has no curl.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use clap::Args;
use rustls::{ClientConnection, StreamOwned};

use super::{Listen, Outcome, say};
use crate::{api::loopback_if_unspecified, tls};

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct Healthcheck {
    #[command(flatten)]
    listen: Listen,
    /// As for the service, which then speaks TLS. The file is not read: nothing
    /// secret is sent, and a certificate is not needed to be ready.
    #[arg(long, env = "PETSTORE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
}

impl Healthcheck {
    pub fn run(self) -> Outcome {
        let address = loopback_if_unspecified(self.listen.listen);
        let (sender, answers) = mpsc::channel();
        // On a thread of its own, as whatever listens there may talk for ever.
        thread::spawn(move || sender.send(probe(address, self.tls_cert.is_some())));
        let answer = match answers.recv_timeout(PATIENCE) {
            Ok(answer) => answer.map_err(|cause| format!("{address} does not answer: {cause}"))?,
            Err(_) => return Err(format!("{address} does not answer in time").into()),
        };
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") || !body.contains(r#""ready""#) {
            let (status, body) = (status.escape_debug(), body.escape_debug());
            return Err(format!("{address} is not ready: {status} {body}").into());
        }
        say!("{address} is ready");
        Ok(())
    }
}

fn probe(address: SocketAddr, tls: bool) -> io::Result<String> {
    let stream = connect(address)?;
    if !tls {
        return ask(stream, address);
    }
    let config = Arc::new(tls::insecure());
    let tls = ClientConnection::new(config, address.ip().into());
    let stream = StreamOwned::new(tls.map_err(io::Error::other)?, stream);
    ask(stream, address)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Sends the one request and gives the whole answer.
fn ask(mut stream: impl Read + Write, address: SocketAddr) -> io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(64 << 10).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into())
}
