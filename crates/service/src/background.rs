//! Background tasks: the periodic work of the service, outside requests.

mod tasks;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{task::JoinSet, time::timeout};

use api::Api;
use domain::event::EventRetention;
use import_socket::ImportServer;
use server::Tls;
use store::Store;

/// The delay before a task that ended or panicked is restarted.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The time that imports have at shutdown to finish the writes that they have started: longer
/// than a write waits for the disk.
const IMPORT_DRAIN_TIMEOUT: Duration = Duration::from_secs(15);

/// Starts all background tasks.
pub(crate) fn start(
    store: &Arc<Store>,
    api: &Api,
    imports: ImportServer,
    tls: Option<&Arc<Tls>>,
    event_retention: EventRetention,
) -> Supervisor {
    let mut supervisor = Supervisor {
        tasks: JoinSet::new(),
        imports: Arc::new(imports),
    };
    supervisor.spawn("refresh_api_keys", api.keys(), tasks::refresh_api_keys);
    supervisor.spawn(
        "flush_api_key_usage",
        api.keys(),
        tasks::flush_api_key_usage,
    );
    supervisor.spawn("expire_orders", store, tasks::expire_orders);
    supervisor.spawn(
        "purge_idempotency_keys",
        store,
        tasks::purge_idempotency_keys,
    );
    supervisor.spawn(
        "purge_events",
        &(store.clone(), api.event_feed.clone(), event_retention),
        tasks::purge_events,
    );
    supervisor.spawn(
        "purge_deliveries",
        &(store.clone(), event_retention),
        tasks::purge_deliveries,
    );
    supervisor.spawn(
        "purge_deleted_pets",
        &(store.clone(), event_retention),
        tasks::purge_deleted_pets,
    );
    supervisor.spawn("purge_photos", store, tasks::purge_photos);
    supervisor.spawn("purge_imports", store, tasks::purge_imports);
    supervisor.spawn("record_open_time", store, tasks::record_open_time);
    let imports = supervisor.imports.clone();
    supervisor.spawn("accept_imports", &imports, tasks::accept_imports);
    supervisor.spawn("poll_event_log", store, tasks::poll_event_log);
    supervisor.spawn(
        "cache_newest_events",
        &api.event_tail,
        tasks::cache_newest_events,
    );
    supervisor.spawn("deliver_webhooks", &api.dispatcher, tasks::deliver_webhooks);
    supervisor.spawn(
        "report_shed_requests",
        &api.metrics,
        tasks::report_shed_requests,
    );
    if let Some(tls) = tls {
        supervisor.spawn("reload_certificate", tls, tasks::reload_certificate);
    }
    supervisor
}

/// Runs named tasks that never end, and restarts one that panics or ends nevertheless. Dropping
/// it aborts them.
pub(crate) struct Supervisor {
    tasks: JoinSet<()>,
    imports: Arc<ImportServer>,
}

type StartTask = dyn Fn() -> BoxFuture<'static, ()> + Send + Sync;

impl Supervisor {
    /// Spawns a task. Each run of it gets a clone of `state`.
    fn spawn<S, F>(&mut self, name: &'static str, state: &S, task: fn(S) -> F)
    where
        S: Clone + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let state = state.clone();
        self.supervise(name, Box::new(move || Box::pin(task(state.clone()))));
    }

    fn supervise(&mut self, name: &'static str, start: Box<StartTask>) {
        self.tasks.spawn(async move {
            loop {
                let outcome = AssertUnwindSafe(start()).catch_unwind().await;
                let message = match outcome {
                    Ok(()) => "background task ended",
                    Err(_) => "background task panicked",
                };
                tracing::error!(task = name, restart_in = ?RESTART_DELAY, "{message}");
                tokio::time::sleep(RESTART_DELAY).await;
            }
        });
    }

    /// Drains imports, aborts all tasks and waits for them to end.
    pub async fn shutdown(mut self) {
        let _ = timeout(IMPORT_DRAIN_TIMEOUT, self.imports.shutdown()).await;
        self.tasks.shutdown().await;
    }
}
