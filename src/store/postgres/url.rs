//! The address of a PostgreSQL server, in libpq's URL format.

use std::{error::Error, fmt, path::PathBuf, str::FromStr, time::Duration};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{Host, TargetSessionAttrs},
};

use crate::invalid::Invalid;

/// How long one host may take to accept a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Where a server is and how to connect to it. Displayed without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Config,
    pub(super) verify_certificate: bool,
    pub(super) root_certificates: Option<PathBuf>,
    /// Whether to use named prepared statements. A pooler in transaction mode
    /// may not support them.
    pub(super) prepares_statements: bool,
}

impl PostgresUrl {
    pub(in super::super) const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

    /// The configuration of each host, in order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = Config> {
        (0..self.config.get_hosts().len()).map(|n| self.host(n))
    }

    /// The configuration with the nth host alone.
    fn host(&self, n: usize) -> Config {
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
            // Reads and writes both go to the primary.
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(10))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3);
        one
    }
}

impl FromStr for PostgresUrl {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |reason: String| Invalid::new("database", reason);
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut verify_certificate, mut root_certificates, mut prepares_statements) =
            (false, None, true);
        let mut system_certificates = false;
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8_lossy();
            match (name, &*value) {
                ("sslmode", "verify-full") => {
                    verify_certificate = true;
                    kept.push("sslmode=require");
                }
                ("sslmode", "disable" | "prefer" | "require") => kept.push(pair),
                ("sslmode", _) => {
                    let reason = "sslmode must be disable, prefer, require or verify-full";
                    return Err(invalid(reason.into()));
                }
                ("sslrootcert", "system") => system_certificates = true,
                ("sslrootcert", file) => root_certificates = Some(PathBuf::from(file)),
                ("prepared_statements", "true") => {}
                ("prepared_statements", "false") => prepares_statements = false,
                ("prepared_statements", _) => {
                    return Err(invalid("prepared_statements must be true or false".into()));
                }
                _ => kept.push(pair),
            }
        }
        // Weaker modes verify nothing, and `prefer` falls back to plain text.
        if (root_certificates.is_some() || system_certificates) && !verify_certificate {
            return Err(invalid("sslrootcert requires sslmode=verify-full".into()));
        }
        let config = format!("{base}?{}", kept.join("&")).parse::<Config>();
        let config = config.map_err(|e| {
            let reason = e.source().map_or(e.to_string(), <dyn Error>::to_string);
            invalid(format!("is not a valid PostgreSQL URL: {reason}"))
        })?;
        if config.get_hosts().is_empty() {
            return Err(invalid(
                "must specify the host of the PostgreSQL server".into(),
            ));
        }
        Ok(Self {
            config,
            verify_certificate,
            root_certificates,
            prepares_statements,
        })
    }
}

/// Shows neither the password nor the parameters.
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
