//! `petstore serve`: runs the service until it receives a signal.

use std::{
    env,
    error::Error,
    net::{SocketAddr, TcpListener},
    ops::RangeInclusive,
    pin::pin,
    process::{self, ExitCode},
};

use clap::{Args, builder::RangedU64ValueParser};
use jiff::{SignedDuration, Span, SpanRelativeTo};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    CommandResult, DEFAULT_DATABASE, Database, Listen, PublicUrls, TlsFiles, WebhookTargets, keys,
    socket_address, status,
};
use crate::{
    api::{self, Origin, RateLimit, Scheme, StreamLimits},
    api_key::{NewApiKey, Scopes},
    clock::Clock,
    dispatcher,
    event::EventRetention,
    server,
    service::{self, Config, Listeners},
    store::{self, Options, Role, Store},
    telemetry::log::{self, stderr_is_terminal},
};

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    listen: Listen,
    /// Address and port to serve Prometheus metrics on, at /metrics.
    ///
    /// /healthz and /readyz are served there, too. Metrics need no API key, so keep clients away from this address. By
    /// default, metrics are not served.
    #[arg(
        long,
        env = "PETSTORE_METRICS_LISTEN",
        value_parser = socket_address,
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    metrics_listen: Option<SocketAddr>,
    #[command(flatten)]
    database: Database,
    #[command(flatten)]
    urls: PublicUrls,
    #[command(flatten)]
    tls: TlsFiles,
    /// How long an order reserves its animal, such as 30m, 12h or 2d.
    ///
    /// An order that is still open after this time expires: it is cancelled, and
    /// the animal is available again. By default, orders don't expire.
    #[arg(
        long,
        env = "PETSTORE_RESERVE_FOR",
        value_parser = reservation,
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    reserve_for: Option<SignedDuration>,
    /// Origin whose web pages may call the service, such as
    /// https://shop.example, or * for any.
    ///
    /// Repeat the option, or separate origins with commas, to allow several. By
    /// default, only the service's own pages may call it.
    #[allow(rustdoc::bare_urls)]
    #[arg(
        long = "cors-origin",
        env = "PETSTORE_CORS_ORIGIN",
        value_delimiter = ',',
        value_name = "ORIGIN"
    )]
    cors_origins: Vec<Origin>,
    /// Don't serve the console: /console responds with 404.
    #[arg(long, env = "PETSTORE_NO_CONSOLE")]
    no_console: bool,
    /// Don't serve the API reference: /docs responds with 404.
    ///
    /// The contract is still served, at /v1/openapi.yaml and /v1/openapi.json.
    #[arg(long, env = "PETSTORE_NO_DOCS")]
    no_docs: bool,
    /// How long events are kept, such as 12h or 7d.
    ///
    /// A client that has not read the log for longer has to start over.
    #[arg(
        long,
        env = "PETSTORE_KEEP_EVENTS",
        value_parser = event_age,
        default_value = "7d",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    keep_events: SignedDuration,
    /// Maximum number of events to keep, whatever their age.
    #[arg(
        long,
        env = "PETSTORE_MAX_EVENTS",
        value_parser = RangedU64ValueParser::<u64>::new().range(1..=1_000_000_000_000),
        default_value_t = EventRetention::default().count,
        value_name = "COUNT",
        allow_hyphen_values = true
    )]
    max_events: u64,
    /// Maximum number of event streams and long polls that are open at a time.
    ///
    /// They don't count as requests in flight, and connections for them are added to the
    /// limit on connections.
    #[arg(
        long,
        env = "PETSTORE_MAX_STREAMS",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000),
        default_value_t = StreamLimits::default().max_open,
        value_name = "COUNT",
        allow_hyphen_values = true
    )]
    max_streams: usize,
    #[command(flatten)]
    webhooks: WebhookTargets,
    /// Maximum rate of requests per API key, such as 600/60s, 10/s or 1000/1h.
    ///
    /// By default, the rate is not limited.
    #[arg(
        long,
        env = "PETSTORE_RATE_LIMIT",
        value_name = "LIMIT",
        allow_hyphen_values = true
    )]
    rate_limit: Option<RateLimit>,
    /// Maximum rate of requests without a valid API key, per client address.
    #[arg(
        long,
        env = "PETSTORE_FAILED_AUTH_LIMIT",
        default_value_t = RateLimit::FAILED_AUTH,
        value_name = "LIMIT",
        allow_hyphen_values = true
    )]
    failed_auth_limit: RateLimit,
    /// Log every request, not only those that fail or take longer than a second.
    #[arg(long, env = "PETSTORE_ACCESS_LOG")]
    access_log: bool,
    /// Maximum number of connections of one client address.
    ///
    /// IPv6 addresses count by /64. By default there is no such limit, because behind
    /// a proxy all clients share its address; if connections run short, the address
    /// that holds most loses its idle ones first.
    #[arg(
        long,
        env = "PETSTORE_MAX_CONNECTIONS_PER_ADDRESS",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..),
        value_name = "NUMBER",
        allow_hyphen_values = true
    )]
    max_connections_per_address: Option<usize>,
    /// How long to keep serving after a signal to stop, such as 5s.
    ///
    /// Meanwhile /readyz responds with 503 and every connection is closed after its
    /// next response, so that a load balancer can send requests elsewhere before the
    /// service stops accepting them.
    #[arg(
        long,
        env = "PETSTORE_DRAIN_DELAY",
        value_parser = drain_delay,
        default_value = "0s",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    drain_delay: SignedDuration,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        let _flush_on_exit = log::init();
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => {
                let result = runtime.block_on(self.serve());
                // Does not wait for name lookups.
                runtime.shutdown_background();
                result
            }
            Err(cause) => Err(cause.into()),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                if stderr_is_terminal() {
                    status!("petstore: {error}");
                } else {
                    tracing::error!(%error, "service failed");
                }
                ExitCode::FAILURE
            }
        }
    }

    async fn serve(self) -> CommandResult {
        // Installed first, so that a signal during startup is not lost.
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stderr_is_terminal() {
                status!(
                    "Shutting down: finishing requests in flight. Press Ctrl-C again to stop now."
                );
            } else {
                tracing::info!("shutting down");
            }
            tokio::spawn(async move {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                process::exit(1);
            });
        };

        let tls = self.tls.load()?;
        let warn = |warning: String| tracing::warn!(warning, "insecure database connection");
        let database = self.database.url_with_warnings(warn)?;
        let (listener, address) = bind("--listen", self.listen.listen)?;
        let metrics = self
            .metrics_listen
            .map(|address| bind("--metrics-listen", address));
        let metrics = metrics.transpose()?;
        let url = format!("{}://{address}", Scheme::new(tls.is_some()));
        let mut shutdown = pin!(shutdown);
        let options = Options::new(Role::Service);
        let store = tokio::select! {
            opened = Store::open(&database, &options) => opened?,
            () = &mut shutdown => return Ok(()),
        };

        self.log_startup(&url, metrics.as_ref().map(|(_, address)| *address));
        // The service is useful without the advice.
        if let Err(error) = self.offer_first_key(&store, &url).await {
            tracing::warn!(%error, "api keys not read at startup");
        }

        let mut limits = server::Limits::default();
        limits.max_connections += self.max_streams;
        limits.max_connections = limits.max_connections.min(max_connections());
        limits.max_connections_per_address = self.max_connections_per_address;
        limits.drain_delay = self.drain_delay.unsigned_abs();
        let config = Config {
            api: api::Config {
                public_url: self.urls.public_url,
                staging_url: self.urls.staging_url,
                reserve_for: self.reserve_for,
                cors_origins: self.cors_origins,
                console: !self.no_console,
                docs: !self.no_docs,
                rate_limit: self.rate_limit,
                failed_auth_limit: self.failed_auth_limit,
                access_log: self.access_log,
                streams: StreamLimits {
                    max_open: self.max_streams,
                    ..StreamLimits::default()
                },
                webhooks: dispatcher::Config {
                    urls: self.webhooks.policy(),
                    ..dispatcher::Config::default()
                },
                ..api::Config::default()
            },
            server: limits,
            event_retention: EventRetention {
                age: self.keep_events,
                count: self.max_events,
            },
            tls,
        };
        let listeners = Listeners {
            api: listener.try_into()?,
            metrics: metrics
                .map(|(listener, _)| listener.try_into())
                .transpose()?,
        };
        service::run(listeners, store, config, shutdown).await?;
        Ok(())
    }

    /// Reports where the service listens.
    fn log_startup(&self, url: &str, metrics: Option<SocketAddr>) {
        let (version, database) = (env!("CARGO_PKG_VERSION"), &self.database.database);
        let metrics_url = metrics.map(|address| format!("http://{address}/metrics"));
        if !stderr_is_terminal() {
            tracing::info!(url, version, %database, metrics_url, "listening");
            return;
        }
        status!("Petstore {version} is listening on {url}");
        if !self.no_docs {
            status!("  docs      {url}/docs");
        }
        status!("  contract  {url}/v1/openapi.yaml");
        if let Some(metrics_url) = metrics_url {
            status!("  metrics   {metrics_url}");
        }
        status!("  database  {database}");
    }

    /// If no API key is valid: on a terminal with a new database, creates the first
    /// key; otherwise reports the command that creates one.
    async fn offer_first_key(&self, store: &Store, url: &str) -> Result<(), store::Error> {
        let now = Clock::system().now();
        let keys = store.api_key_list().await?;
        if keys.iter().any(|(_, key)| key.is_valid_at(now)) {
            return Ok(());
        }
        if !stderr_is_terminal() {
            let command = self.create_key_command();
            tracing::info!(command, "no valid api keys");
            return Ok(());
        }
        if !keys.is_empty() {
            let command = self.create_key_command();
            status!("There are no valid API keys. Create one with: {command}");
            return Ok(());
        }
        let new = NewApiKey {
            name: "first".parse().expect("a valid name"),
            scopes: Scopes::all(),
            created_at: now,
            expires_at: None,
        };
        let (_, secret) = keys::create(store, new).await?;
        status!("Created the first API key. Its secret won't be shown again. Try it:\n");
        status!(
            "  curl -H 'Authorization: Bearer {}' {url}/v1/pets\n",
            secret.reveal()
        );
        Ok(())
    }

    /// The shell command that creates an API key in this database.
    fn create_key_command(&self) -> String {
        let program = shell_quote(&env::args().next().unwrap_or("petstore".into()));
        let database = match self.database.database.to_string() {
            default if default == DEFAULT_DATABASE => String::new(),
            other => format!(" --database {}", shell_quote(&other)),
        };
        let password_file = &self.database.password.database_password_file;
        let password_file = password_file.as_ref().map_or(String::new(), |file| {
            let file = shell_quote(&file.to_string_lossy());
            format!(" --database-password-file {file}")
        });
        format!("{program} keys create NAME{database}{password_file}")
    }
}

fn bind(option: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), Box<dyn Error>> {
    let listener = TcpListener::bind(address)
        .map_err(|cause| format!("cannot listen on {address} ({option}): {cause}"))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// File descriptors kept free for the database, the log and other files, and for
/// connections to the metrics listener, over the limit, or being evicted.
const RESERVED_DESCRIPTORS: u64 = 64 + 3 * server::RESERVED_CONNECTIONS as u64;

/// Raises the soft limit on open files to the hard limit: the usual soft limit of
/// 1024 is below our limit on connections.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, `max_connections` is lower.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// How many connections the limit on open files leaves room for.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(RESERVED_DESCRIPTORS))
        .unwrap_or(usize::MAX)
        .max(1)
}

fn reservation(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 1..=3660 * 24 * 3600)
        .ok_or("must be a duration from 1s to 3660d, such as 30m, 12h or 2d")
}

fn event_age(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 1..=3660 * 24 * 3600)
        .ok_or("must be a duration from 1s to 3660d, such as 12h or 7d")
}

fn drain_delay(text: &str) -> Result<SignedDuration, &'static str> {
    duration(text, 0..=600).ok_or("must be a duration from 0s to 10m, such as 5s")
}

/// Parses a duration within a range of seconds. A day has 24 hours: the duration
/// is not relative to a calendar date.
fn duration(text: &str, seconds: RangeInclusive<i64>) -> Option<SignedDuration> {
    let span: Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    let in_range = seconds.contains(&duration.as_secs()) && !duration.is_negative();
    in_range.then_some(duration)
}

/// Quotes a word for a POSIX shell if it needs quoting.
fn shell_quote(word: &str) -> String {
    if word
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_./:".contains(&b))
    {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
