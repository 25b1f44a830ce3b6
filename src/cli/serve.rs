//! `petstore serve`: runs the service until it receives a signal.

mod bind;
mod network;
mod start_screen;
mod startup;

pub use start_screen::console_path;

use std::{
    env,
    error::Error,
    fs, io,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{self, ExitCode},
    sync::Arc,
};

use clap::{Args, builder::RangedU64ValueParser};
use jiff::SignedDuration;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    BackupOptions, CommandResult, Listen, PublicUrls, ServedDatabase, TlsFiles, WebhookTargets,
    demo::{self, Demo, DemoDatabase},
    duration::{drain_delay, event_age, reservation},
    explain_os_errors, interrupt, socket_address, status,
};
use api::{Origin, RateLimit, Scheme, StreamLimits};
use bind::bind;
use domain::event::EventRetention;
use server::Tls;
use service::{Config, Listeners};
use startup::Start;
use store::{DatabaseUrl, Options, Role, Store};
use telemetry::log::{self, stderr_is_terminal};

#[derive(Args)]
pub struct Serve {
    #[command(flatten)]
    listen: Listen,
    /// Address and port to serve Prometheus metrics on, at /metrics.
    ///
    /// /healthz and /readyz are served there, too. Metrics need no API key, so keep clients away
    /// from this address. By default, metrics are not served.
    #[arg(
        long,
        env = "PETSTORE_METRICS_LISTEN",
        value_parser = socket_address,
        value_name = "ADDRESS",
        allow_hyphen_values = true
    )]
    metrics_listen: Option<SocketAddr>,
    // The demo comes before the database, whose parsing removes the typed values.
    #[command(flatten)]
    demo: Demo,
    #[command(flatten)]
    database: ServedDatabase,
    #[command(flatten)]
    urls: PublicUrls,
    #[command(flatten)]
    tls: TlsFiles,
    /// Time for which an order reserves its animal, such as 30m, 12h or 2d.
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
    /// Time for which events are kept, such as 12h, 30d or 1095d (three years).
    ///
    /// They are the history of animals and orders. A client that has not read the log for longer
    /// has to start over.
    #[arg(
        long,
        env = "PETSTORE_KEEP_EVENTS",
        value_parser = event_age,
        default_value = "1095d",
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
    /// limit on connections. An API key may have a quarter of them, an address three
    /// quarters.
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
    /// Time to keep serving after a signal to stop, such as 5s.
    ///
    /// During this time, /readyz responds with 503 and every connection is closed after its next
    /// response, so that a load balancer can send requests elsewhere before the service stops
    /// accepting them.
    #[arg(
        long,
        env = "PETSTORE_DRAIN_DELAY",
        value_parser = drain_delay,
        default_value = "0s",
        value_name = "DURATION",
        allow_hyphen_values = true
    )]
    drain_delay: SignedDuration,
    #[command(flatten)]
    backups: BackupOptions,
}

/// The listeners with their addresses.
struct BoundListeners {
    api: (TcpListener, SocketAddr),
    metrics: Option<(TcpListener, SocketAddr)>,
}

impl Serve {
    pub fn run(self) -> ExitCode {
        let listeners = self.bind_and_give_up_root();
        let _flush_on_exit = log::init();
        raise_descriptor_limit();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => {
                let result = runtime.block_on(async { self.serve(listeners?).await });
                // This does not wait for name lookups.
                runtime.shutdown_background();
                result
            }
            Err(cause) => Err(cause.into()),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let error = explain_os_errors(&error.to_string());
                if stderr_is_terminal() {
                    status!("petstore: {error}");
                } else {
                    tracing::error!(error, "service failed");
                }
                ExitCode::FAILURE
            }
        }
    }

    /// Binds the listeners, which needs root for a port below 1024, and then gives up root for
    /// the owner of the store, before threads are started.
    fn bind_and_give_up_root(&self) -> Result<BoundListeners, Box<dyn Error>> {
        let api = bind(self.listen.option(), self.listen.address())?;
        let metrics = match self.metrics_listen {
            Some(address) => Some(bind("--metrics-listen", address)?),
            None => None,
        };
        if !*self.demo {
            self.database.give_up_root()?;
        }
        Ok(BoundListeners { api, metrics })
    }

    async fn serve(mut self, listeners: BoundListeners) -> CommandResult {
        let created = self.demo.then(DemoDatabase::create).transpose();
        let demo = created.map_err(|cause| {
            let folder = env::temp_dir();
            format!(
                "cannot create the database of the demo in {} (TMPDIR): {cause}",
                folder.display()
            )
        })?;
        if let Some(demo) = &demo {
            self.database = demo.database();
        }
        let demo_directory = demo.as_ref().map(|demo| demo.directory().to_owned());
        // Installed first, so that a signal during startup is not lost.
        let mut shutdown = Box::pin(shutdown_signal(demo_directory)?);
        let tls = self.tls.load()?;
        let warn = |warning: String| tracing::warn!(warning, "insecure database connection");
        let database = self.database.url_with_warnings(warn)?;
        let backups = self.backups.config(&database)?;
        let BoundListeners {
            api: (listener, address),
            metrics,
        } = listeners;
        let scheme = Scheme::new(tls.is_some());
        let start = Start {
            scheme,
            address,
            url: format!("{scheme}://{address}"),
            metrics_url: metrics
                .as_ref()
                .map(|(_, address)| format!("http://{address}/metrics")),
            is_new: matches!(&database, DatabaseUrl::Sqlite(file) if !file.exists()),
            database,
        };
        let opening = async {
            let store = Store::open(&start.database, &Options::new(Role::Service)).await?;
            let demo_key = match &demo {
                Some(_) => Some(demo::fill(&store).await?),
                None => None,
            };
            Ok::<_, Box<dyn Error>>((store, demo_key))
        };
        let (store, demo_key) = tokio::select! {
            opened = opening => opened?,
            () = &mut shutdown => return Ok(()),
        };
        self.report_startup(&store, &start, demo_key).await;

        let listeners = Listeners {
            api: listener.try_into()?,
            metrics: metrics
                .map(|(listener, _)| listener.try_into())
                .transpose()?,
        };
        service::run(listeners, store, self.config(tls, backups), shutdown).await?;
        if stderr_is_terminal() {
            status!("Stopped.");
        }
        Ok(())
    }

    fn config(self, tls: Option<Arc<Tls>>, backups: Option<backups::Config>) -> Config {
        let mut limits = server::Limits::default();
        limits.max_connections += self.max_streams;
        limits.max_connections = limits.max_connections.min(max_connections());
        limits.max_connections_per_address = self.max_connections_per_address;
        limits.drain_delay = self.drain_delay.unsigned_abs();
        Config {
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
            backups,
        }
    }
}

/// Installs the handlers of signals. The returned future completes at the first signal to shut
/// down; a second one ends the process and deletes the folder of the demo.
fn shutdown_signal(demo_directory: Option<PathBuf>) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = interrupt::hangup()?;
    let mut stop = async move || {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            () = interrupt::next(&mut hangup) => "SIGHUP",
        };
        // A closed terminal may send it twice, through the kernel and through the shell.
        hangup = None;
        signal
    };
    Ok(async move {
        let signal = stop().await;
        if stderr_is_terminal() {
            status!("Shutting down: finishing requests in flight. Press Ctrl-C again to stop now.");
        } else {
            tracing::info!(signal, "shutting down");
        }
        tokio::spawn(async move {
            stop().await;
            // The process ends here, so nothing else deletes it.
            let _ = demo_directory.map(fs::remove_dir_all);
            process::exit(1);
        });
    })
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

/// Returns the number of connections that the limit on open files allows.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit.saturating_sub(RESERVED_DESCRIPTORS))
        .unwrap_or(usize::MAX)
        .max(1)
}
