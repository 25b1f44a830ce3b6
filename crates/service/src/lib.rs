//! The running service: store, API, transport and background tasks, wired
//! together.

mod background;
mod metrics;

use std::{io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use api::{Api, PublicUrl, Scheme};
use domain::event::EventRetention;
use import_socket::ImportServer;
use metrics::MetricsEndpoint;
use server::{Server, Tls};
use store::Store;

/// The time limit, at shutdown, of each of three steps: saving the progress of webhooks, the
/// usage of API keys, and the time at which the store was last open.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Default)]
pub struct Config {
    pub api: api::Config,
    pub server: server::Limits,
    pub event_retention: EventRetention,
    /// Encrypts the API's connections; the metrics listener stays plain HTTP.
    pub tls: Option<Arc<Tls>>,
}

pub struct Listeners {
    pub api: TcpListener,
    /// For Prometheus and health checks. It needs no API key, so clients must not
    /// reach it.
    pub metrics: Option<TcpListener>,
}

/// Serves until `shutdown` completes, drains, then closes the store.
pub fn run(
    listeners: Listeners,
    store: Store,
    config: Config,
    shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(serve(listeners, store, config, shutdown))
}

async fn serve(
    listeners: Listeners,
    store: Store,
    config: Config,
    shutdown: BoxFuture<'static, ()>,
) -> io::Result<()> {
    let Config {
        api: api_config,
        server: limits,
        event_retention,
        tls,
    } = config;
    let store = Arc::new(store);
    let scheme = Scheme::new(tls.is_some());
    let address = listeners.api.local_addr()?;
    let public_url = api_config.public_url.clone();
    let url = public_url.unwrap_or_else(|| PublicUrl::local(scheme, address));
    let api = Arc::new(Api::new(store.clone(), api_config, scheme, address));
    let imports = ImportServer::new(store.clone(), &url.to_string());
    let tasks = background::start(&store, &api, imports, tls.as_ref(), event_retention);
    let server = Server {
        service: api.clone(),
        limits,
        tls,
        metrics: Arc::default(),
    };

    let stop_metrics = CancellationToken::new();
    let metrics_server = listeners.metrics.map(|listener| {
        let endpoint = MetricsEndpoint {
            api: api.clone(),
            store: store.clone(),
            server: server.metrics.clone(),
        };
        let stop = stop_metrics.clone().cancelled_owned();
        let run = endpoint.into_server(&server.limits).run(listener, stop);
        AbortOnDropHandle::new(tokio::spawn(run))
    });

    let shutdown = async {
        shutdown.await;
        api.start_draining();
    };
    server.run(listeners.api, shutdown).await;

    stop_metrics.cancel();
    if let Some(server) = metrics_server {
        let _ = server.await;
    }
    // The database may be unreachable; that must not block the shutdown.
    let _ = timeout(FLUSH_TIMEOUT, api.dispatcher.shutdown()).await;
    tasks.shutdown().await;
    let _ = timeout(FLUSH_TIMEOUT, api.keys().flush_usage()).await;
    let _ = timeout(FLUSH_TIMEOUT, store.record_open_time()).await;
    store.close().await;
    Ok(())
}
