//! The address of a PostgreSQL server: libpq's form, with its ways of TLS.

use std::{error::Error, fmt, io, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use percent_encoding::percent_decode_str;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::time::{error::Elapsed, timeout};
use tokio_postgres::{
    CancelToken, Client, Config, Connection, Socket,
    config::{Host, TargetSessionAttrs},
    error::SqlState,
    tls::MakeTlsConnect,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::{invalid::Invalid, tls};

/// Where a server is, and how to speak with it. Shown without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Config,
    verified: bool,
    roots: Option<PathBuf>,
    /// Whether statements are prepared once a connection. Poolers that hand
    /// out another connection for each transaction may not allow it.
    prepares: bool,
}

/// A server that can be connected to, at one of its hosts.
#[derive(Clone)]
pub struct Server {
    url: Arc<PostgresUrl>,
    tls: MakeRustlsConnect,
}

/// What went wrong between the service and a server.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("{error}{}", and_source(error))]
    Server {
        #[from]
        error: tokio_postgres::Error,
    },
    #[error("no answer in time")]
    Late(#[from] Elapsed),
    #[error("its warnings are switched off; set client_min_messages to warning for this role")]
    Muted,
}

impl PostgresError {
    /// What the server calls it, if it is the server's.
    pub fn state(&self) -> Option<&SqlState> {
        match self {
            Self::Server { error } => error.code(),
            Self::Late(_) | Self::Muted => None,
        }
    }

    /// The constraint that a statement would have broken.
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Server { error } => error.as_db_error()?.constraint(),
            Self::Late(_) | Self::Muted => None,
        }
    }
}

/// What the library says itself is short: what it met says more.
fn and_source(error: &tokio_postgres::Error) -> String {
    error
        .source()
        .map_or(String::new(), |met| format!(": {met}"))
}

impl Server {
    /// How long a host may take to take us in.
    const PATIENCE: Duration = Duration::from_secs(2);

    pub fn new(url: &PostgresUrl) -> io::Result<Self> {
        Ok(Self {
            url: Arc::new(url.clone()),
            tls: url.tls()?,
        })
    }

    /// Connects to the first host that is there and writes. One that takes the
    /// connection and then says nothing holds up none of the others.
    pub async fn connect(&self) -> Result<(Client, Stream), PostgresError> {
        let mut trouble = None;
        for n in 0..self.url.config.get_hosts().len() {
            let config = self.url.with_host(n);
            match timeout(Self::PATIENCE, config.connect(self.tls.clone())).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => trouble = Some(error.into()),
                Err(late) => trouble = Some(late.into()),
            }
        }
        Err(trouble.expect("an address has a host"))
    }

    pub async fn cancel(&self, token: CancelToken) -> Result<(), tokio_postgres::Error> {
        token.cancel_query(self.tls.clone()).await
    }

    pub fn prepares(&self) -> bool {
        self.url.prepares
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

type Stream = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

impl PostgresUrl {
    pub const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

    /// The same with the host of this number alone.
    fn with_host(&self, n: usize) -> Config {
        let all = &self.config;
        let mut one = Config::new();
        match &all.get_hosts()[n] {
            Host::Tcp(name) => one.host(name),
            Host::Unix(path) => one.host_path(path),
        };
        if let Some(address) = all.get_hostaddrs().get(n) {
            one.hostaddr(*address);
        }
        if let Some(port) = all.get_ports().get(n).or(all.get_ports().first()) {
            one.port(*port);
        }
        if let Some(user) = all.get_user() {
            one.user(user);
        }
        if let Some(password) = all.get_password() {
            one.password(password);
        }
        if let Some(name) = all.get_dbname() {
            one.dbname(name);
        }
        if let Some(options) = all.get_options() {
            one.options(options);
        }
        one.application_name(all.get_application_name().unwrap_or("petstore"))
            .ssl_mode(all.get_ssl_mode())
            .channel_binding(all.get_channel_binding())
            // Everything is decided by the server that writes.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(Server::PATIENCE)
            .tcp_user_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3);
        one
    }

    /// How TLS is spoken, if it is. As in libpq, a certificate is only looked
    /// at if the mode is `verify-full`.
    fn tls(&self) -> io::Result<MakeRustlsConnect> {
        // Without verification it is as with libpq's `prefer` and `require`:
        // encrypted, but not to a known server.
        let config = if self.verified {
            ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .expect("the provider has the default protocols")
                .with_root_certificates(self.trusted()?)
                .with_no_client_auth()
        } else {
            tls::insecure()
        };
        Ok(MakeRustlsConnect::new(config))
    }

    /// The certificates of the named file, or those that the system trusts.
    fn trusted(&self) -> io::Result<RootCertStore> {
        let mut store = RootCertStore::empty();
        let certificates = match &self.roots {
            Some(file) => CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect)
                .map_err(|e| {
                    io::Error::other(format!("sslrootcert: cannot read {}: {e}", file.display()))
                })?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        store.add_parsable_certificates(certificates);
        Ok(store)
    }
}

impl FromStr for PostgresUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = |reason: String| Invalid::new("database", reason);
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut verified, mut roots, mut prepares) = (false, None, true);
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match (name, &*value) {
                ("sslmode", "verify-full") => {
                    verified = true;
                    kept.push("sslmode=require");
                }
                ("sslmode", "disable" | "prefer" | "require") => kept.push(pair),
                ("sslmode", _) => {
                    let reason = "sslmode must be disable, prefer, require or verify-full";
                    return Err(wrong(reason.into()));
                }
                ("sslrootcert", "system") => verified = true,
                ("sslrootcert", file) => roots = Some(PathBuf::from(file)),
                ("prepared_statements", "true") => {}
                ("prepared_statements", "false") => prepares = false,
                ("prepared_statements", _) => {
                    return Err(wrong("prepared_statements must be true or false".into()));
                }
                _ => kept.push(pair),
            }
        }
        if roots.is_some() && !verified {
            return Err(wrong(
                "sslrootcert is used with sslmode=verify-full only".into(),
            ));
        }
        let config = format!("{base}?{}", kept.join("&")).parse::<Config>();
        let config = config.map_err(|e| {
            let reason = e.source().map_or(e.to_string(), <dyn Error>::to_string);
            wrong(format!("is no address of a PostgreSQL server: {reason}"))
        })?;
        if config.get_hosts().is_empty() {
            return Err(wrong("must name the host of the PostgreSQL server".into()));
        }
        Ok(Self {
            config,
            verified,
            roots,
            prepares,
        })
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        for (n, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(n).or(ports.first()) {
                write!(f, ":{port}")?;
            }
        }
        match self.config.get_dbname() {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}
