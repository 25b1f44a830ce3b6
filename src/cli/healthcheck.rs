//! `petstore healthcheck`: a health check for containers without curl.

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

use super::{CommandResult, Listen, status};
use crate::{api::loopback_if_unspecified, tls};

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct Healthcheck {
    #[command(flatten)]
    listen: Listen,
    /// Connect over TLS; set this if it is set for the service.
    ///
    /// The file is not read and the service's certificate is not verified: the
    /// health check sends nothing secret.
    #[arg(long, env = "PETSTORE_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
}

impl Healthcheck {
    pub fn run(self) -> CommandResult {
        let address = loopback_if_unspecified(self.listen.address());
        match check_readiness(address, self.tls_cert.is_some()) {
            Readiness::Ready => status!("{address} is ready"),
            Readiness::NotReady(response) => {
                return Err(format!("{address} is not ready: {response}").into());
            }
            Readiness::NoResponse(cause) => {
                return Err(format!("no response from {address}{cause}").into());
            }
            Readiness::Refused(cause) => {
                return Err(format!("no response from {address}: {cause}").into());
            }
        }
        Ok(())
    }
}

/// What came of a readiness probe.
pub enum Readiness {
    Ready,
    /// With the status line and the body.
    NotReady(String),
    /// With the cause, as the end of a sentence.
    NoResponse(String),
    /// Nothing listens there.
    Refused(io::Error),
}

/// Sends a readiness probe.
pub fn check_readiness(address: SocketAddr, tls: bool) -> Readiness {
    let (sender, receiver) = mpsc::channel();
    // On a thread, to bound the total time: the socket's timeouts apply to
    // each read, and whatever listens there may send one byte at a time.
    thread::spawn(move || sender.send(probe(address, tls)));
    let response = match receiver.recv_timeout(TIMEOUT) {
        Ok(Ok(response)) => response,
        Ok(Err(cause)) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            return Readiness::Refused(cause);
        }
        Ok(Err(cause)) => return Readiness::NoResponse(format!(": {cause}")),
        Err(_) => return Readiness::NoResponse(format!(" within {TIMEOUT:?}")),
    };
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let status_line = head.lines().next().unwrap_or_default();
    if status_line.split(' ').nth(1) == Some("200") && body.contains(r#""ready""#) {
        return Readiness::Ready;
    }
    let (status_line, body) = (status_line.escape_debug(), body.escape_debug());
    Readiness::NotReady(format!("{status_line} {body}"))
}

fn probe(address: SocketAddr, tls: bool) -> io::Result<String> {
    let stream = connect(address)?;
    if !tls {
        return get_readyz(stream, address);
    }
    let config = Arc::new(tls::insecure());
    let tls = ClientConnection::new(config, address.ip().into());
    let stream = StreamOwned::new(tls.map_err(io::Error::other)?, stream);
    get_readyz(stream, address)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Sends `GET /readyz` and returns the whole response.
fn get_readyz(mut stream: impl Read + Write, address: SocketAddr) -> io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    stream.take(64 << 10).read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into())
}
