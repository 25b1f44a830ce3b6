//! Liveness and readiness probes. Neither needs an API key.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{error::ApiError, response};
use server::Response;
use single_flight::SingleFlight;
use store::Store;

/// The maximum duration of a probe of the store.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);
/// The time for which a result is reused: a probe costs a commit.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

pub struct Health {
    store: Arc<Store>,
    draining: CancellationToken,
    store_probe: SingleFlight<Result<(), ApiError>>,
}

impl Health {
    /// Creates the health checks. Once `draining` is cancelled, the service is not ready, so that
    /// load balancers send requests elsewhere.
    pub fn new(store: Arc<Store>, draining: CancellationToken) -> Self {
        Self {
            store,
            draining,
            store_probe: SingleFlight::reusing(PROBE_INTERVAL),
        }
    }

    /// Returns true if this is the path of a probe.
    pub fn is_probe(path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz")
    }

    /// Responds to a probe, for listeners beside the API.
    pub async fn probe(&self, path: &str) -> Response {
        match path {
            "/healthz" => self.live(),
            _ => self.ready().await.unwrap_or_else(|error| error.response()),
        }
    }

    /// Responds that the process is alive.
    pub fn live(&self) -> Response {
        status("alive")
    }

    /// Responds successfully if the store can be read and written and the service is not
    /// draining.
    pub async fn ready(&self) -> Result<Response, ApiError> {
        if self.draining.is_cancelled() {
            return Err(ApiError::ShuttingDown("the service is shutting down"));
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
        let probed = self.store_probe.spawn(|| probe).await;
        probed.unwrap_or_else(|panic| Err(ApiError::Internal(Arc::new(panic))))?;
        // A failure of the store counts immediately, even if the last probe succeeded.
        match self.store.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(status("ready")),
        }
    }
}

fn status(status: &str) -> Response {
    response::no_store(response::json(&json!({"status": status})))
}
