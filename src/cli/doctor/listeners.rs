//! Checks of the listeners of the service: the port, the import socket, the metrics.

use std::{fs, net::SocketAddr, path::Path};

use super::{
    super::healthcheck::{Readiness, check_readiness},
    Report,
    target::Target,
};
use api::loopback_if_unspecified;
use import_socket::SocketState;
use store::DatabaseDetails;

/// The process that may have the file of the store open.
pub(super) struct FileProcess {
    is_open: bool,
    socket: SocketState,
}

impl FileProcess {
    /// Returns `None` for a store that is not a file.
    pub async fn find(details: &DatabaseDetails) -> Option<Self> {
        let DatabaseDetails::Sqlite { path, is_open, .. } = details else {
            return None;
        };
        Some(Self {
            is_open: *is_open,
            socket: SocketState::find(path, *is_open).await,
        })
    }

    /// Returns true if the service of the file listens on a port, or `None` if that is unknown.
    fn listens(&self, port: u16) -> Option<bool> {
        let SocketState::Listening { pid: Some(pid) } = self.socket else {
            return None;
        };
        let mut sockets = Vec::new();
        for table in ["tcp", "tcp6"] {
            let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
            for line in table.lines() {
                let columns: Vec<_> = line.split_whitespace().collect();
                // The local address, the state (LISTEN) and the inode.
                if let [_, address, _, "0A", _, _, _, _, _, inode, ..] = columns[..]
                    && address.ends_with(&format!(":{port:04X}"))
                {
                    sockets.push(format!("socket:[{inode}]"));
                }
            }
        }
        let mut files = fs::read_dir(format!("/proc/{pid}/fd"))
            .ok()?
            .filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        Some(files.any(|file| sockets.iter().any(|socket| file == Path::new(socket))))
    }
}

/// Checks the port. Returns true if the service is ready.
pub(super) async fn port(
    report: &mut Report,
    target: &Target,
    process: Option<&FileProcess>,
) -> bool {
    let option = target.listen_option;
    let elsewhere =
        format!("specify its store with --database, or this one's address with {option}");
    let listen = match &target.listen {
        Ok(listen) => loopback_if_unspecified(*listen),
        Err(invalid) => {
            report.problem(invalid, "correct it");
            return false;
        }
    };
    if listen.port() == 0 {
        let message = "port 0 is any free port, so it is unknown where the service listens";
        report.warning(message, format!("specify its address with {option}"));
        return false;
    }
    let is_open = process.map(|process| process.is_open);
    let is_served = process.and_then(|process| process.listens(listen.port()));
    let has_tls = target.tls.tls_cert.is_some();
    match check_readiness(listen, has_tls).await {
        Readiness::Ready if is_open == Some(false) => report.warning(
            format!("the service at {listen} is ready, but has another store open"),
            elsewhere,
        ),
        Readiness::Ready if is_served == Some(false) => report.warning(
            format!("the service at {listen} is ready, but not the one that has this store open"),
            elsewhere,
        ),
        Readiness::Ready => {
            report.ok(format!("the service at {listen} is ready"));
            return true;
        }
        Readiness::TlsRequired(_) => report.problem(
            format!("the service at {listen} uses TLS"),
            "set --tls-cert and --tls-key, as for the service",
        ),
        Readiness::NotReady(reason) => report.problem(
            format!("the service at {listen} is not ready: {reason}"),
            "read its log",
        ),
        Readiness::OtherProgram(said) => other_program(report, listen, &said, option),
        Readiness::NoResponse(cause) => report.problem(
            format!("no response from {listen}{cause}"),
            if has_tls {
                "read the log of the service; if it does not use TLS, remove --tls-cert"
            } else {
                "read the log of the service"
            },
        ),
        Readiness::Refused if is_open == Some(true) => report.warning(
            format!("the store is open, but nothing listens at {listen}"),
            format!("specify the address of its service with {option}"),
        ),
        Readiness::Refused => {
            let start = if target.is_packaged {
                "systemctl start petstore".into()
            } else {
                format!("petstore serve{}", target.options())
            };
            let message = format!("nothing listens at {listen}");
            report.warning(message, format!("start the service with `{start}`"));
        }
    }
    false
}

fn other_program(report: &mut Report, address: SocketAddr, said: &str, option: &str) {
    report.problem(
        format!("another program listens at {address}: {said}"),
        format!("stop it, or choose another address with {option}"),
    );
}

/// Checks the import socket beside the file.
pub(super) fn imports(report: &mut Report, target: &Target, process: Option<&FileProcess>) {
    let (Some(file), Some(process)) = (target.file(), process) else {
        return;
    };
    let socket = format!("{}-socket", file.display());
    match process.socket {
        SocketState::Listening { .. } => {
            report.ok(format!("the service listens for imports at {socket}"))
        }
        SocketState::Missing | SocketState::Stale if process.is_open => report.warning(
            format!("the store is open, but nothing accepts imports at {socket}"),
            "look for `import socket not created` in the log of the service, and restart it",
        ),
        SocketState::Stale => report.warning(
            format!("{socket} is left over from a service that was killed"),
            "nothing is lost; the next start of the service replaces it",
        ),
        SocketState::Missing | SocketState::Unknown => {}
    }
}

pub(super) async fn metrics(report: &mut Report, target: &Target, is_ready: bool) {
    let address = match &target.metrics {
        Ok(Some(address)) => loopback_if_unspecified(*address),
        Ok(None) => return,
        Err(invalid) => return report.problem(invalid, "correct it"),
    };
    match check_readiness(address, false).await {
        Readiness::Ready | Readiness::NotReady(_) | Readiness::TlsRequired(_) => {
            report.ok(format!("metrics are served at {address}"));
        }
        Readiness::Refused if is_ready => report.warning(
            format!("the service is ready, but does not serve metrics at {address}"),
            "restart it with this --metrics-listen, or correct the address",
        ),
        // The missing service was already a finding.
        Readiness::Refused => {}
        Readiness::OtherProgram(said) => {
            other_program(report, address, &said, "--metrics-listen");
        }
        Readiness::NoResponse(cause) => report.problem(
            format!("no response from {address}{cause}"),
            "read the log of the service",
        ),
    }
}
