//! Connecting to a PostgreSQL server: failover between hosts, TLS, and the
//! server's warnings.

use std::{
    fmt, io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, future::BoxFuture, stream};
use rustls::pki_types::{
    CertificateDer,
    pem::{self, PemObject},
};
use tokio::{sync::watch, time::timeout};
use tokio_postgres::{
    AsyncMessage, CancelToken, Client, Connection, Socket,
    error::{Severity, SqlState},
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    error::PostgresError,
    migrate::SCHEMA,
    url::{CONNECT_TIMEOUT, PostgresUrl},
};
use outbound::tls;

type ServerConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A connection, the number of warnings from the server, and the connection's end.
pub(super) type OpenConnection = (Client, Arc<AtomicU64>, ConnectionEnd);

/// The reason why the server ends a connection, once it has.
///
/// A server that ends an idle session sends the reason immediately. The driver then ends the
/// connection, and reports to later statements only that it is closed.
#[derive(Debug)]
pub(super) struct ConnectionEnd(watch::Receiver<Option<SqlState>>);

impl ConnectionEnd {
    /// Waits until the connection has ended. Returns the code of the server, if it sent one
    /// while no statement was running.
    pub(super) async fn code(&self) -> Option<SqlState> {
        let mut end = self.0.clone();
        // The sender is dropped once the connection has ended.
        while end.changed().await.is_ok() {}
        end.borrow().clone()
    }
}

/// A newer version has changed the schema while this replica was running.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error(
    "the database was upgraded by a newer petstore, and this version cannot use it any more (it \
     supports schema {}, and {needed} is needed); replace this replica with the newer version",
    SCHEMA.version()
)]
pub(super) struct SchemaTooNew {
    pub(super) needed: i64,
}

/// Opens connections to one server, at any of its hosts.
#[derive(Clone)]
pub(super) struct Connector {
    url: Arc<PostgresUrl>,
    tls: MakeRustlsConnect,
    /// The reason why no connection may be used any more. All clones share it.
    schema_too_new: Arc<OnceLock<SchemaTooNew>>,
}

impl Connector {
    pub(super) fn new(url: &PostgresUrl) -> io::Result<Self> {
        Ok(Self {
            url: Arc::new(url.clone()),
            tls: tls_connector(url)?,
            schema_too_new: Arc::default(),
        })
    }

    /// Fails if no connection may be used any more.
    pub(super) fn check_schema(&self) -> Result<(), SchemaTooNew> {
        self.schema_too_new.get().copied().map_or(Ok(()), Err)
    }

    /// Makes [`check_schema`](Self::check_schema) fail for all clones, until the process ends.
    pub(super) fn refuse(&self, reason: SchemaTooNew) {
        let _ = self.schema_too_new.set(reason);
    }

    /// Opens a connection and drives it on a task of its own.
    pub(super) fn connect(&self) -> BoxFuture<'_, Result<OpenConnection, PostgresError>> {
        Box::pin(async {
            let (client, connection) = self.connect_any().await?;
            let warnings = Arc::new(AtomicU64::new(0));
            let (end, ended) = watch::channel(None);
            tokio::spawn(drive(connection, warnings.clone(), end));
            Ok((client, warnings, ConnectionEnd(ended)))
        })
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

/// Drives a connection until it ends. Counts the server's warnings.
async fn drive(
    mut connection: ServerConnection,
    warnings: Arc<AtomicU64>,
    end: watch::Sender<Option<SqlState>>,
) {
    let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
    // An error ends the stream; pending statements fail too.
    while let Some(message) = messages.next().await {
        match message {
            Ok(AsyncMessage::Notice(notice))
                if notice.parsed_severity() == Some(Severity::Warning) =>
            {
                warnings.fetch_add(1, Ordering::Release);
                tracing::warn!(warning = notice.message(), "PostgreSQL warning");
            }
            Ok(_) => {}
            Err(error) => {
                end.send_replace(error.code().cloned());
                break;
            }
        }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.url, f)
    }
}

/// Returns a TLS connector. As in libpq, it verifies certificates only with `sslmode=verify-full`.
fn tls_connector(url: &PostgresUrl) -> io::Result<MakeRustlsConnect> {
    let config = if url.verify_certificate {
        tls::verifying(trusted_certificates(url)?)
    } else {
        tls::insecure()
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Returns the certificates of `sslrootcert`, or those that the system trusts.
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
