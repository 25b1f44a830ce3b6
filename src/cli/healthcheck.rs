//! `petstore healthcheck`: is the service on this machine ready? For the probe
//! of a container, which has no curl.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use clap::Args;

use super::{Listen, Outcome, say};
use crate::http::reachable;

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args)]
pub struct Healthcheck {
    #[command(flatten)]
    listen: Listen,
}

impl Healthcheck {
    pub fn run(self) -> Outcome {
        let address = reachable(self.listen.listen);
        let answer = ask(address).map_err(|cause| format!("{address} does not answer: {cause}"))?;
        let status = answer.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
            return Err(format!("{address} is not ready: {status} {body}").into());
        }
        say!("{address} is ready");
        Ok(())
    }
}

/// Sends the one request and gives the whole answer.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    // Whatever else listens there, it need not be let talk for ever.
    stream.take(64 << 10).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into())
}
