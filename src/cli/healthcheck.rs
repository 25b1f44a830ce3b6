//! `petstore healthcheck`: a health check for containers without curl.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use clap::Args;
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Instant, timeout_at},
};

use super::{CommandResult, Listen, block_on, escape_for_terminal, status, table::cut};
use api::loopback_if_unspecified;
use outbound::{
    bounded_stream::ReadBudget,
    http1::{Error, connect},
    tls,
};

const TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of bytes that the other program may send.
const MAX_RECEIVED: usize = 64 << 10;

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
        let readiness = check_readiness(address, self.tls_cert.is_some());
        Err(match block_on(async { Ok(readiness.await) })? {
            Readiness::Ready => {
                status!("{address} is ready");
                return Ok(());
            }
            Readiness::NotReady(reason) | Readiness::TlsRequired(reason) => {
                format!("{address} is not ready: {reason}")
            }
            Readiness::OtherProgram(said) => {
                format!("{address} is not a petstore service: {said}")
            }
            Readiness::NoResponse(cause) => format!("no response from {address}{cause}"),
            Readiness::Refused => format!("no response from {address}: nothing listens there"),
        }
        .into())
    }
}

/// The result of a readiness probe.
pub enum Readiness {
    Ready,
    /// Carries the reason that the service gave, and the status.
    NotReady(String),
    /// The probe was sent without TLS. Carries the same as `NotReady`.
    TlsRequired(String),
    /// Carries a short description of its response.
    OtherProgram(String),
    /// Carries the cause, as the end of a sentence.
    NoResponse(String),
    /// Nothing listens at the address.
    Refused,
}

/// Sends a readiness probe.
pub async fn check_readiness(address: SocketAddr, tls: bool) -> Readiness {
    let deadline = Instant::now() + TIMEOUT;
    let response = timeout_at(deadline, get_readyz(address, tls, deadline)).await;
    match response.map_err(Error::from).flatten() {
        Ok(response) => read_response(&response),
        Err(Error::Connection(cause)) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            Readiness::Refused
        }
        Err(Error::Tls(_)) => Readiness::NoResponse(" over TLS".into()),
        Err(Error::Timeout(_)) => Readiness::NoResponse(format!(" within {TIMEOUT:?}")),
        Err(cause) => Readiness::NoResponse(format!(": {cause}")),
    }
}

/// Returns the body of a readiness probe, if it is JSON.
pub async fn readiness_details(address: SocketAddr, tls: bool) -> Option<Value> {
    let deadline = Instant::now() + TIMEOUT;
    let response = timeout_at(deadline, get_readyz(address, tls, deadline)).await;
    let response = response.ok()?.ok()?;
    serde_json::from_str(response.split_once("\r\n\r\n")?.1).ok()
}

fn read_response(response: &str) -> Readiness {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let status_line = head.lines().next().unwrap_or_default();
    let status = status_line
        .split_once(' ')
        .and_then(|(version, it)| version.starts_with("HTTP/").then_some(it.trim()));
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    if status.is_some_and(|it| it.starts_with("200")) && body["status"] == "ready" {
        return Readiness::Ready;
    }
    let message = body["message"].as_str().or(body["code"].as_str());
    if let (Some(status), Some(message), true) = (status, message, body["code"].is_string()) {
        let code = status.split(' ').next().unwrap_or_default();
        let reason = format!("{} ({code})", escape_for_terminal(message));
        // The probe is a valid request, except on a port that requires TLS.
        return if body["code"] == "invalid_request" {
            Readiness::TlsRequired(reason)
        } else {
            Readiness::NotReady(reason)
        };
    }
    let shown = |text| cut(&escape_for_terminal(text), MAX_SHOWN);
    Readiness::OtherProgram(match status {
        Some(status) => format!("it answered {}", shown(status)),
        None if status_line.is_empty() => "it closed the connection".into(),
        None => format!("it said {}", shown(status_line)),
    })
}

/// Sends `GET /readyz` and returns the response, as far as it can be read. hyper would not return
/// the response of a program that does not speak HTTP.
async fn get_readyz(address: SocketAddr, tls: bool, deadline: Instant) -> Result<String, Error> {
    let config = Arc::new(tls::insecure());
    let host = address.ip().to_string();
    let tls = tls.then_some((&config, &*host));
    let mut stream = connect(&[address], tls, ReadBudget::new(MAX_RECEIVED), deadline).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut response = Vec::new();
    let exchange = async {
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        stream.read_to_end(&mut response).await
    };
    let read = exchange.await;
    if response.is_empty() {
        read.map_err(Error::Connection)?;
    }
    Ok(String::from_utf8_lossy(&response).into())
}
