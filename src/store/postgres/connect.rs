//! Connecting to a PostgreSQL server: failover between hosts, TLS, and the
//! server's warnings.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, stream};
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};
use tokio::time::timeout;
use tokio_postgres::{
    AsyncMessage, CancelToken, Client, Connection, Socket, error::Severity, tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    error::PostgresError,
    url::{CONNECT_TIMEOUT, PostgresUrl},
};
use crate::tls;

type ServerConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Opens connections to one server, at any of its hosts.
#[derive(Clone)]
pub(super) struct Connector {
    url: Arc<PostgresUrl>,
    tls: MakeRustlsConnect,
}

impl Connector {
    pub(super) fn new(url: &PostgresUrl) -> io::Result<Self> {
        Ok(Self {
            url: Arc::new(url.clone()),
            tls: tls_connector(url)?,
        })
    }

    /// Opens a connection and drives it on a task of its own. Returns it with a
    /// counter of the server's warnings.
    pub(super) async fn connect(&self) -> Result<(Client, Arc<AtomicU64>), PostgresError> {
        let warnings = Arc::new(AtomicU64::new(0));
        let counter = warnings.clone();
        let (client, mut connection) = self.connect_any().await?;
        tokio::spawn(async move {
            let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
            // An error ends the stream; pending statements fail with it too.
            while let Some(Ok(message)) = messages.next().await {
                if let AsyncMessage::Notice(notice) = message
                    && notice.parsed_severity() == Some(Severity::Warning)
                {
                    counter.fetch_add(1, Ordering::Release);
                    tracing::warn!(warning = notice.message(), "PostgreSQL warning");
                }
            }
        });
        Ok((client, warnings))
    }

    /// Connects to the first host that is reachable and writable. The timeout
    /// also covers hosts that accept the connection but never respond.
    async fn connect_any(&self) -> Result<(Client, ServerConnection), PostgresError> {
        let mut last_error = None;
        for config in self.url.hosts() {
            match timeout(CONNECT_TIMEOUT, config.connect(self.tls.clone())).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => last_error = Some(error.into()),
                Err(elapsed) => last_error = Some(elapsed.into()),
            }
        }
        Err(last_error.expect("a URL has at least one host"))
    }

    pub(super) async fn cancel(&self, token: CancelToken) -> Result<(), tokio_postgres::Error> {
        token.cancel_query(self.tls.clone()).await
    }

    pub(super) fn prepares_statements(&self) -> bool {
        self.url.prepares_statements
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.url, f)
    }
}

/// As in libpq, certificates are verified only with `sslmode=verify-full`.
fn tls_connector(url: &PostgresUrl) -> io::Result<MakeRustlsConnect> {
    let config = match url.verify_certificate {
        true => tls::verifying(trusted_certificates(url)?),
        false => tls::insecure(),
    };
    Ok(MakeRustlsConnect::new(config))
}

/// The certificates of `sslrootcert`, or those that the system trusts.
fn trusted_certificates(url: &PostgresUrl) -> io::Result<Vec<CertificateDer<'static>>> {
    match &url.root_certificates {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect)
            .map_err(|e| {
                let cause = match e {
                    pem::Error::Io(cause) => cause.to_string(),
                    e => e.to_string(),
                };
                let file = file.display();
                io::Error::other(format!("cannot read {file} (sslrootcert): {cause}"))
            }),
        None => Ok(rustls_native_certs::load_native_certs().certs),
    }
}
