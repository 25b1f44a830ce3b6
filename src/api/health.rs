//! Liveness and readiness probes. Neither needs an API key.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, header};
use serde_json::json;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::{error::ApiError, response};
use crate::{server::Response, store::Store};

/// How long the store may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a result is reused: a probe costs a commit.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

pub struct Health {
    store: Arc<Store>,
    draining: AtomicBool,
    store_probe: SharedProbe,
}

impl Health {
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            store,
            draining: AtomicBool::new(false),
            store_probe: SharedProbe::new(PROBE_INTERVAL),
        }
    }

    /// From now on the service is not ready, so that load balancers send
    /// requests elsewhere.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether this is the path of a probe.
    pub fn is_probe(path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz")
    }

    /// The response to a probe, for listeners beside the API.
    pub async fn probe(&self, path: &str) -> Response {
        match path {
            "/healthz" => self.live(),
            _ => self.ready().await.unwrap_or_else(|error| error.response()),
        }
    }

    /// The process responds.
    pub fn live(&self) -> Response {
        status("alive")
    }

    /// The store can be read and written, and the service is not draining.
    pub async fn ready(&self) -> Result<Response, ApiError> {
        if self.draining.load(Ordering::Relaxed) {
            let message = "the service is shutting down";
            return Err(ApiError::Unavailable(message, Arc::new(Draining)));
        }
        let store = self.store.clone();
        let probe = async move {
            match timeout(PROBE_TIMEOUT, store.ping()).await {
                Ok(result) => result.map_err(ApiError::from),
                Err(elapsed) => {
                    let message = "the database does not respond";
                    Err(ApiError::Unavailable(message, Arc::new(elapsed)))
                }
            }
        };
        self.store_probe.result(probe).await?;
        Ok(status("ready"))
    }
}

/// Probes one at a time, each shared by all who asked before it started: however
/// many ask while a probe is in flight, they wait for it and one more.
struct SharedProbe {
    /// How long a result is reused.
    interval: Duration,
    /// When the last probe started, and its result. Locked while one is in flight.
    last: Arc<Mutex<Option<(Instant, ProbeResult)>>>,
}

type ProbeResult = Result<(), ApiError>;

impl SharedProbe {
    fn new(interval: Duration) -> Self {
        let last = Arc::default();
        Self { interval, last }
    }

    /// The result of a probe that started after this call, or within the interval
    /// before it.
    async fn result(
        &self,
        probe: impl Future<Output = ProbeResult> + Send + 'static,
    ) -> ProbeResult {
        let asked = Instant::now();
        let mut last = self.last.clone().lock_owned().await;
        if let Some((started, result)) = &*last
            && (*started >= asked || asked - *started < self.interval)
        {
            return result.clone();
        }
        // A task of its own: a client that disconnects must not cancel what others
        // wait for.
        let probe = tokio::spawn(async move {
            let started = Instant::now();
            let result = probe.await;
            last.insert((started, result)).1.clone()
        });
        probe
            .await
            .unwrap_or_else(|panic| Err(ApiError::Internal(Arc::new(panic))))
    }
}

fn status(status: &str) -> Response {
    let mut response = response::json(&json!({"status": status}));
    let no_store = HeaderValue::from_static("no-store");
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, no_store);
    response
}

#[derive(Debug, thiserror::Error)]
#[error("the service is shutting down")]
struct Draining;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::{FutureExt, future::join_all};
    use tokio::sync::Semaphore;

    use super::*;

    /// Probes that end when they are allowed to, and return their number.
    struct Probes {
        shared: SharedProbe,
        started: Arc<AtomicUsize>,
        may_end: Arc<Semaphore>,
    }

    impl Probes {
        fn new(interval: Duration) -> Self {
            Self {
                shared: SharedProbe::new(interval),
                started: Arc::default(),
                may_end: Arc::new(Semaphore::new(0)),
            }
        }

        async fn ask(&self) -> &'static str {
            let (started, may_end) = (self.started.clone(), self.may_end.clone());
            let probe = async move {
                let number = started.fetch_add(1, Ordering::Relaxed);
                may_end.acquire().await.unwrap().forget();
                Err(ApiError::NotFound(
                    ["first", "second", "later"][number.min(2)],
                ))
            };
            match self.shared.result(probe).await {
                Err(ApiError::NotFound(number)) => number,
                other => panic!("{other:?}"),
            }
        }

        async fn wait_until_started(&self, count: usize) {
            while self.started.load(Ordering::Relaxed) < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn all_who_ask_during_a_probe_share_the_next_one() {
        let probes = Probes::new(Duration::ZERO);
        let late = async {
            probes.wait_until_started(1).await;
            join_all((0..20).map(|_| probes.ask())).await
        };
        let release = async {
            probes.wait_until_started(1).await;
            tokio::task::yield_now().await;
            probes.may_end.add_permits(100);
        };
        let (first, late, ()) = tokio::join!(probes.ask(), late, release);
        assert_eq!((first, late), ("first", vec!["second"; 20]));
        assert_eq!(probes.started.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_probe_outlives_the_client_that_started_it() {
        let probes = Probes::new(Duration::MAX);
        assert_eq!(probes.ask().now_or_never(), None);
        probes.wait_until_started(1).await;
        probes.may_end.add_permits(1);
        assert_eq!(probes.ask().await, "first");
    }

    #[tokio::test]
    async fn a_recent_result_is_reused() {
        for (interval, last) in [(Duration::MAX, "first"), (Duration::ZERO, "second")] {
            let probes = Probes::new(interval);
            probes.may_end.add_permits(2);
            assert_eq!(probes.ask().await, "first");
            assert_eq!(probes.ask().await, last);
        }
    }
}
