//! Liveness and readiness probes. Neither needs an API key.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{error::ApiError, response};
use backups::Status;
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
    backups: Option<Arc<Status>>,
}

/// The readers of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Audience {
    /// Everyone who can reach the service. They are not told how many animals there are, or the
    /// paths in an error.
    Public,
    /// Those who can read the metrics.
    Operators,
}

impl Health {
    /// Creates the health checks. Once `draining` is cancelled, the service is not ready, so that
    /// load balancers send requests elsewhere.
    pub fn new(
        store: Arc<Store>,
        draining: CancellationToken,
        backups: Option<Arc<Status>>,
    ) -> Self {
        Self {
            store,
            draining,
            store_probe: SingleFlight::reusing(PROBE_INTERVAL),
            backups,
        }
    }

    /// Returns true if this is the path of a probe.
    pub fn is_probe(path: &str) -> bool {
        matches!(path, "/healthz" | "/readyz")
    }

    /// Responds to a probe on the metrics listener, with all details.
    pub async fn probe(&self, path: &str) -> Response {
        match path {
            "/healthz" => self.live(),
            _ => self
                .ready_for(Audience::Operators)
                .await
                .unwrap_or_else(|error| error.response()),
        }
    }

    /// Responds that the process is alive.
    pub fn live(&self) -> Response {
        respond(&json!({"status": "alive"}))
    }

    /// Responds successfully if the store can be read and written and the service is not
    /// draining.
    pub async fn ready(&self) -> Result<Response, ApiError> {
        self.ready_for(Audience::Public).await
    }

    async fn ready_for(&self, audience: Audience) -> Result<Response, ApiError> {
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
            None => Ok(self.ready_response(audience)),
        }
    }

    /// A late backup does not make the service unready: sending requests elsewhere would not help.
    fn ready_response(&self, audience: Audience) -> Response {
        let mut body = json!({"status": "ready"});
        if let Some(status) = &self.backups {
            body["backups"] = backups(status, audience);
        }
        respond(&body)
    }
}

fn backups(status: &Status, audience: Audience) -> Value {
    let now = Timestamp::now();
    let destinations = status.destinations().into_iter();
    let details = destinations.map(|it| {
        let newest = it.newest.as_ref();
        let mut details = json!({
            "destination": it.destination.to_string(),
            "newestAt": newest.map(|newest| newest.name.time),
            "isLate": status.is_late(&it, now),
            "consecutiveFailures": it.consecutive_failures,
        });
        if audience == Audience::Operators {
            let age = newest.map(|newest| now.duration_since(newest.name.time).as_secs());
            details["ageSeconds"] = json!(age.map(|age| age.max(0)));
            details["bytes"] = json!(newest.map(|newest| newest.bytes));
            details["pets"] = json!(newest.map(|newest| newest.name.pets));
            details["file"] = json!(newest.map(|newest| newest.name.to_string()));
            details["lastError"] = json!(it.last_error);
        }
        details
    });
    details.collect()
}

fn respond(body: &Value) -> Response {
    response::no_store(response::json(body))
}
