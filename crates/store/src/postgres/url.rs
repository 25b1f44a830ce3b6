//! The address of a PostgreSQL server, in libpq's URL format.

use std::{
    collections::HashSet,
    error::Error,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use percent_encoding::percent_decode_str;
use tokio_postgres::{
    Config,
    config::{Host, TargetSessionAttrs},
};

use domain::invalid::Invalid;

/// The maximum time that one host may take to accept a connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The port that the driver uses if the URL has none. Shown, because a connection may fail there.
const DEFAULT_PORT: u16 = 5432;

/// The address of a server and the options to connect to it. Displayed without its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// The URL as given, without its password.
    text: String,
    config: Config,
    pub(super) verify_certificate: bool,
    pub(super) root_certificates: Option<PathBuf>,
    /// True if named prepared statements are used. A pooler in transaction mode may not
    /// support them.
    pub(super) prepares_statements: bool,
}

impl PostgresUrl {
    pub(crate) const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

    /// Returns the URL as given, without its password, for a command that a person can copy.
    pub fn without_password(&self) -> &str {
        &self.text
    }

    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    pub fn set_password(&mut self, password: Vec<u8>) {
        self.config.password(password);
    }

    /// Returns the first host that is not on this machine, if certificates are not verified.
    pub fn unverified_host(&self) -> Option<&str> {
        let mut hosts = self.config.get_hosts().iter().enumerate();
        hosts.find_map(|(n, host)| match host {
            Host::Tcp(name) if !self.verify_certificate => {
                let address = self.config.get_hostaddrs().get(n).copied();
                let is_local = match address.or_else(|| name.parse().ok()) {
                    Some(address) => address.to_canonical().is_loopback(),
                    None => name.eq_ignore_ascii_case("localhost"),
                };
                (!is_local).then_some(name.as_str())
            }
            _ => None,
        })
    }

    /// Returns the configuration of each host, in order.
    pub(super) fn hosts(&self) -> impl Iterator<Item = Config> {
        (0..self.config.get_hosts().len()).map(|n| self.host(n))
    }

    /// Returns the configuration with the nth host alone.
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
        // As the driver does: the user and password may contain a question mark.
        let after_user = text.find('@').unwrap_or(0);
        let query_at = text[after_user..].find('?').map(|n| after_user + n);
        let (base, query) = query_at.map_or((text, ""), |n| (&text[..n], &text[n + 1..]));
        let mut sslmode = None;
        let mut sslrootcert = None;
        let mut prepares_statements = true;
        let mut names = HashSet::new();
        let mut kept = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let [name, value] =
                [name, value].map(|part| percent_decode_str(part).decode_utf8_lossy());
            match (&*name, &*value) {
                ("sslmode", "disable" | "prefer" | "require" | "verify-full") => {
                    sslmode = Some(value.clone().into_owned());
                }
                ("sslmode", _) => {
                    let reason = "sslmode must be disable, prefer, require or verify-full";
                    return Err(invalid(reason.into()));
                }
                ("sslrootcert", file) => sslrootcert = Some(PathBuf::from(file)),
                ("prepared_statements", "true") => {}
                ("prepared_statements", "false") => prepares_statements = false,
                ("prepared_statements", _) => {
                    return Err(invalid("prepared_statements must be true or false".into()));
                }
                _ => kept.push(pair),
            }
            // It would be unclear which value is used.
            if !names.insert(name.clone()) {
                return Err(invalid(format!("{name} must not be repeated")));
            }
        }
        // As in libpq, `system` implies verify-full. Weaker modes verify nothing, and
        // `prefer` falls back to plain text.
        let system = sslrootcert.as_deref() == Some(Path::new("system"));
        let verify_certificate = match sslmode.as_deref() {
            Some(mode) => mode == "verify-full",
            None => system,
        };
        if sslrootcert.is_some() && !verify_certificate {
            return Err(invalid("sslrootcert requires sslmode=verify-full".into()));
        }
        let driver_sslmode = if verify_certificate {
            "require"
        } else {
            sslmode.as_deref().unwrap_or("prefer")
        };
        let parameter = format!("sslmode={driver_sslmode}");
        kept.push(&parameter);
        let parse = |url: &str| {
            url.parse::<Config>().map_err(|e| {
                let reason = e.source().map_or(e.to_string(), <dyn Error>::to_string);
                invalid(format!("is not a valid PostgreSQL URL: {reason}"))
            })
        };
        let authority = parse(base)?;
        let has_host = !authority.get_hosts().is_empty();
        for (name, is_given) in [
            ("host", has_host),
            ("port", has_host),
            ("user", authority.get_user().is_some()),
            ("password", authority.get_password().is_some()),
            ("dbname", authority.get_dbname().is_some()),
        ] {
            if is_given && names.contains(name) {
                return Err(invalid(format!("{name} must not be repeated")));
            }
        }
        let config = parse(&format!("{base}?{}", kept.join("&")))?;
        if config.get_hosts().is_empty() {
            return Err(invalid(
                "must specify the host of the PostgreSQL server".into(),
            ));
        }
        Ok(Self {
            text: without_password(base, query),
            config,
            verify_certificate,
            root_certificates: sslrootcert.filter(|_| !system),
            prepares_statements,
        })
    }
}

/// Removes the password from the parts of a URL.
fn without_password(base: &str, query: &str) -> String {
    let user_at = base.find("://").map_or(0, |end| end + 3);
    let password = base.find('@').and_then(|end| {
        let start = user_at + base[user_at..end].find(':')?;
        Some(start..end)
    });
    let mut text = base.to_string();
    if let Some(password) = password {
        text.replace_range(password, "");
    }
    let is_password = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or_default();
        percent_decode_str(name).eq(*b"password")
    };
    let kept: Vec<_> = query.split('&').filter(|pair| !is_password(pair)).collect();
    match &*kept.join("&") {
        "" => text,
        query => format!("{text}?{query}"),
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
            let port = ports.get(n).or(ports.first()).copied();
            match (port, host) {
                (Some(port), _) => write!(f, ":{port}")?,
                (None, Host::Tcp(_)) => write!(f, ":{DEFAULT_PORT}")?,
                (None, Host::Unix(_)) => {}
            }
        }
        match self.config.get_dbname() {
            Some(name) => write!(f, "/{name}"),
            None => Ok(()),
        }
    }
}
