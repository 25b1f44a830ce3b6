//! `petstore serve`: runs the service until it is told to stop.

use std::{
    env,
    error::Error,
    net::{SocketAddr, TcpListener},
    ops::RangeInclusive,
    pin::pin,
    process::{self, ExitCode},
};

use clap::Args;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Addresses, DEFAULT_DATABASE, Database, Listen, Outcome, TlsFiles, address, keys,
    log::{self, tell},
    say,
};
use crate::{
    api::{self, Origin, RateLimit, Scheme},
    api_key::{NewApiKey, Scopes},
    clock::Clock,
    invalid::{Invalid, quoted},
    server,
    service::{self, Listeners, Settings},
    store::{self, Options, Role, Store},
};

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    listen: Listen,
    /// An address and port of their own for the metrics (/metrics, for
    /// Prometheus); none, if left out. They need no key: don't let clients get
    /// there.
    #[arg(
        long,
        env = "PETSTORE_METRICS_LISTEN",
        value_parser = address,
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    addresses: Addresses,
    #[command(flatten)]
    tls: TlsFiles,
    /// How long an order reserves its animal, such as 30m, 12h or 2d. An order
    /// that is still open after that is cancelled. By default, orders never
    /// expire.
    #[arg(
        long,
        env = "PETSTORE_RESERVE_FOR",
        value_parser = reservation,
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    reserve_for: Option<SignedDuration>,
    /// An origin whose web pages may use the service from a browser, for
    /// example https://shop.example; give it again for more, or * for any.
    #[arg(
        long = "cors-origin",
        env = "PETSTORE_CORS_ORIGIN",
        value_delimiter = ',',
        value_name = "ORIGIN"
    )]
    cors_origins: Vec<Origin>,
    /// How many requests a key may send in a time, for example 600/60s, 10/s or
    /// 1000/1h. Any number, if left out.
    #[arg(
        long,
        env = "PETSTORE_RATE_LIMIT",
        value_name = "LIMIT",
        allow_hyphen_values = true
    )]
    rate_limit: Option<RateLimit>,
    /// How many requests without a valid key may come from an address in a time.
    #[arg(
        long,
        env = "PETSTORE_FAILED_AUTH_LIMIT",
        default_value_t = RateLimit::FAILED_AUTH,
        value_name = "LIMIT",
        allow_hyphen_values = true
    )]
    failed_auth_limit: RateLimit,
    /// Write every request to the log, not only those that fail or take longer
    /// than a second.
    #[arg(long, env = "PETSTORE_ACCESS_LOG")]
    access_log: bool,
    /// How long to go on serving after a signal to stop, with /readyz at 503,
    /// so that those who send requests can notice; for example 5s.
    #[arg(
        long,
        env = "PETSTORE_DRAIN_DELAY",
        value_parser = delay,
        default_value = "0s",
        value_name = "TIME",
        allow_hyphen_values = true
    )]
    drain_delay: SignedDuration,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        let _written_at_the_end = log::start();
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let served = match runtime {
            Ok(runtime) => runtime.block_on(self.serve()),
            Err(cause) => Err(cause.into()),
        };
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                if log::is_watched() {
                    say!("petstore: {error}");
                } else {
                    tracing::error!("{error}");
                }
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self) -> Outcome {
        // Signals are taken from here on, so that one that comes early counts.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tell!("Stopping: finishing the requests that run. Idempotent more stops at once.");
            tokio::spawn(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                process::exit(1);
            });
        };

        let tls = self.tls.load()?;
        let (listener, address) = listen("--listen", self.listen.listen)?;
        let metrics = self.metrics_listen.map(|at| listen("--metrics-listen", at));
        let metrics = metrics.transpose()?;
        let here = format!("{}://{address}", Scheme::new(tls.is_some()));
        let mut shutdown = pin!(shutdown);
        let options = Options::new(Role::Service);
        let store = tokio::select! {
            opened = Store::open(&self.database.database, &options) => opened?,
            () = &mut shutdown => return Ok(()),
        };

        self.announce(&here, metrics.as_ref().map(|(_, address)| *address));
        self.introduce_keys(&store, &here).await?;

        let mut limits = server::Limits::default();
        limits.max_connections = limits.max_connections.min(room_for_connections());
        let settings = Settings {
            api: api::Config {
                public_url: self.addresses.public_url,
                staging_url: self.addresses.staging_url,
                reserve_for: self.reserve_for,
                cors_origins: self.cors_origins,
                rate_limit: self.rate_limit,
                failed_auth_limit: self.failed_auth_limit,
                access_log: self.access_log,
                ..api::Config::default()
            },
            server: limits,
            tls,
            drain_delay: self.drain_delay.unsigned_abs(),
        };
        let listeners = Listeners {
            api: listener.try_into()?,
            metrics: metrics
                .map(|(listener, _)| listener.try_into())
                .transpose()?,
        };
        service::run(listeners, store, settings, shutdown).await?;
        Ok(())
    }

    /// Says where the service is.
    fn announce(&self, here: &str, metrics: Option<SocketAddr>) {
        let (version, database) = (env!("CARGO_PKG_VERSION"), &self.database.database);
        if !log::is_watched() {
            let metrics = metrics.map(|address| format!("http://{address}/metrics"));
            tracing::info!(version, %database, metrics, "listens on {here}");
            return;
        }
        say!("Petstore {version} listens on {here}");
        say!("  docs      {here}/docs");
        say!("  contract  {here}/v1/openapi.yaml");
        if let Some(address) = metrics {
            say!("  metrics   http://{address}/metrics");
        }
        say!("  database  {database}");
    }

    /// Helps with the first key: makes it for a person who is looking, and
    /// otherwise says how.
    async fn introduce_keys(&self, store: &Store, here: &str) -> Result<(), store::Error> {
        let now = Clock::system().now();
        let keys = store.api_key_list().await?;
        if keys.iter().any(|(_, key)| key.is_valid_at(now)) {
            return Ok(());
        }
        if !keys.is_empty() || !log::is_watched() {
            let database = match self.database.database.to_string() {
                default if default == DEFAULT_DATABASE => String::new(),
                other => format!(" --database {}", shell_word(&other)),
            };
            let program = shell_word(&env::args().next().unwrap_or("petstore".into()));
            tell!("There are no valid keys. Make one: {program} keys create NAME{database}");
            return Ok(());
        }
        let new = NewApiKey {
            name: "first".parse().expect("a valid name"),
            scopes: Scopes::all(),
            created_at: now,
            expires_at: None,
        };
        let (_, secret) = keys::create(store, new).await?;
        say!("There were no keys yet, so here is the first. It is shown only now. Try it:\n");
        say!(
            "  curl -H 'Authorization: Bearer {}' {here}/v1/pets\n",
            secret.reveal()
        );
        Ok(())
    }
}

fn listen(option: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Box<dyn Error>> {
    let listener = TcpListener::bind(address)
        .map_err(|cause| format!("cannot listen on {address} ({option}): {cause}"))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Descriptors that are not for connections: the database, the log and so on.
const RESERVED: u64 = 64;

/// Takes as many descriptors as the system allows: the usual limit is lower
/// than that of connections.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused, there is room for fewer connections.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn room_for_connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(RESERVED))
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Parses `--reserve-for`: from one second to 3660 days.
fn reservation(text: &str) -> Result<SignedDuration, Invalid> {
    length(text, 1..=3660 * 24 * 3600).ok_or_else(|| {
        let got = quoted(text);
        let reason = format!("must be a time from 1s to 3660d such as 30m, 12h or 2d, got {got}");
        Invalid::new("reserve-for", reason)
    })
}

/// Up to ten minutes.
fn delay(text: &str) -> Result<SignedDuration, Invalid> {
    length(text, 0..=600).ok_or_else(|| {
        let got = quoted(text);
        let reason = format!("must be a time from 0s to 10m such as 5s, got {got}");
        Invalid::new("drain-delay", reason)
    })
}

/// A length of time within so many seconds. A day has 24 hours: it is no part of
/// a calendar.
fn length(text: &str, seconds: RangeInclusive<i64>) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let whole = seconds.contains(&length.as_secs()) && !length.is_negative();
    whole.then_some(length)
}

/// Quotes a word, if need be, so that a shell takes it as it is.
fn shell_word(word: &str) -> String {
    if word
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
    {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
