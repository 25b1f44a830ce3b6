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
use serde_json::Value;

use super::{CommandResult, Listen, escape_for_terminal, status, table::cut};
use api::loopback_if_unspecified;
use outbound::tls;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum width of another program's response that is shown, in columns.
const MAX_SHOWN: usize = 60;

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
            Readiness::NotReady(reason) => {
                return Err(format!("{address} is not ready: {reason}").into());
            }
            Readiness::OtherProgram(said) => {
                return Err(format!("{address} is not a petstore service: {said}").into());
            }
            Readiness::NoResponse(cause) => {
                return Err(format!("no response from {address}{cause}").into());
            }
            Readiness::Refused => {
                return Err(format!("no response from {address}: nothing listens there").into());
            }
        }
        Ok(())
    }
}

/// The result of a readiness probe.
pub enum Readiness {
    Ready,
    /// Carries the reason that the service gave, and the status.
    NotReady(String),
    /// Carries a short description of its response.
    OtherProgram(String),
    /// Carries the cause, as the end of a sentence.
    NoResponse(String),
    /// Nothing listens at the address.
    Refused,
}

/// Sends a readiness probe.
pub fn check_readiness(address: SocketAddr, tls: bool) -> Readiness {
    let (sender, receiver) = mpsc::channel();
    // The probe runs on a thread, to bound the total time: the socket's timeouts apply to each
    // read, and the other program may send one byte at a time.
    thread::spawn(move || sender.send(probe(address, tls)));
    use io::ErrorKind::{ConnectionRefused, InvalidData, TimedOut, WouldBlock};
    match receiver.recv_timeout(TIMEOUT) {
        Ok(Ok(response)) => read_response(&response),
        Ok(Err(cause)) => match cause.kind() {
            ConnectionRefused => Readiness::Refused,
            InvalidData if tls => Readiness::NoResponse(" over TLS".into()),
            TimedOut | WouldBlock => Readiness::NoResponse(format!(" within {TIMEOUT:?}")),
            _ => Readiness::NoResponse(format!(": {cause}")),
        },
        Err(_) => Readiness::NoResponse(format!(" within {TIMEOUT:?}")),
    }
}

fn read_response(response: &str) -> Readiness {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let status_line = head.lines().next().unwrap_or_default();
    let status = status_line.split_once(' ');
    let status = status.and_then(|(version, it)| version.starts_with("HTTP/").then_some(it.trim()));
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    if status.is_some_and(|it| it.starts_with("200")) && body["status"] == "ready" {
        return Readiness::Ready;
    }
    let message = body["message"].as_str().or(body["code"].as_str());
    if let (Some(status), Some(message), true) = (status, message, body["code"].is_string()) {
        let code = status.split(' ').next().unwrap_or_default();
        return Readiness::NotReady(format!("{} ({code})", escape_for_terminal(message)));
    }
    Readiness::OtherProgram(match status {
        Some(status) => format!(
            "it answered {}",
            cut(&escape_for_terminal(status), MAX_SHOWN)
        ),
        None if status_line.is_empty() => "it closed the connection".into(),
        None => format!(
            "it said {}",
            cut(&escape_for_terminal(status_line), MAX_SHOWN)
        ),
    })
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

/// Sends `GET /readyz` and returns the response, as far as it can be read.
fn get_readyz(mut stream: impl Read + Write, address: SocketAddr) -> io::Result<String> {
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = Vec::new();
    let read = stream.take(64 << 10).read_to_end(&mut response);
    if response.is_empty() {
        read?;
    }
    Ok(String::from_utf8_lossy(&response).into())
}
